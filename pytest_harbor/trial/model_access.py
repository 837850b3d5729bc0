"""How an agent inside the environment gets to its model: through the gateway, or directly.

The gateway runs in this process. The container sees an address, an endpoint that stays open
under every policy, and a token that is good for this trial; keys stay here. What the calls
came to is counted, and has the last word on whether the agent could work at all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_harbor.agent.base import Agent, AgentContext
from pytest_harbor.agent.faults import AgentModelLimitError, named_fault
from pytest_harbor.agent.model_route import CALLS_FILE, ModelRoute
from pytest_harbor.environment.base import Environment
from pytest_harbor.errors import HarborError, OptionError
from pytest_harbor.model_gateway import load
from pytest_harbor.model_gateway.limits import SessionLimits
from pytest_harbor.model_gateway.prices import Prices
from pytest_harbor.model_gateway.providers import KNOWN, Provider, Providers
from pytest_harbor.result.work import Work
from pytest_harbor.task.endpoint import parse_endpoint
from pytest_harbor.task.network import HOST_MACHINE, Endpoint, NetworkPolicy, network_policy
from pytest_harbor.trial.phases import Phases
from pytest_harbor.trial.record import TrialRecord
from pytest_harbor.trial.trajectory import fill_usage

if TYPE_CHECKING:
    from pytest_harbor.model_gateway.gateway import ModelGateway
    from pytest_harbor.model_gateway.session import GatewaySession
    from pytest_harbor.trial.plan import RunOptions

# Containers come from networks of the engine's, whose addresses are known only when they are
# made. Whoever else gets here is refused: a token is as long as a key.
_BIND = "0.0.0.0"
_LOOPBACK = "127.0.0.1"

# Nothing that providers run but while an agent works under a policy that lets it.
_NOTHING_HOSTED = network_policy("no-network")

_gateways: dict[tuple[frozenset[tuple[str, str]], Path | None], ModelGateway] = {}


class ModelAccess:
    """An agent's way to its model in one trial; this one is for agents that need none.

    Attributes:
        endpoints: What has to stay reachable while the agent works.
        agent_env: Variables for the agent's commands, in place of the run's.
        secrets: Values that nobody may see.
    """

    def __init__(self, agent_env: Mapping[str, str]) -> None:
        self.endpoints: tuple[Endpoint, ...] = ()
        self.agent_env: Mapping[str, str] = agent_env
        self.secrets: tuple[str, ...] = ()

    @property
    def route(self) -> ModelRoute | None:
        """The way, for the agent."""
        return None

    def open(self, record: TrialRecord) -> None:
        """The trial begins.

        Raises:
            OptionError: The model cannot be had as it was asked for.
        """

    def begin(self, environment: Environment, context: AgentContext, policy: NetworkPolicy) -> None:
        """The agent is about to work under ``policy``: tell it the way."""
        context.model, context.network_is_public = self.route, policy.is_open

    def settle(self, work: Work, phases: Phases) -> None:
        """The agent's work is over: count its calls, and keep what they tell of it."""

    def close(self) -> None:
        """The trial is over."""


class DirectAccess(ModelAccess):
    """The agent calls the provider itself; the key is in its environment."""

    def __init__(self, provider: Provider, name: str, agent: Agent, options: RunOptions) -> None:
        is_inside = agent.calls_model_from == "environment"
        super().__init__(options.agent_env if is_inside else _without_keys(options.agent_env))
        wires = [wire for wire in provider.upstreams if wire in agent.model_wires]
        used = {wire: provider.upstreams[wire] for wire in wires}
        bases = {str(wire): upstream.base_url for wire, upstream in used.items()}
        key = next(upstream.key for upstream in used.values())
        self.secrets = (*provider.secrets(), *_keys(options.agent_env))
        if is_inside:
            self.endpoints = tuple(_endpoint(base) for base in dict.fromkeys(bases.values()))
        self._route = ModelRoute(provider.name, name, bases, key)

    @property
    def route(self) -> ModelRoute | None:
        """The way, for the agent."""
        return self._route


