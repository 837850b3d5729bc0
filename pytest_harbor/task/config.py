"""The whole of ``task.toml`` as models, in the current spelling.

What Harbor accepts is accepted, with the same defaults and coercions. Old spellings are
rewritten by :mod:`pytest_harbor.task.legacy` before they get here; what is accepted but
has no effect is named by :mod:`pytest_harbor.task.config_checks`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from pytest_harbor.task.artifacts import MAIN_SERVICE, Artifact
from pytest_harbor.task.fields import (
    MinReward,
    Processors,
    Seconds,
    ServiceName,
    StepName,
    Topology,
    User,
    folded_name,
)
from pytest_harbor.task.mcp import McpServer
from pytest_harbor.task.network import HostEntry, NetworkMode, NetworkPolicy, network_policy

CURRENT_SCHEMA_VERSION = "1.4"
DEFAULT_VERIFIER_TIMEOUT_SEC = 600.0
DEFAULT_BUILD_TIMEOUT_SEC = 600.0

VerifierMode = Literal["shared", "separate"]
_System = Literal["linux", "windows"]
_AnySystem = (
    _System | Annotated[str, Field(pattern="^([Ll][Ii][Nn][Uu][Xx]|[Ww][Ii][Nn][Dd][Oo][Ww][Ss])$")]
)
RewardStrategy = Literal["mean", "final"]

_PACKAGE_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*")


class _Table(BaseModel):
    # Most tables are only ever read as a part of the whole, whose validator has theirs in it.
    model_config = ConfigDict(frozen=True, defer_build=True)


class _PhaseNetwork(_Table):
    """Override of the environment's policy for one phase; both unset: no override."""

    network_mode: NetworkMode | None = None
    """What the phase may reach, in place of the environment's."""
    allowed_hosts: tuple[HostEntry, ...] | None = None
    """Hosts of an allowlist: a name, `*.suffix`, an address or a network."""

    @model_validator(mode="after")
    def _check_network(self) -> _PhaseNetwork:
        if self.allowed_hosts is not None and self.network_mode is None:
            raise _hosts_without_a_list(" beside it")
        if self.allowed_hosts and self.network_mode != "allowlist":
            raise _hosts_without_a_list(f", got {self.network_mode!r}")
        return self

    @property
    def network_policy(self) -> NetworkPolicy | None:
        """The phase's own policy; None where the table has none."""
        if self.network_mode is None:
            return None
        return network_policy(self.network_mode, self.allowed_hosts)


def _hosts_without_a_list(found: str) -> PydanticCustomError:
    message = f'allowed_hosts needs network_mode = "allowlist"{found}'
    return PydanticCustomError("expected", message, {"field": "allowed_hosts"})


class Author(_Table):
    """A person who wrote the task."""

    name: str
    """Name of the person."""
    email: str | None = None
    """Address of the person."""


