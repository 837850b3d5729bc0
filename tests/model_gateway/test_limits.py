"""Limits of a trial end an agent, and only its own calls count against them."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_harbor.errors import OptionError
from pytest_harbor.model_gateway.limits import SessionLimits
from pytest_harbor.model_gateway.prices import Prices
from pytest_harbor.task.network import network_policy
from tests.model_server import Turn

ERRORS = {
    "chat": lambda body: body["error"]["code"] == "harbor_limit_reached",
    "responses": lambda body: body["error"]["type"] == "invalid_request_error",
    "messages": lambda body: (
        (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    ),
    "generate": lambda body: body["error"]["status"] == "INVALID_ARGUMENT",
}


@pytest.mark.parametrize("operation", ERRORS)
def test_calls_beyond_the_limit_get_an_answer_that_looks_final(rig, operation):
    r = rig(limits=SessionLimits(max_calls=2))
    assert [r.call(operation).status_code for _ in range(3)] == [200, 200, 400]
    refused = r.call(operation)
    assert ERRORS[operation](refused.json())
    assert "limit of 2 model calls" in refused.json()["error"]["message"]
    assert refused.headers["x-should-retry"] == "false"
    assert len(r.model.calls) == 2


def test_the_agent_is_stopped_from_outside_once(rig):
    r = rig(limits=SessionLimits(max_calls=1))
    r.call()
    assert r.limits_hit == []  # it may have had enough
    r.call()
    r.call()
    assert r.limit_event.wait(10)
    assert r.limits_hit == ["limit of 1 model calls"]
    assert r.session.verdict().kind == "limit"


def test_what_the_provider_refused_does_not_count(rig):
    r = rig(
        Turn.rate_limit(), Turn(status=529), Turn(status=500), limits=SessionLimits(max_calls=1)
    )
    assert [r.call().status_code for _ in range(5)] == [429, 529, 500, 200, 400]


def test_calls_at_once_share_the_limit(rig):
    r = rig(default=Turn(text="a b", pause_sec=0.05), limits=SessionLimits(max_calls=3))
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: r.call("messages", stream=True).status_code, range(8)))
    assert sorted(statuses) == [200] * 3 + [400] * 5


def test_a_call_that_waits_goes_on_when_the_one_before_was_refused(rig):
    def refuse_late(body):
        return Turn(status=429)

    r = rig(refuse_late, Turn(text="x"), limits=SessionLimits(max_calls=1))
    with ThreadPoolExecutor(2) as pool:
        statuses = list(pool.map(lambda _: r.call("messages").status_code, range(2)))
    assert sorted(statuses) == [200, 429]


def test_tokens_are_limited(rig):
    r = rig(limits=SessionLimits(max_tokens=200))  # 120 a call
    assert [r.call().status_code for _ in range(3)] == [200, 200, 400]


def test_an_agent_that_never_waits_for_the_counts_is_limited_all_the_same(rig):
    long = "word " * 400
    r = rig(default=Turn(text=long, fault="cut"), limits=SessionLimits(max_tokens=300))
    with pytest.raises(OSError, match=r".*"):
        r.call("chat", stream=True)
    assert r.call("chat").status_code == 400


def test_the_cost_is_limited(rig):
    # 60 fresh, 40 cached, 20 out: 60 + 20 + 40 millionths a call
    r = rig(limits=SessionLimits(max_cost_usd=0.0002))
    assert [r.call().status_code for _ in range(3)] == [200, 200, 400]


def test_a_cost_that_is_never_told_is_limited_all_the_same(rig):
    r = rig(default=Turn(text="word " * 400, fault="cut"), limits=SessionLimits(max_cost_usd=1e-4))
    with pytest.raises(OSError, match=r".*"):
        r.call("chat", stream=True)
    assert r.session.usage.cost_usd is None
    assert r.call("chat").status_code == 400


def test_a_model_without_a_price_is_refused_where_the_cost_is_limited(rig):
    r = rig(limits=SessionLimits(max_cost_usd=1))
    refused = r.call("chat", model="dear")
    assert refused.status_code == 400
    assert "no price is known for 'dear'" in refused.json()["error"]["message"]
    assert r.limits_hit == []


def test_a_cost_limit_without_a_price_is_an_error_before_anything_runs(rig):
    with pytest.raises(OptionError, match=r"no price is known for scripted/m"):
        rig(limits=SessionLimits(max_cost_usd=1), prices=Prices())


def test_models_may_be_limited_by_name(rig):
    r = rig(limits=SessionLimits(models=("claude-*",)))
    assert r.call("messages", model="claude-x").status_code == 200
    assert r.call("messages", model="other").status_code == 403


def test_two_names_in_one_body_do_not_get_past_a_limit_by_name(rig):
    r = rig(limits=SessionLimits(models=("m",)), policy=network_policy("public"))
    r.post("/v1/messages", b'{"model": "dear", "model": "m", "messages": []}')
    assert r.model.calls[0].body["model"] == "m"


@pytest.mark.parametrize("limits", [{"max_calls": 0}, {"max_tokens": -1}, {"max_cost_usd": 0.0}])
def test_a_limit_of_nothing_is_an_error(limits):
    with pytest.raises(OptionError, match="expected a number above 0"):
        SessionLimits(**limits)


def test_a_limit_that_an_earlier_step_reached_ends_the_next_ones_agent_too(rig):
    r = rig(limits=SessionLimits(max_calls=1))
    r.call()
    r.call()
    assert r.limit_event.wait(10)
    r.limit_event.clear()
    r.session.begin_work(r.session.policy)
    assert r.call().status_code == 400
    assert r.limit_event.wait(10)
    assert r.session.verdict().kind == "limit"
