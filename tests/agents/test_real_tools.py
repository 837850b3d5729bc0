"""Real command line agents on tasks of several steps and containers, with servers and skills."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.agents.conftest import image_for
from tests.agents.scripts import SCRIPTS
from tests.model_server import ToolCall, Turn

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(1500)]

# Debian's smallest image has no other language. It serves on standard input and output, or
# over HTTP where it is given a port.
VAULT = r"""
use IO::Socket::INET;
$| = 1;
my ($bird, $port) = @ARGV;
sub answer {
  local $_ = shift;
  my ($id) = /"id"\s*:\s*("?[\w-]+"?)/;
  my ($method) = /"method"\s*:\s*"([^"]+)"/;
  return unless defined $id;
  my $result = "{}";
  if ($method eq "initialize") {
    my ($version) = /"protocolVersion"\s*:\s*"([^"]+)"/;
    $result = qq({"protocolVersion":"$version","capabilities":{"tools":{}},)
      . qq("serverInfo":{"name":"vault","version":"1"}});
  } elsif ($method eq "tools/list") {
    $result = qq({"tools":[{"name":"open_vault","description":"Opens the vault.",)
      . qq("inputSchema":{"type":"object","properties":{}}}]});
  } elsif ($method eq "tools/call") {
    $result = qq({"content":[{"type":"text","text":"a $bird is inside"}]});
  } elsif ($method ne "ping") {
    my $error = qq({"code":-32601,"message":"no such method"});
    return qq({"jsonrpc":"2.0","id":$id,"error":$error});
  }
  return qq({"jsonrpc":"2.0","id":$id,"result":$result});
}
unless ($port) {
  while (<STDIN>) { my $told = answer($_); print "$told\n" if $told; }
  exit;
}
my $server = IO::Socket::INET->new(LocalPort => $port, Listen => 20, ReuseAddr => 1) or die;
while (my $client = $server->accept) {
  my ($length, $line, $body) = (0, scalar(<$client>), "");
  my $is_post = $line =~ /^POST/;
  while (($line = <$client>) && $line !~ /^\r?\n$/) {
    $length = $1 if $line =~ /^content-length: *(\d+)/i;
  }
  read($client, $body, $length) if $length;
  my $told = $is_post ? answer($body) : undef;
  my $status = $told ? "200 OK" : $is_post ? "202 Accepted" : "405 Method Not Allowed";
  $told //= "";
  my $head = "Content-Type: application/json\r\nConnection: close\r\n";
  print $client "HTTP/1.1 $status\r\n${head}Content-Length: ", length($told), "\r\n\r\n", $told;
  close $client;
}
"""
SKILL = """\
---
name: find-the-bird
description: How to find a bittern in any vault.
---
Open the vault.
"""
TOML = """\
=version = "1.0"
[agent]
timeout_sec = 180
[verifier]
timeout_sec = 60
[environment]
network_mode = "no-network"
skills_dir = "/skills"
[[environment.mcp_servers]]
name = "near"
transport = "stdio"
command = "perl"
args = ["/opt/vault.pl", "heron"]
[[environment.mcp_servers]]
name = "far"
transport = "streamable-http"
url = "http://aviary:8000/mcp"
[[steps]]
name = "one"
[[steps]]
name = "two"
"""
COMPOSE = """\
services:
  main: {init: true}
  aviary:
    image: debian:bookworm-slim
    command: [perl, /opt/vault.pl, crane, "8000"]
    volumes: ["./vault.pl:/opt/vault.pl:ro"]
"""
IMAGE = """\
FROM {image}
COPY vault.pl /opt/vault.pl
COPY skills /skills
WORKDIR /app
"""


def named(form: str) -> Callable[[str], Turn]:
    return lambda server: Turn.tool(form.format(server))


def in_namespace(server: str) -> Turn:
    return Turn("", tools=(ToolCall("open_vault", {}, f"mcp__{server}"),))


CALLS: dict[str, Callable[[str], Turn]] = {
    "claude-code": named("mcp__{}__open_vault"),
    "codex": in_namespace,
    "gemini-cli": named("mcp_{}_open_vault"),
    "goose": named("{}__open_vault"),
    "openhands": named("open_vault"),
    "opencode": named("{}_open_vault"),
    "qwen-coder": named("mcp__{}__open_vault"),
}


def on_main_calls(turns: list[Callable[[dict[str, Any]], Turn]]) -> Callable[[Any], Turn]:
    """The turns one after the other; calls on the side, which offer no tools, take none."""
    left = iter(turns)
    return lambda body: next(left)(body) if body.get("tools") else Turn("a title")


def look_and_work(name: str, server: str, bird: str) -> list[Callable[[dict[str, Any]], Turn]]:
    """Ask a server, and do the work only if what it said has reached the model."""
    done = SCRIPTS[name][1][0]

    def work(body: dict[str, Any]) -> Turn:
        if f"a {bird} is inside" not in json.dumps(body):
            return Turn("no bird")
        return done if isinstance(done, Turn) else done(body)

    return [lambda _: CALLS[name](server), work, lambda _: Turn("done")]


@pytest.mark.parametrize("name", CALLS)
def test_servers_and_skills_reach_a_tool_in_every_step_of_a_compose_task(
    run_tasks, make_task, model, name, engine
) -> None:
    image = image_for(name, engine)
    test = '#!/bin/bash\n[ "$(cat /app/out.txt)" = ok ] && rm /app/out.txt && r=1\necho ${r:-0}'
    folder = make_task(
        toml=TOML,
        dockerfile=IMAGE.format(image=image),
        remove=("instruction.md",),
        test=f"{test} > /logs/verifier/reward.txt\n",
    )
    make_task.write(folder, "environment/vault.pl", VAULT)
    make_task.write(folder, "environment/docker-compose.yaml", COMPOSE)
    make_task.write(folder, "environment/skills/find-the-bird/SKILL.md", SKILL)
    for step in ("one", "two"):
        make_task.write(folder, f"steps/{step}/instruction.md", f"Find the bird of {step}.\n")
    turns = [*look_and_work(name, "near", "heron"), *look_and_work(name, "far", "crane")]
    model.script.default = on_main_calls(turns)
    ran = run_tasks("tasks", f"--harbor-agent={name}", f"--harbor-model={SCRIPTS[name][0]}")
    ran.run.assert_outcomes(passed=1)
    asked = [json.dumps(call.body) for call in model.calls if call.body.get("tools")]
    assert "find a bittern in any vault" in asked[0]
    assert "Find the bird of one" in asked[0]
    # Each step is a session of its own.
    assert "Find the bird of two" in asked[3]
    assert "Find the bird of one" not in asked[3]
    one, two = ran.one()["step_results"]
    assert one["agent_result"]["n_input_tokens"] >= 300
    assert two["agent_result"]["n_input_tokens"] >= 300
    for step, bird in (("one", "heron"), ("two", "crane")):
        file = ran.folder() / f"steps/{step}/agent/trajectory.json"
        assert f"a {bird} is inside" in file.read_text()


LONG = "A long story. " * 12_000 + "The last word is bittern.\n"


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_instruction_longer_than_an_argument_reaches_the_model_whole(
    run_tool, model, name
) -> None:
    ran = run_tool(name, SCRIPTS[name][1], instruction=LONG)
    ran.run.assert_outcomes(passed=1)
    sent = [json.dumps(call.body) for call in model.calls]
    assert any(text.count("A long story.") >= 12_000 for text in sent)
    assert any("The last word is bittern." in text for text in sent)
