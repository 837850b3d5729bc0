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


# -- words, where the status tells nothing -----------------------------------------


@pytest.mark.parametrize(
    ("status", "error", "fault"),
    [
        (400, "API key not valid. Please pass a valid API key.", "AgentAuthenticationError"),
        (400, "Incorrect API key provided: ab***cd", "AgentAuthenticationError"),
        (400, "This organization has been disabled.", "AgentAuthenticationError"),
        (400, "User location is not supported for the API use.", "AgentAuthenticationError"),
        (400, "The requested model 'gpt-9' does not exist.", "ModelNotFoundError"),
        (400, "some/thing is not a valid model ID", "ModelNotFoundError"),
        (422, "Invalid model: large", "ModelNotFoundError"),
        (400, "The model gpt-9 is not supported when using this account", "ModelNotFoundError"),
        (400, "You have reached your specified API usage limits.", "ApiUsageLimitError"),
        (429, "You exceeded your current quota", "ApiUsageLimitError"),
    ],
)
@pytest.mark.parametrize("before", [[], [CallSummary("ok", 200)]])
def test_what_the_user_has_set_is_not_the_agents_doing(status, error, fault, before):
    verdict = judge([*before, CallSummary("refused", status, error=error)])
    assert (verdict.is_unable, verdict.fault) == (True, fault)
    assert error in verdict.reason


@pytest.mark.parametrize("before", [[], [CallSummary("ok", 200)]])
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, "This model's maximum context length is 8192 tokens"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (413, "Request exceeds the maximum size"),
        (400, "Your request was rejected by the safety system"),
        (403, "Your chosen model requires moderation and your input was flagged"),
    ],
)
def test_a_request_that_no_model_would_answer_is_the_agents(before, status, error):
    assert judge([*before, CallSummary("refused", status, error=error)]).kind == "worked"


def test_a_parameter_that_a_model_does_not_take_is_the_agents_doing():
    error = "With this model, tool_choice 'required' is not supported"
    calls = [CallSummary("ok", 200), CallSummary("refused", 400, error=error)]
    assert judge(calls).kind == "worked"


def test_a_context_that_is_full_is_the_agents_within_a_stream_too():
    error = "context_length_exceeded: Your input exceeds the context window of this model"
    assert judge([CallSummary("error_event", 200, error=error)]).kind == "worked"


@pytest.mark.parametrize("status", [400, 409, 422])
def test_a_provider_that_takes_no_request_at_all_was_not_the_agent(status):
    refused = CallSummary("refused", status, error="Unsupported parameter: 'max_tokens'")
    assert judge([refused, refused]).is_unable
    assert judge([CallSummary("ok", 200), refused]).kind == "worked"


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        ("overloaded_error: Overloaded", "ApiOverloadedError"),
        ("rate_limit_exceeded: slow down", "ApiRateLimitError"),
        ("server_error: The server had an error", "ApiInternalServerError"),
        ("insufficient_quota: no credit", "ApiUsageLimitError"),
    ],
)
def test_an_error_within_a_stream_is_named_by_its_words(error, fault):
    assert judge([CallSummary("error_event", 200, error=error)]).fault == fault


def test_a_provider_that_never_answers_was_not_the_agent():
    waited = CallSummary("client_gone", duration_sec=600.0)
    verdict = judge([waited, waited])
    assert (verdict.is_unable, verdict.fault) == (True, "ApiResponseStalledError")
    assert judge([CallSummary("client_gone", duration_sec=1.0)]).kind == "worked"
    assert judge([CallSummary("client_gone", 200, duration_sec=600.0)]).kind == "worked"


# -- words that the request holds ---------------------------------------------------

PHRASES = ["incorrect api key", "usage limit", "Invalid model", "model x does not exist"]
ECHOES = ["Unsupported value: '{}'.", "tool type {} is not supported", "{} is unknown"]


@pytest.mark.parametrize("operation", ["chat", "responses", "messages", "generate"])
@pytest.mark.parametrize("phrase", [*PHRASES, "model foo", "location"])
@pytest.mark.parametrize("echo", ECHOES)
def test_what_a_provider_repeats_of_a_request_is_no_fault_of_the_settings(
    rig, operation, phrase, echo
):
    r = rig(Turn.tool("bash"), Turn(status=400, error=echo.format(phrase)))
    r.call(operation)
    r.call(operation, tools=[{"type": phrase.title()}, {phrase: {}}])
    assert r.session.verdict().kind == "worked"


