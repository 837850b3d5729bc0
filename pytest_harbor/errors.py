"""Everything that this package raises on purpose.

::

    HarborError
    ├── TaskFormatError            the task's files are wrong: category "task"
    ├── OptionError                an option, marker or ini value is wrong
    ├── TrajectoryFormatError      what should be an agent's trajectory is none
    ├── DatasetError               a dataset cannot be had as it was named
    │   └── DatasetUnreachableError
    ├── UnsupportedError           this machine or version cannot do it: skipped
    └── TrialError                 something broke while a trial ran
        ├── EnvironmentFault       not the agent's, not the task's: category "environment"
        │   ├── MissingVariableError
        │   ├── ComposeFileError
        │   ├── EngineUnavailableError
        │   ├── ImageError
        │   │   ├── ImageBuildError
        │   │   └── ImageNotFoundError
        │   ├── EnvironmentStartError
        │   │   └── EnvironmentStartTimeoutError
        │   ├── HealthcheckError
        │   ├── EnvironmentLostError
        │   ├── McpServerError
        │   ├── JudgeUnavailableError
        │   └── TransferError
        ├── AgentFault             the agent's doing; the verifier grades all the same
        │   ├── AgentSetupError
        │   │   └── AgentSetupTimeoutError
        │   ├── AgentTimeoutError
        │   ├── NonZeroAgentExitCodeError
        │   ├── AgentCrashError
        │   └── AgentUnableError       credentials, quota, outage: category "agent"
        └── VerifierFault          no valid verdict: category "task"
            ├── CollectHookError       under --harbor-strict-collect alone
            ├── VerifierCrashError
            ├── VerifierTimeoutError
            ├── RewardFileNotFoundError
            ├── RewardFileEmptyError
            └── VerifierOutputParseError

Names that Harbor has too are spelt as Harbor spells them: they land in
``result.json`` and people's scripts look for them. A message says which file or
option, what was found, what is accepted and what to do; it is shown as it is,
without a traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class HarborError(Exception):
    """Base of all errors of this package; ``str()`` is meant for the user's eyes."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a task's files.

    Attributes:
        path: The file.
        message: What was found, what is accepted, what to do.
        field: Dotted path in ``task.toml``, as ``steps[0].agent.timeout_sec``; empty if none.
        line: Line from 1; None where it is not known.
        column: Column from 1; None where it is not known.
        severity: ``"error"`` keeps the task from running, ``"warning"`` only under strict.
        code: Stable name of its kind, by which ``--harbor-check`` lists it and switches it
            off; empty for a kind without one.
    """

    path: Path
    message: str
    field: str = ""
    line: int | None = None
    column: int | None = None
    severity: str = "error"
    code: str = ""

    def __str__(self) -> str:
        place = str(self.path)
        if self.line is not None:
            place += f":{self.line}"
            if self.column is not None:
                place += f":{self.column}"
        return ": ".join(part for part in (place, self.field, self.message) if part)


class TaskFormatError(HarborError):
    """A task's files cannot be used; ``problems`` holds every one that was found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class OptionError(HarborError):
    """A command line option, ini value or marker has a value that is not accepted."""


