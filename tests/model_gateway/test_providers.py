"""Providers, keys and prices, as users have them."""

import pytest
import requests

from pytest_harbor.errors import OptionError
from pytest_harbor.model_gateway.gateway import ModelGateway
from pytest_harbor.model_gateway.prices import Prices, _listed
from pytest_harbor.model_gateway.providers import KNOWN, Provider, Providers, Upstream
from pytest_harbor.model_gateway.tokens import TokenCount, read_tokens
from tests.model_server import ModelServer

from .conftest import request

KEYS = {
    "ANTHROPIC_API_KEY": "a-key",
    "OPENAI_API_KEY": "o-key",
    "GEMINI_API_KEY": "g-key",
    "OPENROUTER_API_KEY": "r-key",
}


@pytest.mark.parametrize(
    ("model", "provider", "name", "kinds"),
    [
        ("anthropic/claude-x", "anthropic", "claude-x", ["anthropic"]),
        ("openai/gpt-x", "openai", "gpt-x", ["openai"]),
        ("gemini/gemini-x", "gemini", "gemini-x", ["gemini"]),
        ("google/gemini-x", "google", "gemini-x", ["gemini"]),
        ("openrouter/meta/llama", "openrouter", "meta/llama", ["openai", "anthropic"]),
        ("claude-x", "anthropic", "claude-x", ["anthropic"]),
        ("gpt-5", "openai", "gpt-5", ["openai"]),
    ],
)
def test_the_models_name_tells_its_provider(model, provider, name, kinds):
    found, rest = Providers(KEYS).for_model(model)
    assert (found.name, rest, list(found.upstreams)) == (provider, name, kinds)


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("anthropic/x", "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN is not set"),
        ("openai/x", "OPENAI_API_KEY is not set"),
        ("gemini/x", "GEMINI_API_KEY or GOOGLE_API_KEY is not set"),
        ("openrouter/x", "OPENROUTER_API_KEY is not set"),
    ],
)
def test_a_missing_key_is_an_error_that_names_the_variable(model, named, tmp_path):
    gateway = ModelGateway(Providers({}))
    with pytest.raises(OptionError, match=named):
        gateway.open_session(model=model, record=tmp_path / "x")
    assert gateway.port == 0  # nothing was started


def test_no_key_at_all_is_an_error_where_no_model_is_named(tmp_path):
    with pytest.raises(OptionError, match="no key of any provider is set"):
        ModelGateway(Providers({})).open_session(model=None, record=tmp_path / "x")


def test_a_model_of_nobody_is_an_error():
    with pytest.raises(OptionError, match=r"'mine/x' names no provider .* OPENAI_BASE_URL"):
        Providers(KEYS).for_model("mine/x")


def test_a_server_of_the_users_own_takes_models_of_any_name():
    environment = {**KEYS, "OPENAI_BASE_URL": "http://10.0.0.7:8000/v1/"}
    provider, name = Providers(environment).for_model("meta-llama/Llama-3")
    assert name == "meta-llama/Llama-3"
    assert provider.upstreams["openai"].base_url == "http://10.0.0.7:8000/v1"
    assert not provider.upstreams["openai"].is_official


def test_a_server_on_this_machine_needs_no_key():
    provider, _ = Providers({"OPENAI_BASE_URL": "http://localhost:8000/v1"}).for_model("openai/x")
    assert provider.upstreams["openai"].base_url == "http://localhost:8000/v1"


def test_a_bearer_token_of_anthropic_is_sent_as_one():
    provider, _ = Providers({"ANTHROPIC_AUTH_TOKEN": "tok"}).for_model("anthropic/x")
    assert provider.upstreams["anthropic"].auth_headers() == {"authorization": "Bearer tok"}


def test_openrouter_takes_bearer_tokens_on_both_protocols():
    provider, _ = Providers(KEYS).for_model("openrouter/x")
    sent = {upstream.auth_headers()["authorization"] for upstream in provider.upstreams.values()}
    assert sent == {"Bearer r-key"}


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "https://u:p@x/v1", "https://x/?a=b"])
def test_a_base_url_that_is_none_is_an_error(url):
    with pytest.raises(OptionError, match="base URL"):
        Providers({**KEYS, "OPENAI_BASE_URL": url}).for_model("openai/x")


def test_a_key_that_cannot_be_sent_is_an_error_that_does_not_show_it():
    with pytest.raises(OptionError, match="OPENAI_API_KEY holds characters") as error:
        Providers({"OPENAI_API_KEY": "sk-1\nX: y"}).for_model("openai/x")
    assert "sk-1" not in str(error.value)


def test_keys_are_not_shown():
    provider, _ = Providers(KEYS).for_model("openai/x")
    assert "o-key" not in repr(provider)


@pytest.mark.parametrize("name", KNOWN)
def test_every_known_provider_is_found_by_its_key(name):
    known = KNOWN[name]
    provider, model = Providers({known.keys[0]: "key"}).for_model(f"{name}/a/b")
    assert model == "a/b"
    assert all(one.base_url.startswith("https://") for one in provider.upstreams.values())


