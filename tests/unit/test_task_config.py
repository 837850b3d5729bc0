"""Fields, defaults, coercions and refusals of ``task.toml``."""

from typing import Any

import pytest
import tomli

from pytest_harbor.task.config import TaskConfig
from pytest_harbor.task.config_reader import read_config
from pytest_harbor.task.finding import Finding, field_path
from pytest_harbor.task.network import NetworkPolicy


def read(text: str) -> TaskConfig:
    config, findings = read_config(tomli.loads(text))
    assert config is not None, findings
    return config


def errors(text: str) -> dict[str, str]:
    config, findings = read_config(tomli.loads(text))
    assert config is None
    return {field_path(f.location): f.message for f in findings if f.severity == "error"}


def quiet(text: str) -> TaskConfig:
    """The configuration of a text that nothing is said about."""
    config, findings = read_config(tomli.loads(text))
    assert findings == []
    assert config is not None
    return config


def value(config: Any, path: str) -> Any:
    for name in path.split("."):
        config = config[int(name)] if name.isdigit() else getattr(config, name)
    return config


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("schema_version", "1.4"),
        ("task", None),
        ("metadata", {}),
        ("source", None),
        ("multi_step_reward_strategy", None),
        ("steps", ()),
        ("artifacts", ()),
        ("agent.timeout_sec", None),
        ("agent.user", None),
        ("agent.network_mode", None),
        ("agent.allowed_hosts", None),
        ("verifier.timeout_sec", 600.0),
        ("verifier.env", {}),
        ("verifier.user", None),
        ("verifier.environment_mode", None),
        ("verifier.environment", None),
        ("verifier.collect", ()),
        ("environment.build_timeout_sec", 600.0),
        ("environment.docker_image", None),
        ("environment.os", "linux"),
        ("environment.cpus", None),
        ("environment.memory_mb", None),
        ("environment.storage_mb", None),
        ("environment.gpus", None),
        ("environment.gpu_types", None),
        ("environment.tpu", None),
        ("environment.mcp_servers", ()),
        ("environment.env", {}),
        ("environment.skills_dir", None),
        ("environment.healthcheck", None),
        ("environment.workdir", None),
        ("environment.network_mode", "public"),
        ("environment.allowed_hosts", None),
        ("solution.env", {}),
    ],
)
def test_an_empty_file_has_every_default(path: str, default: object) -> None:
    assert value(quiet(""), path) == default


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ('agent.timeout_sec = "60"', "agent.timeout_sec", 60.0),
        ("agent.timeout_sec = 60", "agent.timeout_sec", 60.0),
        ("agent.timeout_sec = inf", "agent.timeout_sec", float("inf")),
        ('environment.memory_mb = "2048"', "environment.memory_mb", 2048),
        ("environment.memory_mb = 2048.0", "environment.memory_mb", 2048),
        ('environment.cpus = "2"', "environment.cpus", 2),
        ("environment.cpus = 2.0", "environment.cpus", 2),
        ("environment.cpus = 0.5", "environment.cpus", 0.5),
        ('environment.os = "Windows"', "environment.os", "windows"),
        ("agent.user = 1000", "agent.user", 1000),
        ('agent.user = "worker"', "agent.user", "worker"),
        ('environment.tpu = {type = "v5e", topology = " 2x4 "}', "environment.tpu.chips", 8),
        ("steps = []", "steps", ()),
        ('artifacts = ["/app/a"]', "artifacts.0.source", "/app/a"),
        ('artifacts = [{source = "/a", destination = ""}]', "artifacts.0.destination", None),
        ('artifacts = [{source = "/a", destination = "b/c"}]', "artifacts.0.destination", "b/c"),
        ('verifier.collect = [{command = "x"}]', "verifier.collect.0.service", "main"),
        ('verifier.collect = [{command = "x"}]', "verifier.collect.0.timeout_sec", 60.0),
        (
            'verifier.collect = [{command = "x", service = " db "}]',
            "verifier.collect.0.service",
            "db",
        ),
        ('environment.healthcheck.command = "x"', "environment.healthcheck.interval_sec", 5.0),
        ('environment.healthcheck.command = "x"', "environment.healthcheck.timeout_sec", 30.0),
        ('environment.healthcheck.command = "x"', "environment.healthcheck.start_period_sec", 0.0),
        (
            'environment.healthcheck.command = "x"',
            "environment.healthcheck.start_interval_sec",
            5.0,
        ),
        ('environment.healthcheck.command = "x"', "environment.healthcheck.retries", 3),
        ('steps = [{name = "a", min_reward = 1}]', "steps.0.min_reward", 1.0),
        ('steps = [{name = "a", min_reward = {k = 0.8}}]', "steps.0.min_reward", {"k": 0.8}),
        ('steps = [{name = "a"}]', "steps.0.verifier.timeout_sec", 600.0),
        ('steps = [{name = "mit Raum é"}]', "steps.0.name", "mit Raum é"),
        ("metadata = {a = [1, {b = 2}]}", "metadata", {"a": [1, {"b": 2}]}),
        ('environment.gpu_types = ["H100"]', "environment.gpu_types", ("H100",)),
    ],
)
def test_values_are_read_as_harbor_reads_them(text: str, path: str, expected: object) -> None:
    result = value(quiet(text), path)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        (
            'agent.timeout_sec = "abc"',
            "agent.timeout_sec",
            "expected seconds as a number, got 'abc'",
        ),
        ("agent.timeout_sec = nan", "agent.timeout_sec", "expected seconds as a number, got nan"),
        ("agent.timeout_sec = []", "agent.timeout_sec", "expected seconds as a number, got []"),
        ("agent = 5", "agent", "expected a table, got 5"),
        (
            "environment.memory_mb = 1.5",
            "environment.memory_mb",
            "expected a whole number, got 1.5",
        ),
        ("environment.cpus = inf", "environment.cpus", "expected a finite number of processors"),
        ("environment.cpus = nan", "environment.cpus", "expected a finite number of processors"),
        (
            "environment.env.PORT = 8080",
            "environment.env.PORT",
            'expected text in quotes, got 8080; write "8080"',
        ),
        ("verifier.env.DEBUG = true", "verifier.env.DEBUG", "expected text in quotes, got true"),
        ("schema_version = 1", "schema_version", "expected text in quotes, got 1"),
        ("version = 1.0", "version", "expected text in quotes, got 1.0"),
        (
            'environment.network_mode = "Public"',
            "environment.network_mode",
            "'allowlist', got 'Public' (did you mean public?)",
        ),
        (
            'verifier.environment_mode = "Separate"',
            "verifier.environment_mode",
            "(did you mean separate?)",
        ),
        (
            'multi_step_reward_strategy = "max"',
            "multi_step_reward_strategy",
            "expected 'mean' or 'final', got 'max'",
        ),
        (
            'environment.os = "macos"',
            "environment.os",
            "expected 'linux' or 'windows', got 'macos'",
        ),
        ("agent.user = []", "agent.user", "expected a user's name or number, got []"),
        ("agent.allowed_hosts = []", "agent.allowed_hosts", '"allowlist" beside it'),
        (
            'environment.allowed_hosts = ["a.b"]',
            "environment.allowed_hosts",
            "got 'public', which it is where nothing is said",
        ),
        (
            'agent = {network_mode = "public", allowed_hosts = ["a.b"]}',
            "agent.allowed_hosts",
            "allowed_hosts needs network_mode = \"allowlist\", got 'public'",
        ),
        (
            "environment.tpu = {type = 'x', topology = '0x2'}",
            "environment.tpu.topology",
            "expected one as 2x4",
        ),
        ("environment.tpu = {type = '', topology = '2x2'}", "environment.tpu.type", "empty"),
        (
            "environment.healthcheck = {}",
            "environment.healthcheck.command",
            "command is required in [environment.healthcheck]",
        ),
        ("[task]", "task.name", "name is required in [task]"),
        ("task = {name = 'a/b', version = ''}", "task.version", "empty"),
        ("task = {name = 'a/b', authors = [3]}", "task.authors[0]", "expected a table, got 3"),
        ("[[steps]]\nmin_reward = 1.0", "steps[0].name", "name is required in [[steps]]"),
        (
            "steps = [{name = 'a', min_reward = 'x'}]",
            "steps[0].min_reward",
            "a number, or a table of numbers",
        ),
        (
            "steps = [{name = 'a', agent = {timeout_sec = 'x'}}]",
            "steps[0].agent.timeout_sec",
            "seconds",
        ),
        ("steps = [{name = 'a'}, {name = 'A'}]", "steps", "the names 'a' and 'A'"),
        ("steps = [{name = 'é'}, {name = 'e\u0301'}]", "steps", "are one folder's"),
        ("steps = {}", "steps", "expected a list, got a table"),
        (
            "artifacts = [3]",
            "artifacts[0]",
            "expected a path, or a table with the key source, got 3",
        ),
        ("artifacts = ['/a/../b']", "artifacts[0].source", "has '..'"),
        (
            "artifacts = [{destination = 'x'}]",
            "artifacts[0].source",
            "source is required in [[artifacts]]",
        ),
        ("artifacts = [{source = 'data', service = 'db'}]", "artifacts[0]", "must be absolute"),
        (
            "verifier.collect = [{command = 'x', service = ''}]",
            "verifier.collect[0].service",
            "not the name",
        ),
        (
            "verifier = {environment_mode = 'shared', environment = {}}",
            "verifier.environment_mode",
            'write "separate"',
        ),
        ("environment.memory = '2GB'", "environment.memory", "expected a size as '2G'"),
        ("environment.memory = '2Gi'", "environment.memory", "got '2Gi'"),
        ("environment.storage = '2048'", "environment.storage", "write storage_mb as a number"),
        (
            "environment = {memory = '2G', memory_mb = 1024}",
            "environment.memory",
            "contradicts memory_mb = 1024",
        ),
        (
            "environment.allow_internet = 'maybe'",
            "environment.allow_internet",
            "expected true or false",
        ),
        (
            "environment.mcp_servers = [{name = 'a'}]",
            "environment.mcp_servers[0]",
            "'sse' needs url",
        ),
        (
            "environment.mcp_servers = [{name = 'a', transport = 'stdio'}]",
            "environment.mcp_servers[0]",
            "needs command",
        ),
    ],
)
def test_a_wrong_value_is_named_with_field_and_remedy(text: str, field: str, message: str) -> None:
    found = errors(text)
    assert list(found) == [field]
    assert message in found[field]


