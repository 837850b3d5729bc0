"""Runs one command in the box next door, with folders that nobody there can reach.

The engine starts this program in a container of its own that shares the box's process
ids and network. It goes into the box's mount namespace, makes a namespace of its own from
that, and builds a root folder in it: every entry of the box's root, and in the place of
the private folders this container's. Then it becomes what a command in the box is, and
gives way to the command. No program of the box runs before that, and no file of the box is
opened: neither as text, nor as code by Python, which looks for modules to import and for the
lines of a traceback by paths that are the box's by then.

The root folder and what lies above a private folder are this container's as well: whoever
removes a folder on which something is mounted elsewhere takes the mount away with it, so
the private folders must not be mounted on folders of the box.

The kernel lets a process look into another (``/proc/PID/root``, ``environ``, ``mem``) only if
it has every capability that the other has. So the command gets one that does no harm and
that no process of the box has.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import stat
import struct
import sys
import warnings  # noqa: F401  os.execvpe imports it, when nothing can be any more
from contextlib import suppress
from typing import Any, NoReturn

ROOT = "/harbor/root"
FOLDERS = "/harbor/folders"
FAULT_STATUS = 125
ENV_PREFIX = "_HARBOR_VIEW_"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

GUARD = 35  # CAP_WAKE_ALARM: may set a timer that wakes the machine, and nothing else
SYS_ADMIN = 21

CLONE_NEWNS = 0x00020000
NAMESPACE_FLAGS = 0x7E020000
MS_REC_PRIVATE = 0x4000 | 0x40000
OPEN_TREE, MOVE_MOUNT = 428, 429  # the same numbers on every machine
OPEN_TREE_CLONE, CLOEXEC = 1, os.O_CLOEXEC
AT_RECURSIVE, AT_SYMLINK_NOFOLLOW = 0x8000, 0x100
MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH = 0x04, 0x40
FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

PR_SET_KEEPCAPS, PR_SET_SECCOMP, PR_CAPBSET_DROP = 8, 22, 24
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 38, 47, 2

libc = ctypes.CDLL(None, use_errno=True)


class Fault(Exception):
    """Why the command cannot be run."""


def call(result: int) -> int:
    """The result of a call of libc, or its error."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def shut_out_code() -> None:
    """From now on Python opens no file of its own accord, whatever goes wrong."""
    # With its own handler of this signal anybody could raise an exception anywhere.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.excepthook = lambda *_: os._exit(FAULT_STATUS)
    sys.unraisablehook = lambda _: None
    sys.path.clear()
    sys.path_hooks.clear()
    sys.meta_path.clear()
    sys.path_importer_cache.clear()


# -- the root folder ------------------------------------------------------------------


def open_tree(folder: int, name: bytes, flags: int = 0) -> int:
    """A copy of a mount, or of a part of one, that is nowhere yet."""
    how = OPEN_TREE_CLONE | CLOEXEC | AT_SYMLINK_NOFOLLOW | flags
    return call(libc.syscall(OPEN_TREE, folder, ctypes.c_char_p(name), how))


def attach(tree: int, place: int) -> None:
    """Mount a copy on an open file or folder."""
    how = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH
    empty = ctypes.c_char_p(b"")
    call(libc.syscall(MOVE_MOUNT, tree, empty, place, empty, how))


def enter_namespaces() -> None:
    """Go where the box's first process is, but for mounts, which are a copy of its own."""
    kinds = ("uts", "ipc", "mnt")
    spaces = [os.open(f"/proc/1/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
    for space in spaces:
        call(libc.setns(space, 0))
    call(libc.unshare(CLONE_NEWNS))
    call(libc.mount(None, b"/", None, ctypes.c_ulong(MS_REC_PRIVATE), None))


class RootFolder:
    """What the command sees as ``/``.

    ``private`` maps the path of a folder, as its parts, to the copy that stands there.
    """

    def __init__(self, private: dict[tuple[bytes, ...], int]) -> None:
        self._private = private

    def fill(self, ours: int, theirs: int | None, path: tuple[bytes, ...] = ()) -> None:
        """Mount in a folder of ours what the box has there, and the private folders."""
        special = {p[len(path)] for p in self._private if p[: len(path)] == path}
        if theirs is not None:
            for name in os.listdir(_readable(theirs)):
                if os.fsencode(name) not in special:
                    self._show(ours, theirs, os.fsencode(name))
        for part in special:
            inner = _folder(ours, part)
            if (*path, part) in self._private:
                attach(self._private[*path, part], inner)
            else:
                self.fill(inner, _existing_folder(theirs, part), (*path, part))

    def _show(self, ours: int, theirs: int, name: bytes) -> None:
        try:
            kind = os.stat(name, dir_fd=theirs, follow_symlinks=False).st_mode
            if stat.S_ISLNK(kind):
                _make_link(ours, name, os.readlink(name, dir_fd=theirs))
                return
            place = _folder(ours, name) if stat.S_ISDIR(kind) else _file(ours, name)
            if place is not None:
                attach(open_tree(theirs, name, AT_RECURSIVE), place)
        except (FileNotFoundError, FileExistsError, NotADirectoryError):
            pass  # gone meanwhile, or a command of the view has put something else there
        except OSError as error:
            # A process of the box changes the entry while it is looked at.
            if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.ESTALE):
                raise


def _readable(folder: int) -> int:
    return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)


