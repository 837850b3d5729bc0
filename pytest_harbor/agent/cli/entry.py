"""What there is to know of a command line agent, as a table of plain values.

Texts for the shell find what differs from trial to trial in variables, so that nothing has
to be quoted: ``$HARBOR_INSTRUCTION_FILE``, ``$HARBOR_MODEL``, ``$HARBOR_BASE_URL``,
``$HARBOR_MODEL_KEY``, ``$HARBOR_SKILLS_DIR`` (empty without skills) and
``$HARBOR_MCP_CONFIG`` (likewise).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pytest_harbor.agent.mcp import McpServerSpec
from pytest_harbor.result.trajectory import Trajectory

Wire = Literal["anthropic", "openai", "gemini"]

ROOT = "/installed-agent"
"""Where tools lie in an image, a folder each."""


@dataclass(frozen=True, slots=True)
class NpmPackage:
    """A tool from npm; it gets a folder of its own.

    Attributes:
        name: The package; ``{cpu}`` is filled in, as Node names it: ``x64``, ``arm64``.
        node: Major version of Node that it needs while it runs; None: it runs without.
        native: Pattern of ``find -path`` for the program itself, where what npm calls by its
            name is a script that looks for it, and needs Node for that.
    """

    name: str
    node: int | None = None
    native: str = ""


@dataclass(frozen=True, slots=True)
class PipPackage:
    """A tool from PyPI; it gets a virtual environment of its own.

    Attributes:
        name: The package.
        packages: The distribution's packages that it needs beside Python, by Debian's names.
        python: The oldest Python that does, and the first that does not any more. Where the
            image has none that does, the tool brings its own.
        more: Further packages; ``{version}`` is filled in.
        repository: A git repository to install from, in place of the registry; its tags are
            the versions with a ``v`` before them.
    """

    name: str
    packages: tuple[str, ...] = ()
    python: tuple[tuple[int, int], tuple[int, int]] = ((3, 10), (4, 0))
    more: tuple[str, ...] = ()
    repository: str = ""


@dataclass(frozen=True, slots=True)
class Connection:
    """How a tool is led to a model over one protocol.

    Attributes:
        env: Variables; ``{base_url}``, ``{key}``, ``{model}`` (what ``$HARBOR_MODEL`` holds)
            and ``{short}`` (the model by the provider's name) are filled in.
        model: What ``$HARBOR_MODEL`` holds; ``{name}`` and ``{provider}`` are filled in.
        flags: Added to the command.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    model: str = "{name}"
    flags: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """One option that users give with ``--harbor-agent-kwarg``.

    Attributes:
        flag: Added to the command, ``{value}`` being the value, quoted for the shell; for a
            switch without ``{value}`` only if the value is true.
        env: The variable that takes the value.
    """

    flag: str = ""
    env: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """A file of settings, written as the agent's user before the tool starts.

    Attributes:
        path: The file; the shell fills in variables.
        text: Its content, made of the MCP servers and of whether hosted web tools are off;
            empty: no file.
    """

    path: str
    text: Callable[[Sequence[McpServerSpec], bool], str]


@dataclass(frozen=True, slots=True)
class CliEntry:
    """One tool.

    Attributes:
        name: As it is named on the command line.
        version: The version that this entry was tried with; installed unless told otherwise.
        package: Where it comes from.
        binary: The program.
        connections: Protocol to how the tool is led to a model; the first that the model's
            provider speaks, too, is used.
        command: Text for the shell; ``{flags}`` stands for the flags of options, connection
            and settings.
        env: Variables of the tool.
        options: Keyword arguments beside those that every agent has.
        settings: Files of settings.
        mcp_flags: Added to the command where the task has MCP servers.
        no_web_flags: Added where tools that the provider runs are to be off.
        before: Text for the shell, run before the command.
        after: The same after it, however it ended: brings logs to ``/logs/agent``.
        trajectory: Makes the trajectory of ``/logs/agent``, brought to this machine.
        supports_mcp: Whether the task's MCP servers reach the tool.
        supports_skills: Whether the task's skills do.
    """

    name: str
    version: str
    package: NpmPackage | PipPackage
    binary: str
    connections: Mapping[Wire, Connection]
    command: str
    env: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Option] = field(default_factory=dict)
    settings: tuple[Setting, ...] = ()
    mcp_flags: str = ""
    no_web_flags: str = ""
    before: str = ""
    after: str = ""
    trajectory: Callable[..., Trajectory | None] | None = None
    supports_mcp: bool = True
    supports_skills: bool = True

    @property
    def folder(self) -> str:
        """Where it is installed."""
        return f"{ROOT}/{self.name}"

    @property
    def takes_argument(self) -> bool:
        """Whether the instruction is an argument of the command, which Linux limits in length."""
        return '"$(cat "$HARBOR_INSTRUCTION_FILE")"' in self.command

    @property
    def log_name(self) -> str:
        """Its output, among the agent's logs."""
        return f"{self.name}.txt"
