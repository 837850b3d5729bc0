"""Every row of the table of outcomes: what pytest says, what the result says."""

import json

import pytest

pytestmark = pytest.mark.docker


def test_failure_text_holds_all_that_helps(make_task, run_tasks):
    make_task(test="#!/bin/bash\necho verifier says no\necho 0.25 > /logs/verifier/reward.txt\n")
    ran = run_tasks(
        "tasks", "--harbor-agent-command=echo agent was here; exit 5", "--harbor-agent-env=A=1"
    )
    ran.run.stdout.fnmatch_lines(
        [
            "reward 0.25 is below the threshold 1",
            "rewards: reward=0.25 (from reward.txt)",
            "agent: agent ended with exit status 5",
            "agent exit status: 5",
            "verifier exit status: 0",
            "---- verifier output (*test-stdout.txt, last 1 line) ----",
            "verifier says no",
            "---- agent output (*command.txt, last 1 line) ----",
            "agent was here",
            "time: environment * s, agent setup * s, agent * s, verifier * s",
            "logs: jobs/*",
            "run again: *pytest tasks/hello/task.toml::command '--harbor-agent-command=*"
            " --harbor-agent-env=A",
        ]
    )


def test_command_to_run_again_works_as_printed(make_task, run_tasks, pytester):
    make_task()
    make_task("other")
    ran = run_tasks("tasks", "--harbor-agent=nop", "--harbor-agent", "oracle")
    ran.run.assert_outcomes(passed=2, failed=2)
    line = next(line for line in ran.text.splitlines() if line.startswith("run again: "))
    again = pytester.runpytest(*line.partition("pytest ")[2].split())
    again.assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ("API Error: 401 invalid x-api-key", "AgentAuthenticationError"),
        ("error: insufficient_quota", "ApiUsageLimitError"),
    ],
)
def test_agent_that_could_not_work_is_told_apart(make_task, run_tasks, output, kind):
    make_task()
    ran = run_tasks("tasks", f"--harbor-agent-command=echo '{output}'; exit 1")
    ran.run.assert_outcomes(failed=1)
    ran.run.stdout.fnmatch_lines([f"agent fault: *{output}*"])
    ran.run.stdout.fnmatch_lines(["*not counted: 1 the agent could not work*"])
    assert ran.one()["pytest_harbor"]["category"] == "agent"
    assert ran.one()["exception_info"]["exception_type"] == kind
    assert ran.one()["reward_valid"] is False
    assert ran.one()["verifier_result"] == {"rewards": {"reward": 0}}


def test_build_that_fails_is_an_error_and_others_run(make_task, run_tasks):
    make_task("bad", dockerfile="FROM debian:bookworm-slim\nRUN echo building && exit 7\n")
    make_task("good")
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1, errors=1)
    ran.run.stdout.fnmatch_lines(["*exit 7*"])
    result = ran.one("bad")
    assert result["pytest_harbor"]["category"] == "environment"
    assert result["agent_execution"] is None
    assert "building" in (ran.folder("bad") / "build.log").read_text()


