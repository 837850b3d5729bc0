"""What a dataset's name may be, and what it means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.dataset.spec import (
    FolderSpec,
    GitSpec,
    HubSpec,
    RegistrySpec,
    parse_dataset,
    parse_git,
    parse_task_path,
)
from pytest_harbor.errors import DatasetError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DIGEST = "sha256:" + "ab" * 32
GITHUB = "https://github.com/acme/bench"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("terminal-bench", RegistrySpec("terminal-bench")),
        ("terminal-bench@2.0", RegistrySpec("terminal-bench", "2.0")),
        ("a@b@c", RegistrySpec("a", "b@c")),
        ("acme/bench", HubSpec("acme", "bench", "latest")),
        ("acme/bench@v1", HubSpec("acme", "bench", "v1")),
        ("acme/bench@3", HubSpec("acme", "bench", "3")),
        (f"acme/bench@{DIGEST}", HubSpec("acme", "bench", DIGEST)),
        ("my.org/bench", HubSpec("my.org", "bench", "latest")),
        ("./bench", FolderSpec("./bench")),
        ("../bench@2", FolderSpec("../bench@2")),
        ("/data/bench", FolderSpec("/data/bench")),
        ("~/bench", FolderSpec("~/bench")),
        (GITHUB, GitSpec(GITHUB, "github.com", "acme/bench")),
        (f"{GITHUB}.git@v1", GitSpec(f"{GITHUB}.git", "github.com", "acme/bench", "v1")),
        (f"{GITHUB}/tree/v1", GitSpec(GITHUB, "github.com", "acme/bench", "v1")),
        (f"{GITHUB}/tree/v1/a/b", GitSpec(GITHUB, "github.com", "acme/bench", "v1", "a/b")),
        (f"{GITHUB}/-/tree/v%2F1/a", GitSpec(GITHUB, "github.com", "acme/bench", "v/1", "a")),
        ("github.com/acme/bench@v1", GitSpec(GITHUB, "github.com", "acme/bench", "v1")),
        ("git+acme/bench@v1", GitSpec(f"{GITHUB}.git", "github.com", "acme/bench", "v1")),
        (
            "git@host.example:acme/bench.git@v1",
            GitSpec("git@host.example:acme/bench.git", "host.example", "acme/bench", "v1"),
        ),
        (
            "localhost:8080/acme/bench",
            GitSpec("https://localhost:8080/acme/bench", "localhost:8080", "acme/bench"),
        ),
        (
            "ssh://git@host.example:22/acme/bench",
            GitSpec("ssh://git@host.example:22/acme/bench", "host.example:22", "acme/bench"),
        ),
        (
            "file:///srv/acme/bench.git",
            GitSpec("file:///srv/acme/bench.git", "local", "acme/bench"),
        ),
    ],
)
def test_a_name_has_one_meaning(text, expected):
    assert parse_dataset(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no dataset"),
        ("a b", "names no dataset"),
        ("-upload-pack=x", "names no dataset"),
        ("ext::sh -c id", "names no dataset"),
        ("ext::sh", "git's helpers are not used"),
        ("@1", "expected NAME"),
        ("bench@", "expected NAME"),
        ("acme/bench@V1", "git\\+acme/bench@V1"),
        ("acme/bench@sha256:ab", "64 hexadecimal digits"),
        ("acme/.bench", "expected ORG/NAME"),
        ("a/b/c", "names no dataset"),
        ("ftp://host.example/a/b", "begins with https://"),
        ("https:///a/b", "has a host"),
        ("https://host.example/", "path of a repository"),
        ("https://host.example/-a/b", "path of a repository"),
        ("https://-host.example/a/b", "is no host"),
        (f"{GITHUB}@v1/tree/v2", "@REF at the end"),
        (f"{GITHUB}/tree/v1/a@v2", "two refs"),
        (f"{GITHUB}@-v", "is no branch"),
        (f"{GITHUB}@a..b", "is no branch"),
        (f"{GITHUB}/tree/v1/../../x", "does not stay inside"),
    ],
)
def test_what_is_no_name_is_refused_with_the_forms_that_are(text, said):
    with pytest.raises(DatasetError, match=said):
        parse_dataset(text)


def test_a_folder_is_no_repository():
    with pytest.raises(DatasetError, match="file:///PATH"):
        parse_git("./bench")


@pytest.mark.parametrize("scheme", ["https", "ssh", "git+https"])
def test_a_password_in_a_url_is_refused_and_not_shown(scheme):
    with pytest.raises(DatasetError, match="a password stands in the URL") as caught:
        parse_dataset(f"{scheme}://user:s3cret@host.example/acme/bench@v1")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (f"{GITHUB}@{COMMIT}", f"github.com/acme/bench@{COMMIT[:12]}"),
        (f"{GITHUB}/tree/v1/a/b", "github.com/acme/bench@v1/a/b"),
        (GITHUB, "github.com/acme/bench"),
    ],
)
def test_ids_name_a_repository_as_it_was_named(text, label):
    assert parse_dataset(text).label == label


@given(st.text())
def test_any_text_is_read_or_refused(text):
    try:
        found = parse_dataset(text)
    except DatasetError:
        return
    if isinstance(found, GitSpec):
        assert not found.url.startswith("-")
        assert "::" not in found.url
        assert found.ref is None or not found.ref.startswith("-")


_PART = st.sampled_from(["a", "b", "..", ".", "", "c d"])


@given(st.lists(_PART, max_size=6))
def test_a_tasks_path_stays_inside_or_is_refused(parts):
    try:
        found = parse_task_path("/".join(parts))
    except DatasetError:
        return
    assert ".." not in found.split("/")
    assert not found.startswith("/")


@pytest.mark.parametrize(
    "url",
    ["https://user:s3cret@host.example", "https://user:s3cret@[bad/x", "file://u:s3cret@h/x"],
)
def test_a_password_is_not_shown_where_the_url_is_none(url):
    with pytest.raises(DatasetError, match="a password stands in the URL") as caught:
        parse_dataset(url)
    assert "s3cret" not in str(caught.value)
