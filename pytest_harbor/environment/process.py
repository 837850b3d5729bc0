"""A command that runs in an environment while it is talked to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType

CLOSE_GRACE_SEC = 2.0
"""How long a command may take to end by itself once its input has ended."""


class Process(ABC):
    """One running command, made by ``Environment.open_process``; close it in any case.

    One thread may read while another writes and a third closes.
    """

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Hand ``data`` to standard input; waits while the command does not take it.

        Raises:
            BrokenPipeError: The command has ended, or its input was ended.
        """

    @abstractmethod
    def end_input(self) -> None:
        """Standard input is at its end; does nothing when called again."""

    @abstractmethod
    def read(self, timeout_sec: float | None = None) -> bytes | None:
        """The next bytes of standard output, at least one; empty at its end.

        A command that is not read waits, as with a pipe.

        Args:
            timeout_sec: How long to wait; None: as long as it takes.

        Returns:
            None if nothing came in time.
        """

    @abstractmethod
    def wait(self, timeout_sec: float | None = None) -> bool:
        """Whether the command has ended, after waiting for it.

        A command whose output nobody reads may never end.
        """

    @property
    @abstractmethod
    def exit_code(self) -> int | None:
        """The command's status, as of ``exec``; None while it runs, or if it was killed."""

    @property
    @abstractmethod
    def stderr(self) -> str:
        """The last bytes of standard error as text, at most ``OUTPUT_TAIL_BYTES``."""

    @abstractmethod
    def close(self, grace_sec: float = CLOSE_GRACE_SEC) -> None:
        """End the input, wait, then kill the command and its descendants.

        Whoever waits in :meth:`read` gets the end. Output that was not read is lost.
        Does nothing when called again.

        Args:
            grace_sec: How long the command may take to end by itself.

        Raises:
            EnvironmentFault: It cannot be killed.
        """

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
