"""Forged and honest work: rows of the tables become trials of whole runs.

A row is a command that the agent runs as the only thing it does; a task is one of
``tasks.toml`` or the row's own. Rows live in ``rows/``, one file per family, and are
described in ``README.md``.
"""

import json
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
TASK = "graded"
"""Every task's name: what names the image, which all of them share."""

MODES = ("shared", "isolated", "separate")

TASK_TOML = """\
version = "1.0"
[metadata]
{metadata}
[agent]
timeout_sec = 60
user = "{user}"
[verifier]
timeout_sec = {limit}
{verifier}
[environment]
build_timeout_sec = 600
"""

SEPARATE = 'environment_mode = "separate"\n[[artifacts]]\nsource = "/app"\n'


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        id: Unique, for people.
        family: Of the file that the row lies in.
        run: What the agent does; bash.
        task: Name in ``tasks.toml``; empty where the row has tests of its own.
        tests: Name to content of the row's own tests.
        user: Who the agent is.
        modes: Mode to what is expected in it; a mode that is missing makes no sense here.
        codes: Mode to the codes of findings of which at least one is reported.
        allowed: Codes of suspicious findings that honest work may bring, with ``why``.
        why: Reason for whatever the row expects beyond the ordinary.
        services: The task says that it needs its processes.
        limit: Seconds that the verifier has.
    """

    id: str
    family: str
    run: str
    task: str = ""
    tests: dict[str, str] = field(default_factory=dict)
    user: str = "root"
    modes: dict[str, str] = field(default_factory=dict)
    codes: dict[str, list[str]] = field(default_factory=dict)
    allowed: list[str] = field(default_factory=list)
    why: str = ""
    services: bool = False
    limit: int = 60


def read_rows(folder: str) -> list[Row]:
    """Every row of a folder of tables."""
    return [
        Row(id=name, family=file.stem, **values)
        for file in sorted((HERE / "rows" / folder).glob("*.toml"))
        for name, values in tomllib.loads(file.read_text(encoding="utf-8")).items()
    ]


FORGERIES = read_rows("forgeries")
HONEST = read_rows("honest")
TASKS: dict[str, dict[str, Any]] = tomllib.loads((HERE / "tasks.toml").read_text(encoding="utf-8"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``forgery``, ``honest`` and ``task`` of a test are rows; ``mode`` is one of the row's."""
    wanted = metafunc.definition.get_closest_marker("modes")
    modes = wanted.args if wanted else MODES
    for name, rows in (("forgery", FORGERIES), ("honest", HONEST)):
        if name in metafunc.fixturenames and "mode" in metafunc.fixturenames:
            pairs = [(row, mode) for row in rows for mode in modes if mode in row.modes]
            ids = [f"{row.id}-{mode}" for row, mode in pairs]
            metafunc.parametrize((name, "mode"), pairs, ids=ids)
        elif name in metafunc.fixturenames:
            metafunc.parametrize(name, rows, ids=[row.id for row in rows])
    if "task" in metafunc.fixturenames:
        metafunc.parametrize("task", TASKS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and "grade" in item.fixturenames:
            item.add_marker(pytest.mark.docker)


@dataclass
class Graded:
    """A trial as its files and its run's output tell of it.

    Attributes:
        outcomes: pytest's counts.
        result: ``result.json``.
        text: What the run printed.
        folder: The trial's folder.
    """

    outcomes: dict[str, int]
    result: dict[str, Any]
    text: str
    folder: Path

    @property
    def passed(self) -> bool:
        return self.outcomes.get("passed", 0) > 0 and "failed" not in self.outcomes

    @property
    def integrity(self) -> dict[str, Any]:
        return self.result["pytest_harbor"].get("integrity") or {}

    def codes(self, level: str = "") -> set[str]:
        """Codes of the findings."""
        findings = self.integrity.get("findings", [])
        return {each["code"] for each in findings if level in ("", each["level"])}

    @property
    def suspicious(self) -> set[str]:
        return self.codes("suspicious")

    def __str__(self) -> str:
        return f"{json.dumps(self.integrity, indent=1)}\n{self.text}"


def write_task(folder: Path, row: Row, mode: str) -> None:
    """Write the task of a row."""
    known = TASKS.get(row.task, {})
    separate = mode == "separate"
    verifier, artifacts = ('environment_mode = "separate"', 'artifacts = ["/app"]\n') if (
        separate
    ) else ("", "")
    config = TASK_TOML.format(
        user=row.user,
        limit=row.limit,
        verifier=verifier,
        metadata='needs_services = true' if row.services else "",
    )
    files = {
        "task.toml": artifacts + config,
        "instruction.md": "Do the work.\n",
        "solution/solve.sh": f"#!/bin/bash\n{known.get('solve', row.run)}\n",
    }
    tests = row.tests or known["tests"]
    files |= {f"tests/{name}": text.lstrip("\n") for name, text in tests.items()}
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")
    shutil.copytree(HERE / "image", folder / "environment")
    if extra := known.get("image"):
        shutil.copytree(folder / "tests", folder / "environment/tests")
        with (folder / "environment/Dockerfile").open("a") as dockerfile:
            dockerfile.write(extra)


ARGS = {"shared": [], "isolated": ["--harbor-isolate"], "separate": []}


@pytest.fixture
def grade(pytester: pytest.Pytester, engine: Any) -> Callable[..., Graded]:
    """Run one trial of a row's task: by the row's command, or by another agent."""

    def run(row: Row, mode: str, *args: str, agent: str = "") -> Graded:
        write_task(pytester.path / "tasks" / TASK, row, mode)
        who = f"--harbor-agent={agent}" if agent else f"--harbor-agent-command={row.run}"
        ran = pytester.runpytest(
            "-p", "no:cacheprovider", "-W", "default", "tasks", who, *ARGS[mode], *args
        )
        (file,) = pytester.path.glob("jobs/*/*/result.json")
        return Graded(
            ran.parseoutcomes(), json.loads(file.read_text()), ran.stdout.str(), file.parent
        )

    return run


@pytest.fixture
def make_row() -> Callable[..., Row]:
    """A row that is in no table."""
    return lambda task, run="true", **values: Row(id=task, family="", run=run, task=task, **values)
