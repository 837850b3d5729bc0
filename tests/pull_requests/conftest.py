"""Projects in real git repositories, whose tasks are looked at without an engine."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

# What inner runs need is loaded once: each starts with the modules that are there now.
import pytest_harbor.check.changes
import pytest_harbor.plugin.check_items
import pytest_harbor.plugin.check_report
import pytest_harbor.plugin.outcomes
import pytest_harbor.report.annotations
import pytest_harbor.report.job_page  # noqa: F401
from tests.conftest import TaskMaker

ALONE = ("-p", "no:hypothesispytest")


GIT_SETTINGS = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_NAME": "somebody" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "somebody@example.com" for who in ("AUTHOR", "COMMITTER")},
}
"""Nothing of this machine's own."""


class Git:
    """A git repository in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / ".git").exists():
            path.mkdir(parents=True, exist_ok=True)
            self("init", "-q", "-b", "main")

    def __call__(self, *args: str) -> str:
        """Run git; gives what it printed."""
        command = ["git", "-c", "protocol.file.allow=always", *args]
        env = {**os.environ, **GIT_SETTINGS}
        done = subprocess.run(
            command, cwd=self.path, env=env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, words: str = "change") -> str:
        """Commit all there is; gives the commit's id."""
        self("add", "-A")
        self("commit", "-q", "--allow-empty", "-m", words)
        return self("rev-parse", "HEAD")


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither git's own settings nor a service that runs these tests shapes inner runs."""
    for name, value in GIT_SETTINGS.items():
        monkeypatch.setenv(name, value)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make_git() -> Callable[[Path], Git]:
    """Make a repository of a folder."""
    return Git


class Project:
    """A repository with the tasks ``a``, ``b`` and ``c`` on its branch ``main``.

    The branch ``pr`` is checked out, and has no commit of its own yet.
    """

    def __init__(self, path: Path, pytester: pytest.Pytester | None = None) -> None:
        self._pytester = pytester
        self.path = path
        self.task = TaskMaker(path / "tasks")
        is_new = not (path / ".git").exists()
        self.git = Git(path)
        if is_new:
            for name in ("a", "b", "c"):
                self.add_task(name)
            self.ini()
            self.write(".gitignore", "__pycache__/\n.pytest_cache/\n*.pyc\n")
            self.git.commit("base")
            self.git("checkout", "-q", "-b", "pr")

    @property
    def pytester(self) -> pytest.Pytester:
        """What runs pytest in the project."""
        assert self._pytester is not None
        return self._pytester

    def add_task(self, name: str, **changed: str) -> Path:
        """A sound task, whose instruction is unlike others'."""
        texts = {"instruction": f"Write ok into /app/out.txt. {name} {' '.join([name] * 9)}\n"}
        return self.task(name, **{**texts, **changed})

    def ini(self, *lines: str) -> None:
        """Write the ini file."""
        text = "\n".join(["[pytest]", "filterwarnings = default", *lines, ""])
        self.write("pytest.ini", text)

    def write(self, path: str, text: str) -> Path:
        """Write a file."""
        place = self.path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def run(self, *args: str) -> pytest.RunResult:
        """Check tasks' files in this process."""
        return self.pytester.runpytest_inprocess(*ALONE, "--harbor-check=static", *args)

    def run_process(self, *args: str) -> pytest.RunResult:
        """The same in a process of its own."""
        return self.pytester.runpytest_subprocess(*ALONE, "--harbor-check=static", *args)

    def changed(self, *args: str, since: str = "main") -> list[str]:
        """The tasks that a run since a revision collects."""
        result = self.run("--collect-only", "-q", f"--harbor-changed-since={since}", *args)
        assert result.ret == 0, result.outlines + result.errlines
        ids = [line for line in result.outlines if "::" in line]
        return sorted(one.partition("/task.toml::")[0].removeprefix("tasks/") for one in ids)


@pytest.fixture(scope="session")
def project_to_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with three tasks, made once."""
    return Project(tmp_path_factory.mktemp("project") / "p").path


@pytest.fixture
def project(pytester: pytest.Pytester, project_to_copy: Path) -> Project:
    """A repository with three tasks."""
    shutil.copytree(project_to_copy, pytester.path, dirs_exist_ok=True)
    return Project(pytester.path, pytester)
