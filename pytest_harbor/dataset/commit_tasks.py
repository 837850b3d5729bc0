"""Tasks of one commit, written as a checkout would have them, but that links become copies."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pytest_harbor.dataset.cache import Progress
from pytest_harbor.dataset.git import Reader, Repository, TreeEntry, tree_of
from pytest_harbor.dataset.lfs import (
    ATTRIBUTES,
    MAX_POINTER,
    LfsObjects,
    Pointer,
    begins_as_pointer,
    parse_pointer,
    paths_in_lfs,
)
from pytest_harbor.dataset.tree import Entry, check_parts, flatten
from pytest_harbor.dataset.write import MAX_BYTES, TOO_LARGE, Readable, write_tree
from pytest_harbor.errors import DatasetError
from pytest_harbor.task.plural import in_number, listed

_IN_LFS = "lfs:"
_MAX_TARGET = 4096
_SHOWN = 5


class CommitTasks:
    """Some tasks of a commit: what they need is fetched at once, then each is written.

    Args:
        repository: Holds the commit.
        reader: Reads its objects.
        paths: The tasks' folders in it.
        progress: Is told what goes on.

    Raises:
        DatasetUnreachableError: The repository does not give what it has.
        RoomError: There is no room for the tasks.
    """

    def __init__(
        self, repository: Repository, reader: Reader, paths: Sequence[str], progress: Progress
    ) -> None:
        self._repository = repository
        self._reader = reader
        self._lfs = LfsObjects(repository, progress)
        trees = _trees(repository, paths)
        attributes = self._attributes(trees)
        objects = {one.content for tree in trees.values() for one in tree.values()} - {""}
        repository.fetch_objects(sorted(objects | set(attributes.values())))
        self._sizes = repository.sizes(sorted(objects))
        self._targets = self._link_targets(trees)
        self._pointers: dict[str, Pointer] = {}
        self._broken: dict[str, str] = {}
        in_lfs = self._find_pointers(trees, attributes)
        self._files: dict[str, dict[str, Entry]] = {}
        self._faults: dict[str, str] = {}
        for path, tree in trees.items():
            try:
                self._files[path] = self._checked(path, tree, in_lfs)
            except DatasetError as error:
                self._faults[path] = str(error)
        self._check_room()
        self._fetch_lfs()

    def write(self, path: str, folder: Path) -> tuple[str, ...]:
        """Write one task to a new folder; gives what its user should know.

        Raises:
            DatasetError: It is not there, or holds what a task may not.
        """
        what = self._what(path)
        if path in self._faults:
            raise DatasetError(self._faults[path])
        files = self._files[path]
        if missing := [one for one, entry in files.items() if not self._is_there(entry)]:
            raise DatasetError(f"{what}: {self._lfs.why_missing(missing)}")
        with closing(self._contents(files.values(), what)) as contents:
            write_tree(folder, files, contents, what)
        return self._notes(path, folder)

    def _what(self, path: str) -> str:
        return f"{self._repository.url} {path}"

    def _attributes(self, trees: Mapping[str, Mapping[str, Entry]]) -> dict[str, str]:
        """Objects of the ``.gitattributes`` that bear on the tasks, by path."""
        above = {"/".join(part) for path in trees for part in _starts(path)}
        wanted = sorted(f"{one}/{ATTRIBUTES}" if one else ATTRIBUTES for one in above)
        found = {one.path: one.oid for one in self._repository.at(wanted) if one.is_file}
        for path, tree in trees.items():
            for inside, entry in tree.items():
                if entry.kind == "file" and inside.rpartition("/")[2] == ATTRIBUTES:
                    found[_full(path, inside)] = entry.content
        return {path: oid for path, oid in found.items() if _is_plain(path)}

    def _link_targets(self, trees: Mapping[str, Mapping[str, Entry]]) -> dict[str, str]:
        """What links lead to, by their objects."""
        links = {one.content for tree in trees.values() for one in tree.values() if _is_link(one)}
        short = [oid for oid in sorted(links) if self._sizes.get(oid, 0) <= _MAX_TARGET]
        return {
            oid: content.decode("utf-8", "surrogateescape")
            for oid, content in self._read(short).items()
        }

    def _find_pointers(
        self, trees: Mapping[str, Mapping[str, Entry]], attributes: Mapping[str, str]
    ) -> set[str]:
        """Paths of the files that are in Git LFS; their pointers are read."""
        blobs = {
            full: entry.content
            for path, tree in trees.items()
            for inside, entry in tree.items()
            if entry.kind == "file" and _is_plain(full := _full(path, inside))
        }
        paths = paths_in_lfs(self._repository, attributes, blobs)
        small = {oid for path in paths if 0 < self._sizes.get(oid := blobs[path], 0) <= MAX_POINTER}
        for oid, content in self._read(sorted(small)).items():
            try:
                if pointer := parse_pointer(content):
                    self._pointers[oid] = pointer
            except DatasetError as error:
                self._broken[oid] = str(error)
        return {path for path in paths if blobs[path] in self._pointers.keys() | self._broken}

    def _read(self, oids: Sequence[str]) -> dict[str, bytes]:
        """The content of small objects."""
        if not oids:
            return {}
        with closing(self._reader.read(oids)) as contents:
            return {oid: content.read() for oid, content in zip(oids, contents, strict=True)}

    def _checked(self, path: str, tree: Mapping[str, Entry], in_lfs: set[str]) -> dict[str, Entry]:
        """A task's files and empty folders, links replaced.

        Raises:
            DatasetError: It holds what a task may not.
        """
        what = self._what(path)
        if not tree:
            raise DatasetError(f"{what}: {_absence(self._repository, path)}")
        read = {}
        for inside, entry in tree.items():
            if entry.kind == "file" and _full(path, inside) in in_lfs:
                if fault := self._broken.get(entry.content):
                    raise DatasetError(f"{what}: {inside!r}: {fault}")
                entry = replace(entry, content=f"{_IN_LFS}{entry.content}")
            elif entry.kind == "link":
                entry = replace(entry, content=self._target(entry, inside, what))
            read[inside] = entry
        files = flatten(read, what)
        if sum(map(self._size, files.values())) > MAX_BYTES:
            raise DatasetError(f"{what}: {TOO_LARGE}")
        return files

    def _target(self, entry: Entry, inside: str, what: str) -> str:
        if entry.content not in self._targets:
            raise DatasetError(f"{what}: the link {inside!r} leads to no path; remove it")
        return self._targets[entry.content]

    def _size(self, entry: Entry) -> int:
        if pointer := self._pointer(entry):
            return pointer.size
        return self._sizes.get(entry.content, 0)

    def _pointer(self, entry: Entry) -> Pointer | None:
        if not entry.content.startswith(_IN_LFS):
            return None
        return self._pointers[entry.content.removeprefix(_IN_LFS)]

    def _is_there(self, entry: Entry) -> bool:
        pointer = self._pointer(entry)
        return pointer is None or self._lfs.has(pointer)

    def _check_room(self) -> None:
        """See that all tasks have room before anything large is fetched or written."""
        entries = [one for files in self._files.values() for one in files.values()]
        pointers = {one for one in map(self._pointer, entries) if one}
        self._repository.room.check(
            sum(map(self._size, entries)),
            f"{in_number(len(self._files), 'tasks')} of {self._repository.url}",
            passing=sum(one.size for one in pointers),
        )

    def _fetch_lfs(self) -> None:
        wanted = {
            entry.content.removeprefix(_IN_LFS): pointer
            for files in self._files.values()
            for entry in files.values()
            if (pointer := self._pointer(entry))
        }
        if wanted:
            self._lfs.fetch(wanted)

    def _contents(self, entries: Iterable[Entry], what: str) -> Generator[Readable]:
        """The files' content, in their order."""
        files = [one for one in entries if one.kind == "file"]
        plain = [one.content for one in files if self._pointer(one) is None]
        with closing(self._reader.read(plain)) as blobs:
            for one in files:
                if pointer := self._pointer(one):
                    with self._lfs.open(pointer, what) as content:
                        yield content
                else:
                    yield next(blobs)

    def _notes(self, path: str, folder: Path) -> tuple[str, ...]:
        """Tell of what looks like a pointer, and by the attributes is an ordinary file."""
        odd = [
            inside
            for inside, entry in self._files[path].items()
            if entry.kind == "file"
            and self._pointer(entry) is None
            and self._size(entry) <= MAX_POINTER
            and begins_as_pointer((folder / inside).read_bytes())
        ]
        if not odd:
            return ()
        return (
            f"{self._what(path)}: pointers of Git LFS that no {ATTRIBUTES} names are kept as they "
            f"are, as in a checkout: {listed(odd, _SHOWN)}",
        )


