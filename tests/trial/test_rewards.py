"""What the verifier wrote becomes a reward, an outcome and a text (cases 12 to 15, 19 to 21)."""

import pytest

pytestmark = pytest.mark.docker


def writing(text: str) -> str:
    return f"#!/bin/bash\nprintf -- '{text}' > /logs/verifier/reward.txt\n"


VALID = {"1": 1, "1.0\\n": 1, " 0.5 ": 0.5, "-1": -1}
INVALID = ["", "abc", "nan", "inf", "1,0"]


def test_reward_text_decides(make_task, run_tasks):
    for number, text in enumerate(VALID):
        make_task(f"valid{number}", test=writing(text))
    for number, text in enumerate(INVALID):
        make_task(f"invalid{number}", test=writing(text))
    ran = run_tasks("--harbor-agent=nop", "tasks")
    for number, value in enumerate(VALID.values()):
        result = ran.one(f"valid{number}")
        assert result["verifier_result"] == {"rewards": {"reward": value}}
        assert result["reward_valid"] is True
        assert result["pytest_harbor"]["category"] == "reward"
    for number, text in enumerate(INVALID):
        result = ran.one(f"invalid{number}")
        assert result["verifier_result"] is None
        assert result["pytest_harbor"]["category"] == "task"
        if text:
            assert text in result["exception_info"]["exception_message"]
    ran.run.assert_outcomes(passed=2, failed=7)
    ran.run.stdout.fnmatch_lines(
        [
            "FAILED tasks/invalid1/task.toml::nop - Failed: task fault: no valid reward:*abc*",
            "FAILED tasks/valid2/task.toml::nop - Failed: reward 0.5 is below the threshold 1",
        ]
    )


def test_no_reward_is_never_a_zero(make_task, run_tasks):
    make_task(test="#!/bin/bash\necho almost; exit 3\n")
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(failed=1)
    ran.run.stdout.fnmatch_lines(
        ["*exit status 3*/logs/verifier/reward.json*/logs/verifier/reward.txt*", "almost"]
    )
    ran.run.stdout.fnmatch_lines(["*no valid reward; not counted: 1 no valid reward*"])
    result = ran.one()
    assert result["verifier_result"] is None
    assert result["pytest_harbor"]["verifier_exit_code"] == 3
    assert result["exception_info"]["exception_type"] == "RewardFileNotFoundError"


def test_json_wins_over_text_and_keeps_its_labels(make_task, run_tasks):
    make_task(
        test="""\
        #!/bin/bash
        echo '{"reward": 0.5, "lines": 3}' > /logs/verifier/reward.json
        echo 1 > /logs/verifier/reward.txt
        """
    )
    ran = run_tasks("tasks", "--harbor-threshold=0.5")
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert result["verifier_result"] == {"rewards": {"reward": 0.5, "lines": 3}}
    assert result["pytest_harbor"]["reward_file"] == "reward.json"


def test_another_key_may_count(make_task, run_tasks):
    make_task(test='#!/bin/bash\necho \'{"reward": 0, "f1": 0.8}\' > /logs/verifier/reward.json\n')
    ran = run_tasks("tasks", "--harbor-reward-key=f1", "--harbor-threshold=0.8")
    ran.run.assert_outcomes(passed=1)
    ran = run_tasks("tasks", "--harbor-reward-key=recall")
    ran.run.assert_outcomes(failed=1)
    ran.run.stdout.fnmatch_lines(["*recall*f1*"])


def test_oracle_status_is_shown_and_does_not_decide(make_task, run_tasks):
    make_task(solve="#!/bin/bash\necho ok > /app/out.txt\nexit 3\n")
    ran = run_tasks("tasks", "-rA")
    ran.run.assert_outcomes(passed=1)
    assert ran.one()["pytest_harbor"]["agent_exit_code"] == 3
    assert (ran.folder() / "agent" / "exit-code.txt").read_text() == "3\n"


def test_output_of_any_size_and_encoding(make_task, run_tasks):
    make_task(
        test="""\
        #!/bin/bash
        head -c 50000000 /dev/urandom
        echo; echo the end
        echo 0 > /logs/verifier/reward.txt
        """
    )
    ran = run_tasks("tasks", "--junitxml=junit.xml")
    ran.run.assert_outcomes(failed=1)
    assert len(ran.text) < 50_000
    assert (ran.folder() / "verifier" / "test-stdout.txt").stat().st_size >= 50_000_000
    ran.run.stdout.fnmatch_lines(["the end"])


@pytest.mark.parametrize(
    "how",
    [
        "ln -s /etc/hostname /logs/verifier/reward.txt",
        "mkfifo /logs/verifier/reward.txt",
        "mkdir /logs/verifier/reward.txt",
        "truncate -s 3G /logs/verifier/reward.txt",
        "mv /logs /logs2; echo 1 > /reward; ln -s / /logs",
    ],
)
def test_hostile_reward_files_give_no_reward(make_task, run_tasks, how):
    make_task(test=f"#!/bin/bash\n{how}\n")
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(failed=1)
    assert ran.one()["pytest_harbor"]["category"] == "task"
    assert ran.one()["verifier_result"] is None


def test_ctrf_failures_are_shown(make_task, run_tasks):
    make_task(
        test="""\
        #!/bin/bash
        echo 0 > /logs/verifier/reward.txt
        cat > /logs/verifier/ctrf.json <<'END'
        {"results": {"tool": {"name": "own"}, "summary": {"tests": 2, "passed": 1, "failed": 1},
         "tests": [{"name": "test_sum", "status": "passed", "duration": 1},
                   {"name": "test_total", "status": "failed", "duration": 2,
                    "message": "expected 3, got 4"}]}}
        END
        """
    )
    ran = run_tasks("tasks")
    ran.run.stdout.fnmatch_lines(
        ["verifier's tests: 1 of 2 failed", "*FAILED test_total", "*expected 3, got 4"]
    )


@pytest.mark.long
def test_rates_name_their_denominator(make_task, run_tasks):
    """Rewards 1, 1, 0, none, 1 are 3 of 4, one apart (case 40)."""
    for number, write in enumerate(["echo 1", "echo 1", "echo 0", "exit 1", "echo 1"]):
        make_task(f"t{number}", test=f"#!/bin/bash\n{write} > /logs/verifier/reward.txt\n")
    make_task("t3", test="#!/bin/bash\nexit 1\n")
    ran = run_tasks("tasks", "--harbor-agent=nop")
    ran.run.stdout.fnmatch_lines(
        [
            "5 tasks, 5 trials",
            "agent  trials  passed *mean reward *pass@1",
            "nop         5  3 of 4  0.75 [[]*[]]  0.75 [[]*[]]",
            "not counted: 1 no valid reward (the task's fault)",
        ]
    )
