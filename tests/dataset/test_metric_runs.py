"""Scripts that datasets bring, as a user meets them: told of, run on request, never by surprise."""

import hashlib
import json
import shutil

import pytest

SCRIPT = """\
import json, sys
open({marker!r}, "a").write("run\\n")
rewards = [json.loads(line) for line in open(sys.argv[2])]
json.dump({{"solved": len(rewards), "\\x1b[31mred": 1}}, open(sys.argv[4], "w"))
"""


@pytest.fixture
def dataset(pytester, make_task):
    """A folder with a task and a metric; what its script leaves when it is run."""
    marker = pytester.path / "was-run"
    make_task("../set/hello")
    folder = pytester.path / "set"
    (folder / "metric.py").write_text(SCRIPT.format(marker=str(marker)))
    (folder / "dataset.toml").write_text('[dataset]\nname = "acme/bench"\nversion = "1.0"\n')
    return folder


@pytest.fixture
def run(pytester, monkeypatch):
    """Run the dataset, without uv."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    return lambda *args: pytester.runpytest("-p", "no:randomly", "--harbor-dataset=./set", *args)


def _digest(dataset):
    return "sha256:" + hashlib.sha256((dataset / "metric.py").read_bytes()).hexdigest()


def _file(pytester, name):
    (path,) = pytester.path.glob(f"jobs/*/{name}")
    return json.loads(path.read_text())


def test_untrusted_tasks_bring_no_program(pytester, dataset, run):
    ini = pytester.makefile(".ini", trusted="[pytest]\n")
    result = run("-c", str(ini), "--harbor-untrusted", "--harbor-metric=dataset")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--harbor-metric=dataset runs programs*leave one out*"])


def test_what_the_ini_file_asks_for_must_be_a_script(pytester, dataset, run):
    pytester.makeini("[pytest]\nharbor_metric = dataset\n")
    (dataset / "metric.py").unlink()
    (dataset / "metric.py").mkdir()
    result = run("--collect-only")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--harbor-metric=dataset: acme/bench@1.0: *metric.py: cannot be read: Is a directory*"]
    )


def test_a_script_that_is_not_what_is_pinned_ends_the_run_before_its_trials(dataset, run):
    with (dataset / "dataset.toml").open("a") as manifest:
        manifest.write(f'[[files]]\npath = "metric.py"\ndigest = "sha256:{"0" * 64}"\n')
    assert run("--collect-only").ret == 0
    result = run("--collect-only", "--harbor-metric=dataset")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*acme/bench@1.0: *dataset.toml pins another content of it*"])


@pytest.mark.docker
def test_a_script_is_told_of_and_not_run(pytester, dataset, run, engine):
    result = run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([
        f"acme/bench@1.0: its metric metric.py ({_digest(dataset)[:19]}) was not run: it is a"
        f" program of others. Read {dataset}/metric.py, then run it with --harbor-metric=dataset"
    ])  # fmt: skip
    assert not (pytester.path / "was-run").exists()
    evals = _file(pytester, "result.json")["stats"]["evals"]
    assert evals["oracle__acme/bench"]["metrics"] == [{"mean": 1.0}]


@pytest.mark.docker
def test_a_script_that_was_asked_for_is_run_for_each_agent_and_is_locked(
    pytester, dataset, run, engine
):
    result = run("--harbor-metric=dataset", "--harbor-agent=oracle", "--harbor-agent=nop", "-n1")
    result.assert_outcomes(passed=1, failed=1)
    told = "metric.py of {} on acme/bench@1.0: solved 1, \\x1b[31mred 1; over 1 valid reward"
    lines = result.stdout.str().splitlines()
    assert [one for one in lines if one.startswith("metric.py of")] == [
        told.format("oracle"),
        told.format("nop"),
    ]
    assert (pytester.path / "was-run").read_text() == "run\n" * 2
    content = _file(pytester, "result.json")
    own = {"solved": 1, "\x1b[31mred": 1}
    assert content["stats"]["evals"]["nop__acme/bench"]["metrics"] == [own]
    assert content["pytest_harbor"]["metrics"][0]["digest"] == _digest(dataset)
    (locked,) = _file(pytester, "lock.json")["pytest_harbor"]["datasets"]
    assert locked["metrics"][0]["script"]["digest"] == _digest(dataset)

    (job,) = pytester.path.glob("jobs/*")
    with (dataset / "metric.py").open("a") as script:
        script.write("# changed\n")
    again = run(f"--harbor-locked={job}", "--harbor-agent=oracle", "--harbor-agent=nop")
    assert again.ret == pytest.ExitCode.USAGE_ERROR
    again.stdout.fnmatch_lines(["*its metrics were metric.py (sha256:*), are metric.py (sha256:*"])
