"""``--harbor-keep``: environments that stay for a person, and what to do with them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.environment.kept import VERIFIERS, KeptBox
from pytest_harbor.errors import HarborError
from pytest_harbor.plugin.command_line import harbor_words, path_from_here
from pytest_harbor.plugin.options import settings
from pytest_harbor.trial.kept import note_kept
from pytest_harbor.verifier.script import ScriptVerifier

if TYPE_CHECKING:
    from pytest_harbor.environment.base import Environment
    from pytest_harbor.result.trial import TrialResult
    from pytest_harbor.trial.plan import TrialPlan
    from pytest_harbor.verifier.base import Verifier


def keep(
    item: pytest.Item,
    plan: TrialPlan,
    result: TrialResult,
    environments: Sequence[tuple[str, Environment]],
    verifier: Verifier | None,
) -> str:
    """Keep what is left of a trial's environments; the commands that go with them.

    Args:
        item: The trial's item.
        plan: The trial as it was settled.
        result: What it came to.
        environments: Those of it that are there, the agent's first, and whose each is.
        verifier: Who graded, or would have; None: the trial did not come that far.
    """
    lines, boxes = list[str](), list[KeptBox]()
    users = (plan.works[-1].agent_user, plan.works[-1].verifier_user)
    box: Any
    for whose, environment in environments:
        try:
            box = environment.keep()
        except HarborError as error:
            lines.append(f"{whose} environment is not kept: {error}")
            continue
        if isinstance(box, KeptBox):
            boxes.append(box)
            enter = box.enter(users[whose == VERIFIERS])
            lines += [f"kept:   {box.name} ({whose})", f"enter:  {enter}"]
        else:  # another backend's own words
            lines.append(str(box))
    if boxes:
        other = _other_verifier(item, verifier)
        note_kept(result.trial_dir, boxes, verifier=other, multipliers=plan.options.multipliers)
        verifies = not other and (len(boxes) > 1 or not result.separate)
        lines += _commands(item, result.trial_dir, verifies=verifies)
    return "\n".join(lines)


def _other_verifier(item: pytest.Item, verifier: Verifier | None) -> str:
    """Who grades in place of the task's test script; empty: nobody."""
    named = settings(item.config).benchmark.verifier
    if verifier is None:
        return named
    return "" if type(verifier) is ScriptVerifier else named or type(verifier).__name__


def _commands(item: pytest.Item, trial: Path, *, verifies: bool) -> Iterator[str]:
    def command(what: str, path: Path) -> str:
        return shlex.join([*harbor_words(), what, path_from_here(item.config, path)])

    if verifies:
        yield f"verify: {command('verify', trial)}"
    yield f"remove: {command('remove', trial)}"
    yield f"remove all that this run keeps: {command('remove', trial.parent)}"
