"""Whose doing a trial's end is.

Whoever tampers with a box must not buy a way out of the rates by breaking the grading, too:
a trial with suspicious findings counts, without a verdict as not passed.
"""

from __future__ import annotations

from pytest_harbor.errors import AgentFault, EngineUnavailableError
from pytest_harbor.result.trial import Category, TrialResult


def settled_category(result: TrialResult) -> Category:
    """Of a trial that ran to its end."""
    if result.tampering:
        return "reward"
    if any(work.agent_unable for work in result.works):
        return "agent"
    return "task" if result.verdict is None else "reward"


def broken_category(result: TrialResult, error: BaseException) -> Category:
    """Of a trial that something cut off, which is no interrupt and no fault of the engine's."""
    breakable = isinstance(error, Exception) and not isinstance(error, EngineUnavailableError)
    if breakable and result.tampering:
        return "reward"
    return "agent" if isinstance(error, AgentFault) else "environment"
