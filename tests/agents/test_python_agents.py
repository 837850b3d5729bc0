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
import asyncio, contextlib, json, urllib.error, urllib.request
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


class Greedy(Agent):
    model_wires = ("openai",)
    calls_model_from = "host"

    async def run(self, instruction, environment, context):
        await environment.exec("echo ok > /app/out.txt")
        while True:
            with contextlib.suppress(urllib.error.HTTPError):
                await asyncio.to_thread(self.call, context.model)

    def call(self, model):
        data = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
        head = {"Authorization": f"Bearer {model.key}", "Content-Type": "application/json"}
        url = model.base_urls["openai"] + "/chat/completions"
        request = urllib.request.Request(url, data.encode(), head)
        urllib.request.urlopen(request).close()


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


def printed(heading: str) -> str:
    """The first Python block below a heading of the page on agents."""
    section = DOCS.read_text().split(f"## {heading}\n", 1)[1]
    found = re.search(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch):
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.root}/v1")
        yield server


SMALL = ("--harbor-agent=small_agent:SmallAgent", "--harbor-model=openai/m")


@pytest.fixture
def small(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(small_agent=printed("Agents in Python"))


def test_the_example_of_the_docs_solves_a_task_with_a_model_and_no_network(
    run_tasks, make_task, model, small, pytester
) -> None:
    make_task()
    model.script.refill([Turn("I write it. <sh>echo ok > out.txt</sh>"), Turn("It is done.")])
    options = ("--harbor-agent-kwarg=max_turns=10", "--harbor-network=no-network")
    ran = run_tasks(*SMALL, *options)
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert result["agent_result"]["n_input_tokens"] == 200
    assert result["config"]["network"]["agent"] == "no-network"
    steps = json.loads((ran.folder() / "agent/trajectory.json").read_text())["steps"]
    assert [step["source"] for step in steps] == ["user", "agent", "agent"]
    (seen,) = steps[1]["observation"]["results"]
    assert "exit status 0" in seen["content"]
    assert "+ echo ok" in seen["content"]
    calls = (ran.folder() / "agent/model_calls.jsonl").read_text().splitlines()
    assert len(calls) == 2
    assert model.calls[0].headers["authorization"] == f"Bearer {KEY}"
    files = (path for path in (pytester.path / "jobs").rglob("*") if path.is_file())
    assert not any(KEY.encode() in path.read_bytes() for path in files)


def test_a_wrong_key_is_not_the_agents_lack_of_skill(run_tasks, make_task, model, small) -> None:
    make_task()
    model.script.refill([Turn(status=401, error="wrong key")])
    ran = run_tasks(*SMALL)
    assert ran.one()["pytest_harbor"]["category"] == "agent"
    assert "self.ask(" in (ran.folder() / "agent/exception.txt").read_text()


def test_the_async_example_of_the_docs_is_an_agent(run_tasks, make_task, pytester) -> None:
    make_task(test="echo $(grep -c made /app/report.txt) > /logs/verifier/reward.txt\n")
    block = re.findall(r"^```python\n(class AsyncAgent.*?)^```$", DOCS.read_text(), re.S | re.M)
    source = "from pytest_harbor import Agent\n" + block[0].replace('"make"', '"echo made"')
    pytester.makepyfile(async_agent=source)
    run_tasks("--harbor-agent=async_agent:AsyncAgent").run.assert_outcomes(passed=1)


def test_an_async_agent_is_ended_at_a_limit_of_its_calls(run_tasks, make_task, model, own) -> None:
    make_task()
    ran = run_tasks(
        "--harbor-agent=own_async:Greedy", "--harbor-model=openai/m", "--harbor-max-calls=2"
    )
    ran.run.assert_outcomes(passed=1)
    assert ran.one()["exception_info"]["exception_type"] == "AgentModelLimitError"
    assert len(model.calls) == 2
