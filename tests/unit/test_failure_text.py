"""What a user reads when a trial did not pass, whole, for each category.

The texts stand in ``golden/``.
"""

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.plugin.failure_text import failure_text, headline, step_text
from pytest_harbor.result.ctrf import CtrfReport, CtrfTest
from pytest_harbor.result.network import PhaseRefusals, RefusedConnection
from pytest_harbor.result.reward import Reward, judge
from pytest_harbor.result.trial import Fault, StepResult, Timing, TrialResult

GOLDEN = Path(__file__).parent / "golden"
START = datetime(2026, 1, 5, 10, 0, 0, tzinfo=UTC)

Given = Callable[..., pytest.Item]


@pytest.fixture
def item(make_task: Any, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Given:
    """The trial of a task, as a command line gives it to the program ``pytest``."""
    programs = os.path.dirname(sys.executable)
    monkeypatch.setenv("PATH", os.pathsep.join([programs, os.environ["PATH"]]))
    monkeypatch.setattr(sys, "argv", ["pytest"])

    def collect(*args: str, tasks: str = "tasks") -> pytest.Item:
        if not (make_task.root / "hello").exists():
            make_task()
        items, _ = pytester.inline_genitems("-p", "no:cacheprovider", "-q", tasks, *args)
        return items[0]

    return collect


def timings(**seconds: float) -> dict[str, Timing]:
    return {
        phase: Timing(START, START + timedelta(seconds=length)) for phase, length in seconds.items()
    }


def result(**changes: Any) -> TrialResult:
    usual: dict[str, Any] = {
        "trial_name": "hello__a1B2c3D",
        "trial_dir": Path("jobs/job/hello__a1B2c3D").absolute(),
        "task_name": "hello",
        "task_path": Path("tasks/hello"),
        "agent_name": "oracle",
        "timings": timings(environment=1.25, agent_setup=0, agent=62.04, verifier=3),
    }
    return TrialResult(**{**usual, **changes})


def graded(values: dict[str, Any], threshold: float = 1.0, **changes: Any) -> TrialResult:
    reward = Reward(values, "reward.json")
    return result(
        category="reward",
        reward=reward,
        verdict=judge(reward, threshold),
        threshold=threshold,
        verifier_exit_code=0,
        **changes,
    )


def log(result: TrialResult, name: str, content: str | bytes) -> None:
    path = result.trial_dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def check(name: str, text: str) -> None:
    assert text + "\n" == (GOLDEN / f"{name}.txt").read_text()


# --- whole texts


def test_reward_below_the_threshold(item: Given) -> None:
    failed = graded(
        {"reward": 0.5, "style": 3},
        agent_exit_code=7,
        faults=[Fault("agent", "NonZeroAgentExitCodeError", "agent ended with exit status 7")],
        findings=["reward.json decides; reward.txt is there too and agrees (0.5)"],
        ctrf=CtrfReport(
            "pytest",
            12,
            1,
            11,
            0,
            0,
            0,
            tuple(CtrfTest(f"test_{number}", f"assert {number} == 0") for number in range(11)),
        ),
    )
    log(failed, "verifier/test-stdout.txt", "\n".join(f"line {n}" for n in range(30)) + "\n")
    log(failed, "agent/oracle.txt", "working\nworking more\n")
    check("reward", failure_text(item(), failed))


def test_fault_of_the_agent(item: Given) -> None:
    unable = result(
        category="agent",
        agent_name="command",
        faults=[
            Fault("agent", "AgentAuthenticationError", "the agent could not work: API Error: 401"),
            Fault("verifier", "RewardFileNotFoundError", "no reward file"),
        ],
        agent_exit_code=1,
        verifier_exit_code=3,
    )
    log(unable, "agent/command.txt", "API Error: 401\n")
    check("agent", failure_text(item("--harbor-agent-command=agent {instruction}"), unable))


def test_fault_of_the_task(item: Given) -> None:
    broken = result(
        category="task",
        faults=[
            Fault("agent", "AgentTimeoutError", "agent timed out after 2 s"),
            Fault("verifier", "VerifierTimeoutError", "verifier timed out after 2 s"),
        ],
        agent_exit_code=None,
    )
    check("task", failure_text(item("--harbor-attempts=2"), broken))


def test_fault_of_the_environment(item: Given) -> None:
    message = "the build failed: exit status 7\n  RUN exit 7\n  ^^^^^^^^^^"
    failed = result(
        category="environment",
        faults=[Fault("environment", "ImageBuildError", message)],
        timings=timings(environment=12.5),
    )
    kept = "enter:  docker exec -it box bash\nremove: docker rm -f -v box"
    check("environment", failure_text(item("--harbor-keep"), failed, kept=kept))


def test_steps(item: Given) -> None:
    first = StepResult(
        name="one",
        reward=Reward({"reward": 1}, "reward.txt"),
        verdict=judge({"reward": 1}),
        timings=timings(agent=1, verifier=2),
        agent_exit_code=0,
        verifier_exit_code=0,
    )
    second = StepResult(
        name="two",
        reward=Reward({"reward": 0.25}, "reward.txt"),
        verdict=judge({"reward": 0.25}),
        timings=timings(agent=3, verifier=4),
        unmet=("reward 0.25, at least 0.5 is needed",),
    )
    failed = graded({"reward": 0.625}, step_names=("one", "two"), steps=[first, second])
    log(failed, "steps/two/verifier/test-stdout.txt", "step two says no\n")
    check("steps", failure_text(item(), failed))
    check("step", step_text(failed, second))


def test_hostile_logs_and_messages_do_nothing_to_the_terminal(item: Given) -> None:
    hostile = graded(
        {"reward": 0, "\x1b[31mred": 1, "k" * 200: 1},
        faults=[Fault("agent", "AgentCrashError", "crashed: \x1b]0;title\x07\x1b[2Jgone\x08\x00")],
        findings=["a file named 'a\u202etxt.exe' was left out"],
    )
    lines = [
        b"\x1b[1;31mFAILED\x1b[0m test_a",
        b"10%\r20%\r100% done\r",
        b"windows line\r",
        b"bell \x07 back \x08 null \x00 c1 \xc2\x9b31m raw \xff\xfe",
        "right \u200f left \u202e isolate \u2066".encode(),
        b"\x1b[999;999H\x1b[6n\x1bc\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
        b"z" * 600,
    ]
    log(hostile, "verifier/test-stdout.txt", b"\n".join(lines))
    check("hostile", failure_text(item(), hostile))


# --- bounds


def test_the_text_is_bounded_whatever_there_is(item: Given) -> None:
    big = graded(
        {f"key-{number}": 0 for number in range(50_000)},
        faults=[Fault("agent", "AgentCrashError", "x" * 10_000_000)],
    )
    log(big, "verifier/test-stdout.txt", b"y" * 10_000_000)
    log(big, "agent/oracle.txt", b"z\n" * 5_000_000)
    text = failure_text(item(), big)
    assert len(text) < 30_000
    assert "9992000 characters" in text
    assert "49980 more" in text
    assert text.splitlines()[-1].startswith("run again: pytest ")


# --- numbers


@pytest.mark.parametrize(
    ("values", "threshold", "words"),
    [
        ({"reward": 1}, 1.0, "reward 1 reaches the threshold 1"),
        ({"reward": 0.5}, 1.0, "reward 0.5 is below the threshold 1"),
        ({"reward": 0.99999999}, 1.0, "reward 0.99999999 is below the threshold 1"),
        ({"reward": 1 / 3}, 0.5, "reward 0.333333 is below the threshold 0.5"),
        ({"reward": -1}, 1.0, "reward -1 is below the threshold 1"),
        ({"reward": 10**400}, 1.0, "reward inf reaches the threshold 1"),
        ({"a": 1, "b": 0}, 1.0, "reward b=0, a=1 is below the threshold 1"),
        ({"only": 0}, 1.0, "reward only=0 is below the threshold 1"),
    ],
)
def test_the_first_line_tells_the_verdict(
    values: dict[str, Any], threshold: float, words: str
) -> None:
    assert headline(graded(values, threshold)) == words


# --- what the network refused


def refusals(phase: str, *refused: RefusedConnection, step: str = "", more: int = 0) -> Any:
    return PhaseRefusals(phase, step, refused, more)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (
            [refusals("agent", RefusedConnection("pypi.org", "tcp", 443, 2))],
            "network: 2 refused connections in the agent phase, as pypi.org:443 (tcp) ×2;"
            " all in network.json",
        ),
        (
            [refusals("agent_setup", RefusedConnection("a.example", "dns"))],
            "network: 1 refused connection in the agent setup phase, as a.example (dns);"
            " all in network.json",
        ),
        (
            [
                refusals("agent", RefusedConnection("1.1.1.1", "icmp"), step="one"),
                refusals("agent", RefusedConnection("2001:db8::1", "udp", 53), step="two"),
                refusals("verifier", RefusedConnection("a.example", "tcp", 80, 5), more=4),
            ],
            "network: 11 refused connections in the agent and verifier phases, as"
            " a.example:80 (tcp) ×5, 1.1.1.1 (icmp), 2001:db8::1:53 (udp); all in network.json",
        ),
    ],
)
def test_refused_connections_are_one_line(item: Given, found: Any, line: str) -> None:
    text = failure_text(item(), graded({"reward": 0}, refusals=found))
    assert [one for one in text.splitlines() if one.startswith("network:")] == [line]


def test_names_that_were_asked_for_do_nothing_to_the_terminal_nor_fill_it(item: Given) -> None:
    hostile = [RefusedConnection(f"\x1b[2J{n}" + "x" * 260, "dns") for n in range(50)]
    text = failure_text(item(), graded({"reward": 0}, refusals=[refusals("agent", *hostile)]))
    (line,) = [one for one in text.splitlines() if one.startswith("network:")]
    assert len(line) < 1500
    assert "\x1b" not in text


def test_nothing_refused_is_not_told(item: Given) -> None:
    assert "network:" not in failure_text(item(), graded({"reward": 0}))
