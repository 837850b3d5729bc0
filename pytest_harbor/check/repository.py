"""A git repository, asked through the git program.

The work tree may be a stranger's. Nothing of it is obeyed: git is started only in a folder
that holds a ``.git``, which no commit can bring, so that a bare repository among the files is
never taken for one. No monitor, diff driver or text converter is run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pytest_harbor.errors import OptionError

_GIT = (
    *("git", "--no-pager", "--literal-pathspecs"),
    *("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit"),
)
_NOT_HANDED_ON = frozenset(
    f"GIT_{name}"
    for name in ("DIR", "WORK_TREE", "INDEX_FILE", "PREFIX", "COMMON_DIR", "NAMESPACE")
)
"""Set in git's hooks, for another repository than the one that is asked for."""

_DIFF = (
    *("diff", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-relative"),
    *("--no-ext-diff", "--no-textconv", "--ignore-submodules=none", "-O/dev/null"),
)
"""A rename is a file removed and one added: git needs no contents to tell so."""

_SUBMODULE = b"160000"
_DEEPER = (
    "fetch more history: fetch-depth: 0 (actions/checkout), GIT_DEPTH: 0 (GitLab), "
    "or git fetch --unshallow"
)


class ChangedPath(NamedTuple):
    """A path that a diff names.

    Attributes:
        path: Below the repository's folder, with slashes.
        is_deleted: It is there no more.
        submodule: The commit that it was at, if it was a submodule; ``""`` if it became one.
    """

    path: str
    is_deleted: bool = False
    submodule: str | None = None


class Repository:
    """A repository with a work tree.

    Attributes:
        path: Its folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def around(cls, path: Path) -> Repository | None:
        """The innermost repository in whose work tree ``path`` lies."""
        start = Path(os.path.abspath(path))
        found = (one for one in (start, *start.parents) if os.path.lexists(one / ".git"))
        return next((cls(one) for one in found), None)

    def commit(self, revision: str) -> str:
        """The id of a commit.

        Raises:
            OptionError: There is none of that name here.
        """
        # No revision begins so, and not every git knows --end-of-options here.
        if not revision.startswith("-"):
            found = self._run("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
            if found.returncode == 0:
                return found.stdout.decode().strip()
            if found.stderr.strip():
                raise self._failed(found)
        hint = (
            f"it is shallow: {_DEEPER}"
            if self._is_shallow()
            else "correct the name, or fetch it: git fetch origin BRANCH"
        )
        raise OptionError(f"no commit {revision!r} in the repository {self.path}; {hint}")

    def merge_base(self, revision: str) -> str:
        """The commit at which ``HEAD`` and a revision parted.

        Raises:
            OptionError: One of them is missing, or they share no commit.
        """
        pair = (self.commit(revision), self.commit("HEAD"))
        found = self._run("merge-base", *pair)
        if found.returncode == 0:
            return found.stdout.decode().strip()
        if found.stderr.strip():
            raise self._failed(found)
        hint = f"the clone is shallow: {_DEEPER}" if self._is_shallow() else "name another one"
        raise OptionError(f"{self.path}: {revision} and HEAD share no commit; {hint}")

    def has_commit(self, commit: str) -> bool:
        """Whether a commit is there."""
        return self._run("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0

    def changes(self, base: str) -> Iterator[ChangedPath]:
        """What is otherwise than at a commit: in the work tree, staged, or not yet added."""
        seen = set()
        for area in ((), ("--cached",)):
            for one in _parsed(self._ask(*_DIFF, *area, base, "--")):
                if one not in seen:
                    seen.add(one)
                    yield one
        listed = self._ask("ls-files", "--others", "--exclude-standard", "-z")
        yield from (ChangedPath(os.fsdecode(one)) for one in listed.split(b"\0") if one)

    def is_submodule(self, path: str) -> bool:
        """Whether a path below this repository is registered as a submodule of it."""
        return self._ask("ls-files", "--stage", "-z", "--", path).startswith(_SUBMODULE)

    def _ask(self, *arguments: str) -> bytes:
        found = self._run(*arguments)
        if found.returncode:
            raise self._failed(found)
        return found.stdout

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        env = {name: value for name, value in os.environ.items() if name not in _NOT_HANDED_ON}
        env |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
        command = [*_GIT, *arguments]
        try:
            return subprocess.run(
                command, cwd=self.path, env=env, stdin=subprocess.DEVNULL, capture_output=True
            )
        except FileNotFoundError:
            raise OptionError("git is not installed here: install it") from None
        except OSError as error:
            raise OptionError(f"git cannot be started: {error.strerror}") from None

    def _is_shallow(self) -> bool:
        return self._run("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"

    def _failed(self, found: subprocess.CompletedProcess[bytes]) -> OptionError:
        said = " ".join(found.stderr.decode("utf-8", "replace").split())
        return OptionError(f"git cannot read the repository {self.path}: {said[:1000]}")


def _parsed(raw: bytes) -> Iterator[ChangedPath]:
    """The records of ``git diff --raw -z``: ``:MODE MODE ID ID STATUS``, then the path."""
    parts = raw.split(b"\0")
    for head, path in zip(parts[0::2], parts[1::2], strict=False):
        old_mode, new_mode, old, _, status = head.removeprefix(b":").split(b" ")
        submodule = None
        if old_mode == _SUBMODULE:
            submodule = old.decode()
        elif new_mode == _SUBMODULE:
            submodule = ""
        yield ChangedPath(os.fsdecode(path), status.startswith(b"D"), submodule)
