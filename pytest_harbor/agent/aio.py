"""Async agents: an environment whose methods are awaited, and what drives their coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeVar

from pytest_harbor.agent.base import AgentContext
from pytest_harbor.environment.base import (
    DEFAULT_LIMITS,
    DownloadLimits,
    DownloadReport,
    Environment,
    ExecResult,
)
from pytest_harbor.errors import AgentTimeoutError

T = TypeVar("T")

_KILL_AGAIN_SEC = 0.2


class AsyncEnvironment:
    """The environment of a phase, for coroutines: the same methods, awaited.

    One call is under way at a time; the others wait for their turn. A command whose caller
    is cancelled is killed.

    Attributes:
        blocking: The same environment for code that waits.
    """

    def __init__(self, blocking: Environment) -> None:
        self.blocking = blocking
        self._turn = asyncio.Lock()

    @property
    def name(self) -> str:
        """Name on the engine."""
        return self.blocking.name

    @property
    def default_user(self) -> str:
        """User of a command that names none."""
        return self.blocking.default_user

    @property
    def workdir(self) -> str:
        """Working folder of a command that names none."""
        return self.blocking.workdir

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        user: str | int | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_sec: float | None = None,
        output: BinaryIO | None = None,
        merge_streams: bool = False,
    ) -> ExecResult:
        """Run one command and wait for it; see :meth:`Environment.exec`."""
        return await self._call(
            self.blocking.exec,
            command,
            user=user,
            cwd=cwd,
            env=env,
            timeout_sec=timeout_sec,
            output=output,
            merge_streams=merge_streams,
        )

    async def upload(
        self,
        source: Path,
        target: str,
        *,
        executable: Collection[str] = (),
        include: Callable[[PurePosixPath], bool] | None = None,
        replace: bool = False,
    ) -> None:
        """Copy a file, or a folder's content, into the box; see :meth:`Environment.upload`."""
        await self._call(
            self.blocking.upload,
            source,
            target,
            executable=executable,
            include=include,
            replace=replace,
        )

    async def download(
        self, source: str, target: Path, *, limits: DownloadLimits = DEFAULT_LIMITS
    ) -> DownloadReport:
        """Copy a file, or a folder's content, out; see :meth:`Environment.download`."""
        return await self._call(self.blocking.download, source, target, limits=limits)

    async def read(self, path: str, *, max_bytes: int = 1024 * 1024) -> bytes:
        """Content of one regular file; see :meth:`Environment.read`."""
        return await self._call(self.blocking.read, path, max_bytes=max_bytes)

    async def write(self, path: str, data: bytes | str, *, mode: int = 0o644) -> None:
        """Write one file; see :meth:`Environment.write`."""
        await self._call(self.blocking.write, path, data, mode=mode)

    async def _call(self, method: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        async with self._turn:
            work = asyncio.ensure_future(asyncio.to_thread(method, *args, **kwargs))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                await self._end(work)
                raise

    async def _end(self, work: asyncio.Future[Any]) -> None:
        """Kill what runs in the box for ``work``; a command may be about to start only."""
        while not work.done():
            await asyncio.to_thread(self.blocking.interrupt)
            await asyncio.wait([work], timeout=_KILL_AGAIN_SEC)
        work.exception()  # its caller is gone


def drive(work: Coroutine[Any, Any, None], context: AgentContext) -> None:
    """Drive what an async method of an agent's gave to its end.

    Raises:
        AgentTimeoutError: It outran the phase's limit, and was cancelled.
    """
    asyncio.run(_driven(work, context))


async def _driven(work: Coroutine[Any, Any, None], context: AgentContext) -> None:
    watch = asyncio.timeout(context.timeout_sec)
    try:
        with context.ended_by(_canceller()):
            async with watch:
                await work
    except asyncio.CancelledError:
        if not context.is_ended:
            raise
    except Exception as error:
        if not watch.expired():
            raise
        raise _out_of_time(context) from error
    if watch.expired():
        raise _out_of_time(context)


def _canceller() -> Callable[[], object]:
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    return lambda: loop.call_soon_threadsafe(task.cancel)


def _out_of_time(context: AgentContext) -> AgentTimeoutError:
    return AgentTimeoutError(f"agent timed out after {context.timeout_sec:g} s")
