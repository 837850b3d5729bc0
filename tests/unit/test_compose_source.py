"""What a compose file makes compose read, told before compose reads it."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.environment.docker.compose_source import (
    MAX_FILE_BYTES,
    SourceScan,
    parse,
)
from pytest_harbor.errors import ComposeFileError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task's environment folder, and something outside of the task."""
    (tmp_path / "outside.env").write_text("SECRET=1\n")
    folder = tmp_path / "task" / "environment"
    folder.mkdir(parents=True)
    (folder / "own.env").write_text("A=1\n")
    return folder


def refused(folder: Path, text: str, **variables: str) -> list[str]:
    file = folder / "docker-compose.yaml"
    file.write_text(text)
    scan = SourceScan(folder.parent, folder, {"CONTEXT_DIR": str(folder), **variables})
    scan.scan(file)
    return [refusal.key for refusal in scan.refusals]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("services: {main: {env_file: ../../outside.env}}", "env_file"),
        ("services: {main: {env_file: [own.env, /etc/environment]}}", "env_file"),
        ("services: {main: {env_file: [{path: ../../outside.env}]}}", "env_file"),
        ("services: {main: {'env\\x5ffile': a, \"env\\x5ffile\": /etc/environment}}", "env_file"),
        ("services: {main: {label_file: /etc/environment}}", "label_file"),
        ("services: {main: {extends: {file: /etc/x.yaml, service: a}}}", "extends.file"),
        ("include: [../../other.yaml]", "include.path"),
        ("include: [{path: [a.yaml, /b.yaml]}]", "include.path"),
        ("include: [{path: a.yaml, project_directory: /srv}]", "include.project_directory"),
        ("include: [{path: a.yaml, env_file: /etc/environment}]", "include.env_file"),
        ("include: ['https://example.com/repository.git']", "include.path"),
        ("include: ['oci://example.com/x']", "include.path"),
        ("x-a: &a {env_file: /etc/environment}\nservices: {main: {<<: *a}}", "env_file"),
        ("services: {main: {env_file: '${HOME}/.env'}}", "env_file"),
        ("services: {main: {env_file: '${CONTEXT_DIR:-/etc/environment}'}}", "env_file"),
        ("services: {main: {env_file: '${CONTEXT_DIR}/../../outside.env'}}", "env_file"),
        ('services: {main: {env_file: "a\\0b"}}', "env_file"),
    ],
)
def test_what_lies_outside_the_task_is_refused(folder: Path, text: str, key: str) -> None:
    assert key in refused(folder, text)


@pytest.mark.parametrize(
    "text",
    [
        "services: {main: {env_file: own.env}}",
        "services: {main: {env_file: [{path: '${CONTEXT_DIR}/own.env', required: false}]}}",
        "services: {main: {extends: {service: base}}, base: {extends: base2}}",
        "services: {main: {extends: {file: ../common.yaml, service: base}}}",
        "services: {main: {environment: {A: /etc/environment}, env_file: null}}",
        "include: [more.yaml]",
    ],
)
def test_the_tasks_own_files_are_read(folder: Path, text: str) -> None:
    assert refused(folder, text) == []


def test_links_out_of_the_task_are_refused(folder: Path) -> None:
    (folder / "link.env").symlink_to(folder.parent.parent / "outside.env")
    assert refused(folder, "services: {main: {env_file: link.env}}") == ["env_file"]
    (folder / ".env").symlink_to("/etc/environment")
    assert refused(folder, "services: {main: {}}") == [".env"]


def test_included_files_are_looked_at_as_well(folder: Path) -> None:
    (folder / "more.yaml").write_text("include: [third.yaml]")
    (folder / "third.yaml").write_text("services: {a: {env_file: /etc/environment}}")
    assert refused(folder, "include: [more.yaml]") == ["env_file"]


def test_files_that_include_each_other_come_to_an_end(folder: Path) -> None:
    (folder / "more.yaml").write_text("include: [docker-compose.yaml]")
    assert refused(folder, "include: [more.yaml]") == []


def bomb(levels: int) -> str:
    lines = ["x-0: &x0 [a, a, a, a, a, a, a, a, a]"]
    for level in range(1, levels):
        aliases = ", ".join([f"*x{level - 1}"] * 9)
        lines.append(f"x-{level}: &x{level} [{aliases}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(bomb(9), "aliases unfold to", id="alias-bomb"),
        pytest.param("a: &a [*a]", "an alias stands inside", id="endless"),
        pytest.param("a: " + "[" * 200 + "]" * 200, "nested deeper than", id="deep"),
        pytest.param("a: " + "x" * 2_000_000, "has 2,000,003 bytes", id="two-megabytes"),
        pytest.param("a: [b\nc", "not valid YAML", id="broken"),
        pytest.param("a: \x07", "not valid YAML", id="control-character"),
        pytest.param("? !!binary ZW52X2ZpbGU=\n: /etc/environment", "!!binary", id="hidden-key"),
    ],
)
def test_what_compose_would_choke_on_is_refused_at_once(
    folder: Path, text: str, words: str
) -> None:
    file = folder / "docker-compose.yaml"
    file.write_text(text)
    with pytest.raises(ComposeFileError, match=words) as raised:
        parse(file)
    assert str(file) in str(raised.value)


def test_an_honest_large_file_is_accepted(folder: Path) -> None:
    file = folder / "docker-compose.yaml"
    rows = "\n".join(f"  - row {number}" for number in range(50_000))
    file.write_text(f"x-rows:\n{rows}\n")
    assert file.stat().st_size < MAX_FILE_BYTES
    assert len(parse(file)) == 1


_paths = st.text(st.sampled_from("abc./~${}"), max_size=12)


@given(text=_paths)
def test_no_text_of_a_path_breaks_the_scan_or_leaves_the_task(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.mktemp("task") / "environment"
    folder.mkdir()
    quoted = "'" + text.replace("'", "''") + "'"
    found = refused(folder, f"services: {{main: {{env_file: [{quoted}]}}}}")
    if not found:
        assert "$" not in text
        assert (folder / os.path.expanduser(text)).resolve().is_relative_to(folder.parent.resolve())
