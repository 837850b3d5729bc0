"""What a run changes of its tasks, seen from inside their containers."""

import secrets

import pytest

pytestmark = pytest.mark.docker

SEE_IMAGE = "#!/bin/bash\ncat /image\necho 1 > /logs/verifier/reward.txt\n"


@pytest.fixture
def make_image(engine, tmp_path_factory):
    """Build an image that holds its own name in ``/image``; no two tests share a name."""
    made = []
    prefix = f"overrides-{secrets.token_hex(4)}"

    def make(name: str, more: str = "") -> str:
        name = f"{prefix}/{name}"
        context = tmp_path_factory.mktemp("image")
        text = f"FROM debian:bookworm-slim\nRUN echo {name} > /image; mkdir /app\n{more}"
        (context / "Dockerfile").write_text(text)
        labels = {"pytest-harbor.test-only": "1"}
        for _ in engine.api.build(path=str(context), tag=name, labels=labels, rm=True):
            pass
        made.append(name)
        return name

    make.prefix = prefix
    yield make
    for name in made:
        engine.api.remove_image(name, force=True)


def output(ran, task: str = "hello") -> list[str]:
    """What the test script of a task's only trial printed."""
    return (ran.folder(task) / "verifier" / "test-stdout.txt").read_text().splitlines()


@pytest.mark.long
def test_image_for_each_task(make_image, make_task, run_tasks):
    for task in ("one", "Two"):
        make_task(task, test=SEE_IMAGE)
    make_task("bare", test=SEE_IMAGE, remove=("environment",))
    images = {task: make_image(f"{task.lower()}:{task}") for task in ("one", "Two", "bare")}
    ran = run_tasks("tasks", f"--harbor-image={make_image.prefix}/{{task}}:{{task}}")
    ran.run.assert_outcomes(passed=3)
    assert {task: output(ran, task) for task in images} == {t: [i] for t, i in images.items()}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "prebuilt"),
        (["--harbor-rebuild"], "built"),
        (["--harbor-rebuild", "--harbor-ignore-dockerfile"], "prebuilt"),
    ],
    ids=["prebuilt", "rebuild", "ignore"],
)
@pytest.mark.long
def test_dockerfile_beside_an_image(make_image, make_task, run_tasks, options, expected):
    image = make_image("prebuilt")
    make_task(
        toml=f'docker_image = "{image}"\n',
        dockerfile="FROM debian:bookworm-slim\nRUN mkdir /app; echo built > /image\n",
        test=SEE_IMAGE,
    )
    ran = run_tasks("tasks", *options)
    ran.run.assert_outcomes(passed=1)
    assert output(ran) == [image if expected == "prebuilt" else expected]


def test_ignored_dockerfile_without_an_image_says_what_to_do(make_task, run_tasks):
    make_task()
    ran = run_tasks("tasks", "--harbor-ignore-dockerfile")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(["*leaves the task without an image*--harbor-image*"])


SEPARATE = "=version = '1.0'\nartifacts = []\n[verifier]\nenvironment_mode = 'separate'\n"


def test_image_for_the_verifier(make_image, make_task, run_tasks):
    tests = "COPY test.sh /tests/test.sh\n"
    image = make_image("grader")
    make_task(toml=SEPARATE, test=SEE_IMAGE)
    folder = make_task("built", toml=SEPARATE, test="#!/bin/bash\nexit 1\n")
    make_task.write(folder, "tests/Dockerfile", f"FROM scratch\n{tests}")
    script = "RUN printf '#!/bin/sh\\ncat /image; echo 1 > /logs/verifier/reward.txt\\n' > /t;"
    bundled = make_image("built", f"{script} mkdir /tests; mv /t /tests/test.sh\n")
    ran = run_tasks("tasks/hello", f"--harbor-verifier-image={image}")
    ran.run.assert_outcomes(passed=1)
    assert output(ran) == [image]
    ran = run_tasks("tasks/built", f"--harbor-verifier-image={make_image.prefix}/{{task}}")
    ran.run.assert_outcomes(passed=1)
    assert output(ran, "built") == [bundled]


def test_ignored_separate_verifier_grades_where_the_agent_worked(make_task, run_tasks):
    folder = make_task(
        toml=SEPARATE + "[verifier.environment]\nenv = {WHERE = 'box'}\n",
        solve="#!/bin/bash\necho left > /tmp/left\n",
        test="#!/bin/bash\ncat /tmp/left; echo $WHERE; echo 1 > /logs/verifier/reward.txt\n",
    )
    make_task.write(folder, "tests/Dockerfile", "FROM debian:bookworm-slim\nRUN false\n")
    ran = run_tasks("tasks", "--harbor-ignore-separate-verifier")
    ran.run.assert_outcomes(passed=1)
    assert output(ran) == ["left", "box"]
    assert ran.one()["verifier_environment_mode"] == "shared"


def test_ignored_time_limits(make_task, run_tasks):
    make_task(
        toml="=version = '1.0'\n[agent]\ntimeout_sec = 0.2\n[verifier]\ntimeout_sec = 0.2\n"
        "[environment]\nbuild_timeout_sec = 0.01\n",
        solve="#!/bin/bash\nsleep 0.5; echo ok > /app/out.txt\n",
        test="#!/bin/bash\nsleep 0.5; echo 1 > /logs/verifier/reward.txt\n",
    )
    run_tasks("tasks", "--harbor-ignore-timeouts").run.assert_outcomes(passed=1)


@pytest.mark.long
def test_multipliers_of_the_phases(make_task, run_tasks, pytester):
    """One phase of each task outruns its limit, which the run made small."""
    pytester.makepyfile(
        slow_setup="""
        from pytest_harbor import Agent

        class Slow(Agent):
            setup_timeout_sec = 100

            def setup(self, environment, context):
                environment.exec("sleep 600")

            def run(self, instruction, environment, context):
                pass
        """
    )
    nap = "#!/bin/bash\nsleep 600\n"
    toml = "=version = '1.0'\n[agent]\ntimeout_sec = 100\n[verifier]\ntimeout_sec = 100\n"
    toml += "[environment]\nbuild_timeout_sec = 100\n"
    make_task("agent", toml=toml, solve=nap)
    make_task("verifier", toml=toml, test=nap)
    make_task("image", toml=toml, dockerfile="FROM debian:bookworm-slim\nRUN sleep 600\n")
    ran = run_tasks(
        "tasks",
        *(f"--harbor-{phase}-timeout-multiplier=0.02" for phase in ("agent", "verifier", "build")),
    )
    ran.run.assert_outcomes(failed=2, errors=1)
    ran.run.stdout.fnmatch_lines_random(
        ["*agent timed out after 2 s*", "*verifier timed out after 2 s*", "*build limit of 2 s*"]
    )
    make_task("setup", toml=toml)
    limit = "--harbor-setup-timeout-multiplier=0.01"
    ran = run_tasks("tasks/setup", "--harbor-agent=slow_setup:Slow", limit)
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(["*set-up of the agent timed out after 1 s*"])
