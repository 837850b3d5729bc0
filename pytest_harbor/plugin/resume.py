"""``--harbor-resume``: go on with a job that ended early.

The process that owns the run reads the job once; workers are told which items stand, and take
what was said of each from its trial's folder.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.plugin.ini import absolute_path
from pytest_harbor.task.plural import listed

if TYPE_CHECKING:
    from pytest_harbor.plugin.options import Settings
    from pytest_harbor.report.earlier import EarlierJob, EarlierTrial

LATEST = "latest"
"""Value of the option that is given without one."""

_JOB_NAME = re.compile(r"\d{4}-\d\d-\d\d__\d\d-\d\d-\d\d__[0-9a-f]{8}")
_TRIAL: pytest.StashKey[EarlierTrial] = pytest.StashKey()
_SHOWN = 5

# Where results go, what is shown, which of the tasks run: none of it shapes a trial.
_SHAPES_NOTHING = frozenset({
    "agent_env", "annotations", "asked", "changed_since", "ci", "datasets", "keep", "metrics",
    "missing_env", "output", "progress", "rebuild", "reports", "resume", "retries",
    "retry_exclude", "retry_include", "runs_dataset_metrics", "save_files", "retry_waits",
    "summary", "tasks",
})  # fmt: skip


def begin(config: pytest.Config) -> None:
    """Find and read the job to go on with, if one is asked for.

    Raises:
        pytest.UsageError: There is none that can be gone on with.
    """
    from pytest_harbor.plugin.job import job
    from pytest_harbor.plugin.options import settings

    wanted = settings(config)
    if wanted.resume is None or hasattr(config, "workerinput"):
        return
    if wanted.check:
        raise pytest.UsageError("--harbor-resume: a check proves tasks as they are; run it anew")
    job(config)


def find_job(config: pytest.Config, value: str, output: Path) -> Path:
    """The folder of the job to go on with.

    Raises:
        pytest.UsageError: There is none.
    """
    if value == LATEST:
        jobs = [one for one in output.glob("*/config.json") if _JOB_NAME.fullmatch(one.parent.name)]
        if not jobs:
            raise pytest.UsageError(
                f"--harbor-resume: {output} holds no job to go on with; leave the option out, or"
                " name the job's folder: --harbor-resume=JOB"
            )
        return max(jobs).parent
    path = absolute_path(config, "harbor_resume", value)
    found = next((one for one in (path, output / value) if (one / "config.json").is_file()), None)
    if found is None:
        raise pytest.UsageError(
            f"--harbor-resume: expected a job's folder, got {value!r}; write --harbor-resume=JOB,"
            " and put the option behind the paths where it has no value"
        )
    return found


def read_job(config: pytest.Config, path: Path, wanted: Settings) -> EarlierJob:
    """Read the job to go on with.

    Raises:
        pytest.UsageError: It is no job of ours, is still run, or asked for something else.
    """
    from pytest_harbor.errors import OptionError
    from pytest_harbor.report.earlier import read_earlier

    try:
        earlier = read_earlier(path)
    except OptionError as error:
        raise pytest.UsageError(f"--harbor-resume: {error}") from None
    _refuse_running(earlier)
    differences = list(_differences(earlier.own["options"], shaping_options(wanted)))
    if differences:
        raise pytest.UsageError(
            f"--harbor-resume: {path.name} was asked for something else than this run is:"
            f" {'; '.join(differences)}. Give the same options, or begin a new job without"
            " --harbor-resume"
        )
    return earlier


def _refuse_running(earlier: EarlierJob) -> None:
    from pytest_harbor.environment.docker.owner import Owner
    from pytest_harbor.report.running import is_running

    for owner in earlier.owners:
        if is_running(owner) and owner != Owner.current():
            raise pytest.UsageError(
                f"--harbor-resume: {earlier.path.name} is still being run, by process {owner.pid}"
                " on this machine; wait for it, or end it"
            )


def shaping_options(wanted: Settings) -> dict[str, Any]:
    """What of a run's settings its trials' results hang on, as plain JSON without secrets."""
    found = _fields(wanted)
    if wanted.agent_command:
        found["agent_command"] = _fingerprint(wanted.agent_command)
    return {**found, "agent_env_names": sorted(wanted.agent_env)}


def _fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass or named tuple that shape a result."""
    names = getattr(value, "_fields", None) or [one.name for one in dataclasses.fields(value)]
    return {
        name: _fingerprints(found) if name.endswith("kwargs") else _plain(found)
        for name in names
        if name not in _SHAPES_NOTHING
        for found in [getattr(value, name)]
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if dataclasses.is_dataclass(value) or hasattr(value, "_fields"):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return [_plain(one) for one in value] if isinstance(value, Sequence) else str(value)


def _fingerprints(values: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): _fingerprint(repr(value)) for name, value in values.items()}


