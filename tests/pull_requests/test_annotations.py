"""Annotations as GitHub and GitLab read them, whatever strangers write."""

import json

import pytest

from pytest_harbor.report.annotations import Annotation, github_lines, gitlab_report, worst_first
from tests.pull_requests.runner import Command, obeyed

HOSTILE = (
    "::error file=x::injected",
    "\n::add-mask::secret",
    "\r::set-output name=x::y",
    "##[add-mask]x",
    "%0A::error::x",
    "%250A::error::%25",
    "a,title=b,file=c",
    "a::b",
    "\x1b[31mred\x07\x00",
    "‮turned",
    "\ud800",
    "\x85::error::x\u2028::error::y\x0b::error::z",
    "",
    "   ",
)


def one(**changed: object) -> Annotation:
    usual = {
        "level": "error",
        "file": "tasks/a/task.toml",
        "line": 3,
        "title": "unknown-field",
        "message": "memroy: unknown key; correct it",
        "code": "unknown-field",
        "task": "tasks/a",
    }
    return Annotation(**{**usual, **changed})  # type: ignore[arg-type]


def test_a_github_command() -> None:
    assert github_lines([one(message="100% a, b: c\nd", title="a: b, c")]) == [
        "::error file=tasks/a/task.toml,line=3,title=a%3A b%2C c::100%25 a, b: c%0Ad"
    ]


def test_a_finding_of_no_file_of_the_repository() -> None:
    assert github_lines([one(file=None, level="warning")]) == [
        "::warning title=unknown-field::memroy: unknown key; correct it"
    ]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("where", ["title", "message", "file", "code", "task"])
def test_hostile_text_makes_one_command(where: str, text: str) -> None:
    (line,) = github_lines([one(**{where: text})])
    assert line.isprintable()
    (command,) = obeyed(line)
    assert command.name == "error"
    assert command.data
    assert set(command.properties) <= {"file", "line", "title"}
    expected = {"file": "tasks/a/task.toml", "line": "3", "title": "unknown-field"}
    expected.pop(where, None)
    if where == "file" and not text:
        del expected["line"]
    assert expected.items() <= command.properties.items()


def test_what_is_written_is_what_is_read() -> None:
    text = "50% of a::b, c\n##[error]d %0A %25"
    (command,) = obeyed(github_lines([one(message=text, title=text, file="a,b:c%/d")])[0])
    assert (command.data, command.properties["file"]) == (text, "a,b:c%/d")
    assert command.properties["title"] == text


def test_long_text_stays_below_the_runners_limit() -> None:
    (command,) = obeyed(github_lines([one(message="x" * 100_000, title="y" * 100_000)])[0])
    assert len(command.data) < 4096
    assert len(command.properties["title"]) < 300


def test_of_many_the_worst_are_shown_and_the_rest_counted() -> None:
    many = [one(level="warning", title=f"w{n}") for n in range(12)]
    many += [one(title=f"e{n}") for n in range(25)]
    commands = [obeyed(line)[0] for line in github_lines(many)]
    assert [command.name for command in commands] == ["error"] * 10 + ["warning"] * 10 + ["notice"]
    words = "15 errors and 2 warnings more; the job's summary and its log have all"
    assert commands[-1] == Command("notice", {"title": "pytest-harbor"}, words)


def test_no_task_hides_the_others() -> None:
    many = [one(task="loud", title=f"loud {n}") for n in range(30)]
    shown = worst_first([one(level="warning", task="q"), *many, one(task="quiet", title="quiet")])
    assert [one.title for one in shown[:3]] == ["loud 0", "quiet", "loud 1"]
    assert shown[-1].level == "warning"


def test_a_gitlab_report() -> None:
    (entry,) = json.loads(gitlab_report([one()]))
    assert len(entry.pop("fingerprint")) == 64
    assert entry == {
        "description": "unknown-field: memroy: unknown key; correct it",
        "check_name": "unknown-field",
        "severity": "major",
        "location": {"path": "tasks/a/task.toml", "lines": {"begin": 3}},
    }
    assert json.loads(gitlab_report([])) == []


def fingerprints(*annotations: Annotation) -> list[str]:
    return [entry["fingerprint"] for entry in json.loads(gitlab_report(annotations))]


def test_fingerprints_stay_where_lines_move_and_tell_twins_apart() -> None:
    assert fingerprints(one(line=3)) == fingerprints(one(line=9))
    twins = fingerprints(one(line=3), one(line=9))
    assert len(set(twins)) == 2
    assert twins[0] == fingerprints(one())[0]
    others = [one(code="x"), one(file="x"), one(message="x")]
    assert len({*fingerprints(*others), *twins}) == 5


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_a_gitlab_report(text: str) -> None:
    report = gitlab_report([one(file=text or None, title=text, message=text, code=text)])
    report.encode()
    (entry,) = json.loads(report)
    assert entry["location"]["path"]