def _folder(where: int, name: bytes) -> int:
    """A folder of ours, made where it is missing."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=where)
    return os.open(name, FOLDER_FLAGS, dir_fd=where)


def _file(where: int, name: bytes) -> int | None:
    """A file of ours to mount something on."""
    flags = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(name, flags, 0o644, dir_fd=where))
    return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=where)


def _make_link(where: int, name: bytes, target: bytes) -> None:
    try:
        if os.readlink(name, dir_fd=where) == target:
            return
        os.unlink(name, dir_fd=where)
    except FileNotFoundError:
        pass
    os.symlink(target, name, dir_fd=where)


def _existing_folder(where: int | None, name: bytes) -> int | None:
    """A folder of the box; None where there is none, or a link in its place."""
    if where is None:
        return None
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=where)
    except OSError:
        return None


def enter_box(folders: list[str]) -> None:
    """Make the root folder and go there."""
    here = os.open("/", FOLDER_FLAGS)
    root = open_tree(here, ROOT.encode())
    private = {
        tuple(folder.strip("/").encode().split(b"/")): open_tree(here, f"{FOLDERS}/{i}".encode())
        for i, folder in enumerate(folders)
    }
    enter_namespaces()
    theirs = os.open("/", FOLDER_FLAGS)
    # Over the box's root: what lies below stays what it is, and out of sight.
    attach(root, theirs)
    RootFolder(private).fill(root, theirs)
    os.fchdir(root)
    os.chroot(".")


# -- rights ---------------------------------------------------------------------------


class User:
    """Whom the command belongs to; looked up where nothing of the box runs."""

    def __init__(self, account: dict[str, Any]) -> None:
        self.uid = int(account["uid"])
        self.gid = int(account["gid"])
        self.groups = [int(group) for group in account["groups"]]
        self.home = str(account["home"])


class Rights:
    """What a command in the box may do, read from the box's first process."""

    def __init__(self, apparmor: str) -> None:
        with open("/proc/1/status", encoding="ascii", errors="replace") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        self._bounding = int(status["CapBnd"], 16)
        with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
            self._capabilities = int(file.read()) + 1
        self._no_new_privileges = status.get("NoNewPrivs") == "1"
        self._apparmor = apparmor
        # Of this container's /proc: later that name is the box's.
        self._profile = (
            os.open("/proc/self/attr/exec", os.O_WRONLY | os.O_CLOEXEC) if apparmor else -1
        )
        if self._bounding >> GUARD & 1:
            raise Fault("the box has the capability that is to keep its processes out")

    def take(self, user: User) -> None:
        """Become a user with these rights and no others."""
        if self._apparmor:
            os.write(self._profile, f"exec {self._apparmor}".encode())
        if not self._bounding >> SYS_ADMIN & 1:
            forbid_namespaces()
        allowed = self._bounding | 1 << GUARD
        for capability in range(self._capabilities):
            if not allowed >> capability & 1:
                call(libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0))
        call(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
        os.setgroups(user.groups)
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
        _set_capabilities(allowed if user.uid == 0 else 1 << GUARD)
        call(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, GUARD, 0, 0))
        if self._no_new_privileges:
            call(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _set_capabilities(permitted: int) -> None:
    guard = 1 << GUARD
    words = []
    for shift in (0, 32):
        part = permitted >> shift & 0xFFFFFFFF
        words += [part, part, guard >> shift & 0xFFFFFFFF]
    header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
    call(libc.capset(header, ctypes.create_string_buffer(struct.pack("=6I", *words))))


# Machine, as the kernel's filters name it, to the numbers of: clone, then all that makes or
# enters namespaces, mounts or loads programs into the kernel. This container's filter lets
# them through, as this program needs them; the box's does not.
_CALLS = {
    0xC000003E: (56, 155, 165, 166, 272, 298, 308, 321),  # x86_64
    0x40000003: (120, 21, 22, 52, 217, 310, 336, 346, 357),  # its 32-bit programs
    0xC00000B7: (220, 39, 40, 41, 97, 241, 268, 280),  # aarch64
    0x40000028: (120, 21, 52, 218, 337, 364, 375, 386),  # its 32-bit programs
}
_CALLS_OF_ALL = (428, 429, 430, 431, 432, 433, 442)
_CLONE3 = 435
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000


def forbid_namespaces() -> None:
    """Refuse what the engine's own filter refuses a command of the box."""
    rules = [(_LOAD, 0, 0, 4)]  # the machine
    for machine, (clone, *others) in _CALLS.items():
        block = _rules_of(clone, (*others, *_CALLS_OF_ALL))
        rules += [(_EQUAL, 0, len(block), machine), *block]
    rules.append((_RETURN, 0, 0, _REFUSE | errno.EPERM))
    code = b"".join(struct.pack("=HBBI", *rule) for rule in rules)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(rules), ctypes.addressof(buffer))
    mode_filter = 2
    call(libc.prctl(PR_SET_SECCOMP, mode_filter, ctypes.create_string_buffer(program), 0, 0))


