"""The floor: what a trial's container calls take if nothing but the docker SDK makes them.

Run as a script, this is one of the floor's parallel processes: it connects, says
``ready``, waits for a line on its input, and prints what its trials took.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inputs import SOLUTION, TEST

if TYPE_CHECKING:
    from docker import APIClient  # else only in the floor's own processes


@dataclass(frozen=True)
class FloorRun:
    """Trials on the floor.

    Attributes:
        wall: Seconds from the start signal to the end of the last trial.
        cpu: Seconds of CPU of the processes meanwhile, together.
        trials: Seconds of each trial.
    """

    wall: float
    cpu: float
    trials: list[float]


def run_floor(image: str, trials: int, processes: int) -> FloorRun:
    """Run trials in so many processes at once; starting and connecting is not counted."""
    shares = [trials // processes + (number < trials % processes) for number in range(processes)]
    workers = [_start_process(image, str(share)) for share in shares if share]
    for worker in workers:
        _line(worker)
    began = time.perf_counter()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    answers = [json.loads(_line(worker)) for worker in workers]
    wall = time.perf_counter() - began
    for worker in workers:
        worker.communicate()
    return FloorRun(
        wall=wall,
        cpu=sum(answer["cpu"] for answer in answers),
        trials=[seconds for answer in answers for seconds in answer["trials"]],
    )


def _start_process(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        sys.exit("a process of the floor ended early; its error is above")
    return line


def _archive(files: dict[str, str | None]) -> bytes:
    """A tar archive of scripts; a folder where there is no content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode = 0o777
            if content is None:
                entry.type = tarfile.DIRTYPE
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content.encode()))
    return buffer.getvalue()


_FOLDERS = {"logs/agent": None, "logs/verifier": None, "logs/artifacts": None}
_AGENT_FILES = _archive({**_FOLDERS, "solution/solve.sh": SOLUTION})
_TEST_FILES = _archive({"tests/test.sh": TEST})


def timed_trial(api: APIClient, image: str, network: str) -> float:
    """Seconds that one trial takes."""
    began = time.perf_counter()
    _trial(api, image, network)
    return time.perf_counter() - began


def _trial(api: APIClient, image: str, network: str) -> None:
    """Create, start, put, exec, put, exec, get, remove."""
    host = api.create_host_config(network_mode=network)
    container = api.create_container(image, ["sleep", "infinity"], host_config=host)
    try:
        api.start(container)
        api.put_archive(container, "/", _AGENT_FILES)
        _exec(api, container, "/solution/solve.sh")
        api.put_archive(container, "/", _TEST_FILES)
        _exec(api, container, "/tests/test.sh")
        chunks, _ = api.get_archive(container, "/logs")
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
            reward = tar.extractfile("logs/verifier/reward.txt")
            assert reward is not None
            assert reward.read() == b"1\n"
    finally:
        api.remove_container(container, force=True, v=True)


def _exec(api: APIClient, container: Any, script: str) -> None:
    command = api.exec_create(container, [script])
    api.exec_start(command)
    assert api.exec_inspect(command)["ExitCode"] == 0


def connect() -> APIClient:
    """A bare client."""
    import docker

    return docker.APIClient(version="auto")


def _run_trials(image: str, trials: str) -> None:
    api = connect()
    print("ready", flush=True)
    sys.stdin.readline()
    cpu, took = time.process_time(), []
    for _ in range(int(trials)):
        took.append(timed_trial(api, image, "bridge"))
    print(json.dumps({"cpu": time.process_time() - cpu, "trials": took}), flush=True)
    api.close()


if __name__ == "__main__":
    _run_trials(*sys.argv[1:])
