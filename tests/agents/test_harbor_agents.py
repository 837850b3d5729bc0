"""Harbor's own agents, of its published package, at work in our environments."""

import json
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_harbor.errors import OptionError
from pytest_harbor.registry import make_agent
from tests.model_server import ModelServer, Turn

pytestmark = pytest.mark.skipif(
    find_spec("harbor") is None,
    reason="the package harbor is not installed (it needs Python 3.12 or newer)",
)

KEY = "sk-real-0123456789abcdef0123456789"
TOKEN = "tok-0123456789abcdef"
AGENTS = '''
import asyncio, json, os
from pathlib import Path

from harbor.agents.base import BaseAgent
from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.agent_auth_resolution import ModelConnectionSpec
from harbor.agents.installed.base import ApiRateLimitError, BaseInstalledAgent
from harbor.models.agent.context import ModelUsage

TRAJECTORY = {
    "schema_version": "ATIF-v1.8", "session_id": "s", "agent": {"name": "tiny", "version": "3"},
    "steps": [{"step_id": 1, "source": "user", "message": "hi"},
              {"step_id": 2, "source": "agent", "message": "SECRET",
               "metrics": {"prompt_tokens": 7, "completion_tokens": 2}}],
}


class Tiny(BaseAgent):
    capabilities = AgentCapabilities(atif=True, skills=True, mcp_servers=True)

    @staticmethod
    def name(): return "tiny"

    def version(self): return "3"

    async def setup(self, environment):
        await environment.exec("useradd -m worker && mkdir -p /app/dir && touch /app/dir/f",
                               user="root")

    async def run(self, instruction, environment, context):
        seen = {"skills": self.skills_dir, "session": self.session_id.endswith("__agent")}
        seen["servers"] = [(s.name, s.transport, s.headers) for s in self.mcp_servers]
        env = {"A": "a b"}
        seen["out"] = (await environment.exec('pwd; echo "$A"; echo err >&2; exit 3', cwd="/tmp",
                                              env=env)).model_dump()
        seen["user"] = (await environment.exec("id -un", user="worker")).stdout
        seen["agent_env"] = (await environment.exec("echo $MY_SETTING")).stdout
        seen["kinds"] = [await environment.is_dir("/app/dir")]
        seen["kinds"] += [await environment.is_file(p) for p in ("/app/dir", "/app/dir/f")]
        try:
            await environment.exec("sleep 100", timeout_sec=1)
        except RuntimeError as error:
            seen["timeout"] = str(error)
        here = Path(__file__).parent / "sent"
        (here / "sub").mkdir(parents=True)
        (here / "sub/x.txt").write_text("ok\\n")
        await environment.upload_dir(here, "/app/sent")
        await environment.upload_file(here / "sub/x.txt", "/app/out.txt")
        await environment.exec("ln -s /etc/passwd /app/sent/link; mkfifo /app/sent/pipe")
        await environment.download_dir("/app/sent", self.logs_dir / "back")
        await environment.download_file("/app/out.txt", self.logs_dir / "out.txt")
        context.n_input_tokens, context.n_output_tokens, context.cost_usd = 11, 5, 0.25
        context.model_usage = {"m": ModelUsage(n_input_tokens=11, n_output_tokens=5)}
        context.rollout_details = [{"completion_token_ids": [[1, 2]]}]
        context.metadata = {"seen": seen}
        self.logger.warning("I know " + os.environ["SOME_TOKEN"])
        self.logger.info("x" * 200_000)
        text = json.dumps(TRAJECTORY).replace("SECRET", os.environ["SOME_TOKEN"])
        (self.logs_dir / "trajectory.json").write_text(text)


class Slow(Tiny):
    async def setup(self, environment): pass

    async def run(self, instruction, environment, context):
        context.n_input_tokens = 9
        await environment.exec("echo ok > /app/out.txt")
        try:
            await environment.exec("sleep 1000")
        finally:
            context.metadata = {"cleaned": True}


class Loads(Slow):
    capabilities = AgentCapabilities(load_atif_trajectory=True)

    async def load(self, instruction, environment, context):
        steps = json.loads(Path(self.load_trajectory).read_text())["steps"]
        await environment.exec(f"echo {steps[1]['message']} > /app/out.txt")


class Limited(Slow):
    async def run(self, instruction, environment, context):
        await environment.exec("echo ok > /app/out.txt")
        raise ApiRateLimitError("the provider said 429")


class Claims(BaseInstalledAgent):
    capabilities = AgentCapabilities()

    @staticmethod
    def name(): return "claims"

    async def install(self, environment): pass

    async def run(self, instruction, environment, context):
        command = "echo ok > /app/out.txt; echo 'HTTP 429 Too Many Requests'; exit 1"
        await self.exec_as_agent(environment, command=command)


CALL = """
base=${OPENAI_BASE_URL#http://}; address=${base%%/*}
body='{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
exec 3<>"/dev/tcp/${address%:*}/${address#*:}"
printf '%s\\r\\n' 'POST /v1/chat/completions HTTP/1.1' 'Host: m' 'Connection: close' \\
  'Content-Type: application/json' "Content-Length: ${#body}" \\
  "Authorization: Bearer $OPENAI_API_KEY" "" >&3
printf '%s' "$body" >&3
cat <&3 > /logs/agent/answer.txt && grep -q done /logs/agent/answer.txt && echo ok > /app/out.txt
"""


class Installed(BaseInstalledAgent):
    capabilities = AgentCapabilities(atif=True, base_url=True)
    MODEL_CONNECTION = ModelConnectionSpec()

    @staticmethod
    def name(): return "installed"

    def get_version_command(self): return "echo 7"

    async def install(self, environment):
        await self.exec_as_root(environment, command="touch /usr/local/bin/tool")

    async def run(self, instruction, environment, context):
        await self.exec_as_agent(environment, command=CALL, env=dict(self.model_connection.env))

    def populate_context_post_run(self, context):
        assert (self.logs_dir / "answer.txt").read_text()
        (self.logs_dir / "trajectory.json").write_text(json.dumps(TRAJECTORY))
'''
TASK = """
    skills_dir = "/skills"
    [[environment.mcp_servers]]
    name = "far"
    transport = "streamable-http"
    url = "http://mcp:8000/mcp"
    headers = { Authorization = "Bearer ${SOME_TOKEN}" }
    """


