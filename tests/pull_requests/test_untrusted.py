"""``--harbor-untrusted``: of a stranger's files nothing runs on this machine."""

from pathlib import Path

import pytest

from tests.pull_requests.conftest import ALONE, Project

TRAPS = (
    "conftest.py",
    "__init__.py",
    "test_root.py",
    "tasks/conftest.py",
    "tasks/__init__.py",
    "tasks/test_beside.py",
    "tasks/test_folder/conftest.py",
    "tasks/test_folder/__init__.py",
    "tasks/test_folder/test_in_it.py",
    "tasks/a/conftest.py",
    "tasks/a/tests/conftest.py",
    "tasks/a/tests/test_outputs.py",
    "shared/task.toml/__init__.py",
)


class Strange(Project):
    """A project whose Python files leave a trace when they are run."""

    @property
    def trace(self) -> Path:
        return self.path.parent / f"{self.path.name}-ran"

    def set_traps(self) -> None:
        text = f"open({str(self.trace)!r}, 'a').write(__file__)\n"
        for path in TRAPS:
            self.write(path, text)
        doctest = f">>> _ = open({str(self.trace)!r}, 'a').write('doctest')\n"
        for path in ("test_it.txt", "tasks/test_it.txt", "tasks/a/test_it.txt"):
            self.write(path, doctest)

    def run_untrusted(self, *args: str) -> pytest.RunResult:
        return self.run("-c", "trusted.ini", "--rootdir=.", "--harbor-untrusted", *args)


@pytest.fixture
def strange(pytester: pytest.Pytester, project_to_copy: Path, project: Project) -> Strange:
    found = Strange(project.path, pytester)
    found.set_traps()
    found.write("trusted.ini", "[pytest]\nfilterwarnings = default\n")
    return found


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["tasks"],
        [".", "tasks", "tasks/test_it.txt"],
        ["tasks/a", "tasks/b", "tasks/c", "tasks/test_beside.py"],
        ["tasks", "--doctest-modules", "-o", "python_files=*.py"],
        ["tasks", "--import-mode=importlib"],
    ],
    ids=" ".join,
)
def test_nothing_runs_but_the_checks_of_tasks(strange: Strange, args: list[str]) -> None:
    result = strange.run_untrusted(*args)
    assert not strange.trace.exists(), strange.trace.read_text()
    names_a_file = any("test_" in one for one in args)
    assert names_a_file or result.parseoutcomes()["passed"] == 3


def test_without_it_they_do_run(strange: Strange) -> None:
    strange.run("tasks/test_it.txt", "-p", "no:cacheprovider", "--noconftest")
    ran = strange.trace.read_text()
    assert ran.endswith("doctest")
    assert "/tasks/__init__.py" in ran


@pytest.mark.long
def test_workers_too(strange: Strange) -> None:
    args = ("-c", "trusted.ini", "--rootdir=.", "--harbor-untrusted", "-n1", "tasks")
    strange.run_process(*args)
    assert not strange.trace.exists(), strange.trace.read_text()


def test_the_ini_file_asks_too(strange: Strange) -> None:
    strange.write("trusted.ini", "[pytest]\nharbor_untrusted = true\n")
    strange.run("-c", "trusted.ini", "--rootdir=.", "tasks")
    assert not strange.trace.exists(), strange.trace.read_text()


def test_checks_of_a_house_come_as_a_plugin(strange: Strange) -> None:
    strange.write(
        "ci/house_checks.py",
        "from pytest_harbor.errors import Problem\n"
        "def pytest_harbor_check_task(task):\n"
        "    return [Problem(task.config_file, 'not by me')]\n",
    )
    strange.pytester.syspathinsert(strange.path / "ci")
    result = strange.run_untrusted("-p", "house_checks", "tasks/b")
    result.stdout.fnmatch_lines(["tasks/b/task.toml: error: not by me*"])


def test_an_ini_file_beside_the_tasks_is_refused(strange: Strange) -> None:
    result = strange.run("--harbor-untrusted", "tasks")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*Give one of your own: pytest -c trusted/pytest.ini*"])
    assert not strange.trace.exists()


@pytest.mark.parametrize("place", ["instruction.md", "task.toml", "environment/x", "data/deep/x"])
def test_links_to_files_of_this_machine_are_refused(
    strange: Strange, tmp_path_factory: pytest.TempPathFactory, place: str
) -> None:
    secret = tmp_path_factory.mktemp("host") / "secret"
    secret.write_text("hush-hush = 1\n")
    link = strange.path / "tasks/b" / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(secret)
    result = strange.run_untrusted("tasks/b")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"tasks/b/{place}: error: a link out of the task's folder*"])
    result.stdout.no_fnmatch_line("*hush*")


def test_a_task_that_is_a_link_is_refused(strange: Strange) -> None:
    (strange.path / "tasks/d").symlink_to("b")
    result = strange.run_untrusted("tasks/d")
    result.stdout.fnmatch_lines(["tasks/d: error: a link out of the task's folder*"])


def test_links_in_a_task_are_its_own(strange: Strange) -> None:
    (strange.path / "tasks/b/environment/link").symlink_to("Dockerfile")
    strange.run_untrusted("tasks/b").assert_outcomes(passed=1)


def test_trials_are_collected_as_ever(strange: Strange) -> None:
    args = ("-c", "trusted.ini", "--rootdir=.", "--harbor-untrusted", "--co", "-q", "tasks/b")
    result = strange.pytester.runpytest_inprocess(*ALONE, *args)
    assert result.outlines[0] == "tasks/b/task.toml::oracle"
