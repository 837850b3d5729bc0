"""A job of any size with everything in it, the same each time."""

import itertools
import random
from typing import Any

AGENTS = (
    ("codex", ("openai", "gpt-5"), 0.72),
    ("claude-code", ("anthropic", "sonnet"), 0.66),
    ("mini-swe-agent", ("openai", "gpt-5-mini"), 0.41),
)
TASKS = (
    "fix-pagination",
    "merge-customers",
    "repair-service",
    "parse-duration",
    "query-registry",
    "spot-spam",
    "render-config",
    "grow-ledger",
    "sort-reports",
    "verify-offline",
)
_BUG = "    return total // size\n"
_FIX = "    return -(-total // size)\n"
_WORDS = ("page", "of", "results", "short", "by", "one", "when", "last", "has", "begun")


def fill_job(job: Any, trials: int, *, attempts: int = 4, seed: int = 1, lift: float = 0.0) -> None:
    """Write that many trials, of three agents and as many tasks as it takes."""
    drawn = random.Random(seed)
    for number in range(trials):
        agent, model, skill = AGENTS[number % 3]
        attempt = number // 3 % attempts + 1
        place = number // (3 * attempts)
        task = TASKS[place % 10] + (f"-{place // 10 + 1}" if place >= 10 else "")
        ease = (hash_of(task) % 100) / 100 - 0.5
        passes = drawn.random() < min(max(skill + ease + lift, 0.02), 0.98)
        reward = 1.0 if passes else round(drawn.choice((0.0, 0.0, 0.25, 0.5, 0.75)), 2)
        job.trial(
            f"{task}__{agent[:3]}{number:04d}",
            reward,
            task=task,
            agent=agent,
            model=model,
            attempt=attempt,
            start=number % 50,
            files={
                "agent/trajectory.json": trajectory(agent, drawn),
                "verifier/ctrf.json": ctrf(passes),
                "verifier/test-stdout.txt": output(passes, drawn),
                "artifacts/app/pagination.py": "def pages(total, size):\n" + _FIX,
                "artifacts/app/result.bin": b"\0\1\2",
            },
            **times_of(number % 50, drawn),
            **spent(drawn),
            **ending(number),
        )


def hash_of(text: str) -> int:
    return sum(ord(char) * 31**place for place, char in enumerate(text))


def times_of(start: float, drawn: random.Random) -> dict[str, Any]:
    from tests.report.conftest import times

    environment, agent, verifier = drawn.uniform(1, 9), drawn.uniform(20, 240), drawn.uniform(2, 12)
    marks = [start, start + environment, start + environment + 3]
    marks += [marks[2] + agent, marks[2] + agent + verifier]
    names = ("environment_setup", "agent_setup", "agent_execution", "verifier")
    return {name: times(*pair) for name, pair in zip(names, itertools.pairwise(marks), strict=True)}


def spent(drawn: random.Random) -> dict[str, Any]:
    read = drawn.randrange(40_000, 900_000)
    return {
        "agent_result": {
            "n_input_tokens": read,
            "n_output_tokens": read // 40,
            "cost_usd": read * 2e-6,
        }
    }


def ending(number: int) -> dict[str, Any]:
    """A few trials end otherwise."""
    if number % 29 == 7:
        return {
            "verifier_result": None,
            "own": {"category": "environment", "passed": False},
            "exception_info": {
                "exception_type": "HealthcheckError",
                "exception_message": "the database did not answer within 60 s",
            },
        }
    if number % 31 == 11:
        finding = {
            "code": "replaced-program",
            "level": "suspicious",
            "message": "a program of the image has other content",
            "path": "/usr/bin/python3",
            "original": "ab" * 32,
            "found": "cd" * 32,
        }
        return {
            "own": {
                "refused_connections": 3,
                "integrity": {"grading": "shared", "findings": [finding]},
            }
        }
    return {}


def trajectory(agent: str, drawn: random.Random) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [
        {"source": "user", "message": "Fix the number of pages in /app/pagination.py."}
    ]
    for _ in range(drawn.randrange(6, 14)):
        steps.append(
            call_step("bash", {"command": "pytest -q tests/"}, output(False, drawn), drawn)
        )
    edit = {"path": "/app/pagination.py", "old_str": _BUG, "new_str": _FIX}
    steps.append(call_step("str_replace", edit, "The file has been edited.", drawn))
    steps.append({"source": "agent", "message": "The last page that has begun is counted now."})
    return {
        "schema_version": "ATIF-v1.8",
        "agent": {"name": agent, "version": "1"},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
    }


def call_step(name: str, arguments: Any, seen: str, drawn: random.Random) -> dict[str, Any]:
    call = {"tool_call_id": "1", "function_name": name, "arguments": arguments}
    return {
        "source": "agent",
        "message": " ".join(drawn.choices(_WORDS, k=14)).capitalize() + ".",
        "reasoning_content": " ".join(drawn.choices(_WORDS, k=40)),
        "tool_calls": [call],
        "observation": {"results": [{"source_call_id": "1", "content": seen}]},
        "metrics": {"prompt_tokens": drawn.randrange(2_000, 60_000), "completion_tokens": 300},
    }


def ctrf(passes: bool) -> dict[str, Any]:
    names = [f"test_pages[{total}-{size}]" for total in range(1, 6) for size in (2, 3)]
    failed = set() if passes else set(names[::3])
    tests = [
        {"name": name, "status": "failed", "message": f"assert 1 == 2\n  in {name}"}
        if name in failed
        else {"name": name, "status": "passed"}
        for name in names
    ]
    counts = {"tests": len(names), "passed": len(names) - len(failed), "failed": len(failed)}
    return {"results": {"tool": {"name": "pytest"}, "summary": counts, "tests": tests}}


def output(passes: bool, drawn: random.Random) -> str:
    lines = [f"tests/test_{drawn.choice(_WORDS)}.py::test_{number} PASSED" for number in range(20)]
    return (
        "\n".join([*lines, "10 passed" if passes else "\x1b[31m4 failed\x1b[0m, 6 passed"]) + "\n"
    )
