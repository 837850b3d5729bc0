"""Definition files of Apptainer as Dockerfiles; that they build is tested with an engine."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.environment.docker.apptainer import MAX_LINE_BYTES, dockerfile_for
from pytest_harbor.environment.docker.apptainer_environment import docker_quoted
from pytest_harbor.errors import ImageBuildError, UnsupportedError

HEADER = "Bootstrap: docker\nFrom: debian:bookworm-slim\n"

Translate = Callable[[str], list[str]]


@pytest.fixture
def translate(tmp_path: Path) -> Translate:
    def translating(text: str) -> list[str]:
        path = tmp_path / "Apptainer.def"
        path.write_text(text)
        return dockerfile_for(path).splitlines()

    return translating


def commands(lines: list[str]) -> list[list[str]]:
    """The arguments of each RUN."""
    return [json.loads(line.removeprefix("RUN ")) for line in lines if line.startswith("RUN ")]


def test_least(translate: Translate):
    assert translate("# mine\n\nBootstrap: docker\nFrom: Debian:Book # c\n")[1:] == [
        "FROM Debian:Book",
        "USER root",
        "ENTRYPOINT []",
    ]


def test_where_the_image_below_comes_from(translate: Translate):
    text = "bootstrap: docker\nregistry: hub.example:5000\nnamespace: acme\nfrom: base@sha256:ab\n"
    assert "FROM hub.example:5000/acme/base@sha256:ab" in translate(text)
    assert "FROM mine:1" in translate("BootStrap: docker-daemon\nFrom: mine:1\n")


def test_a_script_stays_one_script(translate: Translate):
    body = 'if true; then\n  cd /opt\n    cat <<EOF >a\n  %s $X `date` "q"\nEOF\nfi'
    (command,) = commands(translate(f"{HEADER}%post\n{body}\n\n%help\nNothing.\n"))
    assert command == ["/bin/sh", "-ex", "-c", f"cd /\n{body}\n"]


def test_a_script_for_another_shell(translate: Translate):
    (command,) = commands(translate(f"{HEADER}%post -c /bin/bash\n[[ 1 ]]\n"))
    assert command == ["/bin/bash", "-c", "cd /\n[[ 1 ]]\n"]


VARIABLES = [
    ("export A=1", ['A="1"']),
    ("A=1 # why", ['A="1"']),
    ("  export A=1 B='x y'", ['A="1"', 'B="x y"']),
    ("A=1; export A", ['A="1"']),
    ("export PATH=/opt/bin:$PATH", ['PATH="/opt/bin:$PATH"']),
    ('P="${P:-/a}/b"', ['P="${P:-/a}/b"']),
    ("A='$P'", ['A="\\$P"']),
    (r'A="\$P \"q\" \\ \n"', ['A="\\$P \\"q\\" \\\\ \\\\n"']),
    ("A=a\\ b", ['A="a b"']),
    ("A=", ['A=""']),
    ("A='a'\"b\"c", ['A="abc"']),
    ("A=1 \\\nB=2", ['A="1"', 'B="2"']),
    ("# only this", []),
    ("A=costs$", ['A="costs\\$"']),
    ("A=*.txt?x=1", ['A="*.txt?x=1"']),
]


@pytest.mark.parametrize(("text", "expected"), VARIABLES)
def test_variables(translate: Translate, text: str, expected: list[str]):
    lines = translate(f"{HEADER}%environment\n{text}\n")
    assert [line.removeprefix("ENV ") for line in lines if line.startswith("ENV ")] == expected


@pytest.mark.parametrize(
    "text",
    [
        ". /opt/setup.sh",
        "A=$(date)",
        "A=`date`",
        'A="$(date)"',
        'A="`date`"',
        "A=$HOME/x",
        "A=~/x",
        "A=${B%x}",
        "A=1 && B=2",
        "if true; then A=1; fi",
        "unset A",
    ],
)
def test_what_is_more_than_variables_is_refused_by_name(translate: Translate, text: str):
    with pytest.raises(UnsupportedError, match=r"Apptainer.def:5: .*%environment"):
        translate(f"{HEADER}\n%environment\n{text}\n")


def test_labels(translate: Translate):
    lines = translate(f'{HEADER}%labels\n  Author\tA. "B" $C\n# no\nVersion 1\nBare\n')
    assert [line for line in lines if line.startswith("LABEL")] == [
        'LABEL "Author"="A. \\"B\\" \\$C"',
        'LABEL "Version"="1"',
        'LABEL "Bare"=""',
    ]


def test_scripts_lie_where_apptainer_has_them(translate: Translate):
    lines = translate(f'{HEADER}%runscript\necho "$@"\n%startscript\n#!/bin/bash\nserve\n')
    run, start = commands(lines)
    assert run[-1] == '#!/bin/sh\necho "$@"\n'
    assert start[-1] == "#!/bin/bash\nserve\n"
    entry = json.loads(lines[-1].removeprefix("ENTRYPOINT "))
    assert "/.singularity.d/startscript & exec" in entry[2]


def test_files(translate: Translate, tmp_path: Path):
    for name in ("a.txt", "b.txt", "data/x", "sp ace", "[odd]$"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    lines = translate(
        f"{HEADER}%files\n  a.txt\n*.txt /all\ndata /opt\n'sp ace' /new/  # why\n'[odd]$' /odd\n"
    )
    copies = [json.loads(line.removeprefix("COPY ")) for line in lines if line.startswith("COPY")]
    assert [source for source, _ in copies] == [
        "a.txt", "a.txt", "b.txt", "data", "sp ace", "[[]odd]\\$",
    ]  # fmt: skip
    (script,) = commands(lines)
    moves = script[2].splitlines()
    assert "mkdir -p /all" in moves
    assert any(line.startswith("cp ") and line.endswith(" /new/") for line in moves)
    assert any(line.startswith("cp ") and line.endswith("/data /opt") for line in moves)


@pytest.mark.parametrize("source", ["/etc/passwd", "../task.toml", "a/../../x"])
def test_files_from_outside_are_refused(translate: Translate, source: str):
    with pytest.raises(UnsupportedError, match=r"Apptainer.def:4: .*outside"):
        translate(f"{HEADER}%files\n{source} /x\n")


def test_files_that_are_not_there_are_named(translate: Translate):
    with pytest.raises(ImageBuildError, match=r"Apptainer.def:4: gone.txt: no such file"):
        translate(f"{HEADER}%files\ngone.txt /x\n")


@pytest.mark.parametrize("line", ["a b c", "'a"])
def test_files_that_cannot_be_read(translate: Translate, line: str):
    with pytest.raises(ImageBuildError, match=r"Apptainer.def:4: "):
        translate(f"{HEADER}%files\n{line}\n")


def test_stages(translate: Translate):
    lines = translate(
        f"{HEADER}Stage: Build\n%post\ntouch /made\n%runscript\nno\n"
        f"{HEADER}Stage: final\n%files from Build\n/made /opt/made\n"
    )
    assert "FROM debian:bookworm-slim AS build" in lines
    assert 'COPY --from=build ["/made", "/.pytest-harbor-files/1-0/1/made"]' in lines
    assert sum(line.startswith("ENTRYPOINT") for line in lines) == 1
    assert "runscript" not in "\n".join(lines)


def test_arguments_have_their_defaults(translate: Translate):
    text = f"{HEADER}%arguments\n  WHO=world\n%post\necho {{{{ WHO }}}}\n"
    assert commands(translate(text))[0][-1] == "cd /\necho world\n"
    with pytest.raises(ImageBuildError, match="OTHER"):
        translate(text.replace("{{ WHO", "{{ OTHER"))
    without = f"{HEADER}%post\necho {{{{ WHO }}}}\n"
    assert commands(translate(without))[0][-1] == "cd /\necho {{ WHO }}\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Bootstrap: library\nFrom: x\n", "Bootstrap: library"),
        ("Bootstrap: debootstrap\nOSVersion: 12\n", "docker or docker-daemon"),
        (f"{HEADER}%setup\ncp a b\n", "%setup runs on the host"),
        (f"{HEADER}%test\ntrue\n", "%test is run by Apptainer"),
        (f"{HEADER}%apprun x\ntrue\n", "%apprun has no counterpart"),
        (f"{HEADER}%post\necho A=1 >> $APPTAINER_ENVIRONMENT\n", "%environment"),
        (f"{HEADER}%post\n{'x' * MAX_LINE_BYTES}\n", "copy that with %files"),
    ],
)
def test_what_only_apptainer_can_do_is_refused(translate: Translate, text: str, reason: str):
    with pytest.raises(UnsupportedError, match=r"Apptainer.def:\d+: ") as caught:
        translate(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("From: x\n", "expected a line such as"),
        ("Bootstrap: docker\n", "no name of an image"),
        ("Bootstrap: docker\nFrom: a b\n", "no name of an image"),
    ],
)
def test_what_is_no_definition_file(translate: Translate, text: str, reason: str):
    with pytest.raises(ImageBuildError, match=reason):
        translate(text)


@given(st.text(st.characters(exclude_categories=("Cs", "Cc"))))
def test_quoted_words_stay_one_line_and_closed(text: str):
    quoted = docker_quoted(text)
    assert "\n" not in quoted
    inside = quoted[1:-1].replace("\\\\", "").replace('\\"', "").replace("\\$", "")
    assert not set('"$\\') & set(inside)
