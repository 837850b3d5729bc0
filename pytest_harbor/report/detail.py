"""What a report shows of one trial when it is opened: plain JSON, bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.report.diffs import Originals, artifact_diffs
from pytest_harbor.report.files import (
    UnreadableError,
    files_below,
    read_list,
    read_object,
    read_small_text,
    read_text,
    subfolders,
    unlinked,
)
from pytest_harbor.report.limits import Limits
from pytest_harbor.report.trajectory import TRAJECTORY, first_message, trajectory_json
from pytest_harbor.report.trial import Trial
from pytest_harbor.report.values import count, items, mapping, text
from pytest_harbor.result.ctrf import MAX_BYTES, parse_ctrf
from pytest_harbor.result.trajectory_reader import load_json, read_bounded

OUTPUTS = ("test-stdout.txt", "test-stderr.txt")
_MAX_FINDINGS = 100
_MAX_REFUSED = 200
_MAX_WORKS = 50


class Details:
    """Reads the details of trials; what several of them share is read once."""

    def __init__(self) -> None:
        self._originals = Originals()

    def of(self, trial: Trial, limits: Limits) -> dict[str, Any]:
        """The details of a trial; of one without a folder only what is known of it."""
        shared = {"message": trial.fault_message, "problems": list(trial.problems), "works": []}
        if trial.folder is None:
            return shared
        result = _object(trial.folder / "result.json")
        steps = {text(mapping(s).get("step_name")): mapping(s) for s in _steps(result)}
        places = unlinked(trial.folder / "steps")
        names = sorted(subfolders(places), key=_order(steps))[:_MAX_WORKS]
        works = [self._work(trial, trial.folder, "", result, limits)] if not names else []
        for name in names:
            works.append(self._work(trial, places / name, name, steps.get(name, {}), limits))
        return shared | {
            "works": works,
            "traceback": read_text(trial.folder / "exception.txt", limits.log_bytes // 4) or "",
            "network": _network(trial.folder / "network.json"),
            "logs": list(_logs(trial.folder, limits)),
        }

    def _work(
        self, trial: Trial, folder: Path, step: str, result: Mapping[str, Any], limits: Limits
    ) -> dict[str, Any]:
        """One step's part, or a single-step trial's."""
        agent, verifier = unlinked(folder / "agent"), unlinked(folder / "verifier")
        artifacts = unlinked(folder / "artifacts")
        trajectory = trajectory_json(agent, limits)
        own = mapping(result.get("pytest_harbor"))
        instruction, source = instruction_of(trial, step, limits), "the task's folder, as it is now"
        if instruction is None:
            instruction, source = first_message(trajectory), "the trajectory"
        names = [one.path for one in files_below(artifacts)[0] if one.kind == "file"]
        return {
            "step": step,
            "instruction": instruction,
            "instruction_from": source if instruction else "",
            "rewards": mapping(mapping(result.get("verifier_result")).get("rewards")),
            "agent_exit": own.get("agent_exit_code"),
            "verifier_exit": own.get("verifier_exit_code"),
            "unmet": [text(one) for one in items(own.get("unmet"))[:_MAX_FINDINGS]],
            "notes": [text(one) for one in items(own.get("findings"))[:_MAX_FINDINGS]],
            "trajectory": trajectory,
            "agent_files": _files(agent, limits, (TRAJECTORY,)),
            "output": _first_text(verifier, limits),
            "ctrf": _ctrf(verifier / "ctrf.json", limits),
            "verifier_files": _files(verifier, limits, (*OUTPUTS, "ctrf.json")),
            "artifacts": _files(artifacts, limits, ("manifest.json",)),
            "missing": _missing(artifacts),
            "diffs": list(
                artifact_diffs(
                    artifacts,
                    names[: limits.files],
                    trial.task_path,
                    self._originals,
                    limits,
                )
            ),
            "integrity": _integrity(mapping(own.get("integrity"))),
        }


def _object(path: Path) -> dict[str, Any]:
    try:
        return read_object(path)
    except UnreadableError:
        return {}


def _steps(result: Mapping[str, Any]) -> list[Any]:
    return list(items(result.get("step_results")))


def _order(steps: Mapping[str, Any]) -> Any:
    known = {name: number for number, name in enumerate(steps)}
    return lambda name: (known.get(name, len(known)), name)


def instruction_of(trial: Trial, step: str, limits: Limits) -> str | None:
    """What the agent was told, from the task's folder, if it is still there."""
    task = Path(trial.task_path)
    # A job of somebody else's must not choose which files of this machine are shown.
    if not trial.task_path or not (task / "task.toml").is_file():
        return None
    folder = task / "steps" / step if step else task
    return read_text(folder / "instruction.md", limits.log_bytes)


