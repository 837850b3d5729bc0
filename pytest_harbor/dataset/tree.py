"""A task's files before they touch the disk: links resolved, paths checked.

Git and archives give trees that a stranger made. Nothing of one is written before it
is known that every path stays in its place; a link becomes a copy of what it leads to,
as in Harbor, so the disk gets files and folders alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pytest_harbor.errors import DatasetError

MAX_ENTRIES = 50_000
_MAX_DEPTH = 100
_MAX_LINKS = 40


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies at one path of a tree.

    Attributes:
        kind: ``special`` stands for whatever no task may hold.
        content: Where a file's bytes are; a link's target.
        is_executable: Of a file.
    """

    kind: Literal["file", "link", "folder", "special"]
    content: str = ""
    is_executable: bool = False


@dataclass(slots=True)
class _Folder:
    children: dict[str, _Folder | Entry] = field(default_factory=dict)


def flatten(entries: Mapping[str, Entry], what: str) -> dict[str, Entry]:
    """Files and empty folders by their paths, links replaced by what they lead to.

    Args:
        entries: All that a task's tree holds, by POSIX path.
        what: The task, for messages.

    Raises:
        DatasetError: A path or link leaves the tree, or is not one of its kinds.
    """
    if len(entries) > MAX_ENTRIES:
        raise DatasetError(f"{what}: holds {len(entries)} files; at most {MAX_ENTRIES} are taken")
    root = _Folder()
    for path, entry in entries.items():
        _add(root, path, entry, what)
    flat: dict[str, Entry] = {}
    _Flattening(root, flat, what).add_folder(root, "", ())
    return flat


def check_parts(path: str, what: str) -> list[str]:
    """A path's parts.

    Raises:
        DatasetError: It leads elsewhere, or means something to git.
    """
    parts = path.split("/")
    if len(parts) > _MAX_DEPTH:
        raise DatasetError(f"{what}: {path[:100]!r}… lies deeper than {_MAX_DEPTH} folders")
    for part in parts:
        if part in ("", ".", "..") or "\0" in part or "\\" in part or part.lower() == ".git":
            raise DatasetError(f"{what}: the path {path!r} is not taken")
    return parts


def _add(root: _Folder, path: str, entry: Entry, what: str) -> None:
    *above, name = check_parts(path, what)
    folder = root
    for part in above:
        child = folder.children.setdefault(part, _Folder())
        if not isinstance(child, _Folder):
            raise DatasetError(f"{what}: {path!r} lies below what is no folder")
        folder = child
    if entry.kind == "folder":
        if not isinstance(folder.children.setdefault(name, _Folder()), _Folder):
            raise DatasetError(f"{what}: {path!r} is there twice")
        return
    if name in folder.children:
        raise DatasetError(f"{what}: {path!r} is there twice")
    folder.children[name] = entry


class _Flattening:
    """One walk over a tree."""

    def __init__(self, root: _Folder, flat: dict[str, Entry], what: str) -> None:
        self._root = root
        self._flat = flat
        self._what = what

    def add_folder(self, folder: _Folder, path: str, above: tuple[int, ...]) -> None:
        """Add what a folder holds; ``above`` are those that it is in already."""
        if id(folder) in above or len(above) > _MAX_DEPTH:
            raise DatasetError(f"{self._what}: the link {path!r} leads back to a folder above it")
        if not folder.children and path:
            self._put(path, Entry("folder"))
        for name, child in sorted(folder.children.items()):
            self._add(child, f"{path}/{name}" if path else name, (*above, id(folder)))

    def _add(self, node: _Folder | Entry, path: str, above: tuple[int, ...]) -> None:
        if isinstance(node, Entry) and node.kind == "link":
            node = _Links(self._root, self._what).find(path.split("/"))
        if isinstance(node, _Folder):
            self.add_folder(node, path, above)
        elif node.kind == "file":
            self._put(path, node)
        else:
            raise DatasetError(
                f"{self._what}: {path!r} is neither a file nor a folder; replace it by one"
            )

    def _put(self, path: str, entry: Entry) -> None:
        if len(self._flat) >= MAX_ENTRIES:
            raise DatasetError(f"{self._what}: links make more than {MAX_ENTRIES} files of it")
        self._flat[path] = entry


class _Links:
    """Follows links in a tree as a file system would, and never out of it."""

    def __init__(self, root: _Folder, what: str) -> None:
        self._root = root
        self._what = what
        self._followed = 0

    def find(self, parts: list[str]) -> _Folder | Entry:
        """What lies at a path, links followed."""
        node, _ = self._walk([], parts, "/".join(parts))
        return node

    def _walk(
        self, base: list[str], parts: list[str], link: str
    ) -> tuple[_Folder | Entry, list[str]]:
        """The node, and its path without links."""
        at = list(base)
        for part in parts:
            if not isinstance(self._node(at, link), _Folder):
                raise self._error(link, "leads to nothing")
            if part in ("", "."):
                continue
            if part == "..":
                if not at:
                    raise self._error(link, "leaves the task's folder")
                at.pop()
                continue
            node = self._child(at, part, link)
            if isinstance(node, Entry) and node.kind == "link":
                at = self._follow(node.content, at, link)
            else:
                at.append(part)
        return self._node(at, link), at

    def _follow(self, target: str, at: list[str], link: str) -> list[str]:
        self._followed += 1
        if self._followed > _MAX_LINKS:
            raise self._error(link, "leads in a circle")
        if target.startswith("/") or not target:
            raise self._error(link, "is not relative")
        return self._walk(at, target.split("/"), link)[1]

    def _child(self, at: list[str], part: str, link: str) -> _Folder | Entry:
        folder = self._node(at, link)
        child = folder.children.get(part) if isinstance(folder, _Folder) else None
        if child is None:
            raise self._error(link, "leads to nothing")
        return child

    def _node(self, at: list[str], link: str) -> _Folder | Entry:
        node: _Folder | Entry = self._root
        for part in at:
            child = node.children.get(part) if isinstance(node, _Folder) else None
            if child is None:
                raise self._error(link, "leads to nothing")
            node = child
        return node

    def _error(self, link: str, what: str) -> DatasetError:
        return DatasetError(
            f"{self._what}: the link {link!r} {what}; replace it by the file itself"
        )
