"""The command that runs an item again works as it is printed, and shows no secret."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.plugin.rerun import again, go_on, unset_variables

Given = Callable[..., pytest.Item]
PROGRAMS = os.path.dirname(sys.executable)


@pytest.fixture(autouse=True)
def _started_by_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([PROGRAMS, os.environ["PATH"]]))
    monkeypatch.setattr(sys, "argv", ["pytest"])


@pytest.fixture
def item(make_task: Any, pytester: pytest.Pytester) -> Given:
    """The trial of a task, as a command line gives it."""

    def collect(*args: str, tasks: str = "tasks") -> pytest.Item:
        if not (make_task.root / "hello").exists():
            make_task()
        items, _ = pytester.inline_genitems("-p", "no:cacheprovider", "-q", tasks, *args)
        return items[0]

    return collect


def words_again(item: pytest.Item) -> list[str]:
    command = again(item)
    assert command == shlex.join(shlex.split(command))
    return shlex.split(command)


@pytest.mark.parametrize(
    "args", [["--harbor-agent=nop"], ["--harbor-agent", "nop"], ["-x", "--harbor-agent", "nop"]]
)
def test_options_are_kept_however_they_were_written(item: Given, args: list[str]) -> None:
    assert words_again(item(*args)) == [
        "pytest",
        "tasks/hello/task.toml::nop",
        "--harbor-agent=nop",
    ]


def test_values_keep_their_spaces_and_quotes(item: Given) -> None:
    command = """sh -c 'echo "it'"'"'s $HOME"' -- {instruction}"""
    assert words_again(item("--harbor-agent-command", command, "--harbor-keep")) == [
        "pytest",
        "tasks/hello/task.toml::command",
        f"--harbor-agent-command={command}",
        "--harbor-keep=failed",
    ]


def test_everything_that_shapes_the_trial_is_kept(item: Given, pytester: pytest.Pytester) -> None:
    ini = pytester.path / "other.toml"
    ini.write_text("[tool.pytest.ini_options]\n")
    args = [
        f"--config-file={ini}",
        f"--rootdir={pytester.path}",
        "--override-ini=harbor_threshold=0.5",
        "--harbor-agent=nop",
        "--harbor-agent=oracle",
        "--harbor-attempts=3",
        "--harbor-agent-timeout-multiplier=2.5",
        "--harbor-rebuild",
        "--harbor-strict",
    ]
    assert words_again(item("--override-ini=addopts=", "-vv", *args))[2:] == args


def test_keywords_are_secret_wherever_they_stand(item: Given) -> None:
    given = item(
        "--override-ini=harbor_agent_kwarg=api_key=s3cr3t-1 turns=3",
        "--override-ini=harbor_verifier_kwarg=api_key=s3cr3t-2",
        '--harbor-agent-kwarg=config={"api_key": "s3cr3t-3"}',
        "--harbor-agent-kwarg=api_key_env=JUDGE_KEY",
    )
    command = again(given)
    assert "s3cr3t" not in command
    assert '--harbor-agent-kwarg=config="$CONFIG"' in command
    assert "turns" not in command  # what an option was given for replaces the ini file's
    assert "$API_KEY" not in command
    assert '--harbor-verifier-kwarg=api_key="$VERIFIER_API_KEY"' in command
    assert "--harbor-agent-kwarg=api_key_env=JUDGE_KEY" in command
    assert unset_variables(given) == ["CONFIG", "VERIFIER_API_KEY"]


def test_secrets_of_ini_values_are_to_be_set_again(item: Given) -> None:
    given = item(
        "--override-ini=harbor_agent_kwarg=api_key=s3cr3t-0 turns=2",
        "--override-ini=harbor_agent_kwarg=api_token=s3cr3t-1 turns=3",
        "--override-ini=harbor_verifier_kwarg=api_key=s3cr3t-2",
        "--override-ini=harbor_agent_env='A_KEY=s3cr3t 3' B_KEY=${C_KEY:-s3cr3t}",
        "--override-ini=harbor_agent_env =D_KEY=s3cr3t-4",  # pytest knows no name with a space
    )
    command = again(given)
    assert "s3cr3t" not in command
    assert '--harbor-agent-kwarg=api_token="$API_TOKEN" --harbor-agent-kwarg=turns=3' in command
    assert "'--override-ini=harbor_agent_env=A_KEY B_KEY'" in command
    assert "api_key" not in command.replace("--harbor-verifier-kwarg=api_key", "")
    assert "turns=2" not in command  # pytest takes the last
    assert unset_variables(given) == ["A_KEY", "B_KEY", "API_TOKEN", "VERIFIER_API_KEY"]


def test_what_is_of_the_whole_run_is_left_out(item: Given) -> None:
    args = ["--harbor-tasks=h*", "--harbor-html=r.html", "--harbor-csv=t.csv", "--harbor-keep"]
    assert words_again(item(*args))[2:] == ["--harbor-keep=failed"]


def test_secrets_are_named_and_not_shown(item: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_KEY", "s3cr3t-1")
    given = item(
        "--harbor-agent=nop",
        "--harbor-agent-env=A_KEY=s3cr3t-2",
        "--harbor-agent-env",
        "HOST_KEY",
        "--harbor-agent-env=B_KEY=${HOST_KEY}",
        "--harbor-agent-env=C_KEY=${UNSET:-s3cr3t-3}",
        "--harbor-agent-kwarg=api_key=s3cr3t-4",
        "--harbor-agent-kwarg=max_tokens=5",
        "--override-ini=harbor_agent_env='D_KEY=s3cr3t 5' E_KEY",
    )
    command = again(given)
    assert "s3cr3t" not in command
    assert 'api_key="$API_KEY"' in command
    assert unset_variables(given) == ["A_KEY", "C_KEY", "API_KEY"]
    words = shlex.split(command)
    assert words[2:] == [
        "--harbor-agent=nop",
        "--harbor-agent-kwarg=api_key=$API_KEY",
        "--harbor-agent-kwarg=max_tokens=5",
        "--harbor-agent-env=A_KEY",
        "--harbor-agent-env=HOST_KEY",
        "--harbor-agent-env=B_KEY=${HOST_KEY}",
        "--harbor-agent-env=C_KEY",
    ]


def test_from_a_folder_below_the_id_leads_back(
    item: Given, make_task: Any, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_task("my task")
    pytester.makeini("[pytest]\n")
    below = pytester.mkdir("below")
    monkeypatch.chdir(below)
    assert words_again(item(tasks="../tasks/my task")) == [
        "pytest",
        "../tasks/my task/task.toml::oracle",
    ]


# --- as it stands, in a shell

CONFTEST = """
import json, os, pathlib, pytest
from pytest_harbor.plugin import engine
from pytest_harbor.plugin.options import settings
from pytest_harbor.plugin.rerun import again
from pytest_harbor.plugin.resume import shaping_options

