"""How long it takes until an agent's first command runs, against the oracle's, in one run.

    python benchmarks/agents.py                     # claude-code and codex
    python benchmarks/agents.py gemini-cli -n 20    # others, with more trials of each
    python benchmarks/agents.py --json out.json

Each agent is installed as for any run, and led to the model gateway; in the place of the
tool's own command a stamp is written, in the same shell that would start the tool. The
oracle's script writes the same stamp. Trials of all agents alternate in one run of pytest;
each agent's first, which installs it, does not count. The time runs from the trial's start.

Target: no more than the oracle's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from inputs import write_tasks
from measure import scratch

from pytest_harbor.agent.cli import named
from pytest_harbor.agent.cli.agent import CliAgent

IMAGE = "debian:bookworm-slim"
STAMP = "date +%s.%N > /logs/agent/first-command"
WORK = "echo 'Hello, world!' > /root/hello.txt"
KINDS = {kind.entry.name: kind for kind in vars(named).values() if hasattr(kind, "entry")}
MODELS = {"anthropic": "anthropic/m", "openai": "openai/m", "gemini": "gemini/m"}
KEYS = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), "none")


def stamped(kind: type[CliAgent]) -> type[CliAgent]:
    """The same agent, whose tool is not started."""
    entry = replace(kind.entry, command=f"{STAMP}\n{WORK}", trajectory=None)
    return type(f"Stamped{kind.__name__}", (kind,), {"entry": entry})


def __getattr__(name: str) -> Any:
    """``Stamped…``, for ``--harbor-agent=agents:Stamped…``."""
    for kind in KINDS.values():
        if name == f"Stamped{kind.__name__}":
            return stamped(kind)
    raise AttributeError(name)


def measure(name: str, trials: int) -> dict[str, list[float]]:
    """Seconds to the first command of an agent's trials and the oracle's, but for the first."""
    kind = KINDS[name]
    model = MODELS[next(iter(kind.entry.connections))]
    chosen = ["--harbor-agent=oracle", f"--harbor-agent=agents:Stamped{kind.__name__}"]
    with scratch() as folder:
        write_tasks(folder, trials + 1, IMAGE)
        for script in folder.rglob("solve.sh"):
            script.write_text(f"#!/bin/sh\n{STAMP}\n{WORK}\n")
        search = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        env = {**os.environ, **KEYS, "PYTHONPATH": os.pathsep.join(search)}
        env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        options = ["-q", "-p", "pytest_harbor.plugin", *chosen, f"--harbor-model={model}"]
        command = [sys.executable, "-m", "pytest", *options]
        ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, check=False)
        # Status 1: trials failed, as those of agents that never call their model do.
        if ran.returncode not in (0, 1):
            sys.exit(ran.stdout.decode()[-4000:])
        found: dict[str, list[float]] = {"oracle": [], name: []}
        for agent, seconds in _times(folder / "jobs"):
            found["oracle" if agent == "oracle" else name].append(seconds)
    return {agent: seconds[1:] for agent, seconds in found.items()}


def _times(jobs: Path) -> Iterator[tuple[str, float]]:
    results = [
        json.loads(path.read_text()) | {"path": path} for path in jobs.glob("*/*/result.json")
    ]
    for result in sorted(results, key=lambda one: one["started_at"]):
        began = datetime.fromisoformat(result["started_at"]).timestamp()
        stamp = float((result["path"].parent / "agent/first-command").read_text())
        yield result["agent_info"]["name"], stamp - began


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=", ".join(KINDS))
    parser.add_argument("-n", type=int, default=12, help="trials of each agent")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    arguments = parser.parse_args()
    numbers = {}
    print(f"{'agent':16} {'first command':>14} {'oracle':>8} {'ratio':>6}")
    for name in arguments.agents or ["claude-code", "codex"]:
        found = numbers[name] = measure(name, arguments.n)
        own, oracle = median(found[name]), median(found["oracle"])
        print(f"{name:16} {own:12.3f} s {oracle:6.3f} s {own / oracle:6.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
