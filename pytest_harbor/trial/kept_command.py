"""The commands ``verify`` and ``remove``: what is done with the environments of kept trials."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def add_command(commands: Any) -> None:
    """Add both to the subcommands of a parser; ``run`` of its namespace does the work."""
    verify: argparse.ArgumentParser = commands.add_parser(
        "verify",
        help="grade a kept trial again",
        description="Run the verifier again in the environment that --harbor-keep left of a trial,"
        " with the task's tests as they are now. Exit status: 0, the reward is enough; 1, it is"
        " not, or there is none.",
    )
    verify.add_argument("trial", type=Path, metavar="TRIAL", help="the trial's folder")
    verify.add_argument("--step", default="", help="of a multi-step task (default: the last)")
    verify.set_defaults(run=_verify)
    remove: argparse.ArgumentParser = commands.add_parser(
        "remove",
        help="remove kept environments",
        description="Remove the environments that --harbor-keep left of a trial, or of all trials"
        " of a job, with all that stayed for them; nothing else is touched.",
    )
    remove.add_argument(
        "paths", type=Path, nargs="+", metavar="TRIAL|JOB", help="folder of a trial, or of a job"
    )
    remove.set_defaults(run=_remove)


def _verify(arguments: argparse.Namespace) -> int:
    from pytest_harbor.result.reward import shown
    from pytest_harbor.trial.kept import grade_again

    found = grade_again(arguments.trial.absolute(), step=arguments.step)
    lines = [found.output.rstrip("\n")] if found.output.strip() else []
    lines.append(f"verifier exit status: {found.report.exit_code}")
    if found.report.fault is not None:
        lines.append(f"no valid reward: {found.report.fault}")
    if found.report.reward is not None:
        values = found.report.reward.values.items()
        rewards = ", ".join(f"{name}={shown(value)}" for name, value in values)
        lines.append(f"rewards: {rewards} (from {found.report.reward.source})")
    if found.verdict is not None:
        relation = "reaches" if found.verdict.passed else "is below"
        number = shown(found.verdict.reward, found.verdict.threshold)
        lines.append(f"reward {number} {relation} the threshold {shown(found.verdict.threshold)}")
    lines.append(f"files: {found.folder}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if found.verdict is not None and found.verdict.passed else 1


def _remove(arguments: argparse.Namespace) -> int:
    from pytest_harbor.trial.kept import kept_of, remove

    for path in arguments.paths:
        for trial, boxes in kept_of(path.absolute()).items():
            remove(trial, boxes)
            for box in boxes:
                sys.stdout.write(f"removed {box.name}\n")
    return 0
