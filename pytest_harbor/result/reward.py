"""Reward files → numbers, numbers → a verdict, verdicts of steps → one.

Reads bytes only: where they come from, and how much of them, is the verifier's concern.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from pytest_harbor.errors import (
    RewardFileEmptyError,
    RewardFileNotFoundError,
    VerifierOutputParseError,
)
from pytest_harbor.result.integrity import IntegrityFinding, Level
from pytest_harbor.task.layout import VERIFIER_LOGS
from pytest_harbor.task.plural import listed

RewardSource = Literal["reward.json", "reward.txt", "steps", "verifier"]
REWARD_JSON: RewardSource = "reward.json"
REWARD_TEXT: RewardSource = "reward.txt"
REWARD_KEY = "reward"
"""The key of a bare number, and the one that decides where it is present."""

MAX_QUOTED_CHARACTERS = 120
_BOTH = f"{REWARD_JSON} decides"
_DISAGREES = "says otherwise"
_BEYOND = 1e6
_NEGATIVE = ", below 0"
_UNUSUAL_DIGITS = "a spelling of a number that few readers accept"

Number = int | float


@dataclass(frozen=True, slots=True)
class Reward:
    """What a verifier wrote.

    Attributes:
        values: Every key with its number; whole numbers stay whole.
        source: The file that decided; ``steps`` where a multi-step task's were combined.
        findings: What is odd about the files, for people.
    """

    values: dict[str, Number]
    source: RewardSource
    findings: tuple[str, ...] = ()

    @property
    def integrity(self) -> tuple[IntegrityFinding, ...]:
        """The findings with their codes."""
        return tuple(map(_coded, (*self.findings, *_out_of_bounds(self.values))))


def _coded(finding: str) -> IntegrityFinding:
    if not finding.startswith(_BOTH):
        # Honest verifiers write true and numbers below 0; they do not write 1_0 or 1e30.
        honest = "read as a number" in finding or finding.endswith(_NEGATIVE)
        return IntegrityFinding("odd-spelling", "information" if honest else "suspicious", finding)
    level: Level = "suspicious" if _DISAGREES in finding else "information"
    return IntegrityFinding(
        "rewards-disagree" if _DISAGREES in finding else "both-files", level, finding
    )


def parse_reward(json_data: bytes | None, txt_data: bytes | None) -> Reward:
    """The reward in a verifier's files; ``reward.json`` decides where it exists.

    Args:
        json_data: Content of ``reward.json``; None where there is none.
        txt_data: Content of ``reward.txt``; None where there is none.

    Raises:
        RewardFileNotFoundError: There is neither.
        RewardFileEmptyError: The file that decides has no bytes.
        VerifierOutputParseError: The file that decides holds no reward.
    """
    if json_data is not None:
        values, findings = _parse_json(json_data)
        if txt_data is not None:
            findings.append(_both_files(values, txt_data))
        return Reward(values, REWARD_JSON, tuple(findings))
    if txt_data is not None:
        number, findings = _parse_text(txt_data)
        return Reward({REWARD_KEY: number}, REWARD_TEXT, tuple(findings))
    raise RewardFileNotFoundError(
        f"the verifier wrote no reward: neither {VERIFIER_LOGS}/{REWARD_JSON} "
        f"nor {VERIFIER_LOGS}/{REWARD_TEXT} exists after it ended"
    )


def _out_of_bounds(values: Mapping[str, Number]) -> list[str]:
    """Numbers that few verifiers mean; they count as they are. Side metrics may be anything."""
    deciding = {REWARD_KEY: values[REWARD_KEY]} if REWARD_KEY in values else values
    odd = [(key, value) for key, value in deciding.items() if not 0 <= value <= _BEYOND]
    return [
        f"the reward {_quoted(key)} is {shown(value)}{_NEGATIVE if value < 0 else ''}"
        for key, value in odd[:5]
    ]


def _parse_text(data: bytes) -> tuple[float, list[str]]:
    text = _text_of(data, REWARD_TEXT)
    try:
        number = float(text)
    except ValueError:
        _refuse(REWARD_TEXT, "expected one number", text)
    if not math.isfinite(number):
        _refuse(REWARD_TEXT, "expected a finite number", text)
    is_odd = "_" in text or not text.strip().isascii()
    return number, [f"{REWARD_TEXT} is {_quoted(text)}, {_UNUSUAL_DIGITS}"] if is_odd else []


def _parse_json(data: bytes) -> tuple[dict[str, Number], list[str]]:
    text = _text_of(data, REWARD_JSON)
    findings: list[str] = []
    try:
        content = json.loads(text, object_pairs_hook=lambda pairs: _table(pairs, findings))
    except (ValueError, RecursionError) as error:
        _refuse(REWARD_JSON, f"not JSON ({error})", text)
    if not isinstance(content, dict):
        _refuse(REWARD_JSON, "expected an object of numbers", text)
    if not content:
        _refuse(REWARD_JSON, "there is no reward in it", text)
    return {key: _json_number(key, content[key], text, findings) for key in content}, findings


def _table(pairs: list[tuple[str, Any]], findings: list[str]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1}) if len(keys) < 1000 else []
        names = ", ".join(_quoted(key) for key in twice[:5]) or "keys"
        findings.append(f"{REWARD_JSON} has {names} more than once; the last counts")
    return table


def _json_number(key: str, value: Any, text: str, findings: list[str]) -> Number:
    if not _is_text(key):
        _refuse(REWARD_JSON, f"the key {_quoted(key)} is not text", text)
    if isinstance(value, bool):
        findings.append(
            f"{REWARD_JSON} has {_quoted(key)} as {json.dumps(value)}, read as a number"
        )
        return float(value)
    if not isinstance(value, int | float):
        _refuse(REWARD_JSON, f"expected a number for {_quoted(key)}", text)
    if isinstance(value, float) and not math.isfinite(value):
        _refuse(REWARD_JSON, f"expected a finite number for {_quoted(key)}", text)
    return value


def _text_of(data: bytes, name: str) -> str:
    if not data:
        raise RewardFileEmptyError(f"{VERIFIER_LOGS}/{name} is empty; expected a reward in it")
    try:
        return data.decode()
    except UnicodeDecodeError:
        _refuse(name, "not UTF-8 text", data[: MAX_QUOTED_CHARACTERS + 1])


def _both_files(values: Mapping[str, Number], txt_data: bytes) -> str:
    try:
        number, _ = _parse_text(txt_data)
    except (RewardFileEmptyError, VerifierOutputParseError):
        return f"{_BOTH}; {REWARD_TEXT} is there too, without a reward in it"
    if REWARD_KEY not in values and len(values) > 1:
        return f"{_BOTH}; {REWARD_TEXT} is there too, with one number ({number}) for several"
    agrees = values.get(REWARD_KEY, next(iter(values.values()))) == number
    relation = "agrees" if agrees else _DISAGREES
    return f"{_BOTH}; {REWARD_TEXT} is there too and {relation} ({number})"


def _refuse(name: str, reason: str, content: str | bytes) -> NoReturn:
    raise VerifierOutputParseError(f"{VERIFIER_LOGS}/{name}: {reason}, got {_quoted(content)}")


def _quoted(content: str | bytes) -> str:
    shown = ascii(content[:MAX_QUOTED_CHARACTERS])
    return f"{shown}…" if len(content) > MAX_QUOTED_CHARACTERS else shown


def _is_text(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a reward is enough.

    Attributes:
        passed: Every deciding number is at or over the threshold.
        deciding: The numbers that were held against it.
        threshold: The least number that passes.
    """

    passed: bool
    deciding: dict[str, Number]
    threshold: float

    @property
    def reward(self) -> Number:
        """The number that was held against the threshold: the least of the deciding ones."""
        return min(self.deciding.values())


