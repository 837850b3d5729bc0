"""What is in a line, and what is left out by name: order, continuations, ids, broken files."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.__main__ import main
from pytest_harbor.report.files import write_lines
from pytest_harbor.report.trace_file import read_chats, read_traces
from pytest_harbor.result import trajectory_reader
from tests.report.conftest import times
from tests.report.test_traces import ANSWER, CALL, FILES, WORK, document, export, said

__all__ = ["export"]


def contents(line: dict[str, Any]) -> list[str]:
    return [one["content"] for one in (*line["prompt"], *line["completion"])]


def test_steps_stand_in_the_order_in_which_they_ran(job: Any, export: Any) -> None:
    names = ("write", "10", "9")
    files = {
        f"steps/{name}/agent/trajectory.json": document(said(f"do {name}", "user"), said(name))
        for name in names
    }
    steps = [
        {"step_name": name, "agent_execution": times(place * 9, place * 9 + 5)}
        for place, name in enumerate(names)
    ]
    job.trial(files=files, step_results=steps, agent_execution=None, verifier=None)
    (line,) = export()
    assert contents(line) == ["do write", "write", "do 10", "10", "do 9", "9"]
    chats = export("--format=chat", "--with-info")
    assert [one["metadata"]["step"] for one in chats] == list(names)


def test_a_trace_goes_on_where_its_trajectory_does_without_what_was_copied(
    job: Any, export: Any
) -> None:
    first = document(*WORK, continued_trajectory_ref="trajectory.cont-1.json")
    copied = said("I look.", is_copied_context=True)
    second = document(said("So far: a.txt.", "user"), copied, said("All done."))
    files = {"agent/trajectory.json": first, "agent/trajectory.cont-1.json": second}
    job.trial(files=files)
    (line,) = export()
    assert contents(line)[-3:] == ["Done.", "So far: a.txt.", "All done."]
    assert contents(line).count("I look.") == 1


def test_long_ids_and_texts_are_whole(job: Any, export: Any) -> None:
    name, text = "c" * 5000, "x" * 4_100_000
    call, answer = CALL | {"tool_call_id": name}, ANSWER | {"source_call_id": name}
    acts = said(text, tool_calls=[call], observation={"results": [answer]})
    job.trial(files={"agent/trajectory.json": document(acts, said("Done."))})
    (line,) = export()
    asked, seen, _ = line["completion"]
    assert asked["content"] == text
    assert json.loads(asked["tool_calls"][0])["id"] == seen["tool_call_id"] == name


def test_halves_of_characters_in_arguments_reach_no_file(job: Any, export: Any) -> None:
    call = CALL | {"arguments": {"command": "a\ud800b 😀"}}
    acts = said("", tool_calls=[call], observation={"results": [ANSWER]})
    job.trial(files={"agent/trajectory.json": document(acts, said("Done."))})
    (trace,), (chat,) = export(), export("--format=chat")
    (written,) = trace["completion"][0]["tool_calls"]
    arguments = chat["messages"][0]["tool_calls"][0]["function"]["arguments"]
    for text in (json.loads(written)["arguments"], arguments):
        assert json.loads(text) == {"command": "a?b 😀"}


@pytest.mark.parametrize("form", ["trace", "chat"])
def test_a_trajectory_that_is_broken_is_named_and_the_others_are_written(
    form: str, job: Any, export: Any, capsys: Any
) -> None:
    job.trial("a__aaaaaaa", files=FILES)
    on = {"continued_trajectory_ref": "gone.json"}
    round_about = {"continued_trajectory_ref": "trajectory.json"}
    broken = {
        "b": '{"steps": [',
        "c": {"steps": "none"},
        "d": document(said("Hm.", "boss")),
        "e": document(said("Begun."), **on),
        "f": document(said("Begun."), **round_about),
    }
    for place, (name, content) in enumerate(broken.items(), 1):
        job.trial(f"{name}__broken0", start=20 * place, files={"agent/trajectory.json": content})
    lines = export(f"--format={form}")
    assert len(lines) == (1 if form == "trace" else 3)
    *named, told = capsys.readouterr().err.splitlines()
    assert "left out: 5 a trajectory that cannot be read" in told
    places = [line.partition(": ")[0] for line in named]
    assert places == [
        f"{job.path}/{name}__broken0/agent/{'gone' if name == 'e' else 'trajectory'}.json"
        for name in broken
    ]
    for line, words in zip(
        named,
        ("expected JSON", "steps: ", "source: expected", "No such file", "not read yet"),
        strict=True,
    ):
        assert words in line


def test_many_broken_ones_are_counted(job: Any, export: Any, capsys: Any) -> None:
    for number in range(23):
        files = {"agent/trajectory.json": document(said("Do it.", "user"))}
        job.trial(f"a{number}__broken0", start=20 * number, files=files)
    assert export("--format=chat", status=5) == []
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 22
    assert lines[20] == "and 3 more that cannot be used"
    assert "23 no message of the agent" in lines[21]


def test_a_report_tells_of_the_messages_that_it_has_not(job: Any, tmp_path: Path) -> None:
    job.trial("b__broken0", files={"agent/trajectory.json": "{"})
    assert main(["report", str(job.path), "--jsonl", str(tmp_path / "r.jsonl")]) == 0
    (trace,) = read_traces(tmp_path / "r.jsonl")
    assert trace.info["problems"][0].startswith("agent/trajectory.json: expected JSON")


@pytest.mark.parametrize("form", ["trace", "chat"])
def test_what_was_chosen_is_written_alone(
    form: str, job: Any, export: Any, capsys: Any
) -> None:
    for place, name in enumerate("ab"):
        job.trial(f"t__{name}", 0.5 * place, attempt=place + 1, start=20 * place, files=FILES)
    assert export(f"--format={form}", "--selected", status=4) == []
    assert "nothing was chosen in" in capsys.readouterr().err
    assert main(["select", str(job.path), "--by", "reward"]) == 0
    lines = export(f"--format={form}", "--selected", *(["--with-info"] * (form == "chat")))
    assert [line.get("info", line.get("metadata"))["trial"] for line in lines] == ["t__b"]
    assert "1 not selected" in capsys.readouterr().err


def test_tasks_of_two_jobs_have_a_number_each_whatever_their_items_are_called(
    make_job: Any, tmp_path: Path
) -> None:
    paths = []
    for name in ("one", "two"):
        made = make_job(name)
        made.tasks = tmp_path / name / "tasks"
        for attempt in (1, 2):
            made.trial(f"t__{attempt}", attempt=attempt, start=attempt, item="tasks/t/task.toml::x")
        paths.append(str(made.path))
    file = tmp_path / "both.jsonl"
    assert main(["traces", *paths, "-o", str(file)]) == 0
    assert [one.example_id for one in read_traces(file)] == [0, 0, 1, 1]


def test_tools_and_tokens_are_the_librarys(job: Any, export: Any, tmp_path: Path) -> None:
    tool = {"name": "bash", "description": "Runs.", "parameters": {"type": "object"}}
    metrics = {"prompt_token_ids": [1, 2], "completion_token_ids": [3], "logprobs": [-0.5]}
    work = document(
        said("Do it.", "user"),
        said("Done.", metrics=metrics),
        agent={"tool_definitions": [{"type": "function", "function": tool}]},
    )
    job.trial(files={"agent/trajectory.json": work})
    (line,) = export()
    assert line["tool_defs"] == [tool]
    assert "tokens" not in line["completion"][0]
    (line,) = export("--with-tokens")
    tokens = {"prompt_ids": [1, 2], "completion_ids": [3], "completion_logprobs": [-0.5]}
    assert line["completion"][0]["tokens"] == tokens
    (trace,) = read_traces(tmp_path / "out/lines.jsonl")
    assert trace.to_json() == line
    assert export("--format=chat", "--with-tokens", status=4) == []


def test_what_was_seen_in_a_terminal_is_no_answer_to_a_call(job: Any, export: Any) -> None:
    keys = said("", tool_calls=[CALL, CALL | {"tool_call_id": "c2"}])
    keys["observation"] = {"results": [{"content": "$ ls"}]}
    bare = said("ls\n", observation={"results": [{"content": "a.txt"}]})
    job.trial(files={"agent/trajectory.json": document(keys, bare)})
    (line,) = export()
    _, first, _, second = line["completion"]
    assert (first["role"], first["tool_call_id"]) == ("tool", "c2")
    assert (second["role"], second["content"]) == ("user", "a.txt")


def test_no_line_is_written_that_could_not_be_read(
    job: Any, export: Any, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trajectory_reader, "MAX_BYTES", 2000)
    job.trial("a__aaaaaaa", files=FILES)
    long = document(said("Do it.", "user"), said("x" * 1500 + "é" * 200))
    job.trial("b__bbbbbbb", files={"agent/trajectory.json": long}, start=20)
    assert len(export("--format=chat")) == 1
    assert "1 too long for a line" in capsys.readouterr().err
    assert len(list(read_chats(tmp_path / "out/lines.jsonl"))) == 1


def test_what_is_wrong_with_a_job_is_told(job: Any, export: Any, capsys: Any) -> None:
    job.trial(files=FILES)
    job.write("config.json", "{")
    assert len(export()) == 1
    assert f"{job.path}: config.json: expected JSON" in capsys.readouterr().err


def test_a_pipe_is_written_into_and_stays_one(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_lines(pipe, ["a\n", "b\n"])
    reader.join()
    assert read == ["a\nb\n"]
    assert pipe.is_fifo()


def test_the_standard_output_may_be_named(job: Any) -> None:
    job.trial(files=FILES)
    command = [sys.executable, "-m", "pytest_harbor", "traces", str(job.path), "-o", "/dev/stdout"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["reward"] == 1.0
    assert Path("/dev/stdout").is_symlink()