@pytest.mark.parametrize(
    "destination", ["/a", "a/../b", "..", ".", "manifest.json", r"a\b", "C:/a"]
)
def test_a_destination_stays_below_the_artifacts(destination: str) -> None:
    found = errors(f"artifacts = [{{source = '/a', destination = '{destination}'}}]")
    assert "expected a relative path" in found["artifacts[0].destination"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "  ",
        ".",
        "..",
        "a.",
        "a ",
        "a/b",
        r"a\b",
        "a:b",
        "a|b",
        "NUL",
        "nul.txt",
        "Com1",
        "é" * 128,
    ],
)
def test_a_step_needs_a_name_that_any_system_can_make_a_folder_of(name: str) -> None:
    config, findings = read_config({"steps": [{"name": name}]})
    assert config is None
    assert [field_path(f.location) for f in findings] == ["steps[0].name"]


def test_all_wrong_values_are_found_at_once() -> None:
    found = errors("agent.timeout_sec = 'x'\nenvironment.cpus = 'y'\nsteps = [{}]\nverifier = 3")
    assert set(found) == {"agent.timeout_sec", "environment.cpus", "steps[0].name", "verifier"}


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-Plain", "anything ${USER_ID} here"),
        ("Authorization", "Bearer ${API_TOKEN}"),
        ("X-Api-Key", "${KEY}"),
        ("X-Tokens-Used", "5"),
    ],
)
def test_mcp_headers_that_are_accepted(header: str, value: str) -> None:
    server = {"name": "a", "url": "http://a", "headers": {header: value}}
    config, findings = read_config({"environment": {"mcp_servers": [server]}})
    assert findings == []
    assert config is not None


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("bad name", "x"),
        ("X-A", "a\r\nb"),
        ("Authorization", "Bearer s3cr3t-value"),
        ("X-Api-Key", "${KEY:-s3cr3t-value}"),
        ("Cookie", "id=s3cr3t-value"),
    ],
)
def test_mcp_headers_that_are_refused_without_quoting_the_secret(header: str, value: str) -> None:
    server = {"name": "a", "url": "http://a", "headers": {header: value}}
    config, findings = read_config({"environment": {"mcp_servers": [server]}})
    assert config is None
    assert field_path(findings[0].location) == "environment.mcp_servers[0].headers"
    assert "s3cr3t" not in findings[0].message


