"""MCP servers that a task brings: ``[[environment.mcp_servers]]``."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from pytest_harbor.task.template import is_sensitive_name

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CREDENTIAL = re.compile(r"(?:[A-Za-z][A-Za-z0-9_-]* +)?(?:\$\{[A-Za-z_][A-Za-z0-9_]*\})+")
_COOKIES = ("cookie", "set-cookie")


class McpServer(BaseModel):
    """One server; a later one of the same name wins."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    """Name by which the agent knows it."""
    transport: Literal["stdio", "sse", "streamable-http"] = "sse"
    """How it is talked to."""
    url: str | None = None
    """Address, for all transports but stdio."""
    command: str | None = None
    """Program, for stdio."""
    args: tuple[str, ...] = ()
    """Arguments of the program."""
    headers: dict[str, str] = {}
    """Sent with each request, for all transports but stdio; values may be templates."""

    @field_validator(
        "transport",
        mode="before",
        json_schema_input_type=Literal["stdio", "sse", "streamable-http", "http"],
    )
    @classmethod
    def _accept_http(cls, transport: Any) -> Any:
        return "streamable-http" if transport == "http" else transport

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            fault = _header_fault(name, value)
            if fault:
                raise ValueError(f"header {name[:80]!r} {fault}")
        return headers

    @model_validator(mode="after")
    def _check_transport(self) -> McpServer:
        needed = "command" if self.transport == "stdio" else "url"
        if not getattr(self, needed):
            raise ValueError(f"transport {self.transport!r} needs {needed}")
        return self


def _header_fault(name: str, value: str) -> str | None:
    """Why a header is refused; never quotes the value, which may be a secret."""
    if not _HEADER_NAME.fullmatch(name):
        return "has a name that HTTP does not allow"
    if "\r" in value or "\n" in value:
        return "has a line end in its value"
    is_credential = is_sensitive_name(name) or name.lower() in _COOKIES
    if is_credential and not _CREDENTIAL.fullmatch(value):
        return "holds a credential; write it as ${NAME} or 'Bearer ${NAME}', without a default"
    return None
