"""What an earlier trial left: its verdict, and what of it can be graded again."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from pytest_harbor.errors import UnsupportedError, VerifierFault
from pytest_harbor.result.reward import judge
from pytest_harbor.task.artifacts import MANIFEST_FILE, ArtifactEntry
from pytest_harbor.trial.artifact_record import RecordedArtifact, read_record, recorded_of
from pytest_harbor.trial.artifacts import ABSENT
from pytest_harbor.trial.plan import TrialPlan, WorkPlan
from pytest_harbor.trial.saved import find_saved
from pytest_harbor.trial.trust import needs_services

_WHOLE = ("ok", "empty")
_MAX_BYTES_IN_MEMORY = 4 * 1024 * 1024

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EarlierTrial:
    """A trial that was graded before.

    Attributes:
        folder: Its folder.
        result: Its ``result.json``.
        manifests: Step (empty for a single-step task) to the rows of its artifacts.
    """

    folder: Path
    result: Mapping[str, Any]
    manifests: Mapping[str, list[Row]]

    def work(self, name: str) -> Mapping[str, Any]:
        """The result of a step, or of a single-step trial."""
        if not name:
            return self.result
        steps = self.result.get("step_results") or []
        return next((step for step in steps if step.get("step_name") == name), {})

    def folders(self, name: str) -> Path:
        """The folder of a step, or of a single-step trial."""
        return self.folder / "steps" / name if name else self.folder


def why_not(plan: TrialPlan, earlier: EarlierTrial) -> str:
    """What keeps a trial from being graded again; empty where nothing does."""
    begun = begun_works(plan, earlier)
    if not begun:
        return "its agent did not come to work"
    if was_cut_off(earlier):
        return "it was cut off before its agent was done"
    shared = any(work.box is None for work in begun)
    if shared and needs_services(plan.task, plan.options.isolate_except):
        return "it is graded with what the agent leaves running, and nothing of it runs now"
    reasons = (reason for work in begun for reason in _reasons(work, earlier))
    return next(reasons, "")


def _reasons(work: WorkPlan, earlier: EarlierTrial) -> Iterator[str]:
    if work.box is not None:
        yield from _missing(work, earlier)
        return
    try:
        find_saved(earlier.folders(work.name))
    except UnsupportedError as error:
        yield not_had(work, error)


def not_had(work: WorkPlan, error: UnsupportedError) -> str:
    """Why a step of a shared verifier cannot be graded again, as a reason of its trial."""
    where = f" in step {work.name}" if work.name else ""
    return f"its verifier shares the agent's container{where}, whose files {error}"


def was_cut_off(earlier: EarlierTrial) -> bool:
    """Whether something ended the trial, as an interrupt, before the agent's work was whole."""
    own = earlier.result.get("pytest_harbor")
    if not isinstance(own, Mapping):
        return False  # of Harbor's own runner, which tells otherwise
    if own.get("category") is None:
        return True
    works = [earlier.result, *(earlier.result.get("step_results") or [])]
    phases = {
        fault.get("phase")
        for work in works
        for fault in (work.get("pytest_harbor") or {}).get("faults") or []
    }
    return own["category"] == "environment" and bool(phases - {"verifier"})


def begun_works(plan: TrialPlan, earlier: EarlierTrial) -> list[WorkPlan]:
    """The steps in which the agent worked."""
    return [work for work in plan.works if earlier.work(work.name).get("agent_execution")]


def _missing(work: WorkPlan, earlier: EarlierTrial) -> Iterator[str]:
    where = f" of step {work.name}" if work.name else ""
    rows = earlier.manifests.get(work.name)
    if rows is None:
        if work.artifacts:
            yield f"the artifacts{where} have no {MANIFEST_FILE}"
        return
    for entry in work.artifacts:
        reason = _state(entry, rows)
        if reason:
            yield f"artifact {entry.source}{where} {reason}"
    folder = earlier.folders(work.name)
    try:
        record = read_record(folder)
    except UnsupportedError as error:
        yield f"the record of its artifacts{where} cannot be used: {error}"
        return
    for row in rows:
        if row.get("status") != "ok":
            continue
        place, recorded = _place(folder, row), recorded_of(row, record)
        if place is None:
            yield f"artifact {row.get('source')}{where} is gone from the trial's folder"
        elif recorded and (gone := recorded.gone_from(place)):
            yield f"{gone}{where}, of an artifact, is not in the trial's folder"


