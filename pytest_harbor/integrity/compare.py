"""A box's changes since its image → findings, and what a fresh box takes from the image again.

An honest trial pays for the list of changes alone: a file is read where its name alone
makes it suspicious, and what judges texts is imported for the first of them.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_harbor.environment.base import Change, Environment
from pytest_harbor.errors import HarborError
from pytest_harbor.integrity.environments import is_large_program, is_of_environment
from pytest_harbor.integrity.packages import PackageFiles
from pytest_harbor.integrity.planted import PLACES, planted_findings
from pytest_harbor.integrity.reading import MAX_READ, BoxFiles, text_of
from pytest_harbor.integrity.watched import (
    ALTERNATIVES,
    LIBRARY_FOLDERS,
    NAME_SERVICES,
    OPTIONAL_FOLDERS,
    PATH_FOLDERS,
    TEST_MODULES,
    Watched,
    holds_code,
    is_path_folder,
    is_watched_program,
    package_folder,
    watch,
)
from pytest_harbor.result.integrity import IntegrityFinding, Level
from pytest_harbor.task.layout import LOGS_DIR, SOLUTION_DIR, TESTS_DIR

if TYPE_CHECKING:
    from pytest_harbor.integrity.settings import Settings
    from pytest_harbor.integrity.startup import Judged, PythonStartup

_UNCHECKED_PYC = b"\x01\x00\x00\x00"
_HELD = (TESTS_DIR, LOGS_DIR, SOLUTION_DIR)


@dataclass(slots=True)
class Comparison:
    """What the comparison came to.

    Attributes:
        findings: All of them.
        restore: Files that a fresh box has as the image has them.
        remove: Files that a fresh box lacks.
        unseen: What could not be looked at.
    """

    findings: list[IntegrityFinding] = field(default_factory=list)
    restore: list[str] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)


def compare(
    changes: Sequence[Change], environment: Environment, tests: Collection[str] = ()
) -> Comparison:
    """Judge every change that a verifier may rely on.

    Args:
        changes: Since the image.
        environment: Where they are.
        tests: Paths that the task's tests will have.

    Raises:
        EnvironmentLostError: The box is gone.
    """
    judge = _Judge(changes, environment)
    judge.judge()
    return judge.result(tests)


class _Judge:
    def __init__(self, changes: Sequence[Change], environment: Environment) -> None:
        self._changes = [change for change in changes if change.type != "folder"]
        self._added = {change.path for change in changes if change.kind == "added"}
        self._all = changes
        self._startup: PythonStartup | None = None
        self._settings: Settings | None = None
        self._workdir = environment.workdir
        self._path = tuple(environment.path_folders)
        self._files = BoxFiles(environment, self._added)
        self._packages = PackageFiles(changes, self._files)
        self._result = Comparison()

    def judge(self) -> None:
        for change in self._changes:
            self._judge_link(change)
            watched = watch(change.path, self._workdir) or self._in_path(change.path)
            if watched is not None:
                self._judge_safely(change, watched)
        for path in self._packages.unreadable:
            message = f"{path} is no package database"
            self._result.findings.append(
                IntegrityFinding("unreadable", "suspicious", message, path)
            )

    def result(self, tests: Collection[str]) -> Comparison:
        self._result.findings += planted_findings(self._changes, tests, self._files.read)
        if self._files.reads > MAX_READ:
            self._result.unseen.append(
                f"{self._files.reads - MAX_READ} of the files that a verifier may rely on: too many"
            )
        self._result.findings.sort(key=lambda found: found.level != "suspicious")
        return self._result

    def _in_path(self, path: str) -> Watched | None:
        folder, name = posixpath.split(path)
        found = folder in self._path and is_watched_program(name)
        return Watched("program", name) if found else None

    def _judge_link(self, change: Change) -> None:
        if change.path in PLACES:
            return
        if change.type == "link" and change.kind == "changed" and holds_code(change.path):
            message = f"is a link to {change.target[:200]!r} now; programs or settings are there"
            self._add(change, "path-shadow", "suspicious", message)
        elif change.target:
            folder = posixpath.dirname(change.path)
            target = posixpath.normpath(posixpath.join(folder, change.target))
            if _is_in(target, _HELD) and not _is_in(change.path, _HELD):
                message = f"is a link to {change.target!r}, where the verifier's files are"
                self._add(change, "link-to-verifier", "suspicious", message)

    def _judge_safely(self, change: Change, watched: Watched) -> None:
        """Judge one change; what a judge stumbles over was put there, and ends no trial."""
        try:
            self._judge_one(change, watched)
        except HarborError:
            raise
        except Exception as error:  # noqa: BLE001
            message = f"cannot be read as what it is: {type(error).__name__}"
            self._add(change, "unreadable", "suspicious", message)

    def _judge_one(self, change: Change, watched: Watched) -> None:
        judges: dict[str, Callable[[Change, Watched], None]] = {
            "program": self._program,
            "library": self._library,
            "python-module": self._file_of_image,
            "python-cache": self._python_cache,
            "python-startup": self._python_startup,
            "plugin-entry": self._plugin_entry,
            "installer-cache": self._installer_cache,
            "cron": self._told,
        }
        judges.get(watched.family, self._setting)(change, watched)

    def _program(self, change: Change, watched: Watched) -> None:
        if posixpath.dirname(change.path) == ALTERNATIVES and change.target:
            self._alternative(change, watched)
        elif change.kind == "added":
            self._new_program(change, watched)
        else:
            self._file_of_image(change, watched)

    def _alternative(self, change: Change, watched: Watched) -> None:
        """A choice among programs of one kind, as of gawk for awk."""
        place = posixpath.normpath(posixpath.join(ALTERNATIVES, change.target))
        kinds = {"cc": ("gcc", "clang", "tcc")}.get(watched.name, (watched.name,))
        alike = any(kind in posixpath.basename(place) for kind in kinds)
        if change.kind == "added":
            return  # the link that leads here is judged
        if alike and (place not in self._added or self._brought(change, None)):
            self._add(change, "new-program", "information", f"leads to {place[:200]!r} now")
        else:
            message = f"leads to {place[:200]!r} now"
            self._add(change, "replaced-program", "suspicious", message)

    def _new_program(self, change: Change, watched: Watched) -> None:
        folder = posixpath.dirname(change.path)
        new_folder, in_path = folder in self._added, folder in self._path
        unusual = not in_path and (folder in OPTIONAL_FOLDERS and new_folder)
        if unusual or not (in_path or is_path_folder(folder)):
            return
        content = self._files.read(change.path)
        if self._brought(change, content):
            self._brought_twice(change, watched)
            return
        if is_of_environment(change, self._added, self._path, self._files):
            self._add(change, "new-program", "information", "is a virtual environment's, or uv's")
            return
        if watched.name in ("uv", "uvx") and is_large_program(content):
            self._add(change, "new-program", "information", "is new")
        elif self._shadows(folder, watched.name):
            message = f"is new and stands in PATH before the image's own {watched.name}"
            self._add(change, "path-shadow", "suspicious", message, content)
        elif self._packages.is_other:
            self._add(change, "new-program", "information", "is new")
        elif watched.name in ("pytest", "py.test", "uv", "uvx", "pip", "pip3", "curl", "wget"):
            message = f"is new, and no package brought it: verifiers run {watched.name}"
            self._add(change, "path-shadow", "suspicious", message, content)
        else:
            self._add(change, "new-program", "information", "is new")

    def _brought_twice(self, change: Change, watched: Watched) -> None:
        """The box's lists of packages are the agent's to write: a fresh box does without it."""
        folder = posixpath.dirname(change.path)
        if folder in self._added or not self._shadows(folder, watched.name):
            self._add(change, "new-program", "information", "is new, and a package's")
        else:
            message = f"is a package's, and stands in PATH before the image's own {watched.name}"
            self._add(change, "path-shadow", "information", message)
            self._result.remove.append(change.path)

    def _library(self, change: Change, watched: Watched) -> None:
        if change.kind != "added":
            self._file_of_image(change, watched)
        elif change.path.startswith("/usr/local/lib") or "/glibc-hwcaps/" in change.path:
            if "/glibc-hwcaps/" in change.path and self._brought(
                change, self._files.read(change.path)
            ):
                return
            places = (f"{folder}/{watched.name}" for folder in LIBRARY_FOLDERS)
            if any(self._files.in_image(place) for place in places):
                message = f"is new and is found before the image's own {watched.name}"
                self._add(change, "replaced-library", "suspicious", message)

    def _brought(self, change: Change, content: bytes | None) -> bool:
        """Whether a package brought a file, or that which a link leads to, as uv's tools are."""
        if self._packages.brought(change.path, content):
            return True
        if not change.target:
            return False
        place = posixpath.normpath(posixpath.join(posixpath.dirname(change.path), change.target))
        return place in self._added and self._packages.brought(place, self._files.read(place))

    def _shadows(self, folder: str, name: str) -> bool:
        order = self._path if folder in self._path else PATH_FOLDERS
        later = order.index(folder) + 1 if folder in order else 0
        for other in order[later:]:
            place = f"{other}/{name}"
            if place not in self._added and self._files.in_image(place):
                return True
        return False

    def _file_of_image(self, change: Change, watched: Watched) -> None:
        """A program, library or module that the image brings, or that test tools look for."""
        if change.kind == "added":
            self._new_module(change, watched)
            return
        if change.kind == "deleted":
            self._deleted(change)
            return
        content, before = self._files.read(change.path), self._files.original(change.path)
        if content is not None and content == before:
            return
        kinds = {"program": "replaced-program", "library": "replaced-library"}
        code = kinds.get(watched.family, "changed-module")
        if self._packages.brought(change.path, content):
            self._add(change, "upgraded", "information", "was upgraded by a package", content)
            self._restore_upgraded(change)
        elif self._packages.is_other:
            message = "is another than the image's, whose kind of packages is not read"
            self._add(change, code, "information", message, content, before)
        else:
            self._add(change, code, "suspicious", "is not the image's any more", content, before)

    def _new_module(self, change: Change, watched: Watched) -> None:
        packages, first = package_folder(change.path)
        if watched.family != "python-module" or first.partition(".")[0] not in TEST_MODULES:
            return
        content = self._files.below(f"{packages}/{first}", change.path)
        if content is None:
            content = self._files.read(change.path)
        if not self._packages.brought(change.path, content):
            message = f"is new in {packages}, and no package brought it so"
            self._add(change, "changed-module", "suspicious", message)
        elif change.path in (f"{packages}/{first}", f"{packages}/{first}/__init__.py"):
            self._add(change, "changed-module", "information", "is new, and a package's")

    def _deleted(self, change: Change) -> None:
        dropped = self._packages.dropped(change.path)
        if dropped == "upgraded":
            # What has the image's version again needs what that version came with.
            self._add(change, "upgraded", "information", "went with a newer version of its package")
            self._restore_upgraded(change)
        elif dropped or self._packages.is_other:
            self._add(change, "removed", "information", "was removed, as with a package")
        else:
            self._add(change, "removed", "suspicious", "is gone")

    def _restore_upgraded(self, change: Change) -> None:
        if not self._packages.is_of_conda(change.path):
            self._result.restore.append(change.path)

    def _python_cache(self, change: Change, watched: Watched) -> None:
        if change.kind == "deleted":
            return
        place = self._result.restore if change.kind == "changed" else self._result.remove
        place.append(change.path)
        if watched.name not in TEST_MODULES and change.kind == "added":
            return
        content = self._files.read(change.path)
        if content is not None and content[4:8] == _UNCHECKED_PYC:
            message = "is compiled code that Python takes without a look at its source"
            self._add(change, "unchecked-cache", "suspicious", message, content)

    def _python_startup(self, change: Change, watched: Watched) -> None:
        from pytest_harbor.integrity.startup import PythonStartup

        if change.kind == "deleted":
            return
        if "/__pycache__/" in change.path:
            # Without a source beside it, it is nothing; with one, that is judged.
            self._python_cache(change, Watched("python-cache", "pytest"))
            return
        if self._startup is None:
            self._startup = PythonStartup(self._all, self._files, self._packages)
        self._add_judged(change, self._startup.judge(change))

    def _plugin_entry(self, change: Change, watched: Watched) -> None:
        from pytest_harbor.integrity import pytest_signs

        content = None if change.kind == "deleted" else self._files.read(change.path)
        modules = pytest_signs.plugin_modules(text_of(content))
        folder = posixpath.dirname(posixpath.dirname(change.path))
        for module in modules:
            place = f"{folder}/{module.partition(':')[0].replace('.', '/')}"
            source = self._files.read(f"{place}.py") or self._files.read(f"{place}/__init__.py")
            by_package = self._packages.brought(change.path, content)
            message = f"makes {module[:80]!r} a plugin of pytest"
            if not by_package or source is None or b"/logs/verifier" in source:
                self._add(change, "pytest-plugin", "suspicious", message, content)
            else:
                self._add(change, "pytest-plugin", "information", message)

    def _setting(self, change: Change, watched: Watched) -> None:
        from pytest_harbor.integrity.settings import Settings

        if self._settings is None:
            self._settings = Settings(self._changes, self._files, self._packages)
        judged = self._settings.judge(change, watched)
        self._add_judged(change, judged)
        if judged is not None and change.path == NAME_SERVICES:
            # Packages that change it are listed where the agent may write.
            self._result.restore.append(change.path)

    def _installer_cache(self, change: Change, watched: Watched) -> None:
        if change.kind == "added" and posixpath.dirname(change.path) not in self._added:
            self._result.remove.append(change.path)
        top = watched.name if watched.name in self._added else ""
        if top and top not in self._result.remove:
            self._result.remove.append(top)

    def _told(self, change: Change, watched: Watched) -> None:
        if change.kind != "deleted":
            self._add(change, watched.family, "information", "was changed")

    def _add_judged(self, change: Change, judged: Judged | None) -> None:
        if judged is not None:
            parts = (judged.message, judged.content, judged.before)
            self._add(change, judged.code, judged.level, *parts)

    def _add(
        self,
        change: Change,
        code: str,
        level: Level,
        message: str,
        content: bytes | None = None,
        before: bytes | None = None,
    ) -> None:
        finding = IntegrityFinding(
            code, level, f"{change.path} {message}", change.path, _sha256(before), _sha256(content)
        )
        self._result.findings.append(finding)
        if level == "suspicious":
            place = self._result.remove if change.kind == "added" else self._result.restore
            place.append(change.path)
            if code in ("loader", "replaced-library"):
                # What was found there is remembered in it.
                self._result.restore.append("/etc/ld.so.cache")


def _is_in(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _sha256(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()