def _rules_of(clone: int, refused: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    refuse = (_RETURN, 0, 0, _REFUSE | errno.EPERM)
    unknown = (_RETURN, 0, 0, _REFUSE | errno.ENOSYS)
    rules = [(_LOAD, 0, 0, 0), (_AT_LEAST, 0, 1, 0x40000000), unknown]
    # Its flags lie in memory, where no filter sees them: libraries fall back on clone.
    rules += [(_EQUAL, 0, 1, _CLONE3), unknown]
    for number in refused:
        rules += [(_EQUAL, 0, 1, number), refuse]
    rules += [(_EQUAL, 0, 3, clone), (_LOAD, 0, 0, 16), (_ANY_BIT, 0, 1, NAMESPACE_FLAGS), refuse]
    return [*rules, (_RETURN, 0, 0, _ALLOW)]


# -- the command ----------------------------------------------------------------------


def environment(user: User) -> dict[str, str]:
    """The command's variables, which come as this program's under longer names."""
    given = {
        name.removeprefix(ENV_PREFIX): value
        for name, value in os.environ.items()
        if name.startswith(ENV_PREFIX)
    }
    return {"PATH": DEFAULT_PATH, "HOME": user.home, **given}


def run(kind: str, command: list[str], cwd: str, env: dict[str, str]) -> NoReturn:
    """Give way to the command."""
    try:
        os.chdir(cwd)
    except OSError:
        end(126, f"cannot enter the working folder {cwd}")
    if kind == "text":
        shell = "bash" if shutil.which("bash", path=env["PATH"]) else "sh"
        command = [shell, "-c", *command]
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        execute(command, env)
    except (FileNotFoundError, NotADirectoryError):
        end(127, f"{command[0]}: not found")
    except OSError as error:
        end(126, f"{command[0]}: {error.strerror}")


def execute(command: list[str], env: dict[str, str]) -> NoReturn:
    """Run the program, by a shell where it is a script that names none."""
    try:
        os.execvpe(command[0], command, env)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    program = command[0] if "/" in command[0] else shutil.which(command[0], path=env["PATH"])
    os.execvpe("sh", ["sh", program or command[0], *command[1:]], env)


def end(status: int, words: str) -> NoReturn:
    """Say why there is no command, as a shell does."""
    os.write(2, f"{words}\n".encode(errors="surrogateescape"))
    os._exit(status)


def give_output(user: User) -> None:
    """Let the command open its own output by name."""
    for descriptor in range(3):
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            os.fchown(descriptor, user.uid, -1)


def main(spec: dict[str, Any], kind: str, command: list[str]) -> NoReturn:
    """Run ``command`` as ``spec`` says."""
    fault = os.open(spec["fault"], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        rights, user = Rights(spec["apparmor"]), User(spec["account"])
        env = environment(user)
        shut_out_code()
        enter_box(spec["folders"])
        give_output(user)
        rights.take(user)
        run(kind, command, spec["cwd"], env)
    except BaseException as error:  # noqa: BLE001
        os.write(fault, str(error).encode(errors="replace") or b"?")
    finally:
        os._exit(FAULT_STATUS)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3:])
