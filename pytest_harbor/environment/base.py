"""What a trial asks of an environment; every backend keeps this contract.

A new backend subclasses :class:`Environment`, is named by an entry point in the
group ``pytest_harbor.environments`` and passes ``tests/contract``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Literal

from pytest_harbor.environment.kept import KeptBox
from pytest_harbor.environment.request import EnvironmentRequest, ImageLayer
from pytest_harbor.environment.values import (
    DEFAULT_LIMITS,
    Change,
    DownloadLimits,
    DownloadReport,
    ExecResult,
    RunningProcess,
)
from pytest_harbor.errors import EnvironmentFault, UnsupportedError
from pytest_harbor.result.network import RefusedConnection
from pytest_harbor.task.network import NetworkPolicy

if TYPE_CHECKING:
    from pytest_harbor.environment.process import Process

__all__ = ["DEFAULT_LIMITS", "Change", "DownloadLimits", "DownloadReport", "Environment"]
__all__ += ["EnvironmentRequest", "ExecResult", "ImageLayer", "RunningProcess"]


class Environment(ABC):
    """One box in which an agent works and a verifier grades.

    Not thread-safe: one trial owns it. Every method but :meth:`start`, :meth:`stop`
    and the properties needs a started environment.
    """

    network_control: Literal["none", "fixed", "changing"] = "none"
    """What becomes of :attr:`EnvironmentRequest.network`: ``none``, the box's network is open
    whatever is asked; ``fixed``, its first policy holds from start to end; ``changing``, the
    others can be set, too. A trial that asks for more is skipped before anything is built;
    of what it says it can, a backend refuses in :meth:`check` what it cannot for this box."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name on the engine, for people: the container's name."""

    @property
    def notes(self) -> Sequence[str]:
        """What the backend did otherwise than asked, one sentence each."""
        return ()

    def check(self, request: EnvironmentRequest) -> None:
        """See whether this backend can give a box like ``request``; builds nothing.

        A trial asks for each of its boxes before the first is started, so that no agent
        works for a verifier that cannot be had.

        Raises:
            UnsupportedError: It cannot; says what is missing and what would help.
        """

    def keep(self) -> KeptBox:
        """Leave everything in place at :meth:`stop`, for a person."""
        raise UnsupportedError(f"{type(self).__name__} cannot keep its environments")

    @property
    def services(self) -> Sequence[str]:
        """Names of the further boxes that live beside this one, ``main`` not among them."""
        return ()

    def service(self, name: str) -> Environment:
        """One of :attr:`services`, to run commands in and copy files from.

        Its defaults are its own image's: no working folder, user or variables of the
        task's. It starts and stops with this environment.

        Raises:
            EnvironmentFault: No such service.
        """
        raise EnvironmentFault(
            f"no service {name!r} beside main; known: {', '.join(self.services) or 'none'}"
        )

    def stop_main(self) -> None:
        """Stop every process of this box and leave :attr:`services` and all files in place."""
        raise UnsupportedError(f"{type(self).__name__} has no services that could go on")

    @property
    @abstractmethod
    def default_user(self) -> str:
        """User of a command that names none: the image's, ``"root"`` where it says nothing."""

    @property
    @abstractmethod
    def workdir(self) -> str:
        """Working folder of a command that names none, absolute."""

    @property
    def installed(self) -> Sequence[str]:
        """Names of those layers of the request's that the box was made with."""
        return ()

    @property
    def path_folders(self) -> Sequence[str]:
        """Folders of the image's ``PATH``; none where the backend cannot tell."""
        return ()

    @abstractmethod
    def start(self, *, timeout_sec: float | None = None) -> None:
        """Build or find the image, create the box and start it.

        The log folders (``/logs/agent``, ``/logs/verifier``, ``/logs/artifacts``) exist
        and are writable by everybody before the first command runs.

        Args:
            timeout_sec: Limit for build and start together; None: no limit.

        Raises:
            UnsupportedError: The engine cannot do what the task asks; nothing was built.
            ImageError: The image cannot be built or found.
            EnvironmentStartError: The box did not start, or not in time.
            EngineUnavailableError: No engine answers.
        """

    @abstractmethod
    def stop(self) -> None:
        """Remove everything that :meth:`start` made; does nothing when called again.

        Raises:
            EnvironmentFault: Something may be left behind.
        """

    def set_network_policy(self, policy: NetworkPolicy) -> None:
        """From now on, let through what ``policy`` says and nothing else.

        Connections that it does not allow end. Beside the policy that the box has now, only
        those of :attr:`EnvironmentRequest.network` can be set.

        Raises:
            UnsupportedError: This backend, or this box, cannot do that; nothing has changed.
            EnvironmentFault: It could not be done; nothing more is let through than before.
        """
        raise UnsupportedError(f"{type(self).__name__} cannot change what its network lets through")

    def expect_network_policy(self, policy: NetworkPolicy) -> None:
        """``policy`` will be set soon: whatever takes time may be begun in the background."""

    def refused_connections(self) -> Sequence[RefusedConnection]:
        """What was refused since the last call, or since the policy was set, if that is later.

        Empty for a box that has no network at all: there nobody is to be asked.
        """
        return ()

    def begin_watch(self) -> None:
        """Note which processes live now, for :meth:`left_running`."""

    def left_running(self) -> Sequence[RunningProcess] | None:
        """Processes started since :meth:`begin_watch`; None where the backend cannot tell."""
        return None

    def changes(self) -> Sequence[Change] | None:
        """Files that differ from the image's, by path; None where the backend cannot tell."""
        return None

    def original(self, path: str, *, max_bytes: int = 64 * 1024**2) -> bytes:
        """A file as the box's image has it; links are not followed.

        Raises:
            FileNotFoundError: The image has no such file.
            TransferError: It is no regular file, or larger than ``max_bytes``.
        """
        raise UnsupportedError(f"{type(self).__name__} cannot read files of its image")

    def private_view(self, folders: Collection[str]) -> AbstractContextManager[Environment]:
        """This box, but with ``folders`` that nothing which runs in it already can reach.

        Commands of the view see the box's files, network and processes as always, and in
        the place of each folder one of their own: empty at first, and gone at the end.
        Uploads and downloads of the view that name such a folder mean the view's own.

        Raises:
            UnsupportedError: This backend cannot do that.
        """
        raise UnsupportedError(f"{type(self).__name__} cannot grade out of reach of its processes")

    @property
    def can_fork(self) -> bool:
        """Whether :meth:`fork` is to be had."""
        return type(self).fork is not Environment.fork

    def fork(
        self,
        network: tuple[NetworkPolicy, ...],
        *,
        restore: Collection[str],
        remove: Collection[str],
    ) -> Environment:
        """A second box, not yet started, with this one's files and none of its processes.

        Args:
            network: As in :class:`EnvironmentRequest`.
            restore: Files and links that the second box has as the image has them.
            remove: Files, links and folders that the second box lacks.

        Raises:
            UnsupportedError: This backend cannot do that.
        """
        raise UnsupportedError(f"{type(self).__name__} cannot make a second box of its files")

    def interrupt(self) -> None:
        """Kill the command that :meth:`exec` runs now, and all that it started.

        May be called from any thread; does nothing where no command runs, or where the
        backend cannot. The command ends as if it had killed itself.
        """

    @abstractmethod
    def exec(
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
        """Run one command and wait for it; its standard input is empty.

        A process that the command leaves running lives on, and does not delay the
        return even if it holds the output open.

        A command that is not there ends with 127, one that cannot be run or has no such
        working folder with 126, and standard error says why.

        Args:
            command: An argument list, or text for bash (for sh where there is no bash).
            user: Name or number, ``user:group`` too; None: :attr:`default_user`.
            cwd: Absolute; None: :attr:`workdir`.
            env: Added to the environment's own variables.
            timeout_sec: Wall clock in seconds, None: no limit; at its end the command and all
                that it started are killed, ``timed_out`` is set and nothing is raised.
            output: Takes the whole output as it comes, both streams in order of arrival.
            merge_streams: Standard error goes where standard output goes, in the box.

        Raises:
            EnvironmentLostError: The box is gone; says nothing of the command.
            EnvironmentStartError: The box cannot run commands at all, or not as this
                ``user``, because the image lacks what that takes.
        """

    def open_process(
        self,
        command: str | Sequence[str],
        *,
        user: str | int | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stderr: BinaryIO | None = None,
    ) -> Process:
        """Start one command, as :meth:`exec` does, and talk to it; close it in any case.

        Args:
            command: See :meth:`exec`.
            user: See :meth:`exec`.
            cwd: See :meth:`exec`.
            env: See :meth:`exec`.
            stderr: Takes the whole of standard error as it comes, from another thread.

        Raises:
            UnsupportedError: This backend, or its way to the engine, cannot do that.
        """
        raise UnsupportedError(f"{type(self).__name__} cannot talk to a running command")

    @abstractmethod
    def upload(
        self,
        source: Path,
        target: str,
        *,
        executable: Collection[str] = (),
        include: Callable[[PurePosixPath], bool] | None = None,
        replace: bool = False,
        clear: Collection[str] = (),
    ) -> None:
        """Copy a file, or a folder's content, into the box; owned by root.

        Links are copied as links. Folders merge, files replace. Where a link in the box
        stands for ``target`` itself, a replacing upload puts a real folder in its place.

        Args:
            source: File or folder on this machine.
            target: Absolute path of the file or folder in the box; parents are made.
            executable: Relative paths that get mode 0755 whatever they have here.
            include: Asked for each relative path of a folder; False leaves it out.
            replace: Whatever ``target`` was (folder, file or link) is removed first, in
                the same step: afterwards it holds the source's content and nothing else.
            clear: Folders that are made anew in the same step: empty, writable by everybody.

        Raises:
            TransferError: A source cannot be read or the box refuses.
            EnvironmentLostError: The box is gone.
        """

    @abstractmethod
    def download(
        self,
        source: str,
        target: Path,
        *,
        limits: DownloadLimits = DEFAULT_LIMITS,
        filter_data: Callable[[BinaryIO], BinaryIO] | None = None,
    ) -> DownloadReport:
        """Copy a file, or a folder's content, out of the box.

        What comes out is hostile: only regular files and folders are written, nothing
        outside ``target``, nothing through a link, no set-id bits, no foreign owner.

        Args:
            source: Absolute path in the box.
            target: A file's path, or the folder to fill; parents are made.
            limits: Where to stop.
            filter_data: Wraps each file's bytes as they pass, to take secrets out.

        Raises:
            FileNotFoundError: ``source`` does not exist.
            TransferError: The transfer broke.
            EnvironmentLostError: The box is gone.
        """

    def archive(
        self,
        source: str,
        sink: BinaryIO,
        *,
        limits: DownloadLimits = DEFAULT_LIMITS,
        exclude: Sequence[str] = (),
    ) -> DownloadReport:
        """Pack a file or folder so that another environment can :meth:`unpack` it.

        Owners and modes are kept; set-id bits, devices and links that lead out are not.

        Args:
            source: Absolute path in the box.
            sink: Takes an uncompressed tar archive with names from the box's root.
            limits: Where to stop.
            exclude: Patterns of tar's ``--exclude``: a name, or a path below ``source``.

        Raises:
            FileNotFoundError: ``source`` does not exist.
            TransferError: The transfer broke.
            EnvironmentLostError: The box is gone.
        """
        raise UnsupportedError(f"{type(self).__name__} cannot hand files to another environment")

    def unpack(self, archive: BinaryIO) -> None:
        """Put what :meth:`archive` packed where it was, with its owners and modes.

        Raises:
            TransferError: The box refuses.
            EnvironmentLostError: The box is gone.
        """
        raise UnsupportedError(f"{type(self).__name__} cannot take files of another environment")

    def clear(self, folders: Collection[str]) -> None:
        """Make folders anew: empty, writable by everybody; done from outside the box.

        Raises:
            TransferError: The box refuses.
            EnvironmentLostError: The box is gone.
        """
        raise UnsupportedError(f"{type(self).__name__} cannot clear folders")

    @abstractmethod
    def read(self, path: str, *, max_bytes: int = 1024 * 1024) -> bytes:
        """Content of one regular file.

        Raises:
            FileNotFoundError: No such file.
            TransferError: It is a folder, link, device or pipe, or larger than ``max_bytes``.
            EnvironmentLostError: The box is gone.
        """

    @abstractmethod
    def write(self, path: str, data: bytes | str, *, mode: int = 0o644) -> None:
        """Write one file, owned by root; parents are made.

        Raises:
            TransferError: The box refuses.
            EnvironmentLostError: The box is gone.
        """
