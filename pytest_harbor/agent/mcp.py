"""The task's MCP servers as agents get them: resolved, and as a ``mcpServers`` file.

Servers of kind ``stdio`` are programs of the image. Those with a URL are reached from
inside the environment. Nothing here starts one (``format/agents.md``, section 8).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_harbor.errors import MissingVariableError, OptionError
from pytest_harbor.task.mcp import McpServer
from pytest_harbor.task.template import is_sensitive_name

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_CLAUDE_TYPES = {"stdio": "stdio", "sse": "sse", "streamable-http": "http"}
_LIKELY_SECRET_CHARS = 8
_REMEDY = "hand it over with --harbor-agent-env"


@dataclass(frozen=True, slots=True)
class McpServerSpec:
    """One server, ready to be used.

    Attributes:
        name: Unique among the task's.
        transport: How it is spoken to.
        url: Address as seen from inside the environment; None for ``stdio``.
        command: Program in the environment, for ``stdio``.
        args: Its arguments.
        headers: Sent with each request; values are filled, and may be secret.
        secrets: Values in ``headers`` that nobody may see.
    """

    name: str
    transport: Literal["stdio", "sse", "streamable-http"]
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def resolve_servers(
    servers: Iterable[McpServer], agent_env: Mapping[str, str], host: Mapping[str, str]
) -> tuple[McpServerSpec, ...]:
    """Fill the headers' templates; of two servers of one name, the later counts.

    Args:
        servers: As the task has them.
        agent_env: Variables that the run hands to its agents; these come first.
        host: Variables of this machine.

    Raises:
        MissingVariableError: A header needs a variable that neither has.
        OptionError: A variable's value cannot stand in a header.
    """
    variables = {**host, **agent_env}
    named = {server.name: server for server in servers}
    return tuple(_resolved(server, variables) for server in named.values())


def _resolved(server: McpServer, variables: Mapping[str, str]) -> McpServerSpec:
    # Headers of a stdio server mean nothing, which the reader of tasks has said already.
    templates = {} if server.transport == "stdio" else server.headers
    headers: dict[str, str] = {}
    secrets: list[str] = []
    for header, template in templates.items():
        where = f"header {header!r} of MCP server {server.name!r}"
        headers[header] = _filled(template, variables, where)
        secrets += _secrets_of(header, template, headers[header], variables)
    return McpServerSpec(
        name=server.name,
        transport=server.transport,
        url=server.url,
        command=server.command,
        args=server.args,
        headers=headers,
        secrets=tuple(secrets),
    )


def _filled(template: str, variables: Mapping[str, str], where: str) -> str:
    used = list(_REFERENCE.finditer(template))
    missing = [m[1] for m in used if m[1] not in variables and m[2] is None]
    if missing:
        raise MissingVariableError(list(dict.fromkeys(missing)), where, _REMEDY)
    for match in used:
        if set(variables.get(match[1], "")) & set("\r\n\0"):
            raise OptionError(
                f"{where}: the value of {match[1]} holds a line end or NUL, which no header may;"
                " set it without"
            )
    return _REFERENCE.sub(lambda m: variables.get(m[1], m[2] or ""), template)


def _secrets_of(
    header: str, template: str, value: str, variables: Mapping[str, str]
) -> Iterable[str]:
    """What of a header nobody may see: what came from variables, unless short and harmless."""
    names = [m[1] for m in _REFERENCE.finditer(template) if m[1] in variables]
    for name in names:
        told = variables[name]
        if (
            is_sensitive_name(name)
            or is_sensitive_name(header)
            or len(told) >= _LIKELY_SECRET_CHARS
        ):
            yield told
            yield value


def header_variables(servers: Sequence[McpServerSpec]) -> dict[str, str]:
    """Variables that :func:`config_text` refers to, with the headers' values."""
    return {
        _variable(server, i, j): value
        for i, server in enumerate(servers)
        for j, value in enumerate(server.headers.values())
    }


def config_text(servers: Sequence[McpServerSpec]) -> str:
    """The servers as JSON with a ``mcpServers`` table, which most clients read.

    Headers are references, ``${MCP_AUTH_…}``, to :func:`header_variables`: no secret
    reaches a file of the environment.
    """
    table = config_table(servers)
    return json.dumps({"mcpServers": table}, indent=2, ensure_ascii=False) + "\n"


def config_table(servers: Sequence[McpServerSpec]) -> dict[str, dict[str, Any]]:
    """Name to entry of the ``mcpServers`` table of :func:`config_text`."""
    return {server.name: _entry(server, number) for number, server in enumerate(servers)}


def _entry(server: McpServerSpec, number: int) -> dict[str, Any]:
    kind = {"type": _CLAUDE_TYPES[server.transport]}
    if server.transport == "stdio":
        return {**kind, "command": server.command, "args": list(server.args)}
    headers = {
        name: f"${{{_variable(server, number, place)}}}"
        for place, name in enumerate(server.headers)
    }
    return {**kind, "url": server.url, **({"headers": headers} if headers else {})}


def _variable(server: McpServerSpec, number: int, place: int) -> str:
    """Name of a header's variable; the middle part keeps it apart from a variable of others."""
    digest = hashlib.sha256(server.name.encode()).hexdigest()[:8]
    return f"MCP_AUTH_{digest}_{number}_{place}"
