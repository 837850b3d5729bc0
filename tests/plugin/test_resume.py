"""--harbor-resume: what stands in a job is reported and not run, the rest runs.

The earlier job is written here as a run leaves it behind; trials that run end at their fixture,
which skips.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.environment.docker.owner import Owner
from pytest_harbor.environment.kept import KeptBox
from pytest_harbor.plugin.options import settings
from pytest_harbor.plugin.resume import shaping_options
from pytest_harbor.trial.identity import digest_of_task
from pytest_harbor.trial.kept import kept_of, note_kept
from pytest_harbor.trial.record import ASIDE

JOB = "2026-01-05__10-00-00__1a2b3c4d"
DEAD = Owner.current().label().replace('"pid":', '"pid":9999')
TEXT = {"passed": "", "failed": "reward 0 is below the threshold 1\nlogs: somewhere"}


class EarlierRun:
    """A job that ended early."""

    def __init__(self, pytester: pytest.Pytester, *args: str, name: str = JOB) -> None:
        self.root = pytester.path
        self.path = self.root / "jobs" / name
        options = shaping_options(settings(pytester.parseconfig(*args)))
        own = {"run_id": "1a2b3c4d", "owner": DEAD, "options": options}
        self.write("config.json", {"job_name": name, "pytest_harbor": own})
        self.write(
            "result.json",
            {"id": "the-id", "started_at": "2026-01-05T10:00:00", "stats": {"n_retries": 0}},
        )

    def write(self, name: str, content: Any) -> Path:
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content if isinstance(content, str) else json.dumps(content))
        return place

    def trial(
        self,
        task: str,
        outcome: str = "passed",
        category: str | None = "reward",
        *,
        item: str = "oracle",
        start: int = 0,
        **config: Any,
    ) -> Path:
        """A trial with a result."""
        folder = f"{task}__{len(list(self.path.glob('*__*'))):07d}"
        reward = float(outcome == "passed")
        identity = {
            "item": f"tasks/{task}/task.toml::{item}",
            "task_digest": digest_of_task(self.root / "tasks" / task, str(self.path)),
            "owner": DEAD,
        }
        result = {
            "started_at": f"2026-01-05T10:00:{start:02d}.000000Z",
            "config": {**identity, **config},
            "pytest_harbor": {"category": category, "passed": outcome == "passed"},
        }
        properties = {"reward": reward, "reward.reward": reward, "category": category}
        told = {"outcome": outcome, "text": TEXT[outcome]}
        self.write(f"{folder}/result.json", result)
        self.write(
            f"{folder}/outcome.json",
            {**told, "properties": {**properties, "agent": "oracle", "kept": "enter: it"}},
        )
        return self.path / folder

    def result(self) -> Any:
        return json.loads((self.path / "result.json").read_text())

    @property
    def aside(self) -> list[str]:
        return sorted(path.name for path in (self.path / ASIDE).glob("*"))


@pytest.fixture
def earlier(project: Any, pytester: pytest.Pytester) -> Callable[..., EarlierRun]:
    for name in ("a", "b", "c"):
        project.task(name)
    return lambda *args, **more: EarlierRun(pytester, *args, **more)


def outcomes(result: pytest.RunResult) -> dict[str, int]:
    return {name: n for name, n in result.parseoutcomes().items() if name != "warnings"}


def test_what_stands_is_reported_and_the_rest_runs(project: Any, earlier: Any) -> None:
    job = earlier()
    job.trial("a")
    failed = job.trial("b", "failed")
    result = project.run("-p", "no:randomly", "--harbor-resume", "-v")
    assert outcomes(result) == {"passed": 1, "failed": 1, "skipped": 1}
    result.stdout.fnmatch_lines(
        [
            "tasks/a/task.toml::oracle PASSED (resumed)*",
            "tasks/b/task.toml::oracle FAILED (resumed)*",
            "tasks/c/task.toml::oracle SKIPPED (trial of c by oracle)*",
            "reward 0 is below the threshold 1",
            f"from job {JOB} (resumed); its trial was not run again",
            "logs: somewhere",
            "3 tasks, 3 trials; 2 from an earlier run (resumed)",
            "oracle*1 of 2*",
        ]
    )
    result.stdout.no_fnmatch_line("*kept environment*")
    assert failed.is_dir()
    assert job.aside == []


def test_what_was_chosen_in_a_job_is_no_trial_of_it(project: Any, earlier: Any) -> None:
    job = earlier()
    for name in ("a", "b", "c"):
        job.trial(name)
    for selector in ("judge", "reward"):
        chosen = job.write(f"selection/{selector}/selection.json", {})
        assert project.run("--harbor-resume").ret == 0
        assert chosen.is_file()
    assert job.aside == []


def test_what_failed_is_no_error_in_an_editor(project: Any, earlier: Any) -> None:
    earlier().trial("b", "failed")
    project.conftest(
        "def pytest_exception_interact(call):\n"
        "    print('is a failure:', isinstance(call.excinfo.value, AssertionError))\n"
    )
    result = project.run("tasks/b", "--harbor-resume", "-rf", "-s")
    result.stdout.fnmatch_lines(
        ["*is a failure: True*", "FAILED (resumed) tasks/b/task.toml::oracle - Failed: reward 0*"]
    )


def test_old_and_new_are_counted_together(project: Any, earlier: Any) -> None:
    job = earlier()
    job.write("result.json", {**job.result(), "n_total_trials": 4})
    job.trial("a")
    job.trial("b", "failed")
    assert project.run("--harbor-resume=" + str(job.path), "tasks/a", "tasks/b").ret == 1
    content = job.result()
    stats = content["stats"]
    assert (content["id"], content["started_at"]) == ("the-id", "2026-01-05T10:00:00")
    assert (content["n_total_trials"], content["finished_at"]) == (4, None)
    assert (stats["n_completed_trials"], stats["n_pending_trials"]) == (2, 2)
    assert stats["evals"]["oracle__adhoc"]["metrics"] == [{"mean": 0.5}]
    assert stats["n_retries"] == 0


def test_what_is_kept_of_a_trial_that_was_set_aside_is_still_found(
    project: Any, earlier: Any
) -> None:
    job = earlier()
    folder, standing = job.trial("a", "failed", "environment"), job.trial("b", "failed")
    box, other = KeptBox(name="box", run_id="1a2b3c4d"), KeptBox(name="other", run_id="1a2b3c4d")
    note_kept(folder, [box])
    note_kept(standing, [other])
    project.run("--harbor-resume")
    aside = job.path / ASIDE / folder.name
    assert kept_of(job.path) == {aside: [box], standing: [other]}
    assert kept_of(folder) == kept_of(aside) == {aside: [box]}


def test_what_had_no_verdict_runs_again_and_its_folder_is_set_aside(
    project: Any, earlier: Any
) -> None:
    job = earlier()
    folders = [
        job.trial("a", "failed", "environment"),
        job.trial("a", "failed", "agent", start=1),
        job.trial("b", "passed", None),
    ]
    torn = job.trial("c")
    (torn / "result.json").write_text('{"started_at": "2026')
    folders.append(torn)
    nameless = job.write("c__lost/trial.log", "").parent
    result = project.run("--harbor-resume")
    assert outcomes(result) == {"skipped": 3}
    assert job.aside == sorted(path.name for path in (*folders, nameless))
    assert not any(path.exists() for path in folders)


def test_a_fault_of_the_task_stands(project: Any, earlier: Any) -> None:
    earlier().trial("a", "failed", "task")
    assert outcomes(project.run("tasks/a", "--harbor-resume")) == {"failed": 1}


def test_of_several_runs_of_an_item_the_last_tells(project: Any, earlier: Any) -> None:
    job = earlier()
    job.trial("a", "failed", start=1)
    job.trial("a", "passed", start=2)
    job.trial("b", "passed", start=1)
    job.trial("b", "passed", None, start=2)
    assert outcomes(project.run("tasks/a", "tasks/b", "--harbor-resume")) == {
        "passed": 1,
        "skipped": 1,
    }


def test_what_is_not_asked_for_stays_where_it_is(project: Any, earlier: Any) -> None:
    job = earlier()
    cut_off = job.trial("a", category=None)
    job.trial("b")
    assert outcomes(project.run("tasks/b", "--harbor-resume")) == {"passed": 1}
    assert cut_off.is_dir()


def test_attempts_are_told_apart_and_work_with_workers(project: Any, earlier: Any) -> None:
    job = earlier("--harbor-attempts=2")
    job.trial("a", item="oracle[2]")
    job.trial("b", "failed", item="oracle[1]")
    result = project.run("--harbor-resume", "--harbor-attempts=2", "-n2")
    assert outcomes(result) == {"passed": 1, "failed": 1, "skipped": 4}
    result.stdout.fnmatch_lines([f"from job {JOB} (resumed); its trial was not run again"])


def test_last_failed_selects_among_the_resumed(project: Any, earlier: Any) -> None:
    job = earlier()
    job.trial("a")
    job.trial("b", "failed")
    project.run("--harbor-resume")
    found = outcomes(project.run("--harbor-resume", "--lf"))
    assert found["failed"] == 1
    assert "skipped" not in found


def test_collecting_leaves_the_job_alone(project: Any, earlier: Any) -> None:
    job = earlier()
    job.trial("a", category=None)
    before = {path: path.read_bytes() for path in job.path.rglob("*.json")}
    assert project.run("--harbor-resume", "--collect-only").ret == 0
    assert {path: path.read_bytes() for path in job.path.rglob("*.json")} == before


@pytest.mark.parametrize("args", [[], pytest.param(["-n1"], marks=pytest.mark.long)])
def test_a_changed_task_is_one_error_before_any_trial(
    project: Any, earlier: Any, args: list[str]
) -> None:
    job = earlier()
    cut_off = job.trial("a", category=None)
    job.trial("b")
    (project.path / "tasks/b/instruction.md").write_text("Something else.")
    result = project.run("--harbor-resume", *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(
        [f"*--harbor-resume: changed since {JOB} ran: tasks/b. *begin a new job without*"]
    )
    assert cut_off.is_dir()


# --- which job, and whether it is one


@pytest.mark.parametrize(
    ("then", "now", "words"),
    [
        ([], ["--harbor-agent=nop"], "agents was ['oracle'] and is ['nop']"),
        (["--harbor-threshold=0.5"], [], "threshold was 0.5 and is 1.0"),
        (
            ["--harbor-agent-kwarg=key=s3cr3t-1"],
            ["--harbor-agent-kwarg=key=s3cr3t-2"],
            "harbor_agent_kwarg differs",
        ),
        (["--harbor-agent-command=s3cr3t"], [], "harbor_agent_command differs"),
        (["--harbor-agent-env=A=1"], [], "agent_env_names was ['A'] and is []"),
    ],
)
def test_another_question_is_refused(
    project: Any, earlier: Any, then: list[str], now: list[str], words: str
) -> None:
    job = earlier(*then)
    assert "s3cr3t" not in (job.path / "config.json").read_text()
    result = project.run("--harbor-resume", *now)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    error = result.stderr.str()
    assert words in error
    assert "Give the same options" in error
    assert "s3cr3t" not in error


def test_what_shapes_no_result_may_differ(project: Any, earlier: Any) -> None:
    earlier("--harbor-agent-env=A=1", "--harbor-keep").trial("a")
    result = project.run("--harbor-resume", "--harbor-agent-env=A=2", "--harbor-csv=t.csv")
    assert outcomes(result)["passed"] == 1


def test_the_latest_job_is_meant_unless_one_is_named(project: Any, earlier: Any) -> None:
    old = earlier()
    old.trial("a")
    earlier(name="2026-01-05__11-00-00__5e6f7a8b").trial("b")
    (project.path / "jobs" / "zzz").mkdir()
    (project.path / "jobs" / "zzz" / "config.json").write_text("{}")
    assert outcomes(project.run("tasks/a", "--harbor-resume")) == {"skipped": 1}
    assert outcomes(project.run("tasks/a", f"--harbor-resume={JOB}")) == {"passed": 1}
    assert outcomes(project.run("tasks/a", f"--harbor-resume=jobs/{JOB}")) == {"passed": 1}


def test_the_ini_file_may_name_it(project: Any, earlier: Any) -> None:
    earlier().trial("a")
    project.ini("harbor_resume = latest")
    assert outcomes(project.run())["passed"] == 1


def test_without_a_job_there_is_one_clear_error(project: Any) -> None:
    project.task("a")
    result = project.run("--harbor-resume")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "holds no job to go on with; leave the option out" in result.stderr.str()
    assert (
        "expected a job's folder, got 'tasks'"
        in project.run("--harbor-resume", "tasks").stderr.str()
    )
    assert (
        "a check proves tasks as they are"
        in project.run("--harbor-resume", "--harbor-check").stderr.str()
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "config.json: expected JSON"),
        ('{"job_name": "x"}', "written by Harbor's own runner or by an earlier version"),
    ],
)
def test_a_job_that_does_not_tell_what_it_was_asked_is_refused(
    project: Any, earlier: Any, content: str, words: str
) -> None:
    job = earlier()
    job.write("config.json", content)
    result = project.run("--harbor-resume")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stderr.str()


def test_a_job_that_is_still_run_is_refused(project: Any, earlier: Any) -> None:
    job = earlier()
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from pytest_harbor.environment.docker.owner import Owner as O\n"
            "print(O.current().label(), flush=True); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout
        job.trial("a", category=None, owner=other.stdout.readline().strip())
        result = project.run("--harbor-resume")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert f"still being run, by process {other.pid}" in result.stderr.str()
        other.kill()
    assert project.run("--harbor-resume").ret == 0
