"""The one agent class behind every entry: installs the tool, sets it up, runs it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pytest_harbor.agent.base import Agent, AgentContext
from pytest_harbor.agent.cli.entry import CliEntry, Connection, Wire
from pytest_harbor.agent.cli.install import (
    install_here,
    install_layer,
    install_script,
    path_line,
    present_command,
)
from pytest_harbor.agent.command import (
    INSTRUCTION_FILE,
    MAX_COMMAND_BYTES,
    MCP_CONFIG_FILE,
    raise_for_status,
)
from pytest_harbor.agent.mcp import config_text, header_variables
from pytest_harbor.agent.model_route import ModelRoute
from pytest_harbor.environment.base import Environment, ImageLayer
from pytest_harbor.errors import AgentSetupError, OptionError
from pytest_harbor.result.trajectory import Trajectory
from pytest_harbor.task.model import Task

_AFTER_SEC = 60.0
_MAX_TEXT_BYTES = 2**16
"""Of what goes along with the command in variables, all of which Linux limits together."""

_FAILED_STATUS = 97
_FAILED = "pytest-harbor: cannot write"
# Links and files of others are replaced, not written to.
_WRITE = """\
file="{path}"
mkdir -p "$(dirname "$file")" && rm -f "$file" && printf %s "${variable}" > "$file" ||
  {{ echo "{failed} $file as $(id -un)"; exit {status}; }}