def test_an_agent_of_no_model_reaches_every_provider_with_a_key(tmp_path):
    with ModelServer() as model:
        upstream = Upstream("openai", f"{model.root}/v1", "some-key-here")
        providers = Providers({"GEMINI_API_KEY": "g"}, Provider("own", {"openai": upstream}))
        with ModelGateway(providers) as gateway:
            session = gateway.open_session(model=None, record=tmp_path / "calls")
            assert session.kinds == ("openai", "gemini")
            url = session.base_url("openai", "127.0.0.1") + "/chat/completions"
            headers = {"x-api-key": session.token}
            assert requests.post(url, json=request("chat"), headers=headers, timeout=20).ok


def test_a_protocol_that_the_provider_does_not_speak_is_refused(tmp_path):
    with ModelGateway(Providers({"ANTHROPIC_API_KEY": "a"})) as gateway:
        session = gateway.open_session(model="anthropic/x", record=tmp_path / "calls")
        url = session.base_url("openai", "127.0.0.1") + "/chat/completions"
        headers = {"x-api-key": session.token}
        answer = requests.post(url, json=request("chat"), headers=headers, timeout=20)
        assert answer.status_code == 404
        assert "does not speak openai's protocol" in answer.json()["error"]["message"]


def test_a_port_that_is_taken_is_an_error():
    with ModelGateway(Providers({})) as first:
        second = ModelGateway(Providers({}), port=first.port)
        with pytest.raises(OptionError, match=f"cannot listen on 127.0.0.1:{first.port}"):
            second.start()


def test_a_gateway_can_be_started_and_closed_again():
    gateway = ModelGateway(Providers({}))
    gateway.close()
    gateway.start()
    gateway.start()
    gateway.close()
    gateway.close()


# -- prices -----------------------------------------------------------------------


def price(model, prices=None, provider="anthropic", *, is_official=True):
    return (prices or Prices()).price(provider, model, is_official=is_official)


@pytest.mark.parametrize("dated", ["", "-20250929", "-2025-09-29", "-latest"])
def test_a_price_holds_for_every_release_of_a_model(dated):
    assert price("claude-sonnet-4-5" + dated).input == 3.0


@pytest.mark.parametrize("other", ["claude-sonnet-4-5-mini", "claude-sonnet-4", "claude"])
def test_a_price_holds_for_no_other_model(other):
    assert price(other) is None


def test_a_list_price_does_not_hold_at_a_server_of_the_users_own():
    assert price("claude-sonnet-4-5", is_official=False) is None


def test_the_users_prices_come_first(tmp_path):
    table = tmp_path / "prices.toml"
    table.write_text('["anthropic/claude-sonnet-4-5"]\ninput = 1\noutput = 2\n')
    prices = Prices.from_file(table)
    assert price("claude-sonnet-4-5-20250929", prices, is_official=False).output == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\n[a]\ninput = 1", r":2: .*\['a'\]\['output'\]: Field required"),
        ("# my own\n[a", r":2: .*not TOML: "),
        ("[a]\noutput = 1\ninput = -1", r":3: .*\['a'\]\['input'\]: .*greater than"),
        ("[a]\ninput = 1\noutput = 1\noutptu = 1", r":4: .*\['outptu'\]"),
        ("a = 1", r":1: .*\['a'\]: "),
    ],
)
def test_a_table_of_prices_that_is_none_is_an_error_with_its_line(tmp_path, text, found):
    table = tmp_path / "prices.toml"
    table.write_text(text)
    with pytest.raises(OptionError, match=r"prices\.toml" + found) as raised:
        Prices.from_file(table)
    assert "not a table of prices" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_cost_counts_each_kind_of_token_once():
    tokens = TokenCount(
        input=1000, cached=300, cache_write=200, cache_write_1h=50, output=10, is_complete=True
    )
    wanted = 500 * 3 + 300 * 0.3 + 150 * 3.75 + 50 * 6 + 10 * 15
    assert price("claude-sonnet-4-5").cost(tokens) == pytest.approx(wanted / 1e6)


@pytest.mark.parametrize(
    "tokens",
    [
        TokenCount(input=10),
        TokenCount(input=10, is_complete=True, is_priced_apart=True),
    ],
)
def test_a_cost_that_cannot_be_told_is_not_guessed(tokens):
    assert price("claude-sonnet-4-5").cost(tokens) is None


def test_a_price_for_short_calls_is_none_for_long_ones():
    listed = price("claude-haiku-5-5")
    assert listed.cost(TokenCount(input=100_000, is_complete=True)) == pytest.approx(0.01)
    assert listed.cost(TokenCount(input=100_001, is_complete=True)) is None


@pytest.mark.parametrize(
    ("operation", "details", "counts"),
    [
        ("chat", "prompt_tokens_details", ("prompt_tokens", "completion_tokens")),
        ("responses", "input_tokens_details", ("input_tokens", "output_tokens")),
    ],
)
def test_what_is_written_to_a_cache_has_its_own_price(operation, details, counts):
    parts = {"cached_tokens": 300, "cache_write_tokens": 500}
    usage = {counts[0]: 1000, counts[1]: 10, details: parts}
    tokens = read_tokens(operation, {"usage": usage})
    wanted = 200 * 2 + 300 * 0.2 + 500 * 2.5 + 10 * 10
    assert price("gpt-6-sol", provider="openai").cost(tokens) == pytest.approx(wanted / 1e6)


def test_no_listed_price_is_nothing_and_caches_make_nothing_dearer():
    assert len(_listed()) > 40
    for name, listed in _listed().items():
        assert listed.input > 0, name
        assert listed.output > listed.input, name
        assert listed.cached is None or 0 < listed.cached < listed.input, name
