"""``lock.json`` of a job and of a trial: what it ran, to the last digest.

What another run has otherwise is told from a job's.

The form is Harbor's (``format/rewards-and-results.md``, section 9); what is ours alone
stands under ``pytest_harbor``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_harbor.errors import OptionError
from pytest_harbor.task.plural import listed
from pytest_harbor.trial.record import LOCK_FILE

_SCHEMA = 3
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is known of a run before its first trial.

    Attributes:
        versions: Of this package, pytest, Python and the engine.
        options: What shapes a trial, as plain JSON without secrets.
        datasets: Each with its pinned tasks.
        digests: Digest of each item's task, by the item's id.
        retry: What is tried again, how often and after how long; None: not known.
    """

    versions: Mapping[str, str]
    options: Mapping[str, Any]
    datasets: Sequence[Mapping[str, Any]]
    digests: Mapping[str, str]
    retry: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """As it is written."""
        return {
            "versions": dict(self.versions),
            "options": dict(self.options),
            "datasets": [dict(one) for one in self.datasets],
            "tasks": dict(self.digests),
            "retry": None if self.retry is None else dict(self.retry),
        }


@dataclass(frozen=True, slots=True)
class JobLock:
    """An earlier job's lock, read.

    Attributes:
        name: The job's.
        conditions: What was known before its first trial.
        images: Of each item, the images of its boxes.
        agents: Of each item, the agent's version.
    """

    name: str
    conditions: Conditions
    images: Mapping[str, Sequence[str]] = field(default_factory=dict)
    agents: Mapping[str, str] = field(default_factory=dict)


def read_lock(job: Path) -> JobLock:
    """Read the lock of a job of ours.

    Raises:
        OptionError: There is none that can be read.
    """
    path = job / LOCK_FILE if job.name != LOCK_FILE else job
    try:
        known = json.loads(path.read_text(encoding="utf-8"))["pytest_harbor"]
        _require_shape(known)
        conditions = Conditions(
            known["versions"],
            known["options"],
            known["datasets"],
            known["tasks"],
            known.get("retry"),
        )
        seen = known.get("seen", {})
        images = {item: one["images"] for item, one in seen.items()}
        agents = {item: one["agent_version"] for item, one in seen.items()}
    except OSError as error:
        raise OptionError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise OptionError(f"{path}: not the lock of a job of pytest-harbor") from None
    return JobLock(path.parent.name, conditions, images, agents)


def _require_shape(known: Mapping[str, Any]) -> None:
    """See that what is held against another run is of the kinds that it is written as.

    Raises:
        TypeError, KeyError, AttributeError: It is not.
    """
    retry, seen = known.get("retry"), known.get("seen", {})
    for value in (known["versions"], known["options"], known["tasks"], seen, retry or {}):
        _require(value, dict)
    for one in seen.values():
        _require(one["images"], list)
    for dataset in _require(known["datasets"], list):
        _require(dataset["asked"], str)
        if registry := dataset.get("registry"):
            _require_named(registry, "place", "digest")
        for metric in _require(dataset.get("metrics") or [], list):
            _require_named(metric, "type")
            if script := metric.get("script"):
                _require_named(script, "name", "digest")


def _require_named(value: Any, *names: str) -> None:
    for name in names:
        _require(value[name], str)


def _require(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}")
    return value


def lock_json(
    conditions: Conditions, trials: Sequence[Mapping[str, Any]], workers: int = 1
) -> dict[str, Any]:
    """The content of ``lock.json``.

    Args:
        conditions: Of the run.
        trials: Each trial's ``config.json``, with its ``lock`` and the ``agent_version`` and
            ``images`` of its result.
        workers: How many trials run at a time.
    """
    return {
        "schema_version": _SCHEMA,
        "created_at": datetime.now(UTC).isoformat(),
        "harbor": {},
        "n_concurrent_trials": workers,
        "retry": _harbor_retry(conditions.retry or {}),
        "trials": [lock for trial in trials if (lock := _locked(trial))],
        "pytest_harbor": {
            **conditions.as_json(),
            "seen": {
                str(trial.get("item")): {
                    "agent_version": trial.get("agent_version") or "",
                    "images": trial.get("images") or [],
                }
                for trial in trials
            },
        },
    }


def _harbor_retry(retry: Mapping[str, Any]) -> dict[str, Any]:
    """What of it Harbor has names for."""
    names = {
        "retries": "max_retries",
        "include": "include_exceptions",
        "exclude": "exclude_exceptions",
    }
    return {theirs: retry[ours] for ours, theirs in names.items() if retry.get(ours)}


def _locked(trial: Mapping[str, Any]) -> Mapping[str, Any]:
    """A trial's own lock; of one that wrote none, as its files have it."""
    name, task_id = trial.get("task_name"), trial.get("task_id")
    return trial.get("lock") or trial_lock(trial, task_name=name, task_id=task_id)


def _digest(trial: Mapping[str, Any]) -> str:
    return str(trial.get("task_digest") or "")


