"""What test scripts and solutions do that makes runs hang, differ or depend on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tree_sitter import Node

from pytest_harbor.check.finding import Check, Found
from pytest_harbor.check.rules import HouseRules
from pytest_harbor.check.shell import Command, ShellScript, line_of, text_of, walk
from pytest_harbor.check.subject import Subject

CHECKS = (
    Check(
        "open-background",
        "runners that read the script's output wait for the process until time is up",
        "send its output to a file: … > server.log 2>&1 &",
        "warning",
    ),
    Check(
        "pkill-by-text",
        "it fits the shell that runs the script as well, and kills it",
        "kill by process id, or pkill -x NAME",
        "warning",
    ),
    Check(
        "machine-size",
        "the number is the machine's, not the container's limit; rewards and times differ",
        "write a number, or take it from the task's cpus",
        "warning",
    ),
)


def find(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    """What is doubtful in the scripts that are run."""
    for path in subject.test_scripts:
        yield from _of_script(path, subject.script(path))
    for path in subject.solution_scripts:
        script = subject.script(path)
        yield from _of_script(path, script)
        yield from _background(path, script)
    for path in subject.test_scripts:
        for command in subject.script(path).commands():
            if command.name == "nproc" and len(command.plain) == 1:
                yield Found("machine-size", "nproc", path, command.line)


def _of_script(path: Path, script: ShellScript) -> Iterator[Found]:
    for command in script.commands():
        if _kills_itself(command):
            yield Found("pkill-by-text", " ".join(command.plain)[:80], path, command.line)


def _kills_itself(command: Command) -> bool:
    """Whether the pattern fits the path of a script too."""
    flags = [word for word in command.plain[1:] if word.startswith("-") and not word[1:].isupper()]
    return command.name == "pkill" and any("f" in flag.lstrip("-") for flag in flags)


def _background(path: Path, script: ShellScript) -> Iterator[Found]:
    """Processes left behind that hold the script's output open."""
    if any(command.words[:1] == ("exec",) for command in script.commands()):
        return  # the script may have sent all its output elsewhere
    for node in walk(script.root):
        after = node.next_sibling
        is_behind = after is not None and after.type == "&"
        if is_behind and node.type == "command" and not _is_awaited(node, script):
            yield Found("open-background", f"{text_of(node)[:80]} &", path, line_of(node))


def _is_awaited(node: Node, script: ShellScript) -> bool:
    later = (one for one in script.commands() if one.line >= line_of(node))
    return any(one.name in ("wait", "kill", "pkill") for one in later)
