"""Multi-step tasks: order, fall-backs, gates, and what each step leaves to the next."""

import json

import pytest

pytestmark = pytest.mark.docker

TOML = '=version = "1.0"\n'


@pytest.fixture
def make_steps(make_task):
    """Write a multi-step task: name of a step to its files."""

    def make(steps, *, name="hello", root="", extra=None, **changed):
        tables = "".join(
            f'[[steps]]\nname = "{step}"\n{table}' for step, (table, _) in steps.items()
        )
        folder = make_task(
            name, toml=f"{TOML}{root}{tables}", remove=("instruction.md",), **changed
        )
        for step, (_, files) in steps.items():
            make_task.write(folder, f"steps/{step}/instruction.md", f"Do {step}.\n")
            for path, content in files.items():
                make_task.write(folder, f"steps/{step}/{path}", content)
        for path, content in (extra or {}).items():
            make_task.write(folder, path, content)
        return folder

    return make


def reward(value):
    return f"#!/bin/bash\necho {value} > /logs/verifier/reward.txt\n"


def test_steps_run_in_their_order_in_one_container(make_steps, run_tasks):
    check = (
        '#!/bin/bash\n[ "$(cat /app/log)" = "{}" ]; echo $((1 - $?)) > /logs/verifier/reward.txt'
    )
    make_steps(
        {
            "second-by-name": (
                "",
                {
                    "solution/solve.sh": "echo -n a >> /app/log",
                    "tests/test.sh": check.format("a"),
                },
            ),
            "first-by-name": (
                "",
                {
                    "solution/solve.sh": "echo -n b >> /app/log",
                    "tests/test.sh": check.format("ab"),
                },
            ),
        }
    )
    ran = run_tasks("tasks", "-rA")
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert [step["step_name"] for step in result["step_results"]] == [
        "second-by-name",
        "first-by-name",
    ]
    assert result["verifier_result"] == {"rewards": {"reward": 1.0}}
    assert result["agent_execution"] is None
    for step in ("second-by-name", "first-by-name"):
        assert (ran.folder() / "steps" / step / "agent" / "oracle.txt").exists()
        assert (ran.folder() / "steps" / step / "verifier" / "reward.txt").exists()


def test_steps_are_subtests_in_the_terminal_and_in_junit(make_steps, run_tasks, pytester):
    make_steps(
        {"good": ("", {"tests/test.sh": reward(1)}), "bad": ("", {"tests/test.sh": reward(0.5)})}
    )
    ran = run_tasks("tasks", "--junitxml=junit.xml")
    ran.run.stdout.fnmatch_lines(
        [
            "SUBFAILED?bad? tasks/hello/task.toml::oracle - Failed: step bad: reward 0.5 is below*",
            "FAILED tasks/hello/task.toml::oracle - Failed: reward 0.75 is below the threshold 1"
            " (step bad failed first)",
        ]
    )
    assert "SUBFAILED[good]" not in ran.text
    junit = (pytester.path / "junit.xml").read_text()
    assert "step bad: reward 0.5 is below the threshold" in junit
    assert '<property name="step.bad.reward.reward" value="0.5"' in junit


def test_a_low_step_does_not_fail_a_trial_that_passes(make_steps, run_tasks):
    make_steps(
        {"low": ("", {"tests/test.sh": reward(0)}), "last": ("", {"tests/test.sh": reward(1)})},
        root='multi_step_reward_strategy = "final"\n',
    )
    run_tasks("tasks").run.assert_outcomes(passed=1)


def test_unmet_gate_ends_the_trial_and_missing_steps_count_as_zero(make_steps, run_tasks):
    make_steps(
        {
            "one": ("min_reward = 1.0\n", {"tests/test.sh": reward(1)}),
            "two": ("min_reward = {reward = 0.8}\n", {"tests/test.sh": reward(0.5)}),
            "three": ("", {"tests/test.sh": reward(1)}),
        }
    )
    ran = run_tasks("tasks")
    result = ran.one()
    assert [step["step_name"] for step in result["step_results"]] == ["one", "two"]
    assert result["verifier_result"]["rewards"] == {"reward": 0.5}
    assert result["pytest_harbor"]["harbor_rewards"] == {"reward": 0.75}
    ran.run.stdout.fnmatch_lines(["*gate not met*0.8*", "*1 of 3 steps have no reward*"])


def test_step_whose_verifier_crashed_counts_as_zero_and_ends_the_trial(make_steps, run_tasks):
    make_steps(
        {
            "one": ("", {"tests/test.sh": reward(1)}),
            "two": ("", {"tests/test.sh": "#!/bin/bash\nexit 4\n"}),
            "three": ("", {"tests/test.sh": reward(1)}),
        }
    )
    result = run_tasks("tasks").one()
    assert len(result["step_results"]) == 2
    assert result["verifier_result"]["rewards"]["reward"] == pytest.approx(1 / 3)
    assert result["pytest_harbor"]["category"] == "reward"
    kind = result["step_results"][1]["exception_info"]["exception_type"]
    assert kind == "RewardFileNotFoundError"
    assert result["exception_info"] is None


