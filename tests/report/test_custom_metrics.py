"""Metrics of a user's own, and where the numbers of a run end up."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.errors import OptionError
from pytest_harbor.plugin.numbers_at_end import write_numbers
from pytest_harbor.report.custom_metrics import find_metric, metric_results
from pytest_harbor.report.job import read_job
from pytest_harbor.report.numbers_file import json_lines
from pytest_harbor.report.trial import Trial

DOCS = Path(__file__).parents[2] / "docs/benchmarks.md"
SCRIPT = """\
import json, sys
given, output = sys.argv[sys.argv.index("-i") + 1], sys.argv[sys.argv.index("-o") + 1]
rewards = [json.loads(line) for line in open(given)]
json.dump({"seen": len(rewards), "none": rewards.count(None)}, open(output, "w"))
"""


def trial(task: str, rewards: dict[str, float], **more: Any) -> Trial:
    known = {"category": "reward", "reward": next(iter(rewards.values()), None), "agent": "codex"}
    return Trial(**({"name": task, "task": task, "rewards": rewards} | known | more))


TRIALS = [
    trial("a", {"reward": 1.0, "style": 0.5}),
    trial("b", {"reward": 0.0}),
    trial("c", {}, suspicious=1),
    trial("d", {}, category="environment"),
    trial("e", {"reward": 1.0}, agent="nop", untrusted=True),
]


@pytest.fixture
def compute(tmp_path: Path) -> Any:
    """Writes a module or script, and reckons the metric of it over the trials."""

    def run(content: str, spec: str, trials: Any = TRIALS) -> Any:
        (tmp_path / spec.partition(":")[0]).with_suffix(".py").write_text(content)
        return metric_results([find_metric(spec, tmp_path)], trials)

    return run


def test_a_function_gets_the_valid_rewards_of_each_agent(compute: Any) -> None:
    first, second = compute("def every(rewards): return {'n': len(rewards)}", "own_a:every")
    assert (first.metric, first.group, first.values, first.trials) == (
        "every",
        "codex",
        {"n": 3},
        3,
    )
    assert first.left_out == {"environment faults": 1}
    assert (second.group, second.values) == ("nop", {"n": 1})


def test_what_is_not_believed_is_given_as_nothing_earned(compute: Any) -> None:
    text = "def best(rewards): return max((one or {}).get('reward', 0) for one in rewards)"
    first, second = compute(text, "own_b:best")
    assert (first.values, second.values) == ({"best": 1.0}, {"best": 0.0})


def test_the_pages_own_metric_does_what_the_page_says(compute: Any) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    (code,) = [block for block in blocks if "worst_style" in block]
    first, _ = compute(code, "own_metrics:worst_style")
    assert first.values == {"worst_style": 0.0}


def test_a_class_computes_as_those_of_harbor_do(compute: Any) -> None:
    text = "class Count:\n    def compute(self, rewards): return {'n': len(rewards)}"
    assert compute(text, "own_c:Count")[0].values == {"n": 3}


@pytest.mark.skipif(shutil.which("uv") is not None, reason="uv runs it, and may want the network")
def test_a_script_is_run_as_a_datasets_is(compute: Any) -> None:
    first, _ = compute(SCRIPT, "metric.py")
    assert (first.metric, first.values) == ("metric.py", {"seen": 3, "none": 1})


def test_a_script_is_run_by_uv_where_there_is_one(
    compute: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = tmp_path / "bin/uv"
    uv.parent.mkdir()
    uv.write_text('#!/bin/sh\necho "{\\"asked\\": $#}" > "$6"\n[ "$1 $3 $5" = "run -i -o" ]\n')
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{uv.parent}:/usr/bin:/bin")
    assert compute("", "metric.py")[0].values == {"asked": 6}


@pytest.mark.parametrize(
    ("content", "spec", "words"),
    [
        ("def f(rewards): return 1 / 0", "own_d:f", "ZeroDivisionError: division by zero"),
        ("def f(rewards): return 'much'", "own_e:f", "expected a number or an object of numbers"),
        ("def f(rewards): return {}", "own_f:f", "expected a number or an object of numbers"),
        ("import sys; sys.exit('no such key')", "metric.py", "exit status 1: no such key"),
        ("pass", "metric.py", "left no JSON behind -o"),
        ("# /// script\n# dependencies = []\n# ///", "metric.py", "which takes uv; install uv"),
    ],
)
def test_a_metric_that_fails_says_why_and_has_no_value(
    compute: Any, monkeypatch: pytest.MonkeyPatch, content: str, spec: str, words: str
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    result = compute(content, spec)[0]
    assert result.values == {}
    assert words in result.problem


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nowhere/metric.py", "there is no file"),
        ("no_such_module:f", "cannot import no_such_module"),
        ("json:__version__", "has no '__version__'|is no metric"),
        ("json:__name__", "is no metric; expected a function"),
        ("pace", "--harbor-metric=pace: there is none. Known: dataset"),
        ("dataste", "--harbor-metric=dataste: there is none; did you mean 'dataset'?"),
        ("mean", "--harbor-metric=mean: the mean is among the numbers of every run"),
    ],
)
def test_a_metric_that_is_none_is_refused(tmp_path: Path, spec: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        find_metric(spec, tmp_path)


def test_the_file_of_numbers_says_what_each_is_of(job: Any) -> None:
    for number, reward in enumerate((1.0, 0.0, None), 1):
        job.trial(f"a__{number}", reward, task="a", attempt=number, start=number)
    reading = read_job(job.path)
    content = json.loads("".join(json_lines(reading, reading.trials)))
    (group,) = content["groups"]
    assert (group["agent"], group["valid"], group["trials"]) == ("oracle", 2, 3)
    mean = group["metrics"]["reward"]["mean"]
    assert (mean["numerator"], mean["denominator"], mean["unit"]) == (1.0, 2, "trials")
    assert mean["left_out"] == {"no valid reward (the task's fault)": 1}
    assert sorted(group["pass_at"]) == ["1", "2"]
    assert group["pass_at"]["1"]["low"] < 0.5 < group["pass_at"]["1"]["high"]
    assert group["harbor"]["oracle__adhoc"]["pass_at_k"] == {"2": 1.0}
    assert [row["counts"] for row in content["trials"]] == [True, True, False]


def test_a_jobs_result_keeps_harbors_place_for_harbors_rules(job: Any) -> None:
    evals = {"codex__adhoc": {"pass_at_k": {}, "n_trials": 2}}
    job.write("result.json", {"id": "x", "stats": {"evals": evals}})
    trials = [trial("a", {"reward": 1.0}), trial("a", {"reward": 0.0})]
    trials = [Trial(**{**_fields(one), "harbor_rewards": one.rewards}) for one in trials]
    write_numbers(job.path, trials, ())
    content = json.loads((job.path / "result.json").read_text())
    assert content["stats"]["evals"]["codex__adhoc"] == {
        "pass_at_k": {"2": 1.0},
        "n_trials": 2,
        "metrics": [{"mean": 0.5}],
    }
    (group,) = content["pytest_harbor"]["groups"]
    assert group["pass_rate"]["denominator"] == 2
    assert content["id"] == "x"


def _fields(one: Trial) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}


def test_a_result_that_cannot_be_read_is_left_as_it_is(job: Any) -> None:
    job.write("result.json", "{")
    write_numbers(job.path, TRIALS, ())
    assert (job.path / "result.json").read_text() == "{"


@pytest.mark.docker
def test_a_runs_numbers_are_in_its_result_its_file_and_its_summary(
    pytester: pytest.Pytester, make_task: Any, engine: Any
) -> None:
    make_task("hello")
    pytester.makepyfile(
        own="def best(r): return max(one['reward'] for one in r)\ndef bad(r): 1 / 0"
    )
    result = pytester.runpytest_subprocess(
        "--harbor-attempts=2", "--harbor-json=n.json", "--harbor-metric=own:best",
        "--harbor-metric=own:bad", "tasks",
    )  # fmt: skip
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(
        ["best of oracle: best 1; over 2 valid rewards", "bad of oracle: failed: ZeroDivision*"]
    )
    written = json.loads((pytester.path / "n.json").read_text())
    (path,) = pytester.path.glob("jobs/*/result.json")
    kept = json.loads(path.read_text())
    assert kept["pytest_harbor"]["groups"][0]["pass_at"] == written["groups"][0]["pass_at"]
    assert [one["values"] for one in written["metrics"]] == [{"best": 1.0}, {}]
    group = kept["stats"]["evals"]["oracle__adhoc"]
    assert group["pass_at_k"] == {"2": 1.0}
    assert group["metrics"] == [{"mean": 1.0}, {"best": 1.0}]
