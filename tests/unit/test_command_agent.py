"""The command of a user's, filled: what a real shell makes of it."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harbor.agent.command import INSTRUCTION_FILE, CommandAgent, fill
from pytest_harbor.errors import OptionError
from pytest_harbor.task.reader import read_task

shell_texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=60)


def said(command: str, instruction: str) -> str:
    run = subprocess.run(
        ["sh", "-c", fill(command, instruction)], capture_output=True, check=True, text=True
    )
    return run.stdout


@settings(max_examples=40)
@given(shell_texts)
def test_the_program_gets_the_text_as_it_is(instruction: str) -> None:
    assert said("printf %s {instruction}", instruction) == instruction


@pytest.mark.parametrize(
    "instruction",
    [
        'it\'s "quoted"',
        "$HOME `id` $(id) !! \\n * ~",
        "line one\nline two\n",
        "--help",
        "a {instruction} and {instruction_file} in the text",
        r"\g<0> \1 {0} {}",
        "",
    ],
)
@pytest.mark.parametrize("command", ["{instruction}", "'{instruction}'", '"{instruction}"'])
def test_quotes_around_the_placeholder_make_no_difference(command: str, instruction: str) -> None:
    assert said(f"printf '<%s>' {command} end", instruction) == f"<{instruction}><end>"


def test_the_placeholder_may_come_more_than_once() -> None:
    assert said("printf '%s|%s' {instruction} {instruction}", "do it") == "do it|do it"


def test_the_file_is_named_by_its_path() -> None:
    assert fill("agent --file={instruction_file}", "text") == f"agent --file={INSTRUCTION_FILE}"


def test_other_braces_are_left_alone() -> None:
    command = "echo ${HOME} {} {a,b} {Instruction} '{\"json\": 1}'"
    assert fill(command, "text") == command


def test_an_instruction_too_long_for_a_command_line_is_refused(make_task) -> None:
    folder: Path = make_task(instruction="it's much to do\n" * 10_000)
    task = read_task(folder)
    with pytest.raises(OptionError, match=r"has \d+ bytes; .* Write \{instruction_file\}"):
        CommandAgent(command="agent {instruction}").check(task)
    CommandAgent(command="agent {instruction_file}").check(task)
