"""Options for benchmarks: which trials are tried again, who grades, and what is reckoned."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import pytest

from pytest_harbor.plugin.ini import absolute_path
from pytest_harbor.plugin.notices import HarborWarning
from pytest_harbor.plugin.option_values import assignment, keyword_arguments, non_empty

RETRIES = 2
MAX_FIRST_WAIT_SEC = 86_400
DATASET_METRICS = "dataset"
"""In place of a metric's name: those that datasets bring."""


def whole_from_zero(value: object) -> int:
    """Check for a whole number from 0."""
    try:
        number = int(str(value))
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0, got {value!r}")
    return number


def fault_name(text: str) -> str:
    """Check the name of an error's class: one that is known, or unlike all that are."""
    if not text.strip().isidentifier():
        raise argparse.ArgumentTypeError(
            f"expected the name of an error as in result.json, as HealthcheckError, got {text!r}"
        )
    # What knows the errors takes more than a plain pytest run has loaded.
    from pytest_harbor.trial.retries import meant_name

    if meant := meant_name(text.strip()):
        raise argparse.ArgumentTypeError(f"no error is called {text!r}; did you mean {meant}?")
    return text.strip()


def first_wait(text: str) -> str:
    """Check the wait after an error, as ``ERROR=SECONDS``."""
    name, _, seconds = text.partition("=")
    try:
        wait = float(seconds)
    except ValueError:
        wait = -1.0
    if not 0 <= wait <= MAX_FIRST_WAIT_SEC:
        raise argparse.ArgumentTypeError(
            f"expected ERROR=SECONDS with a number from 0 to {MAX_FIRST_WAIT_SEC}, as "
            f"ApiRateLimitError=30, got {text!r}"
        )
    return f"{fault_name(name)}={wait:g}"


def save_choice(text: str) -> str:
    """Check for ``failed`` or ``all``."""
    if text not in ("failed", "all"):
        raise argparse.ArgumentTypeError(
            f"expected 'failed' or 'all', got {text!r}; "
            "write the value behind an equals sign: --harbor-save-files=failed"
        )
    return text


ROWS: tuple[tuple[Any, ...], ...] = (
    (
        "--harbor-retries",
        "Further tries of a trial whose set-up or model provider failed, in a fresh environment; "
        "never for a reward (default: 2)",
        whole_from_zero,
        "int",
        "N",
    ),
    (
        "--harbor-retry-include",
        "Error after which alone there is another try, repeatable: its name in result.json, or a "
        "base of it",
        fault_name,
        "args",
        "ERROR",
    ),
    (
        "--harbor-retry-exclude",
        "Error after which there is no other try, repeatable, as --harbor-retry-include",
        fault_name,
        "args",
        "ERROR",
    ),
    (
        "--harbor-retry-wait",
        "First wait after an error, repeatable, in place of the table's; each further one is "
        "twice as long, up to 60 s or this one",
        first_wait,
        "args",
        "ERROR=SECONDS",
    ),
    (
        "--harbor-verifier",
        "Who grades in place of the task's test script: package.module:Class, or a name from an "
        "entry point, as judge",
        non_empty,
        "string",
        "NAME",
    ),
    (
        "--harbor-verifier-kwarg",
        "Keyword argument for --harbor-verifier, repeatable; the value is read as JSON, else as "
        "True, False or None, else as text",
        assignment,
        "args",
        "KEY=VALUE",
    ),
    (
        "--harbor-regrade",
        "Folder of an earlier job: run the verifiers again over what its trials left, without "
        "their agents; the old verdicts stay beside the new",
        non_empty,
        "string",
        "JOB",
    ),
    (
        "--harbor-save-files",
        "Save what the agents of failed trials, or of all, left in an environment that the "
        "verifier shares, in the trial's folder, so that --harbor-regrade can grade it again",
        save_choice,
        "string",
        "failed|all",
        None,
        "failed",
    ),
    (
        "--harbor-metric",
        "Metric of your own over the valid rewards, repeatable: a metric.py, "
        "package.module:function, or a name from an entry point; 'dataset' runs the scripts that "
        "datasets bring, which are programs of others, on this machine",
        non_empty,
        "args",
        "METRIC",
    ),
)


class BenchmarkSettings(NamedTuple):
    """What a run asks for.

    Attributes:
        retries: Further tries after a fault of the set-up or the provider.
        retry_include: Errors that alone are reasons for one; empty: the table of causes.
        retry_exclude: Errors that are none.
        retry_waits: Seconds of the first wait after an error.
        verifier: Who grades in place of the task's test script; empty: nobody.
        verifier_kwargs: Its keyword arguments.
        regrade: The job whose trials are graded again.
        save_files: Of which trials the files are saved for a later grading; None: of none.
        metrics: Metrics of the user's own, as they were named.
        runs_dataset_metrics: Whether the scripts that datasets bring are run.
    """

    retries: int = RETRIES
    retry_include: tuple[str, ...] = ()
    retry_exclude: tuple[str, ...] = ()
    retry_waits: Mapping[str, float] = MappingProxyType({})
    verifier: str = ""
    verifier_kwargs: Mapping[str, Any] = MappingProxyType({})
    regrade: Path | None = None
    save_files: Literal["failed", "all"] | None = None
    metrics: tuple[str, ...] = ()
    runs_dataset_metrics: bool = False


def benchmark_settings(config: pytest.Config, value: Mapping[str, Any]) -> BenchmarkSettings:
    """The settings of the options' values.

    Raises:
        pytest.UsageError: Warnings are errors, and there is one.
    """
    _tell_of_unknown_errors(config, value)
    regrade = value["regrade"]
    metrics = dict.fromkeys(value["metric"] or ())
    return BenchmarkSettings(
        retries=RETRIES if value["retries"] is None else value["retries"],
        retry_include=tuple(dict.fromkeys(value["retry_include"] or ())),
        retry_exclude=tuple(dict.fromkeys(value["retry_exclude"] or ())),
        retry_waits=_waits(value["retry_wait"] or ()),
        verifier=(value["verifier"] or "").strip(),
        verifier_kwargs=keyword_arguments(value["verifier_kwarg"] or ()),
        regrade=None if regrade is None else absolute_path(config, "harbor_regrade", regrade),
        save_files=value["save_files"],
        metrics=tuple(one for one in metrics if one != DATASET_METRICS),
        runs_dataset_metrics=DATASET_METRICS in metrics,
    )


def _tell_of_unknown_errors(config: pytest.Config, value: Mapping[str, Any]) -> None:
    """Say once which names help only where an agent of the user's own raises them."""
    options = ("retry_include", "retry_exclude", "retry_wait")
    given = {option: [one.partition("=")[0] for one in value[option] or ()] for option in options}
    if hasattr(config, "workerinput") or not any(given.values()):
        return
    from pytest_harbor.trial.retries import known_names

    known = known_names()
    for option, names in given.items():
        for name in dict.fromkeys(one for one in names if one not in known):
            text = (
                f"--harbor-{option.replace('_', '-')}: {name} is no error of pytest-harbor's; it "
                "has an effect only where an agent raises an error of that name"
            )
            try:
                config.issue_config_time_warning(HarborWarning(text), stacklevel=2)
            except HarborWarning:
                raise pytest.UsageError(text) from None


def _waits(given: Iterable[str]) -> dict[str, float]:
    """Seconds by the name of an error; the last one given counts."""
    return {name: float(wait) for name, _, wait in (one.partition("=") for one in given)}
