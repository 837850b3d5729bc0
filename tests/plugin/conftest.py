"""Inner projects whose trials end at their fixture: nothing here needs an engine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# What inner runs need is loaded once: each starts with the modules that are there now.
import pytest_harbor.plugin.outcomes
import pytest_harbor.plugin.terminal
import pytest_harbor.task.reader  # noqa: F401

CONFTEST = """
import pytest
from pytest_harbor.plugin import engine

patch = pytest.MonkeyPatch()

def pytest_configure(config):
    patch.setattr(engine, "require", lambda *_: None)

def pytest_unconfigure(config):
    patch.undo()

@pytest.fixture
def harbor_trial(request, harbor_task):
    pytest.skip(f"trial of {harbor_task.path.name} by {request.node.variant.agent}")
"""

HOSTILE_FILES = (
    "conftest.py",
    "__init__.py",
    "test_root.py",
    "tests/conftest.py",
    "tests/__init__.py",
    "tests/test_outputs.py",
    "environment/conftest.py",
)


class Project:
    """The project of an inner run: a conftest.py above the tasks, and an ini file."""

    def __init__(self, pytester: pytest.Pytester, make_task: Callable[..., Path]) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.task = make_task
        pytester.makeconftest(CONFTEST)
        self.ini()

    def ini(self, *lines: str) -> None:
        """Replace the ini file; the outer run's filters are not the inner one's."""
        self.pytester.makeini("\n".join(["[pytest]", "filterwarnings = default", *lines]))

    def conftest(self, text: str, folder: str = ".") -> None:
        """Add to the ``conftest.py`` of a folder."""
        path = self.path / folder / "conftest.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text() if path.exists() else "import pytest\n"
        path.write_text(f"{before}\n{text}")

    def hostile_task(self, name: str = "hello", **changed: Any) -> Path:
        """Write a task whose Python files leave a trace and raise when imported."""
        folder = self.task(name, **changed)
        for file in HOSTILE_FILES:
            place = folder / file
            place.parent.mkdir(exist_ok=True)
            place.write_text(self.trap(file))
        return folder

    def trap(self, name: str) -> str:
        """Python that leaves a trace and raises."""
        trace = self.path / "imported.txt"
        return f"open({str(trace)!r}, 'a').write({name!r})\nraise SystemError({name!r})\n"

    def assert_nothing_was_imported(self) -> None:
        """No trap was sprung."""
        trace = self.path / "imported.txt"
        assert not trace.exists(), f"imported on the host: {trace.read_text()}"

    def run_process(self, *args: object) -> pytest.RunResult:
        """Run pytest in a process of its own; workers need one."""
        return self.pytester.runpytest_subprocess("-p", "no:hypothesispytest", *args)

    def run(self, *args: object) -> pytest.RunResult:
        """Run pytest in this process."""
        return self.pytester.runpytest_inprocess("-p", "no:hypothesispytest", *args)

    def ids(self, *args: object) -> list[str]:
        """The ids that an inner run collects."""
        result = self.run("--collect-only", "-q", *args)
        return [line for line in result.outlines if "::" in line and " " not in line[:1]]


@pytest.fixture
def project(pytester: pytest.Pytester, make_task: Callable[..., Path]) -> Project:
    """A project without tasks yet."""
    return Project(pytester, make_task)
