"""MCP servers as agents get them: headers filled, secrets known, and the file for clients."""

import json
import pickle
from typing import Any

import pytest

from pytest_harbor.agent.base import Agent
from pytest_harbor.agent.command import MCP_CONFIG_FILE, fill
from pytest_harbor.agent.mcp import (
    McpServerSpec,
    config_text,
    header_variables,
    resolve_servers,
)
from pytest_harbor.agent.reference import NopAgent, OracleAgent
from pytest_harbor.errors import MissingVariableError, OptionError, UnsupportedError
from pytest_harbor.task.mcp import McpServer
from pytest_harbor.task.reader import read_task
from pytest_harbor.trial.tools import AgentTools, agent_tools


def http_server(headers: dict[str, str], name: str = "search", **values: Any) -> McpServer:
    return McpServer(
        name=name,
        transport="streamable-http",
        url="http://side:8000/mcp",
        headers=headers,
        **values,
    )


def resolved(
    headers: dict[str, str], agent: dict[str, str] | None = None, host: dict[str, str] | None = None
) -> McpServerSpec:
    (server,) = resolve_servers([http_server(headers)], agent or {}, host or {})
    return server


# Headers


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        ("Bearer ${API_TOKEN}", "Bearer from-host"),
        ("${BOTH}", "from-agent"),
        ("${API_TOKEN}/${BOTH}", "from-host/from-agent"),
        ("v${UNSET:-1}.0", "v1.0"),
        ("${UNSET:-}", ""),
        ("${EMPTY:-default}", ""),
        ("${BOTH:-default}", "from-agent"),
        ("$BOTH ${1X} {BOTH}", "$BOTH ${1X} {BOTH}"),
        ("${NESTED}", "${BOTH}"),
    ],
)
def test_templates_are_filled_from_the_agents_variables_then_the_hosts(
    value: str, expected: str
) -> None:
    agent = {"BOTH": "from-agent"}
    host = {"BOTH": "from-host", "API_TOKEN": "from-host", "EMPTY": "", "NESTED": "${BOTH}"}
    assert resolved({"X-Value": value}, agent, host).headers == {"X-Value": expected}


def test_a_missing_variable_is_named_with_its_header_and_server() -> None:
    with pytest.raises(MissingVariableError) as caught:
        resolved({"Authorization": "Bearer ${MY_TOKEN}${MY_TOKEN}"})
    message = str(caught.value)
    assert "header 'Authorization' of MCP server 'search' needs MY_TOKEN" in message
    assert "--harbor-agent-env" in message
    assert str(pickle.loads(pickle.dumps(caught.value))) == message


def test_a_value_with_a_line_end_is_refused_without_being_shown() -> None:
    with pytest.raises(OptionError, match="value of MY_TOKEN holds a line end") as caught:
        resolved({"Authorization": "${MY_TOKEN}"}, host={"MY_TOKEN": "abc\r\nX-Evil: s3cr3t"})
    assert "s3cr3t" not in str(caught.value)


def test_what_came_from_variables_is_secret_and_what_the_task_says_is_not() -> None:
    server = resolved(
        {
            "Authorization": "Bearer ${MY_TOKEN}",
            "X-Region": "${REGION}",
            "X-Account": "${ACCOUNT}",
            "X-Fixed": "a-long-fixed-value",
            "X-Default": "${UNSET:-a-long-default}",
        },
        host={"MY_TOKEN": "t0k", "REGION": "eu", "ACCOUNT": "12345678"},
    )
    assert set(server.secrets) == {"t0k", "Bearer t0k", "12345678"}
    assert "t0k" not in repr(server)


def test_the_later_server_of_one_name_wins() -> None:
    servers = [
        McpServer(name="a", transport="stdio", command="old"),
        McpServer(name="b", url="http://b/sse"),
        McpServer(name="a", transport="stdio", command="new", args=("-v",)),
    ]
    names = {server.name: server for server in resolve_servers(servers, {}, {})}
    assert list(names) == ["a", "b"]
    assert (names["a"].command, names["a"].args) == ("new", ("-v",))


