"""``python -m pytest_harbor new`` writes tasks that are sound at once."""

from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.__main__ import main
from pytest_harbor.check.run import check_task
from pytest_harbor.start.new_task import VARIANTS
from pytest_harbor.task.reader import read_task


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_reads_and_checks_without_a_word(variant: str) -> None:
    assert main(["new", "tasks/first", f"--variant={variant}"]) == 0
    task = read_task(Path("tasks/first"), strict=True)
    assert check_task(task, None) == ()
    assert "{{" not in "".join(p.read_text() for p in task.path.rglob("*") if p.is_file())


@pytest.mark.parametrize("variant", VARIANTS)
def test_flags_fill_in_the_package_and_the_metadata(variant: str) -> None:
    arguments = ["--org=acme", "--author=A. B <a@b.example>", '--author=C "D"', "--metadata=a=b=c"]
    assert main(["new", "first", f"--variant={variant}", *arguments, "--image=debian:12.5"]) == 0
    task = read_task(Path("first"), strict=True)
    assert task.config.task is not None
    assert task.config.task.name == "acme/first"
    assert [(one.name, one.email) for one in task.config.task.authors] == [
        ("A. B", "a@b.example"),
        ('C "D"', None),
    ]
    assert task.config.metadata == {"a": "b=c"}
    assert all(
        "FROM debian:12.5\n" in path.read_text() for path in Path("first").rglob("Dockerfile")
    )
    assert check_task(task, None) == ()


def test_each_variant_is_what_it_says() -> None:
    for variant in VARIANTS:
        assert main(["new", variant, f"--variant={variant}"]) == 0
    tasks = {variant: read_task(Path(variant)) for variant in VARIANTS}
    assert [step.name for step in tasks["multi-step"].steps] == ["sum", "count"]
    assert [name for name, one in tasks.items() if one.verifier_mode() == "separate"] == [
        "separate-verifier"
    ]
    assert [name for name, one in tasks.items() if one.compose_file] == ["compose"]
    assert (tasks["python-tests"].tests_dir / "test_outputs.py").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["taken"], "taken: is there already; nothing was written"),
        (["file/below"], "file/below: Not a directory"),
        (["-x"], ""),
        (["a b"], "NAME: expected letters, digits and . _ -"),
        (["a..b"], "no two dots, got 'a..b'"),
        (["new", "--org=a/b"], "--org: expected letters"),
        (["new", "--image=a b"], "--image: expected an image as debian:bookworm-slim, got 'a b'"),
        (["new", "--author=A"], "give its organisation with --org"),
        (["new", "--metadata=a b=c"], "--metadata: expected KEY=VALUE"),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_is_touched(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("taken").mkdir()
    Path("file").write_text("mine")
    try:
        status = main(["new", *arguments])
    except SystemExit as error:  # argparse's own
        status = int(str(error.code))
    assert status in (2, 4)
    assert words in capsys.readouterr().err
    assert [path.name for path in sorted(Path().rglob("*"))] == ["file", "taken"]
    assert Path("file").read_text() == "mine"


def test_the_last_line_says_how_to_prove_it(capsys: pytest.CaptureFixture[str]) -> None:
    main(["new", "my tasks/first"])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "prove it: pytest --harbor-check --harbor-tasks=first 'my tasks'"


@pytest.mark.docker
def test_a_new_task_passes_the_check_that_it_names(
    pytester: pytest.Pytester, engine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pytester.chdir()
    assert main(["new", "tasks/first"]) == 0
    command = capsys.readouterr().out.splitlines()[-1].removeprefix("prove it: pytest ").split()
    result = pytester.runpytest_subprocess(*command)
    result.assert_outcomes(passed=3)
    result.stdout.no_fnmatch_line("*warning*")


@pytest.mark.docker
@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_passes_the_full_check(
    pytester: pytest.Pytester, engine: Any, variant: str
) -> None:
    pytester.chdir()
    assert main(["new", "tasks/first", f"--variant={variant}"]) == 0
    result = pytester.runpytest_subprocess("--harbor-check=full", "tasks")
    assert result.ret == 0, result.stdout.str()
    assert result.parseoutcomes()["passed"] >= 6
