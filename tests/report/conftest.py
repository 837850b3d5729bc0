"""Jobs' folders, written as a run leaves them behind."""

import json
from pathlib import Path
from typing import Any

import pytest

START = "2026-01-05T10:00:00Z"


def at(seconds: float) -> str:
    """A time of the trial, some seconds after its start."""
    return f"2026-01-05T10:{int(seconds) // 60:02d}:{seconds % 60:06.3f}Z"


def times(start: float, end: float) -> dict[str, str]:
    return {"started_at": at(start), "finished_at": at(end)}


class JobMaker:
    """Writes trials into a job's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tasks = path.parent / "tasks"
        path.mkdir(parents=True)
        self.write("config.json", {"job_name": path.name, "agents": [{"name": "oracle"}]})
        self.write(
            "result.json",
            {"started_at": "2026-01-05T10:00:00", "finished_at": "2026-01-05T10:09:00"},
        )

    def write(self, name: str, content: Any) -> Path:
        """Write a file: bytes, text, or anything else as JSON."""
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            place.write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content)
            place.write_text(text, encoding="utf-8", errors="surrogatepass")
        return place

    def trial(
        self,
        name: str = "hello__aaaaaaa",
        reward: float | None = 1.0,
        *,
        task: str = "",
        agent: str = "oracle",
        model: tuple[str, str] | None = None,
        attempt: int = 1,
        item: str = "",
        dataset: str = "",
        start: float = 0.0,
        files: dict[str, Any] | None = None,
        own: dict[str, Any] | None = None,
        **result: Any,
    ) -> Path:
        """Write a trial with a result; ``own`` and further keywords change it.

        ``dataset`` is what ids call its dataset: a name with its version.
        """
        task = task or name.partition("__")[0]
        path = str(self.tasks / task)
        passed = reward is not None and reward >= 1
        config = {
            "task": {"path": path, **({"label": dataset} if dataset else {})},
            "agent": {"name": agent, "model_name": "/".join(model) if model else None},
            "attempt": attempt,
            "threshold": 1.0,
            **({"item": item} if item else {}),
        }
        content = {
            "schema_version": 1,
            "task_name": f"org/{task}",
            "source": dataset.partition("@")[0] or None,
            "trial_name": name,
            "task_id": {"path": path},
            "config": config,
            "agent_info": {
                "name": agent,
                "version": "1.0.0",
                "model_info": {"provider": model[0], "name": model[1]} if model else None,
            },
            "agent_result": {"n_input_tokens": 100, "n_output_tokens": 20, "cost_usd": 0.01},
            "verifier_result": None if reward is None else {"rewards": {"reward": reward}},
            "exception_info": None,
            **times(start, start + 10),
            "environment_setup": times(start, start + 2),
            "agent_setup": times(start + 2, start + 3),
            "agent_execution": times(start + 3, start + 8),
            "verifier": times(start + 8, start + 10),
            "step_results": None,
            "reward_valid": reward is not None,
            "pytest_harbor": {
                "category": "task" if reward is None else "reward",
                "passed": passed,
                "attempt": attempt,
                "threshold": 1.0,
                "refused_connections": 0,
                "integrity": {"grading": "shared", "findings": []},
                "faults": [],
                **(own or {}),
            },
            **result,
        }
        self.write(f"{name}/config.json", config)
        self.write(f"{name}/trial.log", f"{at(start)} environment begins\n")
        self.write(f"{name}/result.json", content)
        for file, data in (files or {}).items():
            self.write(f"{name}/{file}", data)
        return self.path / name

    def task(self, name: str = "hello", instruction: str = "Write ok into /app/out.txt.") -> Path:
        """Write the folder of a task that trials are of."""
        folder = self.tasks / name
        folder.mkdir(parents=True)
        (folder / "task.toml").write_text("")
        (folder / "instruction.md").write_text(
            instruction, encoding="utf-8", errors="surrogatepass"
        )
        return folder


@pytest.fixture
def job(tmp_path: Path) -> JobMaker:
    return JobMaker(tmp_path / "jobs" / "now")


@pytest.fixture
def make_job(tmp_path: Path) -> Any:
    return lambda name: JobMaker(tmp_path / "jobs" / name)
