"""Which trials are tried again: the table, what a run says of it, and the wait."""

from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.agent.faults import ApiRateLimitError, unable_error
from pytest_harbor.errors import TrialError
from pytest_harbor.plugin.benchmark_options import BenchmarkSettings
from pytest_harbor.result.error_policy import POLICIES
from pytest_harbor.result.reward import Reward
from pytest_harbor.result.trial import StepResult, TrialResult
from pytest_harbor.result.work import Fault, Timing
from pytest_harbor.trial.retries import CAUSES, MAX_WAIT_SEC, RetryPolicy, lineage, meant_name

DOCS = Path(__file__).parents[2] / "docs/benchmarks.md"


def result(*faults: tuple[str, str], category: str = "environment", **more: Any) -> TrialResult:
    found = TrialResult(
        trial_name="a__1",
        trial_dir=Path("/j/a__1"),
        task_name="a",
        task_path=Path("/t/a"),
        agent_name="codex",
        category=category,
        **more,
    )
    found.faults += [Fault(phase, name, "words") for phase, name in faults]
    for phase, _ in faults:
        found.timings[phase] = Timing(found.started_at)
    return found


def again(found: TrialResult, tries: int = 1, **policy: Any) -> bool:
    return RetryPolicy(**policy).wait_before(found, tries) is not None


@pytest.mark.parametrize(
    ("faults", "category", "tried"),
    [
        ([("environment", "HealthcheckError")], "environment", True),
        ([("environment", "EnvironmentStartTimeoutError")], "environment", True),
        ([("environment", "ImageNotFoundError")], "environment", False),
        ([("agent_setup", "AgentSetupTimeoutError")], "agent", True),
        ([("agent", "ApiRateLimitError")], "agent", True),
        ([("agent", "AgentAuthenticationError")], "agent", False),
        ([("agent", "ApiRateLimitError"), ("verifier", "RewardFileNotFoundError")], "agent", True),
        ([("agent", "EnvironmentLostError")], "environment", False),
        ([("agent", "EngineUnavailableError")], "environment", True),
        ([("environment", "OfNobody")], "environment", False),
        ([("environment", "KeyboardInterrupt")], "environment", False),
        ([("environment", "HealthcheckError"), ("agent", "OfNobody")], "environment", False),
        ([("verifier", "RewardFileNotFoundError")], "task", False),
        ([("agent", "AgentTimeoutError")], "reward", False),
        ([("agent", "ApiRateLimitError")], "reward", False),
        ([], "environment", False),
    ],
)
def test_a_trial_is_tried_again_by_its_cause(
    faults: list[tuple[str, str]], category: str, tried: bool
) -> None:
    assert again(result(*faults, category=category)) is tried


def test_a_reward_is_never_a_reason() -> None:
    graded = result(category="reward", reward=Reward({"reward": 0.0}, "reward.txt"))
    assert not again(graded, include=frozenset({"TrialError"}))


def test_what_only_the_agent_printed_of_its_provider_counts_where_nothing_came_of_its_work() -> (
    None
):
    claimed = unable_error("error: rate_limit_error")
    assert claimed is not None
    seen = ApiRateLimitError("429 of a provider")

    def tried(*errors: Exception, **more: Any) -> list[bool]:
        found = result(category="agent", **more)
        found.faults += [Fault.of("agent", error) for error in errors]
        return [again(found), again(found, include=frozenset({"ApiRateLimitError"}))]

    zero = {"reward": Reward({"reward": 0.0}, "reward.txt")}
    assert tried(claimed) == [True, True]
    assert tried(claimed, **zero) == [False, False]
    assert tried(claimed, usage={"n_steps": 3}) == [False, False]
    assert tried(seen, **zero) == [True, True]
    assert tried(claimed, seen, **zero) == [True, True]


def test_all_steps_count() -> None:
    found = result(category="agent")
    found.steps += [StepResult(name="one"), StepResult(name="two")]
    found.steps[1].faults.append(Fault("agent", "ApiOverloadedError", "words"))
    assert again(found)
    found.steps[0].faults.append(Fault("agent", "AgentTimeoutError", "words"))
    assert not again(found)


def test_there_are_as_many_tries_as_were_asked_for() -> None:
    found = result(("environment", "HealthcheckError"))
    assert [again(found, tries) for tries in (1, 2, 3)] == [True, True, False]
    assert not again(found, retries=0)
    assert again(found, 9, retries=9)