@pytest.fixture(scope="session", autouse=True)
def _harbor_is_imported() -> None:
    """It takes seconds, and an inner run in this process forgets what it imported itself."""
    if find_spec("harbor") is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_module("pytest_harbor.agent.harbor.agent")
            import_module("harbor.agents.terminus_2")


@pytest.fixture
def own(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(own_harbor=AGENTS)
    monkeypatch.setenv("SOME_TOKEN", TOKEN)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.root}/v1")
        yield server


def written(folder: Path) -> bytes:
    """Everything that a run wrote."""
    return b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.docker
@pytest.mark.parametrize("prefix", ["harbor:", pytest.param("", marks=pytest.mark.long)])
def test_an_agent_written_for_harbor_works_and_is_told_of(
    run_tasks, make_task, own, pytester, prefix
) -> None:
    make_task(toml=TASK)
    ran = run_tasks(
        f"--harbor-agent={prefix}own_harbor:Tiny",
        "--harbor-agent-env=MY_SETTING=on",
        "-rA",  # with whatever was logged
    )
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert result["agent_info"]["version"] == "3"
    told = result["agent_result"]
    seen = told.pop("metadata")["seen"]
    assert told == {
        "n_input_tokens": 11,
        "n_cache_tokens": None,
        "n_output_tokens": 5,
        "cost_usd": 0.25,
        "model_usage": {"m": {"n_input_tokens": 11, "n_cache_tokens": 0, "n_output_tokens": 5}},
        "rollout_details": [{"completion_token_ids": [[1, 2]]}],
    }
    assert seen["out"] == {"stdout": "/tmp\na b\nerr\n", "stderr": None, "return_code": 3}
    assert seen["user"] == "worker\n"
    assert seen["agent_env"] == "on\n"
    assert seen["kinds"] == [True, False, True]
    assert seen["timeout"] == "Command timed out after 1 seconds"
    assert (seen["skills"], seen["session"]) == ("/skills", True)
    ((name, transport, headers),) = seen["servers"]
    assert (name, transport) == ("far", "streamable-http")
    assert headers["Authorization"].startswith("${MCP_AUTH_")
    back = ran.folder() / "agent/back"
    assert {str(p.relative_to(back)) for p in back.rglob("*")} == {"sub", "sub/x.txt"}
    assert (ran.folder() / "agent/out.txt").read_text() == "ok\n"
    steps = json.loads((ran.folder() / "agent/trajectory.json").read_text())["steps"]
    assert steps[1]["message"] == "[REDACTED]"
    assert result["pytest_harbor"]["usage"]["n_steps"] == 2
    assert "I know [REDACTED]" in (ran.folder() / "agent/harbor.log").read_text()
    assert TOKEN.encode() not in written(pytester.path / "jobs")
    assert TOKEN not in ran.text


