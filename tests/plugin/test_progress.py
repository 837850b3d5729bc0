"""Live lines on a real pseudo-terminal: below pytest's own, never in them, and gone at the end."""

import os
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from _pytest._io import TerminalWriter

from pytest_harbor.plugin.progress_area import LiveArea
from tests.screen import Screen

# --- the area


class Writing:
    """pytest's writer on a terminal, with an area below it."""

    def __init__(self, screen: Screen, encoding: str = "utf-8") -> None:
        self.screen = screen
        self._file = os.fdopen(os.dup(screen.slave), "w", encoding=encoding)
        self.writer = TerminalWriter(self._file)
        self.area = LiveArea(os.dup(screen.slave), encoding, self.writer)

    def close(self) -> None:
        self.area.close()
        self._file.close()

    def seen(self) -> list[str]:
        return self.screen.read().splitlines()


@pytest.fixture
def screen() -> Iterator[Screen]:
    with Screen(40, 8) as screen:
        yield screen


@pytest.fixture
def writing(screen: Screen) -> Iterator[Writing]:
    with closing(Writing(screen)) as writing:
        yield writing


def test_lines_stand_below_a_line_that_is_being_written(screen, writing):
    writing.writer.write("tasks/hello ")
    writing.area.show(["one", "two"])
    assert writing.seen() == ["tasks/hello", "one", "two"]
    assert screen.cursor == (12, 0)
    writing.writer.write(".\n")
    assert writing.seen() == ["tasks/hello ."]


def test_lines_replace_those_before(screen, writing):
    writing.area.show(["a long line", "two", "three"])
    writing.area.show(["one"])
    assert writing.seen() == ["", "one"]
    writing.area.show([])
    assert writing.seen() == []


def test_at_the_bottom_the_screen_makes_room(screen, writing):
    writing.writer.write("".join(f"line {number}\n" for number in range(20)) + "tasks/hello ")
    writing.area.show(["one", "two", "three"])
    assert writing.seen()[-4:] == ["tasks/hello", "one", "two", "three"]
    writing.writer.write(".\nnext ")
    assert writing.seen()[-3:] == ["line 19", "tasks/hello .", "next"]
    writing.area.show(["one", "two", "three"])
    writing.area.close()
    assert writing.seen()[-1] == "next"


def test_a_line_that_is_just_full_is_left_alone(screen, writing):
    writing.writer.write("x" * 40)
    writing.area.show(["one"])
    assert writing.seen() == ["x" * 40]
    writing.writer.write("y")
    writing.area.show(["one"])
    assert writing.seen() == ["x" * 40, "y", "one"]


def test_a_terminal_of_another_size_shows_no_remains(screen, writing):
    writing.writer.write("tasks ")
    writing.area.show(["a" * 39, "b" * 39])
    screen.resize(20, 6)
    assert writing.area.size == (20, 6)
    writing.area.show(["a" * 19])
    assert writing.seen() == ["tasks", "a" * 19]
    screen.resize(60, 20)
    writing.writer.write(".\n")
    assert writing.seen() == ["tasks ."]


def test_a_terminal_of_no_size_is_taken_for_a_usual_one(screen, writing):
    screen.forget_size()
    assert writing.area.size == (80, 24)
    writing.writer.write("tasks ")
    writing.area.show(["one"])
    assert writing.seen() == ["tasks", "one"]


def test_a_terminal_that_is_not_utf8_gets_what_it_has(screen):
    with closing(Writing(screen, "ascii")) as writing:
        writing.area.show(["Aufgabe für 日本"])
        assert writing.seen() == ["", "Aufgabe f?r ??"]


def test_after_the_end_the_writer_is_as_it_was(screen, writing):
    writing.area.show(["one"])
    writing.area.close()
    writing.writer.write("done\n")
    writing.writer.flush()
    assert writing.seen() == ["done"]
    assert b"\x1b[J" not in screen.raw.rpartition(b"done")[2]


# --- whole runs, whose trials are a fixture that waits


WAITS = """
import os, pathlib, time

@pytest.fixture
def harbor_trial(request, harbor_task, harbor_job):
    from pytest_harbor.trial.status import FOLDER, TrialStatus

    harbor_job.path.mkdir(parents=True, exist_ok=True)
    status = TrialStatus(harbor_job.path / FOLDER / f"{harbor_task.path.name}.json")
    status.begin(item=request.node.nodeid, run=harbor_job.run_id)
    status.phase("environment")
    status.doing("building it: 2/3 RUN \\x1b[2J make")
    print("printed by the test")
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    status.end()
    pytest.skip("waited")
"""
ENV = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LANG": "C.UTF-8"}


