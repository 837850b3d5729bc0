"""A whole folder: what is read, what is refused, what is remarked."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_harbor.errors import Problem, TaskFormatError
from pytest_harbor.task.reader import Task, read_task

Write = Callable[..., Path]


def problems_of(folder: Path) -> list[Problem]:
    try:
        return list(read_task(folder).problems)
    except TaskFormatError as error:
        return list(error.problems)


def only_error(folder: Path) -> Problem:
    with pytest.raises(TaskFormatError) as caught:
        read_task(folder)
    (problem,) = caught.value.problems
    assert problem.severity == "error"
    return problem


def only_warning(folder: Path) -> Problem:
    (problem,) = read_task(folder).problems
    assert problem.severity == "warning"
    return problem


def put(folder: Path, path: str, content: str | bytes = "") -> Path:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content.encode() if isinstance(content, str) else content)
    return place


def steps(folder: Path, toml: str = "", *names: str) -> Path:
    """A task of steps, each with an instruction and a test script."""
    names = names or ("one", "two")
    tables = "".join(f'[[steps]]\nname = "{name}"\n' for name in names)
    put(folder, "task.toml", toml + tables)
    put(folder, "environment/Dockerfile", "FROM scratch\n")
    for name in names:
        put(folder, f"steps/{name}/instruction.md", f"Do {name}.\n")
        put(folder, f"steps/{name}/tests/test.sh", "#!/bin/bash\n")
    return folder


def test_a_sound_task(make_task: Write) -> None:
    task = read_task(make_task("hello"))
    assert task.problems == ()
    assert (task.name, task.short_name, task.path.name) == ("hello", "hello", "hello")
    assert task.instruction == "Write the word ok into /app/out.txt.\n"
    assert task.test_script == task.path / "tests" / "test.sh"
    assert task.solution_script == task.path / "solution" / "solve.sh"
    assert task.config_file == task.path / "task.toml"
    assert task.has_dockerfile
    assert task.compose_file is None
    assert not task.is_multi_step


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("acme/fix", ("acme/fix", "fix")),
        ("plain", ("plain", "hello")),
        ("a/b/c", ("a/b/c", "hello")),
    ],
)
def test_names(make_task: Write, name: str, expected: tuple[str, str]) -> None:
    task = read_task(make_task("hello", toml=f'[task]\nname = "{name}"\n'))
    assert (task.name, task.short_name) == expected


def test_a_relative_path_is_made_absolute(
    make_task: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_task("hello")
    monkeypatch.chdir(folder.parent)
    assert read_task(Path("hello")).path == folder


def test_strict_refuses_a_task_with_warnings(make_task: Write) -> None:
    folder = make_task("hello", toml="[verifer]\n")
    assert only_warning(folder).field == "verifer"
    with pytest.raises(TaskFormatError, match="verifer"):
        read_task(folder, strict=True)


def test_strict_accepts_a_sound_task_in_an_old_spelling(make_task: Write) -> None:
    toml = '=version = "1.0"\n[environment]\nmemory = "2G"\nallow_internet = false\n'
    assert (
        read_task(make_task("hello", toml=toml), strict=True).config.environment.memory_mb == 2048
    )


HOSTS_WITHOUT_A_LIST = [
    ("[agent]\ntimeout_sec = 5\n\nallowed_hosts = ['a.b']\n", 4),
    ("[environment]\ncpus = 1\nallowed_hosts = [\n  'a.b',\n]\n", 3),
    ("[[steps]]\nname = 'a'\n[steps.verifier]\ntimeout_sec = 5\nallowed_hosts = []\n", 5),
    ("[verifier]\n[verifier.environment]\ncpus = 1\nallowed_hosts = ['a.b']\n", 4),
    ("[agent]\nnetwork_mode = 'public'\nuser = 'x'\nallowed_hosts = ['a.b']\n", 4),
    ("agent.user = 'x'\nagent.allowed_hosts = ['a.b']\n", 2),
]


@pytest.mark.parametrize(("toml", "line"), HOSTS_WITHOUT_A_LIST)
def test_hosts_without_a_list_are_told_with_their_line(
    make_task: Write, toml: str, line: int
) -> None:
    problem = only_error(make_task(toml=f"={toml}"))
    assert "allowed_hosts needs network_mode" in problem.message
    assert (problem.line, problem.field.rpartition(".")[2]) == (line, "allowed_hosts")


# --- task.toml as a file


def test_a_syntax_error_has_line_and_column(make_task: Write) -> None:
    problem = only_error(make_task("c", toml='=a = 1\ndescription = "match \\s+ here"\n'))
    assert (problem.line, problem.column, problem.path.name) == (2, 24, "task.toml")
    assert "Unescaped '\\' in a string" in problem.message
    assert "'literal string'" in problem.message


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (b"\xef\xbb\xbfa = 1", 1, "byte order mark"),
        (b"a = 1\nb = 'caf\xe9'\n", 2, "not UTF-8: byte 0xe9 at offset 14"),
        ("a = 1\n".encode("utf-16-le"), 1, "NUL byte"),
        (b"a = " + b"[" * 5_000, None, "nested"),
        (b"a = " + b"9" * 5_000, None, "4300 digits"),
        (b"a = yes", 1, "Invalid value; text stands in quotes"),
        (b"a = 1\n\n[b\n", 3, "not TOML"),
        (b"a = 1\na = 2\n", 2, "not TOML"),
    ],
)
def test_files_that_are_not_toml(
    make_task: Write, data: bytes, line: int | None, message: str
) -> None:
    problem = only_error(make_task("hello", toml=data))
    assert problem.line == line
    assert message in problem.message


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="the standard parser reads TOML 1.1")
@pytest.mark.parametrize(
    "toml", ["a = {\n  b = 1,\n}", "a = { b = 1, }", 'a = "\\e"', 'a = "\\x41"', "a = 10:20"]
)
def test_newer_toml_than_harbor_reads_is_named(make_task: Write, toml: str) -> None:
    folder = make_task("hello", toml=f"=[metadata]\n{toml}\n")
    problem = only_warning(folder)
    assert problem.line == 2
    assert "not TOML 1.0, so Harbor refuses the task" in problem.message


def test_text_that_only_looks_like_newer_toml(make_task: Write) -> None:
    toml = "=[metadata]\ntext = '''\n{\n \"a\": 1,\n}'''\ntime = 10:20:30\n"
    assert read_task(make_task("hello", toml=toml)).problems == ()


def test_an_empty_task_toml_is_valid(make_task: Write) -> None:
    assert read_task(make_task("hello", toml=b"")).config.verifier.timeout_sec == 600


def test_a_missing_task_toml(tmp_path: Path) -> None:
    assert "missing" in only_error(tmp_path).message


def test_field_errors_have_their_lines_and_come_all_at_once(make_task: Write) -> None:
    toml = "=[agent]\ntimeout_sec = 'x'\n\n[environment]\ncpu = 3\ncpus = 'y'\n"
    folder = make_task("hello", toml=toml, remove=("instruction.md",))
    found = {(p.field, p.line, p.severity) for p in problems_of(folder) if p.field}
    assert found == {
        ("agent.timeout_sec", 2, "error"),
        ("environment.cpus", 6, "error"),
        ("environment.cpu", 5, "warning"),
    }
    assert "instruction.md" in {p.path.name for p in problems_of(folder)}


def test_a_flood_of_problems_is_cut(make_task: Write) -> None:
    folder = make_task("hello", toml="=" + "".join(f"key{n} = 1\n" for n in range(500)))
    problems = problems_of(folder)
    assert len(problems) == 101
    assert "400 problems more" in problems[-1].message


# --- instruction


def test_a_missing_instruction(make_task: Write) -> None:
    problem = only_error(make_task("hello", remove=("instruction.md",)))
    assert problem.path.name == "instruction.md"
    assert "missing" in problem.message


def test_an_empty_instruction(make_task: Write) -> None:
    assert "empty" in only_warning(make_task("hello", instruction="\n \n")).message


def test_an_instruction_that_is_not_text(make_task: Write) -> None:
    assert "not UTF-8 text, at byte 1" in only_error(make_task("h", instruction=b"a\xff")).message


def test_line_ends_of_an_instruction_are_plain(make_task: Write) -> None:
    assert (
        read_task(make_task("hello", instruction=b"\xef\xbb\xbfa\r\nb\r\n")).instruction == "a\nb\n"
    )


def test_a_heading_that_is_taken_for_a_canary_is_named(make_task: Write) -> None:
    folder = make_task("hello", instruction="# Fix the canary deployment\n\nDo it.\n")
    assert read_task(folder).instruction == "Do it.\n"
    assert "# Fix the canary deployment" in only_warning(folder).message


# --- environment


def test_no_environment_names_all_that_would_do(make_task: Write) -> None:
    message = only_error(make_task("hello", remove=("environment",))).message
    for accepted in ("Dockerfile", "docker-compose.yaml", "docker_image"):
        assert accepted in message


def test_an_image_is_an_environment(make_task: Write) -> None:
    folder = make_task("hello", toml='docker_image = "x"\n', remove=("environment",))
    assert not read_task(folder).has_dockerfile


def test_a_compose_file_is_an_environment(make_task: Write) -> None:
    folder = make_task("hello", remove=("environment/Dockerfile",))
    compose = put(folder, "environment/docker-compose.yaml", "services: {}\n")
    assert read_task(folder).compose_file == compose


@pytest.mark.parametrize("name", ["docker-compose.yml", "compose.yaml"])
def test_a_compose_file_of_another_name_is_used_with_a_warning(make_task: Write, name: str) -> None:
    folder = make_task("hello")
    compose = put(folder, f"environment/{name}", "services: {}\n")
    assert only_warning(folder).path.name == name
    assert read_task(folder).compose_file == compose


@pytest.mark.parametrize(
    ("toml", "field", "line"),
    [
        ('=artifacts = ["/a", { source = "/x", service = "db" }]\n', "artifacts[1].service", 1),
        (
            '=[[verifier.collect]]\ncommand = "x"\nservice = "db"\n',
            "verifier.collect[0].service",
            3,
        ),
    ],
)
def test_a_service_needs_a_compose_file(make_task: Write, toml: str, field: str, line: int) -> None:
    folder = make_task("hello", toml=toml)
    problem = only_error(folder)
    assert (problem.field, problem.line) == (field, line)
    put(folder, "environment/docker-compose.yaml", "services: {}\n")
    assert read_task(folder).problems == ()


# --- scripts


def test_no_test_script(make_task: Write) -> None:
    problem = only_error(make_task("hello", remove=("tests",)))
    assert problem.path.name == "tests"
    assert "expected test.sh" in problem.message


@pytest.mark.parametrize("file", ["Dockerfile", "docker-compose.yaml"])
def test_a_separate_verifiers_image_may_bring_the_tests(make_task: Write, file: str) -> None:
    folder = make_task("hello", toml="[verifier.environment]\n", remove=("tests",))
    assert "expected test.sh" in only_error(folder).message
    put(folder, f"tests/{file}")
    box = read_task(folder).verifier_box()
    assert (box.has_tests, box.build_folder) == (True, folder / "tests")


def test_a_separate_verifiers_prebuilt_image_brings_the_tests(make_task: Write) -> None:
    toml = '[verifier.environment]\ndocker_image = "grader"\n'
    task = read_task(make_task("hello", toml=toml, remove=("tests",)))
    assert task.verifier_box().config.docker_image == "grader"


def test_a_separate_verifier_without_an_image_has_the_environments(make_task: Write) -> None:
    toml = '=[environment]\ncpus = 2\n[verifier]\nenvironment_mode = "separate"\n'
    box = read_task(make_task("hello", toml=toml)).verifier_box()
    assert (box.has_tests, box.build_folder.name, box.config.cpus) == (False, "environment", 2)


def test_a_windows_task_has_other_scripts(make_task: Write) -> None:
    folder = make_task("hello", toml='os = "windows"\n')
    messages = [problem.message for problem in problems_of(folder)]
    assert any("expected test.bat" in message for message in messages)
    put(folder, "tests/test.bat", "exit\r\n")
    put(folder, "solution/solve.bat", "exit\r\n")
    assert read_task(folder).problems == ()


@pytest.mark.parametrize(
    ("script", "line", "message"),
    [
        (b"#!/bin/bash\necho a\r\necho b\r\n", 2, "CRLF"),
        (b"echo a\n", 1, "#!"),
        (b"\n \n", None, "empty script"),
    ],
)
@pytest.mark.parametrize("which", ["test", "solve"])
def test_doubtful_scripts(
    make_task: Write, which: str, script: bytes, line: int | None, message: str
) -> None:
    problem = only_warning(make_task("hello", **{which: script}))
    assert problem.line == line
    assert message in problem.message
    assert problem.path.name == f"{which}.sh"


def test_a_missing_solution_is_no_problem(make_task: Write) -> None:
    task = read_task(make_task("hello", remove=("solution",)))
    assert task.problems == ()
    assert task.solution_script is None


def test_a_solution_without_a_script(make_task: Write) -> None:
    folder = make_task("hello", remove=("solution",))
    put(folder, "solution/solve.py")
    assert "no solve.sh" in only_warning(folder).message


# --- steps


def test_a_task_of_steps(tmp_path: Path) -> None:
    folder = steps(tmp_path)
    put(folder, "steps/one/solution/solve.sh", "#!/bin/bash\n")
    put(folder, "steps/one/workdir/setup.sh", "true\n")
    put(folder, "solution/solve.sh", "#!/bin/bash\n")
    put(folder, "instruction.md", "not read")
    task = read_task(folder)
    first, second = task.steps
    assert task.problems == ()
    assert (task.is_multi_step, task.instruction) == (True, "")
    assert (first.name, first.instruction, second.instruction) == ("one", "Do one.\n", "Do two.\n")
    assert first.test_script == folder / "steps/one/tests/test.sh"
    assert first.solution_script == folder / "steps/one/solution/solve.sh"
    assert second.solution_script == folder / "solution/solve.sh"
    assert first.setup_script == folder / "steps/one/workdir/setup.sh"
    assert second.setup_script is None


def test_steps_are_in_the_order_of_the_file(tmp_path: Path) -> None:
    task = read_task(steps(tmp_path, "", "z", "a"))
    assert [step.name for step in task.steps] == ["z", "a"]


def test_the_tasks_test_script_serves_steps_without_one(tmp_path: Path) -> None:
    folder = steps(tmp_path)
    (folder / "steps/two/tests/test.sh").unlink()
    assert "expected test.sh here, nor one for all steps" in only_error(folder).message
    put(folder, "tests/test.sh", "#!/bin/bash\n")
    assert read_task(folder).steps[1].test_script == folder / "tests/test.sh"


def test_missing_parts_of_steps_are_named(tmp_path: Path) -> None:
    folder = steps(tmp_path, '[[steps]]\nname = "gone"\n')
    (folder / "steps/two/instruction.md").unlink()
    errors = {(p.path.relative_to(folder).as_posix(), p.message[:12]) for p in problems_of(folder)}
    assert ("steps/gone", "missing fold") in errors
    assert ("steps/two/instruction.md", "missing; it ") in errors


def test_steps_without_a_table_are_a_single_step_task_without_instruction(tmp_path: Path) -> None:
    folder = steps(tmp_path)
    put(folder, "task.toml", "")
    assert "instruction.md" in {p.path.name for p in problems_of(folder)}


def test_a_steps_own_script_under_an_image_for_all_steps(tmp_path: Path) -> None:
    folder = steps(tmp_path, 'verifier.environment_mode = "separate"\n', "one")
    put(folder, "tests/Dockerfile")
    assert "is not run" in only_warning(folder).message
    put(folder, "steps/one/tests/Dockerfile")
    task = read_task(folder)
    assert task.problems == ()
    assert task.verifier_box(task.steps[0]).build_folder == folder / "steps/one/tests"


# --- links


def link(place: Path, target: str | Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)
    return place


@pytest.mark.parametrize("place", ["tests/data", "solution/data", "tests/deep/data"])
def test_a_link_out_of_the_task(make_task: Write, tmp_path: Path, place: str) -> None:
    put(tmp_path, "secret.txt")
    folder = make_task("hello")
    link(folder / place, tmp_path / "secret.txt")
    problem = only_error(folder)
    assert problem.path == folder / place
    assert repr(str(tmp_path / "secret.txt")) in problem.message
    assert "leaves the task" in problem.message


def test_a_dangling_link_out_of_the_task(make_task: Write) -> None:
    folder = make_task("hello")
    link(folder / "tests/data", "/nowhere/at/all")
    assert "leaves the task" in only_error(folder).message


def test_a_folder_that_is_a_link_out_of_the_task(make_task: Write, tmp_path: Path) -> None:
    folder = make_task("hello")
    (folder / "tests").rename(tmp_path / "elsewhere")
    link(folder / "tests", tmp_path / "elsewhere")
    assert "leaves the task" in only_error(folder).message


@pytest.mark.parametrize("target", [".", "..", "../tests", "loop"])
def test_a_link_in_a_circle(make_task: Write, target: str) -> None:
    folder = make_task("hello")
    link(folder / "tests/loop", target)
    message = only_error(folder).message
    assert "leads in a circle" in message or "leads back" in message


def test_two_folders_that_link_to_each_other(make_task: Write) -> None:
    folder = make_task("hello")
    link(folder / "tests/a/b", "../c")
    link(folder / "tests/c/d", "../a")
    assert {p.severity for p in problems_of(folder)} == {"error"}


def test_links_inside_of_the_task_are_fine(make_task: Write) -> None:
    folder = make_task("hello")
    put(folder, "shared/data/x.txt")
    link(folder / "tests/data", "../shared/data")
    link(folder / "tests/again", "data")
    link(folder / "environment/out", "/etc")
    assert read_task(folder).problems == ()


def test_a_link_to_nothing(make_task: Write) -> None:
    folder = make_task("hello")
    link(folder / "tests/data", "missing.txt")
    assert "leads to nothing" in only_warning(folder).message


def test_a_task_reached_through_a_link(make_task: Write, tmp_path: Path) -> None:
    folder = make_task("hello")
    link(folder / "tests/data", "test.sh")
    link(tmp_path / "linked", folder)
    assert read_task(tmp_path / "linked").name == "linked"


# --- .harborignore


def test_an_ignore_file_must_not_leave_out_the_script(make_task: Write) -> None:
    folder = make_task("hello")
    put(folder, "tests/.harborignore", "*.sh\n")
    problem = only_error(folder)
    assert problem.path.name == ".harborignore"
    assert "leaves out test.sh" in problem.message


@pytest.mark.parametrize("place", [".harborignore", "environment/.harborignore"])
def test_an_ignore_file_elsewhere_has_no_effect(make_task: Write, place: str) -> None:
    folder = make_task("hello")
    put(folder, place, "*.sh\n")
    assert "no effect here" in only_warning(folder).message


def test_an_ignore_file_in_a_steps_other_folders_has_no_effect(tmp_path: Path) -> None:
    folder = steps(tmp_path)
    put(folder, "steps/one/workdir/.harborignore", "*\n")
    assert "no effect here" in only_warning(folder).message


def test_an_ignore_file_that_is_a_folder(make_task: Write) -> None:
    folder = make_task("hello")
    (folder / "tests/sub/.harborignore").mkdir(parents=True)
    assert "must be a regular file" in only_error(folder).message


def test_an_unreadable_pattern_list(make_task: Write) -> None:
    folder = make_task("hello")
    put(folder, "tests/.harborignore", b"\xff\n")
    assert "not a list of patterns" in only_error(folder).message


# --- the whole


def test_a_task_with_everything_wrong_says_everything(make_task: Write) -> None:
    folder = make_task(
        "hello", instruction="", test="echo\r\n", remove=("environment",), toml="cpu = 1\n"
    )
    messages = "\n".join(problem.message for problem in problems_of(folder))
    for part in ("no environment", "empty", "CRLF", "#!", "unknown key"):
        assert part in messages


def test_an_unreadable_file_is_a_problem_of_the_task(make_task: Write) -> None:
    folder = make_task("hello")
    (folder / "instruction.md").unlink()
    os.mkfifo(folder / "instruction.md")
    assert "missing" in only_error(folder).message


def test_tasks_can_be_compared(make_task: Write) -> None:
    folder = make_task("hello")
    assert isinstance(read_task(folder), Task)
    assert read_task(folder) == read_task(folder)