def test_mcp_transport_http_is_the_old_name_of_streamable_http() -> None:
    config = quiet("environment.mcp_servers = [{name='a', transport='http', url='http://a'}]")
    assert config.environment.mcp_servers[0].transport == "streamable-http"


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ('version = "1.0"', "schema_version", "1.0"),
        ('version = "whatever"\nschema_version = "1.2"', "schema_version", "1.2"),
        ('environment.memory = "2G"', "environment.memory_mb", 2048),
        ('environment.memory = "1.5g"', "environment.memory_mb", 1536),
        ('environment.memory = "512M"', "environment.memory_mb", 512),
        ('environment.memory = "2048k"', "environment.memory_mb", 2),
        ('environment.storage = "10G"', "environment.storage_mb", 10240),
        ('environment = {memory = "2G", memory_mb = 2048}', "environment.memory_mb", 2048),
        ("environment.allow_internet = true", "environment.network_mode", "public"),
        ("environment.allow_internet = false", "environment.network_mode", "no-network"),
        (
            'environment = {allow_internet = false, network_mode = "no-network"}',
            "environment.network_mode",
            "no-network",
        ),
        (
            "verifier.environment.allow_internet = false",
            "verifier.environment.network_mode",
            "no-network",
        ),
        (
            "steps = [{name = 'a', verifier = {environment = {allow_internet = false}}}]",
            "steps.0.verifier.environment.network_mode",
            "no-network",
        ),
        ("verifier.environment.memory = '1G'", "verifier.environment.memory_mb", 1024),
    ],
)
def test_old_spellings_work_without_a_word(text: str, path: str, expected: object) -> None:
    assert value(quiet(text), path) == expected