class Terminal:
    """Runs pytest on the tasks of a project, on a terminal."""

    def __init__(self, project, screen: Screen) -> None:
        self.screen = screen
        self._folder = project.path

    def __call__(self, *args: str, **env: str) -> Screen:
        argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rN"]
        plugins = os.environ["PYTEST_ADDOPTS"]
        self.screen.run(
            [*argv, "-p", "no:hypothesispytest", *args, "tasks"],
            {**ENV, "TERM": "xterm", "PYTEST_ADDOPTS": plugins, **env},
            self._folder,
        )
        return self.screen

    def go(self) -> str:
        """Let the trials end; what is seen at the end."""
        (self._folder / "go").touch()
        assert self.screen.wait() == 0, self.screen.text
        return self.screen.text


@pytest.fixture
def terminal(project) -> Iterator[Terminal]:
    project.conftest(WAITS)
    for name in ("slow", "slower"):
        project.task(name)
    with Screen(90, 40) as screen:
        yield Terminal(project, screen)


def test_a_trial_is_followed_in_this_process(terminal):
    seen = terminal().read_until("slow::oracle", "2/3").splitlines()
    start = seen.index("tasks/slow/task.toml")
    assert seen[start + 1] == "harbor: 0 of 2 trials done; 1 running"
    assert seen[start + 2].split()[1:3] == ["slow::oracle", "environment"]
    assert seen[start + 2].endswith("building it: 2/3 RUN ?[2J make")
    assert len(seen) == start + 3
    end = terminal.go()
    assert "running" not in end
    assert "tasks/slow/task.toml s " in end
    assert "tasks/slower/task.toml s " in end


def test_a_trial_is_followed_on_a_terminal_of_no_size(terminal):
    terminal.screen.forget_size()
    seen = terminal(COLUMNS="0", LINES="0").read_until("slow::oracle", "2/3").splitlines()
    assert "harbor: 0 of 2 trials done; 1 running" in seen
    assert "2 tasks, 2 trials" in terminal.go()


def test_without_a_terminal_no_size_is_needed(project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "0")
    monkeypatch.setenv("LINES", "0")
    project.task()
    result = project.run_process("--harbor-progress=on", "tasks")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["1 task, 1 trial", "*not counted: 1 skipped"])
    result.stdout.no_fnmatch_line("*running*")


def test_trials_of_workers_are_followed(terminal):
    seen = terminal("-n2", "-v", "-s").read_until("slow::oracle ", "slower::oracle ", "2 running")
    assert seen.count("building it: 2/3 RUN") == 2
    end = terminal.go()
    assert "running" not in end
    assert end.count("SKIPPED") == 2


@pytest.mark.parametrize(
    ("args", "env"),
    [
        pytest.param((), {"CI": "true"}, id="ci"),
        pytest.param((), {"TERM": "dumb"}, id="dumb", marks=pytest.mark.long),
        pytest.param(("-s",), {}, id="prints", marks=pytest.mark.long),
        pytest.param(("-qq",), {}, id="quiet", marks=pytest.mark.long),
        pytest.param(("--harbor-progress=off",), {}, id="off", marks=pytest.mark.long),
    ],
)
def test_nobody_is_shown_what_nobody_wants(terminal, args, env):
    screen = terminal(*args, **env)
    assert terminal.go()
    assert b"\x1b7" not in screen.raw


@pytest.mark.long
def test_lines_may_be_wanted_all_the_same(terminal):
    terminal("--harbor-progress=on", "-qq", CI="true").read_until("slow::oracle", "2/3")
    assert "2/3" not in terminal.go()


@pytest.mark.long
def test_a_worker_that_dies_leaves_no_line_and_no_file(terminal, project):
    project.conftest(WAITS.replace("    status.end()", "    os._exit(3)"))
    screen = terminal("-n2", "--max-worker-restart=0")
    screen.read_until("slow::oracle", "2 running")
    (project.path / "go").touch()
    assert screen.wait() != 0
    assert "2 running" not in screen.text
    assert "crashed" in screen.text
    (job,) = project.path.glob("jobs/*")
    assert not (job / ".running").exists()


@pytest.mark.long
def test_a_debugger_has_the_terminal_to_itself(terminal, project):
    project.conftest(WAITS.replace("    status.end()", "    breakpoint()\n    status.end()"))
    screen = terminal()
    screen.read_until("slow::oracle", "2/3")
    (project.path / "go").touch()
    assert "1 running" not in screen.read_until("(Pdb)")
    screen.type("print(6 * 7, 'shown')\n")
    assert "1 running" not in screen.read_until("42 shown")
    screen.type("c\n")
    screen.read_until("slower/task.toml", "set_trace (IO-capturing turned off)")
    screen.type("c\n")
    assert screen.wait() == 0, screen.text
    assert "1 running" not in screen.text
