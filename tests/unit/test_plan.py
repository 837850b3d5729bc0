"""What is settled before anything is built: secrets, networks, what is refused."""

from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.agent.base import Agent
from pytest_harbor.agent.command import CommandAgent
from pytest_harbor.agent.reference import NopAgent, OracleAgent
from pytest_harbor.errors import MissingVariableError, UnsupportedError
from pytest_harbor.task.network import Endpoint, NetworkPolicy
from pytest_harbor.task.reader import read_task
from pytest_harbor.trial.limits import Multipliers
from pytest_harbor.trial.network_plan import task_network
from pytest_harbor.trial.plan import RunOptions, TrialPlan, plan_trial
from pytest_harbor.trial.record import TrialRecord

PUBLIC = NetworkPolicy()
CLOSED = NetworkPolicy("no-network")
LISTED = NetworkPolicy("allowlist", ("example.com",))


@pytest.fixture
def plan(make_task: Any, tmp_path: Path) -> Any:
    """Plan a trial of a task."""

    def planned(
        agent: Agent | None = None, options: dict[str, Any] | None = None, **task: Any
    ) -> TrialPlan:
        read = read_task(make_task(**task))
        return plan_trial(
            read,
            agent or NopAgent(),
            task_network(read),
            RunOptions(run_id="run", job_dir=tmp_path / "job", **(options or {})),
            agent_name="nop",
        )

    return planned


# --- secrets


@pytest.mark.parametrize("table", ["environment", "verifier", "solution"])
@pytest.mark.parametrize(
    ("line", "value", "hidden"),
    [
        ("API_KEY = '${HOST_VALUE}'", "k3y!", True),
        ("PLAIN = '${MY_TOKEN}'", "t0ken", True),
        ("API_KEY = '${UNSET:-written-key}'", "written-key", True),
        ("API_KEY = 'written-key'", "written-key", True),
        ("PLAIN = '${HOST_VALUE}'", "k3y!", False),
        ("PLAIN = 'written-key'", "written-key", False),
        ("AUTH_MODE = 'basic'", "basic", False),
        ("AUTH_MODE = '${UNSET:-basic}'", "basic", False),
        ("AUTH_ENABLED = 'true'", "true", False),
        ("MAX_TOKENS = '${HOST_VALUE}'", "k3y!", False),
    ],
)
def test_secrets_of_a_task_are_told_by_their_names(
    plan: Any, monkeypatch: pytest.MonkeyPatch, table: str, line: str, value: str, hidden: bool
) -> None:
    monkeypatch.setenv("HOST_VALUE", "k3y!")
    monkeypatch.setenv("MY_TOKEN", "t0ken")
    redactor = plan(toml=f"[{table}.env]\n{line}\n").redactor
    assert redactor.text(f"<{value}>") == ("<[REDACTED]>" if hidden else f"<{value}>")


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("A", "0123456", False),
        ("A", "01234567", True),
        ("A_KEY", "0123", True),
        ("A_KEY", "012", False),
    ],
)
def test_what_a_run_hands_to_its_agents_is_hidden_where_it_may_be_a_key(
    plan: Any, name: str, value: str, hidden: bool
) -> None:
    redactor = plan(options={"agent_env": {name: value}}).redactor
    assert (redactor.text(value) != value) is hidden


def test_what_the_run_names_as_secret_is_hidden(plan: Any) -> None:
    settled = plan(options={"secrets": ("s3cr3t",)})
    assert settled.redactor.text("a s3cr3t") == "a [REDACTED]"
    assert "s3cr3t" not in repr(settled)


