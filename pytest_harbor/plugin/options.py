"""Options of the command line and their ini twins, resolved once into :class:`Settings`.

Rank: command line, then ``PYTEST_ADDOPTS`` (which pytest puts in front of it), then
the ini file, then the default; restrictions of the network add up instead. Every value
passes through one function, whichever way it came, and stays a plain value on
``config.option``: pytest-xdist ships those.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from pytest_harbor.plugin import check_options, ci_options
from pytest_harbor.plugin.benchmark_options import BenchmarkSettings, benchmark_settings
from pytest_harbor.plugin.ci_options import CiSettings, ci_settings
from pytest_harbor.plugin.dataset_options import DatasetSettings, dataset_settings
from pytest_harbor.plugin.ini import absolute_path, ini_place
from pytest_harbor.plugin.network_options import (
    NETWORK_OPTIONS,
    NetworkSettings,
    network_settings,
)
from pytest_harbor.plugin.notices import HarborWarning
from pytest_harbor.plugin.option_table import COMMAND_AGENT, OPTIONS, Option
from pytest_harbor.plugin.option_values import (
    env_table,
    keyword_arguments,
    missing_text,
    secret_keywords,
    unreadable_ini,
)
from pytest_harbor.plugin.report_options import ReportSettings, report_settings
from pytest_harbor.task.overrides import TaskOverrides
from pytest_harbor.task.template import missing_variables, resolve_env


@dataclass(frozen=True, slots=True)
class Settings:
    """What this run was asked for; every option of the group ``harbor``, resolved.

    Attributes:
        agents: Names of the agents, without repeats, in the order given.
        agent_command: Shell command of the agent ``command``; None where there is none.
        models: Names of the models, without repeats; empty: agents choose their own.
        agent_kwargs: Keyword arguments for the agents.
        agent_env: Variables for the agents' commands; values may be secret and are
            left out of ``repr()``.
        missing_env: Variables that the ini file asks for and this process does not have.
        attempts: Attempts per task, agent and model, from 1.
        threshold: Reward at which a trial passes.
        reward_key: Key of the reward that counts; None: the outcomes' rule.
        tasks: Glob patterns of the tasks to keep; empty: all.
        output: Folder in which jobs are written, absolute.
        overrides: What tasks are to be otherwise than they say.
        timeout_multiplier: Factor for time limits without a factor of their own.
        agent_timeout_multiplier: Factor for the agent phase.
        verifier_timeout_multiplier: Factor for the verifier phase.
        setup_timeout_multiplier: Factor for the agent's set-up.
        build_timeout_multiplier: Factor for the environment's build and start.
        resource_multiplier: Factor for CPU, memory and disk.
        network: What the run lets trials reach.
        uplink: The engine's network to the outside; None: the run's own.
        gateway_image: Ready image of the gateway; None: made where needed.
        runtime: The engine's runtime of containers; None: its default.
        hardened: Programs in containers may not gain rights.
        model_gateway: Whether agents call their model through the gateway on this machine.
        max_calls: Model calls of one trial; None: no limit.
        max_tokens: Its tokens.
        max_cost_usd: Its cost in US dollars.
        prices: File with the user's own prices of models.
        isolate: Shared verifiers grade in a fresh container.
        isolate_except: Glob patterns of the tasks that do not.
        on_tamper: Whether findings of tampering ``"fail"`` a trial or are for its ``"report"``.
        rebuild: Build images again.
        allow_privileged: A compose file may ask for rights over the host.
        strict_collect: A collect hook that fails is the task's fault.
        ignore_timeouts: No time limit of a task holds.
        strict: Warnings about a task's files are errors.
        keep: Environments to keep: ``"failed"``, ``"all"`` or None.
        progress: Whether a terminal shows the trials that run.
        resume: The job to go on with, as it was named; None: a new one.
        check: How tasks are proven, instead of worked on; None: they are worked on.
        benchmark: What is tried again, who grades, and what is reckoned.
        reports: Files to write of the job, and the job to compare it with.
        ci: What a run on a pull request was asked for.
        datasets: Which datasets it was asked for.
    """

    agents: tuple[str, ...]
    agent_command: str | None
    models: tuple[str, ...]
    agent_kwargs: Mapping[str, Any]
    agent_env: Mapping[str, str] = field(repr=False)
    missing_env: tuple[str, ...]
    attempts: int
    threshold: float
    reward_key: str | None
    tasks: tuple[str, ...]
    output: Path
    overrides: TaskOverrides
    timeout_multiplier: float
    agent_timeout_multiplier: float
    verifier_timeout_multiplier: float
    setup_timeout_multiplier: float
    build_timeout_multiplier: float
    resource_multiplier: float
    network: NetworkSettings
    uplink: str | None
    gateway_image: str | None
    runtime: str | None
    hardened: bool
    model_gateway: Literal["auto", "on", "off"]
    max_calls: int | None
    max_tokens: int | None
    max_cost_usd: float | None
    prices: Path | None
    isolate: bool
    isolate_except: tuple[str, ...]
    on_tamper: Literal["report", "fail"]
    rebuild: bool
    allow_privileged: bool
    strict_collect: bool
    ignore_timeouts: bool
    strict: bool
    keep: Literal["failed", "all"] | None
    progress: Literal["auto", "on", "off"] = "auto"
    resume: str | None = None
    benchmark: BenchmarkSettings = field(default_factory=BenchmarkSettings)
    reports: ReportSettings = field(default_factory=ReportSettings)
    ci: CiSettings = field(default_factory=CiSettings)
    datasets: DatasetSettings = field(default_factory=DatasetSettings)
    check: Literal["static", "on", "full"] | None = None

    @property
    def keyword_secrets(self) -> tuple[str, ...]:
        """Values of keyword arguments that nothing that is written may hold."""
        return tuple(secret_keywords([self.agent_kwargs, self.benchmark.verifier_kwargs]))


def add_options(parser: pytest.Parser) -> None:
    """Declare the group ``harbor`` and its ini twins."""
    group = parser.getgroup("harbor", "Harbor tasks")
    for option in OPTIONS:
        group.addoption(option.flag, dest=option.name, **_argument(option))
        parser.addini(option.name, option.help, type=option.ini, default=None)
    check_options.add_options(parser, group)
    ci_options.add_options(parser, group)


def _argument(option: Option) -> dict[str, Any]:
    shared = {"help": option.help, "default": None}
    if option.parse is None:
        return {**shared, "action": "store_true"}
    taking = {**shared, "type": option.parse, "metavar": option.metavar}
    if option.ini == "args":
        return {**taking, "action": "append"}
    if option.bare is not None:
        return {**taking, "nargs": "?", "const": option.bare}
    return taking


_SETTINGS = pytest.StashKey[Settings]()


def settings(config: pytest.Config) -> Settings:
    """Give the run's settings; they are resolved when first asked for.

    Raises:
        pytest.UsageError: A value is not accepted.
    """
    found = config.stash.get(_SETTINGS, None)
    if found is None:
        found = config.stash[_SETTINGS] = _of_regraded_job(_resolve(config), config)
    return found


def _of_regraded_job(found: Settings, config: pytest.Config) -> Settings:
    """A job that is graded again has its own agents, models and attempts."""
    if found.benchmark.regrade is None:
        return found
    from pytest_harbor.plugin.regrade import agents_of

    for name, given in (("check", found.check), ("resume", found.resume)):
        if given:
            raise pytest.UsageError(f"--harbor-regrade cannot be had with --harbor-{name}")
    job = agents_of(found.benchmark.regrade)
    asked = config.getoption("harbor_agent", None) or job.agents
    agents = tuple(one for one in job.agents if one in asked)
    if not agents:
        known = ", ".join(job.agents)
        raise pytest.UsageError(f"--harbor-regrade: that job's agents are {known}")
    return replace(found, agents=agents, models=job.models, attempts=job.attempts)


def _resolve(config: pytest.Config) -> Settings:
    value = {option.name.removeprefix("harbor_"): _value(config, option) for option in OPTIONS}
    command = value["agent_command"]
    check = check_options.check_mode(config)
    env, missing_env = _agent_env(value["agent_env"] or (), os.environ)
    timeouts = value["timeout_multiplier"] or 1.0
    return Settings(
        agents=("oracle", "nop") if check else _agents(value["agent"] or (), command),
        agent_command=command,
        models=tuple(dict.fromkeys(value["model"] or ())),
        agent_kwargs=keyword_arguments(value["agent_kwarg"] or ()),
        agent_env=env,
        missing_env=missing_env,
        attempts=value["attempts"] or 1,
        threshold=1.0 if value["threshold"] is None else value["threshold"],
        reward_key=value["reward_key"],
        tasks=tuple(dict.fromkeys(value["tasks"] or ())),
        output=_output(config, value["output"]),
        overrides=TaskOverrides(
            image=value["image"],
            verifier_image=value["verifier_image"],
            ignore_dockerfile=bool(value["ignore_dockerfile"]),
            ignore_separate_verifier=bool(value["ignore_separate_verifier"]),
        ),
        timeout_multiplier=timeouts,
        agent_timeout_multiplier=value["agent_timeout_multiplier"] or timeouts,
        verifier_timeout_multiplier=value["verifier_timeout_multiplier"] or timeouts,
        setup_timeout_multiplier=value["setup_timeout_multiplier"] or timeouts,
        build_timeout_multiplier=value["build_timeout_multiplier"] or timeouts,
        resource_multiplier=value["resource_multiplier"] or 1.0,
        network=_network(config),
        uplink=value["uplink"],
        gateway_image=value["gateway_image"],
        runtime=value["runtime"],
        hardened=bool(value["hardened"]),
        model_gateway=value["gateway"] or "auto",
        max_calls=value["max_calls"],
        max_tokens=value["max_tokens"],
        max_cost_usd=value["max_cost"],
        prices=_prices(config, value["prices"]),
        isolate=bool(value["isolate"]),
        isolate_except=tuple(dict.fromkeys(value["isolate_except"] or ())),
        on_tamper=value["on_tamper"] or ("fail" if value["isolate"] else "report"),
        rebuild=bool(value["rebuild"]),
        allow_privileged=bool(value["allow_privileged"]),
        strict_collect=bool(value["strict_collect"]),
        ignore_timeouts=bool(value["ignore_timeouts"]),
        strict=bool(value["strict"]),
        keep=value["keep"],
        progress=value["progress"] or "auto",
        resume=value["resume"],
        check=check,
        benchmark=benchmark_settings(config, value),
        reports=report_settings(config, value),
        ci=ci_settings(config, value),
        datasets=dataset_settings(config, value),
    )


def _value(config: pytest.Config, option: Option) -> Any:
    """The command line's value, else the ini file's, checked; None where there is neither."""
    given = config.getoption(option.name, None)
    return _ini_value(config, option) if given is None else given


def _ini_value(config: pytest.Config, option: Option) -> Any:
    """The ini file's value, checked; None where it has none."""
    try:
        found = config.getini(option.name)
    except (pytest.UsageError, TypeError, ValueError) as error:
        text = unreadable_ini(_place(config, option), option.name, option.ini, error)
        raise pytest.UsageError(text) from None
    if found is None or option.parse is None:
        return found
    parse = option.parse_ini or option.parse
    try:
        return [parse(one) for one in found] if option.ini == "args" else parse(found)
    except (argparse.ArgumentTypeError, TypeError, ValueError) as error:
        raise pytest.UsageError(f"{_place(config, option)}{option.name}: {error}") from None


