"""The task's health check (``format/trial-lifecycle.md``, section 6).

A check that hangs is a check that failed; Harbor ends the whole trial there.
"""

from __future__ import annotations

import threading
import time

from pytest_harbor.environment.base import Environment, ExecResult
from pytest_harbor.errors import HealthcheckError
from pytest_harbor.task.config import HealthcheckConfig


def wait_until_healthy(
    environment: Environment,
    check: HealthcheckConfig,
    *,
    user: str | int | None = None,
    table: str = "environment.healthcheck",
) -> None:
    """Run the check until it succeeds.

    Failures within the start period do not count; a check belongs to the period in
    which it began.

    Args:
        environment: The box.
        check: What to run, and how often.
        user: Who runs it; None: the image's user.
        table: Where the check stands in ``task.toml``, for the message.

    Raises:
        HealthcheckError: ``retries`` checks in a row failed; says what the last one printed.
    """
    began = time.monotonic()
    failures = 0
    while True:
        starting = time.monotonic() - began < check.start_period_sec
        result = environment.exec(check.command, user=user, timeout_sec=check.timeout_sec or None)
        if result.exit_code == 0:
            return
        failures += 0 if starting else 1
        if failures >= max(check.retries, 1):
            raise HealthcheckError(_message(table, check, result, failures))
        pause = check.start_interval_sec if starting else check.interval_sec
        time.sleep(min(max(pause, 0.0), threading.TIMEOUT_MAX))


def _message(table: str, check: HealthcheckConfig, result: ExecResult, failures: int) -> str:
    end = (
        f"timed out after {check.timeout_sec:g} s"
        if result.timed_out
        else f"ended with exit status {result.exit_code}"
    )
    output = result.output.strip()
    return (
        f"[{table}] failed {failures} times in a row; the last check"
        f" ({check.command!r}) {end}" + (f" and printed:\n{output[-2000:]}" if output else "")
    )
