"""Files for training: what is written, what is left out, and reading it back."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.__main__ import main
from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.report.chat import NoChatError, chat_messages, chat_problem, chat_tools
from pytest_harbor.report.trace_file import read_chats, read_traces
from pytest_harbor.report.traces import json_line
from pytest_harbor.result.trajectory import Trajectory
from pytest_harbor.result.trajectory_reader import parse_trajectory
from tests.report.conftest import times

CALL = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}
ANSWER = {"source_call_id": "c1", "content": "a.txt"}


def said(message: str, source: str = "agent", **fields: Any) -> dict[str, Any]:
    return {"source": source, "message": message, **fields}


def document(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
    agent = {"name": "demo", "version": "1", **fields.pop("agent", {})}
    return {"schema_version": "ATIF-v1.8", "agent": agent, "steps": numbered, **fields}


def trajectory(*steps: dict[str, Any], **fields: Any) -> Trajectory:
    return parse_trajectory(document(*steps, **fields))


WORK = (
    said("Be good.", "system"),
    said("Do it.", "user"),
    said("I look.", tool_calls=[CALL], observation={"results": [ANSWER]}),
    said("Done."),
)
FILES = {"agent/trajectory.json": document(*WORK)}


@pytest.fixture
def export(job: Any, tmp_path: Path) -> Any:
    """Run the command on the job: its status, and the objects of the lines."""

    def call(*arguments: str, status: int = 0) -> list[dict[str, Any]]:
        file = tmp_path / "out" / "lines.jsonl"
        assert main(["traces", str(job.path), "-o", str(file), *arguments]) == status
        return [json.loads(line) for line in file.read_text().splitlines()] if not status else []

    return call


def test_a_chat_is_what_services_take(job: Any, export: Any) -> None:
    tool = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}
    bare = {"name": "look", "input_schema": {"type": "object"}}
    agent = {"tool_definitions": [tool, bare, {"odd": 1}]}
    job.trial(files={"agent/trajectory.json": document(*WORK, agent=agent)})
    (line,) = export("--format=chat")
    function = {"name": "bash", "arguments": '{"command": "ls"}'}
    calls = [{"id": "c1", "type": "function", "function": function}]
    look = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    assert line == {
        "messages": [
            {"role": "system", "content": "Be good."},
            {"role": "user", "content": "Do it."},
            {"role": "assistant", "content": "I look.", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
            {"role": "assistant", "content": "Done."},
        ],
        "tools": [tool, look],
    }


def test_with_info_a_chat_tells_its_trial(job: Any, export: Any) -> None:
    job.trial(files=FILES, model=("m", "n"), dataset="bench@1.0")
    (line,) = export("--format=chat", "--with-info")
    assert line["metadata"] == {
        "job": "now",
        "task": "org/hello",
        "dataset": "bench@1.0",
        "trial": "hello__aaaaaaa",
        "step": None,
        "agent": "oracle",
        "model": "m/n",
        "attempt": 1,
        "reward": 1.0,
        "rewards": {"reward": 1.0},
        "passed": True,
    }
    assert export("--with-info", status=4) == []
    (trace,) = export()
    assert trace["info"]["dataset"] == "bench@1.0"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((), ["a", "b", "c"]),
        (("--min-reward=0.5",), ["b", "c"]),
        (("--max-reward=0.5",), ["a", "b"]),
        (("--passed",), ["c"]),
        (("--reward-key=speed", "--min-reward=2"), ["b"]),
        (("--agent=other",), ["c"]),
        (("--agent=other", "--agent=oracle", "--model=m/n"), ["a"]),
    ],
)
@pytest.mark.parametrize("form", ["trace", "chat"])
def test_filters_choose_trials(
    form: str, arguments: tuple[str, ...], names: list[str], job: Any, export: Any
) -> None:
    two_keys = {"rewards": {"reward": 0.5, "speed": 2}}
    job.trial("a__aaaaaaa", 0.0, files=FILES, model=("m", "n"))
    job.trial("b__bbbbbbb", 0.5, files=FILES, start=20, verifier_result=two_keys)
    job.trial("c__ccccccc", 1.0, files=FILES, start=40, agent="other")
    lines = export(f"--format={form}", *arguments, *(["--with-info"] * (form == "chat")))
    trials = [line.get("info", line.get("metadata"))["trial"] for line in lines]
    assert [name[0] for name in trials] == names


@pytest.mark.parametrize("form", ["trace", "chat"])
def test_what_cannot_be_believed_is_left_out_and_counted(
    form: str, job: Any, export: Any, capsys: Any
) -> None:
    sign = {"findings": [{"code": "late-write", "level": "suspicious"}]}
    job.trial("a__aaaaaaa", files=FILES)
    job.trial("a__again00", files=FILES, start=20)
    job.trial("b__bbbbbbb", None, files=FILES, start=40)
    job.trial("c__ccccccc", files=FILES, start=60, own={"integrity": sign})
    job.trial("d__ddddddd", files=FILES, start=80, own={"untrusted": True})
    assert len(export(f"--format={form}")) == 1
    (told,) = capsys.readouterr().err.splitlines()
    assert told.partition("; ")[2] == (
        "left out: 2 signs of tampering, 1 run again, 1 without a verdict"
    )


def test_without_a_line_no_file_is_written_and_none_is_lost(
    job: Any, tmp_path: Path, capsys: Any
) -> None:
    job.trial(files=FILES)
    file = tmp_path / "kept.jsonl"
    file.write_text("before\n")
    command = ["traces", str(job.path), "-o", str(file), "--format=chat"]
    assert main([*command, "--min-reward=2"]) == 5
    assert "not written, there is no line for it; left out: 1 reward too low" in (
        capsys.readouterr().err
    )
    assert file.read_text() == "before\n"
    assert main(["traces", str(tmp_path / "nowhere"), "-o", str(file)]) == 4
    assert file.read_text() == "before\n"
    with pytest.raises(SystemExit):
        main([*command, "--min-reward=nan"])


def test_each_step_is_a_conversation_with_its_own_reward(job: Any, export: Any) -> None:
    files = {f"steps/{name}/{file}": data for name in "abc" for file, data in FILES.items()}
    graded = [
        {"step_name": "a", "verifier_result": {"rewards": {"reward": 0.0}}},
        {"step_name": "b", "verifier_result": {"rewards": {"reward": 1.0}}},
        {"step_name": "c", "verifier_result": None},
    ]
    job.trial(reward=0.5, files=files, step_results=graded)
    lines = export("--format=chat", "--with-info")
    assert [(one["metadata"]["step"], one["metadata"]["reward"]) for one in lines] == [
        ("a", 0.0),
        ("b", 1.0),
        ("c", 0.5),
    ]
    passed = export("--format=chat", "--with-info", "--passed")
    assert [one["metadata"]["step"] for one in passed] == ["b"]


def test_a_trajectory_that_goes_on_is_followed_beside_it_alone(
    job: Any, export: Any, capsys: Any
) -> None:
    first = document(*WORK, continued_trajectory_ref="trajectory.cont-1.json")
    second = document(*WORK[1:], continued_trajectory_ref="../secret.json")
    outside = document(said("outside"))
    files = {"agent/trajectory.json": first, "agent/trajectory.cont-1.json": second}
    job.trial(files=files | {"secret.json": outside})
    assert [len(line["messages"]) for line in export("--format=chat")] == [5, 4]
    assert "1 a trajectory that cannot be read" in capsys.readouterr().err


def test_no_link_is_followed(job: Any, export: Any, tmp_path: Path) -> None:
    (tmp_path / "trajectory.json").write_text(json.dumps(document(*WORK)))
    folder = job.trial("a__aaaaaaa")
    (folder / "agent").symlink_to(tmp_path)
    other = job.trial("b__bbbbbbb", start=20, files={"agent/x": ""})
    (other / "agent/trajectory.json").symlink_to(tmp_path / "trajectory.json")
    assert export("--format=chat", status=5) == []


TWO = [CALL, CALL | {"tool_call_id": "c2"}]


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([said("Do it.", "user")], "no message of the agent"),
        ([said("", tool_calls=[CALL]), said("Done.")], "a tool call without an answer"),
        (
            [said("", tool_calls=TWO, observation={"results": [ANSWER]}), said("Done.")],
            "a tool call without an answer",
        ),
        (
            [said("", tool_calls=TWO, observation={"results": [ANSWER, {"content": "x"}]})],
            "an answer without a tool call",
        ),
        ([said("", tool_calls=[CALL, CALL])], "tool calls that no id tells apart"),
        (
            [
                said(
                    "",
                    tool_calls=[CALL],
                    observation={
                        "results": [
                            {
                                "source_call_id": "c1",
                                "subagent_trajectory_ref": [{"trajectory_id": "s"}],
                            }
                        ]
                    },
                )
            ],
            "an answer that only another agent's trajectory has",
        ),
        (
            [
                said("Look.", "user")
                | {
                    "message": [
                        {
                            "type": "image",
                            "source": {"media_type": "image/png", "path": "a.png"},
                        }
                    ]
                },
                said("Done."),
            ],
            "an image or a recording",
        ),
    ],
)
def test_no_valid_chat_is_made_up(steps: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(NoChatError, match=f"^{reason}$"):
        chat_messages(trajectory(*steps))


@pytest.mark.parametrize(
    ("step", "roles"),
    [
        (said("", tool_calls=[CALL], observation={"results": [{"content": "x"}]}), "at"),
        (said("ls\n", observation={"results": [{"content": "a.txt"}]}), "au"),
        (said("", reasoning_content="Hm."), ""),
    ],
    ids=["the one call's answer", "a terminal's output", "thoughts alone"],
)
def test_what_is_mended_loses_nothing(step: dict[str, Any], roles: str) -> None:
    messages = chat_messages(trajectory(step, said("Done.")))
    assert "".join(one["role"][0] for one in messages) == f"{roles}a"


def test_what_came_of_several_calls_at_once_answers_the_last_of_them() -> None:
    keys = said("", tool_calls=TWO, observation={"results": [{"content": "$ ls"}]})
    answers = chat_messages(trajectory(keys, said("Done.")))[1:3]
    assert [(one["tool_call_id"], one["content"]) for one in answers] == [
        ("c1", ""),
        ("c2", "$ ls"),
    ]


def test_a_chat_ends_with_the_agents_last_word() -> None:
    end = said("", tool_calls=[CALL], observation={"results": [ANSWER]})
    *_, last = chat_messages(trajectory(*WORK, end, said("Thanks.", "user")))
    assert (last["role"], [one["id"] for one in last["tool_calls"]]) == ("assistant", ["c1"])


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def acts(draw: st.DrawFn) -> dict[str, Any]:
    """A step with calls, each of which has an answer."""
    ids = draw(st.lists(TEXT.filter(bool), min_size=1, max_size=3, unique=True))
    arguments = [draw(st.dictionaries(TEXT, JSON, max_size=3)) for _ in ids]
    return said(
        draw(TEXT),
        tool_calls=[
            {"tool_call_id": name, "function_name": draw(TEXT), "arguments": given}
            for name, given in zip(ids, arguments, strict=True)
        ],
        observation={"results": [{"source_call_id": name, "content": draw(TEXT)} for name in ids]},
    )


TOLD = st.builds(said, TEXT, st.sampled_from(["user", "system"]))
SPOKEN = st.builds(said, TEXT.filter(bool))


@given(st.lists(TOLD | SPOKEN | acts(), max_size=5))
def test_texts_calls_arguments_and_answers_come_back_from_a_chat(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[str, Any]]
) -> None:
    whole = trajectory(*steps, said("Done."))
    file = tmp_path_factory.mktemp("chats") / "chats.jsonl"
    line = {"messages": chat_messages(whole)}
    file.write_text(json_line(line))
    (chat,) = read_chats(file)
    back: list[dict[str, Any]] = []
    for message in chat.messages:
        if message.role == "tool":
            result = {"source_call_id": message.tool_call_id, "content": message.content}
            back[-1].setdefault("observation", {"results": []})["results"].append(result)
            continue
        source = "agent" if message.role == "assistant" else message.role
        back.append(said(message.content, source))
        if message.tool_calls:
            back[-1]["tool_calls"] = [
                {
                    "tool_call_id": call.id,
                    "function_name": call.function.name,
                    "arguments": json.loads(call.function.arguments),
                }
                for call in message.tool_calls
            ]
    assert trajectory(*back).to_json()["steps"] == whole.to_json()["steps"]
    assert chat.to_json() == line
    assert chat_tools(whole) == []


@given(steps=st.lists(TOLD | SPOKEN | acts(), min_size=1, max_size=3), metrics=JSON, name=TEXT)
def test_a_trace_that_was_read_gives_the_same_line(
    make_trace: Any, steps: list[dict[str, Any]], metrics: Any, name: str
) -> None:
    line, file = make_trace(steps, {"reward": 1.0, name: 2.0, "info": 3.0})
    (trace,) = read_traces(file)
    assert trace.to_json() == line
    assert trace.metrics["info"] == 3


@pytest.fixture(scope="module")
def make_trace(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from pytest_harbor.report.traces import trace
    from pytest_harbor.report.trial import Trial

    folder = tmp_path_factory.mktemp("trial")
    (folder / "agent").mkdir()

    def make(steps: list[dict[str, Any]], rewards: dict[str, float]) -> Any:
        (folder / "agent/trajectory.json").write_text(json.dumps(document(*steps)))
        found = Trial(
            name="t", task="t", category="reward", reward=1.0, rewards=rewards, folder=folder
        )
        file = folder / "traces.jsonl"
        file.write_text(json_line(trace(found, 0)))
        return json.loads(file.read_text()), file

    return make


def test_a_trace_with_an_error_comes_back(job: Any, export: Any, tmp_path: Path) -> None:
    job.trial(reward=0.0, files=FILES, exception_info={"exception_type": "AgentTimeoutError"})
    job.trial("b__bbbbbbb", files=FILES, start=20)
    lines = export()
    traces = list(read_traces(tmp_path / "out/lines.jsonl"))
    assert [one.to_json() for one in traces] == lines
    assert [bool(one.error) for one in traces] == [True, False]
    assert traces[0].error_chain == lines[0]["error"]["error_chain_repr"]
    # The library takes these four texts, no more and no less.
    assert lines[0]["error"] == {
        "error": "AgentTimeoutError",
        "message": "AgentTimeoutError",
        "error_chain_repr": "AgentTimeoutError('')",
        "error_chain_str": "AgentTimeoutError",
    }
    timing = traces[1].timing
    assert (timing["generation"]["duration"], timing["total"]) == (5.0, 7.0)


def test_a_phases_length_is_from_its_begin_to_its_end_as_the_library_reckons(
    job: Any, export: Any
) -> None:
    job.trial(agent_setup=times(2.5, 3.5))
    (line,) = export()
    setup = line["timing"]["setup"]
    assert setup["duration"] == setup["end"] - setup["start"] == 3.5


def test_halves_of_characters_reach_no_file(job: Any, export: Any) -> None:
    job.trial(files={"agent/trajectory.json": {"steps": [said("a\ud800b 😀")]}})
    (line,) = export()
    assert line["completion"][0]["content"] == "a?b 😀"


GOOD = '{"messages": [{"role": "assistant", "content": "ok"}]}'


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "expected JSON"),
        ("[]", r"expected an object, found \[\]"),
        ("{}", "messages: is required"),
        ('{"messages": [], "odd": 1}', "odd: is not a field"),
        ('{"messages": []}', r"messages\[0\]: expected a valid chat, found no message of the"),
        (GOOD.replace('"ok"', "1"), r"messages\[0\].content: expected a valid string, found 1"),
        (GOOD.replace("assistant", "boss"), r"role: expected 'system', 'user'.*found 'boss'"),
        (
            '{"messages": [{"role": "tool", "content": "", "tool_call_id": "c"}]}',
            "found an answer without a tool call",
        ),
        (
            '{"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "c",'
            ' "type": "function", "function": {"name": "f", "arguments": "[]"}}]}]}',
            r"messages\[0\]: arguments of the call 'c': expected the text of a JSON object",
        ),
    ],
)
def test_a_line_that_is_no_chat_is_refused_by_its_place(
    line: str, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text(f"{GOOD}\n\n{line}\n")
    with pytest.raises(TrajectoryFormatError, match=f"chats.jsonl:3: .*{problem}"):
        list(read_chats(file))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryFormatError, match="nowhere: cannot be read: No such file"):
        list(read_traces(tmp_path / "nowhere"))
    with pytest.raises(TrajectoryFormatError, match="cannot be read"):
        list(read_traces(tmp_path))


def test_a_chat_may_end_with_calls_but_not_with_some_of_their_answers() -> None:
    calls = [{"id": "a"}, {"id": "b"}]
    end = {"role": "assistant", "tool_calls": calls}
    assert chat_problem([end]) is None
    answered = [end, {"role": "tool", "tool_call_id": "a"}]
    assert chat_problem(answered) == (1, "a tool call without an answer")
