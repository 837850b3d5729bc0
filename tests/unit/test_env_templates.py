"""``${VAR}`` in ``env`` tables."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.errors import EnvironmentFault, MissingVariableError
from pytest_harbor.task.template import (
    is_sensitive_name,
    missing_variables,
    referenced_variables,
    resolve_env,
)


@pytest.mark.parametrize(
    ("value", "host", "expected"),
    [
        ("${FOO}", {"FOO": "bar"}, "bar"),
        ("${FOO}", {"FOO": ""}, ""),
        ("${FOO:-d}", {}, "d"),
        ("${FOO:-d}", {"FOO": "bar"}, "bar"),
        ("${FOO:-d}", {"FOO": ""}, ""),
        ("${FOO:-}", {}, ""),
        ("${FOO:-a}b}", {}, "a}b"),
        ("${FOO:-a:-b}", {}, "a:-b"),
        ("prefix-${FOO}", {"FOO": "bar"}, "prefix-${FOO}"),
        ("${A}${B}", {"A": "1", "B": "2"}, "${A}${B}"),
        ("$FOO", {"FOO": "bar"}, "$FOO"),
        ("${FOO:-a\nb}", {}, "${FOO:-a\nb}"),
        ("${FOO:?x}", {}, "${FOO:?x}"),
        ("${}", {}, "${}"),
        ("${FOO}\n", {"FOO": "bar"}, "${FOO}\n"),
        ("${FOO}", {"FOO": "${BAR}", "BAR": "x"}, "${BAR}"),
        ("", {}, ""),
    ],
)
def test_filling(value: str, host: dict[str, str], expected: str) -> None:
    assert resolve_env({"K": value}, host, where="[environment.env]") == {"K": expected}


def test_all_missing_variables_are_named_at_once() -> None:
    table = {"A": "${ONE}", "B": "x", "C": "${TWO}", "D": "${ONE}", "E": "${THREE:-3}"}
    with pytest.raises(MissingVariableError) as caught:
        resolve_env(table, {}, where="[verifier.env]")
    assert caught.value.names == ("ONE", "TWO")
    assert "[verifier.env] needs ONE, TWO" in str(caught.value)
    assert "Export" in str(caught.value)
    assert isinstance(caught.value, EnvironmentFault)


def test_the_error_survives_pickling() -> None:
    error = MissingVariableError(["A"], "[verifier.env]")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.names, copy.where, str(copy)) == (error.names, error.where, str(error))


def test_which_variables_are_read() -> None:
    table = {"A": "${ONE}", "B": "x", "C": "${TWO:-2}", "D": "${ONE}"}
    assert referenced_variables(table) == ("ONE", "TWO")
    assert missing_variables(table, {}) == ("ONE",)


@given(st.dictionaries(st.text(), st.text()), st.dictionaries(st.text(), st.text()))
def test_any_table_is_filled_or_its_missing_variables_are_named(
    table: dict[str, str], host: dict[str, str]
) -> None:
    missing = missing_variables(table, host)
    if missing:
        with pytest.raises(MissingVariableError):
            resolve_env(table, host, where="[environment.env]")
    else:
        assert resolve_env(table, host, where="[environment.env]").keys() == table.keys()


@given(st.text())
def test_text_without_a_template_stays_as_it_is(text: str) -> None:
    if not text.startswith("${"):
        assert resolve_env({"K": text}, {}, where="[solution.env]") == {"K": text}


@pytest.mark.parametrize(
    ("name", "sensitive"),
    [
        ("API_KEY", True),
        ("my_secret", True),
        ("GITHUB_TOKEN", True),
        ("MAX_TOKENS", False),
        ("TOKENS_AND_TOKEN", True),
        ("DB_PASSWORD", True),
        ("CREDENTIALS", True),
        ("Authorization", True),
        ("HOME", False),
    ],
)
def test_sensitive_names(name: str, sensitive: bool) -> None:
    assert is_sensitive_name(name) is sensitive