def _state(entry: ArtifactEntry, rows: Iterable[Row]) -> str:
    """What is wrong with an artifact that the task names; empty where nothing is."""
    own = [row for row in rows if (row.get("source"), row.get("service")) == (
        entry.source, entry.service)]  # fmt: skip
    if not own:
        return "was not collected then"
    status = own[0].get("status")
    if status in _WHOLE or own[0].get(ABSENT) is True:
        return ""
    if status == "skipped" and _came_with_another(own[0], rows):
        return ""
    return f"was not brought home whole then ({status})"


def _came_with_another(row: Row, rows: Iterable[Row]) -> bool:
    """Whether an artifact's files came home with a folder that holds it."""
    return any(
        other.get("status") == "ok"
        and other.get("service") == row.get("service")
        and not other.get("exclude")
        and f"{row.get('source')}/".startswith(f"{str(other.get('source')).rstrip('/')}/")
        for other in rows
    )


def told(earlier: EarlierTrial, plan: TrialPlan) -> dict[str, Any]:
    """The old verdict, to stand beside the new one; plain JSON."""
    own = earlier.result.get("pytest_harbor") or {}
    rewards = (earlier.result.get("verifier_result") or {}).get("rewards") or {}
    options = plan.options
    deciding = None
    with suppress(VerifierFault):  # another key decides now than did then
        deciding = judge(rewards, options.threshold, options.reward_key) if rewards else None
    return {
        "job": earlier.folder.parent.name,
        "trial_name": earlier.folder.name,
        "category": own.get("category"),
        "passed": own.get("passed"),
        "reward": deciding.reward if deciding else None,
        "rewards": rewards,
        "finished_at": earlier.result.get("finished_at"),
    }


def packed(folder: Path, row: Row, recorded: RecordedArtifact | None = None) -> IO[bytes]:
    """An artifact of a trial's folder as an archive with names from the box's root.

    Args:
        folder: The trial's, or a step's.
        row: The artifact's in the manifest.
        recorded: What was recorded of it; without, all of it is root's.

    Raises:
        UnsupportedError: A file of it cannot be read.
    """
    archive = cast(
        "IO[bytes]",
        tempfile.SpooledTemporaryFile(max_size=_MAX_BYTES_IN_MEMORY),  # noqa: SIM115
    )
    with tarfile.open(fileobj=archive, mode="w") as tar:
        if (place := _place(folder, row)) is not None:
            if recorded is not None:
                recorded.pack(tar, place)
            else:
                tar.add(place, arcname=_name_in_box(row), filter=_as_roots)
    archive.seek(0)
    return archive


def _name_in_box(row: Row) -> str:
    source = str(row["source"])
    # A relative one came from the folder that its place here is named after.
    return source.strip("/") if source.startswith("/") else _destination(row)


def _destination(row: Row) -> str:
    return str(row.get("destination", "")).removeprefix("artifacts/")


def _as_roots(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files, folders and links, root's; nobody's set-id bits, no devices."""
    # A file may have two names here, too, where a job was copied so as to save space.
    if not (info.isfile() or info.isdir() or info.issym() or info.islnk()):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode &= 0o777
    return info


def _place(folder: Path, row: Row) -> Path | None:
    """Where an artifact lies in a trial's folder; None where it does not, or lies outside."""
    place = folder / "artifacts" / _destination(row)
    inside = (folder / "artifacts").resolve()
    if place.is_symlink() or not place.exists() or not place.resolve().is_relative_to(inside):
        return None
    return place
