"""What a trial asks of an environment; every backend keeps this contract.

A new backend subclasses :class:`Environment`, is named by an entry point in the
group ``pytest_harbor.environments`` and passes ``tests/contract``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Literal

from pytest_harbor.errors import EnvironmentFault, UnsupportedError
from pytest_harbor.result.network import RefusedConnection
from pytest_harbor.task.network import NetworkPolicy

if TYPE_CHECKING:
    from pytest_harbor.environment.process import Process
    from pytest_harbor.task.config import EnvironmentConfig
    from pytest_harbor.task.reader import Task

OUTPUT_TAIL_BYTES = 64 * 1024
"""How much of a command's output :class:`ExecResult` keeps in memory, per stream."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How one command ended.

    Attributes:
        exit_code: The command's status; 128 + n after signal n; None when it was cut
            off by its time limit.
        stdout: The last bytes of standard output as text, at most ``OUTPUT_TAIL_BYTES``;
            bytes that are not UTF-8 are replaced.
        stderr: The same for standard error; empty when the streams were merged.
        duration_sec: Wall clock in seconds.
        timed_out: The limit was reached; the command and everything that it started
            are dead.
        output_bytes: How many bytes the command wrote in all.
        out_of_memory: The environment's memory limit was hit while the command ran.
    """

    exit_code: int | None
    stdout: str
    stderr: str
    duration_sec: float
    timed_out: bool = False
    output_bytes: int = 0
    out_of_memory: bool = False

    @property
    def output(self) -> str:
        """Both streams, standard output first."""
        return self.stdout + self.stderr


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """Bounds for what is taken out of an environment, whose content is hostile.

    Attributes:
        total_bytes: Over all files.
        files: Number of files and folders.
    """

    total_bytes: int = 2 * 1024**3
    files: int = 100_000


DEFAULT_LIMITS = DownloadLimits()


@dataclass(frozen=True, slots=True)
class DownloadReport:
    """What a download left behind.

    Attributes:
        files: Paths that were written, relative to the target, sorted.
        skipped: Relative path to the reason why it was not written.
        complete: False when a limit ended the download early.
    """

    files: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs from the image.

    Attributes:
        path: Absolute, in the box.
        kind: ``added``, ``changed`` (content, mode, owner or time; or what lies in a
            folder) or ``deleted``.
        type: What is there now: ``file``, ``folder``, ``link`` or ``other``; empty where
            nothing is or the backend cannot tell.
        target: Where a link leads, as it is written; empty for anything else, or where the
            backend cannot tell.
    """

    path: str
    kind: Literal["added", "changed", "deleted"]
    type: Literal["file", "folder", "link", "other", ""] = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process of the box, as it is seen from outside.

    Attributes:
        pid: On the engine's machine.
        parent: The same of its parent.
        command: Its command line, as it tells itself; anything may stand there.
    """

    pid: int
    parent: int
    command: str


@dataclass(frozen=True, slots=True)
class ImageLayer:
    """A tool that is installed on top of a box's image, once for all its boxes.

    Attributes:
        name: The tool's, for people and names on the engine.
        script: Text for ``sh``, run by root with a network.
        key: What else decides what the script makes, as the tool's version.
        folder: Where the tool lies: nothing else of what the script does gets into the
            image; empty: everything does.
        timeout_sec: Limit of the script; None: no limit.
    """

    name: str
    script: str
    key: str = ""
    folder: str = ""
    timeout_sec: float | None = None


@dataclass(frozen=True, slots=True)
class EnvironmentRequest:
    """What a trial wants of a backend; a backend is a callable from this to an environment.

    Attributes:
        task: The task as read.
        config: The table that describes the box: ``[environment]``, or a verifier's own.
        build_folder: Folder of the box's ``Dockerfile`` or compose file; may not exist.
        trial_name: Name of the trial, for labels and names on the engine.
        run_id: The run that everything made belongs to.
        env: Variables of every command, resolved; values may be secret.
        role: ``"agent"``: the box that the agent works in; ``"verifier"``: a box of the
            verifier's own, which has no part in the agent's network or files.
        network: Every policy that the box will have, in order, without repetitions; the
            first holds from its start, the others from :meth:`Environment.set_network_policy`.
        uplink: Name of a network on the engine through which the box reaches the outside;
            None: one of the run's own.
        gateway_image: A ready image with the tools that hold a policy, for engines that
            cannot build one; None: the backend makes its own where it needs one.
        runtime: The engine's runtime for the box's containers, as ``runsc``; None: its default.
        hardened: Programs may not gain rights by set-id bits (``no-new-privileges``).
        cpus: Number of cores; None: no limit.
        memory_mb: MiB; None: no limit.
        storage_mb: MiB; None: no limit; backends that cannot limit it say so in a note.
        rebuild: Build the image even if it is there.
        layers: What the box has on top of its image; a backend that cannot do that leaves
            them out, and whoever asked looks and installs by itself.
        allow_privileged: The task's compose file may ask for rights over the host.
        build_log: File on this machine for the log of a build.
        services_dir: Folder on this machine for the logs of further services.
        filter_data: Wraps a log on its way there, to take secrets out.
        labels: For everything made, beside the backend's own.
    """

    task: Task
    config: EnvironmentConfig
    build_folder: Path
    trial_name: str
    run_id: str
    env: Mapping[str, str]
    role: Literal["agent", "verifier"] = "agent"
    network: tuple[NetworkPolicy, ...] = (NetworkPolicy(),)
    uplink: str | None = None
    gateway_image: str | None = None
    runtime: str | None = None
    hardened: bool = False
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    rebuild: bool = False
    layers: tuple[ImageLayer, ...] = ()
    allow_privileged: bool = False
    build_log: Path | None = None
    services_dir: Path | None = None
    filter_data: Callable[[BinaryIO], BinaryIO] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


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

    def keep(self) -> str:
        """Leave everything in place at :meth:`stop`.

        Returns:
            How to enter and how to remove it, ready to be copied to a shell.
        """
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
        """Processes that were started since :meth:`begin_watch`; seen from outside the box.

        Returns:
            None where the backend cannot tell.
        """
        return None

    def changes(self) -> Sequence[Change] | None:
        """Files that differ from the image's, seen from outside; in the order of their paths.

        Returns:
            None where the backend cannot tell.
        """
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
            timeout_sec: Wall clock in seconds; at its end the command and all that it
                started are killed, ``timed_out`` is set and nothing is raised.
                None: no limit.
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
