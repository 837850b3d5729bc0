"""A verifier is asked: whoever wrote it, what comes of it is a report or says why there is none."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

from pytest_harbor.errors import (
    HarborError,
    VerifierCrashError,
    VerifierFault,
    VerifierOutputParseError,
)
from pytest_harbor.result.reward import Number, Reward
from pytest_harbor.verifier.base import Verifier, VerifierContext, VerifierReport

if TYPE_CHECKING:
    from pytest_harbor.environment.base import Environment

TRACEBACK = "exception.txt"


def graded(
    verifier: Verifier, environment: Environment, context: VerifierContext
) -> VerifierReport:
    """What a verifier says.

    Raises:
        EnvironmentFault: The environment broke.
        VerifierFault: The verifier gave no report.
    """
    try:
        report: Any = verifier.verify(environment, context)
    except HarborError:
        raise
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        with context.open_log(context.verifier_dir / TRACEBACK) as file:
            file.write(text.encode("utf-8", "backslashreplace"))
        raise VerifierCrashError(
            f"the verifier {_name(verifier)} crashed: {type(error).__name__}: {error} (traceback"
            f" in verifier/{TRACEBACK})"
        ) from error
    if not isinstance(report, VerifierReport):
        raise VerifierOutputParseError(
            f"the verifier {_name(verifier)}: expected a VerifierReport, got {report!r:.200}"
        )
    _check(report, _name(verifier))
    return report


def _name(verifier: Verifier) -> str:
    return type(verifier).__name__


def _check(report: VerifierReport, name: str) -> None:
    """What is no reward is a fault in its place; what else the report tells stays."""
    fault: Any = report.fault
    if fault is not None and not isinstance(fault, VerifierFault):
        report.fault = VerifierFault(f"the verifier {name}: {type(fault).__name__}: {fault}")
    if report.fault is not None:
        report.reward = None
        return
    try:
        report.reward = _reward(report.reward, name)
    except VerifierOutputParseError as error:
        report.reward, report.fault = None, error


def _reward(reward: Any, name: str) -> Reward:
    if reward is None:
        raise VerifierOutputParseError(f"the verifier {name} gave neither a reward nor a fault")
    values = reward.values if isinstance(reward, Reward) else None
    if not isinstance(values, Mapping) or not values:
        raise VerifierOutputParseError(
            f"the verifier {name}: expected a Reward with numbers by their keys, as"
            f" Reward({{'reward': 1.0}}, 'verifier'), got {reward!r:.200}"
        )
    numbers = {key: _number(key, value, name) for key, value in values.items()}
    return Reward(numbers, reward.source, reward.findings)


def _number(key: Any, value: Any, name: str) -> Number:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    # Of numpy, too; and true as 1, as in reward.json.
    is_finite = is_whole or (isinstance(value, Real) and math.isfinite(value))
    if not isinstance(key, str) or not key or not is_finite:
        raise VerifierOutputParseError(
            f"the verifier {name}: expected a finite number for each key of the reward, got"
            f" {value!r:.100} for {key!r:.100}"
        )
    return int(value) if is_whole else float(value)
