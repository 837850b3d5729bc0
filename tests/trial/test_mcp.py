"""A task's MCP servers, talked to by agents: a real server, the official client."""

import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.docker

EXAMPLES = Path(__file__).parents[2] / "example_tasks"

HEADERS = """\
    skills_dir = "/opt/skills"
    [[environment.mcp_servers]]
    name = "search"
    transport = "streamable-http"
    url = "http://side:8000/mcp"
    headers = { Authorization = "Bearer ${MY_TOKEN}" }
    """


@pytest.fixture
def registry(pytester):
    """The example with an MCP server, in the inner project."""
    return Path(shutil.copytree(EXAMPLES / "query-registry", pytester.path / "tasks/registry"))


def test_an_agent_on_this_machine_works_through_the_server(registry, run_tasks, pytester):
    pytester.makepyfile(
        clerk="""
        import json
        from pytest_harbor import Agent

        NAMES = ["Anneliese", "Gull of Bergen", "Marlin", "Sea Lark"]

        class Clerk(Agent):
            def run(self, instruction, environment, context):
                assert context.skills_dir == "/opt/skills"
                skill = environment.read(context.skills_dir + "/read-arrivals/SKILL.md")
                assert b"One ship per line" in skill
                with context.connect_mcp(environment, "registry") as registry:
                    tools = {tool.name: tool for tool in registry.list_tools()}
                    assert sorted(tools) == ["berth_of", "search_ships"]
                    rows = [row for name in NAMES for row in self.rows(registry, name)]
                    assert environment.exec("id -un").stdout == "clerk\\n"
                environment.exec(["tee", "/app/manifest.csv"])
                environment.write("/app/manifest.csv", "name,imo,berth\\n" + "".join(rows))

            def rows(self, registry, name):
                found = registry.call_tool("search_ships", {"text": name})
                for ship in json.loads(found.content[0].text):
                    if ship["name"] == name:
                        berth = registry.call_tool("berth_of", {"imo": ship["imo"]})
                        yield f"{name},{ship['imo']},{berth.content[0].text}\\n"
        """
    )
    ran = run_tasks("tasks", "--harbor-agent=clerk:Clerk")
    ran.run.assert_outcomes(passed=1)
    log = ran.folder("registry") / "agent" / "mcp-registry.txt"
    assert log.read_text() == "register open\n"


def test_an_async_agent_has_the_sdks_own_session(registry, run_tasks, pytester):
    pytester.makepyfile(
        clerk2="""
        import asyncio
        from pytest_harbor import Agent

        class Clerk(Agent):
            def run(self, instruction, environment, context):
                asyncio.run(self.work(environment, context))

            async def work(self, environment, context):
                async with context.mcp_session(environment, "registry") as session:
                    result = await session.call_tool("berth_of", {"imo": "0"})
                    context.metadata["said"] = result.content[0].text
                    await session.send_ping()
                try:
                    async with context.mcp_session(environment, "registry"):
                        raise LookupError("as it is")
                except LookupError as error:
                    context.metadata["raised"] = str(error)
        """
    )
    ran = run_tasks("tasks", "--harbor-agent=clerk2:Clerk")
    assert ran.one("registry")["agent_result"]["metadata"] == {
        "said": "no ship has IMO number 0",
        "raised": "as it is",
    }
    names = {path.name for path in (ran.folder("registry") / "agent").glob("mcp-*")}
    assert names == {"mcp-registry.txt", "mcp-registry-2.txt"}


CLIENT = """\
import json, os, subprocess, sys
# A client as others write it: all it knows is the file.
config = json.load(open(os.environ["HARBOR_MCP_CONFIG"]))
assert sys.argv[1] == os.environ["HARBOR_MCP_CONFIG"]
server = config["mcpServers"]["registry"]
assert server["type"] == "stdio"
process = subprocess.Popen(
    [server["command"], *server["args"]], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
params = {"protocolVersion": "2025-06-18", "capabilities": {},
          "clientInfo": {"name": "t", "version": "1"}}
call = {"name": "berth_of", "arguments": {"imo": "9319466"}}
for number, (method, given) in enumerate([("initialize", params), ("tools/call", call)]):
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
    process.stdin.write(json.dumps(request) + "\\n")
    process.stdin.flush()
    reply = json.loads(process.stdout.readline())
print("berth:", reply["result"]["content"][0]["text"])
print("skills:", os.listdir(os.environ["HARBOR_SKILLS_DIR"]))
"""


def test_a_command_reads_the_servers_from_a_file(registry, run_tasks):
    dockerfile = registry / "environment/Dockerfile"
    dockerfile.write_text(dockerfile.read_text() + "COPY client.py /opt/client.py\n")
    (registry / "environment/client.py").write_text(CLIENT)
    ran = run_tasks("tasks", "--harbor-agent-command=python3 /opt/client.py {mcp_config}")
    said = (ran.folder("registry") / "agent/command.txt").read_text()
    assert said == "register open\nberth: deep-water\nskills: ['read-arrivals']\n"


def test_a_command_without_servers_has_an_empty_file_and_no_variables(make_task, run_tasks):
    make_task()
    command = 'cat {mcp_config}; echo "<$HARBOR_MCP_CONFIG$HARBOR_SKILLS_DIR>"; env | grep MCP_AUTH'
    ran = run_tasks("tasks", f"--harbor-agent-command={command}")
    said = (ran.folder() / "agent/command.txt").read_text()
    assert said == '{\n  "mcpServers": {}\n}\n<>\n'


