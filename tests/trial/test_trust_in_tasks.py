"""Grading out of reach in tasks of every kind, and what a run makes of tampering."""

import json

import docker
import pytest

pytestmark = pytest.mark.docker

SERVE = "setsid sleep 300 >/dev/null 2>&1 & echo ok > /app/out.txt"
REPLACED = (
    "echo ok > /app/out.txt; printf '#!/bin/sh\\necho ok\\n' > /tmp/x; chmod +x /tmp/x;"
    " mv /tmp/x /usr/bin/cat"
)
SERVICES = """\
services:
  main: {depends_on: [db]}
  db: {image: "debian:bookworm-slim", init: true, command: [sleep, infinity]}
"""
VERIFIER = '=version = "1.0"\n[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 60\n{}\n'


def integrity(result):
    return result["pytest_harbor"]["integrity"]


def suspicious(result):
    return {one["code"] for one in integrity(result)["findings"] if one["level"] == "suspicious"}


@pytest.mark.parametrize(("args", "place"), [([], "private"), (["--harbor-isolate"], "isolated")])
@pytest.mark.long
def test_beside_services(make_task, run_tasks, args, place):
    folder = make_task(
        test="""\
        #!/bin/bash
        r=0; getent hosts db >/dev/null && grep -q ok /app/out.txt && r=1
        echo "$r" > /logs/verifier/reward.txt
        """
    )
    make_task.write(folder, "environment/docker-compose.yaml", SERVICES)
    ran = run_tasks("tasks", f"--harbor-agent-command={SERVE}", *args)
    ran.run.assert_outcomes(passed=1)
    assert integrity(ran.one())["grading"] == place
    assert suspicious(ran.one()) == set()


def test_each_step_has_a_fresh_box_and_leaves_the_agents_to_the_next(make_task, run_tasks):
    steps = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    folder = make_task(toml=f'=version = "1.0"\n{steps}', remove=("instruction.md",))
    check = '#!/bin/bash\nr=0; [ "$(cat /app/log)" = {} ] && r=1\necho graded >> /app/log\n'
    for step, wanted in (("one", "a"), ("two", "ab")):
        make_task.write(folder, f"steps/{step}/instruction.md", f"Do {step}.\n")
        make_task.write(
            folder, f"steps/{step}/solution/solve.sh", f"printf {wanted[-1]} >>/app/log"
        )
        make_task.write(
            folder,
            f"steps/{step}/tests/test.sh",
            check.format(wanted) + 'echo "$r" > /logs/verifier/reward.txt\n',
        )
    ran = run_tasks("tasks", "--harbor-isolate")
    ran.run.assert_outcomes(passed=1)


@pytest.mark.parametrize(("args", "place"), [([], "private"), (["--harbor-isolate"], "isolated")])
def test_a_verifier_without_rights(make_task, run_tasks, args, place):
    make_task(
        toml=VERIFIER.format('user = "nobody"'),
        test="""\
        #!/bin/bash
        r=0; [ "$(id -un)" = nobody ] && grep -q ok /app/out.txt && r=1
        echo "$r" > /logs/verifier/reward.txt
        """,
    )
    ran = run_tasks("tasks", f"--harbor-agent-command={SERVE}", *args)
    ran.run.assert_outcomes(passed=1)
    assert integrity(ran.one())["grading"] == place


def test_a_separate_verifier_is_not_touched_by_what_is_found(make_task, run_tasks):
    folder = make_task(
        toml=VERIFIER.format('environment_mode = "separate"'),
    )
    toml = folder / "task.toml"
    toml.write_text('artifacts = ["/app/out.txt"]\n' + toml.read_text())
    ran = run_tasks("tasks", "--harbor-on-tamper=fail", f"--harbor-agent-command={REPLACED}")
    ran.run.assert_outcomes(passed=1)
    assert integrity(ran.one())["grading"] == "separate"
    found = {one["code"]: one["level"] for one in integrity(ran.one())["findings"]}
    assert found == {"replaced-program": "information"}


