"""A client for agents that work from this machine, of servers inside the environment.

Needs the ``mcp`` package: ``pip install 'pytest-harbor[mcp]'``. Works with its first and
second major version, between which names of types have moved.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from pytest_harbor.agent.mcp import McpServerSpec
from pytest_harbor.environment.base import Environment
from pytest_harbor.environment.process import Process
from pytest_harbor.errors import HarborError, McpServerError, UnsupportedError

if TYPE_CHECKING:
    from mcp import ClientSession

CONNECT_TIMEOUT_SEC = 60.0
"""How long a server may take to answer for the first time."""

MAX_MESSAGE_BYTES = 64 * 1024**2
"""Longest message of a server; it comes from inside the environment."""

_T = TypeVar("_T")


@asynccontextmanager
async def open_session(
    environment: Environment,
    server: McpServerSpec,
    open_stderr: Callable[[], BinaryIO] | None = None,
) -> AsyncIterator[ClientSession]:
    """Start a server and shake hands with it; ends it afterwards.

    Args:
        environment: Where it runs, as the environment's default user.
        server: What to start.
        open_stderr: Makes what takes its standard error; closed with the session.

    Raises:
        UnsupportedError: It is no ``stdio`` server.
        McpServerError: It does not answer as a server would.
    """
    if server.transport != "stdio":
        raise UnsupportedError(
            f"MCP server {server.name!r} is at {server.url} inside the environment, which an "
            "agent on this machine cannot reach: use an agent that runs in the environment, "
            "or give the task a stdio server"
        )
    _require_sdk()
    try:
        async with (
            _started(environment, server, open_stderr) as process,
            _session(server, process) as session,
        ):
            yield session
    except BaseExceptionGroup as group:
        # Task groups wrap whatever passes through them.
        raise _innermost(group) from None


def _innermost(error: BaseException) -> BaseException:
    """The one error in groups of one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


@asynccontextmanager
async def _started(
    environment: Environment, server: McpServerSpec, open_stderr: Callable[[], BinaryIO] | None
) -> AsyncIterator[Process]:
    import anyio.to_thread

    argv = [server.command or "", *server.args]
    with open_stderr() if open_stderr else nullcontext() as stderr:
        process = await anyio.to_thread.run_sync(
            partial(environment.open_process, argv, stderr=stderr)
        )
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(process.close)


@asynccontextmanager
async def _session(server: McpServerSpec, process: Process) -> AsyncIterator[ClientSession]:
    import anyio
    from mcp import ClientSession

    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(_streams(process))
        session = await stack.enter_async_context(ClientSession(*streams))
        try:
            with anyio.fail_after(CONNECT_TIMEOUT_SEC):
                await session.initialize()
        except Exception as error:
            raise McpServerError(_no_answer(server, process, error)) from error
        yield session


@asynccontextmanager
async def _streams(process: Process) -> AsyncIterator[tuple[Any, Any]]:
    """The process's pipes as the SDK's streams of messages, one per line."""
    import anyio

    to_session, from_server = anyio.create_memory_object_stream[Any](0)
    to_server, from_session = anyio.create_memory_object_stream[Any](0)

    async def read() -> None:
        async with to_session:
            async for line in _lines(process):
                await to_session.send(_message(line))

    async def write() -> None:
        try:
            async for message in from_session:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await _in_thread(process.write, text.encode() + b"\n")
        except BrokenPipeError:
            await to_session.aclose()  # the session sees the connection end

    async with from_server, to_server, from_session, anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        try:
            yield from_server, to_server
        finally:
            tasks.cancel_scope.cancel()


async def _lines(process: Process) -> AsyncIterator[bytes]:
    pending = bytearray()
    while piece := await _in_thread(process.read):
        begin = len(pending)
        pending += piece
        while (end := pending.find(b"\n", begin)) >= 0:
            yield bytes(pending[:end])
            del pending[: end + 1]
            begin = 0
        if len(pending) > MAX_MESSAGE_BYTES:
            return


def _message(line: bytes) -> Any:
    """A message for the session; what is none goes to it as an error."""
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCMessage
    from pydantic import TypeAdapter

    try:
        return SessionMessage(TypeAdapter(JSONRPCMessage).validate_json(line))
    except ValueError as error:
        return error


async def _in_thread(function: Callable[..., _T], *args: Any) -> _T:
    import anyio.to_thread

    # Left behind when cancelled: closing the process ends what it waits for.
    return await anyio.to_thread.run_sync(function, *args, abandon_on_cancel=True)


def _no_answer(server: McpServerSpec, process: Process, error: Exception) -> str:
    command = " ".join([server.command or "", *server.args])
    if process.wait(0.2):
        reason = f"it ended with exit status {process.exit_code}"
    else:
        reason = str(error) or f"nothing came within {CONNECT_TIMEOUT_SEC:g} s"
    words = "".join(f"\n  | {line}" for line in process.stderr.splitlines()[-15:])
    return f"MCP server {server.name!r} ({command}) does not answer: {reason}{words}"


def _require_sdk() -> None:
    try:
        import mcp  # noqa: F401 - asked for only
    except ImportError as error:
        raise HarborError(
            "an agent on this machine needs the mcp package to talk to the task's MCP servers: "
            "pip install 'pytest-harbor[mcp]'"
        ) from error


class McpConnection:
    """A session with one server, for code that is not async; close it in any case.

    The session lives on a thread of its own. Errors that the server answers with are
    raised as the SDK raises them; one that a tool reports is in its result (``isError``).

    Attributes:
        session: The SDK's own session; :meth:`call` runs its methods.
    """

    session: ClientSession

    def __init__(
        self,
        environment: Environment,
        server: McpServerSpec,
        open_stderr: Callable[[], BinaryIO] | None = None,
    ) -> None:
        """Connect; see :func:`open_session`."""
        _require_sdk()
        from anyio.from_thread import start_blocking_portal

        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            opened = open_session(environment, server, open_stderr)
            self.session = stack.enter_context(self._portal.wrap_async_context_manager(opened))
            self._stack = stack.pop_all()

    def list_tools(self) -> list[Any]:
        """The server's tools, as the SDK's objects: ``name``, ``description`` and more."""
        from mcp.types import PaginatedRequestParams

        tools: list[Any] = []
        cursor: str | None = None
        while True:
            params = PaginatedRequestParams(cursor=cursor) if cursor else None
            page = self.call(partial(self.session.list_tools, params=params))
            tools += page.tools
            cursor = getattr(page, "next_cursor", None) or getattr(page, "nextCursor", None)
            if not cursor:
                return tools

    def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Call a tool and wait for its result, the SDK's ``CallToolResult``."""
        return self.call(lambda: self.session.call_tool(name, dict(arguments or {})))

    def call(self, function: Callable[[], Awaitable[_T]]) -> _T:
        """Run an async function where the session lives, and wait for its result."""
        return self._portal.call(function)

    def close(self) -> None:
        """End the session and the server."""
        self._stack.close()

    def __enter__(self) -> McpConnection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