def test_headers_reach_the_command_as_variables_and_no_file(make_task, run_tasks, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "s3cr3t-of-the-host")
    make_task(toml=HEADERS)
    command = """
        name=$(sed -n 's/.*"Authorization": "${\\(.*\\)}".*/\\1/p' "$HARBOR_MCP_CONFIG")
        [ "$(printenv "$name")" = "Bearer s3cr3t-of-the-host" ] && echo ok > /app/out.txt
        printenv "$name"; cat "$HARBOR_MCP_CONFIG"
        """
    ran = run_tasks("tasks", f"--harbor-agent-command={command}")
    ran.run.assert_outcomes(passed=1)
    written = [path for path in ran.folder().rglob("*") if path.is_file()]
    assert any(path.name == "mcp.json" for path in written)
    assert not [path for path in written if b"s3cr3t" in path.read_bytes()]
    assert "[REDACTED]" in (ran.folder() / "agent/command.txt").read_text()


def test_a_missing_variable_stops_the_trial_before_the_start(make_task, run_tasks):
    make_task(toml=HEADERS)
    ran = run_tasks("tasks", "--harbor-agent-command=true")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(["*header 'Authorization' of MCP server 'search' needs MY_TOKEN*"])


def test_oracle_ignores_servers_and_skills(make_task, run_tasks):
    make_task(toml=HEADERS)
    run_tasks("tasks").run.assert_outcomes(passed=1)


def test_an_agent_that_cannot_use_them_is_skipped_before_the_start(make_task, run_tasks, pytester):
    make_task(toml=HEADERS)
    pytester.makepyfile(
        plain="""
        from pytest_harbor import Agent

        class Plain(Agent):
            supports_mcp = False

            def run(self, instruction, environment, context):
                raise AssertionError("never called")
        """
    )
    ran = run_tasks("tasks", "--harbor-agent=plain:Plain", "-rs")
    ran.run.assert_outcomes(skipped=1)
    ran.run.stdout.fnmatch_lines(["*MCP servers*which agent plain:Plain cannot use*"])


BROKEN = """\
    [[environment.mcp_servers]]
    name = "missing"
    transport = "stdio"
    command = "no-such-server"
    [[environment.mcp_servers]]
    name = "mute"
    transport = "stdio"
    command = "sh"
    args = ["-c", "echo not a message; echo why >&2; exit 3"]
    [[environment.mcp_servers]]
    name = "far"
    url = "http://localhost:8000/sse"
    """


@pytest.fixture
def say(make_task, run_tasks, pytester):
    """What an agent says that tries to connect to one server of BROKEN."""
    make_task(toml=BROKEN)
    pytester.makepyfile(
        trier="""
        from pytest_harbor import Agent, HarborError

        class Trier(Agent):
            def __init__(self, *, server, model_name=None):
                super().__init__(model_name=model_name)
                self.server = server

            def run(self, instruction, environment, context):
                try:
                    context.connect_mcp(environment, self.server).close()
                except (HarborError, KeyError) as error:
                    context.metadata["said"] = f"{type(error).__name__}: {error}"
        """
    )

    def said(server: str) -> str:
        ran = run_tasks(
            "tasks", "--harbor-agent=trier:Trier", f"--harbor-agent-kwarg=server={server}"
        )
        return str(ran.one()["agent_result"]["metadata"]["said"])

    return said


def test_a_program_that_is_not_there_is_named(say):
    text = say("missing")
    assert "McpServerError: MCP server 'missing' (no-such-server) does not answer" in text
    assert "it ended with exit status 127" in text


def test_a_server_that_ends_is_shown_with_its_last_words(say):
    text = say("mute")
    assert "it ended with exit status 3" in text
    assert "| why" in text


def test_a_server_behind_a_url_cannot_be_reached_from_here(say):
    assert "UnsupportedError: MCP server 'far' is at http://localhost:8000/sse" in say("far")


def test_an_unknown_server_is_named_beside_those_known(say):
    assert "no MCP server 'other'; known: missing, mute, far" in say("other")


@pytest.mark.long
def test_a_call_that_hangs_ends_with_the_phase(registry, run_tasks, pytester):
    toml = registry / "task.toml"
    toml.write_text(toml.read_text().replace("timeout_sec = 120.0", "timeout_sec = 2.0"))
    server = registry / "environment/server.py"
    server.write_text(
        server.read_text().replace(
            "def berth_of(imo: str) -> str:\n",
            'def berth_of(imo: str) -> str:\n    __import__("time").sleep(1000)\n',
        )
    )
    pytester.makepyfile(
        waiter="""
        from pytest_harbor import Agent

        class Waiter(Agent):
            def run(self, instruction, environment, context):
                with context.connect_mcp(environment, "registry") as registry:
                    registry.call_tool("berth_of", {"imo": "1"})
        """
    )
    (registry / "tests/test.sh").write_text(
        "#!/bin/bash\n"
        "grep -qs registry/server.py /proc/[0-9]*/cmdline && r=0 || r=1\n"
        "echo $r > /logs/verifier/reward.txt\n"
    )
    ran = run_tasks("tasks", "--harbor-agent=waiter:Waiter")
    ran.run.assert_outcomes(passed=1)  # the server was dead before the verifier came
    assert ran.one("registry")["exception_info"]["exception_type"] == "AgentTimeoutError"
