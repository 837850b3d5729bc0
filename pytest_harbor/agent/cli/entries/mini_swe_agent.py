"""mini-SWE-agent, tried with 2.4.6."""

from __future__ import annotations

from pathlib import Path

from pytest_harbor.agent.cli.entries.shared import first_readable
from pytest_harbor.agent.cli.entry import CliEntry, Connection, Option, PipPackage
from pytest_harbor.result.agent_logs.mini_swe_agent import read_mini_swe_agent
from pytest_harbor.result.trajectory import Trajectory

_FILE = "mini-swe-agent.trajectory.json"


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
        'mini -y --exit-immediately -m "$HARBOR_MODEL" -t "$(cat "$HARBOR_INSTRUCTION_FILE")"'
        f" -o /logs/agent/{_FILE} {{flags}} < /dev/null"
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
    trajectory=_trajectory,
    supports_mcp=False,
    supports_skills=False,
)
