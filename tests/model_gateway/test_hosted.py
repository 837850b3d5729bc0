"""Nothing that a provider runs outside of the box gets past a policy that is not public."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harbor.model_gateway.hosted import UnrestrictableError, restrict
from pytest_harbor.model_gateway.wire import Route, find_route
from pytest_harbor.task.network import network_policy
from tests.model_server import Turn

CLOSED = network_policy("no-network")
EXACT = network_policy("allowlist", ["example.com", "*.example.com", "other.org"])
ROUTES = {
    "chat": Route("openai", "chat", "/chat/completions"),
    "responses": Route("openai", "responses", "/responses"),
    "messages": Route("anthropic", "messages", "/v1/messages"),
    "generate": Route("gemini", "generate", "/v1beta/models/m:generateContent", model="m"),
}
FUNCTION = {"type": "function", "name": "bash", "parameters": {}}
CHAT_FUNCTION = {"type": "function", "function": {"name": "bash"}}
CUSTOM = {"name": "bash", "input_schema": {"type": "object"}}
GEMINI = {"functionDeclarations": [{"name": "bash"}]}


def restricted(operation, body, policy=CLOSED, **options):
    before = copy.deepcopy(body)
    changed, notes = restrict(ROUTES[operation], body, policy, **options)
    assert body == before
    return changed, notes


# -- tools ------------------------------------------------------------------------

LOCAL = [
    ("chat", CHAT_FUNCTION),
    ("chat", {"type": "custom", "custom": {"name": "patch"}}),
    ("responses", FUNCTION),
    ("responses", {"type": "local_shell"}),
    ("responses", {"type": "shell", "environment": {"type": "local"}}),
    ("responses", {"type": "namespace", "name": "n", "tools": [FUNCTION]}),
    ("messages", CUSTOM),
    ("messages", {**CUSTOM, "type": "custom"}),
    ("messages", {"type": "bash_20250124", "name": "bash"}),
    ("messages", {"type": "text_editor_20250728", "name": "edit"}),
    ("generate", GEMINI),
    ("generate", {"function_declarations": [{"name": "bash"}]}),
]
HOSTED = [
    *(
        ("chat", {"type": kind})
        for kind in (
            "web_search",
            "builtin_function",
            "browser_search",
            "retrieval",
            "new",
            "",
            None,
        )
    ),
    ("chat", {"type": "function", "function": {"name": "$web_search"}}),
    ("chat", {"googleSearch": {}}),
    *(
        ("responses", tool)
        for tool in (
            {"type": "web_search", "external_web_access": True},
            {"type": "web_search", "external_web_access": False},
            {"type": "web_search_preview_2025_03_11"},
            {"type": "mcp", "server_url": "https://evil.example"},
            {"type": "code_interpreter", "container": {"type": "auto"}},
            {"type": "file_search", "vector_store_ids": ["v"]},
            {"type": "shell"},
            {"type": "shell", "environment": {"type": "container_auto"}},
            {"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]},
            {"type": "namespace", "tools": [{"type": "namespace", "tools": [{"type": "mcp"}]}]},
            {"type": "image_generation"},
            {"type": "computer_use_hosted"},
            {"type": "Web_Search"},
            {"type": "web_search "},
            {"type": ["function"]},
            "function",
        )
    ),
    *(
        ("messages", tool)
        for tool in (
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "web_fetch_20250910", "name": "web_fetch"},
            {"type": "code_execution_20250825", "name": "code_execution"},
            {"type": "mcp_toolset", "mcp_server_name": "x"},
            {"type": "web_fetch_20260209", "name": "web_fetch"},
            {"type": "advisor_20260301", "name": "advisor"},
            {"type": "bash_20250124_hosted", "name": "bash"},
            {"type": 1, "name": "x"},
            "bash",
        )
    ),
    *(
        ("generate", {name: {}})
        for name in (
            "googleSearch",
            "google_search",
            "googleSearchRetrieval",
            "urlContext",
            "url_context",
            "codeExecution",
            "googleMaps",
            "fileSearch",
            "mcpServers",
            "GOOGLESEARCH",
            "google_Search_Retrieval",
            "retrieval",
        )
    ),
]


@pytest.mark.parametrize(("operation", "tool"), LOCAL)
def test_tools_that_are_local_pass_unchanged(operation, tool):
    body = {"tools": [tool]}
    changed, notes = restricted(operation, body)
    assert changed is body
    assert notes == []


@pytest.mark.parametrize(("operation", "tool"), HOSTED)
def test_tools_that_providers_run_are_removed(operation, tool):
    changed, notes = restricted(operation, {"tools": [tool]})
    assert changed == {}
    assert notes


@pytest.mark.parametrize(("operation", "tool"), HOSTED)
def test_local_tools_beside_them_stay(operation, tool):
    local = {"chat": CHAT_FUNCTION, "responses": FUNCTION, "messages": CUSTOM, "generate": GEMINI}
    changed, _ = restricted(operation, {"tools": [tool, local[operation]]})
    assert changed == {"tools": [local[operation]]}


def test_one_object_of_gemini_can_hold_both():
    changed, _ = restricted("generate", {"tools": [{**GEMINI, "googleSearch": {}}]})
    assert changed == {"tools": [GEMINI]}


@pytest.mark.parametrize(
    ("operation", "tools", "choice"),
    [
        (
            "messages",
            [{"type": "web_search_20250305", "name": "web_search"}, CUSTOM],
            {"type": "tool", "name": "web_search"},
        ),
        ("messages", [{"type": "web_search_20250305", "name": "web_search"}], {"type": "any"}),
        ("responses", [{"type": "web_search"}, FUNCTION], {"type": "web_search"}),
        ("responses", [{"type": "web_search"}], "required"),
        ("responses", [FUNCTION], {"type": "mcp", "server_label": "x"}),
        ("chat", [{"type": "web_search"}], "auto"),
        (
            "chat",
            [{"type": "function", "function": {"name": "$web_search"}}, CHAT_FUNCTION],
            {"type": "function", "function": {"name": "$web_search"}},
        ),
        ("responses", [{"type": "file_search"}, FUNCTION], {"type": "file_search"}),
        ("responses", [{"type": "code_interpreter"}, FUNCTION], {"type": "code_interpreter"}),
        (
            "responses",
            [{"type": "mcp"}, FUNCTION],
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "mcp"}]},
        ),
    ],
)
def test_a_choice_that_names_what_is_gone_goes_too(operation, tools, choice):
    changed, notes = restricted(operation, {"tools": tools, "tool_choice": choice})
    assert "tool_choice" not in changed
    assert "removed tool_choice, which named a removed tool" in notes


@pytest.mark.parametrize(
    ("operation", "tool", "choice"),
    [
        ("messages", CUSTOM, {"type": "tool", "name": "bash"}),
        ("messages", CUSTOM, {"type": "auto", "disable_parallel_tool_use": True}),
        ("responses", FUNCTION, {"type": "function", "name": "bash"}),
        ("responses", FUNCTION, {"type": "allowed_tools", "mode": "auto", "tools": [FUNCTION]}),
        ("chat", CHAT_FUNCTION, "required"),
    ],
)
def test_a_choice_that_still_holds_stays(operation, tool, choice):
    body = {"tools": [tool], "tool_choice": choice}
    assert restricted(operation, body) == (body, [])


def test_an_empty_list_of_tools_leaves_nothing_behind():
    body = {"tools": [{"type": "web_search"}], "parallel_tool_calls": True, "input": "hi"}
    assert restricted("responses", body)[0] == {"input": "hi"}


def test_a_config_of_gemini_without_tools_goes_too():
    body = {
        "tools": [{"googleSearch": {}}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
    }
    assert restricted("generate", body)[0] == {}


def test_code_at_the_provider_may_not_call_a_tool():
    tool = {**CUSTOM, "allowed_callers": ["code_execution_20250825"]}
    assert restricted("messages", {"tools": [tool]})[0] == {"tools": [CUSTOM]}


# -- relatives --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "field"),
    [
        ("messages", "mcp_servers"),
        ("messages", "container"),
        ("chat", "web_search_options"),
        ("chat", "plugins"),
        ("chat", "models"),
        ("chat", "enable_search"),
        ("chat", "search_parameters"),
        ("responses", "prompt"),
        ("responses", "conversation"),
        ("generate", "cachedContent"),
        ("generate", "cached_content"),
    ],
)
def test_fields_that_reach_out_are_removed(operation, field):
    assert restricted(operation, {field: {"a": 1}})[0] == {}


@pytest.mark.parametrize(
    "model",
    [
        "gpt-4o-search-preview",
        "gpt-5-search-api",
        "o3-deep-research",
        "perplexity/sonar-pro",
        "openai/gpt-5:online",
        "groq/compound",
        "compound-beta",
        "@preset/mine",
        "models/aqa",
        "openrouter/auto",
        "grok-4.20-multi-agent",
        ["gpt-4o-search-preview"],
    ],
)
def test_models_that_search_by_themselves_are_refused(model):
    with pytest.raises(UnrestrictableError, match=r"searches the web by itself|not a string"):
        restricted("chat", {"model": model, "messages": []})


PNG = "data:image/png;base64,AAAA"
LOCAL_PARTS = [
    ("chat", {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
    ("chat", {"type": "thinking", "thinking": "let me see"}),
    ("chat", {"type": "image_url", "image_url": {"url": PNG}}),
    ("chat", {"type": "file", "file": {"file_data": "AAAA", "filename": "a.pdf"}}),
    ("chat", {"type": "text", "text": "see https://example.com/a.png"}),
    ("responses", {"type": "input_image", "image_url": PNG}),
    ("responses", {"type": "input_file", "file_data": "data:application/pdf;base64,AA"}),
    ("messages", {"type": "image", "source": {"type": "base64", "data": "AA"}}),
    ("messages", {"type": "tool_use", "id": "a", "name": "x", "input": {"url": "https://a"}}),
    ("messages", {"type": "thinking", "thinking": "a", "signature": "b"}),
    ("generate", {"inlineData": {"mimeType": "image/png", "data": "AA"}}),
    ("generate", {"functionCall": {"name": "x", "args": {"fileUri": "https://a"}}}),
]
URL_PARTS = [
    ("chat", {"type": "image_url", "image_url": {"url": "https://a.example/p.png"}}),
    ("chat", {"type": "image_url", "image_url": "http://a.example/p.png"}),
    ("chat", {"type": "image_url", "image_url": {"url": " data:x"}}),
    ("chat", {"type": "file", "file": {"file_id": "f"}}),
    ("chat", {"type": "file", "file": {"file_data": "https://a.example/p.pdf"}}),
    ("chat", {"type": "video_url", "video_url": {"url": "https://a.example/p"}}),
    ("responses", {"type": "input_image", "image_url": "https://a.example/p.png"}),
    ("responses", {"type": "input_image", "file_id": "f", "image_url": PNG}),
    ("responses", {"type": "input_file", "file_url": "https://a.example/p.pdf"}),
    ("messages", {"type": "image", "source": {"type": "url", "url": "https://a"}}),
    ("messages", {"type": "document", "source": {"type": "file", "file_id": "f"}}),
    ("messages", {"type": "container_upload", "file_id": "f"}),
    (
        "messages",
        {"type": "document", "source": {"type": "content", "content": [{"type": "image"}]}},
    ),
    (
        "chat",
        {"type": "input_audio", "input_audio": {"data": "https://a.example/s", "format": "wav"}},
    ),
    ("chat", {"type": "input_audio", "input_audio": {"data": "a.example/s"}}),
    ("chat", {"type": "file", "file": {"file_data": " " * 200 + "https://a.example/p.pdf"}}),
    ("chat", {"type": "text", "text": "look", "image_url": {"url": "https://a.example/p.png"}}),
    ("chat", {"type": "document_url", "document_url": "https://a.example/p.pdf"}),
    ("chat", {"type": "video", "video": ["https://a.example/1.png"]}),
    ("messages", {"type": "new_kind"}),
    ("generate", {"fileData": {"fileUri": "https://a.example/v"}}),
    ("generate", {"file_data": {"file_uri": "https://a.example/v"}}),
]


def message(operation, part):
    if operation == "generate":
        return {"contents": [{"role": "user", "parts": [part]}]}
    name = "input" if operation == "responses" else "messages"
    return {name: [{"role": "user", "content": [part]}]}


@pytest.mark.parametrize(("operation", "part"), LOCAL_PARTS)
def test_parts_that_hold_what_they_show_pass(operation, part):
    body = message(operation, part)
    assert restricted(operation, body) == (body, [])


@pytest.mark.parametrize(("operation", "part"), URL_PARTS)
def test_parts_that_a_provider_would_fetch_are_replaced_by_a_text(operation, part):
    changed, notes = restricted(operation, message(operation, part))
    text = json.dumps(changed)
    assert "removed by the network policy" in text
    assert "https://" not in text
    assert notes


def test_parts_inside_a_tools_result_are_looked_at():
    part = {"type": "image", "source": {"type": "url", "url": "https://a.example"}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [part]}
    changed, _ = restricted("messages", message("messages", result))
    assert "https://" not in json.dumps(changed)
    assert changed["messages"][0]["content"][0]["tool_use_id"] == "a"


def test_what_a_function_of_gemini_answers_with_is_looked_at():
    answer = {"name": "f", "response": {"url": "https://kept"}, "parts": [URL_PARTS[-1][1]]}
    changed, _ = restricted("generate", message("generate", {"functionResponse": answer}))
    assert "a.example" not in json.dumps(changed)
    assert "https://kept" in json.dumps(changed)


PLACE = "https://a.example/p.pdf"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "web_fetch_tool_result", "content": {"type": "web_fetch_result", "content": None}},
        {"type": "web_fetch_tool_result", "content": [None]},
        {"type": "code_execution_tool_result", "content": {"content": [None]}},
        {"type": "search_result", "source": "a label", "content": [None]},
        {"type": "tool_result", "content": [{"type": "search_result", "content": [None]}]},
    ],
)
@pytest.mark.parametrize("source", [{"type": "url", "url": PLACE}, {"url": PLACE}])
@pytest.mark.parametrize("kind", ["document", "image", "new"])
def test_a_result_that_was_made_up_has_nothing_fetched(block, source, kind):
    inner = {"type": kind, "source": source}
    text = json.dumps(block).replace("null", json.dumps(inner))
    changed, notes = restricted("messages", message("messages", json.loads(text)))
    assert "a.example" not in json.dumps(changed)
    assert notes


def test_what_a_thought_holds_is_looked_at():
    thought = {"type": "thinking", "thinking": [URL_PARTS[0][1]]}
    changed, _ = restricted("chat", message("chat", thought))
    assert "a.example" not in json.dumps(changed)


@pytest.mark.parametrize(
    "more",
    [
        {"images": [URL_PARTS[0][1]]},
        {"annotations": [{"type": "file", "file": {"content": [URL_PARTS[0][1]]}}]},
        {"attachments": [{"url": "https://a.example"}]},
    ],
)
def test_fields_of_a_message_that_nobody_knows_are_removed(more):
    said = {"role": "assistant", "content": "x", "reasoning_content": "y"}
    changed, notes = restricted("chat", {"messages": [{**said, **more}]})
    assert changed == {"messages": [said]}
    assert notes


def test_a_prediction_has_nothing_fetched():
    body = {"prediction": {"type": "content", "content": [URL_PARTS[0][1]]}}
    assert "a.example" not in json.dumps(restricted("chat", body)[0])


def test_a_function_has_no_fields_of_another_kind():
    tool = {**FUNCTION, "server_url": "https://a.example", "googleSearch": {}}
    assert restricted("responses", {"tools": [tool]})[0] == {"tools": [FUNCTION]}


@pytest.mark.parametrize(
    "item",
    [
        {"type": "mcp_approval_response", "approve": True, "approval_request_id": "a"},
        {"type": "additional_tools", "tools": [{"type": "web_search"}]},
        {"type": "shell_call", "environment": {"type": "container_reference"}},
        {"type": "mcp_call", "server_label": "x"},
        {"type": None, "role": "user", "content": [URL_PARTS[0][1]]},
        "https://a.example",
    ],
)
def test_items_that_have_a_provider_do_something_are_removed(item):
    said = {"role": "user", "content": "hi"}
    changed, notes = restricted("responses", {"input": [item, said]})
    assert changed == {"input": [said]}
    assert notes


@pytest.mark.parametrize("kind", ["function_call_output", "local_shell_call_output"])
def test_what_a_tool_gave_back_has_nothing_fetched(kind):
    place = {"type": "input_image", "image_url": "https://a.example/p.png"}
    changed, _ = restricted("responses", {"input": [{"type": kind, "output": [place]}]})
    assert "a.example" not in json.dumps(changed)


def test_an_earlier_response_brings_no_tools_of_its_own():
    body = {"previous_response_id": "resp_1", "input": "go on", "store": True}
    assert restricted("responses", body) == (body, [])
    with_tool = {**body, "tools": [{"type": "file_search"}], "tool_choice": "required"}
    assert restricted("responses", with_tool)[0] == body


def test_instructions_are_text():
    with pytest.raises(UnrestrictableError, match="instructions is not a string"):
        restricted("responses", {"instructions": [URL_PARTS[6][1]], "input": "a"})


def test_the_path_alone_names_geminis_model():
    body = {"model": "models/other", "contents": "hi"}
    assert restricted("generate", body)[0] == {"contents": ["hi"]}
    inner = {"generateContentRequest": {"model": "models/m", "contents": ["hi"]}}
    assert restricted("generate", inner) == (inner, [])


def test_tools_that_a_search_among_tools_has_found_are_looked_at():
    item = {"type": "tool_search_output", "tools": [FUNCTION, {"type": "web_search"}]}
    changed, _ = restricted("responses", {"input": [item]})
    assert changed["input"] == [{"type": "tool_search_output", "tools": [FUNCTION]}]


# -- narrowing --------------------------------------------------------------------

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}


def test_a_search_is_narrowed_to_what_its_filter_says_exactly():
    changed, notes = restricted("messages", {"tools": [SEARCH]}, EXACT, filters_hold=True)
    # other.org alone would let its subdomains through as well
    assert changed["tools"] == [{**SEARCH, "allowed_domains": ["example.com"]}]
    assert notes == ["narrowed to the allowlist the tool 'web_search_20250305'"]


def test_a_choice_of_a_narrowed_search_stays():
    body = {"tools": [SEARCH], "tool_choice": {"type": "tool", "name": "web_search"}}
    changed, _ = restricted("messages", body, EXACT, filters_hold=True)
    assert changed["tool_choice"] == body["tool_choice"]


def test_openais_search_is_narrowed_by_its_filters():
    changed, _ = restricted(
        "responses", {"tools": [{"type": "web_search"}]}, EXACT, filters_hold=True
    )
    assert changed["tools"][0]["filters"] == {"allowed_domains": ["example.com"]}


@pytest.mark.parametrize(
    ("domains", "kept"),
    [
        (["docs.example.com", "evil.org"], ["docs.example.com"]),
        (["example.com/blog"], ["example.com/blog"]),
        (["notexample.com"], None),
        (["evil.org#.example.com", "evil.org?.example.com", "evil.org:443@a.example.com"], None),
        (["evil.org\\.example.com", "*.example.com", "https://example.com", " example.com"], None),
        ([], None),
        ("example.com", None),
    ],
)
def test_a_filter_of_the_clients_own_can_only_narrow_further(domains, kept):
    body = {"tools": [{**SEARCH, "allowed_domains": domains}]}
    changed, _ = restricted("messages", body, EXACT, filters_hold=True)
    assert (changed["tools"][0]["allowed_domains"] if "tools" in changed else None) == kept


@pytest.mark.parametrize(
    ("operation", "tool"),
    [
        ("messages", {**SEARCH, "allowed_callers": ["code_execution_20250825"], "new": 1}),
        ("responses", {"type": "web_search", "connectors": ["mail"], "new": 1}),
    ],
)
def test_a_narrowed_tool_keeps_only_what_is_known_of_it(operation, tool):
    changed, _ = restricted(operation, {"tools": [tool]}, EXACT, filters_hold=True)
    (kept,) = changed["tools"]
    assert not set(kept) & {"allowed_callers", "connectors", "new"}


def test_a_search_that_runs_code_to_filter_is_not_narrowed():
    tool = {**SEARCH, "type": "web_search_20260209"}
    assert restricted("messages", {"tools": [tool]}, EXACT, filters_hold=True)[0] == {}


def test_filters_are_not_trusted_where_nobody_knows_that_they_hold():
    assert restricted("messages", {"tools": [SEARCH]}, EXACT)[0] == {}


def test_a_list_that_no_filter_can_say_removes_the_search():
    policy = network_policy("allowlist", ["other.org", "*.wild.org", "10.0.0.0/8"])
    assert restricted("messages", {"tools": [SEARCH]}, policy, filters_hold=True)[0] == {}


# -- odd JSON ---------------------------------------------------------------------

WORDS = [
    "type", "tools", "tool_choice", "messages", "input", "content", "contents", "parts", "role",
    "name", "source", "url", "image_url", "web_search", "web_search_20250305", "googleSearch",
    "function", "functionDeclarations", "namespace", "mcp", "allowed_tools", "tool_result", "image",
    "document", "fileData", "toolConfig", "file", "message", "text", "user", "system", "custom",
]  # fmt: skip
NAMES = st.sampled_from(WORDS) | st.text(max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=15,
)
BODIES = st.dictionaries(NAMES, VALUES, max_size=6)


@pytest.mark.parametrize("operation", ROUTES)
@settings(max_examples=100, deadline=None)
@given(body=BODIES)
def test_any_json_is_restricted_or_refused(operation, body):
    try:
        changed, _ = restrict(ROUTES[operation], body, CLOSED)
    except UnrestrictableError:
        return
    again, notes = restrict(ROUTES[operation], changed, CLOSED)
    assert again is changed, notes
    kinds = {kind for tool in _tools(changed) for kind in _kinds(tool)}
    assert not kinds & {"web_search", "web_search_20250305", "googleSearch", "mcp"}


def _tools(body):
    tools = body.get("tools") or []
    return tools if isinstance(tools, list) else [tools]


def _kinds(tool):
    if not isinstance(tool, dict):
        return []
    kind = tool.get("type")
    # A key is a tool for Gemini alone; in a function it is free.
    return [kind] if isinstance(kind, str) else [name for name in tool if name == "googleSearch"]


# -- through the gateway ----------------------------------------------------------


def test_the_gateway_looks_at_every_request(rig):
    r = rig(default=Turn(text="x"), policy=CLOSED)
    body = {"tools": [{"type": "web_search"}, FUNCTION], "tool_choice": "auto"}
    for _ in range(2):
        assert r.call("responses", **body).status_code == 200
    assert [call.body["tools"] for call in r.model.calls] == [[FUNCTION], [FUNCTION]]
    assert r.lines()[1]["changes"] == ["removed the tool 'web_search'"]
    assert r.lines()[1]["request"]["tools"] == body["tools"]


def test_the_gateway_leaves_a_public_policy_alone(rig):
    r = rig()
    r.call("responses", tools=[{"type": "web_search"}])
    assert r.model.calls[0].body["tools"] == [{"type": "web_search"}]


def test_the_policy_may_change_between_phases(rig):
    r = rig()
    r.session.policy = CLOSED
    r.call("responses", tools=[{"type": "web_search"}])
    assert "tools" not in r.model.calls[0].body


def test_a_search_model_is_refused_by_the_gateway(rig):
    r = rig(policy=CLOSED)
    answer = r.call("chat", model="gpt-4o-search-preview")
    assert answer.status_code == 400
    assert r.model.calls == []
    assert r.lines()[0]["outcome"] == "gateway"


@pytest.mark.parametrize(
    "body",
    [
        b'{"tools": [{"type": "web_search"}], "tools": [], "input": "a", "model": "m"}',
        b'{"tools": [], "tools": [{"type": "web_search"}], "input": "a", "model": "m"}',
        b'{"tool\\u0073": [{"type": "web_search"}], "input": "a", "model": "m"}',
    ],
)
def test_a_name_twice_has_one_reading(rig, body):
    r = rig(policy=CLOSED)
    assert r.post("/v1/responses", body).status_code == 200
    assert not r.model.calls[0].body.get("tools")


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"",
        b"{",
        b'{"a": NaN}',
        b'{"input": "a", "temperature": 1e999}',
        b'{"input": "a", "model": ["m"]}',
        b'--x\r\nContent-Disposition: form-data; name="input"\r\n\r\na\r\n--x--',
        b"\xff\xfe{\x00}\x00",
        b'\xef\xbb\xbf{"input": "a"}',
        b'{"input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"input": "a", "background": true}',
        b'{"messages": {}, "input": 5}',
    ],
)
def test_a_body_that_is_not_understood_goes_nowhere(rig, body):
    r = rig(policy=CLOSED)
    assert r.post("/v1/responses", body).status_code == 400
    assert r.model.received == []


def test_every_operation_of_every_route_has_a_restriction():
    posts = ["/v1/chat/completions", "/v1/responses", "/v1/responses/input_tokens", "/v1/messages"]
    posts += ["/v1/messages/count_tokens"]
    posts += [f"/v1beta/models/m:{v}" for v in ("generateContent", "streamGenerateContent")]
    posts += ["/v1beta/models/m:countTokens"]
    for path in posts:
        route = find_route("POST", path, {})
        assert restrict(route, {"unknown_field": 1}, CLOSED)[0] == {}
