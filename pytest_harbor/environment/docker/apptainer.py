"""An ``Apptainer.def`` as a Dockerfile, so that tasks written for Apptainer run here.

The image behaves as under ``apptainer exec``: the entry point of the image below is not
run, ``%environment`` holds for every command, ``%runscript`` lies in
``/.singularity.d/runscript`` and ``%startscript`` is begun with the container.

Scripts go into the Dockerfile whole, as JSON, which no builder looks into: here-documents,
conditions over several lines and ``cd`` work as they do in the one shell of ``%post``.
"""

from __future__ import annotations

import glob
import json
import os
import posixpath
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from pytest_harbor.environment.docker.apptainer_environment import docker_quoted, environment_lines
from pytest_harbor.environment.docker.apptainer_file import DefinitionFile, Section, Stage
from pytest_harbor.errors import ImageBuildError, UnsupportedError

MAX_LINE_BYTES = 60_000
"""Builders refuse a line of a Dockerfile beyond 64 KiB."""

_SCRIPTS = "/.singularity.d"
_STAGING = "/.pytest-harbor-files"
_REFERENCE = re.compile(r"[\w./:@-]+", re.ASCII)
_BOOTSTRAPS = ("docker", "docker-daemon")
_TRANSLATED = frozenset(
    {"arguments", "environment", "files", "help", "labels", "post", "runscript", "startscript"}
)
_WHY_NOT = {
    "setup": "runs on the host",
    "pre": "runs on the host",
    "test": "is run by Apptainer after the build; write it into %post",
}


def dockerfile_for(path: Path) -> str:
    """The text of a Dockerfile that builds what a definition file describes.

    Args:
        path: The definition file; its folder is the build's context.

    Raises:
        UnsupportedError: It needs something that only Apptainer can do.
        ImageBuildError: It cannot be read, or names files that are not there.
    """
    definition = DefinitionFile.read(path)
    lines = [f"# Made from {path.name}."]
    for number, stage in enumerate(definition.stages):
        lines += _stage(definition, number, stage)
    return "\n".join(lines) + "\n"


def _stage(definition: DefinitionFile, number: int, stage: Stage) -> Iterator[str]:
    for section in stage.sections:
        if section.name not in _TRANSLATED:
            reason = _WHY_NOT.get(section.name, "has no counterpart in a Docker image")
            raise UnsupportedError(f"{definition.at(section.line)}: %{section.name} {reason}")
    is_last = stage is definition.stages[-1]
    yield f"FROM {_base(definition, stage)}" + (f" AS {stage.name}" if stage.name else "")
    yield "USER root"
    for index, section in enumerate(stage.all("files")):
        yield from _files(definition, section, f"{_STAGING}/{number}-{index}")
    for section in stage.all("post"):
        yield from _post(definition, section)
    for section in stage.all("environment"):
        yield from environment_lines(section, definition.at)
    for section in stage.all("labels"):
        yield from _labels(section)
    if is_last:
        yield from _scripts(definition, stage)


def _base(definition: DefinitionFile, stage: Stage) -> str:
    bootstrap = stage.header.get("bootstrap", "")
    if bootstrap.lower() not in _BOOTSTRAPS:
        raise UnsupportedError(
            f"{definition.at(stage.line)}: Bootstrap: {bootstrap or '(none)'} cannot be built by a "
            f"Docker engine; expected {' or '.join(_BOOTSTRAPS)}"
        )
    parts = [stage.header.get(key, "") for key in ("registry", "namespace", "from")]
    reference = "/".join(part.strip("/") for part in parts if part)
    if not stage.header.get("from") or not _REFERENCE.fullmatch(reference):
        raise ImageBuildError(
            f"{definition.at(stage.line)}: From: {reference!r} is no name of an image"
        )
    return reference


def _post(definition: DefinitionFile, section: Section) -> Iterator[str]:
    if re.search(r"\b(APPTAINER|SINGULARITY)_ENVIRONMENT\b", section.text):
        raise UnsupportedError(
            f"{definition.at(section.line)}: %post adds to the environment while it builds; "
            "write the variables into %environment"
        )
    shell = ["/bin/sh", "-ex"]
    words = section.arguments.split("#")[0].split()
    if words[:1] == ["-c"] and len(words) > 1:
        shell = words[1:]
    yield _run(definition, section.line, [*shell, "-c", f"cd /\n{section.text}"])


