"""Entries of command line agents, and the commands that come of them."""

import os
import re
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_harbor.agent.base import AgentContext
from pytest_harbor.agent.cli.agent import CliAgent
from pytest_harbor.agent.cli.entry import CliEntry, Connection, NpmPackage, Setting
from pytest_harbor.agent.cli.install import install_script
from pytest_harbor.agent.cli.named import ClaudeCode, Codex, MiniSweAgent, OpenHands
from pytest_harbor.agent.mcp import McpServerSpec
from pytest_harbor.agent.model_route import ModelRoute
from pytest_harbor.environment.base import Environment, ExecResult
from pytest_harbor.errors import AgentSetupError, AgentTimeoutError, OptionError
from pytest_harbor.registry import make_agent
from pytest_harbor.task.reader import read_task
from tests.conftest import TaskMaker

AGENTS = [kind for kind in CliAgent.__subclasses__() if "cli.named" in kind.__module__]
ROUTE = ModelRoute(
    "anthropic",
    "claude-m",
    {"anthropic": "http://gw:1", "openai": "http://gw:1/v1", "gemini": "http://gw:1"},
    "token-1",
)


class Box(Environment):
    """Remembers what is asked of it; every command ends as it is told to."""

    default_user = "root"
    workdir = "/app"
    name = "box"
    installed: Sequence[str] = ()

    def __init__(self, result: ExecResult | None = None) -> None:
        self.ran: list[tuple[str, dict[str, Any]]] = []
        self.files: dict[str, str] = {}
        self.result = result or ExecResult(0, "", "", 0.1)

    def exec(self, command, **options: Any) -> ExecResult:  # type: ignore[no-untyped-def]
        text = command if isinstance(command, str) else command[-1]
        self.ran.append((text, options))
        return self.result

    def write(self, path, data, *, mode=0o644):  # type: ignore[no-untyped-def]
        self.files[path] = data

    def nowhere(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("an agent asks for nothing of that kind")

    start = stop = upload = download = read = open_process = nowhere


def context(tmp_path: Path, **more: Any) -> AgentContext:
    return AgentContext(
        task=None,  # type: ignore[arg-type]
        timeout_sec=10.0,
        user="agent",
        env={},
        logs_dir=tmp_path,
        log=lambda name: (tmp_path / name).open("wb"),
        model=ROUTE,
        **more,
    )


class Talker(CliAgent):
    """An entry of one's own, whose tool takes its instruction as an argument only."""

    entry = CliEntry(
        name="talker",
        version="1",
        package=NpmPackage("talker"),
        binary="talker",
        connections={"openai": Connection()},
        command='talker "$(cat "$HARBOR_INSTRUCTION_FILE")" {flags}',
    )


PAGE = Path(__file__).parents[2] / "docs/agents.md"


def test_the_example_of_the_page_runs_its_tool_under_the_name_of_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, section = PAGE.read_text().partition("## Adding a tool\n")
    source = section.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "my_agents.py").write_text(source)
    info = tmp_path / "my_agents-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-agents\nVersion: 1.0\n")
    group = re.search(r"entry point in the group `([\w.]+)`", section)
    assert group
    (info / "entry_points.txt").write_text(f"[{group[1]}]\nmy-tool = my_agents:MyTool\n")
    monkeypatch.syspath_prepend(tmp_path)

    for name in ("my-tool", "my_agents:MyTool"):
        kwargs = {"reasoning_effort": "high"}
        agent = make_agent(name, model="openai/m", kwargs=kwargs, import_root=tmp_path)
        (layer,) = agent.layers(None)
        subprocess.run(["sh", "-n", "-c", layer.script], check=True)
        assert "my-tool@1.4.0" in layer.script
        box = Box()
        agent.run("Do it.", box, context(tmp_path))
        text, options = main_command(box, agent)
        assert "--effort high" in text
        tool = tmp_path / "bin/my-tool"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text('#!/bin/sh\necho "$OPENAI_BASE_URL $OPENAI_API_KEY" "$@"; cat\n')
        tool.chmod(0o755)
        (tmp_path / "instruction").write_text("Do it.")
        env = {**options["env"], "HARBOR_INSTRUCTION_FILE": str(tmp_path / "instruction")}
        path = f"{tool.parent}:{os.environ['PATH']}"
        command = agent.entry.command.format(flags="--effort high")
        ran = subprocess.run(
            ["sh", "-c", command], env={**env, "PATH": path}, capture_output=True, text=True
        )
        assert ran.stdout == "http://gw:1/v1 token-1 --yes --model claude-m --effort high\nDo it."