def _place(config: pytest.Config, option: Option) -> str:
    """Where the ini value stands: in the file, or behind ``-o``."""
    overridden = config.getoption("override_ini", None) or ()
    if any(one.partition("=")[0].strip() == option.name for one in overridden):
        return "-o "
    return ini_place(config)


def _network(config: pytest.Config) -> NetworkSettings:
    """Of the ini file and the command line together: neither lifts what the other restricts."""
    options = [one for one in OPTIONS if one.name.removeprefix("harbor_") in NETWORK_OPTIONS]
    line = {one.name.removeprefix("harbor_"): config.getoption(one.name, None) for one in options}
    ini = {one.name.removeprefix("harbor_"): _ini_value(config, one) for one in options}
    try:
        found = network_settings(line, ini)
        if found.curtailed and not hasattr(config, "workerinput"):
            config.issue_config_time_warning(HarborWarning(found.curtailed), stacklevel=2)
    except (ValueError, HarborWarning) as error:
        raise pytest.UsageError(str(error)) from None
    return found


def _agents(names: Sequence[str], command: str | None) -> tuple[str, ...]:
    if COMMAND_AGENT in names and command is None:
        raise pytest.UsageError(
            f"the agent {COMMAND_AGENT!r} needs --harbor-agent-command (ini: harbor_agent_command)"
        )
    wanted = [*names, COMMAND_AGENT] if command is not None else [*names]
    return tuple(dict.fromkeys(wanted or ["oracle"]))


