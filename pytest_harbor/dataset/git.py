"""Tasks out of git repositories, by the ``git`` program, without a checkout.

Only objects are fetched, and files are written from them by us: no filter, hook,
submodule or attribute of a repository takes effect, and no link of it is ever made.
"""

from __future__ import annotations

import subprocess
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, NamedTuple, TypeVar

from pytest_harbor.dataset.git_program import GitCommandError, run_git, started
from pytest_harbor.dataset.http import MAX_DOCUMENT
from pytest_harbor.dataset.room import DEFAULT_MAX_SIZE, Room
from pytest_harbor.dataset.spec import GitSpec, check_ref, is_commit
from pytest_harbor.dataset.tree import Entry
from pytest_harbor.dataset.write import Readable
from pytest_harbor.errors import DatasetError

_EVERYTHING = "+refs/*:refs/all/*"
# So many lines fit into the smallest pipe, though nobody reads it yet.
_AHEAD = 60
_T = TypeVar("_T")


class NoSuchCommitError(DatasetError):
    """A repository that answers does not have a commit."""


class TreeEntry(NamedTuple):
    """A line of ``git ls-tree``."""

    mode: str
    kind: str
    oid: str
    path: str

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.kind == "blob" and self.mode != "120000"


def resolve(spec: GitSpec) -> str:
    """The commit that a repository's ref stands for now.

    Raises:
        DatasetUnreachableError: The repository does not answer.
        DatasetError: It has no such ref.
    """
    if spec.ref is not None and is_commit(spec.ref):
        return spec.ref.lower()
    return resolve_ref(spec.url, spec.ref)


def resolve_ref(url: str, ref: str | None) -> str:
    """The commit, or annotated tag, that a ref stands for now; None: the default branch."""
    wanted = check_ref(ref or "HEAD")
    listed = run_git(["ls-remote", "--", "origin", wanted, f"{wanted}^{{}}"], url=url).decode()
    rows = (line.partition("\t") for line in listed.splitlines())
    known = {name: oid for oid, _, name in rows}
    for name in (wanted, f"refs/heads/{wanted}", f"refs/tags/{wanted}", f"refs/{wanted}"):
        if found := known.get(f"{name}^{{}}") or known.get(name):
            return found
    hint = _known_refs(url) if known or ref else "it has no commits"
    raise DatasetError(f"{url} has no branch or tag {wanted!r}: {hint}")


def _known_refs(url: str) -> str:
    lines = run_git(["ls-remote", "--heads", "--tags", "--refs", "--", "origin"], url=url).decode()
    names = [line.rpartition("\t")[2].split("/", 2)[-1] for line in lines.splitlines()]
    more = ", …" if names[8:] else ""
    return f"it has {', '.join(names[:8])}{more}; a commit is named by its full id"


