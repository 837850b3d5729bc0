"""What a worker of pytest-xdist needs for its first trial, loaded while it waits for its share.

The controller meets the engine and shares out the items only once workers have collected.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from pytest_harbor.plugin import engine
from pytest_harbor.plugin.collect import TrialItem
from pytest_harbor.plugin.resume import is_resumed


def load(session: pytest.Session) -> None:
    """Load what this worker needs, and begin the network, if it gets a trial.

    Here and in no thread: filters of warnings, which imports set, are those of the whole process.
    """
    first = _likely_first(session)
    if first is None:
        return
    with suppress(Exception):  # the trial meets it again, and tells of it
        engine.foresee(first)
        from pytest_harbor.plugin import outcomes, redaction, trial_of_item  # noqa: F401


def _likely_first(session: pytest.Session) -> TrialItem | None:
    """The item that pytest-xdist gives this worker where there are few, if it is a trial to run.

    A worker that gets none must not load anything: it would take time from those that do.
    """
    number = str(session.config.workerinput["workerid"]).removeprefix("gw")  # type: ignore[attr-defined]
    if not number.isdecimal() or int(number) >= len(session.items):
        return None
    item = session.items[int(number)]
    return item if isinstance(item, TrialItem) and not is_resumed(item) else None
