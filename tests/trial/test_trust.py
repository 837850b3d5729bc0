"""Where a shared verifier grades, and what becomes of a trial with signs of tampering."""

import json

import pytest

pytestmark = pytest.mark.docker

SERVE = "setsid sleep 300 >/dev/null 2>&1 & echo ok > /app/out.txt"


def integrity(ran):
    return ran.one()["pytest_harbor"]["integrity"]


def codes(ran, level="suspicious"):
    return {one["code"] for one in integrity(ran)["findings"] if one["level"] == level}


def test_an_honest_trial_is_graded_in_the_box_itself(make_task, run_tasks):
    make_task()
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    assert integrity(ran) == {
        "grading": "shared",
        "findings": [],
        "restored": [],
        "left_running": [],
        "unseen": [],
    }
    ran.run.stdout.no_fnmatch_line("integrity:*")


def test_what_runs_on_is_alive_and_out_of_reach(make_task, run_tasks):
    make_task(
        test="""\
        #!/bin/bash
        pgrep -x sleep >/dev/null || ls /proc/*/exe -l | grep -q sleep || exit 1
        if [ "$(cat /app/out.txt 2>/dev/null)" = ok ]; then r=1; else r=0; fi
        echo "$r" > /logs/verifier/reward.txt
        """
    )
    ran = run_tasks("tasks", f"--harbor-agent-command={SERVE}")
    ran.run.assert_outcomes(passed=1)
    assert integrity(ran)["grading"] == "private"
    assert any("sleep 300" in command for command in integrity(ran)["left_running"])
    assert codes(ran) == set()
    assert codes(ran, "information") == {"left-running"}


def test_a_background_writer_earns_nothing(make_task, run_tasks):
    make_task(
        test="""\
        #!/bin/bash
        echo 0 > /logs/verifier/reward.txt; sleep 0.5
        """
    )
    writer = "while :; do echo 1 > /logs/verifier/reward.txt; rm -f /logs/verifier/*.json; done"
    ran = run_tasks("tasks", f"--harbor-agent-command=setsid bash -c '{writer}' >/dev/null 2>&1 &")
    ran.run.assert_outcomes(failed=1)
    assert ran.one()["verifier_result"] == {"rewards": {"reward": 0}}


REPLACED = (
    "echo ok > /app/out.txt; printf '#!/bin/sh\\necho ok\\n' > /tmp/x; chmod +x /tmp/x;"
    " mv /tmp/x /usr/bin/cat"
)


def test_signs_of_tampering_are_reported_by_default(make_task, run_tasks):
    make_task()
    ran = run_tasks("tasks", f"--harbor-agent-command={REPLACED}")
    ran.run.assert_outcomes(passed=1)
    assert codes(ran) == {"replaced-program"}
    ran.run.stdout.fnmatch_lines(["integrity: *::command: 1 sign of tampering (replaced-program)"])


def test_signs_of_tampering_may_fail_a_trial(make_task, run_tasks):
    make_task()
    ran = run_tasks("tasks", "--harbor-on-tamper=fail", f"--harbor-agent-command={REPLACED}")
    ran.run.assert_outcomes(failed=1)
    ran.run.stdout.fnmatch_lines(["*reward 1 is not trusted*/usr/bin/cat*(replaced-program)*"])
    result = ran.one()
    assert result["verifier_result"] == {"rewards": {"reward": 1}}
    assert result["pytest_harbor"]["category"] == "reward"
    assert result["pytest_harbor"]["passed"] is False
    assert result["pytest_harbor"]["untrusted"] is True
    ran.run.stdout.fnmatch_lines(
        ["command: 0 of 1 valid rewards passed; mean reward 0 (1 failed for tampering: 0 in the*"]
    )
    job = json.loads((ran.folder().parent / "result.json").read_text())
    assert job["stats"]["evals"]["command__adhoc"]["metrics"] == [{"mean": 0}]


def test_no_verdict_after_tampering_stays_in_the_rates(make_task, run_tasks):
    make_task(test="#!/bin/bash\ncat /app/out.txt && echo 1 > /logs/verifier/reward.txt\n")
    ran = run_tasks("tasks", "--harbor-agent-command=echo 'exit 1' > /usr/bin/cat")
    ran.run.assert_outcomes(failed=1)
    result = ran.one()
    assert result["verifier_result"] is None
    assert result["pytest_harbor"]["category"] == "reward"
    ran.run.stdout.fnmatch_lines(
        ["*no verdict on a box that was tampered with, so not passed: /usr/bin/cat*"]
    )
    ran.run.stdout.fnmatch_lines(
        ["command: 0 of 1 valid rewards passed; mean reward 0 (1 without a verdict*"]
    )


