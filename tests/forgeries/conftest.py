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
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
TASK = "graded"
"""Every task's name: what names the image, which all of them share."""

BATCH = 6

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


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        id: Unique, for people.
        family: Of the file that the row lies in.
        run: What the agent does; bash.
        task: Name in ``tasks.toml``; empty where the row has tests of its own.
        tests: Name to content of the row's own tests.
        solve: Honest work of a row that has tests of its own.
        user: Who the agent is.
        modes: Mode to what is expected in it; a mode that is missing makes no sense here.
        codes: Where it is reported: codes of findings of which at least one is there.
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
    solve: str = ""
    user: str = "root"
    modes: dict[str, str] = field(default_factory=dict)
    codes: list[str] = field(default_factory=list)
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
    """``rows`` of a test are a batch of one family in one ``mode``."""
    wanted = metafunc.definition.get_closest_marker("rows")
    if wanted is None:
        return
    table, modes = {"forgeries": FORGERIES, "honest": HONEST}[wanted.args[0]], wanted.args[1:]
    part = wanted.kwargs.get("part", "all")
    sets = [
        pytest.param(batch, mode, id=f"{family}-{mode}-{number}")
        for mode in modes
        for family, rows in parts([row for row in table if mode in row.modes], part)
        for number, batch in enumerate(batched(rows))
    ]
    metafunc.parametrize(("rows", "mode"), sets)


def parts(rows: list[Row], part: str) -> list[tuple[str, list[Row]]]:
    """Rows by family; of each family the ``first`` (all of these together) or the ``rest``."""
    families = {name: list(group) for name, group in groupby(rows, lambda row: row.family)}
    if part == "first":
        return [("first", [group[0] for group in families.values()])]
    return [(name, group[part == "rest" :]) for name, group in families.items()]


def batched(rows: list[Row]) -> list[list[Row]]:
    """Rows that share a run: its start costs as much as a trial."""
    return [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "rows(table, *modes, part): batches of a table's rows")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and "grade" in item.fixturenames:
            item.add_marker(pytest.mark.docker)


@dataclass
class Graded:
    """A trial as its folder tells of it.

    Attributes:
        result: ``result.json``.
        folder: The trial's folder.
    """

    result: dict[str, Any]
    folder: Path

    @property
    def own(self) -> dict[str, Any]:
        return self.result["pytest_harbor"]

    @property
    def passed(self) -> bool:
        return self.own["passed"]

    @property
    def integrity(self) -> dict[str, Any]:
        return self.own.get("integrity") or {}

    @property
    def codes(self) -> set[str]:
        """Codes of the findings, of every level."""
        return {each["code"] for each in self.integrity.get("findings", [])}

    @property
    def suspicious(self) -> set[str]:
        """Codes of the suspicious findings."""
        findings = self.integrity.get("findings", [])
        return {each["code"] for each in findings if each["level"] == "suspicious"}

    def __str__(self) -> str:
        """For a failure: what was found, and what the verifier and the agent printed."""
        parts = [f"passed: {self.passed}, {self.own['category']}, {self.result['verifier_result']}"]
        parts += [str(self.result["exception_info"]), json.dumps(self.integrity, indent=1)]
        for name in ("verifier/test-stdout.txt", "agent/command.txt"):
            if (self.folder / name).is_file():
                parts.append(f"{name}:\n{(self.folder / name).read_text()[-2000:]}")
        return "\n".join(parts)


def write_task(folder: Path, row: Row, mode: str) -> None:
    """Write the task of a row."""
    known = TASKS.get(row.task, {})
    separate = mode == "separate"
    verifier = 'environment_mode = "separate"' if separate else ""
    artifacts = 'artifacts = ["/app"]\n' if separate else ""
    config = TASK_TOML.format(
        user=row.user,
        limit=row.limit,
        verifier=verifier,
        metadata="needs_services = true" if row.services else "",
    )
    files = {
        "task.toml": artifacts + config,
        "instruction.md": row.run,
        "solution/solve.sh": f"#!/bin/bash\n{row.solve or known.get('solve', row.run)}\n",
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
COMMAND = '--harbor-agent-command=eval "$HARBOR_INSTRUCTION"'


@pytest.fixture
def grade(pytester: pytest.Pytester, engine: Any) -> Callable[..., dict[str, Graded]]:
    """Run one trial of each row in one run; by the row's command, or by another agent."""

    def run(rows: list[Row], mode: str, *args: str, agent: str = "") -> dict[str, Graded]:
        for row in rows:
            write_task(pytester.path / "tasks" / row.id / TASK, row, mode)
        who = f"--harbor-agent={agent}" if agent else COMMAND
        ran = pytester.runpytest(
            "-p", "no:cacheprovider", "-W", "default", "tasks", who, *ARGS[mode], *args
        )
        graded = {}
        for file in sorted(pytester.path.glob("jobs/*/*/result.json")):
            result = json.loads(file.read_text())
            row, attempt = Path(result["task_id"]["path"]).parent.name, result["config"]["attempt"]
            name = row if attempt == 1 else f"{row}-{attempt}"
            graded[name] = Graded(result, file.parent)
        assert graded.keys() >= {row.id for row in rows}, ran.stdout.str() + ran.stderr.str()
        return graded

    return run


@pytest.fixture
def tables() -> dict[str, list[Row]]:
    return {"forgeries": FORGERIES, "honest": HONEST}


@pytest.fixture
def task_rows() -> list[Row]:
    """A row for each shared task, of which only the task counts."""
    return [Row(id=name, family="", run="true", task=name) for name in TASKS]
