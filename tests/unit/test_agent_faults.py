"""An agent that could not work is told from one that worked badly, by what its client prints."""

import pytest

from pytest_harbor.agent.faults import unable_error

AUTHENTICATION = "AgentAuthenticationError"
USAGE = "ApiUsageLimitError"
RATE = "ApiRateLimitError"
OVERLOADED = "ApiOverloadedError"
NETWORK = "NetworkConnectionError"

UNABLE = [
    # claude-code
    (
        'API Error: 401 {"type":"error","error":{"type":"authentication_error",'
        '"message":"invalid x-api-key"}} · Please run /login',
        AUTHENTICATION,
    ),
    ("Invalid API key · Please run /login", AUTHENTICATION),
    ("Not logged in · Please run /login", AUTHENTICATION),
    (
        'API Error: 403 {"error":{"type":"forbidden","message":"Request not allowed"}}',
        AUTHENTICATION,
    ),
    ("Credit balance is too low", USAGE),
    ("Claude AI usage limit reached|1755000000", USAGE),
    ("You've hit your limit · resets 3pm (UTC)", USAGE),
    ('API Error: 429 {"type":"error","error":{"type":"rate_limit_error"}}', RATE),
    ('API Error: 529 {"type":"error","error":{"type":"overloaded_error"}}', OVERLOADED),
    ("API Error: Repeated 529 Overloaded errors", OVERLOADED),
    ("API Error (Connection error.)", NETWORK),
    ("API Error: Request timed out.", NETWORK),
    ("Unable to connect to API (ECONNREFUSED)", NETWORK),
    # codex
    ("ERROR: unexpected status 401 Unauthorized: Missing bearer authentication", AUTHENTICATION),
    ("Missing environment variable: `OPENAI_API_KEY`.", AUTHENTICATION),
    ("You've hit your usage limit. Upgrade your plan", USAGE),
    ("ERROR: exceeded retry limit, last status: 429 Too Many Requests", RATE),
    ('{"type":"turn.failed","error":{"message":"unexpected status 503 Service"}}', OVERLOADED),
    ("ERROR: stream disconnected before completion: error sending request", NETWORK),
    # gemini-cli, qwen-code
    (
        '[API Error: {"error":{"message":"API key not valid. Please pass a valid API key."}}]',
        AUTHENTICATION,
    ),
    (
        "When using Gemini API, you must specify the GEMINI_API_KEY environment variable.",
        AUTHENTICATION,
    ),
    ('{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}', RATE),
    ("You exceeded your current quota, please check your plan", USAGE),
    ("The model is overloaded. Please try again later.", OVERLOADED),
    ("[API Error: 401 Incorrect API key provided.]", AUTHENTICATION),
    # litellm and the providers' own clients
    ("litellm.AuthenticationError: AuthenticationError: OpenAIException", AUTHENTICATION),
    ("litellm.exceptions.RateLimitError: slow down", RATE),
    ("litellm.APIConnectionError: OpenAIException - Connection error.", NETWORK),
    ("openai.InternalServerError: Error code: 500 - upstream", OVERLOADED),
    ("openai.RateLimitError: Error code: 429 - {'code': 'insufficient_quota'}", USAGE),
    ("anthropic.PermissionDeniedError: Error code: 403", AUTHENTICATION),
    ("curl: (6) Could not resolve host: api.anthropic.com", NETWORK),
    ("getaddrinfo ENOTFOUND generativelanguage.googleapis.com", NETWORK),
    ("getaddrinfo EAI_AGAIN api.openai.com", NETWORK),
]

WORKED = [
    "",
    "2 failed, 3 passed in 0.12s",
    "AssertionError: assert 401 == 200",
    "< HTTP/1.1 401 Unauthorized",
    '127.0.0.1 - - "GET /private HTTP/1.1" 401 Unauthorized',
    "FAILED tests/test_login.py::test_rejects - 401 Unauthorized",
    '{"error": "Invalid API key"}  # what the server that was asked for answers',
    "User is not logged in",
    "nginx: 502 Bad Gateway; 503 Service Unavailable",
    "429 Too Many Requests from the rate limiter under test",
    "Error: connect ECONNREFUSED 127.0.0.1:3000",
    "curl: (6) Could not resolve host: github.com",
    "pip: getaddrinfo ENOTFOUND registry.example.com",
    "psycopg.errors.InternalServerError",
    "error 500 lines of output",
    "I could not find the file, giving up.",
]


@pytest.mark.parametrize(("output", "kind"), UNABLE)
def test_what_clients_print_when_they_cannot_work(output: str, kind: str) -> None:
    error = unable_error(f"working\n{output}\n")
    assert type(error).__name__ == kind
    assert str(error) == f"the agent could not work, which is not its skill: {output}"


@pytest.mark.parametrize("output", WORKED)
def test_what_work_prints_is_no_sign(output: str) -> None:
    assert unable_error(f"working\n{output}\n") is None


def test_the_sign_nearest_to_the_end_decides() -> None:
    error = unable_error("API Error: 529 overloaded\nretrying\nAPI Error: 401 no\nbye\n")
    assert type(error).__name__ == AUTHENTICATION


def test_what_was_got_over_long_ago_does_not_count() -> None:
    assert unable_error("API Error: 529\n" + "work goes on\n" * 1000) is None


@pytest.mark.parametrize("padding", ["x" * 3000, "\u2028" * 3000])
def test_of_a_long_line_the_sign_is_shown(padding: str) -> None:
    error = unable_error(
        f'{{"text":"{padding}","result":"API Error: 401 no","more":"{"y" * 500}"}}'
    )
    assert "API Error: 401 no" in str(error)
    assert len(str(error)) < 500