class TrajectoryFormatError(HarborError):
    """A trajectory breaks the format's rules; ``problems`` has a line for each that was found."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))

    def __reduce__(self) -> tuple[type[TrajectoryFormatError], tuple[tuple[str, ...]]]:
        return type(self), (self.problems,)


class DatasetError(HarborError):
    """A dataset or its tasks cannot be had as they were named."""


class DatasetUnreachableError(DatasetError):
    """Whoever has it does not answer; a pinned dataset may be in the cache."""


class UnsupportedError(HarborError):
    """This machine, engine or version cannot do what the task asks: the trial is skipped."""


class TrialError(HarborError):
    """Something broke while a trial ran."""


class EnvironmentFault(TrialError):
    """The environment's fault: says nothing of the agent or the task's verifier."""


class MissingVariableError(EnvironmentFault):
    """An ``env`` table of the task reads variables that this machine has not set.

    Attributes:
        names: Every missing variable.
        where: The table, as ``[verifier.env]``.
        remedy: What else would do than to export it.
    """

    def __init__(
        self,
        names: Sequence[str],
        where: str,
        remedy: str = "give the template a default: ${NAME:-default}",
    ) -> None:
        self.names = tuple(names)
        self.where = where
        self.remedy = remedy
        several = "variables are" if len(self.names) > 1 else "variable is"
        super().__init__(
            f"{where} needs {', '.join(self.names)}, and the {several} not set on this machine. "
            f"Export it before the run, or {remedy}"
        )

    def __reduce__(self) -> tuple[type[MissingVariableError], tuple[tuple[str, ...], str, str]]:
        return type(self), (self.names, self.where, self.remedy)


class ComposeFileError(EnvironmentFault):
    """The compose file cannot be used, or asks for rights over the host that it does not get."""


class EngineUnavailableError(EnvironmentFault):
    """No container engine answers."""


class ImageError(EnvironmentFault):
    """The image is not to be had."""


class ImageBuildError(ImageError):
    """The image's build failed or outran its limit; the message ends with the log's tail."""


class ImageNotFoundError(ImageError):
    """The image is not on the engine and cannot be pulled."""


class EnvironmentStartError(EnvironmentFault):
    """The container did not start."""


class EnvironmentStartTimeoutError(EnvironmentStartError, TimeoutError):
    """Build and start together outran ``[environment].build_timeout_sec``."""


class HealthcheckError(EnvironmentFault):
    """The task's health check did not succeed within its retries."""


class EnvironmentLostError(EnvironmentFault):
    """The container or the engine is gone while it is needed."""


class BoxTooLargeError(EnvironmentFault):
    """A box holds more than is copied."""


class McpServerError(EnvironmentFault):
    """An MCP server of the task does not answer, or not as one."""


class JudgeUnavailableError(EnvironmentFault):
    """The model that was to grade did not answer; this says nothing of the agent.

    Attributes:
        is_refused: What was asked was refused, as for its length; it may answer something else.
    """

    is_refused = False


class TransferError(EnvironmentFault):
    """Files could not be copied into or out of the environment."""


class AgentFault(TrialError):
    """The agent's doing; recorded, and the verifier grades all the same."""


class AgentSetupError(AgentFault):
    """The agent's tool could not be set up; it never worked on the task."""


class AgentSetupTimeoutError(AgentSetupError, TimeoutError):
    """Set-up of the agent outran its limit."""


class AgentTimeoutError(AgentFault, TimeoutError):
    """The agent phase outran its limit; its processes are dead, the environment is up."""


class NonZeroAgentExitCodeError(AgentFault):
    """The agent's command ended with a status other than 0."""


class AgentCrashError(AgentFault):
    """The agent's own code raised something that it should not have."""


class AgentUnableError(AgentFault):
    """The agent could not work, for a reason that is not its skill; graded for information.

    Attributes:
        is_claimed: It is read from what the agent printed, and nobody else saw it.
    """

    is_claimed = False


class VerifierFault(TrialError):
    """The task's verifier gave no valid verdict."""


class CollectHookError(VerifierFault):
    """A collect hook of the task failed, and the run asked for that to count."""


class VerifierCrashError(VerifierFault):
    """The verifier's own code raised something that it should not have."""


class VerifierTimeoutError(VerifierFault, TimeoutError):
    """The verifier outran its limit."""


class RewardFileNotFoundError(VerifierFault, FileNotFoundError):
    """The verifier ended without a reward file."""


class RewardFileEmptyError(VerifierFault):
    """The reward file has no bytes."""


class VerifierOutputParseError(VerifierFault):
    """The reward file cannot be read as a reward."""
