"""What a run wants otherwise than its tasks say."""

from pathlib import Path

import pytest

from pytest_harbor.errors import TaskFormatError
from pytest_harbor.task.overrides import TaskOverrides, image_name
from pytest_harbor.task.reader import Task, read_task

SEPARATE = '=version = "1.0"\n[verifier]\nenvironment_mode = "separate"\n'


@pytest.fixture
def read(make_task):
    """Write a task with a verifier of its own, and read it with overrides."""

    def reading(toml: str = "", *, verifier: bool = False, remove=(), **overrides) -> Task:
        folder = make_task(toml=toml, remove=remove)
        if verifier:
            make_task.write(folder, "tests/Dockerfile", "FROM scratch\n")
        return read_task(folder, overrides=TaskOverrides(**overrides))

    return reading


@pytest.mark.parametrize(
    ("template", "task", "expected"),
    [
        ("acme/{task}:1", "fix", "acme/fix:1"),
        ("acme/{task}:{task}", "Fix_It", "acme/fix_it:Fix_It"),
        ("localhost:5000/{task}", "Fix", "localhost:5000/fix"),
        ("plain:latest", "fix", "plain:latest"),
        ("{task}", "fix", "fix"),
    ],
)
def test_name_of_an_image(template: str, task: str, expected: str):
    assert image_name(template, task) == expected


def test_image_takes_the_place_of_the_tasks(read):
    task = read('[task]\nname = "acme/Fix"\n', image="hub/{task}:1")
    assert task.config.environment.docker_image == "hub/fix:1"


def test_a_task_without_an_environment_is_sound_with_an_image(read):
    with pytest.raises(TaskFormatError, match="no environment"):
        read(remove=("environment",))
    assert read(remove=("environment",), image="x").config.environment.docker_image == "x"


def test_a_separate_verifier_that_copies_the_environment_gets_its_image(read):
    box = read(SEPARATE, image="x").verifier_box()
    assert (box.config.docker_image, box.has_tests) == ("x", False)


def test_an_image_of_the_environment_is_not_the_one_of_a_verifiers_dockerfile(read):
    box = read(SEPARATE + '[environment]\ndocker_image = "env"\n', verifier=True).verifier_box()
    assert (box.config.docker_image, box.has_tests) == (None, True)
    assert box.build_folder.name == "tests"


def test_a_verifiers_table_without_an_image_gets_the_environments(read):
    toml = '[verifier.environment]\ncpus = 1\n[environment]\ndocker_image = "env"\n'
    box = read(f'=version = "1.0"\n{toml}').verifier_box()
    assert (box.config.docker_image, box.config.cpus, box.has_tests) == ("env", 1, False)


@pytest.mark.parametrize("verifier", [True, False])
def test_image_of_the_verifier(read, verifier):
    task = read(SEPARATE, verifier=verifier, verifier_image="grader/{task}")
    box = task.verifier_box()
    assert (box.config.docker_image, box.has_tests) == ("grader/hello", verifier)
    assert task.config.environment.docker_image is None


def test_image_of_the_verifier_makes_no_verifier_separate(read):
    assert read(verifier_image="x").verifier_mode() == "shared"


def test_without_its_dockerfile_a_verifier_gets_the_environments_image(read):
    box = read(SEPARATE, verifier=True, image="x", ignore_dockerfile=True).verifier_box()
    assert (box.config.docker_image, box.has_tests) == ("x", False)
    given = read(
        SEPARATE, verifier=True, image="x", ignore_dockerfile=True, verifier_image="y"
    ).verifier_box()
    assert (given.config.docker_image, given.has_tests) == ("y", True)


def test_ignored_separate_verifiers_keep_what_their_script_needs(read):
    task = read(
        '=version = "1.0"\n[verifier]\nenv = {A = "own"}\nuser = "grader"\n'
        '[verifier.environment]\nenv = {A = "box", B = "box"}\nnetwork_mode = "no-network"\n',
        ignore_separate_verifier=True,
    )
    assert task.verifier_mode() == "shared"
    assert task.config.verifier_env() == {"A": "own", "B": "box"}
    assert task.config.verifier_policy().is_closed
    assert task.config.verifier_user() == "grader"


def test_ignored_separate_verifiers_of_steps(make_task):
    folder = make_task(
        toml='=version = "1.0"\n[[steps]]\nname = "one"\n[steps.verifier.environment]\n'
        'env = {A = "box"}\n[[steps]]\nname = "two"\nverifier = {environment_mode = "separate"}\n',
        remove=("instruction.md",),
    )
    for name in ("one", "two"):
        make_task.write(folder, f"steps/{name}/instruction.md", "Do.\n")
    task = read_task(folder, overrides=TaskOverrides(ignore_separate_verifier=True))
    assert [task.verifier_mode(step) for step in task.steps] == ["shared", "shared"]
    assert task.config.verifier_env(task.steps[0].config) == {"A": "box"}


def test_tests_that_only_an_image_has_are_missed(read):
    toml = '=version = "1.0"\n[verifier.environment]\ndocker_image = "grader"\n'
    assert read(toml, remove=("tests/test.sh",)).verifier_box().has_tests
    with pytest.raises(TaskFormatError, match="no test script"):
        read(toml, remove=("tests/test.sh",), ignore_separate_verifier=True)


def test_record_names_what_was_asked():
    assert TaskOverrides().as_json() == {}
    assert TaskOverrides(image="x", ignore_dockerfile=True).as_json() == {
        "image": "x",
        "ignore_dockerfile": True,
    }


def test_folder_of_the_task_is_left_alone(make_task, tmp_path: Path):
    folder = make_task()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    read_task(folder, overrides=TaskOverrides(image="x"))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
