"""Metrics of a user's own, over the valid rewards of each agent and model.

One is a function (or a class with ``compute``) that gets a list and gives ``{name: number}`` or
a number; or a script, run as Harbor runs a dataset's ``metric.py``: ``uv run metric.py -i
rewards.jsonl -o metric.json``. The list has a reward a trial, ``{key: number}``; ``None``
(``null``) stands for a box that was tampered with until there was no verdict, and counts as 0
where Harbor's metrics count. A reward that is not believed is at most 0.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_harbor.errors import OptionError
from pytest_harbor.registry import METRICS, find_named
from pytest_harbor.report.metrics import counted
from pytest_harbor.report.numbers import left_out_of
from pytest_harbor.report.trial import Trial
from pytest_harbor.report.values import number

OPTION = "--harbor-metric"
SCRIPT_SEC = 600.0
_TAIL_CHARS = 500
_INLINE = re.compile(r"^# /// script\s*$", re.MULTILINE)

Rewards = Mapping[str, float]
Compute = Callable[[Sequence[Rewards | None]], Any]


class Metric(NamedTuple):
    """A user's metric: its name, and what reckons it."""

    name: str
    compute: Compute


class MetricResult(NamedTuple):
    """What a metric came to for one agent and model.

    Attributes:
        metric: Its name.
        group: Agent and model, as in an item's name.
        values: Its numbers; empty where ``problem`` says why.
        trials: How many rewards it was given.
        left_out: Why other trials have none, and how many.
        problem: What went wrong.
    """

    metric: str
    group: str
    values: Mapping[str, float]
    trials: int
    left_out: Mapping[str, int]
    problem: str = ""


def find_metric(spec: str, folder: Path) -> Metric:
    """A metric by its file, import path or entry point.

    Args:
        spec: As the option gave it.
        folder: Where a relative path counts from, and what an import may count on.

    Raises:
        OptionError: There is none.
    """
    if spec.endswith(".py"):
        path = folder / Path(spec).expanduser()
        if not path.is_file():
            raise OptionError(f"{OPTION}={spec}: there is no file {path}")
        return Metric(path.name, lambda rewards: run_script(path, rewards))
    found = find_named(OPTION, METRICS, spec, folder)
    compute = _compute_of(found)
    if compute is None:
        raise OptionError(
            f"{OPTION}={spec}: {found!r} is no metric; expected a function of the list of rewards,"
            " a class with compute(rewards), or the path of a metric.py"
        )
    return Metric(spec.rpartition(":")[2], compute)


def _compute_of(found: Any) -> Compute | None:
    if not inspect.isclass(found):
        return found if callable(found) else None
    kind: Any = found
    if not callable(getattr(kind, "compute", None)):
        return None
    return lambda rewards: kind().compute(rewards)


def metric_results(metrics: Iterable[Metric], trials: Iterable[Trial]) -> list[MetricResult]:
    """Every metric of each agent and model that has a valid reward."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if not trial.superseded:
            groups.setdefault(trial.group_name, []).append(trial)
    return [
        _result(metric, name, group)
        for metric in metrics
        for name, group in groups.items()
        if any(trial.counts for trial in group)
    ]


def _result(metric: Metric, group: str, trials: Sequence[Trial]) -> MetricResult:
    rewards = [_rewards(trial) for trial in trials if trial.counts]
    values: Mapping[str, float] = {}
    problem = ""
    try:
        values = _numbers(metric, metric.compute(rewards))
    except Exception as error:  # noqa: BLE001 - it is anybody's code
        problem = (
            str(error) if isinstance(error, OptionError) else f"{type(error).__name__}: {error}"
        )
    return MetricResult(metric.name, group, values, len(rewards), left_out_of(trials), problem)


def _rewards(trial: Trial) -> Rewards | None:
    if trial.reward is None:
        return None
    return {key: counted(trial, key) or 0.0 for key in trial.rewards}


def _numbers(metric: Metric, found: Any) -> dict[str, float]:
    given = found if isinstance(found, Mapping) else {metric.name.removesuffix(".py"): found}
    values = {str(key): number(value) for key, value in given.items()}
    known = {key: value for key, value in values.items() if value is not None}
    if len(known) < len(values) or not values:
        raise OptionError(f"expected a number or an object of numbers, got {found!r:.200}")
    return known


def run_script(path: Path, rewards: Sequence[Rewards | None]) -> Any:
    """Run a ``metric.py`` over rewards.

    Raises:
        OptionError: It cannot be run, failed, or left no JSON.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, output = Path(folder, "rewards.jsonl"), Path(folder, "metric.json")
        lines = (json.dumps(None if one is None else dict(one)) + "\n" for one in rewards)
        given.write_text("".join(lines), encoding="utf-8")
        _run([*_runner(path), str(path), "-i", str(given), "-o", str(output)])
        try:
            return json.loads(output.read_bytes())
        except (OSError, ValueError) as error:
            raise OptionError(f"{path.name} left no JSON behind -o: {error}") from None


def _runner(path: Path) -> list[str]:
    if uv := shutil.which("uv"):
        return [uv, "run"]
    if _INLINE.search(path.read_text(encoding="utf-8", errors="replace")):
        raise OptionError(
            f"{path.name} names its own requirements (# /// script), which takes uv; install uv"
        )
    return [sys.executable]


def _run(argv: Sequence[str]) -> None:
    try:
        ended = subprocess.run(argv, capture_output=True, timeout=SCRIPT_SEC, check=False)
    except subprocess.TimeoutExpired:
        raise OptionError(f"ran for more than {SCRIPT_SEC:g} s") from None
    except OSError as error:
        raise OptionError(f"{argv[0]}: {error.strerror}") from None
    if ended.returncode:
        tail = ended.stderr.decode("utf-8", "replace").strip()[-_TAIL_CHARS:]
        raise OptionError(f"ended with exit status {ended.returncode}: {tail}")
