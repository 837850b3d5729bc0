"""Files in Git LFS: which of a commit's files are, and their content by the program ``git lfs``.

As a checkout has it: a file whose attributes name the filter ``lfs``, and whose content is a
pointer, stands for the object that the pointer names. Nothing is checked out for that: what
is wanted is put into a commit of our own, of which ``git lfs`` fetches all. The repository's
``.lfsconfig`` has no say but for a place on the repository's own host.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import urlsplit

from pytest_harbor.dataset.cache import Progress
from pytest_harbor.dataset.git import Repository
from pytest_harbor.dataset.git_program import GitCommandError
from pytest_harbor.dataset.room import size_on_disk, size_text
from pytest_harbor.dataset.spec import parse_git
from pytest_harbor.errors import DatasetError
from pytest_harbor.task.plural import in_number, listed

ATTRIBUTES = ".gitattributes"
MAX_POINTER = 1023
"""A larger file is no pointer, in bytes."""

_CONFIG = ".lfsconfig"
_SHOWN = 5
_SLACK = 16 * 1024**2
_TELL_EVERY_SEC = 3.0
_FIRST_LINES = (
    b"version https://git-lfs.github.com/spec/v1",
    b"version https://hawser.github.com/spec/v1",
    b"version http://git-media.io/v/2",
)
_OID = re.compile(r"sha256:([0-9a-f]{64})")
_SIZE = re.compile(r"[0-9]{1,18}")
_OURS = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "pytest-harbor"), ("EMAIL", "pytest-harbor"), ("DATE", "@0 +0000"))
}
_HINTS = {
    "is not a git command": "install the program git-lfs, and run again",
    "quota": "whoever owns the repository has no more traffic for Git LFS at its host",
    "credentials": "let git's credential helper know an account for it",
    "uthenticat": "let git's credential helper know an account for it",
}


class Pointer(NamedTuple):
    """What stands in a commit for the content of a file.

    Attributes:
        oid: SHA-256 of the content, in hex.
        size: Of the content, in bytes.
    """

    oid: str
    size: int


def begins_as_pointer(data: bytes) -> bool:
    """Whether a file looks like a pointer, by its first line."""
    return data.partition(b"\n")[0].rstrip() in _FIRST_LINES


def parse_pointer(data: bytes) -> Pointer | None:
    """Read a pointer; None for a file that is none.

    Raises:
        DatasetError: It begins like one, and cannot be followed.
    """
    if not begins_as_pointer(data):
        return None
    pairs = (line.strip().partition(" ") for line in data.decode("latin-1").splitlines())
    known = {key: value.strip() for key, _, value in pairs}
    if extension := next((key for key in known if key.startswith("ext-")), None):
        raise DatasetError(f"its content is made by an extension of Git LFS ({extension})")
    oid, size = _OID.fullmatch(known.get("oid", "")), _SIZE.fullmatch(known.get("size", ""))
    if oid is None or size is None:
        raise DatasetError("it begins as a pointer of Git LFS, and is none")
    return Pointer(oid[1], int(size[0]))


def paths_in_lfs(
    repository: Repository, attributes: Mapping[str, str], paths: Iterable[str]
) -> set[str]:
    """Which files have the filter ``lfs``.

    Args:
        repository: Has the attributes' objects.
        attributes: Objects of the files ``.gitattributes``, by path.
        paths: The files that are asked for.
    """
    if not attributes:
        return set()
    own = {"GIT_INDEX_FILE": str(repository.path / "attributes.index")}
    listed = "".join(f"100644 {oid} 0\t{path}\0" for path, oid in attributes.items())
    repository.git("update-index", "-z", "--index-info", stdin=_bytes(listed), variables=own)
    asked = "".join(f"{path}\0" for path in paths)
    said = repository.git(
        *("check-attr", "-z", "--cached", "--stdin", "filter"), stdin=_bytes(asked), variables=own
    )
    fields = said.decode("utf-8", "surrogateescape").split("\0")
    return {path for path, value in zip(fields[::3], fields[2::3], strict=False) if value == "lfs"}


@dataclass
class LfsObjects:
    """Content of files in Git LFS, fetched for one commit.

    Attributes:
        repository: The repository; what is fetched lies in it.
        progress: Is told what goes on.
        said: What ``git lfs`` said to what it could not fetch.
    """

    repository: Repository
    progress: Progress
    said: str = field(default="", init=False)
    _told: float = field(default_factory=time.monotonic, init=False)

    def fetch(self, blobs: Mapping[str, Pointer]) -> None:
        """Fetch what pointers stand for; what could not be had is not there afterwards.

        Args:
            blobs: The pointers, by the blobs that hold them.
        """
        objects = {one.oid: one.size for one in blobs.values() if one.size}
        if not objects:
            return
        total = sum(objects.values())
        self.progress(f"{in_number(len(objects), 'files')} of Git LFS, {size_text(total)}")
        lfs = self.repository
        rows = [f"100644 blob {blob}\t{number}" for number, blob in enumerate(sorted(blobs))]
        if url := self._own_place():
            text = f'[lfs]\nurl = "{url}"\n'
            config = lfs.git("hash-object", "-w", "--stdin", stdin=text.encode())
            rows.append(f"100644 blob {config.decode().strip()}\t{_CONFIG}")
        tree = lfs.git("mktree", "-z", stdin="".join(f"{row}\0" for row in rows).encode())
        made = lfs.git("commit-tree", "-m", "x", tree.decode().strip(), variables=_OURS)
        commit = made.decode().strip()
        lfs.git("update-ref", "HEAD", commit)
        try:
            lfs.git("lfs", "fetch", "origin", commit, watch=lambda: self._watch(total))
        except DatasetError as error:
            self.said = str(error)

    def _watch(self, total: int) -> None:
        """Hold what has come against what was announced, and tell of it."""
        size = size_on_disk(self._folder)
        if size > total + _SLACK:
            raise DatasetError(
                f"{self.repository.url}: Git LFS gives more than its pointers announce: "
                f"{size_text(size)} in place of {size_text(total)}"
            )
        if time.monotonic() - self._told > _TELL_EVERY_SEC:
            self._told = time.monotonic()
            self.progress(f"Git LFS: {size_text(size)} of {size_text(total)}")

    @property
    def _folder(self) -> Path:
        return self.repository.path / "lfs"

    def place(self, pointer: Pointer) -> Path:
        """Where an object is, if it could be fetched."""
        oid = pointer.oid
        return self._folder / "objects" / oid[:2] / oid[2:4] / oid

    def has(self, pointer: Pointer) -> bool:
        """Whether an object is there."""
        return pointer.size == 0 or self.place(pointer).is_file()

    @contextmanager
    def open(self, pointer: Pointer, what: str) -> Iterator[Verified]:
        """An object's content; ``what`` is the task, for messages."""
        with BytesIO() if pointer.size == 0 else self.place(pointer).open("rb") as file:
            yield Verified(file, pointer, what)

    def why_missing(self, paths: Sequence[str]) -> str:
        """Say why files of a task have no content."""
        hint = next((hint for word, hint in _HINTS.items() if word in self.said), "")
        elsewhere = self._place_in_config
        if elsewhere and not self._is_own(elsewhere):
            hint = (
                f"its {_CONFIG} says that they are at {elsewhere}, which is not asked. If you "
                "trust it, name it for a run with the variables GIT_CONFIG_COUNT=1 "
                f"GIT_CONFIG_KEY_0=lfs.url GIT_CONFIG_VALUE_0={elsewhere}"
            )
        what = f"files of it are in Git LFS and could not be had: {listed(paths, _SHOWN)}"
        return "\n".join(one for one in (what, self.said, hint) if one)

    def _own_place(self) -> str:
        """Where the repository says that its objects are, on its own host."""
        url = self._place_in_config
        return url if url and self._is_own(url) else ""

    @cached_property
    def _place_in_config(self) -> str:
        found = [one for one in self.repository.at([_CONFIG]) if one.is_file]
        if not found:
            return ""
        self.repository.fetch_objects([found[0].oid])
        try:
            said = self.repository.git("config", "--blob", found[0].oid, "--get", "lfs.url")
        except GitCommandError:  # it has none
            return ""
        url = said.decode("utf-8", "replace").strip()
        return url if url.isprintable() and not set('"\\ ') & set(url) else ""

    def _is_own(self, url: str) -> bool:
        parts, ours = urlsplit(url), parse_git(self.repository.url)
        is_plain = self.repository.url.startswith(("http:", "git:"))
        schemes = ("https", "http") if is_plain else ("https",)
        return parts.scheme in schemes and parts.netloc == ours.host


class Verified:
    """An object's bytes, held against its pointer as they are read."""

    def __init__(self, file: IO[bytes], pointer: Pointer, what: str) -> None:
        self._file = file
        self._pointer = pointer
        self._what = what
        self._hash = hashlib.sha256()
        self._size = 0

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes; none at the end.

        Raises:
            DatasetError: It is not the content that the pointer names.
        """
        data = self._file.read(size)
        self._hash.update(data)
        self._size += len(data)
        if not data and (self._hash.hexdigest(), self._size) != self._pointer:
            raise DatasetError(
                f"{self._what}: Git LFS gave other content than a pointer names: {self._size} "
                f"bytes with the SHA-256 {self._hash.hexdigest()}, not {self._pointer.size} with "
                f"{self._pointer.oid}"
            )
        return data


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