engine.require = lambda *_: None

@pytest.fixture
def harbor_trial(request):
    wanted = settings(request.config)
    seen = [str(request.node.nodeid), shaping_options(wanted), dict(wanted.agent_env)]
    seen.append(str(request.config.inipath))
    with open(os.environ["SEEN"], "a") as file:
        file.write(json.dumps([seen, again(request.node)]) + "\\n")
    pytest.skip("far enough")
"""


class Shell:
    """Runs commands as people paste them, and tells what the trials saw."""

    def __init__(self, root: Path) -> None:
        self.seen = root / "seen.jsonl"
        (root / "conftest.py").write_text(CONFTEST.replace("\\\\n", "\\n"))

    def __call__(self, command: str, folder: Path) -> list[Any]:
        self.seen.unlink(missing_ok=True)
        environ = {**os.environ, "SEEN": str(self.seen)}
        done = subprocess.run(
            ["sh", "-c", command], cwd=folder, env=environ, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in self.seen.read_text().splitlines()]


def test_it_runs_one_trial_in_the_same_way(
    make_task: Any, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_KEY", "s3cr3t-1")
    monkeypatch.setenv("API_KEY", "s3cr3t-2")
    shell = Shell(pytester.path)
    task = make_task('it\'s my "task"')
    (task / "pytest.ini").write_text("[pytest]\naddopts = --harbor-threshold=0.25\n")
    make_task("other")
    ini = pytester.mkdir("ini files") / "own.ini"
    ini.write_text("[pytest]\nharbor_reward_key = style\n")
    below = pytester.mkdir("below")
    args = [
        "../tasks", "-q", "-pno:cacheprovider", "-c", "../ini files/own.ini", "--rootdir=..",
        "--confcutdir=..",
        "--harbor-agent-command=sh -c 'echo \"$HOME\"' {instruction}",
        "--harbor-model=a/b:c d", "--harbor-attempts=2", "--harbor-allow-host=*.example",
        "--harbor-agent-kwarg=api_key=s3cr3t-2", "--harbor-agent-env=HOST_KEY",
        "--harbor-tasks=it*", "--harbor-tasks=other", "--harbor-threshold=0.5",
    ]  # fmt: skip
    before = shell(shlex.join(["pytest", *args]), below)
    assert len(before) == 4
    (seen, command) = next(one for one in before if "my" in one[0][0] and "-2]" in one[0][0])
    assert "s3cr3t" not in command
    assert shell(command, below) == [[seen, command]]


@pytest.mark.parametrize("has_ini", [True, False])
def test_a_configuration_in_the_task_is_outranked(
    item: Given, make_task: Any, pytester: pytest.Pytester, has_ini: bool
) -> None:
    (make_task() / "pytest.ini").write_text("[pytest]\n")
    if has_ini:
        pytester.makeini("[pytest]\n")
    words = ["--config-file=tox.ini"]
    without = [f"--config-file={os.devnull}", "--confcutdir=.", "--rootdir=."]
    assert words_again(item())[2:] == (words if has_ini else without)


@pytest.mark.long
@pytest.mark.parametrize("has_ini", [True, False])
def test_a_configuration_in_the_task_does_not_mislead_it(
    make_task: Any, pytester: pytest.Pytester, has_ini: bool
) -> None:
    shell = Shell(pytester.path)
    task = make_task()
    (task / "pytest.ini").write_text("[pytest]\n")
    if has_ini:
        pytester.makeini("[pytest]\n")
    ((seen, command),) = shell("pytest -q tasks", pytester.path)
    ((again_seen, _),) = shell(command, pytester.path)
    assert again_seen[0] == seen[0]
    assert again_seen[1] == seen[1]


@pytest.mark.parametrize(
    ("argv0", "on_path", "words"),
    [
        ("/somewhere/bin/pytest", True, ["pytest"]),
        ("/somewhere/bin/pytest", False, [sys.executable, "-m", "pytest"]),
        ("/lib/pytest/__main__.py", True, ["python", "-m", "pytest"]),
        ("/lib/pytest/__main__.py", False, [sys.executable, "-m", "pytest"]),
        ("my_script.py", True, ["python", "-m", "pytest"]),
    ],
)
def test_it_is_the_program_that_ran(
    item: Given, monkeypatch: pytest.MonkeyPatch, argv0: str, on_path: bool, words: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [argv0])
    if not on_path:
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert shlex.split(again(item()))[: len(words)] == words


def test_a_run_that_ended_early_is_gone_on_with_as_it_was_given(
    pytester: pytest.Pytester,
) -> None:
    given = ["tasks", "-k", "a or b", "--harbor-attempts=2", "--harbor-resume", "-v"]
    config = pytester.parseconfig(*given)
    words = shlex.split(go_on(config, pytester.path / "jobs/j"))
    assert words[:7] == ["pytest", "--harbor-resume=jobs/j", *given[:4], "-v"]
    config = pytester.parseconfig("--harbor-resume", "old", "tasks")
    assert shlex.split(go_on(config, pytester.path / "j"))[:3] == [
        "pytest", "--harbor-resume=j", "tasks"
    ]  # fmt: skip


def test_secrets_of_a_run_that_ended_early_are_named(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig(
        "--harbor-agent-env=A_KEY=s3cr3t-1",
        "--harbor-agent-kwarg",
        "api_key=s3cr3t-2",
        "--harbor-best-of-kwarg=api_key=s3cr3t-3",
        "-oharbor_verifier_kwarg=api_key=s3cr3t-4",
        "-o",
        "harbor_agent_env=B_KEY=s3cr3t-5",
        "--override-ini=harbor_agent_env =D_KEY=s3cr3t-6",
        "-oxfail_strict=true",
        "-vo",
        "harbor_agent_env=E_KEY=s3cr3t-7",
        "-qoharbor_agent_env=F_KEY=s3cr3t-8",
    )
    assert go_on(config, pytester.path / "j").partition(" --basetemp")[0].split(" ", 2)[2] == (
        '--harbor-agent-env=A_KEY --harbor-agent-kwarg=api_key="$API_KEY"'
        ' --harbor-best-of-kwarg=api_key="$API_KEY"'
        ' --harbor-verifier-kwarg=api_key="$VERIFIER_API_KEY"'
        " --override-ini=harbor_agent_env=B_KEY '--override-ini=harbor_agent_env =D_KEY'"
        " -oxfail_strict=true"
        " -v --override-ini=harbor_agent_env=E_KEY -q --override-ini=harbor_agent_env=F_KEY"
    )


@pytest.mark.docker
def test_the_summary_of_an_interrupted_run_has_the_command_that_goes_on(
    pytester: pytest.Pytester, make_task: Any, engine: Any
) -> None:
    make_task("hello")
    stop = "def pytest_runtest_teardown(item):\n    raise KeyboardInterrupt\n"
    conftest = pytester.makeconftest(stop)
    run = pytester.runpytest_subprocess("tasks", "--harbor-attempts=2", "-p", "no:cacheprovider")
    assert run.ret == pytest.ExitCode.INTERRUPTED
    (line,) = (one for one in run.outlines if one.startswith("the rest: "))
    conftest.unlink()
    command = line.removeprefix("the rest: ")
    again = subprocess.run(command, shell=True, cwd=pytester.path, capture_output=True, text=True)
    assert again.returncode == 0, again.stdout
    assert "2 passed" in again.stdout
    assert "the rest: " not in again.stdout