def findings_of(text: str) -> list[Finding]:
    config, findings = read_config(tomli.loads(text))
    assert config is not None, findings
    assert all(finding.severity == "warning" for finding in findings)
    return findings


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("[verifer]\ntimeout_sec = 5", "verifer", "unknown key, ignored (did you mean verifier?)"),
        ("environment.memroy_mb = 5", "environment.memroy_mb", "(did you mean memory_mb?)"),
        ("zzz = 5", "zzz", "unknown key, ignored"),
        (
            "steps = [{name = 'a', agent = {timeout = 5}}]",
            "steps[0].agent.timeout",
            "write timeout_sec",
        ),
        ("agent.timeout = 600", "agent.timeout", "write timeout_sec"),
        ("environment.image = 'x'", "environment.image", "write docker_image"),
        ("environment.base_image = 'x'", "environment.base_image", "write docker_image"),
        ("verifier.command = 'x'", "verifier.command", "tests/test.sh"),
        (
            "agent.allow_internet = false",
            "agent.allow_internet",
            'write network_mode = "no-network"',
        ),
        ("verifier.allow_internet = false", "verifier.allow_internet", "network_mode"),
        ("tags = ['a']", "tags", "under [metadata]"),
        ("min_reward = 1.0", "min_reward", "[[steps]]"),
        (
            "steps = [{name = 'a', dependencies = []}]",
            "steps[0].dependencies",
            "in which they are written",
        ),
        (
            "[agent]\nartifacts = ['/a']",
            "agent.artifacts",
            "swallowed by [agent]: move it above the first",
        ),
        (
            "[environment.healthcheck]\ncommand = 'x'\nsource = 'y'",
            "environment.healthcheck.source",
            "swallowed by [environment.healthcheck]",
        ),
        ("[metadata]\nartifacts = ['/a']", "metadata.artifacts", "swallowed by [metadata]"),
        ("[agent]\nschema_version = '1.4'", "agent.schema_version", "swallowed"),
        (
            "[[verifier.collect]]\ncommand = 'x'\nmulti_step_reward_strategy = 'mean'",
            "verifier.collect[0].multi_step_reward_strategy",
            "swallowed by [[verifier.collect]]",
        ),
        (
            "environment.memory = 2048",
            "environment.memory",
            "2048 is dropped: the old key memory takes text as '2G'; write memory_mb = 2048",
        ),
        ("environment.storage = 10.5", "environment.storage", "write storage_mb in MB"),
        ("schema_version = '2.0'", "schema_version", "unknown version '2.0', read as '1.4'"),
        ("version = '0.0'", "version", "unknown version '0.0'"),
        ("agent.timeout_sec = -5", "agent.timeout_sec", "expected 0 or more, got -5.0"),
        ("environment.cpus = -1", "environment.cpus", "expected 0 or more, got -1"),
        ("environment.gpus = -1", "environment.gpus", "expected 0 or more"),
        ("environment.memory_mb = -1", "environment.memory_mb", "expected 0 or more"),
        (
            "steps = [{name = 'a', healthcheck = {command = 'x', retries = -1}}]",
            "steps[0].healthcheck.retries",
            "expected 0 or more",
        ),
        (
            "environment = {network_mode = 'allowlist', allowed_hosts = ['999.1.1.1']}",
            "environment.allowed_hosts[0]",
            "looks like an IP address",
        ),
        ("task.name = 'hello'", "task.name", "expected org/name"),
        ("task.name = 'a/b/c'", "task.name", "got 'a/b/c'"),
        ("task.name = 'a/b..c'", "task.name", "expected org/name"),
        (
            "task = {name = 'a/b', authors = ['Ann']}",
            "task.authors[0]",
            "expected a table, got 'Ann'",
        ),
        (
            "environment = {allow_internet = false, network_mode = 'public'}",
            "environment.allow_internet",
            "false is ignored because network_mode stands beside it, and the policy is 'public': "
            "the network is not closed; remove one of them",
        ),
        (
            "environment = {allow_internet = false, allowed_hosts = []}",
            "environment.allow_internet",
            "false is ignored because allowed_hosts stands beside it, and the policy is 'public': "
            "the network is not closed; remove one of them",
        ),
        (
            "multi_step_reward_strategy = 'final'",
            "multi_step_reward_strategy",
            "no effect without [[steps]]",
        ),
        (
            "verifier.timeout_sec = 5\nsteps = [{name = 'a'}]",
            "verifier.timeout_sec",
            "5.0 does not reach the steps (a), which have 600.0",
        ),
        (
            "verifier.environment.healthcheck.command = 'x'",
            "verifier.environment.healthcheck",
            "awaited here",
        ),
        (
            "verifier.environment.build_timeout_sec = 5",
            "verifier.environment.build_timeout_sec",
            "5.0 has no effect",
        ),
        (
            "environment.mcp_servers = [{name='a',transport='stdio',command='x',headers={A='b'}}]",
            "environment.mcp_servers[0].headers",
            "has no effect",
        ),
    ],
)
def test_what_has_no_effect_is_accepted_with_a_warning(text: str, field: str, message: str) -> None:
    findings = findings_of(text)
    assert [field_path(finding.location) for finding in findings] == [field]
    assert message in findings[0].message


