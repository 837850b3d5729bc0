"""The recipes of docs/ci.md: read as YAML, and run on the pull request of a stranger."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_harbor.check.registry import CHECKS
from tests.pull_requests.conftest import Git, Project
from tests.pull_requests.runner import obeyed
from tests.pull_requests.test_untrusted import Strange

PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
GITHUB, GITLAB_FILE = (yaml.safe_load(text) for kind, text in BLOCKS if kind == "yaml")
GITLAB = GITLAB_FILE["tasks"]
STEPS = GITHUB["jobs"]["check"]["steps"]


def test_the_github_recipe_gives_no_rights() -> None:
    assert GITHUB[True] == "pull_request"  # YAML 1.1 reads the key `on` so
    assert GITHUB["permissions"] == {"contents": "read"}
    assert set(GITHUB["jobs"]["check"]) == {"runs-on", "timeout-minutes", "steps"}
    checkouts = [step["with"] for step in STEPS if "checkout" in step.get("uses", "")]
    assert [one["path"] for one in checkouts] == ["trusted", "proposed"]
    assert all(one["persist-credentials"] is False for one in checkouts)
    assert "base.sha" in checkouts[0]["ref"]
    assert "ref" not in checkouts[1]
    text = yaml.safe_dump(GITHUB)
    assert "secrets" not in text
    assert "github.token" not in text.lower()
    # What is put into a script by GitHub is a script: nothing is.
    assert not any("${{" in step.get("run", "") for step in STEPS)


@pytest.mark.parametrize("script", [STEPS[-1]["run"], "\n".join(GITLAB["script"])])
def test_each_recipe_runs_pytest_without_what_the_machine_knows(script: str) -> None:
    command = script.replace("\\\n", " ").split()
    assert command.count("pytest") == 1
    before = command[: command.index("pytest")]
    assert "env -i PATH=" in " ".join(before)
    assert not {word.partition("=")[0] for word in before} & {"CI_JOB_TOKEN", "GITHUB_TOKEN"}
    after = set(command[command.index("pytest") :])
    assert {"-c", "--harbor-untrusted", "--harbor-check", "--harbor-annotations"} <= after
    assert any(word.startswith("--harbor-changed-since=") for word in after)
    assert "--harbor-allow-privileged" not in after


def test_the_gitlab_recipe_has_an_engine_that_asks_for_a_certificate() -> None:
    variables = GITLAB["variables"]
    assert variables["DOCKER_HOST"].endswith(":2376")
    assert variables["DOCKER_TLS_VERIFY"] == "1"
    assert GITLAB["artifacts"]["reports"]["codequality"] == "gl-code-quality-report.json"


def test_the_first_command_runs(project: Project) -> None:
    (line,) = (text for kind, text in BLOCKS if kind == "console")
    words = shlex.split(line.removeprefix("$ pytest ").replace("origin/main", "main"))
    project.write("tasks/a/tests/more.txt", "x\n")
    result = project.run(*(word for word in words if word != "--harbor-check"))
    result.assert_outcomes(passed=1)


def test_the_trusted_settings_name_checks_that_there_are() -> None:
    (ini,) = (text for kind, text in BLOCKS if kind == "ini")
    (line,) = re.findall(r"^harbor_check_enforce = (.*)$", ini, re.MULTILINE)
    assert set(line.split()) <= set(CHECKS)


class Service:
    """What a service prepares for a job: the base branch, the merge, and its variables."""

    def __init__(self, project: Strange) -> None:
        self.project = project
        self.path = project.path.parent / f"{project.path.name}-job"
        self.path.mkdir()
        git = project.git
        git("stash", "-q", "-u")
        git("checkout", "-q", "main")
        (ini,) = (text for kind, text in BLOCKS if kind == "ini")
        project.write("pytest.ini", ini)
        self.base = git.commit("settings")
        git("checkout", "-q", "pr")
        git("stash", "pop", "-q")
        git.commit("proposed")
        git("checkout", "-q", "--detach", "main")
        git("merge", "-q", "--no-ff", "--no-edit", "pr")
        venv = self.path / "venv"
        venv.mkdir()
        (venv / "bin").symlink_to(Path(sys.executable).parent)

    def clone(self, name: str, commit: str, depth: int) -> Git:
        """Check out as a service does: so much history, and no branch."""
        made = Git(self.path / name)
        source = f"file://{self.project.path}"
        made("fetch", "-q", f"--depth={depth}", source, commit)
        made("checkout", "-q", "--detach", "FETCH_HEAD")
        return made

    def run(self, script: str, folder: Path, **variables: str) -> Any:
        """Run a step's script, without an engine."""
        script = script.replace("--harbor-check ", "--harbor-check=static ")
        env = {"PATH": f"{self.path}/venv/bin:{os.environ['PATH']}", "TOKEN": "hush", **variables}
        return subprocess.run(
            ["bash", "-e", "-c", script], cwd=folder, env=env, capture_output=True, text=True
        )


@pytest.fixture
def service(pytester: pytest.Pytester, project: Project) -> Service:
    """A pull request that breaks ``a``, moves ``b``, and brings what should not run."""
    strange = Strange(project.path, pytester)
    strange.add_task("a", toml="memroy = 1\n[metadata]\nharbor_ignore = ['secret']\n")
    strange.git("mv", "tasks/b", "tasks/d")
    strange.set_traps()
    for name in ("tasks/pytest.ini", "pytest.toml"):
        strange.write(name, "[pytest]\naddopts = ['-p', 'evil']\n")
    for name in ("evil.py", "pytest.py", "yaml.py", "tasks/evil.py"):
        shutil.copy(strange.path / "conftest.py", strange.path / name)
    return Service(strange)


def test_the_github_recipe_runs(service: Service) -> None:
    service.clone("trusted", service.base, 1)
    service.clone("proposed", service.project.git("rev-parse", "HEAD"), 2)
    summary = service.path / "summary.md"
    variables = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    done = service.run(STEPS[-1]["run"], service.path, **variables)
    assert not service.project.trace.exists(), service.project.trace.read_text()
    assert done.returncode == 1, done.stdout + done.stderr
    # The stranger's conftest.py, which is not run, is above all of them.
    assert "harbor: 3 of 3 tasks changed since HEAD^1" in done.stdout
    assert "harbor: deleted since then: tasks/b" in done.stdout
    found = [(one.name, one.properties["file"]) for one in obeyed(done.stdout + done.stderr)]
    assert found[0] == ("error", "tasks/a/task.toml")
    assert "| <code>tasks/a</code> | ❌ 1 error" in summary.read_text()
    assert "secret may not be switched off here" in summary.read_text()
    assert not (service.path / "proposed" / ".pytest_cache").exists()


def test_the_gitlab_recipe_runs(service: Service) -> None:
    checkout = service.clone("project", service.project.git("rev-parse", "HEAD"), 9).path
    (checkout / "summary.md").symlink_to(service.path / "victim")
    script = "\n".join(line for line in GITLAB["script"] if not line.startswith("pip install"))
    for folder in ("/trusted", "/run-of-tasks"):
        script = script.replace(folder, f"{service.path}{folder}")
    variables = {"CI_PROJECT_DIR": str(checkout), "CI_MERGE_REQUEST_DIFF_BASE_SHA": service.base}
    done = service.run(script, checkout, **variables, DOCKER_HOST="", DOCKER_CERT_PATH="")
    assert not service.project.trace.exists(), service.project.trace.read_text()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "unknown-field" in (checkout / "gl-code-quality-report.json").read_text()
    assert (checkout / "summary.md").read_text().startswith("## Harbor tasks")
    assert not (service.path / "victim").exists()
