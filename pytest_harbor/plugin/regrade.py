"""``--harbor-regrade JOB``: the verifiers of a job's trials once more, without its agents.

The items are those of the job's agents, models and attempts; each grades what the trial of that
job left, in a job of this run's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_harbor.plugin.options import settings

if TYPE_CHECKING:
    from pytest_harbor.plugin.collect import TrialItem
    from pytest_harbor.plugin.regrade_match import Matches, Named
    from pytest_harbor.report.trial import Trial
    from pytest_harbor.result.trial import TrialResult
    from pytest_harbor.trial.left_behind import EarlierTrial

_MATCHES: pytest.StashKey[Matches] = pytest.StashKey()
_SHOWN = 50
_MAX_ATTEMPTS = 10_000
_VERDICTS = ("reward", "task", "agent")


class Agents(NamedTuple):
    """What a job's items are named after."""

    agents: tuple[str, ...]
    models: tuple[str, ...]
    attempts: int


def agents_of(job: Path) -> Agents:
    """The agents, models and attempts of an earlier job.

    Raises:
        pytest.UsageError: It is no job of this plugin's.
    """
    from pytest_harbor.report.files import read_object

    try:
        found = read_object(job / "config.json")
        agents = [str(one["name"]) for one in found["agents"]]
        models = [str(one["model_name"]) for one in found["agents"] if one.get("model_name")]
        attempts = int(found["n_attempts"])
        if not agents or not 1 <= attempts <= _MAX_ATTEMPTS:
            raise ValueError(f"it names {len(agents)} agents and {attempts} attempts")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise pytest.UsageError(
            f"--harbor-regrade: {job}: expected the folder of a job, with its config.json: {error}"
        ) from None
    return Agents(tuple(dict.fromkeys(agents)), tuple(dict.fromkeys(models)), attempts)


def regraded_trial(request: pytest.FixtureRequest, harbor_regraded: TrialResult) -> None:
    """The function of an item that is graded again: the fixture does it, here pytest hears."""
    from pytest_harbor.plugin.outcomes import report

    report(request, harbor_regraded)


def grade_again(request: pytest.FixtureRequest) -> Iterator[TrialResult]:
    """Grade what the earlier trial of an item left, and clear away when the item is done.

    Raises:
        UnsupportedError: It cannot be: there is none, or it left too little.
        EnvironmentFault: A box broke.
    """
    from pytest_harbor.agent.reference import NopAgent
    from pytest_harbor.plugin.job import job
    from pytest_harbor.plugin.trial_of_item import begin
    from pytest_harbor.trial.regrade import Regrade

    item: TrialItem = request.node
    earlier = _read(_earlier(item))
    policy = request.getfixturevalue("harbor_network_policy")
    begun = begin(item, job(item.config), item.task, NopAgent(), policy, kind=Regrade)
    trial = begun.trial
    assert isinstance(trial, Regrade)
    verifier = begun.verifier = request.getfixturevalue("harbor_verifier")
    try:
        trial.regrade(earlier, verifier)
        begun.settled(trial.result)
        yield trial.result
    finally:
        trial.record.status.end()
        begun.stop()


def _earlier(item: TrialItem) -> Trial:
    """The trial of the job that an item is about."""
    config = item.config
    if _MATCHES not in config.stash:
        from pytest_harbor.plugin.regrade_match import Matches
        from pytest_harbor.report.job import read_job

        job = settings(config).benchmark.regrade
        assert job is not None
        config.stash[_MATCHES] = Matches(read_job(job).trials, _items(item.session))
    return config.stash[_MATCHES].trial_of(_named(item))


def _items(session: pytest.Session) -> Iterator[Named]:
    from pytest_harbor.errors import HarborError
    from pytest_harbor.plugin.collect import TrialItem

    for item in session.items:
        if isinstance(item, TrialItem):
            with suppress(HarborError):  # a task that cannot be read tells so in its own item
                yield _named(item)


def _named(item: TrialItem) -> Named:
    from pytest_harbor.plugin.regrade_match import Named
    from pytest_harbor.report.trial import task_id_of

    variant, task = item.variant, item.task
    origin = task.origin
    return Named(
        (variant.agent, variant.model or "", variant.attempt),
        item.nodeid,
        str(task.path),
        task_id_of(origin.dataset, origin.task_id) if origin else "",
    )


def _read(trial: Trial) -> EarlierTrial:
    from pytest_harbor.errors import UnsupportedError
    from pytest_harbor.report.files import (
        UnreadableError,
        read_list,
        read_object,
        subfolders,
        unlinked,
    )
    from pytest_harbor.task.artifacts import MANIFEST_FILE
    from pytest_harbor.trial.earlier_result import artifact_rows, require_readable
    from pytest_harbor.trial.left_behind import EarlierTrial

    folder = trial.folder
    assert folder is not None
    try:
        result = read_object(folder / "result.json")
        require_readable(result)
    except UnreadableError as error:
        raise UnsupportedError(f"{folder.name} cannot be graded again: {error}") from None
    except ValueError as error:
        raise UnsupportedError(
            f"{folder.name} cannot be graded again: its result.json: {error}"
        ) from None
    steps = unlinked(folder / "steps")
    places = {"": folder, **{name: steps / name for name in subfolders(steps)}}
    files = {name: unlinked(place / "artifacts") / MANIFEST_FILE for name, place in places.items()}
    rows = {name: read_list(file) for name, file in files.items() if file.is_file()}
    manifests = {name: list(artifact_rows(found)) for name, found in rows.items()}
    return EarlierTrial(folder, result, manifests)


class RegradeSummary:
    """Shows the old verdicts beside the new."""

    def __init__(self, job: Path) -> None:
        self._job = job

    def pytest_harbor_summary(
        self, results: Sequence[Mapping[str, Any]]
    ) -> Sequence[tuple[str, Sequence[str]]]:
        """Which verdicts changed."""
        return [(f"harbor: regraded {self._job.name}", list(_lines(results)))]


def _lines(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    # One whose box broke has no new verdict; one that was skipped was not begun.
    again = [one for one in results if "before.trial" in one and one.get("category") in _VERDICTS]
    changed = [one for one in again if _verdict(one) != _verdict(one, "before.")]
    yield (
        f"{len(again)} of {len(results)} trials graded again: {len(changed)} with another verdict,"
        f" {len(results) - len(again)} not (the reasons: -rs)"
    )
    if unknown := sum("before.owners" in one for one in again):
        yield (
            f"{unknown} of them with artifacts whose owners that job did not record: the verifiers"
            " had root's"
        )
    for one in changed[:_SHOWN]:
        task, agent = one.get("task"), one.get("agent")
        yield f"{task} {agent}: {_verdict(one, 'before.')} -> {_verdict(one)}"
    if len(changed) > _SHOWN:
        yield f"{len(changed) - _SHOWN} more"


def _verdict(trial: Mapping[str, Any], prefix: str = "") -> str:
    category = trial.get(f"{prefix}category")
    if category != "reward":
        return str(category)
    word = "passed" if trial.get(f"{prefix}passed") else "failed"
    return f"{word} with {trial.get(f'{prefix}reward', 'no reward')}"
