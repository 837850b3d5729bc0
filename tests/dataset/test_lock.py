"""A job's lock: what it holds, and what another run is told of."""

import json

import pytest

from pytest_harbor.dataset.place import RegistryReading
from pytest_harbor.errors import OptionError
from pytest_harbor.trial.lock import (
    Conditions,
    differences,
    lock_json,
    read_lock,
    seen_differences,
)

DIGEST = "sha256:" + "1" * 64
ITEM = "bench@1.0/hello/task.toml::oracle"
RETRY = {"retries": 2, "include": [], "exclude": ["HealthcheckError"], "waits": {}}
TRIAL = {
    "item": ITEM,
    "task_digest": DIGEST,
    "task_name": "acme/hello",
    "task": {"path": "/cache/hello", "source": "bench"},
    "agent": {"name": "oracle", "model_name": None},
    "agent_version": "1.0",
    "images": ["x@sha256:1"],
}


def _registry(digit: str, place: str = "https://a.example/registry.json") -> dict[str, str]:
    return {"place": place, "digest": "sha256:" + digit * 64}


def _script(digit: str) -> dict[str, str]:
    return {"name": "metric.py", "digest": "sha256:" + digit * 64}


SCRIPT = {"type": "uv-script", "script": _script("1")}
DATASET = {
    "asked": "bench@1.0",
    "registry": _registry("1"),
    "metrics": [{"type": "max"}, SCRIPT],
}


def _conditions(**changed):
    usual = {
        "versions": {"engine": "docker 1"},
        "options": {"agents": ["oracle"], "network": {"mode": "public"}},
        "datasets": [DATASET],
        "digests": {ITEM: DIGEST},
        "retry": RETRY,
    }
    return Conditions(**{**usual, **changed})


@pytest.fixture
def lock(tmp_path):
    """Write a lock and read it again."""
    (tmp_path / "lock.json").write_text(json.dumps(lock_json(_conditions(), [TRIAL])))
    return read_lock(tmp_path)


def test_the_same_run_differs_in_nothing(lock):
    assert differences(lock, _conditions()) == []
    assert seen_differences(lock, [TRIAL]) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"versions": {"engine": "docker 2"}}, "engine: was 'docker 1', is 'docker 2'"),
        (
            {"options": {"agents": ["oracle"], "network": {"mode": "no-network"}}},
            "option network.mode: was 'public', is 'no-network'",
        ),
        (
            {"options": {"network": {"mode": "public"}}},
            "option agents: was ['oracle'], is None",
        ),
        ({"datasets": []}, "datasets: were bench@1.0, are none"),
        ({"digests": {}}, f"not run now: {ITEM}"),
        ({"digests": {ITEM: DIGEST, "x::nop": DIGEST}}, "not run then: x::nop"),
        (
            {"retry": {**RETRY, "retries": 5}},
            "retries: retries: was 2, is 5",
        ),
        (
            {"retry": {**RETRY, "waits": {"HealthcheckError": 9.0}}},
            "retries: waits.HealthcheckError: was None, is 9.0",
        ),
        (
            {"datasets": [{**DATASET, "registry": _registry("2")}]},
            "bench@1.0: the registry was https://a.example/registry.json (sha256:111111111111), "
            "is https://a.example/registry.json (sha256:222222222222)",
        ),
        (
            {"datasets": [{**DATASET, "metrics": [SCRIPT | {"script": _script("2")}]}]},
            "bench@1.0: its metrics were max, metric.py (sha256:111111111111), are "
            "metric.py (sha256:222222222222)",
        ),
        ({"digests": {ITEM: "sha256:2"}}, "tasks changed: bench@1.0/hello/task.toml"),
    ],
)
def test_each_difference_is_one_line(lock, changed, said):
    assert differences(lock, _conditions(**changed)) == [said]


def test_what_shows_in_trials_alone_is_told_afterwards(lock):
    trial = {**TRIAL, "agent_version": "2.0", "images": ["x@sha256:2"]}
    assert seen_differences(lock, [trial]) == [
        f"{ITEM}: the agent's version was 1.0, is 2.0",
        f"{ITEM}: images were x@sha256:1, are x@sha256:2",
    ]


@pytest.mark.parametrize(
    ("task_id", "expected"),
    [
        ({"path": "/cache/hello"}, {"type": "local", "path": "/cache/hello"}),
        (
            {"git_url": "https://a.example/b", "git_commit_id": "0" * 40, "path": "tasks/hello"},
            {
                "type": "git",
                "path": "tasks/hello",
                "git_url": "https://a.example/b",
                "git_commit_id": "0" * 40,
            },
        ),
        ({"org": "acme", "name": "hello", "ref": DIGEST}, {"type": "package"}),
    ],
)
def test_trials_have_harbors_form(task_id, expected):
    (trial,) = lock_json(_conditions(), [{**TRIAL, "task_id": task_id}])["trials"]
    assert trial["task"] == {
        "name": "acme/hello",
        "digest": DIGEST,
        "source": "bench",
        **expected,
    }
    assert trial["agent"] == {"name": "oracle", "model_name": None}


@pytest.mark.parametrize(
    "changed",
    [
        {"versions": [1]},
        {"options": 3},
        {"tasks": []},
        {"retry": [1]},
        {"datasets": [{}]},
        {"datasets": [1]},
        {"datasets": [{"asked": "bench", "registry": {"place": 1}}]},
        {"datasets": [{"asked": "bench", "metrics": [{"type": "script", "script": 5}]}]},
        {"seen": {ITEM: {"images": 5, "agent_version": "1"}}},
    ],
)
def test_a_lock_whose_fields_are_of_other_kinds_is_told(tmp_path, changed):
    known = lock_json(_conditions(), [TRIAL])
    known["pytest_harbor"].update(changed)
    (tmp_path / "lock.json").write_text(json.dumps(known))
    with pytest.raises(OptionError, match="not the lock of a job"):
        read_lock(tmp_path)


@pytest.mark.parametrize("text", [None, "{", "[]", '{"trials": []}', "[" * 100_000])
def test_what_is_no_lock_of_ours_is_told(tmp_path, text):
    if text is not None:
        (tmp_path / "lock.json").write_text(text)
    with pytest.raises(OptionError, match=r"lock\.json: "):
        read_lock(tmp_path)


def test_retries_have_harbors_names_and_a_registrys_place_no_key():
    retry = lock_json(_conditions(), [])["retry"]
    assert retry == {"max_retries": 2, "exclude_exceptions": ["HealthcheckError"]}
    reading = RegistryReading(b"[]", "https://a.example/registry.json?token=s3cret")
    assert reading.as_json()["place"] == "https://a.example/registry.json"


def test_a_lock_without_retries_and_registries_differs_in_neither(tmp_path):
    old = _conditions(retry=None, datasets=[{"asked": "bench@1.0"}])
    (tmp_path / "lock.json").write_text(json.dumps(lock_json(old, [TRIAL])))
    assert differences(read_lock(tmp_path), _conditions()) == []
