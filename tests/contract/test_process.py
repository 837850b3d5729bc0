"""What every backend's running commands do; the trial and its agents rely on all of it."""

import io

import pytest

from pytest_harbor.environment.base import Environment
from pytest_harbor.environment.process import Process
from pytest_harbor.errors import EnvironmentStartError

PATIENCE_SEC = 30


def read_all(process: Process) -> bytes:
    output = b""
    while piece := process.read(PATIENCE_SEC):
        output += piece
    assert piece == b"", "the output did not end in time"
    return output


def test_a_process_answers_what_it_is_told(environment: Environment) -> None:
    with environment.open_process('while read -r line; do echo "got $line"; done') as process:
        for word in ("one", "two", "three"):
            process.write(f"{word}\n".encode())
            assert process.read(PATIENCE_SEC) == f"got {word}\n".encode()
        assert process.exit_code is None


def test_reading_gives_up_in_time(environment: Environment) -> None:
    with environment.open_process(["cat"]) as process:
        assert process.read(0.05) is None
        process.write(b"late")
        assert process.read(PATIENCE_SEC) == b"late"


def test_the_end_of_input_is_seen_and_the_status_kept(environment: Environment) -> None:
    with environment.open_process("cat; exit 7") as process:
        process.write(b"last words")
        process.end_input()
        process.end_input()
        assert read_all(process) == b"last words"
        assert process.wait(PATIENCE_SEC)
        assert process.exit_code == 7
        with pytest.raises(BrokenPipeError):
            process.write(b"more")


def test_large_data_goes_both_ways_whole(environment: Environment) -> None:
    data = bytes(range(256)) * 8192
    with environment.open_process(["sh", "-c", "cat > /tmp/taken; cat /tmp/taken"]) as process:
        process.write(data)
        process.end_input()
        assert read_all(process) == data


def test_standard_error_is_kept_apart(environment: Environment) -> None:
    sink = io.BytesIO()
    command = "echo out; echo err >&2"
    with environment.open_process(command, stderr=sink) as process:
        assert read_all(process) == b"out\n"
        assert process.wait(PATIENCE_SEC)
        assert process.stderr == "err\n"
    assert sink.getvalue() == b"err\n"


def test_user_folder_and_variables_are_as_asked(environment: Environment) -> None:
    with environment.open_process(
        'echo "$(id -u) $PWD $WORD $FROM_SPEC"', user="1234", cwd="/tmp", env={"WORD": "w"}
    ) as process:
        assert read_all(process) == b"1234 /tmp w 1\n"
    with environment.open_process("pwd") as process:
        assert read_all(process) == f"{environment.workdir}\n".encode()


def test_a_missing_command_ends_with_127_and_says_why(environment: Environment) -> None:
    with environment.open_process(["no-such-program"]) as process:
        assert process.wait(PATIENCE_SEC)
        assert process.exit_code == 127
        assert "no-such-program" in process.stderr


def test_an_unknown_user_is_refused(environment: Environment) -> None:
    with pytest.raises(EnvironmentStartError, match="no user or group 'nobody-here'"):
        environment.open_process(["cat"], user="nobody-here")


def running(environment: Environment, word: str) -> bool:
    """Whether a process named ``word`` runs."""
    command = "for p in /proc/[0-9]*; do cat $p/comm; done 2>/dev/null"
    return word in environment.exec(command).stdout.split()


def test_closing_kills_what_the_command_started_and_nothing_else(
    environment: Environment,
) -> None:
    environment.exec("cp /bin/sleep /tmp/child && cp /bin/sleep /tmp/service")
    process = environment.open_process(
        "trap '' TERM HUP; /tmp/child 1000 & echo up; while :; do sleep 0.2; done"
    )
    assert process.read(PATIENCE_SEC) == b"up\n"
    # Younger than the process, and handed to process 1: a daemon of another command's.
    environment.exec("/tmp/service 1000 >/dev/null 2>&1 </dev/null &")
    assert running(environment, "child")
    process.close(0)
    process.close(0)
    assert not running(environment, "child")
    assert running(environment, "service")
    assert process.read(0) == b""
    with pytest.raises(BrokenPipeError):
        process.write(b"anybody there?")


def test_closing_does_not_wait_for_a_process_that_floods(environment: Environment) -> None:
    process = environment.open_process(["yes"])
    assert process.read(PATIENCE_SEC)
    process.close(0)
    assert not running(environment, "yes")


def test_a_command_may_end_by_itself_when_its_input_ends(environment: Environment) -> None:
    process = environment.open_process("cat; echo bye > /tmp/bye; exit 5")
    process.close(PATIENCE_SEC)
    assert environment.read("/tmp/bye") == b"bye\n"
    assert process.exit_code == 5


def test_a_child_that_holds_the_output_open_does_not_delay_the_end(
    environment: Environment,
) -> None:
    with environment.open_process("sleep 1000 & echo done") as process:
        assert read_all(process) == b"done\n"
        assert process.exit_code == 0


def test_commands_run_beside_a_process(environment: Environment) -> None:
    with environment.open_process(["cat"]) as process:
        assert environment.exec(["echo", "beside"]).stdout == "beside\n"
        process.write(b"still there")
        assert process.read(PATIENCE_SEC) == b"still there"
