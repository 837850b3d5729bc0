"""Harbor's environment interface on top of ours."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.models.task.config import EnvironmentConfig, NetworkPolicy
from harbor.models.trial.paths import TrialPaths

from pytest_harbor.agent.aio import AsyncEnvironment
from pytest_harbor.agent.base import AgentContext
from pytest_harbor.errors import UnsupportedError

MAX_OUTPUT_BYTES = 64 * 1024**2
"""How much of a command's output Harbor's agents get, from its beginning."""

_KILLED = 137

logger = logging.getLogger("harbor.environment")


class HarborEnvironment(BaseEnvironment):  # type: ignore[misc]
    """The box of a trial for one of Harbor's agents.

    It is the same object in all phases, as Harbor's agents count on; :meth:`phase` says which
    view of the box it stands for.
    """

    def __init__(self, context: AgentContext) -> None:
        self._box: AsyncEnvironment | None = None
        task, trial_dir = context.task, context.logs_dir.parent
        super().__init__(
            environment_dir=task.environment_dir,
            environment_name=task.name,
            session_id=f"{trial_dir.name}__env",
            trial_paths=TrialPaths(trial_dir=trial_dir),
            task_env_config=EnvironmentConfig(skills_dir=context.skills_dir),
            logger=logger,
        )

    @contextmanager
    def phase(
        self, box: AsyncEnvironment, context: AgentContext, env: Mapping[str, str]
    ) -> Iterator[None]:
        """Stand for ``box``, and add ``env`` to the variables of every command."""
        self._box = box
        try:
            with self.with_default_user(context.user), self.scoped_exec_env(dict(env)):
                yield
        finally:
            self._box = None

    @staticmethod
    def type() -> str:
        """Name of this kind of environment."""
        return "pytest-harbor"

    def _validate_definition(self) -> None:
        """Nothing to see: the trial has started the box."""

    def validate_network_policy_support(self, network_policy: NetworkPolicy | None = None) -> None:
        """Nothing to see: the trial holds the policy."""

    async def set_network_policy(self, network_policy: NetworkPolicy) -> None:
        """Refused: the trial holds the policy."""
        raise UnsupportedError("an agent does not change what its network lets through")

    async def start(self, force_build: bool) -> None:
        """Refused: an agent has a started environment."""
        raise UnsupportedError("the environment of an agent is started already")

    async def stop(self, delete: bool) -> None:
        """Refused: the trial stops its environment."""
        raise UnsupportedError("the trial stops the environment, not its agent")

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Run one command; both streams are in ``stdout``, as with Harbor's Docker backend."""
        output = _Output()
        result = await self._here.exec(
            command,
            cwd=cwd,
            env=self._merge_env(env),
            timeout_sec=timeout_sec or None,
            user=self._resolve_user(user),
            output=cast("BinaryIO", output),
            merge_streams=True,
        )
        if result.timed_out:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")
        code = _KILLED if result.exit_code is None else result.exit_code
        return ExecResult(stdout=output.text or None, return_code=code)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Copy a file into the box; into a folder where the target ends with a slash."""
        source, target = Path(source_path), str(target_path)
        if target.endswith("/"):
            target = posixpath.join(target, source.name)
        await self._here.upload(source, target)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Copy a folder's content into the box."""
        await self._here.upload(Path(source_dir), str(target_dir))

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Copy a file out of the box."""
        target = Path(target_path)
        if target.is_dir():
            target /= posixpath.basename(str(source_path))
        report = await self._here.download(str(source_path), target)
        if report.skipped:
            raise RuntimeError(f"{source_path}: {next(iter(report.skipped.values()))}")

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Copy a folder's content out of the box: regular files and folders."""
        target = Path(target_dir)
        target.mkdir(parents=True, exist_ok=True)
        await self._here.download(str(source_dir), target)

    @property
    def _here(self) -> AsyncEnvironment:
        if self._box is None:
            raise UnsupportedError("the phase of this environment is over")
        return self._box


class _Output:
    """Takes a command's output and keeps its beginning."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._total = 0

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._total += len(piece)
        self._kept += piece[: MAX_OUTPUT_BYTES - len(self._kept)]
        return len(piece)

    @property
    def text(self) -> str:
        dropped = self._total - len(self._kept)
        notice = f"\n[{dropped} more bytes were dropped]\n" if dropped else ""
        return self._kept.decode("utf-8", "replace") + notice
