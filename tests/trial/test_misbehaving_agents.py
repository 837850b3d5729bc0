"""Agents that print without end, or die of a signal: the work is graded all the same."""

import pytest

from pytest_harbor.trial.logs import MAX_LOG_BYTES

pytestmark = pytest.mark.docker

FLOOD = "head -c {size} /dev/zero | tr '\\0' x; echo ok > /app/out.txt; kill -KILL $$"


def flood(make_task, run_tasks, size):
    make_task()
    return run_tasks("tasks", "-rA", f"--harbor-agent-command={FLOOD.format(size=size)}")


def test_an_agent_that_prints_much_and_is_killed_is_graded(make_task, run_tasks):
    ran = flood(make_task, run_tasks, "20M")
    ran.run.assert_outcomes(passed=1)
    assert ran.one()["pytest_harbor"]["agent_exit_code"] == 137
    assert ran.one()["pytest_harbor"]["category"] == "reward"
    assert (ran.folder() / "agent/command.txt").stat().st_size == 20 * 1024**2
    assert len(ran.text) < 100_000


@pytest.mark.long
@pytest.mark.timeout(600)
def test_of_a_gigabyte_the_beginning_is_kept(make_task, run_tasks):
    ran = flood(make_task, run_tasks, "1G")
    ran.run.assert_outcomes(passed=1)
    assert ran.one()["pytest_harbor"]["agent_exit_code"] == 137
    log = ran.folder() / "agent/command.txt"
    assert MAX_LOG_BYTES < log.stat().st_size < MAX_LOG_BYTES + 1000
    with log.open("rb") as file:
        file.seek(-100, 2)
        assert b"more bytes were dropped" in file.read()