def _trees(repository: Repository, paths: Sequence[str]) -> dict[str, dict[str, Entry]]:
    """Each task's part of the commit, from one listing."""
    if len(paths) == 1:
        return {paths[0]: tree_of(repository.entries(paths[0]), paths[0])}
    entries = repository.entries()
    wanted = set(paths)
    grouped: dict[str, list[TreeEntry]] = {path: [] for path in paths}
    for entry in entries:
        above = entry.path.split("/")
        for length in range(1, len(above)):
            if (path := "/".join(above[:length])) in wanted:
                grouped[path].append(entry)
        if "." in wanted:
            grouped["."].append(entry)
    return {path: tree_of(grouped[path], path) for path in paths}


def _absence(repository: Repository, path: str) -> str:
    match repository.folder_kind(path):
        case "link":
            return "its path is a symbolic link, which is not followed"
        case None:
            above = ["/".join(part) for part in _starts(path)][1:]
            if any(repository.folder_kind(one) == "link" for one in above):
                return "its path leads through a symbolic link, which is not followed"
            return f"no such folder at {repository.commit[:12]}"
        case _:
            return "no folder with files"


def _starts(path: str) -> list[list[str]]:
    """The folders above a task, the repository's own first."""
    parts = [] if path == "." else path.split("/")
    return [parts[:length] for length in range(max(len(parts), 1))]


def _full(path: str, inside: str) -> str:
    return inside if path == "." else f"{path}/{inside}"


def _is_link(entry: Entry) -> bool:
    return entry.kind == "link"


def _is_plain(path: str) -> bool:
    """Whether git takes a path into an index; what it does not is no task's file either."""
    try:
        check_parts(path, "")
    except DatasetError:
        return False
    return True
