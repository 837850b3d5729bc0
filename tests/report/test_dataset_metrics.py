"""Metrics that datasets bring: over their own trials, in Harbor's place, and in its order."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.errors import OptionError
from pytest_harbor.plugin.numbers_at_end import write_numbers
from pytest_harbor.report import metric_process
from pytest_harbor.report.custom_metrics import Metric, metric_results
from pytest_harbor.report.dataset_metrics import evals_metrics, formula, metrics_of_job
from pytest_harbor.report.job import read_job
from pytest_harbor.report.metric_process import run_script
from pytest_harbor.report.numbers_file import numbers_json
from pytest_harbor.report.trial import Trial


def trial(label: str, rewards: dict[str, float], **more: Any) -> Trial:
    known = {
        "name": "x",
        "task": "a",
        "agent": "codex",
        "category": "reward",
        "reward": min(rewards.values(), default=None),
        "rewards": rewards,
        "dataset": label.partition("@")[0],
        "dataset_label": label,
    }
    return Trial(**(known | more))


TRIALS = [
    trial("easy@1.0", {"reward": 1.0}),
    trial("easy@1.0", {"reward": 0.5}),
    trial("easy@1.0", {"reward": 9.0}, untrusted=True),
    trial("easy@1.0", {}, suspicious=1),
    trial("easy@1.0", {}, category="environment"),
    trial("hard@2.0", {"reward": 1.0, "style": 0.5}),
    trial("hard@2.0", {"reward": 3.0}),
    trial("", {"reward": 1.0}),
]
COUNT = Metric("count", lambda rewards: {"n": len(rewards)})
SCRIPT = Metric("metric.py", lambda rewards: {"seen": len(rewards)}, "dataset", "sha256:1")
OWN = {"easy@1.0": [formula("max"), formula("mean")], "hard@2.0": [SCRIPT, formula("sum")]}


def test_a_datasets_metrics_are_over_its_own_trials_and_come_first() -> None:
    found = metric_results([COUNT], TRIALS, OWN)
    assert [(one.metric, one.dataset_label, one.values, one.trials) for one in found] == [
        # 1.0, 0.5, and 0 for a reward that is not believed and for one that was evaded.
        ("max", "easy@1.0", {"max": 1.0}, 4),
        ("mean", "easy@1.0", {"mean": 0.375}, 4),
        ("metric.py", "hard@2.0", {"seen": 2}, 2),
        # Of several keys each has its own number, by Harbor's rule: a missing one is 0.
        ("sum", "hard@2.0", {"reward": 4.0, "style": 0.5}, 2),
        ("count", "easy@1.0", {"n": 4}, 4),
        ("count", "hard@2.0", {"n": 2}, 2),
        ("count", None, {"n": 1}, 1),
    ]
    assert found[0].left_out == {"environment faults": 1}
    assert [one.given_by for one in found] == ["dataset"] * 4 + ["user"] * 3
    assert found[2].digest == "sha256:1"


def test_harbors_groups_have_the_datasets_metrics_then_the_users_or_else_the_mean() -> None:
    results = metric_results([COUNT], TRIALS, OWN)
    assert evals_metrics(TRIALS, results) == {
        "codex__easy": [{"max": 1.0}, {"mean": 0.375}, {"n": 4}],
        "codex__hard": [{"seen": 2}, {"reward": 4.0, "style": 0.5}, {"n": 2}],
        "codex__adhoc": [{"mean": 1.0}, {"n": 1}],
    }


def test_a_name_with_harbors_separator_keeps_its_metrics() -> None:
    trials = [trial("a__b@1", {"reward": 2.0})]
    results = metric_results((), trials, {"a__b@1": [formula("sum")]})
    assert evals_metrics(trials, results) == {"codex__a__b": [{"sum": 2.0}]}


def test_versions_of_a_dataset_are_one_group_of_harbors_and_two_of_ours() -> None:
    trials = [trial("easy@1", {"reward": 1.0}), trial("easy@2", {"reward": 0.0})]
    own = {"easy@1": [formula("mean"), SCRIPT], "easy@2": [formula("mean"), SCRIPT]}
    results = metric_results((), trials, own)
    assert [one.values.get("mean") for one in results] == [1.0, None, 0.0, None]
    assert evals_metrics(trials, results) == {
        "codex__easy": [{"mean": 0.5}, {"seen": 1}, {"seen": 1}]
    }


def test_a_script_that_failed_has_no_place_there() -> None:
    def fail(rewards: Any) -> Any:
        raise OptionError("no")

    own = {"easy@1.0": [Metric("metric.py", fail, "dataset", "sha256:1")]}
    results = metric_results((), TRIALS, own)
    assert [one.problem for one in results] == ["no"]
    assert evals_metrics(TRIALS, results)["codex__easy"] == [{"mean": 0.375}]


def test_the_numbers_of_a_job_have_them(job: Any) -> None:
    evals = {"codex__easy": {"metrics": [{"mean": 5}]}, "codex__hard": {}}
    job.write("result.json", {"stats": {"evals": evals}})
    write_numbers(job.path, TRIALS, metric_results((), TRIALS, OWN))
    content = json.loads((job.path / "result.json").read_text())
    assert content["stats"]["evals"]["codex__easy"]["metrics"] == [{"max": 1.0}, {"mean": 0.375}]
    rows = content["pytest_harbor"]["metrics"]
    assert [(one["metric"], one["dataset_label"], one["given_by"]) for one in rows] == [
        ("max", "easy@1.0", "dataset"),
        ("mean", "easy@1.0", "dataset"),
        ("metric.py", "hard@2.0", "dataset"),
        ("sum", "hard@2.0", "dataset"),
    ]


def _finished(job: Any, metrics: list[Any]) -> None:
    for number, reward in enumerate((1.0, 0.0), 1):
        job.trial(f"a__{number}", reward, task="a", attempt=number, dataset="easy@1.0")
    script = {"type": "uv-script", "script": {"name": "metric.py"}}
    known = {"label": "easy@1.0", "metrics": [{"type": "max"}, script, {"type": "min"}]}
    job.write("lock.json", {"pytest_harbor": {"datasets": [known]}})
    job.write("result.json", {"pytest_harbor": {"metrics": metrics}})


def test_a_job_that_has_run_has_formulas_reckoned_and_scripts_as_they_were(job: Any) -> None:
    left = [
        {"metric": "max", "given_by": "dataset", "digest": "", "values": {"max": 77}},
        {"metric": "metric.py", "given_by": "dataset", "digest": "sha256:1", "values": {"n": 2}},
        {"metric": "best", "group": "oracle", "values": {"best": 1}},
        "odd",
    ]
    _finished(job, left)
    reading = read_job(job.path)
    rows = numbers_json(reading.trials, metrics_of_job(reading))["metrics"]
    assert [(one["metric"], one["values"]) for one in rows] == [
        ("max", {"max": 1.0}),
        ("min", {"min": 0.0}),
        ("metric.py", {"n": 2}),
        ("best", {"best": 1}),
    ]


@pytest.mark.parametrize("content", ["", "[]", '{"pytest_harbor": {"datasets": [3, {}]}}', None])
def test_a_job_whose_lock_cannot_be_read_has_no_metrics_of_datasets(job: Any, content: Any) -> None:
    job.trial("a__1", 1.0, dataset="easy@1.0")
    if content is not None:
        job.write("lock.json", content)
    assert metrics_of_job(read_job(job.path)) == []


# --- scripts

PROBE = """\
import json, os, sys
given, output = sys.argv[sys.argv.index("-i") + 1], sys.argv[sys.argv.index("-o") + 1]
key = os.environ.get("SOME_API_KEY")
json.dump({"key": key, "cwd": os.getcwd(), "input": os.path.dirname(given)}, open(output, "w"))
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a script; there is no uv."""
    monkeypatch.setattr(shutil, "which", lambda name: None)

    def write(content: str) -> Path:
        path = tmp_path / "metric.py"
        path.write_text(content)
        return path

    return write


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_strangers_script_gets_no_keys_and_another_folder(
    script: Any, monkeypatch: pytest.MonkeyPatch, is_ours: bool
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "mine")
    found = run_script(script(PROBE), [{"reward": 1.0}], is_ours=is_ours)
    assert found["key"] == ("mine" if is_ours else None)
    assert (found["cwd"] == os.getcwd()) == is_ours
    assert (os.path.realpath(found["cwd"]) == os.path.realpath(found["input"])) == (not is_ours)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("import os, sys; os.mkfifo(sys.argv[4])", "left no JSON behind -o: there is no such file"),
        ("import sys; open(sys.argv[4], 'w').write('[' * 9000)", "left no JSON behind -o"),
        ("import sys; open(sys.argv[4], 'w').write(' ' * 2**20 + '1')", "left more than 1 MiB"),
        ("import sys; sys.exit('x' * 10**6)", r"exit status 1: x{400,500}$"),
    ],
)
def test_what_a_script_leaves_is_bounded(script: Any, content: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        run_script(script(content), [{"reward": 1.0}], is_ours=False)


def _ends(state: Path) -> bool:
    """Whether a process that was killed is gone soon."""
    for _ in range(600):
        try:
            if state.read_text().split()[2] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_what_a_script_has_started_ends_with_it(script: Any, tmp_path: Path) -> None:
    left = tmp_path / "pid"
    content = (
        "import json, subprocess, sys\n"
        f"child = subprocess.Popen(['sleep', '600'])\nopen({str(left)!r}, 'w')"
        ".write(str(child.pid))\njson.dump({'n': 1}, open(sys.argv[4], 'w'))\n"
    )
    assert run_script(script(content), [{"reward": 1.0}], is_ours=False) == {"n": 1}
    assert _ends(Path(f"/proc/{left.read_text()}/stat"))


def test_a_script_that_does_not_end_is_ended(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_process, "SCRIPT_SEC", 0.5)
    with pytest.raises(OptionError, match=r"ran for more than 0\.5 s"):
        run_script(script("import time; time.sleep(600)"), [{"reward": 1.0}], is_ours=False)