def test_a_root_key_in_an_env_table_is_said_to_be_swallowed() -> None:
    found = errors("[verifier.env]\nA = 'b'\nartifacts = ['/a']")
    assert "swallowed by [verifier.env]" in found["verifier.env.artifacts"]


def test_metadata_is_free() -> None:
    quiet("[metadata]\nversion = 3\nsource = 'x'\nname = 'y'\nwhatever = {deep = [1]}")


def test_authors_as_plain_strings_become_tables() -> None:
    package = read("task = {name = 'a/b', authors = ['Ann', {name = 'Bob', email = 'b@c'}]}").task
    assert package is not None
    assert [(a.name, a.email) for a in package.authors] == [("Ann", None), ("Bob", "b@c")]


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("", "shared"),
        ("verifier.environment_mode = 'separate'", "separate"),
        ("verifier.environment.docker_image = 'x'", "separate"),
        ("steps = [{name = 'a', verifier = {environment = {}}}]", "separate"),
        ("verifier.environment = {}\nsteps = [{name = 'a'}]", "separate"),
        (
            "verifier.environment = {}\nsteps=[{name='a', verifier={environment_mode='shared'}}]",
            "shared",
        ),
    ],
)
def test_verifier_mode(text: str, mode: str) -> None:
    config = read(text)
    assert config.verifier_mode(config.steps[0] if config.steps else None) == mode


