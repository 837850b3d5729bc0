"""A task as it was read: what the rest of the program knows of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pytest_harbor.errors import Problem
from pytest_harbor.task import layout
from pytest_harbor.task.config import EnvironmentConfig, StepConfig, TaskConfig, VerifierMode
from pytest_harbor.task.origin import TaskOrigin
from pytest_harbor.task.overrides import TaskOverrides, image_name


@dataclass(frozen=True, slots=True)
class VerifierBox:
    """What a separate verifier's container is made from.

    Attributes:
        config: Image, resources, variables.
        build_folder: Folder with the ``Dockerfile`` or compose file.
        has_tests: The image brings ``/tests/test.sh``; nothing is uploaded.
    """

    config: EnvironmentConfig
    build_folder: Path
    has_tests: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a multi-step task.

    Attributes:
        config: Its table in ``task.toml``.
        folder: Its folder, absolute.
        instruction: What the agent is told.
        test_script: Its own test script, else the task's; None where there is none.
        solution_script: Its own, else the task's where it has no ``solution/``.
    """

    config: StepConfig
    folder: Path
    instruction: str
    test_script: Path | None
    solution_script: Path | None

    @property
    def name(self) -> str:
        """Its name, which is its folder's."""
        return self.config.name

    @property
    def tests_dir(self) -> Path:
        """Its own tests, laid over the task's; may not exist."""
        return self.folder / layout.TESTS_FOLDER

    @property
    def solution_dir(self) -> Path:
        """Its own solution; may not exist."""
        return self.folder / layout.SOLUTION_FOLDER

    @property
    def workdir_dir(self) -> Path:
        """Files for the agent's working folder; may not exist."""
        return self.folder / layout.WORKDIR_FOLDER

    @property
    def setup_script(self) -> Path | None:
        """Script that is run once ``workdir/`` is copied."""
        return layout.existing_file(self.folder, layout.WORKDIR_FOLDER, layout.SETUP_SCRIPT)


@dataclass(frozen=True)
class Task:
    """A task's folder, read and found sound.

    Attributes:
        path: The folder, absolute.
        config: Its ``task.toml``.
        instruction: What the agent is told; empty for a multi-step task.
        steps: Empty for a single-step task.
        problems: Warnings: the task runs, though perhaps not as its author thinks.
        overrides: What the run wants otherwise; ``config`` has it already.
        origin: The dataset that it is of; None for a task that was named by its path.
    """

    path: Path
    config: TaskConfig
    instruction: str = ""
    steps: tuple[Step, ...] = ()
    problems: tuple[Problem, ...] = ()
    overrides: TaskOverrides = field(default_factory=TaskOverrides)
    origin: TaskOrigin | None = None

    @property
    def name(self) -> str:
        """``[task].name``, else the folder's name; not unique."""
        return self.config.task.name if self.config.task else self.path.name

    @property
    def short_name(self) -> str:
        """The package's name without its organisation, else the folder's name."""
        return short_name(self.config, self.path)

    @property
    def is_multi_step(self) -> bool:
        """Whether the task has steps."""
        return self.config.is_multi_step

    @cached_property
    def config_file(self) -> Path:
        """``task.toml``."""
        return self.path / layout.CONFIG_FILE

    @cached_property
    def environment_dir(self) -> Path:
        """The build's context; may not exist where there is an image."""
        return self.path / layout.ENVIRONMENT_FOLDER

    @cached_property
    def environment_listing(self) -> layout.Listing:
        """What the build's context holds."""
        return layout.Listing(os.path.join(self.path, layout.ENVIRONMENT_FOLDER))

    @cached_property
    def tests_dir(self) -> Path:
        """``tests/``; may not exist."""
        return self.path / layout.TESTS_FOLDER

    @cached_property
    def solution_dir(self) -> Path:
        """``solution/``; may not exist."""
        return self.path / layout.SOLUTION_FOLDER

    @cached_property
    def test_script(self) -> Path | None:
        """The task's own test script; None where there is none."""
        name = layout.TEST_SCRIPTS[self.verifier_os()]
        return layout.existing_file(self.path, layout.TESTS_FOLDER, name)

    @cached_property
    def solution_script(self) -> Path | None:
        """The task's own reference solution; None where there is none."""
        name = layout.SOLUTION_SCRIPTS[self.config.environment.os]
        return layout.existing_file(self.path, layout.SOLUTION_FOLDER, name)

    @cached_property
    def has_dockerfile(self) -> bool:
        """Whether ``environment/Dockerfile`` is there."""
        return self.environment_listing.file(layout.DOCKERFILE) is not None

    @cached_property
    def has_apptainer_file(self) -> bool:
        """Whether ``environment/Apptainer.def`` is there."""
        return self.environment_listing.file(layout.APPTAINER_FILE) is not None

    @cached_property
    def compose_file(self) -> Path | None:
        """``environment/docker-compose.yaml``, or under another name; None where there is none."""
        return layout.compose_file_in(self.environment_listing)

    def verifier_mode(self, step: Step | None = None) -> VerifierMode:
        """Where the verifier runs: in the agent's container or in its own."""
        return self.config.verifier_mode(step.config if step else None)

    def verifier_os(self, step: StepConfig | None = None) -> str:
        """System of the container in which the verifier runs."""
        own = step.verifier.environment if step else None
        for environment in (own, self.config.verifier.environment):
            if environment is not None and "os" in environment.model_fields_set:
                return environment.os
        return self.config.environment.os

    def verifier_box(self, step: Step | None = None) -> VerifierBox:
        """What the container of a separate verifier is made from."""
        own = step.config.verifier.environment if step else None
        shared = self.config.verifier.environment
        config = own or shared or self.config.environment
        for folder, environment in self._bundles(step, own, shared):
            image = environment.docker_image if environment else None
            if image or self._is_built_from(folder):
                return VerifierBox(self._with_image(config, image), folder, has_tests=True)
        image = self.config.environment.docker_image
        return VerifierBox(self._with_image(config, image), self.environment_dir, has_tests=False)

    def _bundles(
        self, step: Step | None, own: EnvironmentConfig | None, shared: EnvironmentConfig | None
    ) -> list[tuple[Path, EnvironmentConfig | None]]:
        bundles = [(self.tests_dir, shared)]
        return [(step.tests_dir, own), *bundles] if step else bundles

    def _with_image(self, config: EnvironmentConfig, image: str | None) -> EnvironmentConfig:
        """The table of a box, with the image of the place that it is made from."""
        if self.overrides.verifier_image is not None:
            image = image_name(self.overrides.verifier_image, self.short_name)
        if image == config.docker_image:
            return config
        return config.model_copy(update={"docker_image": image})

    def _is_built_from(self, folder: Path) -> bool:
        """Whether a verifier's image is made from this folder of tests."""
        ignored = self.overrides.ignore_dockerfile and self.overrides.verifier_image is None
        files = (layout.COMPOSE_FILE, *(() if ignored else (layout.DOCKERFILE,)))
        return any(os.path.isfile(os.path.join(folder, name)) for name in files)


def short_name(config: TaskConfig, folder: Path) -> str:
    """The package's name without its organisation, else the folder's name."""
    return (config.task.short_name if config.task else None) or folder.name
