"""What images are built from, and whether the build can give the same again."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_harbor.check.compose import services
from pytest_harbor.check.dockerfile import Dockerfile, Instruction, Stage
from pytest_harbor.check.finding import Check, Found
from pytest_harbor.check.rules import HouseRules
from pytest_harbor.check.subject import Subject

CHECKS = (
    Check(
        "unpinned-image",
        "the image behind the name changes, and the task with it",
        "write a version as tag, better the digest too: name:1.2@sha256:…",
    ),
    Check(
        "fixed-platform",
        "the image runs by emulation on other machines, or not at all",
        "leave --platform out, or ask for it in the run",
        "warning",
    ),
    Check(
        "base-image",
        "the house allows only certain images to build from",
        "take one from harbor_check_base_images",
        house=True,
    ),
    Check(
        "missing-source",
        "the build fails: its context lacks the file",
        "add the file (.gitignore may have swallowed it), or correct the path",
    ),
    Check(
        "pinned-apt",
        "Debian's mirrors drop old versions, and the build fails some day",
        "leave the version out and pin the image's digest",
        "warning",
    ),
    Check(
        "apt-without-update",
        "the lists of an image's packages are missing or old",
        "write apt-get update && apt-get install in one RUN",
        "warning",
    ),
    Check(
        "no-workdir",
        "the script ends without a reward, whatever the agent did",
        "write WORKDIR, or workdir under [environment]",
        "warning",
    ),
)

_TAG = re.compile(r":([\w][\w.-]*)$")
_MOVING = frozenset(
    {"latest", "stable", "edge", "nightly", "main", "master", "dev", "rolling", "lts"}
)
_NO_IMAGE = frozenset({"scratch", ""})
_GUARD = re.compile(r"[$](?:PWD|[{]PWD[}]|[(]pwd[)])[\"']?\s*=+\s*[\"']?/[\"']?\s")
_GLOB = re.compile(r"[*?\[]")


def find(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    """What is wrong with the images that the task builds and takes."""
    for dockerfile in subject.dockerfiles:
        yield from _stages(dockerfile, rules)
        yield from _sources(subject, dockerfile)
        yield from _apt(dockerfile)
    yield from _no_workdir(subject)
    yield from _taken(subject, rules)


def _stages(dockerfile: Dockerfile, rules: HouseRules) -> Iterator[Found]:
    earlier: set[str] = set()
    for stage in dockerfile.stages:
        if stage.image.lower() not in earlier and stage.image not in _NO_IMAGE:
            yield from _image(stage.image, dockerfile.path, stage.line, rules)
        if stage.platform and "$" not in stage.platform:
            yield _platform(stage, dockerfile.path)
        earlier.add(stage.name)


def _platform(stage: Stage, path: Path) -> Found:
    return Found("fixed-platform", f"FROM --platform={stage.platform}", path, stage.line)


def _image(
    image: str, path: Path, line: int | None, rules: HouseRules, field: str = ""
) -> Iterator[Found]:
    if "$" in image:
        return
    fault = _pin_fault(image, rules.digests)
    if fault:
        yield Found("unpinned-image", f"{image}: {fault}", path, line, field)
    allowed = rules.base_images
    if allowed and not any(fnmatch.fnmatchcase(image, pattern) for pattern in allowed):
        yield Found("base-image", f"{image} is none of {', '.join(allowed)}", path, line, field)


def _pin_fault(image: str, digests: bool) -> str:
    if "@sha256:" in image:
        return ""
    tag = _TAG.search(image.rpartition("/")[2])
    if tag is None:
        return "no tag, so the latest"
    if tag[1] in _MOVING:
        return f"the tag {tag[1]} moves"
    return "no digest, which harbor_check_digests asks for" if digests else ""


def _taken(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    """Images that ``task.toml`` and compose files name."""
    for location, image in _image_fields(subject.data):
        line = subject.line_of(*location)
        yield from _image(image, subject.task.config_file, line, rules, ".".join(location))
    for path in subject.compose_files:
        for service in services(subject.text(path) or ""):
            named = service.table.get("image")
            if isinstance(named, str) and "build" not in service.table:
                yield from _image(named, path, service.line, rules)


def _image_fields(data: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    for location in (("environment",), ("verifier", "environment")):
        table: Any = data
        for key in location:
            table = table.get(key, {}) if isinstance(table, dict) else {}
        name = table.get("docker_image") if isinstance(table, dict) else None
        if isinstance(name, str):
            yield (*location, "docker_image"), name


def _sources(subject: Subject, dockerfile: Dockerfile) -> Iterator[Found]:
    """Files that are copied in and are not in the build's folder."""
    if subject.compose_files:
        return  # its `context` may be another folder
    folder = dockerfile.path.parent
    for one in dockerfile.of("COPY", "ADD"):
        if "from" in one.flags or one.heredoc:
            continue
        for source in one.words[:-1]:
            if not _is_there(folder, source):
                message = f"{one.keyword} {source}: not in {folder.name}/"
                yield Found("missing-source", message, dockerfile.path, one.line)


def _is_there(folder: Path, source: str) -> bool:
    if "$" in source or "://" in source or source.startswith(("git@", "<<")):
        return True
    clean = PurePosixPath("/", source).relative_to("/").as_posix()
    if _GLOB.search(clean):
        return True  # optional by many authors' habit, and Docker itself will tell
    try:
        return (folder / clean).exists()
    except (OSError, ValueError):
        return False


def _apt(dockerfile: Dockerfile) -> Iterator[Found]:
    is_updated = False
    for one in dockerfile.of("FROM", "RUN"):
        if one.keyword == "FROM":
            is_updated = False
            continue
        text = f"{one.value}\n{one.heredoc}"
        is_updated |= "update" in text
        if re.search(r"\bapt(?:-get)?\b[^|;&]*\binstall\b", text):
            yield from _apt_install(one, dockerfile.path, text, is_updated)


def _apt_install(one: Instruction, path: Path, text: str, is_updated: bool) -> Iterator[Found]:
    if not is_updated and not re.search(r"install\s+(?:-\S+\s+)*\.?/", text):
        yield Found("apt-without-update", "apt-get install without an update", path, one.line)
    for offset, line in enumerate(one.value.splitlines()):
        for match in re.finditer(
            r"(?<![\w=.\[-])([a-z0-9][a-z0-9+.-]+)=([\w:.+~-]*\d[\w:.+~*-]*)", line
        ):
            if "install" in one.value and "pip" not in line and "--" not in line:
                yield Found("pinned-apt", match[0], path, one.line + offset)


def _no_workdir(subject: Subject) -> Iterator[Found]:
    """Only where a test script refuses to run in ``/``."""
    if subject.task.config.environment.workdir or subject.compose_files:
        return
    guards = [path for path in subject.test_scripts if _GUARD.search(subject.text(path) or "")]
    for dockerfile in subject.dockerfiles if guards else ():
        is_where_tests_run = subject.task.verifier_mode() == "shared" or (
            dockerfile.path.parent == subject.task.tests_dir
        )
        if is_where_tests_run and dockerfile.workdir is None and _is_official(dockerfile):
            message = f"no WORKDIR, and {guards[0].name} refuses to run in /"
            line = dockerfile.instructions[-1].line
            yield Found("no-workdir", message, dockerfile.path, line)


def _is_official(dockerfile: Dockerfile) -> bool:
    """Built from an image that is known to start programs in ``/``."""
    stages = dockerfile.stages
    name = re.split(r"[:@]", stages[-1].image.rpartition("/")[2])[0] if stages else ""
    return name in ("alpine", "debian", "fedora", "node", "python", "ubuntu")
