"""Time and memory limits, and what lives on when a phase ends (cases 16, 22 to 24, 31)."""

import pytest

pytestmark = pytest.mark.docker

SHORT_AGENT = "=version = '1.0'\n[agent]\ntimeout_sec = 2\n[verifier]\ntimeout_sec = 60\n"


def test_agent_out_of_time_is_graded(make_task, run_tasks):
    make_task(toml=SHORT_AGENT)
    ran = run_tasks(
        "tasks", "-rA", "--harbor-agent-command=echo ok > /app/out.txt; echo working; sleep 600"
    )
    ran.run.assert_outcomes(passed=1)
    ran.run.stdout.fnmatch_lines(["*agent timed out after 2 s*"])
    result = ran.one()
    assert result["exception_info"]["exception_type"] == "AgentTimeoutError"
    assert result["reward_valid"] is True
    assert "working" in (ran.folder() / "agent" / "command.txt").read_text()


def test_runaway_is_dead_before_the_verifier(make_task, run_tasks):
    make_task(
        toml=SHORT_AGENT,
        test="""\
        #!/bin/bash
        for status in /proc/[0-9]*/cmdline; do
          if tr '\\0' ' ' < "$status" 2>/dev/null | grep -q '[r]unaway'; then
            echo "alive: $status"; echo 0 > /logs/verifier/reward.txt; exit
          fi
        done
        echo 1 > /logs/verifier/reward.txt
        """,
    )
    loop = "trap '' TERM INT HUP; while :; do : runaway; done"
    ran = run_tasks(
        "tasks",
        f'--harbor-agent-command=setsid bash -c "{loop}" & bash -c "{loop}" & {loop}',
    )
    ran.run.assert_outcomes(passed=1)


def test_server_left_running_lives_on(make_task, run_tasks):
    make_task(
        test="""\
        #!/bin/bash
        if grep -q alive /app/beat && kill -0 "$(cat /app/pid)"; then r=1; else r=0; fi
        echo $r > /logs/verifier/reward.txt
        """
    )
    command = "(while :; do echo alive > /app/beat; sleep 1; done) & echo $! > /app/pid; sleep 0.3"
    ran = run_tasks("tasks", f"--harbor-agent-command={command}")
    ran.run.assert_outcomes(passed=1)


def test_agent_status_does_not_decide(make_task, run_tasks):
    make_task()
    ran = run_tasks("tasks", "-rA", "--harbor-agent-command=echo ok > /app/out.txt; exit 7")
    ran.run.assert_outcomes(passed=1)
    assert ran.one()["pytest_harbor"]["agent_exit_code"] == 7
    ran.run.stdout.fnmatch_lines(["*exit status 7*"])


def test_stale_reward_does_not_survive_a_verifier_out_of_time(make_task, run_tasks):
    make_task(
        toml="=version = '1.0'\n[verifier]\ntimeout_sec = 2\n", test="#!/bin/bash\nsleep 600\n"
    )
    ran = run_tasks(
        "tasks",
        "--harbor-agent-command=mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt",
    )
    ran.run.assert_outcomes(failed=1)
    ran.run.stdout.fnmatch_lines(["*verifier timed out after 2 s*"])
    assert ran.one()["verifier_result"] is None
    # What was planted keeps the trial in the rates, as not passed.
    assert ran.one()["pytest_harbor"]["category"] == "reward"


def test_reward_written_in_time_does_not_count_after_a_timeout(make_task, run_tasks):
    make_task(
        toml="=version = '1.0'\n[verifier]\ntimeout_sec = 2\n",
        test="#!/bin/bash\necho 1 > /logs/verifier/reward.txt\nsleep 600\n",
    )
    ran = run_tasks("tasks", "--harbor-agent=nop")
    ran.run.assert_outcomes(failed=1)
    assert ran.one()["verifier_result"] is None


def test_multiplier_scales_limits(make_task, run_tasks):
    make_task(toml="=version = '1.0'\n[agent]\ntimeout_sec = 400\n")
    ran = run_tasks(
        "tasks", "--harbor-agent-timeout-multiplier=0.005", "--harbor-agent-command=sleep 600"
    )
    ran.run.stdout.fnmatch_lines(["*agent timed out after 2 s*"])


def test_memory_limit_is_named(make_task, run_tasks):
    make_task(toml="memory_mb = 64\n")
    eat = "head -c 500M /dev/zero | tail"
    ran = run_tasks("tasks", f"--harbor-agent-command=bash -c 'exec {eat}' || exit 137")
    ran.run.assert_outcomes(failed=1)
    ran.run.stdout.fnmatch_lines(["*memory limit was hit*"])