def test_neither_is_what_stands_in_a_header_or_twice_in_an_object(rig):
    refusal = Turn(status=400, error="Unexpected value(s) `invalid api key` for anthropic-beta")
    r = rig(Turn.tool("bash"), refusal)
    r.call("messages")
    body = {"model": "m", "max_tokens": 9, "messages": []}
    r.post("/v1/messages", body, **{"anthropic-beta": "invalid api key"})
    assert r.session.verdict().kind == "worked"

    r = rig(Turn.tool("bash"), refusal)
    r.call("messages")
    body = b'{"model": "m", "system": "invalid \\u0061pi key", "system": "", "messages": []}'
    r.post("/v1/messages", body)
    assert r.session.verdict().kind == "worked"


@pytest.mark.parametrize(
    "content",
    ["hi", "the credit of this account, its balance and the API usage, and a limit of it"],
)
@pytest.mark.parametrize(
    "error",
    [
        "Your credit balance is too low to access the Anthropic API.",
        "You have reached your specified API usage limits.",
    ],
)
def test_what_a_provider_says_itself_counts_whatever_was_asked(rig, content, error):
    r = rig(Turn.tool("bash"), Turn(status=400, error=error))
    r.call("messages")
    r.call("messages", messages=[{"role": "user", "content": content}])
    assert r.session.verdict().fault == "ApiUsageLimitError"


def test_a_code_is_the_providers_word_whatever_was_asked(rig):
    r = rig(Turn.tool("bash"), Turn(status=400, error="no", code="insufficient_quota"))
    r.call("chat")
    r.call("chat", messages=[{"role": "user", "content": "insufficient_quota"}])
    assert r.session.verdict().fault == "ApiUsageLimitError"


def test_a_model_that_never_answered_may_be_wrong_whatever_was_asked(rig):
    r = rig(Turn(text="A title"), Turn(status=400, error="Model Not Exist"))
    r.call("chat", model="small")
    asked = [{"role": "user", "content": "files that do not exist, a model not exist"}]
    r.call("chat", messages=asked)
    assert r.session.verdict().fault == "ModelNotFoundError"


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


@pytest.mark.parametrize("named", ["big", "provider/big"])
@pytest.mark.parametrize("status", [400, 402, 403, 404, 429, 500])
@pytest.mark.parametrize("name", ["nope", "usage limit", "api key invalid"])
def test_an_agent_has_no_refusal_of_another_model_to_excuse_it(named, status, name):
    refused = CallSummary("refused", status, model=name, error=f"model: {name} not found")
    assert judge([TOOL, refused, refused], model=named).kind == "worked"
    assert judge([refused, TOOL, refused], model=named).kind == "worked"


def test_a_part_of_the_models_name_is_another_model():
    answered = CallSummary("ok", 200, model="maker/big", conversation="a", asks_for_tool=True)
    refused = CallSummary("refused", 404, **MAIN)
    assert judge([answered, refused], model="provider/maker/big").kind == "worked"


def test_a_refusal_of_the_trials_own_model_counts_whatever_else_was_answered():
    title = CallSummary("ok", 200, model="small", conversation="b")
    refused = CallSummary("refused", 404, **MAIN)
    for calls in ([title, refused], [TOOL, refused], [TOOL, title, refused]):
        assert judge(calls, model="provider/big").fault == "ModelNotFoundError"


def test_a_fault_is_not_named_by_the_name_that_was_asked_for():
    refused = CallSummary("refused", 404, model="Usage Limit", error="model: usage limit not found")
    assert judge([refused]).fault == "ModelNotFoundError"
    refused = CallSummary("refused", 400, model="usage limit", error="usage limit: bad request")
    assert judge([TOOL, refused]).kind == "worked"


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


def test_a_title_that_comes_late_tells_nothing_of_the_work():
    cut = CallSummary("cut", 200, offers_tools=True, **MAIN)
    title = CallSummary("ok", 200, model="small", conversation="b")
    assert judge([cut, title]).is_unable
    assert judge([CallSummary("ok", 200, offers_tools=True, **MAIN), title]).kind == "worked"


def test_a_conversation_that_goes_on_without_tools_got_over_a_failure():
    cut = CallSummary("cut", 200, offers_tools=True, **MAIN)
    assert judge([cut, CallSummary("ok", 200, **MAIN)]).kind == "worked"


def test_whether_a_call_offers_tools_is_read_from_it(rig):
    r = rig(Turn(text="a b c d", fault="early_end"), Turn(text="A title"))
    tool = {"name": "bash", "description": "d", "input_schema": {"type": "object"}}
    r.call("messages", stream=True, tools=[tool])
    r.call("messages", stream=True, messages=[{"role": "user", "content": "Name it"}])
    assert r.session.verdict().fault == "ApiConnectionClosedError"


# -- steps ------------------------------------------------------------------------


def test_each_step_is_judged_by_its_own_calls(rig):
    r = rig(Turn(status=401), Turn(text="done"))
    r.call("messages")
    assert r.session.verdict().is_unable
    r.session.begin_work(r.session.policy)
    assert r.session.verdict().kind == "never_called"
    r.call("messages")
    assert r.session.verdict().kind == "worked"