def _agent_env(
    specs: Iterable[str], environ: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Give the variables with their values, and the names that this process lacks."""
    table = env_table(specs)
    missing = missing_variables(table, environ)
    present = {k: v for k, v in table.items() if not missing_variables({k: v}, environ)}
    return resolve_env(present, environ, where="harbor_agent_env"), missing


def missing_variables_text(config: pytest.Config) -> str | None:
    """Say which variables of the ini file this process lacks; None where it has all.

    The command line is checked when it is read. An ini file counts for runs without
    trials too, which need no credentials: so this is asked by each trial.
    """
    missing = settings(config).missing_env
    if not missing:
        return None
    return f"{ini_place(config)}harbor_agent_env: {missing_text(missing)}"


def _output(config: pytest.Config, text: str | None) -> Path:
    # A default below the root folder, not the current one: jobs never land in a task.
    if text is None:
        return config.rootpath / "jobs"
    return absolute_path(config, "harbor_output", text)


def _prices(config: pytest.Config, text: str | None) -> Path | None:
    if text is None:
        return None
    # What reads prices takes more than a plain pytest run has loaded.
    from pytest_harbor.errors import OptionError
    from pytest_harbor.model_gateway.prices import Prices

    path = absolute_path(config, "harbor_prices", text)
    try:
        Prices.from_file(path)
    except OptionError as error:
        raise pytest.UsageError(f"--harbor-prices: {error}") from None
    return path
