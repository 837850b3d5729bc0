"""Whatever happens, nothing stays on the engine, and nothing earned is lost (27, 28, 37, 39)."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.gateway import ensure_gateway_image

pytestmark = [pytest.mark.docker, pytest.mark.slow]

AGENT = "--harbor-agent-command=echo started; sleep 300"


def left_of(engine, run_id=None):
    """Names of what is on the engine with our label, of one run or of all dead ones."""
    label = f"pytest-harbor.run={run_id}" if run_id else "pytest-harbor"
    found = engine.api.containers(all=True, filters={"label": label})
    networks = engine.api.networks(filters={"label": label})
    volumes = engine.api.volumes(filters={"label": label})["Volumes"] or []
    return (
        [name for entry in found for name in entry["Names"]]
        + [entry["Name"] for entry in networks]
        + [entry["Name"] for entry in volumes]
    )


class Run:
    """A pytest process of its own group, as a terminal starts it."""

    def __init__(self, folder: Path, *args: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tasks", *args],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def wait_for_agents(self, count: int) -> None:
        """Until that many agents work."""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            logs = list(self.folder.glob("jobs/*/*/trial.log"))
            if sum("agent begins" in log.read_text() for log in logs) >= count:
                return
            if self.process.poll() is not None:
                pytest.fail(self.process.stdout.read())
            time.sleep(0.05)
        pytest.fail("the agents did not begin")

    @property
    def run_id(self) -> str:
        (job,) = self.folder.glob("jobs/*")
        return job.name.rpartition("__")[2]

    def kill(self) -> None:
        """End the whole group without a chance to clean up."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def end(self) -> str:
        """What it printed; it has to end by itself."""
        output, _ = self.process.communicate(timeout=60)
        return output


