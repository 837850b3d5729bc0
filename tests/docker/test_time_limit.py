"""At a command's time limit it is dead, with all that it started, and nothing else is."""

import threading
import time
from collections.abc import Callable

import pytest

from pytest_harbor.environment.docker import DockerEnvironment
from pytest_harbor.environment.docker.execution import CommandRunner

MakeBox = Callable[..., DockerEnvironment]

SERVICE_IMAGE = """\
FROM debian:bookworm-slim
RUN printf '#!/bin/sh\\nsleep 7001 &\\nexec "$@"\\n' >/entry.sh && chmod +x /entry.sh
ENTRYPOINT ["/entry.sh"]
"""


def processes(box: DockerEnvironment) -> list[str]:
    """The command lines of what runs in the box, as the engine's machine sees them."""
    return [row[-1] for row in box._engine.api.top(box.name)["Processes"]]


def test_an_interrupt_that_comes_as_a_command_begins_is_not_lost(
    box: DockerEnvironment, monkeypatch: pytest.MonkeyPatch
):
    """A model's limit can be met before the command has told which process it is."""
    started, threads = CommandRunner._start, []

    def start_slowly(self, *arguments):
        execution = started(self, *arguments)
        if not threads:
            threads.append(threading.Thread(target=box.interrupt))
            threads[0].start()
            time.sleep(0.2)
        return execution

    monkeypatch.setattr(CommandRunner, "_start", start_slowly)
    assert not box.exec("sleep 6009; true", timeout_sec=20).timed_out
    threads[0].join()


def test_a_busy_loop_is_dead_and_its_output_kept(box: DockerEnvironment):
    result = box.exec("echo begun; while :; do :; done", timeout_sec=0.5)
    assert (result.timed_out, result.exit_code, result.stdout) == (True, None, "begun\n")
    assert not [line for line in processes(box) if "while" in line]


@pytest.mark.parametrize(
    "command",
    [
        "sleep 6001; true",
        "setsid sleep 6001 & sleep 6002; true",
        "(setsid sh -c 'sleep 6001 & sleep 6002' &) ; sleep 6003; true",
        "(sleep 6001 &) ; exec sleep 6002",
        "trap '' TERM INT HUP; sleep 6001; sleep 6002",
        "sh -c 'kill -STOP $$; true' & sleep 6001; true",
        "cp /bin/sleep '/tmp/a) R 1'; '/tmp/a) R 1' 6001 & sleep 6002; true",
    ],
    ids=["child", "session", "daemon", "orphan", "deaf", "stopped", "misleading-name"],
)
def test_children_of_every_kind_are_dead(box: DockerEnvironment, command: str):
    assert box.exec(command, timeout_sec=0.6).timed_out
    assert not [line for line in processes(box) if "600" in line or "STOP" in line]


def test_what_other_users_started_is_dead_as_well(box: DockerEnvironment):
    assert box.exec("setsid sleep 6001 & sleep 6002", user=4321, timeout_sec=0.6).timed_out
    assert not [line for line in processes(box) if "600" in line]


def test_what_ran_before_lives_on(make_box: MakeBox, make_context: Callable[[str], object]):
    box = make_box(context_dir=make_context(SERVICE_IMAGE), name_hint="service")
    box.start()
    # A server left by an earlier command that starts a worker while the later one runs.
    box.exec("setsid sh -c 'sleep 1; sleep 7002' >/dev/null 2>&1 &")
    assert box.exec("(setsid sleep 6001 &); sleep 6002", timeout_sec=1.5).timed_out
    running = " ".join(processes(box))
    assert "sleep 7001" in running
    assert "sleep 7002" in running
    assert "sleep 600" not in running
    assert box.notes == ()


def test_a_fork_bomb_is_dead_and_the_box_works_on(make_box: MakeBox):
    box = make_box(pids_limit=64)
    box.start()
    box.write("/kept", "kept")
    assert box.exec("bomb() { bomb | bomb & }; bomb; sleep 6001", timeout_sec=1).timed_out
    assert box.exec(["cat", "/kept"]).stdout == "kept"
    assert not [line for line in processes(box) if "bomb" in line]


def test_a_process_that_is_always_another_one_is_dead(make_box: MakeBox):
    box = make_box()
    box.start()
    chain = "f() { (f &) ; exit; }; (f); sleep 6001"
    assert box.exec(["bash", "-c", chain], timeout_sec=0.6).timed_out
    assert not [line for line in processes(box) if "f()" in line or "600" in line]


def test_a_limit_that_passes_before_the_command_begins_kills_it_all_the_same(
    box: DockerEnvironment,
):
    assert box.exec("sleep 6001; true", timeout_sec=0.0).timed_out
    assert not [line for line in processes(box) if "600" in line]
