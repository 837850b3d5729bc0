"""What changed in a box while a verifier worked in it: by the verifier, or by what ran on?

Verifiers install their tools and lay out their files where they like. What packages bring is
known from their databases, as before grading. What the tests hold or name is the verifier's.
Links into its folders lead nowhere: it has those folders to itself.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_harbor.integrity import planted
from pytest_harbor.result.integrity import IntegrityFinding

_MAX_FILES = 500
_MAX_BYTES = 1024 * 1024

_HARMLESS = {*planted.CODES, "link-to-verifier"}
# Files that scripts write by their name or by a tool. Programs are no part of this: every
# script names some.
_WRITTEN = {
    "pytest-configuration",
    "shadowing-module",
    "shell-startup",
    "environment-file",
    "installer-configuration",
    "git",
}
_TOOLS = {
    "pip.conf": r"pip3? config",
    ".npmrc": r"npm config",
    ".gitconfig": r"git config",
    "config": r"git config",
}


def late_findings(
    known: Sequence[IntegrityFinding], later: Sequence[IntegrityFinding], tests: Sequence[Path]
) -> Iterator[IntegrityFinding]:
    """Findings that were not there before grading and that the verifier has no part in.

    Args:
        known: Of before.
        later: Of after.
        tests: Folders of the tests on this machine.
    """
    # What was harmless then, or had another content, may have been swapped meanwhile.
    before = {(one.code, one.path, one.found) for one in known if one.level == "suspicious"}
    fresh = [
        one
        for one in later
        if one.level == "suspicious"
        and one.code not in _HARMLESS
        and (one.code, one.path, one.found) not in before
    ]
    if not fresh:
        return
    held = [data for folder in tests for data in _contents(folder)]
    digests = {hashlib.sha256(data).hexdigest() for data in held}
    for one in fresh:
        if one.found in digests or _is_named(one, held):
            yield replace(
                one, level="information", message=f"{one.message} (as the tests do while they run)"
            )
        else:
            yield replace(one, message=f"{one.message} (while it was graded)")


def _is_named(finding: IntegrityFinding, texts: Sequence[bytes]) -> bool:
    name = posixpath.basename(finding.path)
    wanted = [rf"(?<![\w./-]){re.escape(finding.path)}(?![\w/-])"]
    if finding.code in _WRITTEN:
        wanted += [rf"(?<![\w.-]){re.escape(name)}(?![\w-])", *filter(None, [_TOOLS.get(name)])]
    pattern = re.compile("|".join(wanted).encode())
    return any(pattern.search(text) for text in texts)


def _contents(folder: Path) -> Iterator[bytes]:
    left = _MAX_FILES
    for where, _, names in os.walk(folder):
        for name in sorted(names):
            path = Path(where, name)
            left -= 1
            if left < 0:
                return
            try:
                if not path.is_symlink() and path.stat().st_size <= _MAX_BYTES:
                    yield path.read_bytes()
            except OSError:
                continue
