"""Dockerfiles, shell scripts, ways to a reward, cuts and datasets, each by itself."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_harbor.check.compose import services
from pytest_harbor.check.dataset import Dataset
from pytest_harbor.check.dockerfile import read_dockerfile
from pytest_harbor.check.mutants import cuts, mutants
from pytest_harbor.check.reward_paths import rewardless_ends
from pytest_harbor.check.run import dataset_of
from pytest_harbor.check.shell import read_script
from pytest_harbor.task.reader import read_task

R = "/logs/verifier/reward.txt"
SHELL = st.lists(
    st.sampled_from(
        ["if a; then", "fi", "else", "elif b", "case x in", "esac", "*)", ";;", "f() {", "}", "f",
         "exit", "exit 0", "set -e", f"echo 1 > {R}", "||", "&&", "|", "!", "<<EOF", "EOF", "(",
         ")", "for x in y; do", "done", "$(", "'", '"', "\\", "exec a", "pytest /tests", "return"]
    )
    | st.text(max_size=5)
).map(lambda parts: "\n".join(parts))  # fmt: skip


def instructions(text: str) -> list[tuple[str, str, int]]:
    found = read_dockerfile(Path("Dockerfile"), text).instructions
    return [(one.keyword, one.value, one.line) for one in found]


def test_lines_are_joined_and_remarks_among_them_left_out() -> None:
    text = "# top\nFROM a:1\nRUN x && \\\n# why\n\n  y\nCMD z\n"
    assert instructions(text) == [
        ("FROM", "a:1", 2),
        ("RUN", "x && \n\n\n  y", 3),
        ("CMD", "z", 7),
    ]


def test_a_heredoc_is_no_instruction() -> None:
    text = "RUN <<EOF\nFROM b\nEOF\nCOPY <<-'A' <<B /x/\none\nA\ntwo\nB\nUSER me\n"
    assert [one[0] for one in instructions(text)] == ["RUN", "COPY", "USER"]
    first = read_dockerfile(Path("Dockerfile"), text).instructions[0]
    assert first.heredoc == "FROM b"


def test_another_escape_character() -> None:
    assert instructions("# escape=`\nRUN a `\n  b\nRUN c\\\n")[-1] == ("RUN", "c\\", 4)


def test_stages_know_their_arguments() -> None:
    text = "ARG V=3.12\nARG W\nFROM --platform=x python:${V}-slim AS Base\nFROM base\nFROM a:$W\n"
    stages = read_dockerfile(Path("Dockerfile"), text).stages
    assert [(one.image, one.name, one.platform) for one in stages] == [
        ("python:3.12-slim", "base", "x"),
        ("base", "", ""),
        ("a:$W", "", ""),
    ]


@given(
    st.text()
    | st.lists(st.sampled_from(["RUN <<E", "E", "\\", "FROM", "COPY [", "# escape=`"])).map(
        "\n".join
    )
)
def test_any_text_can_be_read_as_a_dockerfile(text: str) -> None:
    dockerfile = read_dockerfile(Path("Dockerfile"), text)
    last = len(text.splitlines())
    assert all(1 <= one.line <= last for one in dockerfile.instructions)
    assert all(isinstance(word, str) for one in dockerfile.instructions for word in one.words)
    assert len(dockerfile.stages) <= len(dockerfile.instructions)


@given(st.text() | SHELL)
@example(";;fi")
def test_any_text_can_be_read_as_a_script(text: str) -> None:
    script = read_script(text)
    last = text.count("\n") + 1
    assert all(1 <= command.line <= last for command in script.commands())
    assert all(1 <= end.line <= last for end in rewardless_ends(script))
    assert all(1 <= first <= end <= last for first, end in cuts(text))


@given(st.text(alphabet="services:main\n -[]{}&*a1|>'\"", max_size=60))
def test_any_text_can_be_read_as_a_compose_file(text: str) -> None:
    assert all(one.line >= 1 for one in services(text))


def test_words_of_a_command() -> None:
    text = "FOO=1 sudo timeout 5 pip install 'a==1' \"b c\"\n"
    (command,) = read_script(text).commands()
    assert (command.name, command.plain[1:]) == ("pip", ("install", "a==1", "b c"))


ALWAYS = {
    "an else": f"pytest\nif [ $? = 0 ]; then\necho 1 > {R}\nelse\necho 0 > {R}\nfi\n",
    "and, or": f"pytest && echo 1 > {R} || echo 0 > {R}\n",
    "no verdict on purpose": f'if [ "$PWD" = / ]; then exit 1; fi\necho 1 > {R}\n',
    "a trap": f"trap 'echo 0 > {R}' EXIT\nset -e\npytest /tests\n",
    "a variable": f'OUT={R}\nif pytest; then echo 1 > "$OUT"; else echo 0 > $OUT; fi\n',
    "a function": f"die() {{ echo 0 > {R}; exit 0; }}\npytest || die\necho 1 > {R}\n",
    "a case with a default": f"case $x in a) echo 1 > {R};; *) echo 0 > {R};; esac\n",
    "a zero first": f"set -e\necho 0 > {R}\npytest /tests\necho 1 > {R}\n",
    "a condition under set -e": f"set -e\nif pytest; then echo 1 > {R}; else echo 0 > {R}; fi\n",
    "set +e": f"set -e\nset +e\npytest /tests\nset -e\necho 1 > {R}\n",
    "a status kept": f"set -e\nrc=0\npytest /tests || rc=$?\necho $rc > {R}\n",
    "not": f"if ! pytest; then echo 0 > {R}; exit 0; fi\necho 1 > {R}\n",
    "a heredoc": f"python3 - <<E\nopen('{R}')\nE\n",
    "tee": f"pytest\necho $? | tee {R}\n",
}
NOT_ALWAYS = {
    "no else": (f"if pytest; then\necho 1 > {R}\nfi\n", 3),
    "set -e": (f"set -e\npytest /tests\necho 1 > {R}\n", 2),
    "an exit": ("pytest\nexit $?\n", 2),
    "an exit in a branch": (f"if a; then\nexit 0\nfi\necho 1 > {R}\n", 2),
    "a case without a default": (f"case $x in a) echo 1 > {R};; esac\n", 1),
    "an elif": (f"if a; then echo 1 > {R}; elif b; then echo; else echo 0 > {R}; fi\n", 1),
    "only and": (f"pytest && echo 1 > {R}\n", 1),
    "a function that ends it": (f"die() {{\nexit 0\n}}\nx || die\necho 1 > {R}\n", 2),
    "exec": (f"exec pytest\necho 1 > {R}\n", 1),
}


@pytest.mark.parametrize("name", ALWAYS)
def test_a_reward_on_every_way(name: str) -> None:
    assert rewardless_ends(read_script("#!/bin/bash\n" + ALWAYS[name])) == []


@pytest.mark.parametrize("name", NOT_ALWAYS)
def test_a_way_without_a_reward(name: str) -> None:
    text, line = NOT_ALWAYS[name]
    assert [end.line for end in rewardless_ends(read_script(text))] == [line]


def test_cuts_are_runs_of_statements_that_do_something() -> None:
    lines = ["#!/bin/bash", "set -e", "cd /app", "touch a", "mkdir b", "touch c", "# x"]
    text = "\n".join([*lines, "touch d", "touch e", "echo done", ""])
    assert cuts(text) == [(4, 4), (6, 6), (8, 9)]


def test_a_single_heredoc_loses_its_later_half() -> None:
    body = "".join(f"line {n}\n" for n in range(10))
    assert cuts(f"cat > /app/x <<EOF\n{body}EOF\n") == [(7, 11)]


def test_a_single_statement_is_not_cut() -> None:
    assert cuts("#!/bin/bash\ncd /app\npython3 /solution/solve.py\n") == []


def test_mutants_of_a_task(make_task: Callable[..., Path]) -> None:
    task = read_task(make_task(solve="#!/bin/bash\ntouch a\ntouch b\n"))
    assert [(one.lines, one.text) for one in mutants(task)] == [
        ("line 2", "#!/bin/bash\n:\ntouch b\n"),
        ("line 3", "#!/bin/bash\ntouch a\n:\n"),
    ]


def text_of(words: int, start: int = 0) -> str:
    return " ".join(f"word{n}" for n in range(start, start + words))


def codes_in(dataset: Dataset, folder: Path) -> list[str]:
    return [found.code for found in dataset.find(folder, 0.8)]


def test_near_copies_in_a_dataset(make_task: Callable[..., Path]) -> None:
    first = make_task("a", instruction=text_of(200))
    make_task("b", instruction=text_of(200, 5))
    other = make_task("c", instruction=text_of(200, 100))
    dataset = dataset_of([first])
    assert set(dataset.members) == {first, first.parent / "b", other}
    assert codes_in(dataset, first) == ["similar-instruction"]
    assert codes_in(dataset, other) == []


def test_names_that_repeat(make_task: Callable[..., Path]) -> None:
    name = '[task]\nname = "org/x"\n'
    first = make_task("a", toml=name, instruction=text_of(30))
    make_task("b", toml=name, instruction=text_of(30, 50))
    assert codes_in(dataset_of([first]), first) == ["duplicate-name"]


def test_a_thousand_tasks_are_not_compared_each_with_each(tmp_path: Path) -> None:
    folders = []
    for number in range(1000):
        folder = tmp_path / f"t{number}"
        folder.mkdir()
        (folder / "task.toml").write_text("")
        shared = "you have some seconds to complete this task and may not cheat at all. "
        (folder / "instruction.md").write_text(shared + text_of(300, number * 1000))
        folders.append(folder)
    dataset = Dataset(folders)
    assert [codes_in(dataset, folder) for folder in folders] == [[]] * 1000
    longest = max(len(holders) for holders in dataset._by_run.values() if len(holders) <= 50)
    assert longest < 50, "only runs that few tasks share are looked up"