def _as_author(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class PackageConfig(_Table):
    """``[task]``: the task as a package."""

    name: str
    """`org/name`."""
    version: str | None = Field(None, min_length=1)
    """The task's own version, any text."""
    description: str = ""
    """One line on the task."""
    authors: tuple[Annotated[Author, BeforeValidator(_as_author)], ...] = ()
    """Who wrote the task, as tables with name and email."""
    keywords: tuple[str, ...] = ()
    """Words to find it by."""

    @property
    def short_name(self) -> str | None:
        """The part after the slash; None for a name that is not ``org/name``."""
        return self.name.rpartition("/")[2] if is_package_name(self.name) else None


def is_package_name(name: str) -> bool:
    """Whether Harbor accepts ``name`` as a package's: ``org/name``."""
    return _PACKAGE_NAME.fullmatch(name) is not None and ".." not in name


class HealthcheckConfig(_Table):
    """``[environment.healthcheck]``, ``[steps.healthcheck]``."""

    command: str
    """Shell command that ends with 0 once the environment is ready."""
    interval_sec: Seconds = 5.0
    """Seconds between two looks."""
    timeout_sec: Seconds = 30.0
    """Limit of one look in seconds."""
    start_period_sec: Seconds = 0.0
    """Seconds in which failed looks do not count."""
    start_interval_sec: Seconds = 5.0
    """Seconds between two looks in the start period."""
    retries: int = 3
    """Failed looks after which the start has failed."""


class TpuConfig(_Table):
    """``[environment.tpu]``."""

    type: str = Field(min_length=1)
    """Kind of the chips, as `v5e`."""
    topology: Topology
    """How they are arranged, as `2x4`."""

    @property
    def chips(self) -> int:
        """Number of chips: the product of the topology's sides."""
        product = 1
        for side in self.topology.split("x"):
            product *= int(side)
        return product


class EnvironmentConfig(_Table):
    """``[environment]``, and a separate verifier's ``[verifier.environment]``."""

    build_timeout_sec: Seconds = DEFAULT_BUILD_TIMEOUT_SEC
    """Limit of the whole start in seconds: build, start and upload."""
    docker_image: str | None = None
    """Ready image, in place of `environment/Dockerfile`."""
    os: _System = "linux"
    """System of the container."""
    cpus: Processors | None = None
    """Limit of processors."""
    memory_mb: int | None = None
    """Limit of memory in MiB."""
    storage_mb: int | None = None
    """Limit of disk in MiB."""
    gpus: int | None = None
    """Number of graphics processors."""
    gpu_types: tuple[str, ...] | None = None
    """Kinds of them that will do."""
    tpu: TpuConfig | None = None
    """TPU chips that are needed."""
    mcp_servers: tuple[McpServer, ...] = ()
    """MCP servers that the agent may use."""
    env: dict[str, str] = {}
    """For every command in ``main``; values may be templates."""
    skills_dir: str | None = None
    """Folder for skills in the container."""
    healthcheck: HealthcheckConfig | None = None
    """Awaited after the start."""
    workdir: str | None = None
    """Working folder of every command in ``main``; None: the image's."""
    network_mode: NetworkMode = "public"
    """What may be reached where no phase says otherwise."""
    allowed_hosts: tuple[HostEntry, ...] | None = None
    """Hosts of an allowlist: a name, `*.suffix`, an address or a network."""

    @field_validator("os", mode="before", json_schema_input_type=_AnySystem)
    @classmethod
    def _lower_os(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_network(self) -> EnvironmentConfig:
        if self.allowed_hosts and self.network_mode != "allowlist":
            given = "network_mode" in self.model_fields_set
            default = "" if given else ", which it is where nothing is said"
            raise _hosts_without_a_list(f", got {self.network_mode!r}{default}")
        return self

    @property
    def network_policy(self) -> NetworkPolicy:
        """What the environment may reach where no phase says otherwise."""
        return network_policy(self.network_mode, self.allowed_hosts)


class AgentConfig(_PhaseNetwork):
    """``[agent]``, ``[steps.agent]``."""

    timeout_sec: Seconds | None = None
    """Limit of the agent phase in seconds; None: no limit."""
    user: User | None = None
    """None: the image's user."""


class CollectConfig(_Table):
    """``[[verifier.collect]]``: a command that makes artifacts ready after the agent."""

    command: str
    """Shell command."""
    service: ServiceName = MAIN_SERVICE
    """Compose service in which it runs."""
    timeout_sec: Seconds = 60.0
    """Limit in seconds."""
    user: User | None = None
    """None: the image's user."""


class VerifierConfig(_PhaseNetwork):
    """``[verifier]``, ``[steps.verifier]``."""

    timeout_sec: Seconds = DEFAULT_VERIFIER_TIMEOUT_SEC
    """Limit in seconds of upload of the tests, run and download of the logs."""
    env: dict[str, str] = {}
    """For the test script; values may be templates."""
    user: User | None = None
    """None: the image's user, not the agent's."""
    environment_mode: VerifierMode | None = None
    """`shared`: graded in the agent's container; `separate`: in one of its own."""
    environment: EnvironmentConfig | None = None
    """The container of a separate verifier."""
    collect: tuple[CollectConfig, ...] = ()
    """Commands that make artifacts ready after the agent."""

    @model_validator(mode="after")
    def _check_mode(self) -> VerifierConfig:
        if self.environment_mode == "shared" and self.environment is not None:
            message = (
                '"shared" contradicts the table environment; write "separate" or remove the table'
            )
            raise PydanticCustomError("expected", message, {"field": "environment_mode"})
        return self

    @property
    def own_mode(self) -> VerifierMode | None:
        """The mode that this table asks for; None where it leaves it open."""
        if self.environment_mode is None and self.environment is not None:
            return "separate"
        return self.environment_mode


class SolutionConfig(_Table):
    """``[solution]``."""

    env: dict[str, str] = {}
    """For the oracle's script; values may be templates."""


class StepConfig(_Table):
    """``[[steps]]``: one step of a multi-step task."""

    name: StepName
    """Name of its folder below `steps/`."""
    agent: AgentConfig = Field(default_factory=AgentConfig)
    """What holds for the agent in this step."""
    verifier: VerifierConfig = Field(default_factory=VerifierConfig)
    """What holds for the verifier; its limit is never that of `[verifier]`."""
    min_reward: MinReward | None = None
    """Reward that the step must earn for the next one to run."""
    healthcheck: HealthcheckConfig | None = None
    """Awaited before the step."""
    artifacts: tuple[Artifact, ...] = ()
    """What to bring home after the step, besides the task's."""


class TaskConfig(_Table):
    """A whole ``task.toml``."""

    schema_version: str = CURRENT_SCHEMA_VERSION
    """Version of this file's format."""
    task: PackageConfig | None = None
    """The task as a package."""
    metadata: dict[str, Any] = {}
    """Free: what your tools file tasks by."""
    agent: AgentConfig = Field(default_factory=AgentConfig)
    """The agent phase."""
    verifier: VerifierConfig = Field(default_factory=VerifierConfig)
    """The verifier phase."""
    environment: EnvironmentConfig = Field(default_factory=EnvironmentConfig)
    """The container in which the agent works."""
    solution: SolutionConfig = Field(default_factory=SolutionConfig)
    """The reference solution."""
    source: str | None = None
    """Where the task comes from; kept, and used for nothing."""
    multi_step_reward_strategy: RewardStrategy | None = None
    """How the rewards of steps become the trial's; None: ``mean``."""
    steps: tuple[StepConfig, ...] = ()
    """Steps of a multi-step task, in their order."""
    artifacts: tuple[Artifact, ...] = ()
    """Paths to bring home from the container after the agent."""

    @field_validator("steps")
    @classmethod
    def _check_step_names(cls, steps: tuple[StepConfig, ...]) -> tuple[StepConfig, ...]:
        seen: dict[str, str] = {}
        for step in steps:
            twin = seen.setdefault(folded_name(step.name), step.name)
            if twin is not step.name:
                raise PydanticCustomError(
                    "expected", f"the names {twin!r} and {step.name!r} are one folder's"
                )
        return steps

    @property
    def is_multi_step(self) -> bool:
        """Whether the task has steps."""
        return bool(self.steps)

    @property
    def reward_strategy(self) -> RewardStrategy:
        """How the rewards of steps become the trial's."""
        return self.multi_step_reward_strategy or "mean"

    def verifier_mode(self, step: StepConfig | None = None) -> VerifierMode:
        """Where the verifier runs: in the agent's container or in its own."""
        own = step.verifier.own_mode if step else None
        return own or self.verifier.own_mode or "shared"

    def agent_policy(self, step: StepConfig | None = None) -> NetworkPolicy:
        """What the agent phase may reach."""
        own = step.agent.network_policy if step else None
        return own or self.agent.network_policy or self.environment.network_policy

    def verifier_policy(self, step: StepConfig | None = None) -> NetworkPolicy:
        """What a shared verifier may reach."""
        own = step.verifier.network_policy if step else None
        return own or self.verifier.network_policy or self.environment.network_policy

    def agent_timeout_sec(self, step: StepConfig | None = None) -> float | None:
        """Limit of the agent phase in seconds; None: no limit."""
        own = step.agent.timeout_sec if step else None
        return self.agent.timeout_sec if own is None else own

    def agent_user(self, step: StepConfig | None = None) -> str | int | None:
        """User of the agent phase; None: the image's."""
        own = step.agent.user if step else None
        return self.agent.user if own is None else own

    def verifier_timeout_sec(self, step: StepConfig | None = None) -> float:
        """Limit of the verifier in seconds; a step's never comes from ``[verifier]``."""
        return step.verifier.timeout_sec if step else self.verifier.timeout_sec

    def verifier_user(self, step: StepConfig | None = None) -> str | int | None:
        """User of the verifier; None: the image's."""
        own = step.verifier.user if step else None
        return self.verifier.user if own is None else own

    def verifier_env(self, step: StepConfig | None = None) -> dict[str, str]:
        """Variables for the test script, templates not yet filled."""
        return {**self.verifier.env, **(step.verifier.env if step else {})}