@pytest.mark.docker
@pytest.mark.long
def test_its_coroutine_is_cancelled_at_the_limit_and_what_it_told_is_kept(
    run_tasks, make_task, own
) -> None:
    make_task(toml='=version = "1.0"\n[agent]\ntimeout_sec = 3\n[verifier]\ntimeout_sec = 60\n')
    ran = run_tasks("--harbor-agent=harbor:own_harbor:Slow")
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert result["exception_info"]["exception_type"] == "AgentTimeoutError"
    assert result["agent_result"]["n_input_tokens"] == 9
    assert result["agent_result"]["metadata"] == {"cleaned": True}


@pytest.mark.docker
@pytest.mark.long
def test_it_goes_on_from_the_trajectory_of_a_task(run_tasks, make_task, own) -> None:
    folder = make_task()
    steps = [("user", "hi"), ("agent", "ok")]
    given = {
        "schema_version": "ATIF-v1.8",
        "agent": {"name": "a", "version": "1"},
        "steps": [
            {"step_id": number, "source": source, "message": message}
            for number, (source, message) in enumerate(steps, 1)
        ],
    }
    make_task.write(folder, "trajectory.json", json.dumps(given))
    run_tasks("--harbor-agent=harbor:own_harbor:Loads").run.assert_outcomes(passed=1)


@pytest.mark.docker
@pytest.mark.long
def test_its_word_that_the_provider_failed_counts(run_tasks, make_task, own) -> None:
    make_task()
    ran = run_tasks("--harbor-agent=harbor:own_harbor:Limited")
    result = ran.one()
    assert result["exception_info"]["exception_type"] == "ApiRateLimitError"
    assert result["pytest_harbor"]["category"] == "agent"


@pytest.mark.docker
@pytest.mark.parametrize(("kind", "tries"), [("Limited", 2), ("Claims", 1)])
def test_what_a_command_printed_is_no_reason_for_another_try_of_work(
    run_tasks, make_task, own, kind, tries
) -> None:
    make_task()
    ran = run_tasks(
        f"--harbor-agent=harbor:own_harbor:{kind}",
        "--harbor-retries=1",
        "--harbor-retry-wait=ApiRateLimitError=0",
    )
    result = ran.one()
    assert result["exception_info"]["exception_type"] == "ApiRateLimitError"
    assert len(result["pytest_harbor"].get("tries", [])) == tries - 1


