"""Agents that are Python classes: sync or async, with files, a model, and faults of their own."""

import json
import re
from pathlib import Path

import pytest

from tests.model_server import ModelServer, Turn

pytestmark = pytest.mark.docker

KEY = "sk-real-0123456789abcdef0123456789"
DOCS = Path(__file__).parents[2] / "docs/agents.md"

ASYNC = """
import asyncio
from pathlib import Path
from pytest_harbor import Agent


class Worker(Agent):
    async def setup(self, environment, context):
        await environment.write("/opt/tool/greet", "#!/bin/sh\\necho o$1\\n", mode=0o755)

    async def run(self, instruction, environment, context):
        here = Path(__file__).parent
        (here / "k.txt").write_text("k")
        await environment.upload(here / "k.txt", "/tmp/k.txt")
        k = (await environment.read("/tmp/k.txt")).decode()
        # At the same time as another: calls take turns.
        result, _ = await asyncio.gather(
            environment.exec(["/opt/tool/greet", k]), environment.exec("pwd")
        )
        await environment.write("/app/out.txt", result.stdout)
        report = await environment.download("/app", context.logs_dir / "app")
        context.metadata["files"] = list(report.files)


class Sleeper(Agent):
    async def run(self, instruction, environment, context):
        await environment.exec("echo ok > /app/out.txt")
        try:
            await environment.exec("sleep 1000 & sleep 1000")
        finally:
            (context.logs_dir / "cleaned").write_text("yes")


class Narrow(Agent):
    async def run(self, instruction, environment, context):
        try:
            async with asyncio.timeout(0.5):
                await environment.exec("sleep 1000; rm /app/out.txt")
        except TimeoutError:
            pass
        left = await environment.exec("for c in /proc/[0-9]*/cmdline; do cat $c; echo; done")
        if "sleep\\x001000" not in left.stdout:
            await environment.write("/app/out.txt", "ok")


class Crasher(Agent):
    async def run(self, instruction, environment, context):
        await environment.exec("echo ok > /app/out.txt")
        self.my_own_line()

    def my_own_line(self):
        raise KeyError("no such thing")
"""


@pytest.fixture
def own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(own_async=ASYNC)


def test_an_async_agent_works_with_commands_and_files(run_tasks, make_task, own) -> None:
    make_task()
    ran = run_tasks("--harbor-agent=own_async:Worker")
    ran.run.assert_outcomes(passed=1)
    assert ran.one()["agent_result"]["metadata"] == {"files": ["out.txt"]}
    assert (ran.folder() / "agent/app/out.txt").read_text() == "ok\n"


def test_an_async_agent_is_cancelled_at_its_limit_and_graded(run_tasks, make_task, own) -> None:
    toml = '=version = "1.0"\n[agent]\ntimeout_sec = 3\n[verifier]\ntimeout_sec = 60\n'
    make_task(toml=toml)
    ran = run_tasks("--harbor-agent=own_async:Sleeper")
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert result["exception_info"]["exception_type"] == "AgentTimeoutError"
    assert "after 3 s" in result["exception_info"]["exception_message"]
    assert (ran.folder() / "agent/cleaned").read_text() == "yes"


def test_a_command_that_nobody_awaits_any_more_is_killed(run_tasks, make_task, own) -> None:
    make_task()
    ran = run_tasks("--harbor-agent=own_async:Narrow")
    ran.run.assert_outcomes(passed=1)


def test_a_crash_is_graded_and_its_own_lines_are_kept(run_tasks, make_task, own) -> None:
    make_task()
    ran = run_tasks("--harbor-agent=own_async:Crasher")
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert result["pytest_harbor"]["category"] == "reward"
    assert result["exception_info"]["exception_type"] == "AgentCrashError"
    kept = (ran.folder() / "agent/exception.txt").read_text()
    assert 'raise KeyError("no such thing")' in kept
