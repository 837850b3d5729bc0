"""A trial's verifier once more, over what it left, without its agent.

A separate verifier's box has nothing of the agent's but the artifacts, and these are in the
trial's folder: without secrets, and with what was recorded of their owners. A verifier that
shares the agent's box grades where that box's files were saved: in a fresh one of its image and
these files, out of which another is made as isolated grading makes it.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from pytest_harbor.environment.base import Environment, EnvironmentRequest
from pytest_harbor.environment.kept import AGENTS, VERIFIERS
from pytest_harbor.environment.saved import SavesFiles
from pytest_harbor.errors import EnvironmentFault, UnsupportedError, VerifierFault
from pytest_harbor.result.integrity import IntegrityFinding, IntegrityReport
from pytest_harbor.result.trial import StepResult
from pytest_harbor.result.work import USAGE_COUNTS, Fault, Timing, Work
from pytest_harbor.task.network import NetworkPolicy
from pytest_harbor.trial.artifact_record import RECORD_FILE, read_record, recorded_of
from pytest_harbor.trial.grading import grade_separately, verifier_context
from pytest_harbor.trial.left_behind import (
    EarlierTrial,
    begun_works,
    not_had,
    packed,
    told,
    why_not,
)
from pytest_harbor.trial.network_switch import require_control
from pytest_harbor.trial.plan import WorkPlan
from pytest_harbor.trial.record import WorkFolders
from pytest_harbor.trial.run import Trial
from pytest_harbor.trial.saved import Saved, find_saved, hand_on, open_saved
from pytest_harbor.trial.trust import Observed, Trust
from pytest_harbor.verifier.base import Verifier, VerifierContext, VerifierReport

_COPIED = ("agent", "artifacts")
_FINDING = ("code", "level", "message", "path", "original", "found", "remedied")
_CLOSED = NetworkPolicy("no-network")
# What a verifier's own run was found to say; it says it anew.
_OF_VERIFIERS = frozenset({
    "both-files", "impossible-count", "no-test-ran", "odd-spelling", "rewards-disagree",
    "test-count", "tests-in-image",
})  # fmt: skip


@dataclass(slots=True)
class KeptArtifacts:
    """Artifacts of an earlier trial, packed for a verifier's box."""

    archives: list[IO[bytes]] = field(default_factory=list)


