"""The example tasks hold what their README says: 1 with the oracle, 0 without an agent's work."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
TASKS = sorted(path.parent.name for path in ROOT.glob("example_tasks/*/task.toml"))


def run_examples(folder: Path) -> ElementTree.ElementTree:
    """One run of all, with both agents; its JUnit report."""
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "example_tasks", "-n", "2", "-q"]
    command += ["-p", "no:cacheprovider", f"--junitxml={report}"]
    command += [f"--harbor-output={folder / 'jobs'}"]
    command += ["--harbor-agent=oracle", "--harbor-agent=nop"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert report.exists(), done.stdout + done.stderr
    return ElementTree.parse(report)


def reward_of(case: ElementTree.Element) -> tuple[tuple[str, str], float | None]:
    properties = {entry.get("name"): entry.get("value") for entry in case.iter("property")}
    task = next(name for name in TASKS if name in str(case.get("classname")))
    reward = properties.get("reward")
    return (task, str(properties.get("agent"))), None if reward is None else float(reward)


@pytest.mark.docker
@pytest.mark.long
def test_oracle_earns_every_reward_and_nop_none(tmp_path: Path) -> None:
    rewards = dict(reward_of(case) for case in run_examples(tmp_path).iter("testcase"))
    expected = {(task, "oracle"): 1.0 for task in TASKS} | {(task, "nop"): 0.0 for task in TASKS}
    assert rewards == expected
