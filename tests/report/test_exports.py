"""Tables and traces of trials, and the command that writes them."""

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.report.command import add_command
from pytest_harbor.report.job import read_job
from pytest_harbor.report.tables import csv_lines
from pytest_harbor.report.traces import jsonl_lines


def table(job: Any) -> list[dict[str, str]]:
    text = "".join(csv_lines(read_job(job.path).trials))
    return list(csv.DictReader(text.splitlines()))


def traces(job: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in jsonl_lines(read_job(job.path).trials)]


def test_a_row_says_what_is_known_and_leaves_the_rest_empty(job: Any) -> None:
    job.trial("a__aaaaaaa", 0.5, verifier_result={"rewards": {"reward": 0.5, "speed": 2}})
    job.trial("b__bbbbbbb", None, start=20, exception_info={"exception_type": "Odd"})
    first, second = table(job)
    assert (first["reward"], first["reward.speed"], first["passed"]) == ("0.5", "2", "false")
    assert (first["seconds.agent"], first["seconds"], first["cost_usd"]) == ("5", "10", "0.01")
    assert (first["in_rates"], second["in_rates"]) == ("true", "false")
    assert (second["reward"], second["reward.speed"]) == ("", "")
    assert (second["outcome"], second["fault"]) == ("task", "Odd")
    assert first["started_at"] == "2026-01-05T10:00:00.000Z"


def test_no_text_of_a_job_is_a_formula_or_breaks_a_row(job: Any) -> None:
    job.trial(
        task_name='=HYPERLINK("http://x")',
        verifier_result={"rewards": {"@key\n": 1.0, "reward": -1.0}},
        exception_info={"exception_type": "+1", "exception_message": 'a\r\nb,"c'},
    )
    (row,) = table(job)
    assert row["task"] == '\'=HYPERLINK("http://x")'
    assert row["fault"] == "'+1"
    assert row["message"] == 'a  b,"c'
    assert row["reward"] == "-1"
    assert row["reward.@key "] == "1"


def test_a_trace_is_a_line_as_the_verifiers_library_has_it(job: Any) -> None:
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}
    steps = [
        {"source": "system", "message": "Be good."},
        {"source": "user", "message": "Do it."},
        {
            "source": "agent",
            "message": "I look.",
            "reasoning_content": "Hm.",
            "tool_calls": [call],
            "observation": {"results": [{"source_call_id": "c1", "content": "a.txt"}]},
        },
        {"source": "agent", "message": "Done."},
    ]
    job.trial(
        "a__aaaaaaa",
        0.5,
        model=("m", "n"),
        files={"agent/trajectory.json": {"steps": steps}},
        verifier_result={"rewards": {"reward": 0.5, "speed": 2, "prompt": 3}},
    )
    (line,) = traces(job)
    assert line["prompt"] == [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": "Do it."},
    ]
    first, answer, last = line["completion"]
    assert json.loads(first.pop("tool_calls")[0]) == {
        "id": "c1",
        "name": "bash",
        "arguments": '{"command": "ls"}',
    }
    assert first == {"role": "assistant", "content": "I look.", "reasoning_content": "Hm."}
    assert answer == {"role": "tool", "content": "a.txt", "tool_call_id": "c1"}
    assert last == {"role": "assistant", "content": "Done."}
    assert (line["reward"], line["speed"], line["example_id"]) == (0.5, 2, 0)
    assert line["metrics"] == {"reward": 0.5, "speed": 2, "prompt": 3}
    assert line["error"] is None
    assert line["is_completed"] is True
    assert line["timing"]["generation"]["duration"] == 5
    assert line["token_usage"] == {"input_tokens": 100, "output_tokens": 20}
    assert line["info"]["model"] == "m/n"


def test_a_trace_without_a_valid_reward_has_none_and_an_error(job: Any) -> None:
    job.task("a")
    job.trial("a__aaaaaaa", None)
    job.trial("b__bbbbbbb", 1.0, start=1)
    job.trial("b__ccccccc", 0.0, start=2, attempt=2, exception_info={"exception_type": "Odd"})
    (job.trial("d__ddddddd", start=3) / "result.json").unlink()
    first, second, third = traces(job)
    assert first["reward"] is None
    assert first["error"]["error"] == "task"
    assert first["prompt"] == [{"role": "user", "content": "Write ok into /app/out.txt."}]
    assert (second["example_id"], third["example_id"]) == (1, 1)
    assert (third["reward"], third["error"]["error"]) == (0.0, "Odd")


def test_a_trace_of_a_task_with_steps_has_those_of_all(job: Any) -> None:
    for step in ("one", "two"):
        steps = [{"source": "user", "message": step}, {"source": "agent", "message": "ok"}]
        job.trial(files={f"steps/{step}/agent/trajectory.json": {"steps": steps}})
    (line,) = traces(job)
    assert [one["content"] for one in line["prompt"]] == ["one"]
    assert [one["content"] for one in line["completion"]] == ["ok", "two", "ok"]


def test_a_trace_names_the_artifacts_of_the_trial_and_of_its_steps(job: Any) -> None:
    files = {"artifacts/a/b.txt": "b", "artifacts/manifest.json": []}
    job.trial(files=files | {"steps/one/artifacts/c.txt": "c"})
    (line,) = traces(job)
    assert line["artifacts"] == ["artifacts/a/b.txt", "steps/one/artifacts/c.txt"]


@pytest.fixture
def command() -> Any:
    parser = argparse.ArgumentParser()
    add_command(parser.add_subparsers())

    def call(*arguments: str | Path) -> int:
        found = parser.parse_args(["report", *map(str, arguments)])
        return int(found.run(found))

    return call


def test_the_command_writes_what_it_is_asked_for(
    job: Any, make_job: Any, command: Any, tmp_path: Path, capsys: Any
) -> None:
    job.trial(reward=1.0)
    before = make_job("before")
    before.trial(reward=0.0)
    names = ("r.html", "t.csv", "t.jsonl")
    html, table, lines = (tmp_path / "out" / name for name in names)
    status = command(
        job.path, "-o", html, "--csv", table, "--jsonl", lines, "--baseline", before.path
    )
    assert status == 0
    assert all((tmp_path / "out" / name).stat().st_size for name in names)
    shown = capsys.readouterr().out
    assert "  better org/hello: 0/1 -> 1/1 (p=1)" in shown
    assert f"report: {html}" in shown


def test_the_command_refuses_in_a_sentence(
    job: Any, command: Any, tmp_path: Path, capsys: Any
) -> None:
    assert command(tmp_path / "nowhere", "-o", tmp_path / "r.html") == 4
    assert "expected a job's folder, found nothing" in capsys.readouterr().err
    job.trial()
    assert command(job.path) == 0
    assert "1 of 1 trials done" in capsys.readouterr().out
    assert command(job.path, "--baseline", job.path.parent) == 4
    assert "it holds jobs" in capsys.readouterr().err


def test_the_commands_lines_hold_nothing_that_a_terminal_obeys(
    job: Any, command: Any, capsys: Any
) -> None:
    (job.trial("one\x1b]0;title\x07") / "result.json").unlink()
    assert command(job.path) == 0
    told = capsys.readouterr().out
    assert "one?]0;title?" in told
    assert "\x1b" not in told
    assert "\x07" not in told