def judge(
    reward: Reward | Mapping[str, Number], threshold: float = 1.0, key: str | None = None
) -> Verdict:
    """Hold a reward against a threshold.

    Args:
        reward: What the verifier wrote, or the values of several steps.
        threshold: The least number that passes.
        key: The key that counts; None: ``reward`` where it is present, else every key.

    Raises:
        VerifierOutputParseError: The key is not there.
    """
    values = reward.values if isinstance(reward, Reward) else reward
    chosen = key if key is not None else REWARD_KEY if REWARD_KEY in values else None
    if chosen is not None and chosen not in values:
        raise VerifierOutputParseError(
            f"the reward has no key {_quoted(chosen)}; it has {_key_list(values)}. "
            "Name another one with --harbor-reward-key"
        )
    deciding = dict(values) if chosen is None else {chosen: values[chosen]}
    if not deciding:
        raise VerifierOutputParseError("there is no reward in the verifier's result")
    return Verdict(all(n >= threshold for n in deciding.values()), deciding, threshold)


def as_float(number: Number) -> float:
    """The number for reckoning; a whole number beyond every float is infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def shown(number: Number, threshold: float | None = None) -> str:
    """The number for people: short, but never rounded to the other side of the threshold."""
    rounded = f"{as_float(number):g}"
    if threshold is None or (float(rounded) >= threshold) == (number >= threshold):
        return rounded
    return repr(number)


def _key_list(values: Iterable[str]) -> str:
    return listed([_quoted(key) for key in sorted(values)], 10) or "none"


@dataclass(frozen=True, slots=True)
class StepsReward:
    """The rewards of a task's steps as one.

    Attributes:
        values: A step without a reward counts as 0; None where no step has one.
        harbor_values: The number that Harbor gives: it leaves such steps out.
        missing: How many of the declared steps have no reward.
    """

    values: dict[str, Number] | None
    harbor_values: dict[str, Number] | None
    missing: int = field(default=0)

    @property
    def is_complete(self) -> bool:
        """Whether every declared step has a reward."""
        return self.missing == 0


def combine_steps(
    rewards: Sequence[Mapping[str, Number] | None],
    *,
    n_steps: int,
    strategy: Literal["mean", "final"] = "mean",
) -> StepsReward:
    """Combine the rewards of the steps that ran.

    Args:
        rewards: One for each step that was executed, in order; None where its verifier
            gave none.
        n_steps: Number of steps that the task declares.
        strategy: ``mean`` of each key over the steps, or the ``final`` step's reward.
    """
    present = [reward for reward in rewards if reward]
    if not present:
        return StepsReward(None, None, n_steps)
    keys = list(dict.fromkeys(key for reward in present for key in reward))
    missing = n_steps - len(present)
    if strategy == "mean":
        ours = _mean(present, keys, n_steps)
        return StepsReward(ours, _mean(present, keys, len(present)), missing)
    last = dict(rewards[-1] or {}) or None
    is_last_declared = len(rewards) == n_steps
    zeros: dict[str, Number] = dict.fromkeys(keys, 0.0)
    return StepsReward((last if is_last_declared else None) or zeros, last, missing)


def _mean(
    rewards: Sequence[Mapping[str, Number]], keys: Iterable[str], count: int
) -> dict[str, Number]:
    return {key: sum(reward.get(key, 0) for reward in rewards) / count for key in keys}


def meets_min_reward(
    values: Mapping[str, Number] | None, min_reward: float | Mapping[str, float] | None
) -> bool:
    """Whether a step's reward lets the next step run."""
    return not unmet_min_reward(values, min_reward)


def unmet_min_reward(
    values: Mapping[str, Number] | None, min_reward: float | Mapping[str, float] | None
) -> tuple[str, ...]:
    """What keeps the next step from running, a sentence for each key; a missing one is unmet."""
    if min_reward is None:
        return ()
    limits = min_reward if isinstance(min_reward, Mapping) else {REWARD_KEY: min_reward}
    rewards = values or {}
    return tuple(
        f"{key} {rewards.get(key, 'is missing')}, at least {limit} is needed"
        for key, limit in limits.items()
        if not rewards.get(key, -math.inf) >= limit
    )
