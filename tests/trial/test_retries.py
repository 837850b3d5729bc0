"""Trials that are tried again, as a user sees them."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.docker

# The first tries fail: of the set-up by a hook, of the provider by the agent.
CONFTEST = """\
from pytest_harbor.agent.faults import ApiRateLimitError
from pytest_harbor.errors import HealthcheckError
from pytest_harbor import Agent
from pytest_harbor.trial import retries

retries.MAX_WAIT_SEC = 0.01
seen = []

def pytest_harbor_before_phase(phase, environment):
    seen.append(phase)
    if phase == "environment" and seen.count("environment") <= {failing}:
        raise HealthcheckError("not yet")

class Busy(Agent):
    calls = 0
    def run(self, instruction, environment, context):
        Busy.calls += 1
        environment.write("/app/out.txt", "ok" if Busy.calls == 2 else "no")
        if Busy.calls == 1:
            raise ApiRateLimitError("429 of a provider")

class Unready(Agent):
    calls = 0
    def setup(self, environment, context):
        Unready.calls += 1
        if Unready.calls == 1:
            raise OSError("the index does not answer")
    def run(self, instruction, environment, context):
        environment.write("/app/out.txt", "ok")
"""


@pytest.fixture
def write_conftest(pytester: pytest.Pytester) -> Any:
    return lambda failing: pytester.makeconftest(CONFTEST.replace("{failing}", str(failing)))


def tries(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "tries").iterdir())


def test_a_trial_gets_a_fresh_environment_after_a_fault_of_its_set_up(
    make_task: Any, run_tasks: Any, write_conftest: Any, pytester: pytest.Pytester
) -> None:
    make_task()
    write_conftest(2)
    ran = run_tasks("tasks", "--harbor-retries=2", "--junitxml=junit.xml")
    ran.run.assert_outcomes(passed=1)
    folder = ran.folder()
    assert tries(folder) == ["1", "2"]
    told = ran.one()["pytest_harbor"]["tries"]
    assert [one["folder"] for one in told] == ["tries/1", "tries/2"]
    assert told[0]["faults"] == [{"type": "HealthcheckError", "message": "not yet"}]
    first = json.loads((folder / "tries/1/result.json").read_text())
    assert (first["trial_name"], first["pytest_harbor"]["category"]) == (
        told[0]["trial_name"],
        "environment",
    )
    (job,) = pytester.path.glob("jobs/*/result.json")
    assert json.loads(job.read_text())["stats"]["n_retries"] == 2
    assert 'name="tries" value="3"' in (pytester.path / "junit.xml").read_text()


def test_an_agent_whose_provider_failed_works_again_and_nothing_of_the_try_is_left(
    make_task: Any, run_tasks: Any, write_conftest: Any, engine: Any
) -> None:
    make_task()
    write_conftest(0)
    ran = run_tasks(
        "tasks", "--harbor-agent=conftest:Busy", "--harbor-keep=failed", "--harbor-retries=1"
    )
    ran.run.assert_outcomes(passed=1)
    folder = ran.folder()
    assert tries(folder) == ["1"]
    assert ran.one()["pytest_harbor"]["tries"][0]["faults"][0]["type"] == "ApiRateLimitError"
    assert ran.one()["pytest_harbor"]["tries"][0]["had_reward"] is True
    # Its verdict is kept as evidence, and counts nowhere.
    first = json.loads((folder / "tries/1/result.json").read_text())
    assert first["verifier_result"] == {"rewards": {"reward": 0.0}}
    run_id = folder.parent.name.rpartition("__")[2]
    left = engine.api.containers(all=True, filters={"label": f"pytest-harbor.run={run_id}"})
    assert left == []


def test_an_agent_whose_own_set_up_raised_is_set_up_again(
    make_task: Any, run_tasks: Any, write_conftest: Any
) -> None:
    make_task()
    write_conftest(0)
    ran = run_tasks("tasks", "--harbor-agent=conftest:Unready", "--harbor-retries=1")
    ran.run.assert_outcomes(passed=1)
    (first,) = ran.one()["pytest_harbor"]["tries"]
    (fault,) = first["faults"]
    assert fault["type"] == "AgentSetupError"
    assert "OSError: the index does not answer" in fault["message"]
    assert (ran.folder() / "tries/1/agent/exception.txt").is_file()


def test_a_fault_that_stays_is_told_after_the_last_try(
    make_task: Any, run_tasks: Any, write_conftest: Any
) -> None:
    make_task()
    write_conftest(9)
    ran = run_tasks("tasks", "--harbor-retries=1")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(
        ["try 1 failed, the next one after * s: HealthcheckError: not yet"]
    )
    assert tries(ran.folder()) == ["1"]
    assert ran.one()["pytest_harbor"]["category"] == "environment"