SETTING = Setting("$HOME/settings", lambda servers, no_web: f"of {len(servers)}")


def main_command(box: Box, agent: CliAgent) -> tuple[str, dict[str, Any]]:
    return next((text, opts) for text, opts in box.ran if agent.entry.binary + " " in text)


@pytest.mark.parametrize("kind", AGENTS)
def test_every_script_is_sound_shell(kind: type[CliAgent], tmp_path: Path) -> None:
    box = Box()
    agent = kind(model_name="anthropic/claude-m")
    agent.run("Do it.", box, context(tmp_path))
    for text in [install_script(agent.entry, "1.2.3"), *(text for text, _ in box.ran)]:
        subprocess.run(["sh", "-n", "-c", text], check=True)


@pytest.mark.parametrize("kind", AGENTS)
def test_a_version_is_pinned_in_the_script_and_in_the_layers_key(kind: type[CliAgent]) -> None:
    (usual,) = kind(model_name="m").layers(None)
    (other,) = kind(model_name="m", version="9.8.7").layers(None)
    assert "9.8.7" in other.script
    assert kind.entry.version in usual.script
    assert usual.key != other.key


def test_an_image_that_brings_the_tool_gets_no_layer() -> None:
    assert MiniSweAgent(model_name="m", skip_install=True).layers(None) == ()


def test_a_tool_that_should_be_there_and_is_not_is_a_set_up_error(tmp_path: Path) -> None:
    agent = Codex(model_name="m", skip_install=True)
    with pytest.raises(AgentSetupError, match="codex is not in the image"):
        agent.setup(Box(ExecResult(127, "", "", 0.1)), context(tmp_path))


def test_a_box_that_was_made_with_the_tool_is_not_asked_for_it(tmp_path: Path) -> None:
    box = Box()
    box.installed = ("codex",)
    Codex(model_name="m").setup(box, context(tmp_path))
    assert box.ran == []


def test_all_that_a_tool_reads_is_written_in_the_shell_that_starts_it(tmp_path: Path) -> None:
    server = McpServerSpec("s", "stdio", command="x")
    box = Box()
    kind = type("Own", (Talker,), {"entry": replace(Talker.entry, settings=(SETTING,), after="")})
    kind(model_name="openai/m").run("It's $HOME", box, context(tmp_path, mcp_servers=(server,)))
    ((text, options),) = box.ran
    text = text.replace("/logs/agent", f"{tmp_path}/logs")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/settings").symlink_to(tmp_path / "elsewhere")
    env = {**os.environ, **options["env"], "HOME": f"{tmp_path}/home"}
    shell = f"talker() {{ env > {tmp_path}/env; }}\n{text}"
    subprocess.run(["sh", "-c", shell], env=env, check=True)
    assert (tmp_path / "logs/instruction.md").read_text() == "It's $HOME"
    assert (tmp_path / "home/settings").read_text() == "of 1"
    assert not (tmp_path / "elsewhere").exists()
    assert "mcpServers" in (tmp_path / "logs/mcp.json").read_text()
    assert "HARBOR_FILE" not in (tmp_path / "env").read_text()


