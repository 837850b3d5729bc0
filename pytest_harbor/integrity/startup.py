"""What runs whenever Python starts, judged before all else: nothing may crowd it out."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_harbor.environment.base import Change
from pytest_harbor.integrity import startup_signs
from pytest_harbor.integrity.packages import PackageFiles
from pytest_harbor.integrity.reading import MAX_TEXT_BYTES, BoxFiles
from pytest_harbor.integrity.watched import STARTUP_MODULES, package_folder
from pytest_harbor.result.integrity import Level


@dataclass(frozen=True, slots=True)
class Judged:
    """What a file came to.

    Attributes:
        code: The finding's.
        level: The finding's.
        message: What is said of the file, without its path.
        content: What was found, as evidence.
        before: What the image has.
    """

    code: str
    level: Level
    message: str
    content: bytes | None = None
    before: bytes | None = None


class PythonStartup:
    """Judges ``.pth`` files and customisations; packages excuse them only as far as known tools go.

    Whoever can write such a file can write a package's record of it, too.
    """

    def __init__(self, changes: Sequence[Change], files: BoxFiles, packages: PackageFiles) -> None:
        self._changes = changes
        self._added = {change.path for change in changes if change.kind == "added"}
        self._files = files
        self._packages = packages

    def judge(self, change: Change) -> Judged | None:
        """The finding for one file; None where it is the image's still."""
        content = self._files.read_vital(change.path)
        changed = change.kind == "changed" and content is not None
        if changed and content == self._files.original(change.path):
            return None
        if not change.path.endswith((".pth", "._pth")):
            return self._customisation(change, content)
        if content is None or len(content) > MAX_TEXT_BYTES:
            message = "runs with Python, and is no file that can be looked at"
            return Judged("python-startup", "suspicious", message)
        text = content.decode("utf-8", "replace")
        reason = startup_signs.in_pth(text) or self._runs(change.path, text)
        if reason:
            return Judged("python-startup", "suspicious", f"runs with Python: {reason}")
        return Judged("python-path", "information", "adds to Python's path")

    def _customisation(self, change: Change, content: bytes | None) -> Judged | None:
        target = posixpath.basename(change.target).partition(".")[0]
        if change.type == "link" and target in STARTUP_MODULES:
            place = posixpath.join(posixpath.dirname(change.path), change.target)
            content = self._files.read_vital(posixpath.normpath(place))
        harmless = content is not None and startup_signs.is_harmless_customisation(content)
        if harmless and not any(self._files_of("apport_python_hook")):
            return Judged("python-startup", "information", "is what Debian's Python comes with")
        return Judged("python-startup", "suspicious", "runs whenever Python starts")

    def _runs(self, path: str, text: str) -> str:
        folder = posixpath.dirname(path)
        if self._in_own_environment(path):
            return ""
        for module in startup_signs.modules_of_pth(text):
            if module.startswith("__editable__"):
                reason = self._finder(folder, module)
            else:
                reason = self._tool(module)
            if reason:
                return reason
        return ""

    def _in_own_environment(self, path: str) -> bool:
        """Whether a file lies in a virtual environment that the image has nothing of.

        Its interpreter is the agent's as much as this file: nothing is gained by it.
        """
        packages, _ = package_folder(path)
        prefix = posixpath.dirname(posixpath.dirname(posixpath.dirname(packages)))
        return prefix in self._added and f"{prefix}/pyvenv.cfg" in self._added

    def _finder(self, folder: str, module: str) -> str:
        own = f"{folder}/{module}.py"
        cache = f"{folder}/__pycache__/{module}."
        for place in self._files_of(module):
            if place != own and not (place.startswith(cache) and place.endswith(".pyc")):
                return f"its finder {place[:200]!r} is none that setuptools writes"
        content = self._files.read_vital(own)
        if content is None or len(content) > MAX_TEXT_BYTES:
            return "its finder is no file that can be looked at"
        return startup_signs.in_editable_finder(content.decode("utf-8", "replace"))

    def _tool(self, module: str) -> str:
        for place in self._files_of(module):
            if place.endswith(".pyc") and "/__pycache__/" in place:
                continue
            content = self._files.read_vital(place)
            if content is None or not self._packages.brought(place, content):
                return f"{place[:200]!r} came with no package"
        return ""

    def _files_of(self, module: str) -> Iterator[str]:
        """Changed files that Python may take for a module, wherever they lie."""
        for change in self._changes:
            if module not in change.path or change.kind == "deleted":
                continue
            folder, name = posixpath.split(change.path)
            stem = name.partition(".")[0]
            if change.type == "folder":
                continue
            inside = posixpath.basename(folder) == module and stem in ("__init__", "override")
            if stem == module or inside:
                yield change.path
