"""Lines of fields."""

import textwrap

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.task.finding import Location
from pytest_harbor.task.position import TomlPositions

TEXT = textwrap.dedent(
    '''\
    # a comment
    schema_version = "1.4"
    artifacts = [
      "/a",
      { source = "/b", service = "db" },

      "/c",  # [agent]
    ]

    [agent]
    timeout_sec = 5

    [metadata]
    text = """
    [environment]
    cpus = 99
    """
    other = \'\'\'
    a = 1\'\'\'
    environment.cpus = 3

    [environment]
    env = { A = "1", B = "2" }
    healthcheck.command = "x"
    "memory_mb" = 3
    tpu . type = "v5"

    [[steps]]
    name = "one"

    [[steps]]
    name = "two"
      [steps.agent]
      timeout_sec = 3

    [[steps.verifier.collect]]
    command = "x"
    '''
)


def line_of(start: str, occurrence: int = 1) -> int:
    numbers = [n for n, line in enumerate(TEXT.split("\n"), 1) if line.strip().startswith(start)]
    return numbers[occurrence - 1]


@pytest.mark.parametrize(
    ("location", "line"),
    [
        (("schema_version",), line_of("schema_version")),
        (("artifacts",), line_of("artifacts")),
        (("artifacts", 1, "service"), line_of("artifacts")),
        (("artifacts", 2), line_of("artifacts")),
        (("agent",), line_of("[agent]")),
        (("agent", "timeout_sec"), line_of("timeout_sec")),
        (("metadata", "text"), line_of("text")),
        (("metadata", "other"), line_of("other")),
        (("metadata", "environment", "cpus"), line_of("environment.cpus")),
        (("environment",), line_of("[environment]", 2)),
        (("environment", "env", "B"), line_of("env =")),
        (("environment", "healthcheck", "command"), line_of("healthcheck.command")),
        (("environment", "memory_mb"), line_of('"memory_mb"')),
        (("environment", "tpu", "type"), line_of("tpu")),
        (("steps",), line_of("[[steps]]")),
        (("steps", 0), line_of("[[steps]]")),
        (("steps", 0, "name"), line_of('name = "one"')),
        (("steps", 1), line_of("[[steps]]", 2)),
        (("steps", 1, "agent", "timeout_sec"), line_of("timeout_sec", 2)),
        (("steps", 1, "verifier", "collect", 0, "command"), line_of("command")),
        (("steps", 1, "missing"), line_of("[[steps]]", 2)),
        (("agent", "user"), line_of("[agent]")),
        (("missing",), None),
        ((), None),
    ],
)
def test_line_of_a_field(location: Location, line: int | None) -> None:
    assert TomlPositions(TEXT).line(location) == line


def test_windows_line_ends() -> None:
    assert TomlPositions(TEXT.replace("\n", "\r\n")).line(("agent",)) == line_of("[agent]")


def test_a_long_file_takes_few_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"[metadata.t{n}]\nkey = [\n  1,\n]" for n in range(2_500)]
    parses = []
    loads = tomli.loads
    monkeypatch.setattr(tomli, "loads", lambda text: parses.append(1) or loads(text))
    text = "\n".join([*lines, "[agent]", "timeout_sec = 'x'"])
    assert TomlPositions(text).line(("agent", "timeout_sec")) == 10_002
    assert len(parses) < 40


def test_a_text_full_of_lines_like_statements_is_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parses = []
    loads = tomli.loads
    monkeypatch.setattr(tomli, "loads", lambda text: parses.append(1) or loads(text))
    text = "a = 1\nb = '''\n" + "x = 1\n" * 3_000 + "'''\n[agent]\nuser = []\n"
    line = TomlPositions(text).line(("agent", "user"))
    assert line is not None
    assert len(parses) <= 210


KEYS = st.text("abcdefgh_-", min_size=1, max_size=6)
VALUES = st.sampled_from(
    ["1", '"x"', '"""\na = 1\n[b]\n"""', "[\n  1,\n  [2],\n]", "'''\nq = 3'''", "{ a = 1 }"]
)


@given(
    st.dictionaries(
        KEYS, st.dictionaries(KEYS, VALUES, min_size=1, max_size=4), min_size=1, max_size=4
    )
)
def test_every_field_of_any_file_is_found_where_it_was_written(
    tables: dict[str, dict[str, str]],
) -> None:
    lines: list[str] = []
    places: dict[Location, int] = {}
    for table, fields in tables.items():
        lines.append(f"[{table}]")
        places[(table,)] = len(lines)
        for key, value in fields.items():
            places[(table, key)] = len(lines) + 1
            lines += [*f"{key} = {value}".split("\n"), "# comment"]
    positions = TomlPositions("\n".join(lines))
    assert {location: positions.line(location) for location in places} == places
