"""What the agent may see, and what it may not leave behind (cases 5, 17, 18)."""

import hashlib

import pytest

pytestmark = pytest.mark.docker


def test_planted_tests_are_gone(make_task, run_tasks):
    make_task(
        test="""\
        #!/bin/bash
        ls -a /tests; [ -e /tests/extra ] && echo still there
        if [ "$(cat /app/out.txt 2>/dev/null)" = ok ]; then r=1; else r=0; fi
        echo "$r" > /logs/verifier/reward.txt
        """
    )
    ran = run_tasks(
        "tasks",
        "--harbor-agent-command=mkdir -p /tests/sub; echo 'echo 1 > /logs/verifier/reward.txt'"
        " > /tests/test.sh; touch /tests/extra /tests/.hidden /tests/sub/x",
    )
    ran.run.assert_outcomes(failed=1)
    ran.run.stdout.fnmatch_lines(["*reward 0 is below*"])
    output = (ran.folder() / "verifier" / "test-stdout.txt").read_text()
    assert output.split() == [".", "..", "test.sh"]


@pytest.mark.parametrize("planted", ["/tests", "/logs/verifier"])
def test_planted_links_are_replaced(make_task, run_tasks, planted):
    make_task(
        test="""\
        #!/bin/bash
        [ -L /tests ] || [ -L /logs/verifier ] && exit 1
        echo 1 > /logs/verifier/reward.txt
        """
    )
    ran = run_tasks(
        "tasks", f"--harbor-agent-command=rm -rf {planted}; mkdir /trap; ln -s /trap {planted}"
    )
    ran.run.assert_outcomes(passed=1)


def test_files_planted_among_the_verifiers_are_gone(make_task, run_tasks):
    make_task(test="#!/bin/bash\nls -A /logs/verifier\necho 0 > /logs/verifier/reward.txt\n")
    ran = run_tasks(
        "tasks",
        "--harbor-agent-command=cd /logs/verifier; echo '{\"reward\": 1}' > reward.json;"
        " touch ctrf.json .hidden",
    )
    ran.run.assert_outcomes(failed=1)
    assert (ran.folder() / "verifier" / "test-stdout.txt").read_text() == ""
    assert not (ran.folder() / "verifier" / "ctrf.json").exists()
    forged, others = ran.one()["pytest_harbor"]["integrity"]["findings"]
    assert (forged["code"], forged["level"]) == ("planted-file", "suspicious")
    assert forged["path"] == "/logs/verifier/reward.json"
    assert forged["found"] == hashlib.sha256(b'{"reward": 1}\n').hexdigest()
    assert forged["remedied"]
    assert (others["code"], others["level"]) == ("planted-file", "information")


def test_agent_sees_neither_solution_nor_tests(make_task, run_tasks):
    make_task(
        test="""\
        #!/bin/bash
        cat /app/seen
        grep -q solve.sh /app/seen || grep -q test.sh /app/seen || grep -q GRADER /app/seen
        echo $? > /logs/verifier/reward.txt
        """,
        toml="[verifier.env]\nGRADER = 'x'\n[solution.env]\nGRADER = 'y'\n",
    )
    ran = run_tasks(
        "tasks", "--harbor-agent-command=(ls -R /solution /tests; env) > /app/seen 2>&1"
    )
    ran.run.assert_outcomes(passed=1)


def test_no_python_of_a_task_runs_on_the_host(make_task, run_tasks, pytester):
    folder = make_task()
    for path in ("conftest.py", "tests/conftest.py", "tests/test_outputs.py", "solution/x.py"):
        make_task.write(folder, path, "raise RuntimeError('ran on the host')\n")
    for args in ([], ["tasks"], ["tasks/hello"], ["tasks/hello/tests/test_outputs.py"]):
        ran = run_tasks(*args, subprocess=True)
        ran.run.assert_outcomes(passed=1)
        assert "ran on the host" not in ran.text + ran.run.stderr.str()


def test_trial_folder_takes_nothing_hostile_from_the_logs(make_task, run_tasks):
    """Names that belong to the trial's own files do not land there."""
    make_task(
        test="""\
        #!/bin/bash
        echo forged > /logs/result.json; echo forged > /logs/verifier/test-stdout.txt
        ln -s /etc/passwd /logs/verifier/link; mkdir /logs/verifier/deep; mkfifo /logs/agent/pipe
        echo 1 > /logs/verifier/reward.txt
        """
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    folder = ran.folder()
    assert "forged" not in (folder / "result.json").read_text()
    assert "forged" not in (folder / "verifier" / "test-stdout.txt").read_text()
    assert not (folder / "verifier" / "link").is_symlink()
    assert (folder / "verifier" / "deep").is_dir()
