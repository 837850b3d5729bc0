"""A trial's verifier once more, over what it left, without its agent.

A separate verifier's box has nothing of the agent's but the artifacts, and these are in the
trial's folder: without secrets and with root as their owner. A verifier that shares the agent's
box grades where that box's files were saved: in a fresh one of its image and these files, out of
which another is made as isolated grading makes it.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from pytest_harbor.environment.base import Environment, EnvironmentRequest
from pytest_harbor.environment.saved import SavesFiles
from pytest_harbor.errors import UnsupportedError, VerifierFault
from pytest_harbor.result.integrity import IntegrityFinding, IntegrityReport
from pytest_harbor.result.reward import judge
from pytest_harbor.result.trial import StepResult
from pytest_harbor.result.work import USAGE_COUNTS, Fault, Timing, Work
from pytest_harbor.task.artifacts import MANIFEST_FILE, ArtifactEntry
from pytest_harbor.task.network import NetworkPolicy
from pytest_harbor.trial.artifacts import ABSENT
from pytest_harbor.trial.grading import grade_separately, verifier_context
from pytest_harbor.trial.network_switch import require_control
from pytest_harbor.trial.plan import TrialPlan, WorkPlan
from pytest_harbor.trial.record import WorkFolders
from pytest_harbor.trial.run import Trial
from pytest_harbor.trial.saved import find_saved, hand_on, open_saved
from pytest_harbor.trial.trust import Observed, Trust, needs_services
from pytest_harbor.verifier.base import Verifier, VerifierContext, VerifierReport

_WHOLE = ("ok", "empty")
_COPIED = ("agent", "artifacts")
_FINDING = ("code", "level", "message", "path", "original", "found", "remedied")
_MAX_BYTES_IN_MEMORY = 4 * 1024 * 1024
_CLOSED = NetworkPolicy("no-network")
# What a verifier's own run was found to say; it says it anew.
_OF_VERIFIERS = frozenset({
    "both-files", "impossible-count", "no-test-ran", "odd-spelling", "rewards-disagree",
    "test-count", "tests-in-image",
})  # fmt: skip

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


@dataclass(slots=True)
class KeptArtifacts:
    """Artifacts of an earlier trial, packed for a verifier's box."""

    archives: list[IO[bytes]] = field(default_factory=list)


class Regrade(Trial):
    """A trial whose agent worked in an earlier run."""

    def regrade(self, earlier: EarlierTrial, verifier: Verifier) -> None:
        """Grade what the earlier trial left; the result is in ``result``.

        Raises:
            UnsupportedError: It cannot be graded again.
            EnvironmentFault: A box broke.
        """
        if reason := why_not(self.plan, earlier):
            raise UnsupportedError(f"{earlier.folder.name} cannot be graded again: {reason}")
        self.result.regraded = told(earlier, self.plan)
        self.result.agent_version = str(_agent(earlier.result).get("version") or "unknown")
        own = earlier.result.get("pytest_harbor") or {}
        self.result.agent_unable = own.get("category") == "agent"
        for work in _begun(self.plan, earlier):
            self._check_boxes(work)
        for work in _begun(self.plan, earlier):
            self._regrade(work, earlier, verifier)
        self._settle()

    def _check_boxes(self, work: WorkPlan) -> None:
        """See that the backend can give what grading takes, before anything is built."""
        if work.box is not None:
            return  # asked as it is made
        request = self._agents_box(work.network.verifier)
        box = self._make_environment(request)
        require_control(box, request)
        box.check(request)
        self._isolating().check(box)
        if not isinstance(box, SavesFiles):
            raise UnsupportedError(f"{type(box).__name__} cannot be made from saved files")

    def _regrade(self, work: WorkPlan, earlier: EarlierTrial, verifier: Verifier) -> None:
        folders, result = self.record.folders(work.name), self._work(work)
        _copy(earlier.folders(work.name), folders)
        carry_over(result, earlier.work(work.name))
        context = verifier_context(
            self.plan, work, self.record, folders, {"verifier": folders.verifier_dir}
        )
        observed = partial(self._phases.observed, "verifier", work.name)
        in_own_box = self._network.in_verifiers_box(work.network.verifier, work.name, observed)
        grade = self._grade_saved if work.box is None else self._grade_artifacts
        try:
            with self._phases.timed(result, "verifier", work.name):
                report = grade(work, earlier, result, verifier, context, in_own_box)
            self._take(report, result)
            self._trust.take(report, result, work)
        except VerifierFault as fault:
            self._phases.add_fault(result, "verifier", fault)
        if result.reward is not None and isinstance(result, StepResult):
            result.verdict = self._judge(result, result.reward)

    def _grade_artifacts(
        self,
        work: WorkPlan,
        earlier: EarlierTrial,
        _result: Work,
        verifier: Verifier,
        context: VerifierContext,
        in_own_box: Observed,
    ) -> VerifierReport:
        folder = self.record.folders(work.name).path
        rows = [row for row in earlier.manifests.get(work.name, []) if row["status"] == "ok"]
        with ExitStack() as stack:
            kept = KeptArtifacts([stack.enter_context(packed(folder, row)) for row in rows])
            return grade_separately(
                self.plan, work, self.record, context, verifier, kept, self._checked_box, in_own_box
            )

    def _grade_saved(
        self,
        work: WorkPlan,
        earlier: EarlierTrial,
        result: Work,
        verifier: Verifier,
        context: VerifierContext,
        in_own_box: Observed,
    ) -> VerifierReport:
        """Grade in a copy of a box of the saved files, with the image's where it relies on them."""
        saved = find_saved(earlier.folders(work.name))
        hand_on(saved, self.record.folders(work.name))
        self._tell_of_processes(result, earlier.work(work.name))
        then, self._trust = result.integrity, self._isolating()
        box = self._make_environment(self._agents_box(_CLOSED))
        assert isinstance(box, SavesFiles)
        try:
            with open_saved(saved) as archive:
                box.start_from(saved.files, archive, timeout_sec=self.plan.build_timeout_sec)
            self._trust.begin(box)
            report = self._trust.grade(
                work, result, box, verifier, context, in_own_box, _nothing, in_own_box
            )
        finally:
            box.stop()
            _keep_earlier(result, then)
        return report

    def _isolating(self) -> Trust:
        options = replace(self.plan.options, isolate=True)
        return Trust(replace(self.plan, options=options), self.record)

    def _agents_box(self, network: NetworkPolicy) -> EnvironmentRequest:
        return replace(self.plan.agent_box(self.record, self._labels), network=(network,))

    @staticmethod
    def _tell_of_processes(result: Work, earlier: Mapping[str, Any]) -> None:
        own = earlier.get("pytest_harbor") or {}
        if running := (own.get("integrity") or {}).get("left_running"):
            result.findings.append(
                f"{len(running)} of the agent's processes ran on when it was graded first, as"
                f" {str(running[0])!r}; none of them runs now"
            )

    def _work(self, work: WorkPlan) -> Work:
        if not work.name:
            return self.result
        step = StepResult(name=work.name, separate=True)
        self.result.steps.append(step)
        return step

    def _checked_box(self, work: WorkPlan) -> Environment:
        request = self.plan.verifier_box(work, self.record, self._labels)
        box = self._make_environment(request)
        require_control(box, request)
        box.check(request)
        return box


