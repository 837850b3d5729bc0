"""Values that must not be seen are seen nowhere (case 35)."""

import json
import re
import subprocess
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from pytest_harbor.environment.docker import remove_run
from tests.model_server import ModelServer, Turn

pytestmark = pytest.mark.docker

SECRET = "s3cr3t-value"


def test_secret_is_in_nothing_that_a_run_writes(make_task, run_tasks, pytester, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", SECRET)
    make_task(
        toml="[verifier.env]\nGRADER_TOKEN = '${MY_TOKEN}'\n",
        test="""\
        #!/bin/bash
        echo "verifier saw $GRADER_TOKEN"; echo "$GRADER_TOKEN" > /logs/verifier/kept.txt
        cp /app/seen /logs/verifier/; echo "$GRADER_TOKEN" >&2
        echo 0 > /logs/verifier/reward.txt
        """,
    )
    ran = run_tasks(
        "tasks",
        "-rA",
        "--harbor-agent-env=MY_TOKEN",
        '--harbor-agent-command=echo "agent saw $MY_TOKEN" | tee /app/seen /logs/agent/own.txt',
        "--junitxml=junit.xml",
        "--report-log=report.json",
        subprocess=True,
    )
    ran.run.assert_outcomes(failed=1)
    assert "agent saw [REDACTED]" in ran.text
    assert "verifier saw [REDACTED]" in ran.text
    assert SECRET not in ran.text + ran.run.stderr.str()
    written = [path for path in pytester.path.rglob("*") if path.is_file()]
    assert {"kept.txt", "own.txt", "junit.xml", "report.json"} <= {path.name for path in written}
    for path in written:
        assert SECRET.encode() not in path.read_bytes(), path


def test_values_of_plain_names_are_left_alone(make_task, run_tasks):
    make_task()
    ran = run_tasks(
        "tasks", "--harbor-agent-env=LEVEL=1", "--harbor-agent-command=echo level $LEVEL 1"
    )
    assert (ran.folder() / "agent" / "command.txt").read_text() == "level 1 1\n"


# -- everything at once -------------------------------------------------------------

KEYS = {
    "MY_TOKEN": "tok-5f1d0c7e9a3b",
    "QUOTED": "pa\"ss'word\\with <odd> & bytes é",
    "KEY_FILE": "first-line-of-it\nsecond-line-of-it",
    "OPENAI_API_KEY": "sk-proj-77d1c0ffee4242",
}
AGENTS = """\
import logging
import sys
import warnings
from base64 import b64encode
from urllib.parse import quote

from pytest_harbor import Agent

IN_PARTS = 'printf %s "${MY_TOKEN:0:5}"; sleep 0.1; echo "${MY_TOKEN:5}"; '
ENCODED = 'printf u:%s "$TOKEN" | base64 -w0'


class Leaky(Agent):
    name = "leaky"
    model_wires = ("openai",)

    def run(self, instruction, environment, context):
        values = dict(context.env)
        for name, value in values.items():
            print("out", name, value)
            print("err", name, value, file=sys.stderr)
            logging.getLogger("leaky").warning("log %s %s", name, value)
        token = context.model.key
        print("token", token, quote(values["QUOTED"]), b64encode(f"me:{values['QUOTED']}".encode()))
        warnings.warn(f"odd {values} and {token}")
        environment.exec("env; sleep 2", env={**values, "TOKEN": token})
        with context.open_log("leaky.txt") as log:
            env = {**values, "TOKEN": token}
            environment.exec(f"env; env >&2; {IN_PARTS}{ENCODED}", env=env, output=log)
        context.trajectory.user(" ".join([*values.values(), token]))
        raise RuntimeError(f"could not log in with {values} and {token}")


class Unready(Leaky):
    name = "unready"

    def setup(self, environment, context):
        key = context.env["MY_TOKEN"]
        raise ValueError(f"no such account: {key}")
"""
CONFTEST = """\
import pytest


@pytest.hookimpl
def pytest_harbor_before_phase(item, phase, environment):
    if phase == "verifier" and "broken" in item.nodeid:
        raise RuntimeError("a broken conftest.py")


@pytest.hookimpl
def pytest_harbor_trial_result(item, result):
    print("told", result)
"""


LOOKED_AT: set[str] = set()


@contextmanager
def watched(found: dict[str, set[str]]) -> Iterator[None]:
    """Look at processes and containers again and again; keep whatever holds a value."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            for place, text in [*processes(), *containers()]:
                for name, value in KEYS.items():
                    if value in text or json.dumps(value)[1:-1] in text:
                        found.setdefault(name, set()).add(place)
            for command in keys_in_containers():
                found.setdefault("environ", set()).add(command)
            found.setdefault("looked", set()).add("once")

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def processes() -> Iterator[tuple[str, str]]:
    """Command lines on this machine, those in containers too."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        yield text, text


def keys_in_containers() -> Iterator[str]:
    """Processes of containers that have the provider's key in their environment."""
    own, key = Path("/proc/self/ns/pid").readlink(), KEYS["OPENAI_API_KEY"].encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_inside = (folder / "ns/pid").readlink() != own
            if is_inside and key in (folder / "environ").read_bytes():
                yield (folder / "cmdline").read_text()
        except OSError:
            continue


def containers() -> Iterator[tuple[str, str]]:
    names = subprocess.run(["docker", "ps", "-q"], capture_output=True, check=True).stdout.split()
    seen = subprocess.run(["docker", "inspect", *names], capture_output=True, check=False).stdout
    yield "docker inspect", seen.decode(errors="replace")
    images = {one["Image"] for one in json.loads(seen or b"[]")}
    told = [
        subprocess.run(
            ["docker", "history", "--no-trunc", image], capture_output=True, check=False
        ).stdout
        for image in images - LOOKED_AT
    ]
    LOOKED_AT.update(images)
    yield "docker history", b"".join(told).decode(errors="replace")


def test_no_failure_shows_or_writes_a_value(
    make_task, run_tasks, pytester, monkeypatch, engine
) -> None:
    pytester.makepyfile(leaks=AGENTS)
    pytester.makeconftest(CONFTEST)
    for name in ("fine", "broken"):
        make_task(name, test="#!/bin/bash\nenv\necho 0 > /logs/verifier/reward.txt\n")
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    given = [f"--harbor-agent-env={name}" for name in KEYS]
    reports = ["--junitxml=junit.xml", "-o", "junit_logging=all", "--report-log=report.json"]
    reports += ["--harbor-html=job.html", "--harbor-csv=job.csv", "--harbor-jsonl=job.jsonl"]
    reports += ["--harbor-annotations=github", "--harbor-summary=job.md"]
    reports += ["--log-file=log.txt", "--log-file-level=INFO", "--harbor-keep=failed"]
    shown = ["-vv", "-rA", "--showlocals", "--tb=long", "--log-level=INFO", "-n2"]
    found: dict[str, set[str]] = {}
    with ModelServer(default=Turn(status=401)) as model, watched(found):
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{model.port}/v1")
        ran = run_tasks(
            "tasks",
            "--harbor-agent=leaks:Leaky",
            "--harbor-agent=leaks:Unready",
            "--harbor-model=openai/m",
            *given,
            *reports,
            *shown,
            subprocess=True,
        )
    assert "could not log in with" in ran.text
    assert "no such account: [REDACTED]" in ran.text
    assert "a broken conftest.py" in ran.text
    assert "odd {" in ran.text
    assert "::error" in ran.text
    run_id = ran.folders["fine"][0].parent.name.rpartition("__")[2]
    remove_run(engine, run_id, kept=True)
    assert found.pop("looked")
    assert not found
    written = {str(path): path.read_bytes() for path in pytester.path.rglob("*") if path.is_file()}
    written["terminal"] = ran.text.encode() + ran.run.stderr.str().encode()
    assert b"[REDACTED]" in written[str(pytester.path / "log.txt")]
    names = {Path(name).name for name in written}
    assert {"job.html", "job.csv", "job.jsonl", "job.md", "log.txt", "leaky.txt"} <= names
    for name, data in written.items():
        for value in KEYS.values():
            for form in forms_of(value):
                assert form.encode() not in data, (name, form)
        assert not re.search(rb"pytest-harbor-[0-9a-f]{48}", data), name


@pytest.mark.long
def test_what_an_agent_prints_uncaptured_shows_no_value(
    make_task, run_tasks, pytester, monkeypatch
) -> None:
    pytester.makepyfile(leaks=AGENTS)
    make_task()
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    given = [f"--harbor-agent-env={name}" for name in KEYS]
    with ModelServer(default=Turn(status=401)) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{model.port}/v1")
        agent = ("--harbor-agent=leaks:Leaky", "--harbor-model=openai/m")
        ran = run_tasks("tasks", "-s", *agent, *given, subprocess=True)
    shown = ran.text + ran.run.stderr.str()
    assert "out MY_TOKEN [REDACTED]" in shown
    assert "err MY_TOKEN [REDACTED]" in shown
    assert "token [REDACTED]" in shown
    assert not [form for value in KEYS.values() for form in forms_of(value) if form in shown]


def forms_of(value: str) -> set[str]:
    """The value as files may hold it."""
    data = value.encode()
    middles = {b64encode(b"x" * before + data).decode()[4:-4] for before in range(3)}
    encoded = {quote(value), *middles}
    return {value, json.dumps(value)[1:-1], repr(value)[1:-1], *value.split("\n"), *encoded}