def _endpoint(base: str) -> Endpoint:
    try:
        return parse_endpoint(base)
    except ValueError as error:
        raise OptionError(
            f"no container reaches the model's base URL: {error}. With the model gateway it is"
            " called from this machine: leave --harbor-gateway=off out"
        ) from None


class GatewayAccess(ModelAccess):
    """The agent calls the gateway; the key stays out of the environment."""

    def __init__(
        self,
        gateway: ModelGateway,
        provider: Provider,
        name: str,
        model: str,
        agent: Agent,
        options: RunOptions,
    ) -> None:
        super().__init__(_without_keys(options.agent_env))
        self.secrets = (*provider.secrets(), *_keys(options.agent_env))
        self._host = _LOOPBACK
        if agent.calls_model_from == "environment":
            self._host = HOST_MACHINE
            self.endpoints = (Endpoint(HOST_MACHINE, gateway.port),)
        self._gateway = gateway
        self._provider = provider
        self._name = name
        self._model = model
        self._limits = options.model_limits
        self._session: GatewaySession | None = None
        self._record: TrialRecord | None = None
        self._environment: Environment | None = None
        self._context: AgentContext | None = None
        self._lock = threading.Lock()
        self._counted: Mapping[str, Any] = {}

    @property
    def route(self) -> ModelRoute | None:
        """The way, for the agent."""
        session = self._session
        if session is None:
            return None
        bases = {str(kind): session.base_url(kind, self._host) for kind in session.kinds}
        return ModelRoute(self._provider.name, self._name, bases, session.token, is_gateway=True)

    def open(self, record: TrialRecord) -> None:
        """Let the trial in at the gateway."""
        self._record = record
        self._session = self._gateway.open_session(
            model=self._model,
            record=record.path / "agent" / CALLS_FILE,
            limits=self._limits,
            policy=_NOTHING_HOSTED,
            redact=record.redactor.text,
            on_limit=self._end_agent,
        )
        record.redactor.add([self._session.token])

    def begin(self, environment: Environment, context: AgentContext, policy: NetworkPolicy) -> None:
        """Take out what providers run themselves, unless the policy is public."""
        super().begin(environment, context, policy)
        assert self._session is not None
        self._session.begin_work(policy)
        with self._lock:
            self._environment, self._context = environment, context

    def _end_agent(self, limit: str) -> None:
        # Several tools take a refusal for a fault, and try again for minutes.
        with self._lock, suppress(HarborError):
            if self._context is not None:
                self._context.end()
            if self._environment is not None:
                self._environment.interrupt()

    def settle(self, work: Work, phases: Phases) -> None:
        """Count the calls; they, and not an exit status, tell whether the agent could work."""
        with self._lock:
            self._environment = self._context = None
        session = self._session
        if session is None:
            return
        session.policy = _NOTHING_HOSTED
        verdict = session.verdict()
        if session.record_fault and self._record is not None:
            self._record.note(f"{CALLS_FILE}: {session.record_fault}")
        usage = session.usage.harbor_usage()
        fill_usage(work, _known(_since(usage, self._counted)))
        self._counted = usage
        work.agent_unable = verdict.is_unable
        if verdict.is_unable:
            reason = f"the agent could not work, which is not its skill: {verdict.reason}"
            phases.add_fault(work, "agent", named_fault(verdict.fault, reason))
        elif verdict.kind == "limit":
            error = AgentModelLimitError(f"{verdict.reason}, and the agent was ended")
            phases.add_fault(work, "agent", error)
            # The reason comes first: a tool's exit status follows from it.
            work.faults.insert(0, work.faults.pop())

    def close(self) -> None:
        """End the calls that are under way; the token is worth nothing from now on."""
        session, self._session = self._session, None
        if session is not None:
            session.close()


def _without_keys(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in VARIABLES}


def _keys(env: Mapping[str, str]) -> list[str]:
    return [value for name, value in env.items() if name in VARIABLES]


