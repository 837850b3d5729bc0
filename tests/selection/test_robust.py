"""Selectors that fail, are interrupted or talked to; choices that need not be made again."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_harbor.__main__ import main
from pytest_harbor.errors import OptionError
from pytest_harbor.report.job import read_job
from pytest_harbor.selection.candidate import (
    INTERRUPTED,
    SIGNS,
    TAMPERED,
    Choice,
    Group,
    Selector,
)
from pytest_harbor.selection.choose import Selection, select
from pytest_harbor.selection.find import FunctionSelector, find_selector
from pytest_harbor.selection.lines import lines
from pytest_harbor.selection.numbers import figures
from pytest_harbor.selection.record import Kept, document, keep
from pytest_harbor.selection.reward import RewardSelector
from tests.model_server.script import Turn
from tests.model_server.server import ModelServer
from tests.report.conftest import times
from tests.selection.test_judge import best, fill
from tests.selection.test_numbers import attempts, chosen, names, only, trial


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def judge(server: ModelServer, job: Any) -> Any:
    job.write("config.json", {"job_name": "now", "n_attempts": 2})
    known = {"model": "m", "base_url": f"{server.root}/v1", "parallel": 1, "votes": 1}
    return lambda **more: find_selector("judge", known | more)


def by(function: Any) -> FunctionSelector:
    return FunctionSelector("own", function, {})


def first(group: Group) -> Choice:
    return Choice(group.candidates[0])


def test_what_is_not_believed_is_chosen_by_nobody_who_does_not_ask_for_it() -> None:
    forged = trial("a", 1, 1.0, untrusted=True, passed=False)
    evaded = trial("a", 2, None)
    odd = trial("a", 4, 1.0, suspicious=1, codes=("replaced-program",))
    authors = trial("a", 3, 0.0, suspicious=1, codes=("tests-in-image",))
    for selector in (by(first), RewardSelector()):
        found = chosen(forged, evaded, authors, odd, selector=selector)
        assert names(found) == ["a__3"]
        assert found.tasks[0].attempts.left_out == {TAMPERED: 2, SIGNS: 1}
        assert only(found).best_possible.mean_reward.value == 0.0

    class Bold(Selector):
        name = "bold"

        def why_not(self, candidate: Any) -> str:
            return ""

        def select(self, group: Group) -> Choice:
            return first(group)

    assert names(chosen(forged, evaded, selector=Bold())) == ["a__1"]
    alone = only(chosen(odd, *attempts("b", 1)))
    assert alone.left_out == {"tasks without an attempt to choose: signs of tampering": 1}
    assert alone.selected.mean_reward.denominator == 1
    best_of = only(chosen(odd, trial("a", 1, 0.5), trial("a", 2, 0.0))).best_of
    assert [one.mean_reward.value for one in best_of.values()] == pytest.approx([1 / 6, 1 / 3, 0.5])
    assert [one.pass_rate.value for one in best_of.values()] == [0.0, 0.0, 0.0]


def test_a_judge_is_not_asked_of_what_was_tampered_with(
    server: ModelServer, job: Any, judge: Any
) -> None:
    fill(job, x="one", y="two")
    job.trial(
        "hello__z", 1.0, attempt=3, start=9, own={"untrusted": True},
        files={"artifacts/app/out.txt": "forged"},
    )  # fmt: skip
    server.script.default = best("two")
    (found,) = select(read_job(job.path), judge()).tasks
    assert found.choice.candidate.trial == "hello__y"
    assert "forged" not in json.dumps(server.calls[0].body)
    assert found.attempts.left_out == {"no verdict that can be trusted, after tampering": 1}


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("details", "told"),
    [
        (["a", {"b"}], ["a", "{'b'}"]),
        ("words", "words"),
        ({1: float("inf")}, {"1": 1.7976931348623157e308}),
        (None, None),
    ],
)
def test_details_may_be_anything(details: Any, told: Any) -> None:
    found = chosen(
        *attempts("a", 1, 0), selector=by(lambda group: Choice(group.candidates[0], "", details))
    )
    assert found.tasks[0].details == told
    json.dumps(document(found))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda group: Choice(group.candidates[0], "", CIRCLE), "JSON can hold"),
        (lambda group: Choice(group.candidates[0], "", "x" * 9 * 1024**2), "at most 8 MiB"),
        (lambda group: pytest.fail("no"), "Failed: no"),
        (lambda group: exit(3), "SystemExit: 3"),
    ],
    ids=["circle", "large", "fail", "exit"],
)
def test_a_selector_that_goes_wrong_chooses_nothing_and_others_go_on(
    answer: Any, words: str
) -> None:
    def choose(group: Group) -> Any:
        return answer(group) if group.task == "a" else first(group)

    found = chosen(*attempts("a", 1, 0), *attempts("b", 1, 0), selector=by(choose))
    assert names(found) == [None, "b__1"]
    assert words in found.tasks[0].problem


def test_a_selector_that_cannot_say_who_is_a_candidate_chooses_nothing() -> None:
    class Odd(Selector):
        name = "odd"

        def why_not(self, candidate: Any) -> str:
            return "" if candidate.source.task == "b" else str(1 / 0)

        def select(self, group: Group) -> Choice:
            return first(group)

    found = chosen(*attempts("a", 1, 0), *attempts("b", 1, 0), selector=Odd())
    assert names(found) == [None, "b__1"]
    assert "why_not of a__1: ZeroDivisionError" in found.tasks[0].problem
    assert only(found).left_out == {"tasks of which nothing was chosen": 1}


class Broken(Selector):
    name = "broken"

    def __init__(self) -> None:
        raise RuntimeError("no such model")

    def select(self, group: Group) -> Choice:
        return first(group)


class Idle(Selector):
    parallel = 0

    def select(self, group: Group) -> Choice:
        return first(group)


@pytest.mark.parametrize(
    ("name", "words"),
    [("Broken", "RuntimeError: no such model"), ("Idle", "parallel: expected a whole number")],
)
def test_a_selector_that_cannot_be_made_is_told(name: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        find_selector(f"{__name__}:{name}")


def test_an_interrupt_ends_the_open_calls_and_keeps_what_was_paid_for(
    server: ModelServer, job: Any, judge: Any
) -> None:
    for task in "abc":
        fill(job, task, x="one", y="two")
    selector = judge(votes=2)
    turns = [best("one"), best("one"), best("two"), Turn(fault="hang")]

    def interrupt_at_the_fourth() -> None:
        while len(server.calls) < 4:
            threading.Event().wait(0.01)
        signal_main()

    import signal

    def signal_main() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    server.script.refill(turns)
    threading.Thread(target=interrupt_at_the_fourth, daemon=True).start()
    found = select(read_job(job.path), selector)
    assert names(found) == ["a__x", None, None]
    assert found.is_interrupted
    assert [one.problem for one in found.tasks[1:]] == [INTERRUPTED] * 2
    assert document(found)["usage"]["calls"] == 3
    assert len(server.calls) == 4


def test_what_was_judged_is_not_asked_again(server: ModelServer, job: Any, judge: Any) -> None:
    for task in "ab":
        fill(job, task, x="one", y="two")

    def again(**more: Any) -> Selection:
        selector = judge(**more)
        found = select(read_job(job.path), selector, Kept(job.path, selector))
        keep(found)
        return found

    server.script.refill([best("one"), Turn(status=401)])
    assert names(again()) == ["a__x", None]
    server.script.default = best("two")
    assert names(again()) == ["a__x", "b__y"]
    assert len(server.calls) == 3
    found = again()
    assert names(found) == ["a__x", "b__y"]
    assert found.tasks[0].choice.reason == "1 of 1 votes: one it is"
    assert len(server.calls) == 3
    assert document(found)["usage"]["earlier_calls"] == 2
    assert "2 calls, 2 of them of an earlier selection" in "\n".join(lines(found))
    assert names(again(criteria="It is short.")) == ["a__y", "b__y"]
    job.write("a__y/artifacts/app/out.txt", "two again")
    again(criteria="It is short.")
    assert len(server.calls) == 6


def test_one_attempt_alone_does_not_say_what_all_were_told(
    server: ModelServer, job: Any, judge: Any
) -> None:
    told = {"source": "user", "message": "Choose the work that holds the word one."}
    fill(job, x="one", y="two")
    (job.tasks / "hello/task.toml").unlink()
    job.write("hello__x/agent/trajectory.json", {"steps": [told]})
    job.write("hello__y/agent/trajectory.json", {"steps": [told | {"message": "Write two."}]})
    (found,) = select(read_job(job.path), judge()).tasks
    assert "not all the same" in found.problem
    assert server.calls == []
    job.write("hello__y/agent/trajectory.json", {"steps": [told]})
    server.script.default = best("two")
    (found,) = select(read_job(job.path), judge()).tasks
    user = server.calls[0].body["messages"][1]["content"]
    mark = user.partition(" 0>")[0].rpartition("<")[2]
    assert f"<{mark} 0>\n{told['message']}\n</{mark} 0>" in user


def test_no_attempt_crowds_out_the_others(server: ModelServer, job: Any, judge: Any) -> None:
    fill(job, x="one", y="two")
    for number in range(40):
        job.write(f"hello__x/artifacts/app/{'n' * 100}{number}", "x" * 60)
    said = {"steps": [{"source": "agent", "message": "m" * 9000}]}
    job.write("hello__x/agent/trajectory.json", said)
    server.script.default = best("two")
    select(read_job(job.path), judge(max_prompt_chars=4000))
    user = server.calls[0].body["messages"][1]["content"]
    assert "two" in user
    assert "more files are not shown" in user
    assert len(user) < 5000


def test_a_prompt_that_is_too_long_is_no_outage(
    server: ModelServer, job: Any, judge: Any
) -> None:
    for task in "abcde":
        fill(job, task, x="one", y="two")
    server.script.refill([Turn(status=400, error="too long")] * 4)
    server.script.default = best("one")
    found = select(read_job(job.path), judge())
    assert names(found) == [None] * 4 + ["e__x"]


def test_files_of_a_step_are_found_whatever_it_is_called(
    server: ModelServer, job: Any, judge: Any
) -> None:
    job.task()
    for number, name in enumerate("xy", 1):
        job.trial(
            f"hello__{name}", attempt=number, start=number,
            files={"steps/my-artifacts/artifacts/app/out.txt": f"work of {name}"},
        )  # fmt: skip
    server.script.default = best("work of y")
    (found,) = select(read_job(job.path), judge(files="/app/out.txt")).tasks
    assert found.choice.candidate.trial == "hello__y"
    assert judge(files="/app/nothing").why_not(found.choice.candidate) == (
        "neither artifacts that `files` names nor a last message"
    )


def test_what_is_wrong_with_the_job_is_told(job: Any) -> None:
    fill(job, x="one", y="two")
    job.write("config.json", "{")
    found = select(read_job(job.path), by(first))
    assert any(line.startswith("job: config.json: ") for line in lines(found))
    assert figures(found)[0].selected is not None


def test_a_judge_is_told_the_steps_in_their_order(
    server: ModelServer, job: Any, judge: Any
) -> None:
    fill(job, x="one", y="two")
    for place, name in enumerate(("10", "9")):
        step = job.tasks / "hello/steps" / name
        step.mkdir(parents=True)
        (step / "instruction.md").write_text(f"Do {name}.")
        for trial_name in ("hello__x", "hello__y"):
            path = job.path / trial_name / "result.json"
            found = json.loads(path.read_text())
            steps = found["step_results"] or []
            ran = {"step_name": name, "agent_execution": times(place * 2, place * 2 + 1)}
            path.write_text(json.dumps(found | {"step_results": [*steps, ran]}))
    server.script.default = best("one")
    select(read_job(job.path), judge())
    user = server.calls[0].body["messages"][1]["content"]
    assert user.index("Do 10.") < user.index("Do 9.")


def test_a_command_that_is_interrupted_says_so(
    job: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(path: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_harbor.report.job.read_job", interrupted)
    assert main(["select", str(job.path), "--by", "reward"]) == 130
    assert capsys.readouterr().err == "interrupted\n"
