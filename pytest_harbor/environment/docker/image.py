"""The image of a container: found by its content, built or pulled where it is missing."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from docker.errors import APIError, ImageNotFound

from pytest_harbor.environment.docker.apptainer import dockerfile_for
from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.build import BuildRequest, build_image
from pytest_harbor.environment.docker.client import RUN_LABEL, Engine, explanation
from pytest_harbor.environment.docker.locks import locked
from pytest_harbor.environment.docker.naming import slug
from pytest_harbor.environment.docker.pull import pull_image
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.environment.image_work import ImageWork
from pytest_harbor.errors import EngineUnavailableError, ImageBuildError, ImageNotFoundError

CONTENT_LABEL = "pytest-harbor.content"

_HASH_LENGTH = 20
_digests: dict[tuple[str, int, int, int], bytes] = {}


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is on the engine.

    Attributes:
        id: Its id.
        reference: How it was asked for.
        user: Who runs a command that names nobody.
        workdir: Working folder, absolute.
        run_id: The run that built it; empty if none of ours did.
        path_folders: Folders of its ``PATH``.
        has_entrypoint: Its containers run a program of its own before the one they are given.
    """

    id: str
    reference: str
    user: str
    workdir: str
    run_id: str
    path_folders: tuple[str, ...] = ()
    has_entrypoint: bool = False

    @classmethod
    def parse(cls, reference: str, inspected: Mapping[str, Any]) -> Image:
        """Read the engine's description."""
        config = inspected.get("Config") or {}
        return cls(
            id=inspected["Id"],
            reference=reference,
            user=config.get("User") or "root",
            workdir=config.get("WorkingDir") or "/",
            run_id=(config.get("Labels") or {}).get(RUN_LABEL, ""),
            path_folders=path_folders(config),
            has_entrypoint=bool(config.get("Entrypoint")),
        )


