"""Programs of the docker CLI that run in a process group of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pytest_harbor.environment.docker.attach import Deadline, DeadlinePassedError

END_SEC = 5
"""How long a group may take to notice a signal."""


def wait_for(
    process: subprocess.Popen[Any], deadline: Deadline, signals: Sequence[signal.Signals]
) -> int:
    """Wait for a program; if it does not end in time, or the wait is cut off, end its group.

    Args:
        process: Begun with a session of its own. The CLI's plugin is a child of it that
            does the work, so the group is ended and not the process.
        deadline: When it is ended.
        signals: What it is sent, one after the other, until it is gone.

    Returns:
        Its exit status.

    Raises:
        DeadlinePassedError: It was ended.
    """
    try:
        return process.wait(deadline.remaining)
    except subprocess.TimeoutExpired as error:
        raise DeadlinePassedError from error
    finally:
        _end_group(process, signals)


def _end_group(process: subprocess.Popen[Any], signals: Sequence[signal.Signals]) -> None:
    for number in signals:
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SEC)