def test_values_do_not_show_in_what_is_printed_or_written(
    plan: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cr3t-1")
    settled = plan(
        toml="[environment.env]\nA_KEY = '${MY_TOKEN}'\n[verifier.env]\nB_KEY = '${MY_TOKEN}'\n",
        options={"agent_env": {"C_KEY": "s3cr3t-2"}},
    )
    config = settled.config_json(TrialRecord(tmp_path / "job", "hello", settled.redactor))
    assert "s3cr3t" not in repr(settled)
    assert "s3cr3t" not in repr(config)
    assert config["agent"]["env"] == {"C_KEY": "${C_KEY}"}


@pytest.mark.parametrize(
    ("table", "agent"),
    [("environment", NopAgent()), ("verifier", NopAgent()), ("solution", OracleAgent())],
)
def test_a_missing_variable_is_named_before_anything_is_built(
    plan: Any, table: str, agent: Agent
) -> None:
    with pytest.raises(MissingVariableError, match=rf"\[{table}\.env\] needs NOT_SET_ANYWHERE"):
        plan(agent, toml=f"[{table}.env]\nA = '${{NOT_SET_ANYWHERE}}'\n")


def test_the_solutions_variables_are_the_oracles_alone(plan: Any) -> None:
    assert plan(toml="[solution.env]\nA = '${NOT_SET_ANYWHERE}'\n")


# --- factors


def test_limits_are_the_tasks_times_the_runs_factors(plan: Any) -> None:
    factors = Multipliers(every=2.0, verifier=0.5)
    settled = plan(options={"multipliers": factors})
    (work,) = settled.works
    assert settled.build_timeout_sec == 600
    assert settled.setup_timeout_sec == 720
    assert (work.agent_timeout_sec, work.verifier_timeout_sec) == (120, 30)


def test_an_infinite_limit_is_none(plan: Any) -> None:
    (work,) = plan(toml="=version = '1.0'\n[agent]\ntimeout_sec = inf\n").works
    assert work.agent_timeout_sec is None
    assert work.verifier_timeout_sec == 600


def test_resources_are_scaled_and_whole(plan: Any, tmp_path: Path) -> None:
    settled = plan(toml="cpus = 2\nmemory_mb = 101\n", options={"resource_multiplier": 1.5})
    request = settled.agent_box(TrialRecord(tmp_path / "job", "hello", settled.redactor), {})
    assert (request.cpus, request.memory_mb, request.storage_mb) == (3.0, 152, None)


# --- networks


@pytest.mark.parametrize(
    ("toml", "network"),
    [
        ("", {"environment": "public", "agent": "public", "verifier": "public"}),
        (
            "allow_internet = false\n",
            {"environment": "no-network", "agent": "no-network", "verifier": "no-network"},
        ),
        (
            "network_mode = 'allowlist'\nallowed_hosts = ['b.example', 'a.example']\n"
            "[agent]\nnetwork_mode = 'no-network'\n",
            {
                "environment": "allowlist b.example a.example",
                "agent": "no-network",
                "verifier": "allowlist b.example a.example",
            },
        ),
    ],
)
def test_a_phase_that_says_nothing_has_the_environments_policy(
    make_task: Any, toml: str, network: dict[str, str]
) -> None:
    task = read_task(make_task(toml=f"=version = '1.0'\n[environment]\n{toml}"))
    assert task_network(task).as_json() == network


def test_one_policy_may_be_laid_over_all_phases(make_task: Any) -> None:
    plan = task_network(read_task(make_task())).everywhere(CLOSED)
    assert set(plan.as_json().values()) == {"no-network"}


def test_what_the_run_allows_stands_beside_what_comes_of_it(make_task: Any) -> None:
    task = read_task(make_task(toml="=version = '1.0'\n[agent]\nnetwork_mode = 'no-network'\n"))
    asked = {"environment": "public", "agent": "no-network", "verifier": "public"}
    assert task_network(task).within(NetworkPolicy()).as_json() == asked
    assert task_network(task).within(LISTED).as_json() == {
        "environment": "allowlist example.com",
        "agent": "no-network",
        "verifier": "allowlist example.com",
        "run": "allowlist example.com",
        "asked": asked,
    }
    denied = NetworkPolicy(denied=("a.example",), endpoints=(Endpoint("b.example", 1),))
    told = {"denied": ["a.example"], "endpoints": ["b.example:1"]}
    assert task_network(task).within(denied).as_json() == {**asked, **told}


def test_a_run_that_is_restricted_by_two_places_shows_both(make_task: Any) -> None:
    parts = (("in the ini file", "no-network"), ("on the command line", "allowlist a.example"))
    run = NetworkPolicy("no-network", parts=parts)
    shown = task_network(read_task(make_task())).within(run).as_json()
    assert (shown["run"], shown["run_parts"]) == ("no-network", dict(parts))
    assert run.same_as(CLOSED)


def test_nothing_that_a_fixture_says_opens_what_the_run_closes(
    make_task: Any, tmp_path: Path
) -> None:
    task = read_task(make_task())
    settled = plan_trial(
        task,
        NopAgent(),
        task_network(task).everywhere(PUBLIC),
        RunOptions(run_id="run", job_dir=tmp_path / "job", network=CLOSED),
        agent_name="nop",
    )
    assert set(settled.network.of_agents_box()) == {CLOSED}
    request = settled.agent_box(TrialRecord(tmp_path / "job", "hello", settled.redactor), {})
    assert request.network == (CLOSED,)


def test_a_box_is_told_how_it_reaches_the_outside(plan: Any, tmp_path: Path) -> None:
    wanted = {"uplink": "out", "gateway_image": "gateway:1", "runtime": "runsc", "hardened": True}
    toml = "=version = '1.0'\n[verifier]\nenvironment_mode = 'separate'\n"
    settled = plan(options=wanted, toml=toml)
    boxes = list(settled.boxes(TrialRecord(tmp_path / "job", "hello", settled.redactor), {}))
    assert [request.role for request in boxes] == ["agent", "verifier"]
    for request in boxes:
        assert {name: getattr(request, name) for name in wanted} == wanted


# --- what is refused


@pytest.mark.parametrize(
    ("toml", "agent", "named"),
    [
        ("os = 'windows'\n", NopAgent(), "windows tasks"),
        ("tpu = { type = 'v5', topology = '2x4' }\n", NopAgent(), "tasks that need a TPU"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(
    plan: Any, make_task: Any, toml: str, agent: Agent, named: str
) -> None:
    make_task.write(make_task.root / "hello", "tests/test.bat", "")
    with pytest.raises(UnsupportedError) as caught:
        plan(agent, toml=toml)
    assert named in str(caught.value)


TOOLS = """
skills_dir = "/skills"
[[environment.mcp_servers]]
name = "a"
command = "b"
transport = "stdio"
"""


def test_tools_of_a_task_are_nothing_to_refuse_it_for(plan: Any) -> None:
    for agent in (NopAgent(), OracleAgent(), CommandAgent(command="agent")):
        assert plan(agent, toml=TOOLS)


def test_without_a_solution_the_oracle_has_nothing_to_run(plan: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"no solution/solve\.sh"):
        plan(OracleAgent(), remove=("solution",))


# --- the lock


@pytest.mark.parametrize(
    ("task", "mode"),
    [
        ({}, {"environment_mode": "shared"}),
        ({"toml": "[verifier.environment]\n"}, {"environment_mode": "separate"}),
    ],
)
def test_a_trials_lock_has_what_harbor_holds_against_another_trial(
    plan: Any, tmp_path: Path, task: dict[str, Any], mode: dict[str, str]
) -> None:
    factors = Multipliers(every=2.0, agent=2.0, verifier=0.5, build=3.0)
    settled = plan(options={"multipliers": factors, "agent_env": {"TOKEN": "s3cret"}}, **task)
    record = TrialRecord(tmp_path / "job", "t", settled.redactor)
    config = settled.config_json(record)
    digest = config["task_digest"]
    assert settled.lock_json(config) == {
        "schema_version": 2,
        "task": {
            "name": settled.task.name,
            "type": "local",
            "digest": digest,
            "path": str(settled.task.path),
        },
        "timeout_multiplier": 2.0,
        "verifier_timeout_multiplier": 0.5,
        "environment_build_timeout_multiplier": 3.0,
        "agent": {"name": "nop", "model_name": None, "env": {"TOKEN": "${TOKEN}"}},
        "environment": {"type": "docker", "force_build": False},
        "verifier": mode,
    }
    assert digest.startswith("sha256:")
    assert settled.lock_json({**config, "task_digest": ""}) == {}


def test_a_lock_has_the_tasks_own_version(plan: Any, tmp_path: Path) -> None:
    settled = plan(toml="[task]\nname = 'acme/hello'\nversion = '1.2.0'\n")
    config = settled.config_json(TrialRecord(tmp_path / "job", "t", settled.redactor))
    task = settled.lock_json(config)["task"]
    assert (task["name"], task["version"]) == ("acme/hello", "1.2.0")