def test_a_file_that_cannot_be_written_is_a_set_up_error(tmp_path: Path) -> None:
    box, agent = Box(), Codex(model_name="openai/m")
    agent.run("x", box, context(tmp_path))
    text, options = main_command(box, agent)
    env = {**os.environ, **options["env"], "CODEX_HOME": "/proc/none"}
    text = text.replace("/logs/agent", f"{tmp_path}/logs")
    failed = subprocess.run(["sh", "-c", text], env=env, capture_output=True, text=True)
    box.result = ExecResult(failed.returncode, failed.stdout, "", 0.1)
    with pytest.raises(AgentSetupError, match="cannot write /proc/none/config"):
        agent.run("x", box, context(tmp_path))


def test_a_long_instruction_does_not_go_through_a_variable(tmp_path: Path) -> None:
    box = Box()
    ClaudeCode(model_name="anthropic/m").run("x" * 70_000, box, context(tmp_path))
    assert box.files["/logs/agent/instruction.md"] == "x" * 70_000
    assert not any("xxx" in value for _, options in box.ran for value in options["env"].values())


def test_an_install_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    box = Box(ExecResult(1, "no such package\n", "", 0.1))
    with pytest.raises(AgentSetupError, match="no such package"):
        MiniSweAgent(model_name="m").setup(box, context(tmp_path))


def test_the_instruction_reaches_the_tool_by_a_file_and_the_key_by_a_variable(
    tmp_path: Path,
) -> None:
    instruction = 'Say "it\'s" $HOME `date`\nand {base_url} {flags}.\n'
    for kind in AGENTS:
        box, agent = Box(), kind(model_name="anthropic/claude-m")
        agent.run(instruction, box, context(tmp_path))
        text, options = main_command(box, agent)
        assert instruction in options["env"].values()
        assert "$HOME" not in text.replace('"$HOME/', "")
        assert "token-1" not in text
        assert "token-1" in options["env"].values()
        assert options["user"] == "agent"


def test_claude_code_is_led_to_the_model(tmp_path: Path) -> None:
    box, agent = Box(), ClaudeCode(model_name="anthropic/claude-m")
    agent.run("x", box, context(tmp_path))
    _, options = main_command(box, agent)
    assert options["env"]["ANTHROPIC_BASE_URL"] == "http://gw:1"
    assert options["env"]["HARBOR_MODEL"] == "claude-m"
    assert options["env"]["IS_SANDBOX"] == "1"