def _since(after: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """What was added to counts: of a trial's steps each has its own."""
    added: dict[str, Any] = {}
    for name, value in after.items():
        earlier = before.get(name)
        if isinstance(value, Mapping):
            value = _since(value, earlier or {})
        elif value is not None and earlier is not None:
            value -= earlier
        added[name] = value
    return added


def _known(usage: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in usage.items() if value is not None}


def model_access(
    agent: Agent, model: str | None, options: RunOptions, host: Mapping[str, str]
) -> ModelAccess:
    """Settle how an agent gets to its model.

    Raises:
        OptionError: A key is missing, the provider is not known or speaks no protocol that
            the agent does, or limits are asked for that nobody would hold.
    """
    limits = options.model_limits
    if not agent.model_wires:
        _require_no_gateway(agent, model, options)
        access = ModelAccess(options.agent_env)
        # Code on this machine that finds its model by itself may write its key anywhere.
        access.secrets = () if model is None else tuple(_keys(host))
        return access
    if options.model_gateway == "off" and limits != SessionLimits():
        raise OptionError(
            "limits on model calls are held by the model gateway, and --harbor-gateway is off:"
            " leave one of the two out"
        )
    if model is None:
        raise OptionError(f"agent {agent.name} needs a model: --harbor-model=PROVIDER/NAME")
    environment = _variables(agent, model, {**host, **options.agent_env})
    provider, name = Providers(environment).for_model(model)
    _require_common_wire(agent, provider)
    if options.model_gateway == "off":
        return DirectAccess(provider, name, agent, options)
    gateway = _gateway(environment, options.model_prices)
    return GatewayAccess(gateway, provider, name, model, agent, options)


def _require_no_gateway(agent: Agent, model: str | None, options: RunOptions) -> None:
    """See that nothing is asked of the gateway for an agent that finds its model by itself."""
    is_asked = options.model_gateway == "on" or options.model_limits != SessionLimits()
    if is_asked and model is not None and agent.uses_task_tools:
        raise OptionError(
            f"agent {agent.name} does not call {model} through the model gateway, which holds"
            " limits on model calls and is asked for: leave --harbor-gateway=on and"
            " --harbor-max-… out, or choose an agent that does"
        )


def _require_common_wire(agent: Agent, provider: Provider) -> None:
    if not set(agent.model_wires) & set(provider.upstreams):
        raise OptionError(
            f"agent {agent.name} speaks the protocols of {' and '.join(agent.model_wires)}, and"
            f" the provider {provider.name} those of {' and '.join(provider.upstreams)}: choose"
            " another agent or model"
        )


def _variables(agent: Agent, model: str, every: Mapping[str, str]) -> dict[str, str]:
    """The variables that tell of providers, with the agent's own base URL."""
    found = {name: every[name] for name in sorted(VARIABLES) if name in every}
    if agent.base_url:
        prefix = model.partition("/")[0]
        known = KNOWN.get(prefix, KNOWN["openai"])
        for names in known.base_variables.values():
            found |= dict.fromkeys(names[:1], agent.base_url)
    return found


def _all_variables() -> Iterator[str]:
    for known in KNOWN.values():
        yield from known.keys
        yield from known.bearer_keys
        for names in known.base_variables.values():
            yield from names


VARIABLES = frozenset(_all_variables())
"""Variables that hold a provider's key or address: they stay on this machine."""


def _gateway(environment: Mapping[str, str], table: Path | None) -> ModelGateway:
    """This process's gateway for these keys and prices, listening."""
    identity = frozenset(environment.items()), table
    if identity not in _gateways:
        prices = Prices() if table is None else Prices.from_file(table)
        made: ModelGateway = load().ModelGateway(Providers(environment), bind=_BIND, prices=prices)
        made.start()
        _gateways[identity] = made
    return _gateways[identity]


def close_model_gateways() -> None:
    """End of the run: stop every gateway of this process."""
    while _gateways:
        _gateways.popitem()[1].close()