def _fingerprint(text: str) -> str:
    """Tells two texts apart, and shows neither: either may hold a key."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*then, *now}):
        was, wanted = then.get(name), now.get(name)
        if was == wanted:
            continue
        if name in ("agent_command", "agent_kwargs"):
            yield f"harbor_{name.removesuffix('s')} differs"
        else:
            yield f"{name} was {was!r} and is {wanted!r}"


def require_same_tasks(
    earlier: EarlierJob, ids: Mapping[str, Path], root: Path, run_id: str
) -> None:
    """See that the tasks of standing trials are what they were.

    Args:
        earlier: The job.
        ids: The run's trials, with the folders of their tasks.
        root: What the folders are shown from.
        run_id: The run.

    Raises:
        pytest.UsageError: Some were changed.
    """
    from pytest_harbor.trial.identity import digest_of_task

    standing, changed = earlier.standing, dict[str, None]()
    for nodeid, folder in ids.items():
        if nodeid not in standing:
            continue
        if standing[nodeid].digest != digest_of_task(folder, run_id):
            changed[os.path.relpath(folder, root)] = None
    if changed:
        names = listed([*changed], _SHOWN)
        raise pytest.UsageError(
            f"--harbor-resume: changed since {earlier.path.name} ran: {names}. Results of"
            " two versions do not belong into one job: put the tasks back, leave them out, or"
            " begin a new job without --harbor-resume"
        )


def set_aside(earlier: EarlierJob, ids: Iterable[str]) -> None:
    """Move what was cut off, and what is run again, out of the way of the job's readers."""
    from pytest_harbor.trial.record import ASIDE

    asked, standing = set(ids), {one.folder for one in earlier.standing.values()}
    for one in earlier.trials:
        if one.folder in standing or (one.item and one.item not in asked):
            continue
        place = earlier.path / ASIDE
        place.mkdir(exist_ok=True)
        one.folder.rename(place / one.folder.name)


def mark(item: pytest.Item, folder: Path) -> None:
    """The item has a trial that stands."""
    from pytest_harbor.report.earlier import read_trial

    item.stash[_TRIAL] = read_trial(folder)


def is_resumed(item: pytest.Item | None) -> bool:
    """Whether an item only reports what an earlier run found."""
    return item is not None and _TRIAL in item.stash


def set_earlier_properties(item: pytest.Item) -> None:
    """The properties of the earlier reports, and where they are from."""
    trial = item.stash[_TRIAL]
    pairs = {**trial.properties, "trial": str(trial.folder), "resumed": trial.folder.parent.name}
    item.user_properties += [pair for pair in pairs.items() if pair[0] != "kept"]


def earlier_trial(request: pytest.FixtureRequest) -> None:
    """The function of an item that is not run again: passes or fails as it did."""
    from pytest_harbor.plugin.outcomes import Failed

    trial = request.node.stash[_TRIAL]
    first, _, rest = trial.text.partition("\n")
    said = f"from job {trial.folder.parent.name} (resumed); its trial was not run again"
    text = "\n".join(part for part in (first, said, rest) if part)
    if trial.outcome == "failed":
        raise Failed(text)
    request.node.add_report_section("call", "harbor", text)


def status_word(
    report: pytest.TestReport | pytest.CollectReport,
) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    """How the terminal names the outcome of an item that was not run again."""
    if report.when != "call" or report.skipped or "resumed" not in dict(report.user_properties):
        return None
    if report.passed:
        return "passed", ".", ("PASSED (resumed)", {"green": True})
    return "failed", "F", ("FAILED (resumed)", {"red": True})
