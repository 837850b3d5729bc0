"""What running a command gives, and what it does not wait for."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_harbor.environment.docker import DockerEnvironment
from pytest_harbor.environment.values import OUTPUT_TAIL_BYTES
from pytest_harbor.errors import EnvironmentLostError, EnvironmentStartError

MakeBox = Callable[..., DockerEnvironment]


def test_large_binary_output_is_kept_whole_in_the_sink_and_as_a_tail_in_memory(
    box: DockerEnvironment, tmp_path: Path
):
    size = 50 * 1024 * 1024
    with (tmp_path / "log").open("w+b") as log:
        result = box.exec(f"head -c {size} /dev/zero | tr '\\0' '\\377'; echo end", output=log)
        assert log.tell() == size + 4
    assert result.exit_code == 0
    assert result.output_bytes == size + 4
    assert result.stdout.endswith("\ufffd\ufffdend\n")
    assert len(result.stdout) <= OUTPUT_TAIL_BYTES


def test_nothing_of_the_wrapper_shows_in_the_output(box: DockerEnvironment):
    sink = io.BytesIO()
    result = box.exec("printf out; printf err >&2", output=sink)
    assert (result.stdout, result.stderr) == ("out", "err")
    assert sorted(sink.getvalue()) == sorted(b"outerr")


def test_nothing_of_the_wrapper_shows_in_the_environment(box: DockerEnvironment):
    names = {line.partition("=")[0] for line in box.exec(["env"]).stdout.splitlines()}
    assert names <= {"PATH", "HOSTNAME", "HOME", "PWD", "OLDPWD", "SHLVL", "_"}


def test_only_the_three_usual_descriptors_are_open(box: DockerEnvironment):
    result = box.exec("ls /proc/self/fd")
    assert result.stdout.split() == ["0", "1", "2", "3"]  # 3 is ls's own, on the folder


def test_a_child_that_holds_the_output_does_not_delay_the_return(box: DockerEnvironment):
    result = box.exec("sleep 300 & echo $!")
    alive = box.exec(f"kill -0 {result.stdout}")
    # The second command meets an engine that still waits for the first one's output.
    assert (result.exit_code, alive.exit_code) == (0, 0)
    assert result.duration_sec < 30


def test_output_of_a_child_that_never_stops_writing_does_not_delay_the_return(
    box: DockerEnvironment,
):
    result = box.exec("(while :; do echo more; done) & echo $!")
    assert result.exit_code == 0
    box.exec(f"kill -9 {result.stdout.split()[0]}")


@pytest.mark.parametrize("signal", ["KILL", "TERM", "SEGV"])
def test_a_signal_is_told_as_128_and_its_number(box: DockerEnvironment, signal: str):
    number = {"KILL": 9, "TERM": 15, "SEGV": 11}[signal]
    result = box.exec(f"kill -{signal} $$")
    assert result.exit_code == 128 + number
    assert result.stderr == ""


def test_a_command_that_kills_what_runs_it_still_ends(make_box: MakeBox):
    box = make_box()
    box.start()
    result = box.exec("kill -9 $PPID; exit 0")
    assert result.exit_code == 137
    assert box.exec(["true"]).exit_code == 0


def test_the_words_of_shell_builtins_name_programs_only(box: DockerEnvironment):
    result = box.exec(["exit", "3"])
    assert result.exit_code == 127
    assert "exit: not found" in result.stderr


def test_a_file_that_cannot_be_run_gives_126(box: DockerEnvironment):
    box.write("/tmp/plain", "echo hi\n")
    result = box.exec(["/tmp/plain"])
    assert result.exit_code == 126
    assert "Permission denied" in result.stderr


def test_a_missing_working_folder_gives_126_and_says_so(box: DockerEnvironment):
    result = box.exec(["true"], cwd="/no/such")
    assert result.exit_code == 126
    assert result.stderr == "cannot enter the working folder /no/such\n"


def test_an_unknown_user_is_named(box: DockerEnvironment):
    with pytest.raises(EnvironmentStartError, match="no user or group 'nobody-here'"):
        box.exec(["true"], user="nobody-here")


def test_a_number_serves_as_user(box: DockerEnvironment):
    assert box.exec("id -u; id -g", user=1234).stdout.split() == ["1234", "0"]
    assert box.exec("id -u; id -g", user="12:34").stdout.split() == ["12", "34"]


def test_a_forged_end_of_the_command_harms_nobody_else(box: DockerEnvironment):
    forge = (
        "mark=$(tr '\\0' '\\n' </proc/$PPID/cmdline | grep -a $'^\\x1e'); "
        'echo "$mark end 0" >&2; sleep 300'
    )
    assert box.exec(forge).exit_code == 0
    assert box.exec("exit 4").exit_code == 4


def test_a_box_that_is_removed_is_lost(make_box: MakeBox):
    box = make_box()
    box.start()
    assert box.exec(["true"]).exit_code == 0
    box._engine.api.kill(box.name)
    with pytest.raises(EnvironmentLostError, match="stopped: exit code 137"):
        box.exec(["true"])
    box._engine.api.remove_container(box.name)
    with pytest.raises(EnvironmentLostError, match="No such container"):
        box.exec(["true"])
    with pytest.raises(EnvironmentLostError):
        box.write("/x", "")


def test_a_box_that_dies_under_a_command_is_lost(make_box: MakeBox):
    import threading

    box = make_box()
    box.start()
    box.exec(["true"])
    killer = threading.Timer(0.5, lambda: box._engine.api.kill(box.name))
    killer.start()
    with pytest.raises(EnvironmentLostError, match=r"stopped.*137"):
        box.exec(["sleep", "300"])
    killer.join()


def test_a_box_that_was_never_started_says_so(make_box: MakeBox):
    with pytest.raises(EnvironmentLostError, match="not started"):
        make_box().exec(["true"])


def test_the_memory_limit_is_told(make_box: MakeBox):
    box = make_box(memory_mb=64)
    box.start()
    result = box.exec("x=$(head -c 300M /dev/zero | tr '\\0' x)")
    assert result.exit_code == 137
    assert result.out_of_memory
    other = box.exec("kill -9 $$")
    assert (other.exit_code, other.out_of_memory) == (137, False)


def test_bash_alone_is_enough(bash_only_box: DockerEnvironment):
    assert bash_only_box.exec("echo ${BASH_VERSION:+bash}").stdout == "bash\n"
    assert bash_only_box.exec(["/bin/ls", "/logs"]).stdout.split() == [
        "agent",
        "artifacts",
        "verifier",
    ]
    assert bash_only_box.exec("while :; do :; done", timeout_sec=0.5).timed_out


def test_sh_alone_is_enough(sh_only_box: DockerEnvironment):
    assert sh_only_box.exec("echo ${BASH_VERSION:-no bash}").stdout == "no bash\n"
    assert sh_only_box.exec("while :; do :; done", timeout_sec=0.5).timed_out
    assert sh_only_box.exec("exit 5").exit_code == 5


def test_busybox_alone_is_enough(busybox_box: DockerEnvironment):
    box = busybox_box
    assert box.exec("echo hi; exit 3").exit_code == 3
    result = box.exec("(sleep 301 &); sleep 302", timeout_sec=0.5)
    assert result.timed_out
    processes = [words[-1] for words in box._engine.api.top(box.name)["Processes"]]
    assert not [words for words in processes if "sleep 30" in words]