def worker_pids(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(
    ("args", "to_group", "number"),
    [
        ([], True, signal.SIGINT),
        pytest.param([], False, signal.SIGTERM, marks=pytest.mark.long),
        (["-n3"], True, signal.SIGINT),
        pytest.param(["-n3"], False, signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_interrupt_leaves_nothing(make_task, pytester, engine, args, to_group, number):
    for name in ("a", "b", "c"):
        make_task(name)
    run = Run(pytester.path, AGENT, *args)
    run.wait_for_agents(3 if args else 1)
    run_id = run.run_id
    send = os.killpg if to_group else os.kill
    send(run.process.pid, number)
    output = run.end()
    assert left_of(engine, run_id) == []
    (folder,) = (pytester.path / "jobs").iterdir()
    stats = json.loads((folder / "result.json").read_text())["stats"]
    cut_off = 3 if args else 1
    assert (stats["n_cancelled_trials"], stats["n_pending_trials"]) == (cut_off, 3 - cut_off)
    assert json.loads((folder / "config.json").read_text())["job_name"] == folder.name
    assert f"results: {folder}" in output


def test_killed_worker_leaves_nothing_and_others_go_on(make_task, pytester, engine):
    for name in ("a", "b"):
        make_task(name, toml="=version = '1.0'\n[agent]\ntimeout_sec = 6\n")
    run = Run(pytester.path, AGENT, "-n2", "--max-worker-restart=0")
    run.wait_for_agents(2)
    run_id = run.run_id
    os.kill(worker_pids(run.process.pid)[0], signal.SIGKILL)
    output = run.end()
    assert "crashed while running" in output
    assert output.count("agent timed out") >= 1
    assert left_of(engine, run_id) == []


def test_next_run_removes_what_a_killed_run_left_and_nothing_else(make_task, pytester, engine):
    make_task("a")
    dead = Run(pytester.path, AGENT)
    dead.wait_for_agents(1)
    dead_id = dead.run_id
    dead.kill()
    assert left_of(engine, dead_id)

    other = pytester.mkdir("other")
    (pytester.path / "tasks").rename(other / "tasks")
    live = Run(other, AGENT)
    live.wait_for_agents(1)
    assert left_of(engine, dead_id) == []
    kept = left_of(engine, live.run_id)
    assert kept

    third = pytester.mkdir("third")
    (third / "tasks").symlink_to(other / "tasks")
    next_run = Run(third, "--harbor-agent=nop", "--harbor-timeout-multiplier=1")
    next_run.end()
    assert left_of(engine, live.run_id) == kept
    os.killpg(live.process.pid, signal.SIGINT)
    live.end()


def test_results_survive_the_end_of_the_process(make_task, pytester, engine):
    for name in ("a", "b"):
        make_task(name)
    make_task("c", solve="#!/bin/bash\nsleep 300\n")
    run = Run(pytester.path)
    run.wait_for_agents(3)
    run.kill()
    results = [json.loads(path.read_text()) for path in pytester.path.glob("jobs/*/*/result.json")]
    assert sorted(result["task_name"] for result in results) == ["a", "b"]
    assert not list(pytester.path.glob("jobs/**/*.part"))
    # The next run cleans up after this one.
    make_task("c")
    assert Run(pytester.path, "-k", "a and oracle").end()
    assert left_of(engine, run_id_of(pytester.path, results)) == []


def run_id_of(folder: Path, results: list[dict]) -> str:
    job = Path(results[0]["config"]["trials_dir"])
    return job.name.rpartition("__")[2]


@pytest.mark.long
def test_one_build_for_many_workers_and_none_without_a_change(make_task, run_tasks):
    folder = make_task(
        dockerfile="FROM debian:bookworm-slim\nWORKDIR /app\nCOPY seed /seed\n"
        "RUN cat /proc/sys/kernel/random/uuid > /built\n",
        test="#!/bin/bash\ncat /built\necho 1 > /logs/verifier/reward.txt\n",
    )
    seed = make_task.write(folder, "environment/seed", os.urandom(8).hex())

    def builds() -> set[str]:
        ran = run_tasks("tasks", "-n4", "--harbor-attempts=4", "--harbor-agent=nop")
        ran.run.assert_outcomes(passed=4)
        newest = sorted(ran.folders["hello"], key=lambda path: path.stat().st_mtime)[-4:]
        return {(path / "verifier" / "test-stdout.txt").read_text() for path in newest}

    first = builds()
    assert len(first) == 1
    assert builds() == first
    seed.write_text(os.urandom(8).hex())
    assert len(builds() | first) == 2


def test_failed_environment_is_kept_and_told(make_task, run_tasks, engine):
    make_task("good")
    make_task("bad", test="#!/bin/bash\necho 0 > /logs/verifier/reward.txt\n")
    ran = run_tasks("tasks", "--harbor-keep=failed")
    ran.run.assert_outcomes(passed=1, failed=1)
    ran.run.stdout.fnmatch_lines(["enter:*docker exec -it *", "remove:* -m pytest_harbor remove *"])
    run_id = ran.folder("bad").parent.name.rpartition("__")[2]
    kept = [name for name in left_of(engine, run_id) if name.startswith("/")]
    try:
        assert len(kept) == 1
        assert kept[0].removeprefix("/") in ran.text
    finally:
        for name in kept:
            engine.api.remove_container(name.removeprefix("/"), force=True, v=True)
        for network in engine.api.networks(filters={"label": f"pytest-harbor.run={run_id}"}):
            engine.api.remove_network(network["Id"])


def test_timeout_plugin_leaves_nothing(make_task, run_tasks, engine):
    make_task()
    ran = run_tasks("tasks", "--timeout=4", AGENT, subprocess=True)
    assert ran.run.ret == 1
    assert "Timeout" in ran.text
    run_id = ran.folder().parent.name.rpartition("__")[2]
    assert left_of(engine, run_id) == []


def test_run_of_nothing_but_ordinary_tests_leaves_nothing(make_task, run_tasks, pytester, engine):
    make_task()
    pytester.makepyfile("def test_it(harbor):\n    assert harbor.run('tasks/hello').passed\n")
    for workers in ([], ["-n1"]):
        ran = run_tasks("test_run_of_nothing_but_ordinary_tests_leaves_nothing.py", *workers)
        ran.run.assert_outcomes(passed=1)
    for folder in ran.folders["hello"]:
        assert left_of(engine, folder.parent.name.rpartition("__")[2]) == []


def test_environment_that_did_not_become_healthy_is_kept(make_task, run_tasks, engine):
    make_task(toml="[environment.healthcheck]\ncommand = 'exit 1'\nretries = 1\n")
    ran = run_tasks("tasks", "--harbor-keep=failed")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(["*kept environment*", "enter:*docker exec -it *"])
    run_id = ran.folder().parent.name.rpartition("__")[2]
    kept = [name for name in left_of(engine, run_id) if name.startswith("/")]
    assert len(kept) == 1
    engine.api.remove_container(kept[0].removeprefix("/"), force=True, v=True)
    for network in engine.api.networks(filters={"label": f"pytest-harbor.run={run_id}"}):
        engine.api.remove_network(network["Id"])


def test_trial_that_is_run_again_counts_once(make_task, run_tasks, pytester):
    make_task(
        test="#!/bin/bash\necho 0 > /logs/verifier/reward.txt\n",
    )
    ran = run_tasks("tasks", "--reruns=1")
    assert "1 rerun" in ran.text
    (file,) = pytester.path.glob("jobs/*/result.json")
    content = json.loads(file.read_text())
    assert content["n_total_trials"] == 1
    assert content["stats"]["n_retries"] == 1


GATED = """\
=version = '1.0'
[agent]
timeout_sec = 300
network_mode = "allowlist"
allowed_hosts = ["198.51.100.7"]
"""


def tables_of_machine(engine):
    """The firewall's tables in the namespace of the engine's machine."""
    name = f"harbor-test-tables-{engine.run_id}"
    config = {
        "Image": ensure_gateway_image(engine, Deadline(300)),
        "Cmd": ["nft", "list", "tables"],
        "Labels": engine.labels(),
        "HostConfig": {"NetworkMode": "host", "CapAdd": ["NET_ADMIN"]},
    }
    engine.api.create_from(config, name)
    try:
        engine.api.start(name)
        assert engine.api.wait(name)["StatusCode"] == 0
        return engine.api.logs(name).decode()
    finally:
        engine.api.remove_container(name, force=True)


def guards_of(engine, run_id):
    """What is special in the names of a run's guards, while it goes on."""
    names = left_of(engine, run_id)
    return [name.rpartition("-")[2] for name in names if "-guard-" in name]


@pytest.mark.parametrize(
    ("args", "end"),
    [
        pytest.param([], "interrupt", marks=pytest.mark.long),
        pytest.param(["-n2"], "interrupt", marks=pytest.mark.long),
        (["-n2", "--max-worker-restart=0"], "kill a worker"),
        pytest.param(["-n2"], "time out", marks=pytest.mark.long),
    ],
)
def test_gateways_and_their_rules_end_with_the_run(make_task, pytester, engine, args, end):
    seconds = 300 if end == "interrupt" else 6
    for name in ("a", "b"):
        make_task(name, toml=GATED.replace("300", str(seconds)))
    run = Run(pytester.path, AGENT, *args)
    run.wait_for_agents(2 if args else 1)
    run_id = run.run_id
    guards = guards_of(engine, run_id)
    assert len(guards) == (2 if args else 1)
    before = tables_of_machine(engine)
    assert all(guard in before for guard in guards)
    if end == "interrupt":
        os.killpg(run.process.pid, signal.SIGINT)
    elif end == "kill a worker":
        os.kill(worker_pids(run.process.pid)[0], signal.SIGKILL)
    run.end()
    assert left_of(engine, run_id) == []
    after = tables_of_machine(engine)
    assert not [guard for guard in guards if guard in after]


AWAITS_A_GATEWAY = """\
import time
from pathlib import Path

import docker


def pytest_harbor_before_phase(phase):
    if phase == "agent":
        (job,) = Path("jobs").iterdir()
        ours = {"label": f"pytest-harbor.run={job.name.rpartition('__')[2]}"}
        api, until = docker.APIClient(version="auto"), time.monotonic() + 60
        while not any("gateway" in str(each["Names"]) for each in api.containers(filters=ours)):
            assert time.monotonic() < until, "the next trial's gateway is not made"
            time.sleep(0.05)
        api.close()
        print("A GATEWAY WAITS")
"""


def test_a_gateway_is_made_before_its_trial_and_goes_where_none_takes_it(
    make_task, run_tasks, pytester, engine
):
    make_task("a", test="#!/bin/bash\necho 0 > /logs/verifier/reward.txt\n")
    make_task("b", toml=GATED)
    pytester.makeconftest(AWAITS_A_GATEWAY)
    ran = run_tasks("tasks", "-x", "-s", subprocess=True)
    ran.run.assert_outcomes(failed=1)
    assert "A GATEWAY WAITS" in ran.text
    (job,) = pytester.path.glob("jobs/*")
    assert left_of(engine, job.name.rpartition("__")[2]) == []
