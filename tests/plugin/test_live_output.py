"""What is printed while a trial runs and is not captured has no secrets either."""

import io
import json
import sys
from typing import Any

import pytest

from pytest_harbor.plugin.live_output import clean_output
from pytest_harbor.trial.secrets import Redactor

SECRET = "s3cr3t-value"
LEAKY = """
import logging, os, sys

known = logging.StreamHandler(sys.__stdout__)  # holds the stream that is there now
@pytest.fixture
def harbor_trial(request, capsys):
    key = os.environ["MY_TOKEN"]
    with capsys.disabled():
        print("printed", key)
        print("in two:", key[:5], end="", flush=True)
        print(key[5:])
        sys.stdout.write("a line\\nno line " + key)
        print()
        print("to stderr", key, file=sys.stderr)
        sys.stdout.flush()
        sys.stdout.buffer.write(f"binary {key}\\n".encode())
        sys.stdout.flush()
        known.emit(logging.makeLogRecord({"msg": f"logged {key}"}))
        print("once more", key, file=sys.__stdout__)
        print("the end begins one: " + key[:4], end="")
    pytest.skip("far enough")
"""
SHOWN = [
    "printed [REDACTED]",
    "in two: [REDACTED]",
    "a line",
    "no line [REDACTED]",
    "binary [REDACTED]",
    "logged [REDACTED]",
    "once more [REDACTED]",
    "the end begins one: s3cr",
]


@pytest.mark.parametrize("capture", ["no", "tee-sys", "sys", "fd"])
@pytest.mark.parametrize("buffering", ["", "1"])
def test_nothing_that_is_printed_shows_a_secret(
    project: Any, monkeypatch: pytest.MonkeyPatch, capture: str, buffering: str
) -> None:
    project.task("a")
    project.task("b")
    project.conftest(LEAKY)
    monkeypatch.setenv("MY_TOKEN", SECRET)
    monkeypatch.setenv("PYTHONUNBUFFERED", buffering)
    options = ["--harbor-agent-env=MY_TOKEN", f"--capture={capture}", "-p", "no:randomly"]
    result = project.run_process(*options)
    result.assert_outcomes(skipped=2)
    assert SECRET not in result.stdout.str() + result.stderr.str()
    assert "to stderr [REDACTED]" in result.stderr.str()
    assert result.stdout.str().count("\n".join(SHOWN)) == 2


def test_what_the_run_prints_otherwise_is_left_alone(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.task("a")
    project.pytester.makepyfile(test_plain="def test_plain():\n    print('plain s3cr3t-value')\n")
    monkeypatch.setenv("MY_TOKEN", SECRET)
    args = ("--harbor-agent-env=MY_TOKEN", "-s", "-p", "no:randomly")
    result = project.run_process(*args, "tasks", "test_plain.py")
    result.assert_outcomes(skipped=1, passed=1)
    result.stdout.fnmatch_lines(["*plain s3cr3t-value"])


class Terminal(io.StringIO):
    """A stream without bytes below, as some consoles are."""


def test_a_stream_of_text_alone_is_cleaned_too(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    with clean_output(Redactor([SECRET]).forms):
        sys.stdout.write("é s3c")
        assert shown.getvalue() == "é "
        sys.stdout.write(f"r3t-value {json.dumps(SECRET)}\n")
    sys.stdout.write(SECRET)
    assert shown.getvalue() == f'é [REDACTED] "[REDACTED]"\n{SECRET}'


def test_whole_lines_and_what_begins_no_secret_are_shown_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    written = ""
    with clean_output(Redactor([SECRET]).forms):
        for piece, held in (("one ", ""), ("two: s", "s"), ("3\n", ""), ("> ", "")):
            sys.stdout.write(piece)
            written += piece
            assert shown.getvalue() + held == written


def test_what_becomes_secret_later_is_cleaned_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    redactor = Redactor()
    with clean_output(redactor.forms):
        sys.stdout.write(SECRET)
        redactor.add([SECRET])
        sys.stdout.write(SECRET)
    assert shown.getvalue() == f"{SECRET}[REDACTED]"
