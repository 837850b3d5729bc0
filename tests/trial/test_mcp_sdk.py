"""Servers written with the official SDK, in an image that has it; clients in and outside."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.slow]

DOCKERFILE = """\
FROM debian:bookworm-slim
RUN apt-get update \\
    && apt-get install -y --no-install-recommends python3 python3-pytest \\
    && rm -rf /var/lib/apt/lists/*
COPY site /opt/site
ENV PYTHONPATH=/opt/site
COPY server.py client.py enter.sh /opt/
WORKDIR /app
"""

SERVER = """\
import sys
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("oracle of numbers")

@server.tool()
def add(a: int, b: int) -> int:
    "Adds."
    return a + b

@server.tool()
def who_asks(context: Context) -> str:
    "The caller's credentials."
    return context.request_context.request.headers["authorization"]

if sys.argv[1] == "stdio":
    server.run()
else:
    server.run(sys.argv[1], host="127.0.0.1", port=8123)
"""

# Servers with a URL are the task's to start: here by the image's ENTRYPOINT.
ENTER = """\
#!/bin/bash
for transport in $SERVE; do
    python3 /opt/server.py "$transport" >/tmp/server.log 2>&1 </dev/null &
done
exec "$@"
"""

CLIENT = """\
import asyncio, json, os, re, socket, time
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

def filled(value):
    return re.sub(r"\\$\\{(\\w+)\\}", lambda match: os.environ[match[1]], value)

async def main():
    config = json.load(open(os.environ["HARBOR_MCP_CONFIG"]))
    server = config["mcpServers"]["numbers"]
    headers = {name: filled(value) for name, value in server["headers"].items()}
    if server["type"] == "sse":
        opened = sse_client(server["url"], headers=headers)
    else:
        http = create_mcp_http_client(headers=headers)
        opened = streamable_http_client(server["url"], http_client=http)
    async with opened as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        total = await session.call_tool("add", {"a": 2, "b": 40})
        caller = await session.call_tool("who_asks", {})
        ok = (total.content[0].text, caller.content[0].text) == ("42", "Bearer t0p-secret")
        print(total.content[0].text, caller.content[0].text)
        open("/app/out.txt", "w").write("ok" if ok else "no")

def wait_for_port():
    for _ in range(300):
        try:
            return socket.create_connection(("127.0.0.1", 8123)).close()
        except OSError:
            time.sleep(0.1)

wait_for_port()
asyncio.run(main())
"""


@pytest.fixture(scope="session")
def sdk_folder(tmp_path_factory):
    """The SDK for the image's Python; pip need not be there, nor an index."""
    folder = tmp_path_factory.mktemp("sdk") / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    command += ["--python-version", "3.11", "--only-binary=:all:", "--implementation", "cp"]
    machine = platform.machine().replace("arm64", "aarch64")
    for libc in ("manylinux2014", "manylinux_2_17", "manylinux_2_28"):
        command += ["--platform", f"{libc}_{machine}"]
    done = subprocess.run([*command, "mcp>=2,<3"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the SDK cannot be had for the image: {done.stderr[-500:]}")
    return folder


@pytest.fixture
def numbers_task(make_task, sdk_folder):
    """Writes a task whose server is of one transport."""

    def make(toml: str, serve: str = "") -> Path:
        entry = f'ENV SERVE="{serve}"\nENTRYPOINT ["bash", "/opt/enter.sh"]\n'
        folder = make_task(dockerfile=DOCKERFILE + entry, toml=toml)
        environment = folder / "environment"
        shutil.copytree(sdk_folder, environment / "site", copy_function=os.link)
        for name, text in (("server.py", SERVER), ("client.py", CLIENT), ("enter.sh", ENTER)):
            (environment / name).write_text(text)
        return folder

    return make


@pytest.mark.parametrize(
    ("transport", "path"),
    [
        ("streamable-http", "mcp"),
        pytest.param("http", "mcp", marks=pytest.mark.long),
        pytest.param("sse", "sse", marks=pytest.mark.long),
    ],
)
@pytest.mark.long
def test_a_command_reaches_a_server_with_a_url(
    numbers_task, run_tasks, monkeypatch, transport, path
):
    monkeypatch.setenv("NUMBERS_TOKEN", "t0p-secret")
    numbers_task(
        f"""\
        network_mode = "no-network"
        [[environment.mcp_servers]]
        name = "numbers"
        transport = "{transport}"
        url = "http://127.0.0.1:8123/{path}"
        headers = {{ Authorization = "Bearer ${{NUMBERS_TOKEN}}" }}
        """,
        serve=transport.replace("streamable-", "").replace("http", "streamable-http"),
    )
    ran = run_tasks("tasks", "--harbor-agent-command=python3 /opt/client.py")
    said = (ran.folder() / "agent/command.txt").read_text()
    ran.run.assert_outcomes(passed=1)
    assert said == "42 [REDACTED]\n"


def test_an_agent_on_this_machine_calls_a_stdio_server(numbers_task, run_tasks, pytester):
    numbers_task(
        """\
        network_mode = "no-network"
        [[environment.mcp_servers]]
        name = "numbers"
        transport = "stdio"
        command = "python3"
        args = ["/opt/server.py", "stdio"]
        """
    )
    pytester.makepyfile(
        adder="""
        from pytest_harbor import Agent

        class Adder(Agent):
            def run(self, instruction, environment, context):
                with context.connect_mcp(environment, "numbers") as numbers:
                    assert {tool.name for tool in numbers.list_tools()} == {"add", "who_asks"}
                    total = numbers.call_tool("add", {"a": 2, "b": 40})
                    large = numbers.call_tool("add", {"a": 10**15, "b": 1})
                assert large.content[0].text == str(10**15 + 1)
                environment.write("/app/out.txt", "ok" if total.content[0].text == "42" else "no")
        """
    )
    ran = run_tasks("tasks", "--harbor-agent=adder:Adder")
    ran.run.assert_outcomes(passed=1)
