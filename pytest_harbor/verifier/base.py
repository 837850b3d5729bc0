"""What a verifier is: the side of a trial that grades."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from pytest_harbor.errors import VerifierFault
from pytest_harbor.result.ctrf import CtrfReport
from pytest_harbor.result.integrity import IntegrityFinding
from pytest_harbor.result.reward import Reward

if TYPE_CHECKING:
    from pytest_harbor.environment.base import Environment
    from pytest_harbor.task.model import Step, Task


@dataclass(frozen=True, slots=True)
class VerifierContext:
    """What a verifier is told of its trial.

    Attributes:
        task: The task as read.
        step: The step that is graded; None in a single-step task.
        tests: Folders to lay over each other in ``/tests``, in order; none where the
            image brings them.
        test_script: The script on this machine; None where the image brings it.
        timeout_sec: Seconds that grading may take; None: no limit.
        user: User of the test script; None: the image's.
        env: ``[verifier.env]``, resolved; values may be secret.
        verifier_dir: Where the verifier's files go on this machine.
        homes: Name of a folder below ``/logs`` to its place on this machine.
        open_log: Opens a log on this machine, bounded and without secrets.
        filter_data: Takes secrets out of a file as it comes from the environment.
    """

    task: Task
    step: Step | None
    tests: tuple[Path, ...]
    test_script: Path | None
    timeout_sec: float | None
    user: str | int | None
    env: Mapping[str, str]
    verifier_dir: Path
    homes: Mapping[str, Path]
    open_log: Callable[[Path], BinaryIO]
    filter_data: Callable[[BinaryIO], BinaryIO]


@dataclass(slots=True)
class VerifierReport:
    """What grading came to: a reward, or the fault that kept it from one.

    Attributes:
        reward: The reward as read; None where ``fault`` says why.
        fault: Why there is no valid verdict.
        exit_code: Status of the test script; it decides nothing, but tells much.
        script_sec: Seconds that the test script took.
        ctrf: The script's own test report, where it wrote one.
        findings: Odd things, one sentence each.
        integrity: What is odd about the reward's files, with codes.
        out_of_memory: The kernel killed for memory while the script ran.
    """

    reward: Reward | None = None
    fault: VerifierFault | None = None
    exit_code: int | None = None
    script_sec: float | None = None
    ctrf: CtrfReport | None = None
    findings: list[str] = field(default_factory=list)
    integrity: list[IntegrityFinding] = field(default_factory=list)
    out_of_memory: bool = False


class Verifier(ABC):
    """Grades what an agent left in an environment."""

    @abstractmethod
    def verify(self, environment: Environment, context: VerifierContext) -> VerifierReport:
        """Grade, and bring the logs home.

        Raises:
            EnvironmentFault: The environment broke; this says nothing of the task.
        """
