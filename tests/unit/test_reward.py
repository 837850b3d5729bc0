"""Reward files, verdicts and the rewards of steps."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.errors import (
    RewardFileEmptyError,
    RewardFileNotFoundError,
    VerifierFault,
    VerifierOutputParseError,
)
from pytest_harbor.result.reward import (
    Reward,
    combine_steps,
    judge,
    meets_min_reward,
    parse_reward,
    unmet_min_reward,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("1.0\n", 1.0),
        (" 1 ", 1.0),
        (" 0.5 ", 0.5),
        ("0.5\n", 0.5),
        ("-3", -3.0),
        ("-1", -1.0),
        ("1e3", 1000.0),
        ("2", 2.0),
    ],
)
def test_reward_txt(text: str, value: float) -> None:
    reward = parse_reward(None, text.encode())
    assert reward == Reward({"reward": value}, "reward.txt")
    assert type(reward.values["reward"]) is float


@pytest.mark.parametrize(("text", "value"), [("1_000", 1000.0), ("٣", 3.0)])
def test_odd_spellings_in_reward_txt_are_named(text: str, value: float) -> None:
    reward = parse_reward(None, text.encode())
    assert reward.values == {"reward": value}
    assert "a spelling of a number" in reward.findings[0]


@pytest.mark.parametrize(
    "text",
    [" ", "\n", "True", "0x1", "1 0", "abc", "nan", "inf", "-Infinity", "1e309", "1,0", "\ufeff1"],
)
def test_reward_txt_that_is_no_number_is_quoted(text: str) -> None:
    with pytest.raises(VerifierOutputParseError) as caught:
        parse_reward(None, text.encode())
    assert ascii(text) in str(caught.value)
    assert "/logs/verifier/reward.txt" in str(caught.value)


def test_reward_txt_that_is_no_text() -> None:
    with pytest.raises(VerifierOutputParseError, match="not UTF-8"):
        parse_reward(None, b"\xff1")


def test_a_long_text_is_quoted_in_part() -> None:
    with pytest.raises(VerifierOutputParseError) as caught:
        parse_reward(None, b"x" * 1_000_000)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("data", [(b"", None), (None, b""), (b"", b"1")])
def test_an_empty_file(data: tuple[bytes | None, bytes | None]) -> None:
    with pytest.raises(RewardFileEmptyError, match="is empty"):
        parse_reward(*data)


def test_no_file_names_both_places() -> None:
    with pytest.raises(RewardFileNotFoundError) as caught:
        parse_reward(None, None)
    assert "/logs/verifier/reward.json" in str(caught.value)
    assert "/logs/verifier/reward.txt" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1, "b": 0.5}', {"a": 1, "b": 0.5}),
        ('{"reward": -2}', {"reward": -2}),
        ('{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
        ('{"": 1}', {"": 1}),
    ],
)
def test_reward_json(text: str, values: dict[str, float]) -> None:
    reward = parse_reward(text.encode(), None)
    assert reward == Reward(values, "reward.json")
    assert [type(v) for v in reward.values.values()] == [type(v) for v in values.values()]


def test_true_in_reward_json_is_a_number_and_named() -> None:
    reward = parse_reward(b'{"a": true, "b": false}', None)
    assert reward.values == {"a": 1.0, "b": 0.0}
    assert type(reward.values["a"]) is float
    assert "'a' as true" in reward.findings[0]


def test_the_last_of_duplicate_keys_wins_and_is_named() -> None:
    reward = parse_reward(b'{"a": 1, "a": 2}', None)
    assert reward.values == {"a": 2}
    assert "'a' more than once" in reward.findings[0]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "null",
        "[]",
        "[1]",
        '"1"',
        "1",
        "true",
        "{}",
        " ",
        '{"a": null}',
        '{"a": "1"}',
        '{"a": [1]}',
        '{"a": {"b": 1}}',
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": 1e309}',
        '{"\\ud800": 1}',
        "\ufeff{}",
        "[" * 100_000,
        '{"a": ' + "9" * 5_000 + "}",
    ],
)
def test_reward_json_without_a_reward(text: str) -> None:
    with pytest.raises(VerifierOutputParseError) as caught:
        parse_reward(text.encode(), b"1")
    assert "/logs/verifier/reward.json" in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("txt", "finding"),
    [
        (b"1", "says otherwise (1.0)"),
        (b"0.5", "agrees (0.5)"),
        (b"", "without a reward"),
        (b"abc", "without a reward"),
    ],
)
def test_reward_json_decides_and_the_other_file_is_named(txt: bytes, finding: str) -> None:
    reward = parse_reward(b'{"reward": 0.5, "lines": 3}', txt)
    assert reward.values == {"reward": 0.5, "lines": 3}
    assert reward.source == "reward.json"
    assert finding in reward.findings[0]


@given(st.none() | st.binary(), st.none() | st.binary())
def test_any_bytes_are_a_finite_reward_or_the_verifiers_fault(
    json_data: bytes | None, txt_data: bytes | None
) -> None:
    try:
        values = parse_reward(json_data, txt_data).values
    except VerifierFault as error:
        message = str(error)
    else:
        message = "fine"
        assert values
        assert all(math.isfinite(value) for value in values.values())
    assert message.isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON)
def test_any_json_is_a_flat_table_of_numbers_or_the_verifiers_fault(content: Any) -> None:
    try:
        reward = parse_reward(json.dumps(content).encode(), None)
    except VerifierFault:
        return
    assert reward.values == content


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_comes_back(number: float) -> None:
    assert parse_reward(None, repr(number).encode()).values == {"reward": number}


# --- verdict


@pytest.mark.parametrize(
    ("values", "key", "passed", "deciding"),
    [
        ({"reward": 1.0}, None, True, {"reward": 1.0}),
        ({"reward": 0.5}, None, False, {"reward": 0.5}),
        ({"reward": 1, "style": 0}, None, True, {"reward": 1}),
        ({"a": 1, "b": 0.5}, None, False, {"a": 1, "b": 0.5}),
        ({"a": 1, "b": 2}, None, True, {"a": 1, "b": 2}),
        ({"reward": 0, "b": 1}, "b", True, {"b": 1}),
        ({"reward": 10**400}, None, True, {"reward": 10**400}),
    ],
)
def test_which_numbers_decide(
    values: dict[str, float], key: str | None, passed: bool, deciding: dict[str, float]
) -> None:
    verdict = judge(Reward(values, "reward.json"), 1.0, key)
    assert (verdict.passed, verdict.deciding) == (passed, deciding)
    assert verdict.reward == min(deciding.values())


def test_the_threshold_itself_passes() -> None:
    assert judge({"reward": 0.5}, 0.5).passed


def test_a_missing_key_names_the_keys_that_are_there() -> None:
    with pytest.raises(VerifierOutputParseError, match="no key 'c'; it has 'a', 'b'"):
        judge({"b": 1, "a": 1}, 1.0, "c")


def test_no_values_are_no_verdict() -> None:
    with pytest.raises(VerifierOutputParseError, match="no reward"):
        judge({}, 1.0)


# --- steps


def test_the_mean_counts_steps_without_a_reward_as_0() -> None:
    combined = combine_steps([{"reward": 1.0}, None], n_steps=3)
    assert combined.values == {"reward": pytest.approx(1 / 3)}
    assert combined.harbor_values == {"reward": 1.0}
    assert (combined.missing, combined.is_complete) == (2, False)


def test_the_mean_of_complete_steps_is_harbors() -> None:
    combined = combine_steps([{"reward": 1}, {"reward": 0, "b": 1}], n_steps=2)
    assert combined.values == combined.harbor_values == {"reward": 0.5, "b": 0.5}
    assert combined.is_complete


@pytest.mark.parametrize(
    ("rewards", "values", "harbor_values"),
    [
        ([{"a": 0.2}, {"b": 1}], {"b": 1}, {"b": 1}),
        ([{"a": 0.2}], {"a": 0.0}, {"a": 0.2}),
        ([{"a": 0.2}, None], {"a": 0.0}, None),
    ],
)
def test_the_final_step_counts_when_it_ran(
    rewards: list[dict[str, float] | None],
    values: dict[str, float],
    harbor_values: dict[str, float] | None,
) -> None:
    combined = combine_steps(rewards, n_steps=2, strategy="final")
    assert (combined.values, combined.harbor_values) == (values, harbor_values)


@pytest.mark.parametrize("strategy", ["mean", "final"])
@pytest.mark.parametrize("rewards", [[], [None], [None, None], [{}]])
def test_no_step_with_a_reward_is_no_reward(rewards: list[Any], strategy: Any) -> None:
    combined = combine_steps(rewards, n_steps=2, strategy=strategy)
    assert (combined.values, combined.harbor_values, combined.missing) == (None, None, 2)


@pytest.mark.parametrize(
    ("values", "min_reward", "met"),
    [
        ({"reward": 0.0}, None, True),
        (None, None, True),
        ({"reward": 1.0}, 1.0, True),
        ({"reward": 0.9}, 1.0, False),
        ({"other": 1.0}, 0.0, False),
        (None, -5.0, False),
        ({"a": 1, "b": 1}, {"a": 1, "b": 0.5}, True),
        ({"a": 1, "b": 0}, {"a": 1, "b": 0.5}, False),
        ({"a": 1}, {"a": 1, "b": 0.5}, False),
        ({"a": 1}, {}, True),
    ],
)
def test_the_gate_between_steps(values: Any, min_reward: Any, met: bool) -> None:
    assert meets_min_reward(values, min_reward) is met


def test_what_keeps_the_gate_shut_is_said() -> None:
    unmet = unmet_min_reward({"a": 0.5}, {"a": 1.0, "b": 1.0})
    assert unmet == ("a 0.5, at least 1.0 is needed", "b is missing, at least 1.0 is needed")
