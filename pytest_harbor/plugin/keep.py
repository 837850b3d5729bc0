"""``--harbor-keep``: environments that stay for a person, and what to do with them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.environment.kept import KeptBox
from pytest_harbor.errors import HarborError
from pytest_harbor.plugin.command_line import harbor_words, path_from_here
from pytest_harbor.trial.kept import note_kept

if TYPE_CHECKING:
    from pytest_harbor.environment.base import Environment
    from pytest_harbor.result.trial import TrialResult
    from pytest_harbor.trial.plan import TrialPlan


def keep(
    item: pytest.Item,
    plan: TrialPlan,
    result: TrialResult,
    environments: Sequence[Environment],
) -> str:
    """Keep what is left of a trial's environments; the commands that go with them.

    Args:
        item: The trial's item.
        plan: The trial as it was settled.
        result: What it came to.
        environments: All that were made for it, the agent's first.
    """
    lines, boxes = list[str](), list[KeptBox]()
    users = (plan.works[-1].agent_user, plan.works[-1].verifier_user)
    box: Any
    for number, environment in enumerate(environments):
        whose = "the verifier's" if number else "the agent's"
        try:
            box = environment.keep()
        except HarborError as error:
            lines.append(f"{whose} environment is not kept: {error}")
            continue
        if isinstance(box, KeptBox):
            boxes.append(box)
            lines += [f"kept:   {box.name} ({whose})", f"enter:  {box.enter(users[number > 0])}"]
        else:  # another backend's own words
            lines.append(str(box))
    if boxes:
        note_kept(result.trial_dir, boxes)
        lines += _commands(item, result.trial_dir, verifies=len(boxes) > 1 or not result.separate)
    return "\n".join(lines)


def _commands(item: pytest.Item, trial: Path, *, verifies: bool) -> Iterator[str]:
    def command(what: str, path: Path) -> str:
        return shlex.join([*harbor_words(), what, path_from_here(item.config, path)])

    if verifies:
        yield f"verify: {command('verify', trial)}"
    yield f"remove: {command('remove', trial)}"
    yield f"remove all that this run keeps: {command('remove', trial.parent)}"
