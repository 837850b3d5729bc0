"""Which trials are tried again, and after how long: by cause, never for a reward.

A cause is the class name of a fault, or of one of its bases; the nearest one decides. What is
not in the table is not tried again. Faults of the environment count only until the agent has
begun: it could break its box to be given another go. What only the agent's own output says of
its provider counts only where nothing came of its work: anybody can print it.
"""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_harbor import errors
from pytest_harbor.agent import faults
from pytest_harbor.result.trial import TrialResult
from pytest_harbor.result.work import Fault, Work

MAX_WAIT_SEC = 60.0
_MISSPELT = 0.88
"""How much alike two names are (0 to 1) of which one is taken for the other's misspelling."""
_SET_UP, _PROVIDER = 1.0, 5.0


class Cause(NamedTuple):
    """One row of the table.

    Attributes:
        name: Class name of a fault, or of a base of it.
        retry: Whether another try may go better.
        wait_sec: The first wait; each further one is twice as long.
        anywhere: It counts also after the agent has begun.
        why: In words, for the page that shows the table.
    """

    name: str
    retry: bool
    wait_sec: float
    anywhere: bool
    why: str


CAUSES = (
    Cause("EngineUnavailableError", True, _SET_UP, True, "the engine may be back"),
    Cause("EnvironmentStartError", True, _SET_UP, False, "a container did not start"),
    Cause("EnvironmentStartTimeoutError", True, _SET_UP, False, "the machine was busy"),
    Cause("EnvironmentLostError", True, _SET_UP, False, "the container is gone"),
    Cause("HealthcheckError", True, _SET_UP, False, "a service was not up in time"),
    Cause("ImageBuildError", True, _SET_UP, False, "a build fetches from servers of others"),
    Cause("TransferError", True, _SET_UP, False, "files could not be copied"),
    Cause("McpServerError", True, _SET_UP, False, "a server of the task was not up"),
    Cause("AgentSetupError", True, _SET_UP, True, "installing fetches from servers of others"),
    Cause("ApiRateLimitError", True, _PROVIDER, True, "the provider asks to wait"),
    Cause("ApiOverloadedError", True, _PROVIDER, True, "the provider has too much to do"),
    Cause("ApiInternalServerError", True, _PROVIDER, True, "the provider failed"),
    Cause("ApiConnectionClosedError", True, _PROVIDER, True, "the provider hung up"),
    Cause("ApiResponseStalledError", True, _PROVIDER, True, "the provider fell silent"),
    Cause("ApiUsageLimitError", True, _PROVIDER, True, "a quota may be filled again"),
    Cause("NetworkConnectionError", True, _PROVIDER, True, "the provider was not reached"),
    Cause("UnknownApiError", True, _PROVIDER, True, "the provider answered with an error"),
    Cause("AgentAuthenticationError", False, 0, True, "the key is refused each time"),
    Cause("ModelNotFoundError", False, 0, True, "the model is not there each time"),
    Cause("ImageNotFoundError", False, 0, True, "the name is wrong each time"),
    Cause("MissingVariableError", False, 0, True, "it is missing each time"),
    Cause("ComposeFileError", False, 0, True, "the file is the same each time"),
    Cause("BoxTooLargeError", False, 0, True, "it holds as much each time"),
    Cause("JudgeUnavailableError", False, 0, True, "its calls were repeated; regrade instead"),
    Cause("VerifierFault", False, 0, True, "the task's fault"),
    Cause("AgentTimeoutError", False, 0, True, "the agent's doing, and graded"),
    Cause("NonZeroAgentExitCodeError", False, 0, True, "the agent's doing, and graded"),
    Cause("AgentCrashError", False, 0, True, "the agent's doing, and graded"),
    Cause("AgentModelLimitError", False, 0, True, "the run's own limit, and graded"),
)
"""The causes that are known; others are no reason for another try."""

_TABLE = {cause.name: cause for cause in CAUSES}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and for what.

    Attributes:
        retries: Further tries of one trial.
        include: Names that alone are tried again, whatever the table says; empty: the table.
        exclude: Names that are not; they win.
        waits: First waits in place of the table's; the nearest name decides.
    """

    retries: int = 2
    include: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()
    waits: Mapping[str, float] = field(default_factory=dict)

    def wait_before(self, result: TrialResult, tries: int) -> float | None:
        """Seconds until another try of a trial that was settled; None: there is none.

        Args:
            result: Of the last try.
            tries: How many there were.
        """
        if tries > self.retries or result.category not in ("environment", "agent"):
            return None
        if any(_is_doubtful_claim(work) for work in result.works):
            return None
        waits = [self._wait(result, fault) for fault in _deciding(result)]
        known = [wait for wait in waits if wait is not None]
        if not known or len(known) < len(waits):
            return None
        longest = min(max(known) * 2.0 ** (tries - 1), max(MAX_WAIT_SEC, *known))
        return longest * random.uniform(0.5, 1.0)

    def _wait(self, result: TrialResult, fault: Fault) -> float | None:
        names = list(lineage(fault.type))
        if self.exclude.intersection(names):
            return None
        cause = next((_TABLE[name] for name in names if name in _TABLE), None)
        wait = (cause.wait_sec if cause else 0.0) or _SET_UP
        wait = next((self.waits[name] for name in names if name in self.waits), wait)
        if self.include:
            return wait if self.include.intersection(names) else None
        if cause is None or not cause.retry:
            return None
        return wait if cause.anywhere or not _has_worked(result) else None


def lineage(name: str) -> Iterator[str]:
    """A fault's class name and those of its bases, the nearest first."""
    kind = getattr(faults, name, None) or getattr(errors, name, None)
    if not isinstance(kind, type):
        yield name
        return
    for one in kind.__mro__:
        yield one.__name__
        if one is errors.TrialError:
            return


def known_names() -> set[str]:
    """Names that a fault of this package's, or a base of it, can have."""
    kinds = [*vars(errors).values(), *vars(faults).values()]
    own = (one for one in kinds if isinstance(one, type) and issubclass(one, errors.HarborError))
    return {one.__name__ for one in own}


def meant_name(name: str) -> str:
    """The known name that a misspelt one must have meant; empty of one of somebody's own.

    An agent of one's own may raise what nobody here knows, and call it by more than a known name.
    """
    known = {one.lower(): one for one in known_names()}
    word = name.lower()
    # Of two names of which one is the other's end, each may be an error of its own.
    is_end = name[:1].isupper() and any(one.endswith(name) for one in known.values())
    if is_end or (word not in known and word.endswith(tuple(known))):
        return ""
    near = difflib.get_close_matches(word, known, n=1, cutoff=_MISSPELT)
    return known[near[0]] if near else ""


def _deciding(result: TrialResult) -> list[Fault]:
    """What went wrong, but for the verdict on an agent that could not work."""
    found = [fault for work in result.works for fault in work.faults]
    if result.category == "agent":
        return [fault for fault in found if fault.phase != "verifier"]
    return found


def _is_doubtful_claim(work: Work) -> bool:
    """Whether only the agent says that its provider failed, and there is work of it."""
    unable = [fault for fault in work.faults if fault.phase == "agent"]
    if not any(fault.is_claimed for fault in unable) or _is_seen(unable):
        return False
    return work.reward is not None or bool(work.usage.get("n_steps"))


def _is_seen(found: Iterable[Fault]) -> bool:
    """Whether somebody beside the agent, such as the model gateway, saw that it could not work."""
    return any("AgentUnableError" in lineage(one.type) and not one.is_claimed for one in found)


def _has_worked(result: TrialResult) -> bool:
    return any("agent" in work.timings for work in result.works)