@dataclass(frozen=True, slots=True)
class Repository:
    """A bare repository in a temporary folder that holds one commit.

    Attributes:
        path: Its folder.
        url: Where its objects come from.
        commit: The commit's id.
        room: What it may take on the disk.
    """

    path: Path
    url: str
    commit: str
    room: Room

    def entries(self, path: str = ".") -> list[TreeEntry]:
        """What lies below a path of the commit, at any depth."""
        if path == ".":
            return self._listed("-r", "-t", self.commit)
        found = self._listed("-r", "-t", self.commit, "--", f"{path}/")
        return [entry for entry in found if entry.path.startswith(f"{path}/")]

    def at(self, paths: Iterable[str]) -> list[TreeEntry]:
        """What lies at the paths themselves; less than was asked for where some are not there."""
        return self._listed(self.commit, "--", *paths)

    def _listed(self, *arguments: str) -> list[TreeEntry]:
        said = self.git("ls-tree", "-z", "--full-tree", *arguments)
        lines = said.decode("utf-8", "surrogateescape").split("\0")[:-1]
        return [_tree_entry(line) for line in lines]

    def folder_kind(self, path: str) -> str | None:
        """What lies at a path: ``tree``, ``blob``, ``commit`` or ``link``; None for nothing."""
        entry = next(iter(self.at([path])), None)
        if entry is None:
            return None
        return "link" if entry.mode == "120000" else entry.kind

    def file(self, path: str, limit: int = MAX_DOCUMENT) -> bytes | None:
        """The content of one regular file; None where there is none.

        Raises:
            DatasetError: It has more than ``limit`` bytes.
        """
        entry = next(iter(self.at([path])), None)
        if entry is None or not entry.is_file:
            return None
        self.fetch_objects([entry.oid])
        with self.reader() as reader, closing(reader.read([entry.oid])) as contents:
            content = next(contents).read(limit + 1)
        if len(content) > limit:
            raise DatasetError(f"{path} of {self.url}: larger than {limit // 1024**2} MiB")
        return content

    def sizes(self, oids: Iterable[str]) -> dict[str, int]:
        """Sizes of objects that were fetched, in bytes; without those that were not."""
        asked = "".join(f"{oid}\n" for oid in oids).encode()
        lines = self.git("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=asked)
        pairs = (line.split() for line in lines.decode().splitlines())
        return {oid: int(size) for oid, size in pairs if size.isdigit()}

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """One process that gives the content of objects."""
        with started(["cat-file", "--batch"], self.path) as process:
            yield Reader(process, self.url)

    def fetch_objects(self, oids: Sequence[str]) -> None:
        """Get what a fetch without blobs left out."""
        missing = self._missing() & set(oids)
        if missing:
            self.git(
                *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head"),
                *("--recurse-submodules=no", "--filter=blob:none", "--stdin", "origin"),
                stdin="".join(f"{oid}\n" for oid in sorted(missing)).encode(),
                watch=lambda: self.room.watch(self.path, self.url),
            )

    def _missing(self) -> set[str]:
        lines = self.git(
            "rev-list", "--objects", "--missing=print", "--no-walk", "--quiet", self.commit
        )
        listed = lines.decode("utf-8", "surrogateescape").splitlines()
        return {line[1:] for line in listed if line.startswith("?")}

    def git(
        self,
        *arguments: str,
        stdin: bytes = b"",
        variables: Mapping[str, str] | None = None,
        watch: Callable[[], None] | None = None,
    ) -> bytes:
        """Run git in it, as :func:`run_git` does."""
        return run_git(
            arguments, self.path, url=self.url, stdin=stdin, variables=variables, watch=watch
        )


def with_commit(
    url: str,
    commit: str,
    folder: Path,
    use: Callable[[Repository], _T],
    room: Room | None = None,
) -> _T:
    """Have a commit fetched and used; the next way is tried where the last did not serve.

    The cheapest is first: shallow without blobs, which not all servers know; shallow; whole,
    which is all that a plain file server can do.

    Args:
        url: The repository.
        commit: Full id of the commit, or of a tag.
        folder: Where temporary folders may be made.
        use: Called with the repository, which is gone afterwards; may be called again.
        room: What it may take on the disk; None: what a dataset may usually.

    Raises:
        DatasetUnreachableError: No way served.
        NoSuchCommitError: The repository answers, and does not have it.
        RoomError: It is larger than it may be.
    """
    ways: tuple[tuple[tuple[str, ...], str], ...] = (
        (("--filter=blob:none", "--depth=1"), commit),
        (("--depth=1",), commit),
        ((), _EVERYTHING),
    )
    room = room or Room(DEFAULT_MAX_SIZE, folder)
    failure: GitCommandError | None = None
    for options, wanted in ways:
        try:
            # A git that was ended may still write for a moment; the workspace is removed later.
            with TemporaryDirectory(prefix="git-", dir=folder, ignore_cleanup_errors=True) as made:
                return use(_fetch(url, commit, Path(made), options, wanted, room))
        except GitCommandError as error:
            failure = error
    assert failure is not None
    raise failure


def _fetch(
    url: str, commit: str, path: Path, options: Sequence[str], wanted: str, room: Room
) -> Repository:
    run_git(["init", "--quiet", "--bare", "--template=", "."], path, url=url)
    quiet = ("--quiet", "--no-tags", "--recurse-submodules=no")
    run_git(
        ["fetch", *quiet, *options, "--", "origin", wanted],
        path,
        url=url,
        watch=lambda: room.watch(path, url),
    )
    try:
        found = run_git(
            ["rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}"], path, url=url
        )
    except GitCommandError:
        if wanted != _EVERYTHING:
            raise
        raise NoSuchCommitError(
            f"{url} has no commit {commit!r}: no branch or tag leads to it, and the server does "
            "not give it by its id"
        ) from None
    return Repository(path, url, found.decode().strip(), room)


def tree_of(entries: Sequence[TreeEntry], path: str) -> dict[str, Entry]:
    """A task's part of a listing, by paths in the task; a link's target is still its object."""
    prefix = "" if path == "." else f"{path}/"
    return {
        one.path.removeprefix(prefix): _entry(one)
        for one in entries
        if one.path.startswith(prefix) and one.path != prefix
    }


def _entry(one: TreeEntry) -> Entry:
    match one.mode:
        case "040000":
            return Entry("folder")
        case "120000":
            return Entry("link", one.oid)
        case "160000":  # a submodule: a checkout makes an empty folder of it
            return Entry("folder")
        case _:
            return Entry("file", one.oid, is_executable=one.mode == "100755")


def _tree_entry(line: str) -> TreeEntry:
    meta, _, path = line.partition("\t")
    mode, kind, oid = meta.split()[:3]
    return TreeEntry(mode, kind, oid, path)


class Reader:
    """Reads objects through one ``git cat-file``, which is asked ahead of what is read."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._asking, self._answers = process.stdin, process.stdout
        self._url = url
        self._asked: deque[str] = deque()
        self._part: _Part | None = None

    def read(self, oids: Iterable[str]) -> Generator[Readable]:
        """The content of objects, in the order asked for; each is read before the next.

        Raises:
            GitCommandError: Git ended.
            DatasetError: It does not have one.
        """
        wanted = iter(oids)
        try:
            while True:
                self._ask(wanted)
                if not self._asked:
                    return
                yield self._next()
        finally:
            self._drop()

    def _ask(self, wanted: Iterator[str]) -> None:
        if self._asked:
            return
        more = list(islice(wanted, _AHEAD))
        with suppress(BrokenPipeError):
            self._asking.write("".join(f"{oid}\n" for oid in more).encode())
            self._asking.flush()
        self._asked += more

    def _next(self) -> _Part:
        self._finish()
        oid = self._asked.popleft()
        header = self._answers.readline().split()
        if not header:
            raise GitCommandError(f"{self._url}: git ended before all files were read")
        if len(header) != 3:
            raise DatasetError(f"{self._url} did not give {oid}")
        self._part = _Part(self._answers, int(header[2]))
        return self._part

    def _finish(self) -> None:
        if self._part is not None:
            self._part.skip()
            self._answers.read(1)
            self._part = None

    def _drop(self) -> None:
        """Pass over what was asked for and is not wanted any more."""
        with suppress(DatasetError):
            self._finish()
            while self._asked:
                with suppress(DatasetError):
                    self._next()
                    self._finish()


class _Part:
    """The next bytes of a stream, as a stream of their own."""

    def __init__(self, source: IO[bytes], size: int) -> None:
        self._source = source
        self._left = size

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._source.read(wanted) if wanted else b""
        if wanted and not data:
            raise GitCommandError("git ended in the middle of a file")
        self._left -= len(data)
        return data

    def skip(self) -> None:
        while self._left:
            self.read(1024 * 1024)
