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
    *(("chat", {"type": kind}) for kind in ("web_search", "builtin_function", "new", "", None)),
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
    ],
)
def test_models_that_search_by_themselves_are_refused(model):
    with pytest.raises(UnrestrictableError, match="searches the web by itself"):
        restricted("chat", {"model": model, "messages": []})


PNG = "data:image/png;base64,AAAA"
LOCAL_PARTS = [
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
        ([], None),
        ("example.com", None),
    ],
)
def test_a_filter_of_the_clients_own_can_only_narrow_further(domains, kept):
    body = {"tools": [{**SEARCH, "allowed_domains": domains}]}
    changed, _ = restricted("messages", body, EXACT, filters_hold=True)
    assert (changed["tools"][0]["allowed_domains"] if "tools" in changed else None) == kept


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
