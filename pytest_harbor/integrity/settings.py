"""Settings and start-up files of shells, tools, the loader and pytest, judged by what they say."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace

from pytest_harbor.environment.base import Change
from pytest_harbor.integrity import pytest_signs, signs
from pytest_harbor.integrity.loader_cache import libraries_in_cache
from pytest_harbor.integrity.packages import PackageFiles
from pytest_harbor.integrity.reading import MAX_TEXT_BYTES, BoxFiles, text_of
from pytest_harbor.integrity.startup import Judged
from pytest_harbor.integrity.watched import (
    LIBRARY_FOLDERS,
    LOADER_CACHE,
    NAME_SERVICES,
    PLAUSIBLE_MODULES,
    Watched,
)

# These run or hold for every program, asked or not: what cannot be looked at is no setting.
_VITAL = {"shell-startup", "environment-file", "loader"}
_SEARCHED = {*LIBRARY_FOLDERS, "/usr/local/lib"}
_PACKAGED_LIBRARIES = ("/usr/", "/lib", "/opt/")


class Settings:
    """Judges settings; a package's record excuses none that says something odd."""

    def __init__(self, changes: Sequence[Change], files: BoxFiles, packages: PackageFiles) -> None:
        self._added = [change.path for change in changes if change.kind == "added"]
        self._files = files
        self._packages = packages

    def judge(self, change: Change, watched: Watched) -> Judged | None:
        """The finding for one file; None where it is the image's still, or gone."""
        if change.kind == "deleted" or change.path == "/etc/ld.so.conf.d":
            return None
        content = self._content(change, vital=watched.family in _VITAL)
        before = self._before(change, watched)
        if content is not None and content == before:
            return None
        judged = self._judged(change, watched, content, before)
        return judged and replace(judged, content=content, before=before)

    def _judged(
        self, change: Change, watched: Watched, content: bytes | None, before: bytes | None
    ) -> Judged | None:
        if watched.family == "loader":
            return self._loader(change, content)
        if watched.family == "pytest-root-configuration":
            message = "lies above the tests, where pytest looks for settings"
            return Judged("pytest-configuration", "suspicious", message)
        if change.path == NAME_SERVICES:
            return self._name_services(content, before)
        if watched.family == "shadowing-module":
            return _shadowing(change, watched, content)
        return _by_content(change, watched, content, before)

    def _content(self, change: Change, *, vital: bool) -> bytes | None:
        read = self._files.read_vital if vital else self._files.read
        if not change.target:
            return read(change.path)
        return read(
            posixpath.normpath(posixpath.join(posixpath.dirname(change.path), change.target))
        )

    def _before(self, change: Change, watched: Watched) -> bytes | None:
        if change.kind == "changed":
            return self._files.original(change.path)
        if watched.family == "shell-startup":
            # A new account's home is filled from here.
            return self._files.original(f"/etc/skel/{posixpath.basename(change.path)}")
        return None

    def _name_services(self, content: bytes | None, before: bytes | None) -> Judged:
        if content is None or _is_cut(content):
            return Judged("accounts", "suspicious", "is no file that can be looked at to its end")
        reason = signs.in_name_services(
            text_of(content), text_of(before), self._is_packaged_service
        )
        if reason:
            return Judged("accounts", "suspicious", f"was changed: {reason}")
        return Judged("accounts", "information", "was changed, as packages of name services do")

    def _is_packaged_service(self, name: str) -> bool:
        for folder in LIBRARY_FOLDERS:
            place = f"{folder}/libnss_{name}.so.2"
            if place in self._added:
                library = self._files.read(place)
                return library is not None and self._packages.brought(place, library)
            if self._files.in_image(place):
                return True
        return False

    def _loader(self, change: Change, content: bytes | None) -> Judged | None:
        if change.path == LOADER_CACHE:
            return self._loader_cache(content)
        suspicious = Judged(
            "loader", "suspicious", "tells the loader what every program is run with"
        )
        preloads = change.path == "/etc/ld.so.preload"
        if preloads or content is None or not self._packages.brought(change.path, content):
            return suspicious
        lines = [line.strip() for line in text_of(content).splitlines()]
        folders = {line.rstrip("/") for line in lines if line and not line.startswith("#")}
        if any(not folder.startswith(_PACKAGED_LIBRARIES) for folder in folders):
            return suspicious
        if any(map(self._shadows, (path for path in self._added if _is_in(path, folders)))):
            return suspicious
        return Judged("loader", "information", "is a package's, and adds folders of libraries")

    def _loader_cache(self, content: bytes | None) -> Judged | None:
        """Every installed library changes it; its new places matter for the image's names."""
        try:
            known = set(libraries_in_cache(self._files.original(LOADER_CACHE) or b""))
        except ValueError:
            known = set()
        try:
            listed = set(libraries_in_cache(content or b"")) - known
        except ValueError:
            return Judged("loader", "suspicious", "is nothing that the loader writes")
        for name, path in sorted(listed):
            folder, own = posixpath.split(path)
            if (folder not in _SEARCHED or own != name) and self._shadows(name):
                return Judged("loader", "suspicious", f"gives programs {path[:200]!r} for {name}")
        return None

    def _shadows(self, path: str) -> bool:
        name = posixpath.basename(path)
        return ".so" in name and any(
            self._files.in_image(f"{folder}/{name}") for folder in LIBRARY_FOLDERS
        )


def _is_in(path: str, folders: set[str]) -> bool:
    return posixpath.dirname(path) in folders


def _shadowing(change: Change, watched: Watched, content: bytes | None) -> Judged:
    message = f"takes the place of the module {watched.name}"
    is_source = change.path.endswith(".py") and content is not None
    if watched.name not in PLAUSIBLE_MODULES or not is_source or _is_cut(content):
        return Judged("shadowing-module", "suspicious", message)
    reason = pytest_signs.in_pytest_file("conftest.py", text_of(content))
    if reason:
        return Judged("shadowing-module", "suspicious", f"{message}: {reason}")
    return Judged("shadowing-module", "information", f"has the name of the module {watched.name}")


def _by_content(
    change: Change, watched: Watched, content: bytes | None, before: bytes | None
) -> Judged:
    code = watched.family.replace("pytest-project", "pytest")
    hidden = content is None or _is_cut(content)
    if hidden and watched.family in _VITAL and change.type:
        return Judged(code, "suspicious", "is no file that can be looked at to its end")
    if content is None:
        return Judged(code, "information", "is there, and was not read")
    reason = _reason(watched, text_of(content), text_of(before))
    if reason:
        return Judged(code, "suspicious", f"was changed: {reason}")
    return Judged(code, "information", "was changed")


def _is_cut(content: bytes | None) -> bool:
    return content is not None and len(content) > MAX_TEXT_BYTES


def _reason(watched: Watched, text: str, before: str) -> str:
    if watched.family == "shell-startup":
        return signs.in_shell_file(text, before)
    if watched.family == "environment-file":
        return signs.in_environment_file(text)
    if watched.family == "installer-configuration":
        return signs.in_installer_file(text)
    if watched.family == "git":
        return signs.in_git_file(text)
    if watched.family == "accounts":
        return signs.in_accounts(text, before)
    return pytest_signs.in_pytest_file(watched.name, text)
