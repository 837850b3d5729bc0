"""Metrics of a user's own, over the valid rewards of each agent and model on each dataset.

One is a function (or a class with ``compute``) that gets a list and gives ``{name: number}`` or
a number; or a script, run as Harbor runs a dataset's ``metric.py``: ``uv run metric.py -i
rewards.jsonl -o metric.json``. The list has a reward a trial, ``{key: number}``; ``None``
(``null``) stands for a box that was tampered with until there was no verdict, and counts as 0
where Harbor's metrics count. A reward that is not believed is at most 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pytest_harbor.errors import HarborError, OptionError
from pytest_harbor.registry import METRICS, find_named
from pytest_harbor.report.metric_process import run_script
from pytest_harbor.report.metrics import METRICS as ALWAYS
from pytest_harbor.report.metrics import counted
from pytest_harbor.report.numbers import left_out_of
from pytest_harbor.report.trial import Trial
from pytest_harbor.report.values import number

OPTION = "--harbor-metric"

Rewards = Mapping[str, float]
Compute = Callable[[Sequence[Rewards | None]], Any]
GivenBy = Literal["user", "dataset"]


class Metric(NamedTuple):
    """A metric.

    Attributes:
        name: Its name.
        compute: Reckons it.
        given_by: Who asks for it.
        digest: ``sha256:`` and the digest of the dataset's script that it is; empty for others.
    """

    name: str
    compute: Compute
    given_by: GivenBy = "user"
    digest: str = ""


class MetricResult(NamedTuple):
    """What a metric came to for one agent and model on one dataset.

    Attributes:
        metric: Its name.
        group: Agent and model, as in an item's name.
        values: Its numbers; empty where ``problem`` says why.
        trials: How many rewards it was given.
        left_out: Why other trials have none, and how many.
        problem: What went wrong.
        dataset_label: The dataset as ids call it; None: tasks by path.
        given_by: Who asks for the metric.
        digest: As the metric has it.
    """

    metric: str
    group: str
    values: Mapping[str, float]
    trials: int
    left_out: Mapping[str, int]
    problem: str = ""
    dataset_label: str | None = None
    given_by: GivenBy = "user"
    digest: str = ""


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
    if spec in ALWAYS:
        raise OptionError(f"{OPTION}={spec}: the {spec} is among the numbers of every run")
    found = find_named(OPTION, METRICS, spec, folder, also=("dataset",))
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


def metric_results(
    metrics: Iterable[Metric],
    trials: Iterable[Trial],
    own: Mapping[str, Sequence[Metric]] = MappingProxyType({}),
) -> list[MetricResult]:
    """Every metric of each agent and model on each dataset where there is a valid reward.

    Args:
        metrics: Of the user.
        trials: Of one job.
        own: Those of each dataset by its label; they come first.
    """
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        if not trial.superseded:
            groups.setdefault((trial.group_name, trial.dataset_key), []).append(trial)
    valid = {name: group for name, group in groups.items() if any(one.counts for one in group)}
    wanted = [(metric, name) for name in valid for metric in own.get(name[1], ())]
    wanted += [(metric, name) for metric in metrics for name in valid]
    return [_result(metric, *name, valid[name]) for metric, name in wanted]


def rewards_of(trials: Iterable[Trial]) -> list[Rewards | None]:
    """What a metric is given of trials: a reward of each that counts."""
    return [_rewards(trial) for trial in trials if trial.counts]


def _result(metric: Metric, group: str, label: str, trials: Sequence[Trial]) -> MetricResult:
    rewards = rewards_of(trials)
    values: Mapping[str, float] = {}
    problem = ""
    try:
        values = _numbers(metric, metric.compute(rewards))
    except Exception as error:  # noqa: BLE001 - it is anybody's code
        problem = (
            str(error) if isinstance(error, HarborError) else f"{type(error).__name__}: {error}"
        )
    return MetricResult(
        metric.name,
        group,
        values,
        len(rewards),
        left_out_of(trials),
        problem,
        label or None,
        metric.given_by,
        metric.digest,
    )


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