def why_not(plan: TrialPlan, earlier: EarlierTrial) -> str:
    """What keeps a trial from being graded again; empty where nothing does."""
    begun = _begun(plan, earlier)
    if not begun:
        return "its agent did not come to work"
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
        where = f" in step {work.name}" if work.name else ""
        yield f"its verifier shares the agent's container{where}, whose files {error}"


def _begun(plan: TrialPlan, earlier: EarlierTrial) -> list[WorkPlan]:
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
    for row in rows:
        if row.get("status") == "ok" and _place(earlier.folders(work.name), row) is None:
            yield f"artifact {row.get('source')}{where} is gone from the trial's folder"


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


def carry_over(result: Work, earlier: Mapping[str, Any]) -> None:
    """Take what the agent did from an earlier result; what its verifier said is dropped."""
    own = earlier.get("pytest_harbor") or {}
    agent_result = earlier.get("agent_result") or {}
    result.usage = {
        name: agent_result[name] for name in USAGE_COUNTS if agent_result.get(name) is not None
    }
    for phase, name in (("agent_setup", "agent_setup"), ("agent", "agent_execution")):
        if times := earlier.get(name):
            moments = (times["started_at"], times["finished_at"])
            result.timings[phase] = Timing(*map(datetime.fromisoformat, moments))
    result.agent_exit_code = own.get("agent_exit_code")
    result.faults += [
        Fault(str(one["phase"]), str(one["type"]), str(one["message"]))
        for one in own.get("faults") or []
        if one.get("phase") in ("agent_setup", "agent")
    ]
    found = (own.get("integrity") or {}).get("findings") or []
    findings = [IntegrityFinding(**{k: one[k] for k in _FINDING if k in one}) for one in found]
    result.integrity = IntegrityReport(
        grading="separate", findings=[one for one in findings if one.code not in _OF_VERIFIERS]
    )


def _keep_earlier(result: Work, then: IntegrityReport | None) -> None:
    """Have signs of tampering from when the agent's processes were there, too."""
    if then is None or result.integrity is None or result.integrity is then:
        return
    known = {(one.code, one.path) for one in result.integrity.findings}
    for one in then.findings:
        if (one.code, one.path) not in known and one.code != "left-running":
            # In reach of the reward were processes that no longer are.
            undone = one.remedied or one.code == "reward-in-reach"
            result.integrity.findings.append(replace(one, remedied=undone))


def _nothing() -> None:
    """Isolated grading has no use for the agent's network."""


def told(earlier: EarlierTrial, plan: TrialPlan) -> dict[str, Any]:
    """The old verdict, to stand beside the new one; plain JSON."""
    own = earlier.result.get("pytest_harbor") or {}
    rewards = (earlier.result.get("verifier_result") or {}).get("rewards") or {}
    options = plan.options
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


def packed(folder: Path, row: Row) -> IO[bytes]:
    """An artifact of a trial's folder as an archive with names from the box's root."""
    archive = cast(
        "IO[bytes]",
        tempfile.SpooledTemporaryFile(max_size=_MAX_BYTES_IN_MEMORY),  # noqa: SIM115
    )
    with tarfile.open(fileobj=archive, mode="w") as tar:
        if (place := _place(folder, row)) is not None:
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
    if not (info.isfile() or info.isdir() or info.issym()):
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


def _copy(source: Path, folders: WorkFolders) -> None:
    for name in _COPIED:
        if (source / name).is_dir() and not (source / name).is_symlink():
            shutil.copytree(source / name, folders.path / name, symlinks=True, dirs_exist_ok=True)


def _agent(result: Mapping[str, Any]) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", result.get("agent_info") or {})
