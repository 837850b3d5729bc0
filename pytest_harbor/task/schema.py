"""``task.toml`` as a JSON schema, for editors.

It passes what is read without a word, as far as a schema can tell, old spellings too. Made
for draft 7, the newest one that editors' tools for TOML understand.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from pytest_harbor.task.artifacts import PARENT_IN_PATH
from pytest_harbor.task.config import TaskConfig
from pytest_harbor.task.config_checks import NEVER_NEGATIVE, SCHEMA_VERSIONS
from pytest_harbor.task.legacy import OLD_SIZES
from pytest_harbor.task.unknown_keys import model_in

_Schema = dict[str, Any]

_OLD_SIZE = {"type": "string", "pattern": r"^\s*([0-9]+(\.[0-9]*)?|\.[0-9]+)\s*[GMKgmk]\s*$"}
_OLD_KEYS: Mapping[str, Mapping[str, _Schema]] = {
    "TaskConfig": {"version": {"enum": list(SCHEMA_VERSIONS), "description": "schema_version"}},
    "EnvironmentConfig": {
        "allow_internet": {
            "type": "boolean",
            "description": 'network_mode = "public" or "no-network"',
        },
        **{old: {**_OLD_SIZE, "description": new} for old, new in OLD_SIZES.items()},
    },
}
_NAME = r"[a-zA-Z0-9][a-zA-Z0-9._-]*"
_NARROWER: Mapping[str, Mapping[str, _Schema]] = {
    "TaskConfig": {"schema_version": {"enum": list(SCHEMA_VERSIONS)}},
    "PackageConfig": {"name": {"pattern": rf"^(?!.*\.\.){_NAME}/{_NAME}$"}},
    "CollectConfig": {"service": {"pattern": rf"^\s*{_NAME}\s*$"}},
    "TpuConfig": {"topology": {"pattern": r"^\s*[1-9][0-9]*(x[1-9][0-9]*)+\s*$"}},
    "StepConfig": {
        "name": {"pattern": r'^[^<>:"/\\|?*\x00-\x1f\x7f]*[^<>:"/\\|?*\x00-\x1f\x7f. ]$'}
    },
    "ArtifactEntry": {"source": {"not": {"pattern": PARENT_IN_PATH}}},
}
_HOSTS_NEED_A_LIST = {
    "if": {"required": ["allowed_hosts"], "properties": {"allowed_hosts": {"minItems": 1}}},
    "then": {
        "required": ["network_mode"],
        "properties": {"network_mode": {"const": "allowlist"}},
    },
}
_OWN_POLICY = {**_HOSTS_NEED_A_LIST, "dependencies": {"allowed_hosts": ["network_mode"]}}
_RULES: Mapping[str, _Schema] = {
    "EnvironmentConfig": _HOSTS_NEED_A_LIST,
    "AgentConfig": _OWN_POLICY,
    "VerifierConfig": {
        **_OWN_POLICY,
        "not": {
            "required": ["environment_mode", "environment"],
            "properties": {"environment_mode": {"const": "shared"}},
        },
    },
    "McpServer": {
        "if": {"required": ["transport"], "properties": {"transport": {"const": "stdio"}}},
        "then": {"required": ["command"]},
        "else": {"required": ["url"]},
    },
}


def task_schema() -> _Schema:
    """Give the schema of a whole ``task.toml``."""
    root = TaskConfig.model_json_schema(ref_template="#/definitions/{model}")
    definitions = root.pop("$defs")
    for model in _models(TaskConfig, set()):
        _complete(root if model is TaskConfig else definitions[model.__name__], model)
    root["title"] = "task.toml of a Harbor task"
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **root,
        "definitions": definitions,
    }


def _models(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    """A model and every other below it."""
    if model in seen:
        return
    seen.add(model)
    yield model
    for field in model.model_fields.values():
        below = model_in(field.annotation)
        if below is not None:
            yield from _models(below, seen)


def _complete(schema: _Schema, model: type[BaseModel]) -> None:
    """Say of a table what pydantic does not: which keys it has, and what they mean."""
    name = model.__name__
    properties: dict[str, _Schema] = schema["properties"]
    texts = _field_texts(model)
    for key, value in properties.items():
        properties[key] = {
            **_plain(value),
            **_NARROWER.get(name, {}).get(key, {}),
            **({"minimum": 0} if key in NEVER_NEGATIVE.get(name, ()) else {}),
            **({"description": texts[key]} if key in texts else {}),
        }
    for key, value in _OLD_KEYS.get(name, {}).items():
        text = f"Old spelling of {value['description']}."
        properties[key] = {**value, "description": text, "deprecated": True}
    schema.update(_RULES.get(name, {}), additionalProperties=False)
    schema["description"] = schema["description"].replace("``", "`")


def _plain(value: _Schema) -> _Schema:
    """A value without what is pydantic's alone: titles, and null, which TOML has not."""
    kept = {key: part for key, part in value.items() if key != "title"}
    if kept.get("default", ...) in (None, {}, []):
        del kept["default"]
    kinds = [kind for kind in kept.pop("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        return {**kept, **kinds[0]}
    return {**kept, "anyOf": kinds} if kinds else kept


def _field_texts(model: type[BaseModel]) -> dict[str, str]:
    """The texts below the fields of a class and of those it comes from."""
    texts: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls is not BaseModel:
            texts |= _texts_in(cls)
    return texts


def _texts_in(cls: type[BaseModel]) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[field.target.id] = inspect.cleandoc(str(below.value.value)).replace("``", "`")
    return found
