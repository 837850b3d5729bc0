"""A task's compose file before compose itself reads it: its size, and what it reads besides.

Compose's own parser unfolds aliases for minutes, and its resolved configuration no longer
tells which files it was put together from. So both are looked at here, on the parsed
text; what the configuration means is left to compose.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import yaml

from pytest_harbor.environment.docker.compose_policy import Refusal
from pytest_harbor.errors import ComposeFileError

MAX_FILE_BYTES = 1024 * 1024
MAX_NESTING = 100
MAX_UNFOLDED_NODES = 200_000

# The parser in C takes a file at the limit in a second; not every wheel has it.
_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_VARIABLE = re.compile(r"\$(?:\$|\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_BINARY = "tag:yaml.org,2002:binary"  # compose would read a key or path out of it
_REMOTE = re.compile(r"^(?:[a-z][a-z0-9+.-]*://|oci:|git@|github\.com/)", re.IGNORECASE)


class SourceScan:
    """Everything that a compose file makes compose read on this machine.

    Args:
        task_folder: What may be read.
        project_folder: What relative paths start from, beside the file's own folder.
        variables: What compose is given to fill in.
    """

    def __init__(
        self, task_folder: Path, project_folder: Path, variables: Mapping[str, str]
    ) -> None:
        self._task = task_folder.resolve()
        self._bases = [project_folder]
        self._variables = variables
        self._seen: set[Path] = set()
        self.refusals: list[Refusal] = []

    def scan(self, file: Path) -> None:
        """Look at a file and at every file that it includes or extends.

        Raises:
            ComposeFileError: It is too large, unfolds too far, or is no YAML.
        """
        real = file.resolve()
        if real in self._seen:
            return
        self._seen.add(real)
        if not real.is_relative_to(self._task):
            self._refuse("", "file", str(file), "a link out of the task")
            return
        documents = parse(file)
        for node in _nodes(documents):
            for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
                self._look_at(file, _text(key), value)
        for folder in {file.parent, *self._bases}:
            self._require_inside(folder / ".env", ".env")

    def _look_at(self, file: Path, key: str, value: yaml.Node) -> None:
        if key in ("env_file", "label_file"):
            for text in _paths(value, "path"):
                self._check(file, key, text)
        elif key == "extends":
            for text in _paths(value, "file", bare=False):
                self._check(file, "extends.file", text, follow=True)
        elif key == "include":
            for name in ("project_directory", "env_file", "path"):
                for text in _paths(value, name, bare=name == "path"):
                    self._check(file, f"include.{name}", text, follow=name == "path")

    def _check(self, file: Path, key: str, text: str, *, follow: bool = False) -> None:
        path = self._filled_in(text)
        if path is None or "\0" in path or _REMOTE.match(path):
            self._refuse("", key, text, "not a file of the task that can be told beforehand")
            return
        for base in (file.parent, *self._bases):
            place = base / os.path.expanduser(path)
            self._require_inside(place, key)
            if key == "include.project_directory" and place not in self._bases:
                self._bases.append(place)
            inside = place.resolve().is_relative_to(self._task)
            if follow and inside and place.is_file():
                self.scan(place)

    def _require_inside(self, place: Path, key: str) -> None:
        # A path that leaves the task is refused whether or not something is there now.
        if not place.resolve().is_relative_to(self._task):
            self._refuse("", key, str(place), "outside the task's folder")

    def _refuse(self, service: str, key: str, value: str, reason: str) -> None:
        refusal = Refusal(service, key, value, reason)
        if refusal not in self.refusals:
            self.refusals.append(refusal)

    def _filled_in(self, text: str) -> str | None:
        """The path with plain variables filled in; None if it holds anything else of them."""
        unknown = False

        def value(match: re.Match[str]) -> str:
            nonlocal unknown
            name = match[1] or match[2]
            if not name or name not in self._variables:
                unknown = True
            return self._variables.get(name or "", "")

        filled = _VARIABLE.sub(value, text)
        return None if unknown or "$" in _VARIABLE.sub("", text) else filled


def parse(file: Path) -> list[yaml.Node]:
    """The node graph of each document; aliases are shared, not unfolded.

    Raises:
        ComposeFileError: It is too large, unfolds too far, or is no YAML.
    """
    text = _read(file)
    try:
        _require_shallow(file, text)
        documents = [node for node in yaml.compose_all(text, Loader=_Loader) if node is not None]
    except (yaml.YAMLError, ValueError) as error:
        raise ComposeFileError(f"{file}: not valid YAML: {error}") from error
    if any(node.tag == _BINARY for node in _nodes(documents)):
        raise ComposeFileError(f"{file}: !!binary is not accepted: write the text itself")
    unfolded = sum(_unfolded_size(file, document) for document in documents)
    if unfolded > MAX_UNFOLDED_NODES:
        raise ComposeFileError(
            f"{file}: its aliases unfold to {_many(unfolded)} nodes; at most "
            f"{MAX_UNFOLDED_NODES:,} are accepted. Use fewer nested aliases"
        )
    return documents


def _read(file: Path) -> bytes:
    try:
        size = file.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ComposeFileError(
                f"{file}: has {size:,} bytes; a compose file may have {MAX_FILE_BYTES:,}. "
                "Move data into files of the build context"
            )
        return file.read_bytes()
    except OSError as error:
        raise ComposeFileError(f"{file}: cannot be read: {error}") from error


def _require_shallow(file: Path, text: bytes) -> None:
    """Before anything recurses over the nodes."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_NESTING:
            raise ComposeFileError(f"{file}: nested deeper than {MAX_NESTING} levels")


def _unfolded_size(file: Path, document: yaml.Node) -> int:
    """Nodes that the document has once every alias is replaced by what it stands for."""
    sizes: dict[int, int] = {}
    unfolding: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in unfolding:
            raise ComposeFileError(f"{file}: an alias stands inside what it stands for")
        if id(node) not in sizes:
            unfolding.add(id(node))
            sizes[id(node)] = 1 + sum(size(child) for child in _children(node))
            unfolding.discard(id(node))
        return sizes[id(node)]

    return _guarded(file, lambda: size(document))


def _guarded(file: Path, work: Callable[[], int]) -> int:
    # Aliases can make the graph deeper than the text is nested.
    try:
        return work()
    except RecursionError as error:
        raise ComposeFileError(f"{file}: its aliases are nested too deeply") from error


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _nodes(documents: list[yaml.Node]) -> Iterator[yaml.Node]:
    """Every node, each once, wherever aliases and merge keys would put it."""
    seen: set[int] = set()
    waiting = list(documents)
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        waiting.extend(_children(node))


def _paths(value: yaml.Node, name: str, *, bare: bool = True) -> Iterator[str]:
    """Texts in a path, a list of paths, or mappings that hold paths under ``name``."""
    if isinstance(value, yaml.ScalarNode):
        if bare and value.tag != "tag:yaml.org,2002:null":
            yield str(value.value)
    elif isinstance(value, yaml.SequenceNode):
        for entry in value.value:
            yield from _paths(entry, name, bare=bare)
    elif isinstance(value, yaml.MappingNode):
        for key, inner in value.value:
            if _text(key) == name:
                yield from _paths(inner, name)


def _text(node: yaml.Node) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _many(number: int) -> str:
    return f"{number:,}" if number < 10**9 else "more than a thousand million"
