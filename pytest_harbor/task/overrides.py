"""What a run wants otherwise than the task says: images, and where it is graded.

Imported with the options, also for runs without tasks: standard library only, and no
dataclass, which takes a millisecond to make.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pytest_harbor.task.config import EnvironmentConfig, TaskConfig, VerifierConfig

PLACEHOLDER = "task"
"""The one name that a template for an image may have in braces."""


class TaskOverrides(NamedTuple):
    """A run's wishes for each of its tasks.

    Attributes:
        image: Template of the prebuilt image for the agent's box; None: the task's.
        verifier_image: The same for the box of a separate verifier.
        ignore_dockerfile: Build nothing from a Dockerfile, whatever else is asked.
        ignore_separate_verifier: Grade in the agent's box.
    """

    image: str | None = None
    verifier_image: str | None = None
    ignore_dockerfile: bool = False
    ignore_separate_verifier: bool = False

    def of_config(self, config: TaskConfig, short_name: str) -> TaskConfig:
        """The task's configuration as this run wants it.

        What the box of a verifier would have given its script goes along: its variables,
        and its network policy where one was written.
        """
        update: dict[str, Any] = {}
        if self.image is not None:
            image = image_name(self.image, short_name)
            update["environment"] = config.environment.model_copy(update={"docker_image": image})
        if self.ignore_separate_verifier:
            update["verifier"] = _shared(config.verifier)
            update["steps"] = tuple(
                step.model_copy(update={"verifier": _shared(step.verifier)})
                for step in config.steps
            )
        return config.model_copy(update=update) if update else config

    def as_json(self) -> Mapping[str, Any]:
        """Wishes that were made, for the record of a trial."""
        fields = {name: getattr(self, name) for name in self._fields}
        return {name: value for name, value in fields.items() if value}


def template_fault(template: str) -> str | None:
    """What keeps ``template`` from naming images; None where nothing does."""
    try:
        fields = list(string.Formatter().parse(template))
    except ValueError as error:
        return f"{error}; write {{{{ and }}}} for braces that stay"
    for _text, name, form, conversion in fields:
        suffix = (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
        if name is not None and (name != PLACEHOLDER or suffix):
            accepted = f"accepted is {{{PLACEHOLDER}}}, the task's short name"
            return f"unknown placeholder {{{name}{suffix}}}; {accepted}"
    return None


def image_name(template: str, short_name: str) -> str:
    """The image of a task; a repository has no capitals, a tag may."""
    repository, colon, tag = template.rpartition(":")
    if not colon or "/" in tag:
        repository, colon, tag = template, "", ""
    return f"{repository.format(task=short_name.lower())}{colon}{tag.format(task=short_name)}"


def _shared(verifier: VerifierConfig) -> VerifierConfig:
    box = verifier.environment
    update: dict[str, Any] = {"environment_mode": "shared", "environment": None}
    if box is not None:
        update["env"] = {**box.env, **verifier.env}
        update |= _network_of(box) if verifier.network_mode is None else {}
    return verifier.model_copy(update=update)


def _network_of(box: EnvironmentConfig) -> dict[str, Any]:
    if "network_mode" not in box.model_fields_set:
        return {}
    return {"network_mode": box.network_mode, "allowed_hosts": box.allowed_hosts}
