"""What is measured on: generated tasks, and as many test files for comparison."""

from __future__ import annotations

from pathlib import Path

SOLUTION = "#!/bin/sh\necho 'Hello, world!' > /root/hello.txt\n"

TEST = """\
#!/bin/sh
if [ "$(cat /root/hello.txt)" = 'Hello, world!' ]; then reward=1; else reward=0; fi
echo $reward > /logs/verifier/reward.txt
"""

_CONFIG = """\
schema_version = "1.4"

[task]
name = "overhead/{name}"
description = "Write a greeting."
keywords = ["greeting"]

[metadata]
difficulty = "easy"

[environment]
{environment}
[agent]
timeout_sec = 60.0
{agent}
[verifier]
timeout_sec = 60.0
"""


_HOSTS = 'network_mode = "allowlist"\nallowed_hosts = ["example.com"]\n'

NETWORKS = {
    "public": ("", ""),
    "no-network": ('network_mode = "no-network"\n', ""),
    "allowlist": ("", _HOSTS),
}
"""Kind of network to what the tables of the environment and the agent say of it."""


def write_tasks(folder: Path, count: int, image: str) -> Path:
    """Write tasks that all get the same image: their folders have the same name."""
    for number in range(count):
        _write_task(folder / f"group-{number}" / "hello", image)
    return _rooted(folder)


def write_flat_tasks(folder: Path, count: int, image: str) -> Path:
    """Write tasks beside one another, as in a dataset."""
    for number in range(count):
        _write_task(folder / f"hello-{number}", image)
    return _rooted(folder)


def write_network_tasks(folder: Path, rounds: int, image: str) -> Path:
    """Write tasks whose agents have each kind of network by turns, in the order they are run."""
    for number in range(rounds):
        for place, network in enumerate(NETWORKS):
            task = folder / f"group-{number:03}-{place}" / "hello"
            _write_task(task, image, network)
    return _rooted(folder)


def write_network_task(folder: Path, network: str, image: str) -> Path:
    """Write one task with a kind of network."""
    _write_task(folder / "hello", image, network)
    return _rooted(folder)


def write_test_files(folder: Path, count: int) -> Path:
    """Write test files of one line, beside one another."""
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"test_{number}.py").write_text("def test_it(): pass\n")
    return _rooted(folder)


def _write_task(task: Path, image: str, network: str = "public") -> None:
    environment, agent = NETWORKS[network]
    files = {
        "task.toml": _CONFIG.format(name=task.name, environment=environment, agent=agent),
        "instruction.md": "Write `Hello, world!` to /root/hello.txt\n",
        "environment/Dockerfile": f"FROM {image}\n",
        "solution/solve.sh": SOLUTION,
        "tests/test.sh": TEST,
    }
    for name, content in files.items():
        path = task / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def _rooted(folder: Path) -> Path:
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder
