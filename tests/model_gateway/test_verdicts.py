"""What the calls say of the agent's work, whatever its exit status was."""

import pytest

from pytest_harbor.model_gateway.call import CallSummary
from pytest_harbor.model_gateway.verdict import judge
from tests.model_server import Turn

OPERATIONS = ["chat", "responses", "messages", "stream"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_agent_that_was_answered_has_worked(rig, operation):
    r = rig(Turn.tool("bash", command="ls"), Turn(text="done"))
    r.call(operation, stream=True)
    r.call(operation, stream=True)
    verdict = r.session.verdict()
    assert (verdict.kind, verdict.is_unable) == ("worked", False)


def test_an_agent_that_never_called_was_unable(rig):
    verdict = rig().session.verdict()
    assert (verdict.kind, verdict.is_unable) == ("never_called", True)


def test_an_agent_that_only_asked_for_what_is_refused_never_called(rig):
    r = rig()
    r.post("/v1/files", {})
    verdict = r.session.verdict()
    assert verdict.kind == "never_called"
    assert "POST /v1/files" in verdict.reason


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (401, "AgentAuthenticationError"),
        (403, "AgentAuthenticationError"),
        (404, "ModelNotFoundError"),
        (429, "ApiRateLimitError"),
        (500, "ApiInternalServerError"),
        (529, "ApiOverloadedError"),
    ],
)
def test_a_refusal_at_the_end_is_not_the_agents_lack_of_skill(rig, status, fault):
    r = rig(Turn.tool("bash", command="ls"), default=Turn(status=status))
    r.call("messages")
    assert r.call("messages").status_code == status
    verdict = r.session.verdict()
    assert (verdict.kind, verdict.fault) == ("provider_failed", fault)
    assert verdict.is_unable
    assert str(status) in verdict.reason
    assert r.session.usage.calls == 1
    assert r.session.usage.refused_calls == 1


def test_a_refusal_that_was_got_over_is_forgotten(rig):
    r = rig(Turn.rate_limit(), Turn(status=529), Turn(text="done"))
    for _ in range(3):
        r.call("messages")
    assert r.session.verdict().kind == "worked"
    assert r.session.usage.calls == 1


def test_a_request_that_is_wrong_is_the_agents_doing(rig):
    r = rig(Turn.tool("bash"), Turn(status=400, error="prompt is too long"))
    r.call("messages")
    r.call("messages")
    assert r.session.verdict().kind == "worked"


def test_a_balance_that_is_used_up_is_not(rig):
    r = rig(Turn(status=400, error="Your credit balance is too low"))
    r.call("messages")
    assert r.session.verdict().fault == "ApiUsageLimitError"


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("early_end", "cut"),
        ("error_event", "error_event"),
        ("malformed", "malformed"),
        ("html", "not_json"),
    ],
)
def test_a_broken_answer_at_the_end_was_not_the_agent(rig, operation, fault, outcome):
    r = rig(Turn(text="a b c d e f", fault=fault))
    assert r.call(operation, stream=True).status_code == 200
    assert r.lines()[0]["outcome"] == outcome
    verdict = r.session.verdict()
    assert (verdict.kind, verdict.is_unable) == ("provider_failed", True)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_cut_stream_was_not_the_agent(rig, operation):
    r = rig(Turn(text="a b c d e f", fault="cut"))
    with pytest.raises(OSError, match=r".*"):
        r.call(operation, stream=True)
    assert r.session.verdict().fault == "ApiConnectionClosedError"


def test_a_provider_out_of_reach_was_not_the_agent(rig):
    r = rig(root="http://127.0.0.1:1")
    r.call("messages")
    assert r.session.verdict().fault == "NetworkConnectionError"
    assert r.session.usage.refused_calls == 1


# -- side calls -------------------------------------------------------------------

MAIN = {"model": "big", "conversation": "a"}
TOOL = CallSummary("ok", 200, asks_for_tool=True, **MAIN)
FINISHED = CallSummary("ok", 200, **MAIN)


@pytest.mark.parametrize("other", [{"model": "small"}, {"conversation": "b"}])
def test_a_side_call_that_fails_after_the_work_spoils_nothing(other):
    failed = CallSummary("refused", 529, **{**MAIN, **other})
    assert judge([TOOL, FINISHED, failed]).kind == "worked"


@pytest.mark.parametrize("other", [{"model": "small"}, {"conversation": "b"}])
def test_a_call_that_fails_while_a_tool_is_asked_for_broke_the_work_off(other):
    failed = CallSummary("refused", 529, **{**MAIN, **other})
    assert judge([TOOL, failed]).is_unable


def test_a_conversation_that_goes_on_and_fails_was_not_finished():
    assert judge([TOOL, FINISHED, CallSummary("refused", 529, **MAIN)]).is_unable


def test_an_agent_without_tools_is_never_known_to_have_finished():
    assert judge([FINISHED, CallSummary("cut", 200, model="small")]).is_unable


def test_a_call_that_the_agent_gave_up_decides_nothing():
    gone = CallSummary("client_gone", 200, **MAIN)
    assert judge([TOOL, CallSummary("refused", 401, **MAIN), gone]).is_unable
    assert judge([TOOL, gone]).kind == "worked"


def test_a_limit_leaves_an_honest_reward():
    verdict = judge([TOOL, CallSummary("limit", 400, **MAIN)], "limit of 1 model calls")
    assert (verdict.kind, verdict.is_unable) == ("limit", False)
    assert "limit of 1 model calls" in verdict.reason