def test_build_that_takes_too_long_is_an_error(make_task, run_tasks):
    make_task(
        toml="=version = '1.0'\n[environment]\nbuild_timeout_sec = 3\n",
        dockerfile="FROM debian:bookworm-slim\nRUN sleep 600\n",
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(["*build_timeout_sec*"])


def test_missing_host_variable_is_an_error_before_any_container(make_task, run_tasks):
    make_task(toml="[verifier.env]\nKEY = '${MY_TOKEN}'\n")
    make_task("good")
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1, errors=1)
    ran.run.stdout.fnmatch_lines(["*MY_TOKEN*"])
    assert "hello" not in ran.trials


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"remove": ("solution",)}, "*no solution/solve.sh*"),
        ({"toml": "gpus = 1\n"}, "*GPU*[[]environment].gpus*nvidia*"),
        ({"toml": "tpu = {type = 'v5', topology = '2x2'}\n"}, "*TPU*[[]environment].tpu*"),
        (
            {"toml": "[verifier.environment]\ngpus = 2\n", "dockerfile": "FROM nowhere/none\n"},
            "*2 GPU*[[]verifier.environment].gpus*",
        ),
        (
            {"toml": "[verifier.environment.tpu]\ntype = 'v5'\ntopology = '2x2'\n"},
            "*TPU*[[]verifier.environment].tpu*",
        ),
        ({"toml": "os = 'windows'\n"}, "*windows*"),
    ],
)
def test_what_cannot_be_done_is_skipped_with_the_reason(make_task, run_tasks, change, reason):
    if "verifier" in str(change):
        toml = f"=version = '1.0'\n{change['toml']}"
        folder = make_task(**{**change, "toml": toml})
        make_task.write(folder, "tests/Dockerfile", "FROM nowhere/none\n")
    elif "windows" in str(change):
        folder = make_task(**change)
        make_task.write(folder, "tests/test.bat", "exit 0\r\n")
    else:
        make_task(**change)
    ran = run_tasks("tasks", "-rs")
    ran.run.assert_outcomes(skipped=1)
    ran.run.stdout.fnmatch_lines([f"SKIPPED*task.toml{reason}"])


def test_no_engine_is_one_error_for_the_run(make_task, run_tasks, monkeypatch):
    make_task()
    make_task("other")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    for args in ([], ["-n2"]):
        ran = run_tasks("tasks", *args, subprocess=True)
        output = ran.text + ran.run.stderr.str()
        assert output.count("no container engine answers") == 1
        assert "DOCKER_HOST" in output
        assert ran.run.ret == pytest.ExitCode.USAGE_ERROR
        assert not ran.trials


@pytest.mark.long
def test_a_network_that_is_not_there_is_one_error_for_the_run(make_task, run_tasks, pytester):
    make_task()
    make_task("other")
    pytester.makeini("[pytest]\nharbor_uplink = no-such-network")
    for args in ([], ["-n2"]):
        ran = run_tasks("tasks", *args, subprocess=True)
        output = ran.text + ran.run.stderr.str()
        assert output.count("harbor_uplink) is 'no-such-network', a network that the engine") == 1
        assert ran.run.ret == pytest.ExitCode.USAGE_ERROR
        assert not ran.trials
    pytester.makepyfile(test_own="def test_own(harbor): harbor.run('tasks/hello')")
    ran = run_tasks("test_own.py")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(["--harbor-uplink (ini: harbor_uplink) is 'no-such-network'*"])


def test_files_of_a_job(make_task, run_tasks, pytester):
    make_task()
    ran = run_tasks("tasks")
    (job,) = pytester.path.glob("jobs/*")
    assert {path.name for path in job.iterdir()} == {
        "config.json",
        "job.log",
        "lock.json",
        "result.json",
        ran.folder().name,
    }
    config = json.loads((job / "config.json").read_text())
    lock = json.loads((job / "lock.json").read_text())
    assert config["n_concurrent_trials"] == lock["n_concurrent_trials"] == 1
    assert config["retry"]["max_retries"] == lock["pytest_harbor"]["retry"]["retries"]
    stats = json.loads((job / "result.json").read_text())["stats"]
    assert stats["evals"]["oracle__adhoc"]["metrics"] == [{"mean": 1.0}]
    # Harbor wants a job's lock to have each trial's own, word for word.
    locks = [json.loads((folder / "lock.json").read_text()) for folder in (job, ran.folder())]
    assert locks[0]["trials"] == [locks[1]]
    assert {path.name for path in ran.folder().iterdir()} >= {
        "config.json",
        "lock.json",
        "result.json",
        "trial.log",
        "agent",
        "verifier",
        "artifacts",
    }
    result = ran.one()
    assert result["agent_info"]["name"] == "oracle"
    for phase in ("environment_setup", "agent_setup", "agent_execution", "verifier"):
        assert result[phase]["finished_at"] >= result[phase]["started_at"]