# What a fresh box does not undo: a program that the agent set beside the tests' own report.
ODD = """\
#!/bin/bash
echo '===== test session starts ====='; echo '===== no tests ran in 0.01s ====='
echo 1 > /logs/verifier/reward.txt
"""


@pytest.mark.long
def test_isolation_in_the_ini_file_fails_what_no_fresh_box_undoes(make_task, run_tasks, pytester):
    pytester.makeini("[pytest]\nharbor_isolate = true\n")
    make_task("undone")
    make_task("stays", test=ODD)
    ran = run_tasks("tasks", f"--harbor-agent-command={REPLACED}")
    ran.run.assert_outcomes(passed=1, failed=1)
    assert integrity(ran.one("undone"))["restored"] == ["/usr/bin/cat"]
    stays = ran.one("stays")
    assert integrity(stays)["grading"] == "isolated"
    assert stays["verifier_result"] == {"rewards": {"reward": 1}}
    assert stays["pytest_harbor"]["passed"] is False


def test_a_run_that_fails_on_tampering_says_so_everywhere(make_task, run_tasks, pytester):
    make_task()
    ran = run_tasks(
        "tasks",
        "--harbor-on-tamper=fail",
        "--junit-xml=junit.xml",
        f"--harbor-agent-command={REPLACED}",
    )
    assert ran.run.ret == pytest.ExitCode.TESTS_FAILED
    ran.run.stdout.fnmatch_lines(["*reward 1 is not trusted*"])
    report = (pytester.path / "junit.xml").read_text()
    assert "<failure" in report
    assert "replaced-program" in report


def test_an_image_that_cannot_be_had_means_no_verdict_and_says_what_helps(make_task, run_tasks):
    make_task()
    ran = run_tasks(
        "tasks",
        "--harbor-gateway-image=nowhere.invalid/gateway:1",
        f"--harbor-agent-command={SERVE}",
    )
    ran.run.assert_outcomes(failed=1)
    result = ran.one()
    assert result["verifier_result"] is None
    assert result["pytest_harbor"]["category"] == "reward"
    assert suspicious(result) == {"reward-in-reach"}
    ran.run.stdout.fnmatch_lines(["*--harbor-gateway-image*"])
    assert "sleep 300" in json.dumps(integrity(result)["left_running"])


@pytest.mark.parametrize(("args", "place"), [([], "private"), (["--harbor-isolate"], "isolated")])
def test_under_a_network_policy(make_task, run_tasks, listener, args, place):
    """Wherever it grades, the verifier's own policy holds: this machine's port is not allowed."""
    make_task(
        toml='network_mode = "allowlist"\nallowed_hosts = ["198.51.100.7"]\n',
        test=f"""\
        #!/bin/bash
        r=0; grep -q ok /app/out.txt && r=1
        timeout 3 bash -c '</dev/tcp/{listener.address}/{listener.port}' && r=0
        echo "$r" > /logs/verifier/reward.txt
        """,
    )
    ran = run_tasks("tasks", f"--harbor-agent-command={SERVE}", *args)
    ran.run.assert_outcomes(passed=1)
    assert integrity(ran.one())["grading"] == place
    assert listener.visits() == 0


@pytest.fixture
def ready_image(engine, tmp_path):
    """An image that somebody made with the tests in it."""
    (tmp_path / "test.sh").write_text(PAYS)
    (tmp_path / "Dockerfile").write_text(
        "FROM debian:bookworm-slim\nWORKDIR /app\n"
        "COPY test.sh /tests/test.sh\nRUN mkdir /solution\n"
    )
    client = docker.from_env()
    image, _ = client.images.build(path=str(tmp_path), tag="pytest-harbor-test-ready:1", rm=True)
    yield "pytest-harbor-test-ready:1"
    client.images.remove(image.id, force=True)
    client.close()


PAYS = "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"


def test_tests_in_a_ready_image_are_told(make_task, run_tasks, ready_image):
    make_task(
        toml=f'docker_image = "{ready_image}"\n', test=PAYS, remove=("environment/Dockerfile",)
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    found = {one["path"]: one["level"] for one in integrity(ran.one())["findings"]}
    assert found == {"/tests/test.sh": "suspicious", "/solution": "information"}