def test_root_tests_are_shared_and_fall_back(make_steps, run_tasks):
    make_steps(
        {
            "own": ("", {"tests/test.sh": "#!/bin/bash\n. /tests/helpers.sh\ngive own"}),
            "none": ("", {}),
        },
        extra={"tests/helpers.sh": 'give() { echo "{\\"$1\\": 1}" > /logs/verifier/reward.json; }'},
        test="#!/bin/bash\n. /tests/helpers.sh\ngive root\n",
    )
    result = run_tasks("tasks").one()
    rewards = [step["verifier_result"]["rewards"] for step in result["step_results"]]
    assert rewards == [{"own": 1}, {"root": 1}]


def test_root_solution_is_the_fall_back(make_steps, run_tasks):
    make_steps(
        {
            "own": ("", {"solution/solve.sh": "echo own > /app/who", "tests/test.sh": reward(1)}),
            "none": (
                "",
                {"tests/test.sh": "cat /app/who; echo 1 > /logs/verifier/reward.txt"},
            ),
        },
        solve="#!/bin/bash\necho root > /app/who\n",
    )
    ran = run_tasks("tasks", "-W", "ignore")
    ran.run.assert_outcomes(passed=1)
    output = ran.folder() / "steps" / "none" / "verifier" / "test-stdout.txt"
    assert output.read_text() == "root\n"


def test_next_agent_sees_neither_tests_nor_logs_of_the_last_step(make_steps, run_tasks):
    make_steps(
        {"one": ("", {"tests/secret.txt": "x", "tests/test.sh": reward(1)}), "two": ("", {})},
        test="#!/bin/bash\ncat /app/seen; [ ! -s /app/seen ]\n"
        "echo $((1 - $?)) > /logs/verifier/reward.txt\n",
    )
    command = "ls -A /tests /logs/verifier /logs/agent 2>/dev/null | grep -v : | grep . > /app/seen"
    ran = run_tasks("tasks", f"--harbor-agent-command={command}; echo > /logs/agent/x; true")
    ran.run.assert_outcomes(passed=1)


def test_workdir_set_up_users_limits_and_variables(make_steps, run_tasks):
    make_steps(
        {
            "one": (
                "[steps.agent]\nuser = 'a'\n[steps.verifier]\nuser = 'b'\nenv = {V = 'step'}\n",
                {
                    "workdir/data.txt": "brought\n",
                    "workdir/setup.sh": "echo $(whoami) $(pwd) $(cat data.txt) > /tmp/setup",
                    "solution/solve.sh": "#!/bin/bash\necho $(whoami) >> /tmp/setup2",
                    "tests/test.sh": "#!/bin/bash\ncat /tmp/setup /tmp/setup2; echo $(whoami) $V $W"
                    "\necho 1 > /logs/verifier/reward.txt",
                },
            ),
            "two": (
                "[steps.agent]\ntimeout_sec = 1\n",
                {"solution/solve.sh": "#!/bin/bash\nsleep 60", "tests/test.sh": reward(1)},
            ),
        },
        root="[verifier]\nenv = {V = 'task', W = 'w'}\n[environment]\nworkdir = '/work'\n",
        dockerfile="FROM debian:bookworm-slim\nRUN useradd a && useradd b && mkdir -m 777 /work\n",
    )
    ran = run_tasks("tasks", "-W", "ignore")
    ran.run.assert_outcomes(passed=1)
    output = ran.folder() / "steps" / "one" / "verifier" / "test-stdout.txt"
    assert output.read_text().splitlines() == ["a /work brought", "a", "b step w"]
    info = ran.one()["step_results"][1]["exception_info"]
    assert info["exception_type"] == "AgentTimeoutError"


@pytest.mark.parametrize(
    ("table", "files", "told"),
    [
        ("", {"workdir/setup.sh": "echo cannot mount; exit 6"}, ["exit status 6", "cannot mount"]),
        (
            "[steps.healthcheck]\ncommand = 'exit 5'\nretries = 1\n",
            {},
            ["steps.healthcheck", "exit status 5"],
        ),
    ],
)
def test_step_that_cannot_begin_ends_the_trial(make_steps, run_tasks, table, files, told):
    make_steps(
        {
            "one": ("", {"tests/test.sh": reward(1)}),
            "two": (table, {**files, "tests/test.sh": reward(1)}),
            "three": ("", {"tests/test.sh": reward(1)}),
        }
    )
    ran = run_tasks("tasks")
    for part in told:
        assert part in ran.text
    result = ran.one()
    assert [step["step_name"] for step in result["step_results"]] == ["one", "two"]
    assert result["verifier_result"]["rewards"]["reward"] == pytest.approx(1 / 3)
    assert result["step_results"][1]["agent_execution"] is None


@pytest.mark.long
def test_many_steps(make_steps, run_tasks):
    make_steps({f"s{number}": ("", {"tests/test.sh": reward(1)}) for number in range(12)})
    ran = run_tasks("tasks", "--harbor-agent=nop")
    ran.run.assert_outcomes(passed=1)
    assert len(ran.one()["step_results"]) == 12


def test_artifacts_of_each_step(make_steps, run_tasks):
    make_steps(
        {
            name: (
                f"artifacts = ['/app/{name}.txt']\n",
                {
                    "solution/solve.sh": f"#!/bin/bash\necho {name} > /app/{name}.txt",
                    "tests/test.sh": reward(1),
                },
            )
            for name in ("one", "two")
        }
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    for name in ("one", "two"):
        home = ran.folder() / "steps" / name / "artifacts"
        assert (home / "app" / f"{name}.txt").read_text() == f"{name}\n"
        (row,) = json.loads((home / "manifest.json").read_text())
        assert row["status"] == "ok"