class Regrade(Trial):
    """A trial whose agent worked in an earlier run.

    Attributes:
        held: Boxes that are still there, for people: whose each is, and the box.
    """

    def __init__(self, *arguments: Any) -> None:
        """Like any trial."""
        super().__init__(*arguments)
        self.held: list[tuple[str, Environment]] = []
        self._opened: dict[str, tuple[Saved, BinaryIO]] = {}

    def regrade(self, earlier: EarlierTrial, verifier: Verifier) -> None:
        """Grade what the earlier trial left; the result is in ``result``.

        Raises:
            UnsupportedError: It cannot be graded again.
            EnvironmentFault: A box broke.
        """
        if reason := why_not(self.plan, earlier):
            raise UnsupportedError(f"{earlier.folder.name} cannot be graded again: {reason}")
        self.result.agent_version = str(_agent(earlier.result).get("version") or "unknown")
        own = earlier.result.get("pytest_harbor") or {}
        self.result.agent_unable = own.get("category") == "agent"
        begun = begun_works(self.plan, earlier)
        with ExitStack() as stack:
            # What was changed is told of before anything is built or graded.
            for work in begun:
                if work.box is None:
                    self._open(work, earlier, stack)
            self.result.regraded = {**told(earlier, self.plan), "owners_recorded": True}
            for work in begun:
                self._regrade(work, earlier, verifier, is_last=work is begun[-1])
        self._settle()

    def _open(self, work: WorkPlan, earlier: EarlierTrial, stack: ExitStack) -> None:
        """See that the files can be had, and that the backend can give what grading takes."""
        try:
            saved = find_saved(earlier.folders(work.name))
            archive = stack.enter_context(open_saved(saved))
        except UnsupportedError as error:
            reason = not_had(work, error)
            raise UnsupportedError(
                f"{earlier.folder.name} cannot be graded again: {reason}"
            ) from None
        self._opened[work.name] = saved, archive
        request = self._agents_box(work.network.verifier)
        box = self._make_environment(request)
        require_control(box, request)
        box.check(request)
        self._isolating().check(box)
        if not isinstance(box, SavesFiles):
            raise UnsupportedError(f"{type(box).__name__} cannot be made from saved files")

    def _regrade(
        self, work: WorkPlan, earlier: EarlierTrial, verifier: Verifier, *, is_last: bool
    ) -> None:
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
                report = grade(work, earlier, result, verifier, context, in_own_box, is_last)
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
        result: Work,
        verifier: Verifier,
        context: VerifierContext,
        in_own_box: Observed,
        _is_last: bool,
    ) -> VerifierReport:
        folder = self.record.folders(work.name).path
        rows = [row for row in earlier.manifests.get(work.name, []) if row["status"] == "ok"]
        record = read_record(folder)
        recorded = [(row, recorded_of(row, record)) for row in rows]
        if unknown := [str(row["source"]) for row, one in recorded if one is None]:
            assert self.result.regraded is not None
            self.result.regraded["owners_recorded"] = False
            result.findings.append(
                f"owners and modes of {', '.join(unknown)} were not recorded when the artifacts"
                " were brought home; the verifier had them as root's, which it may hold against"
                " the agent"
            )
        with ExitStack() as stack:
            kept = KeptArtifacts(
                [stack.enter_context(packed(folder, row, one)) for row, one in recorded]
            )
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
        is_last: bool,
    ) -> VerifierReport:
        """Grade in a copy of a box of the saved files, with the image's where it relies on them."""
        saved, archive = self._opened[work.name]
        try:
            hand_on(saved, self.record.folders(work.name))
        except OSError as error:
            result.findings.append(f"the saved files are only in the earlier job: {error.strerror}")
        self._tell_of_processes(result, earlier.work(work.name))
        then, self._trust = result.integrity, self._isolating()
        box = self._make_environment(self._agents_box(_CLOSED))
        assert isinstance(box, SavesFiles)
        holds = False
        try:
            box.start_for(saved.files, timeout_sec=self.plan.build_timeout_sec)
            self._trust.begin(box)  # what it sees is the image's, and nothing of the agent's
            box.fill(saved.files, archive)
            holds = is_last and self.plan.options.holds_boxes
            report = self._trust.grade(
                work, result, box, verifier, context, in_own_box, _nothing, in_own_box
            )
        finally:
            if holds:
                self.held.append((AGENTS, box))
            else:
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
        step = StepResult(name=work.name, separate=work.box is not None)
        self.result.steps.append(step)
        return step

    def _checked_box(self, work: WorkPlan) -> Environment:
        request = self.plan.verifier_box(work, self.record, self._labels)
        box = self._make_environment(request)
        require_control(box, request)
        box.check(request)
        self.held = [(VERIFIERS, box)]
        return box


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


def _copy(source: Path, folders: WorkFolders) -> None:
    try:
        for name in _COPIED:
            place = source / name
            if place.is_dir() and not place.is_symlink():
                target = folders.path / name
                shutil.copytree(place, target, symlinks=True, dirs_exist_ok=True, ignore=_special)
        if (record := source / RECORD_FILE).is_file() and not record.is_symlink():
            shutil.copy2(record, folders.path / RECORD_FILE)
    except OSError as error:  # of several files, shutil's own
        raise EnvironmentFault(f"what {source} holds cannot be copied: {error}") from error


def _special(folder: str, names: list[str]) -> list[str]:
    """What no run writes, and nobody could copy: pipes, sockets, devices."""
    modes = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}
    usual = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    return [name for name, mode in modes.items() if not any(is_it(mode) for is_it in usual)]


def _agent(result: Mapping[str, Any]) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", result.get("agent_info") or {})
