"""Scripts run whatever their first line is; what a real shell makes of the argument list."""

import subprocess
from pathlib import Path

import pytest

from pytest_harbor.environment.script import script_argv


def test_a_first_line_of_the_scripts_own_is_left_to_the_kernel(tmp_path: Path) -> None:
    script = tmp_path / "solve.sh"
    script.write_bytes(b"#!/usr/bin/env python3\nprint(1)\n")
    assert script_argv(script, "/solution/solve.sh") == ["/solution/solve.sh"]


@pytest.mark.parametrize(
    "head", [b"", b"# a comment\n", b"\xef\xbb\xbf#!/bin/sh\n", b"\n#!/bin/sh\n", b"#", b"# !\n"]
)
def test_without_one_it_runs_in_a_shell(tmp_path: Path, head: bytes) -> None:
    script = tmp_path / "my script.sh"
    script.write_bytes(head + b'\necho "$0"; exit 3\n')
    run = subprocess.run(script_argv(script, str(script)), capture_output=True, text=True)
    assert run.stdout == f"{script}\n"
    assert run.returncode == 3


def test_the_shell_is_bash_where_there_is_one(tmp_path: Path) -> None:
    script = tmp_path / "solve.sh"
    script.write_text("[[ a == a ]] && echo $BASH_VERSION\n")
    run = subprocess.run(script_argv(script, str(script)), capture_output=True, text=True)
    assert run.stdout.strip()


def test_an_empty_script_does_nothing(tmp_path: Path) -> None:
    script = tmp_path / "solve.sh"
    script.write_bytes(b"")
    assert subprocess.run(script_argv(script, str(script))).returncode == 0
