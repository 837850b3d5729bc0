"""``--harbor-best-of``: what is refused, and what a run with it leaves behind."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.model_server.server import ModelServer

DOCS = Path(__file__).parents[2] / "docs/best-of-n.md"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--harbor-best-of=reward"], "one attempt at each task"),
        (["--harbor-best-of=rewards", "--harbor-attempts=2"], "did you mean 'reward'"),
        (["--harbor-best-of=judge", "--harbor-attempts=2"], "missing a required argument"),
        (["--harbor-best-of=reward", "--harbor-check"], "cannot be had with --harbor-check"),
        (["--harbor-best-of-kwarg=votes=2"], "needs --harbor-best-of"),
        (["-o", "harbor_best_of=reward"], "one attempt at each task"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_runs(
    pytester: pytest.Pytester, options: list[str], words: str
) -> None:
    pytester.makepyfile("def test_it(): raise SystemExit('ran')")
    result = pytester.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stderr.str()


def test_a_run_without_trials_sees_nothing_of_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest("--harbor-best-of=reward", "--harbor-attempts=2")
    result.assert_outcomes(passed=1)
    assert "best of" not in result.stdout.str()


@pytest.mark.docker
def test_a_run_chooses_at_its_end_and_a_selector_of_ones_own_may_fail_it(
    pytester: pytest.Pytester, make_task: Any, engine: Any
) -> None:
    make_task("hello")
    (own,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    pytester.makepyfile(own_selector=own, bad_selector="def bad(group): 1 / 0")
    run = ("tasks", "--harbor-attempts=2", "--harbor-csv=t.csv", "--harbor-json=n.json", "-n2")
    result = pytester.runpytest_subprocess(*run, "--harbor-best-of=own_selector:shortest")
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*harbor: best of 2 by own_selector:shortest*", "oracle: mean reward 1, 1 of 1 tasks*"]
    )
    (job,) = pytester.path.glob("jobs/*")
    (task,) = json.loads((job / "selection/own_selector-shortest/selection.json").read_text())[
        "tasks"
    ]
    assert (task["attempt"], task["reason"]) == (1, "it wrote least")
    written = json.loads((pytester.path / "n.json").read_text())
    assert [row["attempt"] for row in written["trials"] if row["selected"]] == [1]
    assert written["selection"]["selected"] == [task["selected"]]
    assert "selected" in (pytester.path / "t.csv").read_text().splitlines()[0].split(",")
    keyed = pytester.runpytest_subprocess(
        "tasks", "--harbor-attempts=2", f"--harbor-resume={job}", "--harbor-best-of=reward:rewrad"
    )
    assert keyed.ret == pytest.ExitCode.USAGE_ERROR
    keyed.stdout.fnmatch_lines(["reward:rewrad: no trial has * 'rewrad' (did you mean reward[?])*"])
    again = (
        "-p",
        "no:cacheprovider",
        f"--harbor-resume={job}",
        "--harbor-best-of=bad_selector:bad",
    )
    result = pytester.runpytest_subprocess("tasks", "--harbor-attempts=2", *again)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["nothing chosen: hello of oracle: ZeroDivisionError: *"])


@pytest.mark.docker
def test_no_judge_is_asked_once_the_run_was_interrupted(
    pytester: pytest.Pytester, make_task: Any, engine: Any
) -> None:
    make_task("hello")
    pytester.makeconftest(
        """
        def pytest_runtest_logreport(report):
            if report.when == "teardown" and "[2]" in report.nodeid:
                raise KeyboardInterrupt
        """
    )
    agent = "--harbor-agent-command=echo ok > /app/out.txt"
    with ModelServer() as server:
        judge = [f"--harbor-best-of-kwarg={one}" for one in ("model=m", f"base_url={server.root}")]
        result = pytester.runpytest_subprocess(
            "tasks", agent, "--harbor-attempts=2", "--harbor-best-of=judge", *judge
        )
        assert result.ret == pytest.ExitCode.INTERRUPTED
        result.stdout.fnmatch_lines(["not asked, as the run was interrupted*"])
        assert server.calls == []
    assert not list(pytester.path.glob("jobs/*/selection"))