unset file {variable}
"""


class CliAgent(Agent):
    """A command line tool that works inside the environment; :attr:`entry` describes it.

    Keyword arguments: ``version`` (of the tool; ``latest`` for npm's and PyPI's newest),
    ``skip_install`` (the image brings the tool), ``base_url`` (of the model's provider),
    ``disable_web_search`` (tools that the provider runs; by default off unless the agent's
    network is public), and the entry's options.
    """

    entry: ClassVar[CliEntry]
    model_wires: tuple[str, ...]
    keeps_time = True
    setup_timeout_sec = 900.0

    def __init__(
        self,
        *,
        model_name: str | None = None,
        version: str | None = None,
        skip_install: bool = False,
        base_url: str | None = None,
        disable_web_search: bool | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model_name=model_name)
        entry = self.entry
        self.name = entry.name
        self.version = str(version or entry.version)
        self.base_url = base_url
        self.supports_mcp, self.supports_skills = entry.supports_mcp, entry.supports_skills
        self.model_wires = tuple(entry.connections)
        self._skip_install = skip_install
        self._disable_web_search = disable_web_search
        self._options = {key: value for key, value in options.items() if value is not None}
        self._instruction: str | None = None
        self._check_options()

    def _check_options(self) -> None:
        unknown = sorted(set(self._options) - set(self.entry.options))
        if unknown:
            known = ["version", "skip_install", "base_url", "disable_web_search"]
            raise OptionError(
                f"--harbor-agent-kwarg: agent {self.name} has no {', '.join(unknown)}; accepted"
                f" are {', '.join([*known, *self.entry.options])}"
            )

    def check(self, task: Task) -> None:
        """See that there is a model to work with, and that the tool can be told the instruction."""
        if not self.model_name:
            raise OptionError(
                f"agent {self.name} needs a model: --harbor-model=PROVIDER/NAME, as"
                f" {'/'.join(_EXAMPLES[next(iter(self.entry.connections))])}"
            )
        size = max(len(text.encode()) for text in (task.instruction, *_steps_of(task)))
        if self.entry.takes_argument and size >= MAX_COMMAND_BYTES:
            raise OptionError(
                f"the instruction has {size} bytes, and agent {self.name} takes it as an argument,"
                f" of which Linux allows less than {MAX_COMMAND_BYTES} bytes: put the long part"
                " into a file of the environment, or choose another agent, as claude-code or codex"
            )

    def layers(self, timeout_sec: float | None) -> tuple[ImageLayer, ...]:
        """The tool, as what an image is to have."""
        if self._skip_install:
            return ()
        return (install_layer(self.entry, self.version, timeout_sec),)

    def setup(self, environment: Environment, context: AgentContext) -> None:
        """Install the tool where the image lacks it."""
        if self.name in environment.installed:
            return
        if environment.exec(present_command(self.entry), user=0).exit_code == 0:
            return
        if self._skip_install:
            raise AgentSetupError(
                f"{self.entry.binary} is not in the image, and skip_install says that it is:"
                " put it on the PATH of the image, or let it be installed"
            )
        install_here(environment, context, self.name, install_script(self.entry, self.version))

    def run(self, instruction: str, environment: Environment, context: AgentContext) -> None:
        """Run the tool to its end, or to its limit."""
        self._instruction = instruction
        connection, env = self._connection(context.model or ModelRoute())
        env = {**self._variables(context), **env, **context.env}
        no_web = self._is_web_off(context)
        files = self._files(instruction, context, no_web)
        command = self.command(connection, no_web=no_web, with_mcp=bool(context.mcp_servers))
        command = _written(files, environment, env) + command
        with context.open_log(self.entry.log_name) as log:
            result = environment.exec(
                command,
                user=context.user,
                env=env,
                timeout_sec=context.timeout_sec,
                output=log,
                merge_streams=True,
            )
        context.exit_code = result.exit_code
        if self.entry.after:
            environment.exec(self.entry.after, user=context.user, env=env, timeout_sec=_AFTER_SEC)
        if result.exit_code == _FAILED_STATUS and result.output.startswith(_FAILED):
            raise AgentSetupError(f"{self.name}: {result.output.strip()[-300:]}")
        raise_for_status(result, context)

    def command(self, connection: Connection, *, no_web: bool, with_mcp: bool) -> str:
        """The text for the shell."""
        flags = [*self._option_flags(), connection.flags]
        flags.append(self.entry.no_web_flags if no_web else "")
        flags.append(self.entry.mcp_flags if with_mcp else "")
        line = self.entry.command.replace("{flags}", " ".join(filter(None, flags)))
        before = f"{self.entry.before}\n" if self.entry.before else ""
        return f"{path_line(self.entry)}{before}{line}"

    def _connection(self, route: ModelRoute) -> tuple[Connection, dict[str, str]]:
        """How the tool is led to its model, and the variables for it."""
        wire = self.wire_for(route.base_urls)
        connection = self.entry.connections[wire]
        filled = {"name": route.name or self.model_name or "", "provider": route.provider}
        model = _filled(connection.model, filled)
        values = {"base_url": route.base_urls.get(wire, ""), "key": route.key, "model": model}
        values["short"] = filled["name"]
        env = {name: _filled(text, values) for name, text in connection.env.items()}
        env["HARBOR_MODEL"], env["HARBOR_BASE_URL"] = model, values["base_url"]
        return connection, env

    def wire_for(self, spoken: Mapping[str, str]) -> Wire:
        """The protocol to use with a provider.

        Raises:
            OptionError: The tool speaks none of the provider's.
        """
        for wire in self.entry.connections:
            if wire in spoken:
                return wire
        raise OptionError(
            f"agent {self.name} speaks the protocols of {' and '.join(self.entry.connections)},"
            f" and the provider of {self.model_name} those of {' and '.join(spoken) or 'nobody'}:"
            " choose another agent or model"
        )

    def _variables(self, context: AgentContext) -> dict[str, str]:
        return {
            **self.entry.env,
            **dict(self._option_variables()),
            **header_variables(context.mcp_servers),
            "HARBOR_INSTRUCTION_FILE": INSTRUCTION_FILE,
            "HARBOR_MCP_CONFIG": MCP_CONFIG_FILE if context.mcp_servers else "",
            "HARBOR_SKILLS_DIR": context.skills_dir or "",
        }

    def _is_web_off(self, context: AgentContext) -> bool:
        if self._disable_web_search is not None:
            return self._disable_web_search
        return not context.network_is_public

    def _option_flags(self) -> Iterator[str]:
        for name, value in self._options.items():
            flag = self.entry.options[name].flag
            if "{value}" in flag:
                yield flag.replace("{value}", shlex.quote(str(value)))
            elif value is True:
                yield flag

    def _option_variables(self) -> Iterator[tuple[str, str]]:
        for name, value in self._options.items():
            if variable := self.entry.options[name].env:
                yield variable, str(value).lower() if isinstance(value, bool) else str(value)

    def _files(self, instruction: str, context: AgentContext, no_web: bool) -> dict[str, str]:
        """What the tool reads, by path; the shell fills in variables of those."""
        files = {INSTRUCTION_FILE: instruction}
        if context.mcp_servers:
            files[MCP_CONFIG_FILE] = config_text(context.mcp_servers)
        for setting in self.entry.settings:
            files[setting.path] = setting.text(context.mcp_servers, no_web)
        return {path: text for path, text in files.items() if text or path == INSTRUCTION_FILE}

    def read_trajectory(self, logs_dir: Path) -> Trajectory | None:
        """Make the trajectory of what the tool wrote down."""
        if self.entry.trajectory is None:
            return None
        return self.entry.trajectory(logs_dir, self._instruction)


_EXAMPLES: Mapping[str, tuple[str, str]] = {
    "anthropic": ("anthropic", "claude-sonnet-4-5"),
    "openai": ("openai", "gpt-5"),
    "gemini": ("gemini", "gemini-2.5-pro"),
}


def _written(files: Mapping[str, str], environment: Environment, env: dict[str, str]) -> str:
    """Text for the shell that writes files, whose contents are added to ``env``.

    They go along with the command, as every call of the engine's costs time; long ones do not.
    """
    lines = ""
    for number, (path, text) in enumerate(files.items(), 1):
        if len(text.encode()) > _MAX_TEXT_BYTES and path.startswith("/"):
            environment.write(path, text)
            continue
        variable = f"HARBOR_FILE_{number}"
        env[variable] = text
        lines += _WRITE.format(path=path, variable=variable, failed=_FAILED, status=_FAILED_STATUS)
    return lines


def _steps_of(task: Task) -> Iterator[str]:
    return (step.instruction for step in task.steps)


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Not ``str.format``: some of the texts are JSON."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text
