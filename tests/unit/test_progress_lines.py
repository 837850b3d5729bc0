"""Live lines as text: what they say, and that nothing of a task's gets to the terminal by them."""

import pytest

from pytest_harbor.plugin.progress_lines import (
    Counts,
    Shown,
    age,
    cells,
    cut,
    progress_lines,
    short_name,
)

COUNTS = Counts(ended=3, expected=10, failed=1)


def shown(name: str, started: float = 0, phase: str = "agent", **more: str) -> Shown:
    item = f"tasks/{name}/task.toml::oracle"
    return Shown(item, started, phase, more.get("step", ""), started + 5, more.get("doing", ""))


def lines(*trials: Shown, counts: Counts = COUNTS, columns: int = 79, rows: int = 12) -> list[str]:
    return progress_lines(trials, counts, 190.0, columns=columns, rows=rows)


def test_each_trial_has_a_line_with_phase_and_age() -> None:
    assert lines(
        shown("build-parser", phase="environment", doing="building x: 4/9 RUN apt-get update"),
        shown("hello", 100, step="second"),
        shown("late", 180, phase=""),
    ) == [
        "harbor: 3 of 10 trials done, 1 failed; 3 running",
        "   3:10  build-parser::oracle  environment 3:05: building x: 4/9 RUN apt-get ..",
        "   1:30  hello::oracle         agent (second) 1:25",
        "   0:10  late::oracle          start",
    ]


def test_a_run_of_one_trial_needs_no_head() -> None:
    assert lines(shown("hello", phase="agent_setup"), counts=Counts(0, 1, 0)) == [
        "   3:10  hello::oracle  agent set-up 3:05"
    ]


def test_what_does_not_fit_is_counted_and_the_oldest_are_shown() -> None:
    told = lines(*(shown(f"t{number}", 100 - number) for number in range(9)), rows=4)
    assert len(told) == 4
    assert "t8::oracle" in told[1]
    assert told[-1].strip() == "and 7 more"


@pytest.mark.parametrize("columns", [0, 1, 2, 5, 20, 40, 79])
@pytest.mark.parametrize("rows", [0, 1, 12])
def test_no_line_is_wider_than_the_terminal(columns: int, rows: int) -> None:
    trials = shown("日本語の課題" * 5, doing="x" * 300), shown("y" * 200)
    told = lines(*trials, columns=columns, rows=rows)
    assert max(map(cells, told)) <= columns


HOSTILE = "a\x1b[2Jb\r\nc\x07\x9b31m\u202etxt\ud800"


def test_nothing_in_a_name_or_a_build_is_obeyed_by_the_terminal() -> None:
    (line,) = lines(
        Shown(f"tasks/{HOSTILE}/task.toml::oracle", 0, HOSTILE, HOSTILE, 0, HOSTILE),
        counts=Counts(0, 1, 0),
        columns=500,
    )
    assert line.isprintable()


def test_names_are_short() -> None:
    assert (
        short_name("a/b/hello/task.toml::codex[openai/gpt-5-2]") == "hello::codex[openai/gpt-5-2]"
    )
    assert short_name("task.toml::oracle") == "task.toml::oracle"


def test_ages_are_as_a_clock_has_them() -> None:
    assert [age(seconds) for seconds in (-1, 59.9, 61, 3723)] == ["0:00", "0:59", "1:01", "1:02:03"]


def test_wide_signs_count_twice_and_marks_not_at_all() -> None:
    assert [cells(text) for text in ("abc", "日本", "e\u0301")] == [3, 4, 1]
    assert cut("日本語", 5) == "日.."
    assert cut("abc", 3) == "abc"
