"""The images of a compose project: built once per content, never by each trial."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_harbor.environment.docker.attach import Deadline, DeadlinePassedError
from pytest_harbor.environment.docker.build_log import BuildLog
from pytest_harbor.environment.docker.buildx import run_logged
from pytest_harbor.environment.docker.capabilities import extra_hosts
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.compose_cli import ComposeCli, dump_model
from pytest_harbor.environment.docker.compose_model import MAIN
from pytest_harbor.environment.docker.image import (
    CONTENT_LABEL,
    Image,
    content_hash,
    ensure_image,
    ensure_pulled,
    find_image,
    target_platform,
    usable_image,
)
from pytest_harbor.environment.docker.installed import with_layers
from pytest_harbor.environment.docker.locks import locked
from pytest_harbor.environment.docker.naming import slug
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.errors import (
    EnvironmentStartTimeoutError,
    ImageBuildError,
    ImageError,
    ImageNotFoundError,
)

_HASH_LENGTH = 20

# Names for images of this machine, and caches on it: neither is a task's to choose.
_LEFT_OUT = ("tags", "cache_from", "cache_to")


@dataclass(frozen=True, slots=True)
class ImageMaker:
    """Finds, builds and pulls the images of one project.

    Attributes:
        engine: Where they are.
        cli: Compose, which builds what has more settings than a folder.
        spec: The task's, for ``main``.
        folder: Private folder for the files that compose reads.
        main_name: What the task's file calls the image of ``main``.
    """

    engine: Engine
    cli: ComposeCli
    spec: ContainerSpec
    folder: Path
    main_name: str

    def ensure_all(self, model: dict[str, Any], deadline: Deadline) -> Image:
        """Have every image, and name it in ``model`` in place of its build.

        Returns:
            The image of ``main``, without what is installed on top of it.

        Raises:
            ImageError: One cannot be had; names the service.
            EnvironmentStartTimeoutError: Not before the deadline.
        """
        services = model["services"]
        built: dict[str, str] = {}
        for name in sorted(services, key=lambda name: name != MAIN):
            service = services[name]
            if self._is_prebuilt(name, service):
                service.pop("build", None)
            if "build" in service:
                image = self._built(name, model, deadline)
                built[service.get("image") or ""] = image.reference
                if name == MAIN:
                    built[self.main_name] = image.reference
                del service["build"]
                service["image"] = image.reference
        for name, service in services.items():
            service["image"] = built.get(service["image"], service["image"])
            if service["image"] not in built.values():
                self._pulled(name, service["image"], deadline)
        self._name_machine(services.values())
        below = self._finish_main(services[MAIN])
        self._note_used(services)
        return below

    def _name_machine(self, services: Iterable[dict[str, Any]]) -> None:
        if hosts := extra_hosts(self.spec):
            for service in services:
                if not str(service.get("network_mode") or "").startswith("service:"):
                    service["extra_hosts"] = [*(service.get("extra_hosts") or []), *hosts]

    def _finish_main(self, main: dict[str, Any]) -> Image:
        """What the run gives ``main`` beside what the task's file says; gives what was there."""
        image = find_image(self.engine, main["image"])
        if image is None:
            raise ImageNotFoundError(f"image {main['image']} was removed while the run goes on")
        if self.spec.layers:
            main["image"] = with_layers(self.engine, image, self.spec).reference
        return image

    def _note_used(self, services: Mapping[str, Mapping[str, Any]]) -> None:
        """Tell the trial's result what its boxes are made from."""
        for name in sorted(services, key=lambda name: (name != MAIN, name)):
            if image := find_image(self.engine, services[name]["image"]):
                self.spec.image_work.used.append(f"{image.reference}@{image.id}")

    def _is_prebuilt(self, name: str, service: Mapping[str, Any]) -> bool:
        return (
            name == MAIN
            and not self.spec.builds
            and service.get("image") == (self.spec.docker_image or "")
        )

    def _pulled(self, service: str, reference: str, deadline: Deadline) -> None:
        try:
            ensure_pulled(self.engine, reference, deadline, self.spec.image_work)
        except ImageNotFoundError as error:
            raise ImageNotFoundError(f"service {service!r}: {error}") from error

    def _built(self, name: str, model: Mapping[str, Any], deadline: Deadline) -> Image:
        build = model["services"][name]["build"]
        try:
            if set(build) <= {"context", "dockerfile"} and build.get("dockerfile") == "Dockerfile":
                return ensure_image(self.engine, self._plain_spec(name, build), deadline)
            return self._built_by_compose(name, build, model, deadline)
        except ImageError as error:
            raise type(error)(f"service {name!r}: {error}") from error

    def _plain_spec(self, name: str, build: Mapping[str, Any]) -> ContainerSpec:
        context = Path(build["context"])
        own = name == MAIN and context == self.spec.context_dir
        return replace(
            self.spec,
            name_hint=self._hint(name),
            context_dir=context,
            definition=self.spec.definition if own else None,
            docker_image=None,
            layers=(),
            log_path=self._log_path(name),
        )

    def _hint(self, name: str) -> str:
        return self.spec.name_hint if name == MAIN else f"{self.spec.name_hint}-{name}"

    def _log_path(self, name: str) -> Path | None:
        log = self.spec.log_path
        if log is None or name == MAIN:
            return log
        return log.with_name(f"{log.stem}-{slug(name)}{log.suffix}")

    def _built_by_compose(
        self, name: str, build: Mapping[str, Any], model: Mapping[str, Any], deadline: Deadline
    ) -> Image:
        digest = self._digest(build, model["services"][name].get("platform") or "")
        tag = f"pytest-harbor/{slug(self._hint(name))}:{digest}"
        if image := usable_image(self.engine, tag, rebuild=self.spec.rebuild):
            return image
        with self.spec.image_work.waiting(tag), locked(f"build-{tag}", deadline):
            # Whoever held the lock before has built it.
            if image := usable_image(self.engine, tag, rebuild=self.spec.rebuild):
                return image
            file = self._build_file(name, tag, digest, model)
            with self.spec.image_work.doing("build", tag):
                self._build(name, file, build, deadline)
        if image := find_image(self.engine, tag):
            return image
        raise ImageBuildError("the build succeeded, its image is not there")

    def _digest(self, build: Mapping[str, Any], platform: str) -> str:
        """Digest of all that can make a difference to the image."""
        platform = platform or target_platform(self.engine)
        context = Path(build["context"])
        contexts = build.get("additional_contexts") or {}
        folders = [context, *(Path(at) for at in contexts.values() if "://" not in at)]
        rest = {key: value for key, value in build.items() if key not in ("context", *_LEFT_OUT)}
        digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
        for folder in folders:
            digest.update(content_hash(folder, platform).encode())
        dockerfile = context / str(build.get("dockerfile") or "Dockerfile")
        if "dockerfile_inline" not in build and dockerfile.is_file():
            digest.update(dockerfile.read_bytes())
        return digest.hexdigest()[:_HASH_LENGTH]

    def _build_file(self, name: str, tag: str, digest: str, model: Mapping[str, Any]) -> Path:
        service = model["services"][name]
        build = {key: value for key, value in service["build"].items() if key not in _LEFT_OUT}
        build["labels"] = {
            **(build.get("labels") or {}),
            **self.engine.labels(),
            CONTENT_LABEL: digest,
        }
        wanted = {"image": tag, "build": build}
        if "platform" in service:
            wanted["platform"] = service["platform"]
        file = self.folder / f"build-{slug(name)}.json"
        document = {"services": {name: wanted}, "secrets": model.get("secrets") or {}}
        file.write_text(dump_model(document))
        return file

    def _build(self, name: str, file: Path, build: Mapping[str, Any], deadline: Deadline) -> None:
        arguments = ["build", "--builder", self.engine.endpoint.context or "default"]
        if self.spec.rebuild:
            arguments.append("--no-cache")
        argv = self.cli.command([*arguments, name], [file], self.folder)
        dockerfile = Path(build["context"], str(build.get("dockerfile") or "Dockerfile"))
        work = self.spec.image_work
        with BuildLog.opened(self._log_path(name), work.step) as log:
            try:
                status = run_logged(argv, self.cli.environment, deadline, log)
            except DeadlinePassedError as error:
                raise EnvironmentStartTimeoutError(
                    f"service {name!r}: the build did not end within the build limit of "
                    f"{deadline.timeout_sec:g} s and was stopped; raise "
                    "[environment].build_timeout_sec or --harbor-build-timeout-multiplier"
                    f"{log.last_step()}\n{log.tail()}"
                ) from error
            if status != 0:
                raise ImageBuildError(log.failure(dockerfile, f"exit code {status}"))
