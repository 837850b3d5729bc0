"""Where a task came from, when it is of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TaskOrigin:
    """A task's place in a dataset.

    Attributes:
        dataset: Harbor's name of the dataset: the ``source`` of a trial.
        version: The dataset's version, commit or digest.
        digest: Harbor's digest of the task's content.
        task_id: As Harbor writes it.
        label: What the dataset is called in ids: tells versions and repositories apart.
    """

    dataset: str
    version: str
    digest: str
    task_id: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
