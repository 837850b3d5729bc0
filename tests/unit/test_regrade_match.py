"""An item that is graded again gets its own task's trial, or none."""

from typing import Any

import pytest

from pytest_harbor.errors import UnsupportedError
from pytest_harbor.plugin.regrade_match import Matches, Named
from pytest_harbor.report.trial import Trial, task_id_of

VARIANT = ("oracle", "", 1)


def trial(path: str, *, item: str = "", task_id: str = "", **more: Any) -> Trial:
    known = {"name": path, "task": "x", "agent": "oracle", "attempt": 1}
    return Trial(**(known | more), task_path=path, item=item, task_id=task_id)


def item(path: str, *, nodeid: str = "", task_id: str = "") -> Named:
    return Named(VARIANT, nodeid or f"{path}/task.toml::oracle", path, task_id)


def git_id(path: str, commit: str) -> str:
    place = {"git_url": "https://host.invalid/a.git", "path": path, "git_commit_id": commit}
    return task_id_of("tb", place)


def matched(trials: list[Trial], items: list[Named]) -> list[str]:
    matches = Matches(trials, items)
    return [matches.trial_of(one).task_path for one in items]


def test_tasks_of_one_name_at_a_new_commit_get_their_own_trials() -> None:
    old = [trial(f"/c/0/{p}/hello", task_id=git_id(f"{p}/hello", "0")) for p in "ab"]
    new = [item(f"/c/1/{p}/hello", task_id=git_id(f"{p}/hello", "1")) for p in "ab"]
    assert matched(old, new) == ["/c/0/a/hello", "/c/0/b/hello"]


def test_a_package_is_found_whatever_its_digest() -> None:
    package = task_id_of("tb", {"org": "o", "name": "n", "ref": "sha256:0"})
    assert package == task_id_of("tb", {"org": "o", "name": "n", "ref": "sha256:1"})
    assert matched([trial("/c/0/n", task_id=package)], [item("/c/1/m", task_id=package)])


def test_versions_that_share_a_task_get_their_own_trials() -> None:
    ids = [f"tb@{version}/hello/task.toml::oracle" for version in (1, 2)]
    old = [trial("/c/hello", item=one, name=one) for one in ids]
    new = [item("/c/hello", nodeid=one) for one in ids]
    assert [Matches(old, new).trial_of(one).name for one in new] == ids


def test_an_id_that_is_another_tasks_from_here_is_not_followed() -> None:
    id_ = "hello/task.toml::oracle"
    old = [trial("/p/hello", item=id_), trial("/p/x/hello", item=f"x/{id_}")]
    assert matched(old, [item("/p/x/hello", nodeid=id_)]) == ["/p/x/hello"]


def test_a_name_that_is_unique_finds_a_task_that_lies_elsewhere_now() -> None:
    assert matched([trial("/then/hello")], [item("/now/hello")]) == ["/then/hello"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            ["/then/a/hello", "/then/b/hello"],
            ["/now/hello"],
            "that job has two trials of that name",
        ),
        (["/then/hello"], ["/now/a/hello", "/now/b/hello"], "this run has two trials of that name"),
        (["/then/hello"], ["/now/other"], "no trial of it"),
    ],
)
def test_what_could_be_another_tasks_is_not_graded(
    old: list[str], new: list[str], words: str
) -> None:
    with pytest.raises(UnsupportedError, match=words):
        matched([trial(path) for path in old], [item(path) for path in new])


def test_another_task_of_the_dataset_is_not_taken_for_its_name() -> None:
    old = [trial("/c/0/a/hello", task_id=git_id("a/hello", "0"))]
    with pytest.raises(UnsupportedError, match="no trial of it"):
        matched(old, [item("/c/1/b/hello", task_id=git_id("b/hello", "1"))])


def test_only_the_last_run_of_an_attempt_and_the_same_variant_are_graded() -> None:
    old = [trial("/t/hello", superseded=True), trial("/t/hello", agent="nop")]
    with pytest.raises(UnsupportedError, match="no trial of it"):
        matched(old, [item("/t/hello")])