def path_folders(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Folders of ``PATH`` in an image's or a container's ``Config``."""
    variables = [str(each) for each in config.get("Env") or ()]
    paths = [each.removeprefix("PATH=") for each in variables if each.startswith("PATH=")]
    folders = (each.rstrip("/") for path in paths[-1:] for each in path.split(":"))
    return tuple(each for each in folders if each.startswith("/"))


def ensure_image(engine: Engine, spec: ContainerSpec, deadline: Deadline) -> Image:
    """The image for ``spec``; builds or pulls it where the engine lacks it.

    Raises:
        ImageError: It cannot be had.
        EnvironmentStartTimeoutError: Not before the deadline.
    """
    if spec.builds:
        return _ensure_built(engine, spec, deadline)
    if not spec.docker_image:
        raise ImageNotFoundError(
            f"{spec.name_hint} names no image: give it an environment/Dockerfile, "
            "or set [environment].docker_image"
        )
    return ensure_pulled(engine, spec.docker_image, deadline, spec.image_work)


def find_image(engine: Engine, reference: str) -> Image | None:
    """The image if the engine has it."""
    with engine.errors(
        f"looking for image {reference}", ImageNotFoundError, EngineUnavailableError
    ):
        try:
            return Image.parse(reference, engine.api.image(reference))
        except ImageNotFound:
            return None
        except APIError as error:
            if error.status_code == 400:
                raise ImageNotFoundError(
                    f"{reference!r} is no valid image name: {explanation(error)}"
                ) from error
            raise


def ensure_pulled(
    engine: Engine, reference: str, deadline: Deadline, work: ImageWork | None = None
) -> Image:
    """A prebuilt image; pulled where the engine lacks it.

    Raises:
        ImageNotFoundError: It cannot be had.
        EnvironmentStartTimeoutError: Not before the deadline.
    """
    if image := find_image(engine, reference):
        return image
    work = work or ImageWork()
    with work.waiting(reference), locked(f"pull-{reference}", deadline):
        if image := find_image(engine, reference):
            return image
        with work.doing("pull", reference):
            pull_image(engine, reference, deadline, work.step)
    if image := find_image(engine, reference):
        return image
    raise ImageNotFoundError(f"image {reference} was pulled and is not there")


def _ensure_built(engine: Engine, spec: ContainerSpec, deadline: Deadline) -> Image:
    context = spec.context_dir
    if context is None or not (spec.definition or context / "Dockerfile").is_file():
        raise ImageBuildError(f"{context}: no Dockerfile to build {spec.name_hint} from")
    digest = content_hash(context, target_platform(engine))
    text = None if spec.definition is None else dockerfile_for(spec.definition)
    if text is not None:
        # How it is translated may change while the folder does not.
        digest = hashlib.sha256(f"{digest}\0{text}".encode()).hexdigest()[:_HASH_LENGTH]
    tag = f"pytest-harbor/{slug(spec.name_hint)}:{digest}"
    if image := usable_image(engine, tag, rebuild=spec.rebuild):
        return image
    with spec.image_work.waiting(tag), locked(f"build-{tag}", deadline):
        # Whoever held the lock before has built it.
        if image := usable_image(engine, tag, rebuild=spec.rebuild):
            return image
        labels = {**engine.labels(), CONTENT_LABEL: digest}
        request = BuildRequest(context, tag, labels, spec.log_path, spec.rebuild, spec.definition)
        with _written(text) as file, spec.image_work.doing("build", tag):
            told = replace(request, file=file, on_step=spec.image_work.step)
            build_image(engine, told, deadline)
    if image := find_image(engine, tag):
        return image
    raise ImageBuildError(f"{context}: the build succeeded, and its image is not there")


@contextmanager
def _written(text: str | None) -> Iterator[Path | None]:
    """A Dockerfile for as long as a build takes; None where the context has its own."""
    if text is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="pytest-harbor-") as folder:
        path = Path(folder) / "Dockerfile"
        path.write_text(text, encoding="utf-8")
        yield path


def usable_image(engine: Engine, tag: str, *, rebuild: bool) -> Image | None:
    """The image with this content; with ``rebuild``, only if this run built it."""
    image = find_image(engine, tag)
    if image is not None and rebuild and image.run_id != engine.run_id:
        return None
    return image


def target_platform(engine: Engine) -> str:
    """What images are built for: what ``FROM`` resolves to depends on it."""
    wanted = os.environ.get("DOCKER_DEFAULT_PLATFORM", "")
    return wanted or f"{engine.info.get('OSType')}/{engine.info.get('Architecture')}"


def content_hash(context: Path, platform: str) -> str:
    """Digest of everything in a build context that can make a difference to the image."""
    digest = hashlib.sha256(f"1\0{platform}\0".encode())
    for path, kind, content in _content(context):
        name = os.fsencode(path)
        digest.update(b"%c%d:%s%d:%s" % (kind.encode(), len(name), name, len(content), content))
    return digest.hexdigest()[:_HASH_LENGTH]


def _content(context: Path) -> Iterator[tuple[str, str, bytes]]:
    """Relative path, kind and digest of each file, link and folder, in a fixed order."""
    for where, folders, files in os.walk(context, onerror=_unreadable):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = Path(where) / name
            status = path.lstat()
            relative = path.relative_to(context).as_posix()
            if stat.S_ISLNK(status.st_mode):
                yield relative, "l", os.fsencode(os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                yield relative, "d", b""
            elif stat.S_ISREG(status.st_mode):
                kind = "x" if status.st_mode & 0o100 else "f"
                yield relative, kind, _file_digest(path, status)


def _file_digest(path: Path, status: os.stat_result) -> bytes:
    """Digest of a file; read once per process as long as its status stays the same."""
    key = (str(path), status.st_ino, status.st_size, status.st_mtime_ns)
    if key not in _digests:
        try:
            with path.open("rb") as file:
                _digests[key] = hashlib.file_digest(file, "sha256").digest()
        except OSError as error:
            _unreadable(error)
    return _digests[key]


def _unreadable(error: OSError) -> None:
    raise ImageBuildError(f"{error.filename}: cannot be read for the image's build: {error}")
