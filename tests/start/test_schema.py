"""The schema of ``task.toml`` says what the reader says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli
from jsonschema import Draft7Validator

from pytest_harbor.__main__ import main
from pytest_harbor.task.config_reader import read_config

EXAMPLES = sorted((Path(__file__).parents[2] / "example_tasks").glob("*/task.toml"))

EVERYTHING = """
schema_version = "1.3"
source = "somewhere"
multi_step_reward_strategy = "final"
artifacts = ["/a", { source = "/b", destination = "c", exclude = ["*.o"], service = "db" }]
[task]
name = "org/name"
version = "1"
description = "x"
authors = [{ name = "A", email = "a@b.example" }]
keywords = ["x"]
[metadata]
anything = { goes = [1, "two"] }
[agent]
timeout_sec = 1.5
user = 1000
network_mode = "allowlist"
allowed_hosts = ["a.example"]
[verifier]
user = "root"
network_mode = "no-network"
env = { A = "b" }
environment_mode = "separate"
environment = { docker_image = "x:1", network_mode = "public" }
[[verifier.collect]]
command = "x"
service = "main"
timeout_sec = 3
user = "x"
[environment]
build_timeout_sec = 600
docker_image = "debian:12"
os = "linux"
cpus = 0.5
memory_mb = 512
storage_mb = 512
gpus = 1
gpu_types = ["H100"]
tpu = { type = "v5e", topology = "2x4" }
env = { A = "${B:-c}" }
skills_dir = "/skills"
workdir = "/app"
network_mode = "allowlist"
allowed_hosts = ["*.example", "10.0.0.0/8"]
[[environment.mcp_servers]]
name = "a"
transport = "stdio"
command = "x"
args = ["y"]
[[environment.mcp_servers]]
name = "b"
transport = "http"
url = "http://localhost"
headers = { X-A = "b" }
[environment.healthcheck]
command = "true"
interval_sec = 1
timeout_sec = 1
start_period_sec = 1
start_interval_sec = 1
retries = 1
[solution]
env = { A = "b" }
[[steps]]
name = "first"
min_reward = { a = 0.5 }
artifacts = ["/a"]
agent = { timeout_sec = 5 }
verifier = { timeout_sec = 5 }
healthcheck = { command = "true" }
"""


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    from pytest_harbor.task.schema import task_schema

    return task_schema()


def complaints(schema: dict[str, Any], text: str) -> list[str]:
    return [error.message for error in Draft7Validator(schema).iter_errors(tomli.loads(text))]


def test_it_is_a_schema_that_the_command_prints(
    schema: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    Draft7Validator.check_schema(schema)
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_example_tasks_pass(schema: dict[str, Any], path: Path) -> None:
    assert complaints(schema, path.read_text()) == []


def test_every_field_passes_and_has_a_description(schema: dict[str, Any]) -> None:
    _config, findings = read_config(tomli.loads(EVERYTHING))
    assert findings == []
    assert complaints(schema, EVERYTHING) == []
    tables = {"TaskConfig": schema, **schema["definitions"]}
    bare = [
        f"{table}.{key}"
        for table, known in tables.items()
        for key, value in known["properties"].items()
        if not value.get("description")
    ]
    assert bare == []


def test_the_sample_has_every_field(schema: dict[str, Any]) -> None:
    """Else the test above proves less than it says."""
    known = {key for table in (schema, *schema["definitions"].values()) for key in current(table)}
    assert known <= set(keys(tomli.loads(EVERYTHING)))


def current(table: dict[str, Any]) -> Iterator[str]:
    return (key for key, value in table["properties"].items() if not value.get("deprecated"))


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    for below in value if isinstance(value, list) else ():
        yield from keys(below)


@pytest.mark.parametrize(
    "text",
    [
        "",
        'version = "1.0"',
        'environment = { memory = "2G", storage = "512m", allow_internet = false }',
        'verifier.environment.memory = "1.5G"',
        'environment.os = "Linux"',
        "agent.timeout_sec = inf",
        "environment.allowed_hosts = []",
        "steps = []",
        'steps = [{ name = "mit Raum é", min_reward = 1 }]',
        # What is refused, or warned of:
        "agent.timeout = 5",
        "environment.memroy_mb = 5",
        'name = "x"',
        'environment.artifacts = ["/a"]',
        'version = "2.0"',
        "schema_version = 1",
        "environment.memory = 2048",
        'environment.storage = "2GB"',
        'environment.network_mode = "Public"',
        "agent.allowed_hosts = []",
        'environment.allowed_hosts = ["a.b"]',
        'verifier = { network_mode = "public", allowed_hosts = ["a.b"] }',
        "agent.timeout_sec = -1",
        "agent.allow_internet = false",
        "environment.env.PORT = 8080",
        'task.name = "no-organisation"',
        'task = { name = "a/b", authors = ["A. Author"] }',
        "[task]",
        "environment.mcp_servers = [{ name = 'a' }]",
        "environment.mcp_servers = [{ name = 'a', transport = 'stdio', url = 'x' }]",
        'steps = [{ name = "a/b" }]',
        'artifacts = ["/a/../b"]',
        'artifacts = [{ source = "/a/../b" }]',
        "artifacts = [3]",
        "environment.tpu = { type = 'x', topology = '2' }",
        "verifier.collect = [{ command = 'x', service = '' }]",
        "verifier = { environment_mode = 'shared', environment = {} }",
    ],
)
def test_it_agrees_with_the_reader(schema: dict[str, Any], text: str) -> None:
    _config, findings = read_config(tomli.loads(text))
    assert bool(complaints(schema, text)) == bool(findings)