def _files(definition: DefinitionFile, section: Section, staging: str) -> Iterator[str]:
    """Copy to a folder apart, then as Apptainer does, for which ``cp`` knows what is there."""
    words = section.arguments.split("#")[0].split()
    stage = words[1].lower() if len(words) == 2 and words[0].lower() == "from" else ""
    moves = ["set -e"]
    for line, text in section.lines:
        pair = _pair(definition, line, text)
        if not pair:
            continue
        target = posixpath.normpath("/" + pair[-1].lstrip("/"))
        target += "/" if pair[-1].endswith("/") else ""
        sources = [pair[0]] if stage else _on_this_machine(definition, line, pair[0])
        for source in sources:
            staged = f"{staging}/{len(moves)}/{posixpath.basename(source.rstrip('/')) or 'root'}"
            yield _copy(source, staged, stage)
            folder = target if target.endswith("/") or len(sources) > 1 else _parent(target)
            moves.append(f"mkdir -p {shlex.quote(folder)}")
            moves.append(f"cp -Rf {shlex.quote(staged)} {shlex.quote(target)}")
    if len(moves) > 1:
        moves.append(f"rm -rf {_STAGING}")
        yield _run(definition, section.line, ["/bin/sh", "-c", "\n".join(moves)])


def _pair(definition: DefinitionFile, line: int, text: str) -> list[str]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise ImageBuildError(f"{definition.at(line)}: {text.strip()!r}: {error}") from None
    if len(words) > 2:
        raise ImageBuildError(
            f"{definition.at(line)}: expected a source and a target, got {text.strip()!r}; "
            "quote names with spaces"
        )
    return words


def _on_this_machine(definition: DefinitionFile, line: int, pattern: str) -> list[str]:
    """Files of the build's context that a pattern names."""
    clean = posixpath.normpath(pattern)
    if clean.startswith(("/", "../")) or clean == "..":
        raise UnsupportedError(
            f"{definition.at(line)}: {pattern} lies outside of the task's folder environment/, "
            "which is all that a build can read"
        )
    folder = definition.path.parent
    found = sorted(glob.glob(clean, root_dir=folder))
    if not found and os.path.lexists(folder / clean):
        found = [clean]
    if not found:
        raise ImageBuildError(f"{definition.at(line)}: {pattern}: no such file in {folder}")
    return found


def _copy(source: str, target: str, stage: str) -> str:
    # COPY takes a folder's content, and patterns: a class of one character is that character.
    plain = re.sub(r"[*?\[]", r"[\g<0>]", source) if not stage else source
    origin = f"--from={stage} " if stage else ""
    words = (word.replace("\\", "\\\\").replace("$", "\\$") for word in (plain, target))
    return f"COPY {origin}{json.dumps(list(words))}"


def _parent(path: str) -> str:
    return posixpath.dirname(path.rstrip("/")) or "/"


def _labels(section: Section) -> Iterator[str]:
    for _line, text in section.lines:
        words = text.split(None, 1)
        if words and not words[0].startswith("#"):
            value = words[1].strip() if len(words) > 1 else ""
            yield f"LABEL {docker_quoted(words[0])}={docker_quoted(value)}"


def _scripts(definition: DefinitionFile, stage: Stage) -> Iterator[str]:
    for name in ("runscript", "startscript"):
        for section in stage.all(name):
            text = section.text if section.text.startswith("#!") else f"#!/bin/sh\n{section.text}"
            place = f"{_SCRIPTS}/{name}"
            write = f'mkdir -p {_SCRIPTS} && printf %s "$1" > {place} && chmod 755 {place}'
            yield _run(definition, section.line, ["/bin/sh", "-c", write, name, text])
    start = [f'{_SCRIPTS}/startscript & exec "$@"', "startscript"]
    entry = ["/bin/sh", "-c", *start] if stage.all("startscript") else []
    yield f"ENTRYPOINT {json.dumps(entry)}"


def _run(definition: DefinitionFile, line: int, arguments: list[str]) -> str:
    written = f"RUN {json.dumps(arguments, ensure_ascii=False)}"
    if len(written.encode()) > MAX_LINE_BYTES:
        raise UnsupportedError(
            f"{definition.at(line)}: the section is longer than {MAX_LINE_BYTES} bytes, which no "
            "builder takes as one command; put it into a script and copy that with %files"
        )
    return written
