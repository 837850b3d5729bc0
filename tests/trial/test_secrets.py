"""Values that must not be seen are seen nowhere (case 35)."""

import pytest

pytestmark = pytest.mark.docker

SECRET = "s3cr3t-value"


@pytest.mark.parametrize("workers", [[], ["-n1"]])
def test_secret_is_in_nothing_that_a_run_writes(
    make_task, run_tasks, pytester, monkeypatch, workers
):
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
        *workers,
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