def _first_text(folder: Path, limits: Limits) -> str:
    texts = (read_text(folder / name, limits.log_bytes) for name in OUTPUTS)
    return "\n".join(filter(None, texts))


def _files(folder: Path, limits: Limits, apart: tuple[str, ...]) -> dict[str, Any]:
    """Files below a folder, but for those that are shown elsewhere; small texts with content."""
    found, cut_off = files_below(folder)
    listed = [one for one in found if one.path not in apart]
    shown = []
    for one in listed[: limits.files]:
        content = read_small_text(folder / one.path, limits.file_bytes)
        shown.append(asdict(one) | ({} if content is None else {"text": content}))
    return {"files": shown, "more": len(listed) - len(shown), "cut_off": cut_off}


def _missing(folder: Path) -> list[dict[str, str]]:
    """Artifacts that were asked for and could not be brought home."""
    entries = [mapping(one) for one in read_list(folder / "manifest.json")]
    return [
        {"source": text(one.get("source")), "status": text(one.get("status"), 40)}
        for one in entries[:_MAX_FINDINGS]
        if one.get("status") != "ok"
    ]


def _ctrf(path: Path, limits: Limits) -> dict[str, Any] | None:
    try:
        data = read_bounded(path, MAX_BYTES)
    except TrajectoryFormatError:
        return None
    report = parse_ctrf(data)
    if report is None:
        return None
    results = mapping(mapping(_json(data)).get("results"))
    tests = [mapping(one) for one in items(results.get("tests"))]
    tests.sort(key=lambda test: test.get("status") == "passed")
    counts = ("tests", "passed", "failed", "skipped", "pending", "other")
    return {
        "tool": report.tool,
        "counts": {name: getattr(report, name) for name in counts},
        "tests": [_test(test, limits) for test in tests[: limits.tests]],
        "more": max(len(tests) - limits.tests, 0),
    }


def _json(data: bytes) -> Any:
    try:
        return load_json(data)
    except TrajectoryFormatError:
        return None


def _test(test: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    found = {
        "name": text(test.get("name")) or "a test without a name",
        "status": text(test.get("status"), 20) or "other",
        "message": text(test.get("message"), limits.message_chars // 4),
        "trace": text(test.get("trace"), limits.message_chars // 4),
    }
    return {key: value for key, value in found.items() if value}


def _integrity(report: Mapping[str, Any]) -> dict[str, Any]:
    fields = ("code", "level", "message", "path", "original", "found")
    findings = [mapping(one) for one in items(report.get("findings"))[:_MAX_FINDINGS]]
    return {
        "grading": text(report.get("grading"), 40),
        "findings": [
            {name: text(one.get(name), 600) for name in fields if one.get(name)}
            | {"remedied": one.get("remedied") is True}
            for one in findings
        ],
        **{
            name: [text(one) for one in items(report.get(name))[:_MAX_FINDINGS]]
            for name in ("restored", "left_running", "unseen")
        },
    }


def _network(path: Path) -> dict[str, Any]:
    content = _object(path)
    phases = [mapping(one) for one in items(content.get("phases"))]
    refused = list(_refused(phases))
    return {
        "phases": [
            {name: text(one.get(name), 600) for name in ("phase", "step", "box", "policy")}
            for one in phases[:_MAX_FINDINGS]
        ],
        "refused": refused[:_MAX_REFUSED],
        "more": sum(count(one.get("refused_more")) for one in phases)
        + sum(one["count"] for one in refused[_MAX_REFUSED:]),
    }


def _refused(phases: list[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for phase in phases:
        for one in map(mapping, items(phase.get("refused"))):
            yield {
                "phase": text(phase.get("phase"), 40),
                "step": text(phase.get("step")),
                "destination": text(one.get("destination")),
                "port": count(one.get("port")),
                "protocol": text(one.get("protocol"), 20),
                "count": count(one.get("count")),
            }


def _logs(folder: Path, limits: Limits) -> Iterator[dict[str, str]]:
    services = [f"services/{one.path}" for one in files_below(unlinked(folder / "services"))[0]]
    builds = sorted(p.name for p in folder.glob("build*.log"))
    for name in ("trial.log", *builds, *services[: limits.files]):
        content = read_text(folder / name, limits.log_bytes // 4)
        if content:
            yield {"path": name, "text": content}
