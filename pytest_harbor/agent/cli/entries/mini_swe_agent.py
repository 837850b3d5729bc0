"""mini-SWE-agent, tried with 2.4.6."""

from __future__ import annotations

from pathlib import Path

from pytest_harbor.agent.cli.entries.shared import first_readable, given_as
from pytest_harbor.agent.cli.entry import CliEntry, Connection, Option, PipPackage
from pytest_harbor.result.agent_logs.mini_swe_agent import read_mini_swe_agent
from pytest_harbor.result.trajectory import Trajectory

_FILE = "mini-swe-agent.trajectory.json"
_TASK_FILE = '"${TMPDIR:-/tmp}/mini-task.yaml"'


def _trajectory(logs_dir: Path, instruction: str | None) -> Trajectory | None:
    return first_readable(logs_dir, instruction, lambda data, _: read_mini_swe_agent(data), _FILE)


ENTRY = CliEntry(
    name="mini-swe-agent",
    version="2.4.6",
    package=PipPackage("mini-swe-agent"),
    binary="mini",
    # Its library, LiteLLM, tells the protocol by the first part of the model's name.
    connections={
        "anthropic": Connection(
            {"ANTHROPIC_API_BASE": "{base_url}", "ANTHROPIC_API_KEY": "{key}"},
            model="anthropic/{name}",
        ),
        "openai": Connection(
            {"OPENAI_API_BASE": "{base_url}", "OPENAI_API_KEY": "{key}"}, model="openai/{name}"
        ),
    },
    command=(
        f'mini -y --exit-immediately -m "$HARBOR_MODEL" "$@" -o /logs/agent/{_FILE} {{flags}}'
        " < /dev/null"
    ),
    env={
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_SILENT_STARTUP": "1",
        # Else it asks for a list of prices on the internet, three times.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    },
    options={
        "cost_limit": Option("-l {value}"),
        "config_file": Option("-c {value}"),
    },
    before=given_as(
        '-t "$(cat "$HARBOR_INSTRUCTION_FILE")"',
        f"-c mini.yaml -c {_TASK_FILE}",
        "{ printf 'run:\\n  task: |2-\\n'; sed 's/^/    /' \"$HARBOR_INSTRUCTION_FILE\"; }"
        f" > {_TASK_FILE}",
    ),
    trajectory=_trajectory,
    supports_mcp=False,
    supports_skills=False,
)
