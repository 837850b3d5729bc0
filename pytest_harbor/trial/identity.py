"""Which item a trial is of, what its task was then, and who runs it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pytest_harbor.dataset.digest import task_digest
from pytest_harbor.environment.docker.owner import Owner
from pytest_harbor.errors import HarborError

ITEM_LABEL = "pytest-harbor.item"
"""Label, on everything that is made for a trial, with the id of its item."""


def identity(task: Path, run_id: str, labels: Mapping[str, str]) -> dict[str, str]:
    """What a trial's ``config.json`` says of it.

    Args:
        task: The task's folder.
        run_id: The run.
        labels: Of what is made for the trial.
    """
    return {
        "item": labels.get(ITEM_LABEL, ""),
        "task_digest": digest_of_task(task, run_id),
        "owner": Owner.current().label(),
    }


@lru_cache(maxsize=1024)
def digest_of_task(task: Path, run_id: str) -> str:
    """Harbor's digest of a task, as this process of a run found it; empty where it has none."""
    try:
        return task_digest(task)
    except HarborError:
        return ""