def test_phases_without_a_policy_have_the_environments() -> None:
    config = read("environment.allow_internet = false")
    closed = NetworkPolicy("no-network")
    assert (config.agent_policy(), config.verifier_policy()) == (closed, closed)


def test_a_steps_policy_goes_before_the_tasks() -> None:
    config = read(
        """
        [environment]
        network_mode = "no-network"
        [agent]
        network_mode = "public"
        [[steps]]
        name = "a"
        agent = { network_mode = "allowlist", allowed_hosts = ["B.c.", "b.c", "10.0.0.0/8"] }
        [[steps]]
        name = "b"
        """
    )
    first, second = config.steps
    assert config.agent_policy(first) == NetworkPolicy("allowlist", ("b.c", "10.0.0.0/8"))
    assert config.agent_policy(second) == NetworkPolicy("public")
    assert config.verifier_policy(first) == NetworkPolicy("no-network")


def test_an_allowlist_without_hosts_is_closed() -> None:
    policy = read("environment = {network_mode = 'allowlist'}").agent_policy()
    assert policy.is_closed
    assert not policy.is_open


def test_steps_inherit_what_they_leave_unset_but_the_verifiers_limit() -> None:
    config = read(
        """
        [agent]
        timeout_sec = 10
        user = "worker"
        [verifier]
        timeout_sec = 20
        user = "judge"
        env = { A = "1", B = "1" }
        [[steps]]
        name = "a"
        verifier = { env = { B = "2" } }
        [[steps]]
        name = "b"
        agent = { timeout_sec = 0, user = 0 }
        verifier = { timeout_sec = 5, user = 0 }
        """
    )
    first, second = config.steps
    assert (config.agent_timeout_sec(first), config.agent_timeout_sec(second)) == (10, 0)
    assert (config.agent_user(first), config.agent_user(second)) == ("worker", 0)
    assert (config.verifier_timeout_sec(first), config.verifier_timeout_sec(second)) == (600, 5)
    assert (config.verifier_user(first), config.verifier_user(second)) == ("judge", 0)
    assert config.verifier_env(first) == {"A": "1", "B": "2"}
    assert config.verifier_timeout_sec() == 20