def test_codex_gets_a_provider_of_its_own_with_the_responses_protocol(tmp_path: Path) -> None:
    box, agent = Box(), Codex(model_name="openai/gpt-5")
    agent.run("x", box, context(tmp_path))
    text, options = main_command(box, agent)
    line = next(one for one in text.splitlines() if one.startswith("codex exec"))
    words = subprocess.run(
        ["sh", "-c", f"codex() {{ printf '%s\\n' \"$@\"; }}; {line}"],
        env={"HARBOR_BASE_URL": "http://gw:1/v1", "HARBOR_INSTRUCTION_FILE": "/dev/null"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    setting = next(word for word in words if word.startswith("model_providers.harbor="))
    table = tomllib.loads(setting)["model_providers"]["harbor"]
    assert table["base_url"] == "http://gw:1/v1"
    assert table["wire_api"] == "responses"
    assert table["env_key"] in options["env"]


@pytest.mark.parametrize(
    ("public", "given", "is_off"),
    [(True, None, False), (False, None, True), (False, False, False), (True, True, True)],
)
def test_hosted_web_tools_are_off_unless_the_network_is_public(
    tmp_path: Path, public: bool, given: bool | None, is_off: bool
) -> None:
    box = Box()
    agent = ClaudeCode(model_name="anthropic/m", disable_web_search=given)
    agent.run("x", box, context(tmp_path, network_is_public=public))
    assert ("WebSearch" in main_command(box, agent)[0]) is is_off


def test_codex_has_its_servers_in_its_settings(tmp_path: Path) -> None:
    servers = (
        McpServerSpec("files", "stdio", command="serve", args=("--root", "/app")),
        McpServerSpec("far", "streamable-http", url="http://s/mcp", headers={"X-Key": "secret"}),
    )
    box = Box()
    Codex(model_name="openai/m").run("x", box, context(tmp_path, mcp_servers=servers))
    text = main_command(box, Codex(model_name="openai/m"))[1]["env"]["HARBOR_FILE_3"]
    table = tomllib.loads(text)["mcp_servers"]
    assert table["files"] == {"command": "serve", "args": ["--root", "/app"]}
    assert table["far"]["url"] == "http://s/mcp"
    assert "secret" not in text
    variable = table["far"]["env_http_headers"]["X-Key"]
    assert any(o["env"].get(variable) == "secret" for _, o in box.ran)


def test_options_become_flags_and_unknown_ones_are_refused() -> None:
    agent = ClaudeCode(model_name="m", reasoning_effort="high; rm -rf /", max_turns=3)
    text = agent.command(agent.entry.connections["anthropic"], no_web=False, with_mcp=False)
    assert "--effort 'high; rm -rf /'" in text
    assert "--max-turns 3" in text
    with pytest.raises(OptionError, match=r"no effort; accepted are .*reasoning_effort"):
        make_agent("claude-code", model="m", kwargs={"effort": "high"})


def test_a_model_is_needed(make_task) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(OptionError, match="--harbor-model"):
        Codex().check(read_task(make_task()))


def test_a_time_limit_says_so(tmp_path: Path) -> None:
    box = Box(ExecResult(None, "", "", 10.0, timed_out=True))
    with pytest.raises(AgentTimeoutError, match="10 s"):
        MiniSweAgent(model_name="openai/m").run("x", box, context(tmp_path))


@pytest.mark.parametrize("step", [False, True])
def test_an_instruction_longer_than_an_argument_is_refused_where_it_is_one(
    make_task: Any, step: bool
) -> None:
    long = "word " * 30_000
    folder = make_task(instruction=long)
    if step:
        folder = make_task(toml='[[steps]]\nname = "one"\n', remove=("instruction.md",))
        TaskMaker.write(folder, "steps/one/instruction.md", long)
    task = read_task(folder)
    with pytest.raises(OptionError, match="talker takes it as an argument"):
        Talker(model_name="openai/m").check(task)
    for kind in AGENTS:
        kind(model_name="anthropic/m").check(task)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(2**17 - 2, ["--task", "{text}"]), (2**17, ["--file", "{file}"])],
)
def test_openhands_is_told_in_an_argument_as_long_as_it_fits(
    tmp_path: Path, size: int, expected: list[str]
) -> None:
    file = tmp_path / "i.md"
    file.write_text("x" * size)
    arguments = shell_arguments(OpenHands(model_name="openai/m"), file)
    assert arguments[3:] == [one.format(text="x" * size, file=file) for one in expected]


def test_mini_swe_agent_has_a_long_instruction_in_a_file_of_settings(tmp_path: Path) -> None:
    text = "  Say: 'it''s'\n\n\t{tabs} # and\n" * 10_000
    file = tmp_path / "i.md"
    file.write_text(text)
    arguments = shell_arguments(MiniSweAgent(model_name="openai/m"), file)
    settings = tmp_path / "mini-task.yaml"
    assert arguments[4:8] == ["-c", "mini.yaml", "-c", str(settings)]
    assert yaml.safe_load(settings.read_text())["run"]["task"] == text.rstrip("\n")


def shell_arguments(agent: CliAgent, file: Path) -> list[str]:
    """What the tool would be called with."""
    binary = agent.entry.binary
    line = agent.command(next(iter(agent.entry.connections.values())), no_web=False, with_mcp=False)
    told = subprocess.run(
        ["bash", "-c", f"{binary}() {{ printf '%s\\0' \"$@\"; }}\n{line}"],
        env={
            **os.environ,
            "HARBOR_INSTRUCTION_FILE": str(file),
            "HARBOR_MODEL": "m",
            "TMPDIR": str(file.parent),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.split("\0")[:-1]
