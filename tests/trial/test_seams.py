"""Fixtures that a conftest.py overrides, hooks that a plugin answers, agents of one's own."""

import pytest

pytestmark = pytest.mark.docker


def test_own_agent_by_import_path(make_task, run_tasks, pytester):
    make_task()
    pytester.makepyfile(
        own="""
        from pytest_harbor import Agent

        class Writer(Agent):
            version = "7"

            def __init__(self, *, word="no", model_name=None):
                super().__init__(model_name=model_name)
                self.word = word

            def setup(self, environment, context):
                environment.exec("mkdir -p /opt/writer")

            def run(self, instruction, environment, context):
                assert "Write the word ok" in instruction
                environment.write("/app/draft", self.word)
                assert environment.read("/app/draft") == self.word.encode()
                result = environment.exec(["cp", "/app/draft", "/app/out.txt"])
                assert result.exit_code == 0
                context.n_input_tokens = 12
        """
    )
    ran = run_tasks("tasks", "--harbor-agent=own:Writer", "--harbor-agent-kwarg=word=ok")
    ran.run.assert_outcomes(passed=1)
    assert ran.one()["agent_info"]["version"] == "7"
    assert ran.one()["agent_result"]["n_input_tokens"] == 12


def test_own_agent_that_crashes_or_loops_is_graded(make_task, run_tasks, pytester):
    make_task(toml="=version = '1.0'\n[agent]\ntimeout_sec = 2\n")
    pytester.makepyfile(
        own2="""
        import time
        from pytest_harbor import Agent

        class Crash(Agent):
            def run(self, instruction, environment, context):
                environment.exec("echo ok > /app/out.txt")
                raise ValueError("lost the thread")

        class Loop(Agent):
            def run(self, instruction, environment, context):
                environment.exec("echo ok > /app/out.txt")
                while True:
                    environment.exec("sleep 0.2")

        class Hang(Agent):
            def run(self, instruction, environment, context):
                environment.exec("echo ok > /app/out.txt")
                time.sleep(30)
        """
    )
    agents = [f"--harbor-agent=own2:{name}" for name in ("Crash", "Loop", "Hang")]
    ran = run_tasks("tasks", "-rA", *agents)
    ran.run.assert_outcomes(passed=3)
    kinds = [trial["exception_info"]["exception_type"] for trial in ran.trials["hello"]]
    assert sorted(kinds) == ["AgentCrashError", "AgentTimeoutError", "AgentTimeoutError"]
    ran.run.stdout.fnmatch_lines(["*agent crashed: ValueError: lost the thread*"])


def test_agent_that_cannot_be_set_up_is_an_error(make_task, run_tasks, pytester):
    make_task()
    pytester.makepyfile(
        own3="""
        from pytest_harbor import Agent
        from pytest_harbor.errors import AgentSetupError

        class Broken(Agent):
            def setup(self, environment, context):
                raise AgentSetupError("npm: not found")

            def run(self, instruction, environment, context):
                environment.exec("echo ok > /app/out.txt")
        """
    )
    ran = run_tasks("tasks", "--harbor-agent=own3:Broken")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(["*npm: not found*"])
    assert ran.one()["pytest_harbor"]["category"] == "agent"


def test_wrong_agents_are_named_errors(make_task, run_tasks):
    make_task()
    for name, told in {
        "orcale": "*did you mean 'oracle'*",
        "nowhere:Agent": "*cannot import nowhere*",
        "json:dumps": "*must be a subclass of pytest_harbor.Agent*",
    }.items():
        ran = run_tasks("tasks", f"--harbor-agent={name}")
        ran.run.stdout.fnmatch_lines([told])
        ran.run.assert_outcomes(errors=1)
        assert not ran.trials


def test_overridden_fixtures_take_effect(make_task, run_tasks, pytester):
    make_task(
        test="""\
        #!/bin/bash
        [ -e /prepared ] && [ "$(cat /app/out.txt)" = ok ] && [ "$(ls /sys/class/net)" = lo ]
        echo $((1 - $?)) > /logs/verifier/reward.txt
        """
    )
    pytester.makeconftest(
        """
        import pytest
        from pytest_harbor import Agent

        class Mine(Agent):
            name = "mine"
            def run(self, instruction, environment, context):
                environment.exec("echo ok > /app/out.txt")

        @pytest.fixture
        def harbor_agent():
            return Mine()

        @pytest.fixture
        def harbor_network_policy():
            return "no-network"

        @pytest.fixture
        def harbor_environment(harbor_environment):
            harbor_environment.exec("touch /prepared")
            return harbor_environment
        """
    )
    ran = run_tasks("tasks", "--harbor-agent=nop")
    ran.run.assert_outcomes(passed=1)


def test_every_hook_is_called(make_task, run_tasks, pytester):
    make_task()
    pytester.makeconftest(
        """
        seen = []

        def pytest_harbor_task_collected(config, task):
            seen.append(f"collected {task.name}")

        def pytest_harbor_check_task(config, task):
            seen.append("check")

        def pytest_harbor_agent(config, name, model, kwargs):
            seen.append(f"agent {name}")

        def pytest_harbor_make_environment(config, item, request):
            seen.append(f"environment {request.network[0].mode}")

        def pytest_harbor_make_verifier(config, task):
            seen.append("verifier")

        def pytest_harbor_before_phase(item, task, phase, environment):
            seen.append(f"before {phase}")

        def pytest_harbor_after_phase(item, task, phase, environment, error):
            seen.append(f"after {phase} {error}")

        def pytest_harbor_trial_result(item, result):
            seen.append(f"result {result.passed}")

        def pytest_harbor_summary(config, results):
            return [("what was seen", [*seen, f"{len(results)} result"])]
        """
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    ran.run.stdout.fnmatch_lines(
        [
            "*what was seen*",
            "collected hello",
            "agent oracle",
            "environment public",
            "before environment",
            "after environment None",
            "before agent_setup",
            "after agent_setup None",
            "before agent",
            "after agent None",
            "before verifier",
            "after verifier None",
            "result True",
            "1 result",
        ]
    )
    for line in ("check", "verifier"):
        assert line in ran.run.outlines


def test_tasks_run_from_ordinary_tests(make_task, run_tasks, pytester):
    make_task()
    pytester.makepyfile(
        """
        from pytest_harbor import Agent

        class Half(Agent):
            name = "half"
            def run(self, instruction, environment, context):
                environment.exec("echo no > /app/out.txt")

        def test_oracle(harbor):
            result = harbor.run("tasks/hello")
            assert result.passed
            assert result.rewards == {"reward": 1}

        def test_own_agent(harbor):
            result = harbor.run("tasks/hello", agent=Half())
            assert not result.passed
            assert result.rewards == {"reward": 0}
        """
    )
    ran = run_tasks()
    ran.run.assert_outcomes(passed=3)
    assert len(ran.trials["hello"]) == 3


def test_fixture_may_skip_a_trial(make_task, run_tasks, pytester):
    make_task()
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def harbor_environment(harbor_environment):
            pytest.skip("not on Mondays")
        """
    )
    ran = run_tasks("tasks", "-rs")
    ran.run.assert_outcomes(skipped=1)
    ran.run.stdout.fnmatch_lines(["*not counted: 1 skipped*", "SKIPPED*not on Mondays*"])
    assert ran.one()["pytest_harbor"]["category"] == "skipped"