def test_names_of_the_run_replace_the_table_and_exclusion_wins() -> None:
    image = result(("environment", "ImageNotFoundError"))
    health = result(("environment", "HealthcheckError"))
    assert again(image, include=frozenset({"ImageError"}))
    assert not again(health, include=frozenset({"ImageError"}))
    assert not again(health, exclude=frozenset({"EnvironmentFault"}))
    both = {"include": frozenset({"ImageError"}), "exclude": frozenset({"ImageNotFoundError"})}
    assert not again(image, **both)
    assert again(result(("environment", "OfMine")), include=frozenset({"OfMine"}))


def test_the_wait_doubles_has_a_spread_and_an_end() -> None:
    found = result(("environment", "HealthcheckError"))
    limits = RetryPolicy(retries=20)
    for tries, longest in ((1, 1.0), (2, 2.0), (3, 4.0), (15, MAX_WAIT_SEC)):
        waits = {limits.wait_before(found, tries) or 0.0 for _ in range(40)}
        assert longest / 2 <= min(waits) < max(waits) <= longest
    provider = limits.wait_before(result(("agent", "ApiRateLimitError"), category="agent"), 1)
    assert (provider or 0.0) >= 2.5


def test_a_run_has_its_own_first_waits() -> None:
    start = result(("environment", "EnvironmentStartTimeoutError"))
    waits = {"EnvironmentStartError": 8.0, "EnvironmentFault": 3.0, "HealthcheckError": 300.0}
    limits = RetryPolicy(retries=20, waits=waits)
    assert 4.0 <= (limits.wait_before(start, 1) or 0.0) <= 8.0
    assert 30.0 <= (limits.wait_before(start, 5) or 0.0) <= MAX_WAIT_SEC
    health = result(("environment", "HealthcheckError"))
    assert 150.0 <= (limits.wait_before(health, 4) or 0.0) <= 300.0
    assert RetryPolicy(waits={"HealthcheckError": 0.0}).wait_before(health, 1) == 0.0
    missing = result(("environment", "ImageNotFoundError"))
    assert limits.wait_before(missing, 1) is None


def test_a_judge_that_did_not_answer_costs_no_agents_work_unless_asked_for() -> None:
    found = result(("verifier", "JudgeUnavailableError"))
    assert not again(found)
    assert again(found, include=frozenset({"JudgeUnavailableError"}))


def test_every_fault_that_a_trial_can_have_is_in_the_table() -> None:
    known = {cause.name for cause in CAUSES}
    modules = ("pytest_harbor.errors", "pytest_harbor.agent.faults")
    kinds = [kind for kind in _leaves(TrialError) if kind.__module__ in modules]
    assert [kind for kind in kinds if not known.intersection(lineage(kind.__name__))] == []


def _leaves(kind: type) -> list[type]:
    below = kind.__subclasses__()
    return [one for sub in below for one in _leaves(sub)] if below else [kind]


def test_the_table_agrees_with_harbors_where_both_know_a_name() -> None:
    differing = {
        cause.name
        for cause in CAUSES
        if cause.name in POLICIES and cause.retry != POLICIES[cause.name].retry
    }
    assert differing == set()


def test_every_row_is_of_a_fault_that_there_is() -> None:
    assert [cause.name for cause in CAUSES if list(lineage(cause.name))[-1] != "TrialError"] == []


def test_the_page_shows_the_table() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for cause in CAUSES:
        tried = ("yes" if cause.anywhere else "before the agent works") if cause.retry else "no"
        wait = f"{cause.wait_sec:g} s" if cause.retry else ""
        assert f"| `{cause.name}` | {tried} | {wait} | {cause.why} |" in text


def test_two_further_tries_are_the_default() -> None:
    assert RetryPolicy().retries == BenchmarkSettings().retries == 2


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("AgentSetupErr", "AgentSetupError"),
        ("apiratelimiterror", "ApiRateLimitError"),
        ("ApiRateLimitError", ""),
        ("RateLimitError", ""),
        ("MyAgentSetupError", ""),
        ("Unheard", ""),
    ],
)
def test_a_misspelt_name_is_told_from_one_of_somebodys_own(name: str, meant: str) -> None:
    assert meant_name(name) == meant