def test_a_fresh_box_has_the_images_programs(make_task, run_tasks):
    make_task(
        test="""\
        #!/bin/bash
        ls /proc/*/exe -l | grep -q sleep.*300 && exit 1
        if [ "$(cat /app/out.txt 2>/dev/null)" = ok ]; then r=1; else r=0; fi
        echo "$r" > /logs/verifier/reward.txt
        """
    )
    forged = REPLACED.replace("echo ok > /app/out.txt; ", "")
    ran = run_tasks("tasks", "--harbor-isolate", f"--harbor-agent-command={forged}")
    ran.run.assert_outcomes(failed=1)
    assert integrity(ran)["grading"] == "isolated"
    assert integrity(ran)["restored"] == ["/usr/bin/cat"]
    assert all(one.get("remedied") for one in integrity(ran)["findings"])
    assert ran.one()["verifier_result"] == {"rewards": {"reward": 0}}


def test_honest_work_passes_in_a_fresh_box(make_task, run_tasks):
    make_task()
    ran = run_tasks("tasks", "--harbor-isolate")
    ran.run.assert_outcomes(passed=1)
    assert integrity(ran)["grading"] == "isolated"


@pytest.mark.parametrize("how", ["metadata", "option"])
def test_a_task_that_needs_its_services_keeps_them(make_task, run_tasks, how):
    toml = "[metadata]\nneeds_services = true\n" if how == "metadata" else ""
    args = [] if toml else ["--harbor-isolate-except=hel*"]
    make_task(toml=toml)
    ran = run_tasks("tasks", "--harbor-isolate", f"--harbor-agent-command={SERVE}", *args)
    ran.run.assert_outcomes(passed=1)
    assert integrity(ran)["grading"] == "private"


PLANTED = {
    "/logs": "mkdir /trap; rm -rf /logs; ln -s /trap /logs",
    "/tests": "mkdir /trap; ln -s /trap /tests",
    "/logs/verifier": "rm -rf /logs/verifier; mkfifo /logs/verifier",
}


@pytest.mark.parametrize("mode", ["shared", "isolated"])
@pytest.mark.parametrize("place", PLANTED)
def test_what_stands_in_the_verifiers_place_is_replaced(make_task, run_tasks, place, mode):
    make_task()
    args = ["--harbor-isolate"] if mode == "isolated" else []
    ran = run_tasks(
        "tasks", f"--harbor-agent-command=echo ok > /app/out.txt; {PLANTED[place]}", *args
    )
    ran.run.assert_outcomes(passed=1)
    assert integrity(ran)["grading"] == mode
    (found,) = integrity(ran)["findings"]
    assert found["remedied"]
    assert found["path"] == place
    assert ("a link to '/trap'" in found["message"]) is (place != "/logs/verifier")


def test_what_changes_while_it_is_graded_is_told_from_the_verifiers_own(make_task, run_tasks):
    """A process of the agent waits for the verifier; the verifier lays files out, too."""
    make_task(
        test="""\
        #!/bin/bash
        ln -s /tests/test.sh /app/linked.sh; cp /tests/test.sh /usr/local/bin/curl
        echo 'def pytest_runtest_protocol(): ...' > /app/conftest.py
        touch /app/go
        for _ in $(seq 200); do [ -e /app/go ] || break; sleep 0.05; done
        echo 1 > /logs/verifier/reward.txt
        """
    )
    waits = "until [ -e /app/go ]; do sleep 0.05; done; echo evil > /usr/bin/cmp; rm /app/go"
    ran = run_tasks("tasks", f"--harbor-agent-command=setsid bash -c '{waits}' >/dev/null 2>&1 &")
    ran.run.assert_outcomes(passed=1)
    found = {one["path"]: one["level"] for one in integrity(ran)["findings"] if one.get("path")}
    assert found == {
        "/usr/bin/cmp": "suspicious",
        "/usr/local/bin/curl": "information",
        "/app/conftest.py": "information",
    }


def test_a_writer_in_the_place_of_the_boxes_own_process_is_seen(make_task, run_tasks):
    """It takes the name and the parent of what keeps the container alive, at once."""
    make_task(test="#!/bin/bash\necho 0 > /logs/verifier/reward.txt; sleep 0.5\n")
    writer = (
        "cd /tmp; echo 'while :; do echo 1 > /logs/verifier/reward.txt; done' > infinity;"
        " for p in /proc/[0-9]*; do grep -qsx sleep $p/comm && kill ${p#/proc/}; done;"
        " (exec -a sleep bash infinity >/dev/null 2>&1 &)"
    )
    ran = run_tasks("tasks", f"--harbor-agent-command={writer}")
    ran.run.assert_outcomes(failed=1)
    assert integrity(ran)["left_running"] == ["sleep infinity"]
    assert integrity(ran)["grading"] == "private"