def test_headers_of_a_server_that_loses_its_name_need_no_variables() -> None:
    lost = http_server({"Authorization": "${NOT_SET}"}, name="a")
    kept = McpServer(name="a", transport="stdio", command="server")
    assert resolve_servers([lost, kept], {}, {}) == (
        McpServerSpec(name="a", transport="stdio", command="server"),
    )


# The file


def test_the_file_has_every_transport_as_clients_know_it() -> None:
    servers = (
        McpServerSpec("local", "stdio", command="python3", args=("-m", "server")),
        McpServerSpec("events", "sse", url="http://side/sse"),
        McpServerSpec("search", "streamable-http", url="http://side/mcp"),
    )
    assert json.loads(config_text(servers)) == {
        "mcpServers": {
            "local": {"type": "stdio", "command": "python3", "args": ["-m", "server"]},
            "events": {"type": "sse", "url": "http://side/sse"},
            "search": {"type": "http", "url": "http://side/mcp"},
        }
    }


def test_headers_are_references_to_variables_that_hold_the_values() -> None:
    first = http_server({"Authorization": "Bearer ${MY_TOKEN}", "X-Mode": "fast"})
    second = http_server({"Authorization": "${MY_TOKEN}"}, name="search (2)")
    servers = resolve_servers([first, second], {}, {"MY_TOKEN": "s3cr3t-value"})
    text = config_text(servers)
    assert "s3cr3t" not in text
    variables = header_variables(servers)
    table = json.loads(text)["mcpServers"]
    for server in servers:
        written = table[server.name]["headers"]
        filled = {name: variables[value[2:-1]] for name, value in written.items()}
        assert filled == dict(server.headers)
    assert len(variables) == 3
    assert all(name.startswith("MCP_AUTH_") for name in variables)


def test_no_servers_give_an_empty_table() -> None:
    assert json.loads(config_text(())) == {"mcpServers": {}}
    assert header_variables(()) == {}


def test_the_placeholder_is_the_files_path() -> None:
    assert fill("agent --mcp {mcp_config}", "x {mcp_config}") == f"agent --mcp {MCP_CONFIG_FILE}"
    assert fill("say {instruction}", "x {mcp_config}") == "say 'x {mcp_config}'"


# Who gets them

TOML = """\
    skills_dir = "/opt/skills"
    [[environment.mcp_servers]]
    name = "search"
    url = "http://side/sse"
    headers = { Authorization = "Bearer ${MY_TOKEN}" }
    """


class Plain(Agent):
    name = "plain"

    def run(self, *args: object) -> None: ...


class NoMcp(Plain):
    supports_mcp = False


class NoSkills(Plain):
    supports_skills = False


def test_agents_get_servers_and_skills(make_task) -> None:
    tools = agent_tools(read_task(make_task(toml=TOML)), Plain(), {"MY_TOKEN": "t0ken"}, {})
    assert tools.skills_dir == "/opt/skills"
    assert [server.headers for server in tools.mcp_servers] == [{"Authorization": "Bearer t0ken"}]
    assert set(tools.secrets) == {"t0ken", "Bearer t0ken"}


@pytest.mark.parametrize("agent", [OracleAgent(), NopAgent()])
def test_oracle_and_nop_get_none_and_need_no_variables(make_task, agent: Agent) -> None:
    assert agent_tools(read_task(make_task(toml=TOML)), agent, {}, {}) == AgentTools()


def test_an_agent_that_cannot_use_them_is_told_so(make_task) -> None:
    task = read_task(make_task(toml=TOML))
    with pytest.raises(UnsupportedError, match=r"mcp_servers\]\]\), which agent plain cannot use"):
        agent_tools(task, NoMcp(), {}, {})
    with pytest.raises(UnsupportedError, match=r"skills .*, which agent plain cannot use"):
        agent_tools(task, NoSkills(), {"MY_TOKEN": "t0ken"}, {})
    bare = read_task(make_task("bare"))
    assert agent_tools(bare, NoMcp(), {}, {}) == AgentTools()
