"""Keys of a ``task.toml`` that Harbor ignores without a word.

Authors believe that they work: a misspelt limit, a root key that a table above it
swallowed, a key of an older format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from pytest_harbor.task.config import TaskConfig
from pytest_harbor.task.finding import Finding, Location, nearest, table_name
from pytest_harbor.task.legacy import OLD_KEYS

ROOT_KEYS = frozenset(
    {"artifacts", "multi_step_reward_strategy", "schema_version", "source", "steps", "version"}
)
"""Keys that a table header above them turns into the table's own."""

_NETWORK_REMEDY = 'write network_mode = "no-network" (or "public") here'
_METADATA_REMEDY = "write it under [metadata]"
_STRAY_KEYS: Mapping[str, Mapping[str, str]] = {
    "TaskConfig": {
        **dict.fromkeys(
            ("author_email", "author_name", "category", "difficulty", "tags"), _METADATA_REMEDY
        ),
        **dict.fromkeys(("name", "description", "authors", "keywords"), "write it under [task]"),
        "env": "write it under [environment], [verifier] or [solution]",
        "min_reward": "it belongs in [[steps]]",
    },
    "AgentConfig": {
        "timeout": "write timeout_sec; without it the agent has no limit",
        "allow_internet": _NETWORK_REMEDY,
    },
    "VerifierConfig": {
        "timeout": "write timeout_sec",
        "allow_internet": _NETWORK_REMEDY,
        "command": "the verifier always runs tests/test.sh; write the command there",
        "min_reward": "it belongs in [[steps]]",
    },
    "EnvironmentConfig": {
        "image": "write docker_image",
        "base_image": "write docker_image, or FROM in environment/Dockerfile",
        "dockerfile": "only environment/Dockerfile is built",
        "timeout_sec": "write build_timeout_sec",
    },
    "McpServer": {"env": "a server of this kind gets no variables of its own"},
    "StepConfig": {
        **dict.fromkeys(
            ("dependencies", "depends_on"), "steps run in the order in which they are written"
        ),
        "inherit_prior_session": "all steps share one environment",
        **dict.fromkeys(("environment", "solution", "mcp_servers"), "a step has none of its own"),
        "timeout_sec": "write it under [steps.agent] or [steps.verifier]",
    },
}


@dataclass(frozen=True, slots=True)
class _TableKeys:
    """What a model knows: its keys, and the models of the tables below them."""

    model: str
    known: frozenset[str]
    tables: Mapping[str, type[BaseModel]]


def unknown_keys(data: Mapping[str, Any]) -> list[Finding]:
    """A warning for each key at any level that no model knows."""
    return list(_in_table(data, TaskConfig, ()))


def swallowed_remedy(key: str, table: Location) -> str:
    """What to do about a root key that stands in a table; nothing for another key."""
    if key not in ROOT_KEYS or not table:
        return ""
    return f"; {key} is swallowed by {table_name(table)}: move it above the first table header"


def _in_table(data: Mapping[str, Any], model: type[BaseModel], at: Location) -> Iterator[Finding]:
    keys = _table_keys(model)
    for key in data:
        if key not in keys.known:
            yield Finding((*at, key), _message(key, keys, at), code=_code(key, at))
    for key, below in keys.tables.items():
        if key in data:
            yield from _below(data[key], below, (*at, key))
    if not at and isinstance(data.get("metadata"), dict):
        yield from _in_metadata(data["metadata"])


def _below(value: Any, model: type[BaseModel], at: Location) -> Iterator[Finding]:
    if isinstance(value, dict):
        yield from _in_table(value, model, at)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            if isinstance(entry, dict):
                yield from _in_table(entry, model, (*at, index))


def _in_metadata(metadata: Mapping[str, Any]) -> Iterator[Finding]:
    """Free, but for keys that mean nothing there and much at the root."""
    for key in ("artifacts", "multi_step_reward_strategy", "schema_version"):
        if key in metadata:
            at: Location = ("metadata",)
            message = "has no effect here" + swallowed_remedy(key, at)
            yield Finding((*at, key), message, code="swallowed-field")


def _code(key: str, at: Location) -> str:
    return "swallowed-field" if swallowed_remedy(key, at) else "unknown-field"


def _message(key: str, keys: _TableKeys, at: Location) -> str:
    swallowed = swallowed_remedy(key, at)
    stray = _STRAY_KEYS.get(keys.model, {}).get(key)
    if swallowed or stray:
        return "unknown key, ignored" + (swallowed or f"; {stray}")
    return f"unknown key, ignored{nearest(key, sorted(keys.known))}"


@cache
def _table_keys(model: type[BaseModel]) -> _TableKeys:
    tables = {
        name: below
        for name, field in model.model_fields.items()
        if (below := model_in(field.annotation)) is not None
    }
    known = frozenset(model.model_fields) | frozenset(OLD_KEYS.get(model.__name__, ()))
    return _TableKeys(model.__name__, known, tables)


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model of the tables that a field holds; None where it holds none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(model_in, get_args(annotation))), None)
