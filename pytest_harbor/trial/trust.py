"""How a verifier that shares the agent's box grades: out of reach of what the agent left.

Nothing of the agent's runs any more: in the box itself. Something does: in a view of the box
whose tests and reward it cannot reach. On request: in a fresh box made of its files, with what
a verifier relies on as the image has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_harbor.environment.base import Change, Environment, RunningProcess
from pytest_harbor.environment.logs import bring_logs_home
from pytest_harbor.errors import (
    BoxTooLargeError,
    EngineUnavailableError,
    EnvironmentFault,
    EnvironmentLostError,
    TransferError,
    UnsupportedError,
    VerifierFault,
)
from pytest_harbor.integrity.compare import Comparison, compare
from pytest_harbor.integrity.late import late_findings
from pytest_harbor.integrity.leftovers import laid_out_in_image, tests_in_image
from pytest_harbor.integrity.outcome import outcome_findings
from pytest_harbor.integrity.planted import CODES as PLANTED
from pytest_harbor.integrity.planted import PLACES, paths_of_tests
from pytest_harbor.result.integrity import IntegrityFinding, IntegrityReport
from pytest_harbor.result.work import Work
from pytest_harbor.task.layout import LOGS_DIR, SOLUTION_DIR, TESTS_DIR, VERIFIER_LOGS
from pytest_harbor.task.model import Task
from pytest_harbor.trial.plan import TrialPlan, WorkPlan
from pytest_harbor.trial.record import TrialRecord
from pytest_harbor.verifier.base import Verifier, VerifierContext, VerifierReport
from pytest_harbor.verifier.call import graded
from pytest_harbor.verifier.script import OUTPUT_FILE

NEEDS_SERVICES = "needs_services"
"""Key of ``[metadata]``: what the agent leaves running is graded, so no fresh box will do."""

_BY_SIGNAL = 128  # a shell adds the signal's number
_MAX_COMMANDS = 20
_COMMAND_CHARS = 200
_LOG_FOLDERS = ("/logs/agent", "/logs/verifier", "/logs/artifacts")

# Trials of a task share its image, which is looked at once.
_LAID_OUT: dict[tuple[str, Path], Sequence[IntegrityFinding]] = {}

Observed = Callable[[Environment], AbstractContextManager[None]]


@dataclass(slots=True)
class Look:
    """What was seen of a box before grading."""

    report: IntegrityReport = field(default_factory=IntegrityReport)
    comparison: Comparison = field(default_factory=Comparison)
    running: Sequence[RunningProcess] | None = None


def needs_services(task: Task, patterns: Sequence[str]) -> bool:
    """Whether a task is graded with what the agent left running, even under isolation."""
    if task.config.metadata.get(NEEDS_SERVICES) is True:
        return True
    names = (task.name, task.path.name, task.path.as_posix())
    return any(fnmatchcase(name, one) for name in names for one in (*patterns,))


class Trust:
    """Looks at the agent's box before grading, and decides where it is graded."""

    def __init__(self, plan: TrialPlan, record: TrialRecord) -> None:
        self._plan = plan
        self._record = record
        self._watches = False
        self._in_image: Sequence[IntegrityFinding] = ()
        self._tests = paths_of_tests([folder for work in plan.works for folder in work.tests])
        options = plan.options
        self._isolates = options.isolate and not needs_services(plan.task, options.isolate_except)

    def check(self, environment: Environment) -> None:
        """See that the backend can isolate, where that is asked; before anything is built.

        Raises:
            UnsupportedError: It cannot.
        """
        shares = any(work.box is None for work in self._plan.works)
        if self._isolates and shares and not environment.can_fork:
            raise UnsupportedError(
                f"{type(environment).__name__} cannot make a second box of an agent's files here,"
                " under this runtime or at all, which"
                f" --harbor-isolate needs; leave it out, or name the task in"
                f" --harbor-isolate-except, or write {NEEDS_SERVICES} = true under [metadata]"
            )

    def begin(self, environment: Environment) -> None:
        """The agent is about to work for the first time."""
        if not self._watches:
            self._watches = True
            self._in_image = self._laid_out(environment)
            environment.begin_watch()

    def _laid_out(self, environment: Environment) -> Sequence[IntegrityFinding]:
        """Tests in a ready image; what an image is built from is looked at on this machine."""
        task = self._plan.task
        image = task.config.environment.docker_image
        if not image:
            return ()
        known = _LAID_OUT.get((image, task.path))
        if known is None:
            tests = [folder for work in self._plan.works for folder in work.tests]
            hidden = {TESTS_DIR: tests, SOLUTION_DIR: [task.solution_dir]}
            try:
                known = tuple(laid_out_in_image(environment, hidden))
            except (EnvironmentFault, OSError) as error:
                self._record.note(f"whether {image} holds the task's tests was not seen: {error}")
                return ()
            _LAID_OUT[image, task.path] = known
        return known

    def look_before_separate(self, environment: Environment, work: Work) -> None:
        """Look at a box that another one grades: nothing in it touches the reward."""
        look = self._look(environment)
        findings = [
            one if one.code == "link-to-verifier" else replace(one, level="information")
            for one in look.report.findings
        ]
        look.report.findings, look.report.grading = findings, "separate"
        work.integrity = look.report

    def look_at_broken(self, environment: Environment, work: Work) -> None:
        """Look at a box that broke before anybody had looked: what is found may be why."""
        if work.integrity is None:
            try:
                work.integrity = self._look(environment).report
            except EnvironmentFault as error:
                self._record.note(f"the broken box was not looked at: {error}")

    def grade(
        self,
        plan: WorkPlan,
        work: Work,
        environment: Environment,
        verifier: Verifier,
        context: VerifierContext,
        observed: Observed,
        enter: Callable[[], None],
        observed_fork: Observed,
    ) -> VerifierReport:
        """Grade where the agent's processes cannot reach the tests and the reward.

        Args:
            plan: What is graded.
            work: Takes the integrity report.
            environment: The agent's box.
            verifier: Grades.
            context: What it is told.
            observed: Tells of the phase in the agent's box.
            enter: Sets the verifier's network policy in the agent's box.
            observed_fork: Tells of the phase in a fresh box.

        Raises:
            VerifierFault: It cannot be graded so that the reward is out of reach.
            EnvironmentFault: A box broke.
        """
        look = self._look(environment)
        work.integrity = look.report
        context = self._free_places(look, environment, context, work)
        if self._isolates:
            return self._in_fork(plan, look, environment, verifier, context, observed_fork)
        enter()
        if look.running is None or look.running:
            return self._in_private(plan, look, environment, verifier, context, observed, work)
        with observed(environment):
            return graded(verifier, environment, context)

    def take(self, report: VerifierReport, work: Work, plan: WorkPlan) -> None:
        """Add what the graded run says of itself."""
        integrity = work.integrity = work.integrity or IntegrityReport()
        integrity.findings += report.integrity
        folder = self._record.folders(plan.name).verifier_dir
        integrity.findings += outcome_findings(
            report.reward, report.ctrf, folder / OUTPUT_FILE, plan.tests
        )
        integrity.findings += [*self._leftovers(plan), *self._in_image]
        integrity.findings.sort(key=lambda finding: finding.level != "suspicious")

    def _leftovers(self, plan: WorkPlan) -> Sequence[IntegrityFinding]:
        task = self._plan.task
        if not task.environment_dir.is_dir():
            return ()
        solutions = (task.solution_dir, *([plan.step.solution_dir] if plan.step else []))
        hidden = (*plan.tests, *(folder for folder in solutions if folder.is_dir()))
        try:
            return tests_in_image(task.environment_dir, hidden)
        except OSError:
            return ()

    def _look(self, environment: Environment) -> Look:
        look = Look()
        try:
            look.running = environment.left_running()
            changes = environment.changes()
            if changes is not None:
                look.comparison = compare(changes, environment, self._tests)
        except EnvironmentLostError:
            raise
        except (EnvironmentFault, UnsupportedError) as error:
            look.report.unseen.append(f"the box was not looked at to the end: {error}")
            changes = ()
        if look.running is None:
            look.report.unseen.append("processes that the agent left: this backend cannot tell")
        if changes is None:
            look.report.unseen.append("files that differ from the image: this backend cannot tell")
        elif _tells_no_types(changes):
            look.report.unseen.append("links among the changed files: this backend cannot tell")
        look.report.findings += look.comparison.findings
        look.report.unseen += look.comparison.unseen
        self._tell_processes(look)
        return look

    def _tell_processes(self, look: Look) -> None:
        for process in list(look.running or ())[:_MAX_COMMANDS]:
            text = self._record.redactor.text(process.command)[:_COMMAND_CHARS]
            look.report.left_running.append(text)
        if count := len(look.running or ()):
            message = f"{count} of the agent's processes ran on, as {look.report.left_running[0]!r}"
            look.report.findings.append(IntegrityFinding("left-running", "information", message))

    def _free_places(
        self, look: Look, environment: Environment, context: VerifierContext, work: Work
    ) -> VerifierContext:
        """Bring the agent's logs home first where ``/logs`` is not what it should be.

        Below it, and in the tests' place, whoever grades makes everything anew.
        """
        found = {one.path for one in look.report.findings if one.code in PLANTED}
        if LOGS_DIR in found:
            context = self._bring_home(environment, context, work)
            environment.clear([LOGS_DIR])
            environment.clear(_LOG_FOLDERS)
        if not context.tests:
            found = {path for path in found if not path.startswith(TESTS_DIR)}
        self._undone(look, found)
        return context

    def _bring_home(
        self, environment: Environment, context: VerifierContext, work: Work
    ) -> VerifierContext:
        """The agent's logs, which may be written while they are read; the verifier's come later."""
        landing = context.verifier_dir.parent / ".logs"
        for name, home in context.homes.items():
            if name == "verifier":
                continue
            try:
                work.findings += bring_logs_home(
                    environment, {name: home}, landing, context.filter_data
                )
            except TransferError as error:
                work.findings.append(f"{LOGS_DIR}/{name} could not be copied: {error}")
        own = {name: home for name, home in context.homes.items() if name == "verifier"}
        return replace(context, homes=own)

    @staticmethod
    def _undone(look: Look, paths: set[str]) -> None:
        look.report.findings[:] = [
            replace(one, remedied=True) if one.level == "suspicious" and one.path in paths else one
            for one in look.report.findings
        ]

    def _in_private(
        self,
        plan: WorkPlan,
        look: Look,
        environment: Environment,
        verifier: Verifier,
        context: VerifierContext,
        observed: Observed,
        work: Work,
    ) -> VerifierReport:
        with self._told_of_breaking(look), ExitStack() as stack:
            try:
                view = stack.enter_context(environment.private_view([TESTS_DIR, VERIFIER_LOGS]))
            except UnsupportedError as error:
                self._refuse_in_reach(look, error)
                stack.enter_context(observed(environment))
                return graded(verifier, environment, context)
            look.report.grading = "private"
            context = self._bring_home(environment, context, work)
            stack.enter_context(observed(environment))
            report = graded(verifier, view, context)
        killed = (report.exit_code or 0) > _BY_SIGNAL and not report.out_of_memory
        if killed and report.reward is None:
            self._disturbed(look, f"the verifier was ended, with status {report.exit_code}")
        self._look_again(look, environment, plan.tests)
        return report

    @contextmanager
    def _told_of_breaking(self, look: Look) -> Iterator[None]:
        """Who lives beside the verifier can break its box, too."""
        try:
            yield
        except EngineUnavailableError:
            raise
        except EnvironmentFault as error:
            self._disturbed(look, f"the box could not be graded any more: {error}")
            raise

    @staticmethod
    def _disturbed(look: Look, what: str) -> None:
        if look.running:
            message = f"while processes of the agent lived on, {what}"
            look.report.findings.insert(
                0, IntegrityFinding("grading-disturbed", "suspicious", message)
            )

    def _refuse_in_reach(self, look: Look, error: UnsupportedError) -> None:
        if look.running is None:
            return
        message = f"processes of the agent ran on, in reach of the reward: {error}"
        look.report.findings.insert(0, IntegrityFinding("reward-in-reach", "suspicious", message))
        raise VerifierFault(
            f"{message}; not graded. Run it with --harbor-isolate, or with a separate verifier"
        )

    @staticmethod
    def _look_again(look: Look, environment: Environment, tests: Sequence[Path]) -> None:
        """What ran on may have waited with its changes until the first look was over."""
        try:
            later = compare(environment.changes() or (), environment).findings
        except EnvironmentFault as error:
            look.report.unseen.append(f"the box after grading: {error}")
            return
        look.report.findings += list(late_findings(look.report.findings, later, tests))

    def _in_fork(
        self,
        plan: WorkPlan,
        look: Look,
        environment: Environment,
        verifier: Verifier,
        context: VerifierContext,
        observed: Observed,
    ) -> VerifierReport:
        restore = list(dict.fromkeys(look.comparison.restore))
        remove = list(dict.fromkeys(look.comparison.remove))
        try:
            box = environment.fork((plan.network.verifier,), restore=restore, remove=remove)
        except BoxTooLargeError as error:
            look.report.findings.insert(0, IntegrityFinding("too-large", "suspicious", str(error)))
            raise
        try:
            box.start(timeout_sec=self._plan.build_timeout_sec)
            look.report.grading = "isolated"
            look.report.restored = sorted({*restore, *remove})
            self._undone(look, {*restore, *remove})
            with observed(box):
                return graded(verifier, box, context)
        finally:
            try:
                box.stop()
            except EnvironmentFault as error:
                self._record.note(f"the verifier's box could not be removed: {error}")


def _tells_no_types(changes: Sequence[Change]) -> bool:
    """Whether links cannot be told from files; what the places hold is looked at in any case."""
    lasting = [one for one in changes if one.kind != "deleted" and one.path not in PLACES]
    return bool(lasting) and not any(one.type for one in lasting)
