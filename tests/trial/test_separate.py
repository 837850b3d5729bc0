"""Verifiers in a box of their own: what reaches it, and what does not."""

import json

import pytest

pytestmark = pytest.mark.docker

VERIFIER_IMAGE = "FROM debian:bookworm-slim\nRUN mkdir /tests\nCOPY test.sh /tests/test.sh\n"


@pytest.fixture
def make_separate(make_task):
    """Write a task whose verifier has a box of its own, built from ``tests/``."""

    def make(*, toml="", artifacts='["/app/out.txt"]', dockerfile=VERIFIER_IMAGE, **changed):
        folder = make_task(toml=f"=artifacts = {artifacts}\nversion = '1.0'\n{toml}", **changed)
        if dockerfile:
            make_task.write(folder, "tests/Dockerfile", dockerfile)
        return folder

    return make


MODE = '[verifier]\nenvironment_mode = "separate"\n'


def test_artifacts_reach_the_verifier_and_nothing_else_does(make_separate, run_tasks):
    make_separate(
        toml=MODE,
        solve="""\
        #!/bin/bash
        echo ok > /app/out.txt; echo x > /app/other.txt; echo x > /logs/agent/log
        echo part > /logs/artifacts/part.txt
        """,
        test="""\
        #!/bin/bash
        ls /app /logs/agent /solution /logs/artifacts 2>/dev/null | tr '\\n' ' '
        [ "$(cat /app/out.txt)" = ok ] && [ ! -e /app/other.txt ] && [ -e /logs/artifacts/part.txt ]
        echo $((1 - $?)) > /logs/verifier/reward.txt
        """,
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert result["verifier_environment_mode"] == "separate"
    assert (ran.folder() / "agent" / "log").read_text() == "x\n"
    home = ran.folder() / "artifacts"
    assert (home / "app" / "out.txt").read_text() == "ok\n"
    assert (home / "logs" / "artifacts" / "part.txt").exists()
    rows = json.loads((home / "manifest.json").read_text())
    assert [row["status"] for row in rows] == ["ok", "ok"]


def test_nop_earns_nothing_though_its_artifacts_are_missing(make_separate, run_tasks):
    make_separate(
        toml=MODE,
        test="#!/bin/bash\n[ -e /app/out.txt ]; echo $((1 - $?)) > /logs/verifier/reward.txt\n",
    )
    ran = run_tasks("tasks", "--harbor-agent=nop")
    ran.run.assert_outcomes(failed=1)
    assert ran.one()["verifier_result"] == {"rewards": {"reward": 0}}
    rows = json.loads((ran.folder() / "artifacts" / "manifest.json").read_text())
    assert [row["status"] for row in rows] == ["empty", "failed"]


def test_owners_and_modes_are_kept(make_separate, run_tasks):
    make_separate(
        toml=MODE,
        artifacts='["/srv/tree"]',
        dockerfile=VERIFIER_IMAGE + "RUN useradd -u 4321 worker\n",
        solve="""\
        #!/bin/bash
        mkdir -p /srv/tree/in; echo 'echo run' > /srv/tree/in/run; chmod 750 /srv/tree/in/run
        chown -R 4321:4321 /srv/tree; ln -s in/run /srv/tree/link; ln -s /etc/passwd /srv/tree/bad
        """,
        test="""\
        #!/bin/bash
        stat -c '%U %a' /srv/tree/in/run; readlink /srv/tree/link; ls /srv/tree
        echo 1 > /logs/verifier/reward.txt
        """,
    )
    ran = run_tasks("tasks")
    output = (ran.folder() / "verifier" / "test-stdout.txt").read_text().split()
    assert output == ["worker", "750", "in/run", "in", "link"]


def test_agents_box_is_gone_while_grading(make_separate, run_tasks, pytester):
    make_separate(toml=MODE)
    pytester.makeconftest(
        """
        from pytest_harbor.environment.docker.client import Engine
        from pytest_harbor.plugin.job import job

        def pytest_harbor_before_phase(item, phase, environment):
            if phase == "verifier":
                engine = Engine.connect()
                label = f"pytest-harbor.run={job(item.config).run_id}"
                found = engine.api.containers(all=True, filters={"label": label})
                others = [each["Names"] for each in found if environment.name not in str(each)]
                print("beside the verifier's:", others)
                engine.close()
        """
    )
    ran = run_tasks("tasks", "-s")
    ran.run.assert_outcomes(passed=1)
    ran.run.stdout.fnmatch_lines(["*beside the verifier's: ??"])


def test_environment_table_alone_means_separate(make_separate, run_tasks):
    make_separate(
        toml="[verifier.environment]\ndocker_image = 'debian:bookworm-slim'\n"
        "env = {WHERE = 'own'}\nworkdir = '/opt'\n",
        dockerfile="FROM debian:bookworm-slim\nWORKDIR /tests\nCOPY test.sh /tests/\n",
        test="#!/bin/bash\nexit 1\n",
    )
    ran = run_tasks("tasks")
    # A verifier's image counts as one that brings the tests; this one does not.
    ran.run.assert_outcomes(failed=1)
    assert ran.one()["verifier_environment_mode"] == "separate"
    assert ran.one()["pytest_harbor"]["category"] == "task"


def test_mode_alone_copies_the_environment(make_separate, run_tasks):
    make_separate(
        toml=MODE + "[environment]\nenv = {WHERE = 'shared'}\n",
        dockerfile="",
        test="""\
        #!/bin/bash
        echo $WHERE $(pwd); [ "$(cat /app/out.txt)" = ok ]
        echo $((1 - $?)) > /logs/verifier/reward.txt
        """,
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    assert (ran.folder() / "verifier" / "test-stdout.txt").read_text() == "shared /app\n"


def test_policies_of_the_two_boxes_are_their_own(make_separate, run_tasks):
    make_separate(
        toml=MODE + "network_mode = 'no-network'\n",
        artifacts='["/app/net"]',
        solve="#!/bin/bash\nls /sys/class/net > /app/net\n",
        test="""\
        #!/bin/bash
        echo $(cat /app/net) / $(ls /sys/class/net); echo 1 > /logs/verifier/reward.txt
        """,
    )
    ran = run_tasks("tasks")
    output = (ran.folder() / "verifier" / "test-stdout.txt").read_text().split()
    assert output[-1] == "lo"
    assert "eth0" in output


def test_broken_box_is_replaced_and_then_an_error(make_separate, run_tasks):
    make_separate(toml=MODE, dockerfile='FROM debian:bookworm-slim\nENTRYPOINT ["false"]\n')
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(errors=1)
    assert ran.one()["pytest_harbor"]["category"] == "environment"
    log = (ran.folder() / "trial.log").read_text()
    assert log.count("the verifier's box broke") == 3


def test_low_reward_is_not_tried_again(make_separate, run_tasks):
    make_separate(toml=MODE, test="#!/bin/bash\necho 0 > /logs/verifier/reward.txt\n")
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(failed=1)
    assert "broke" not in (ran.folder() / "trial.log").read_text()


def test_collect_hooks_make_artifacts_ready(make_separate, run_tasks):
    make_separate(
        toml=MODE
        + "[[verifier.collect]]\ncommand = 'echo ok > /app/out.txt'\n"
        + "[[verifier.collect]]\ncommand = 'echo no; exit 3'\n",
        test="#!/bin/bash\n[ -e /app/out.txt ]; echo $((1 - $?)) > /logs/verifier/reward.txt\n",
    )
    ran = run_tasks("tasks", "--harbor-agent=nop")
    ran.run.assert_outcomes(passed=1)
    assert "exit status 3" in (ran.folder() / "trial.log").read_text()


def test_failed_collect_hook_counts_where_asked(make_separate, run_tasks):
    make_separate(toml=MODE + "[[verifier.collect]]\ncommand = 'echo no dump; exit 3'\n")
    ran = run_tasks("tasks", "--harbor-strict-collect")
    ran.run.assert_outcomes(failed=1)
    ran.run.stdout.fnmatch_lines(["*collect hook*exit status 3*no dump*"])
    assert ran.one()["pytest_harbor"]["category"] == "task"


def test_steps_with_their_own_verifiers(make_task, run_tasks):
    folder = make_task(
        toml="=artifacts = ['/app']\n[[steps]]\nname = 'one'\n"
        "[steps.verifier]\nenvironment_mode = 'separate'\n[[steps]]\nname = 'two'\n",
        remove=("instruction.md",),
        solve="#!/bin/bash\necho x >> /app/count\n",
        test="#!/bin/bash\nwc -l < /app/count\nls -d /solution 2>/dev/null\n"
        "echo 1 > /logs/verifier/reward.txt\n",
    )
    for name in ("one", "two"):
        make_task.write(folder, f"steps/{name}/instruction.md", "Count.\n")
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    outputs = [
        (ran.folder() / "steps" / name / "verifier" / "test-stdout.txt").read_text().split()
        for name in ("one", "two")
    ]
    assert outputs == [["1"], ["2", "/solution"]]


@pytest.mark.long
def test_hostile_artifacts_stay_in_the_trials_folder(make_separate, run_tasks, pytester):
    make_separate(
        toml=MODE,
        artifacts='["/srv/bad", "/srv/bomb"]',
        solve="""\
        #!/bin/bash
        mkdir -p /srv/bad /srv/bomb; cd /srv/bad
        ln -s / root; ln -s ../../../.. up; mkfifo pipe; mknod dev c 1 3; touch Name name
        ln -s /etc/passwd passwd; echo fine > fine
        truncate -s 900G /srv/bomb/sparse
        """,
        test="#!/bin/bash\nls /srv/bad\necho 1 > /logs/verifier/reward.txt\n",
    )
    before = {path for path in pytester.path.rglob("*") if "jobs" not in path.parts}
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    home = ran.folder() / "artifacts"
    assert (home / "srv" / "bad" / "fine").read_text() == "fine\n"
    assert not [path for path in home.rglob("*") if path.is_symlink()]
    rows = {
        row["source"]: row["status"] for row in json.loads((home / "manifest.json").read_text())
    }
    assert rows["/srv/bad"] == "ok"
    assert rows["/srv/bomb"] == "failed"
    assert {path for path in pytester.path.rglob("*") if "jobs" not in path.parts} >= before


@pytest.mark.parametrize(
    "artifacts",
    [
        '[{source = "/app", exclude = ["build"]}, {source = "/app/build/out.txt"}]',
        '[{source = "/app", exclude = ["build"], destination = "x"},'
        ' {source = "/app/build", destination = "x/y"}]',
    ],
)
@pytest.mark.long
def test_an_artifact_in_the_place_of_another_reaches_the_verifier(
    make_separate, run_tasks, artifacts
):
    make_separate(
        toml=MODE,
        artifacts=artifacts,
        solve="#!/bin/bash\nmkdir /app/build; echo ok > /app/build/out.txt\n",
        test="""\
        #!/bin/bash
        [ "$(cat /app/build/out.txt)" = ok ]; echo $((1 - $?)) > /logs/verifier/reward.txt
        """,
    )
    run_tasks("tasks").run.assert_outcomes(passed=1)


def test_hooks_see_the_verifiers_box(make_separate, run_tasks, pytester):
    make_separate(toml=MODE)
    pytester.makeconftest(
        """
        def pytest_harbor_before_phase(phase, environment):
            if phase == "verifier":
                print("bundled:", environment.exec("ls /tests").stdout.split())
        """
    )
    ran = run_tasks("tasks", "-s")
    ran.run.assert_outcomes(passed=1)
    ran.run.stdout.fnmatch_lines(["*bundled: ?'test.sh'?"])
