"""What an error means by its class name, as Harbor has it (``format/trial-lifecycle.md``, 10).

The table is data: retries by cause and Harbor's own figures are read from it. Harbor looks a
name up as it is, without its base classes; one that it does not know is tried again, graded
and counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import NamedTuple


class ErrorPolicy(NamedTuple):
    """What Harbor does with an error.

    Attributes:
        retry: Another try may go better.
        grade: The verifier runs all the same.
        counts: A reward beside it counts.
    """

    retry: bool
    grade: bool
    counts: bool


UNKNOWN = ErrorPolicy(retry=True, grade=True, counts=True)

_GROUPS: tuple[tuple[ErrorPolicy, str], ...] = (
    (
        ErrorPolicy(retry=True, grade=False, counts=False),
        "EnvironmentStartTimeoutError SandboxBuildFailedError AgentSetupTimeoutError"
        " HealthcheckError SandboxLikelyOutOfMemoryError MemoryLimitExceededError SSHAccessError"
        " GKEExecStreamClosedError GKEPodNotFoundError RuntimeRequestError AddTestsDirError"
        " DownloadVerifierDirError",
    ),
    (
        ErrorPolicy(retry=True, grade=True, counts=False),
        "ApiError ApiRateLimitError ApiInternalServerError ApiOverloadedError"
        " ApiConnectionClosedError ApiResponseStalledError UnknownApiError NetworkConnectionError"
        " ApiConnectionError ApiUsageLimitError RateLimitError InternalServerError"
        " ServiceUnavailableError APIConnectionError APIError Timeout",
    ),
    (
        ErrorPolicy(retry=False, grade=True, counts=False),
        "UnsupportedModelParametersError BadRequestError UnprocessableEntityError"
        " UnsupportedParamsError APIResponseValidationError BudgetExceededError"
        " VerifierTimeoutError RewardFileNotFoundError RewardFileEmptyError"
        " VerifierOutputParseError",
    ),
    (
        ErrorPolicy(retry=False, grade=False, counts=False),
        "AgentAuthenticationError ModelNotFoundError ApiProviderResourceNotFoundError"
        " AuthenticationError PermissionDeniedError NotFoundError"
        " ServiceOperationsUnsupportedError VercelScopeError DspyImportError MissingExtraError"
        " RegradeError CancelledError",
    ),
    (
        ErrorPolicy(retry=False, grade=True, counts=True),
        "NonZeroAgentExitCodeError AgentTimeoutError ContextWindowExceededError"
        " OutputTokenExceededError ContextLengthExceededError OutputLengthExceededError"
        " AgentSafetyRefusalError ContentPolicyViolationError",
    ),
)

POLICIES = MappingProxyType({name: policy for policy, names in _GROUPS for name in names.split()})
"""Every name that Harbor 0.26 knows."""


def policy_of(name: str) -> ErrorPolicy:
    """What Harbor does with an error of that class name."""
    return POLICIES.get(name, UNKNOWN)


def harbor_counts(names: Iterable[str]) -> bool:
    """Whether Harbor counts a reward beside errors of these names."""
    return all(policy_of(name).counts for name in names)