@pytest.mark.docker
def test_an_agent_that_harbor_installs_gets_the_gateway_and_no_key(
    run_tasks, make_task, own, model, pytester
) -> None:
    make_task()
    ran = run_tasks(
        "--harbor-agent=harbor:own_harbor:Installed",
        "--harbor-model=openai/m",
        "--harbor-network=no-network",
    )
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert result["agent_info"]["version"] == "7"
    assert result["agent_result"]["n_input_tokens"] == 100
    assert (ran.folder() / "agent/trajectory.json").is_file()
    assert model.calls[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY.encode() not in written(pytester.path / "jobs")


TERMINUS = (
    "--harbor-agent=harbor:terminus-2",
    "--harbor-model=openai/m",
    "--harbor-agent-kwarg=record_terminal_session=false",
    "--harbor-network=no-network",
)
TMUX = """\
    FROM debian:bookworm-slim
    RUN apt-get update && apt-get install -y --no-install-recommends tmux
    WORKDIR /app
    """


def said(keys: str = "", *, done: bool = False) -> Turn:
    """An answer in the form that terminus-2 asks for."""
    commands = [{"keystrokes": keys, "duration": 0.5}] if keys else []
    answer = {"analysis": "a", "plan": "p", "commands": commands, "task_complete": done}
    return Turn(json.dumps(answer))


WORK = said("echo ok > /app/out.txt\n")


@pytest.mark.docker
def test_terminus_solves_a_task_with_no_network_and_no_key(
    run_tasks, make_task, model, pytester
) -> None:
    make_task(dockerfile=TMUX)
    model.script.refill([WORK, said(done=True), said(done=True)])
    ran = run_tasks(*TERMINUS)
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert result["agent_info"]["version"] == "2.0.0"
    assert result["agent_result"]["n_input_tokens"] == 300
    assert result["agent_result"]["metadata"]["n_episodes"] == 3
    assert result["pytest_harbor"]["usage"]["n_steps"] == 4
    trajectory = json.loads((ran.folder() / "agent/trajectory.json").read_text())
    calls = [call for step in trajectory["steps"] for call in step.get("tool_calls", ())]
    assert any("out.txt" in json.dumps(call["arguments"]) for call in calls)
    assert (ran.folder() / "agent/model_calls.jsonl").read_text().count("\n") == 3
    assert model.calls[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY.encode() not in written(pytester.path / "jobs")


@pytest.mark.docker
@pytest.mark.long
def test_terminus_is_ended_at_a_limit_of_its_calls_and_graded(run_tasks, make_task, model) -> None:
    make_task(dockerfile=TMUX)
    model.script.refill([WORK, said("sleep 1\n"), said("sleep 1\n"), said("sleep 1\n")])
    ran = run_tasks(*TERMINUS, "--harbor-max-calls=2")
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert result["exception_info"]["exception_type"] == "AgentModelLimitError"
    assert len(model.calls) == 2


def refusal(name: str, model: str | None = None, **kwargs: object) -> str:
    with pytest.raises(OptionError) as caught:
        make_agent(name, model=model, kwargs=kwargs)
    return str(caught.value)


def test_a_name_that_harbor_lacks_is_answered_with_those_it_has() -> None:
    text = refusal("harbor:terminus2")
    assert "did you mean harbor:terminus-2?" in text
    assert "claude-code" in text


def test_what_is_built_in_is_not_harbors() -> None:
    assert "--harbor-agent=oracle" in refusal("harbor:oracle")


def test_a_class_that_is_no_agent_of_harbors_is_refused() -> None:
    assert "must be a subclass of harbor.agents.base.BaseAgent" in refusal("harbor:pathlib:Path")


def test_an_option_that_the_agent_lacks_is_refused() -> None:
    text = refusal("harbor:terminus-2", model="openai/m", no_such="x")
    assert "Unknown option 'no_such'" in text


@pytest.mark.parametrize(
    ("name", "model", "wire", "base"),
    [
        ("terminus-2", "openai/m", "openai", "http://h/v1"),
        ("terminus-2", "anthropic/claude-m", "anthropic", "http://h"),
        ("terminus-2", "gemini/gemini-2.5-pro", "gemini", "http://h/v1beta"),
        ("terminus-2", "openrouter/a/b", "openai", "http://h/v1"),
        ("claude-code", "anthropic/claude-m", "anthropic", "http://h"),
        ("opencode", "anthropic/claude-m", "anthropic", "http://h/v1"),
        ("codex", "openai/m", "openai", "http://h/v1"),
        ("goose", "openai/m", "openai", "http://h"),
        ("gemini-cli", "gemini/gemini-2.5-pro", "gemini", "http://h"),
    ],
)
def test_the_base_url_has_the_form_that_each_agent_wants(
    monkeypatch, name: str, model: str, wire: str, base: str
) -> None:
    from pytest_harbor.agent.harbor import harbor_class
    from pytest_harbor.agent.harbor.connection import connection_of
    from pytest_harbor.agent.model_route import ModelRoute

    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/of/ones/own")
    bases = {"openai": "http://h/v1", "anthropic": "http://h", "gemini": "http://h"}
    kind = harbor_class(f"harbor:{name}", lambda path: None)
    connection = connection_of(name, kind, model, {})
    assert connection is not None
    assert connection.wire == wire
    assert connection.arguments(ModelRoute(base_urls=bases))["base_url"] == base


def test_an_agent_finds_a_model_by_itself_where_the_gateway_knows_no_provider() -> None:
    agent = make_agent("harbor:terminus-2", model="bedrock/some.model")
    assert agent.model_wires == ()