def trial_lock(
    config: Mapping[str, Any],
    *,
    task_name: str | None = None,
    version: str | None = None,
    task_id: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> dict[str, Any]:
    """Harbor's lock of one trial: its inputs, settled; empty where the task has no digest.

    Args:
        config: The content of its ``config.json``.
        task_name: The task's name.
        version: The task's own version.
        task_id: Where the task came from, in Harbor's form.
        mode: Where it is graded, ``shared`` or ``separate``; None for a task with steps.
    """
    if not (digest := _digest(config)):
        return {}
    task, task_id = config.get("task", {}), task_id or {}
    kinds = {"git_url": "git", "org": "package"}
    kind = next((kind for key, kind in kinds.items() if key in task_id), "local")
    path = task_id.get("path") if kind == "git" else task.get("path")
    agent = config.get("agent", {})
    return {
        "schema_version": 2,
        "task": {
            "name": task_name or Path(str(path)).name,
            **({"version": version} if version else {}),
            "type": kind,
            "digest": digest,
            **({"path": path} if kind != "package" else {}),
            **({"source": task["source"]} if task.get("source") else {}),
            **{key: task_id[key] for key in ("git_url", "git_commit_id") if key in task_id},
        },
        "timeout_multiplier": config.get("timeout_multiplier", 1.0),
        **{name: x for name, x in config.items() if name.endswith("_timeout_multiplier")},
        "agent": {
            "name": agent.get("name"),
            "model_name": agent.get("model_name"),
            **({"env": agent["env"]} if agent.get("env") else {}),
        },
        "environment": dict(config.get("environment", {"type": "docker"})),
        "verifier": {"environment_mode": mode} if mode else {},
    }


def trials_of(job: Path) -> list[dict[str, Any]]:
    """What the trials' own files say for :func:`lock_json`."""
    found = []
    for path in sorted(job.glob("*/config.json")):
        with suppress(OSError, ValueError, TypeError, AttributeError):
            config = json.loads(path.read_text(encoding="utf-8"))
            result, lock = (_read(path.parent / name) for name in ("result.json", LOCK_FILE))
            own = result.get("pytest_harbor") or {}
            found.append({
                **config,
                "lock": lock,
                "task_name": result.get("task_name"),
                "task_id": result.get("task_id"),
                "agent_version": (result.get("agent_info") or {}).get("version"),
                "images": own.get("boxes") or [],
            })  # fmt: skip
    return found


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def differences(lock: JobLock, now: Conditions) -> list[str]:
    """What a run has otherwise than a job had, a line each; empty: nothing."""
    then = lock.conditions
    lines = list(_differing("", then.versions, now.versions))
    lines += _differing("option ", _flat(then.options), _flat(now.options))
    if then.retry is not None and now.retry is not None:
        lines += _differing("retries: ", _flat(then.retry), _flat(now.retry))
    lines += _registries(then.datasets, now.datasets)
    lines += _metrics(then.datasets, now.datasets)
    asked = [[one["asked"] for one in datasets] for datasets in (then.datasets, now.datasets)]
    if asked[0] != asked[1]:
        lines.append(f"datasets: were {_listed(asked[0])}, are {_listed(asked[1])}")
    gone = [item for item in then.digests if item not in now.digests]
    new = [item for item in now.digests if item not in then.digests]
    lines += [f"not run now: {_listed(gone)}"] if gone else []
    lines += [f"not run then: {_listed(new)}"] if new else []
    changed = [
        item for item, digest in now.digests.items() if then.digests.get(item, digest) != digest
    ]
    tasks = list(dict.fromkeys(item.partition("::")[0] for item in changed))
    return [*lines, f"tasks changed: {_listed(tasks)}"] if tasks else lines


def _registries(
    then: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Registries that are others, or say something else, than they did."""
    known = {one["asked"]: one.get("registry") for one in then}
    for one in now:
        was, found = known.get(one["asked"]), one.get("registry")
        if was and found and was != found:
            yield (
                f"{one['asked']}: the registry was {was['place']} ({was['digest'][:19]}), is "
                f"{found['place']} ({found['digest'][:19]})"
            )


def _metrics(
    then: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Datasets whose own metrics are others, or whose scripts say something else."""
    known = {one["asked"]: _metric_names(one) for one in then if "metrics" in one}
    for one in now:
        was, found = known.get(one["asked"]), _metric_names(one)
        if was is not None and was != found:
            yield f"{one['asked']}: its metrics were {_listed(was)}, are {_listed(found)}"


def _metric_names(dataset: Mapping[str, Any]) -> list[str]:
    """Its metrics' types; of scripts the names, with the digests."""
    scripts = [(one["type"], one.get("script")) for one in dataset.get("metrics") or ()]
    return [
        f"{one['name']} ({one['digest'][:19] or 'not to be had'})" if one else kind
        for kind, one in scripts
    ]


def seen_differences(lock: JobLock, trials: Sequence[Mapping[str, Any]]) -> list[str]:
    """What only showed in the trials: images and versions of agents that were others."""
    lines = []
    for trial in trials:
        item = str(trial.get("item"))
        then, now = lock.agents.get(item), trial.get("agent_version")
        if then is not None and then != now:
            lines.append(f"{item}: the agent's version was {then}, is {now}")
        if lock.images.get(item) and trial.get("images") != lock.images[item]:
            lines.append(
                f"{item}: images were {_listed(lock.images[item])}, are "
                f"{_listed(trial.get('images') or [])}"
            )
    return lines


def _differing(what: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*then, *now}):
        if then.get(name) != now.get(name):
            yield f"{what}{name}: was {then.get(name)!r}, is {now.get(name)!r}"


def _flat(options: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{above}{name}.")
        else:
            flat[f"{above}{name}"] = value
    return flat


def _listed(names: Sequence[str]) -> str:
    return listed([*map(str, names)], _SHOWN) or "none"
