"""A trial's ``result.json``, ours or Harbor's, as a :class:`Trial`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_harbor import errors
from pytest_harbor.report.trial import USAGE, Span, Trial, task_id_of
from pytest_harbor.report.values import count, finite, items, mapping, moment, number, text
from pytest_harbor.result.error_policy import harbor_counts
from pytest_harbor.result.reward import judge
from pytest_harbor.result.work import HARBOR_PHASES

CATEGORIES = ("reward", "agent", "task", "environment", "skipped")
MAX_MESSAGE_CHARS = 2_000
_MAX_REWARD_KEYS = 100
_MAX_STEPS = 500
_NOT_A_SKILL = (
    (errors.EnvironmentFault, "environment"),
    (errors.VerifierFault, "task"),
    (errors.AgentSetupError, "agent"),
    (errors.AgentUnableError, "agent"),
)


def trial_of_result(result: Mapping[str, Any], folder: Path, problems: list[str]) -> Trial:
    """Read a trial's result.

    Args:
        result: The content of its ``result.json``.
        folder: The trial's folder.
        problems: What is known to be wrong already.
    """
    own = mapping(result.get("pytest_harbor"))
    reading = _Reading(result, own, mapping(result.get("config")))
    threshold = reading.threshold()
    category, rewards = reading.category(), reading.rewards()
    reward = _deciding(rewards, threshold, text(reading.config.get("reward_key")) or None)
    findings = [mapping(one) for one in reading.findings()]
    suspicious = [one for one in findings if one.get("level") == "suspicious"]
    fault, message = reading.fault()
    started = moment(result.get("started_at"))
    return Trial(
        name=folder.name,
        folder=folder,
        **identity(result, reading.config, folder),
        category=category,
        passed=reading.passed(category, reward, threshold),
        reward=reward if category == "reward" else None,
        untrusted=own.get("untrusted") is True,
        rewards=rewards,
        harbor_rewards=reading.harbor_rewards(),
        dataset=text(result.get("source")),
        dataset_label=text(mapping(reading.config.get("task")).get("label")),
        threshold=threshold,
        fault=fault,
        fault_message=message,
        started=started,
        spans=tuple(sorted(reading.spans(started), key=lambda span: span.start)),
        usage=reading.usage(),
        suspicious=len(suspicious),
        codes=tuple(dict.fromkeys(text(one.get("code"), 60) for one in suspicious)),
        refused=count(own.get("refused_connections")),
        problems=tuple(problems),
    )


def identity(result: Mapping[str, Any], config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Which task, agent, model and attempt: of a result, or of the configuration alone."""
    wanted = mapping(config.get("agent"))
    agent = mapping(result.get("agent_info"))
    model = mapping(agent.get("model_info"))
    parts = [text(model.get("provider")), text(model.get("name"))]
    task = mapping(config.get("task"))
    task_id = mapping(result.get("task_id"))
    # Of a task out of git, this is a path in its repository.
    place = None if "git_url" in task_id else task_id.get("path")
    path = text(place, 1000) or text(task.get("path"), 1000)
    own = mapping(result.get("pytest_harbor"))
    return {
        "task": text(result.get("task_name"))
        or text(task.get("name"))
        or Path(path).name
        or folder.name.rpartition("__")[0]
        or folder.name,
        "task_path": path,
        "item": text(config.get("item"), 1000),
        "task_id": task_id_of(text(result.get("source")), task_id),
        "agent": text(wanted.get("name")) or text(agent.get("name")) or "unknown agent",
        "model": "/".join(filter(None, parts)) or text(wanted.get("model_name")),
        "attempt": count(own.get("attempt")) or count(config.get("attempt")),
    }


class _Reading:
    """Takes the parts of a result."""

    def __init__(
        self, result: Mapping[str, Any], own: Mapping[str, Any], config: Mapping[str, Any]
    ) -> None:
        self.result, self.own, self.config = result, own, config

    @property
    def steps(self) -> list[Mapping[str, Any]]:
        return [mapping(one) for one in items(self.result.get("step_results"))[:_MAX_STEPS]]

    def threshold(self) -> float:
        for source in (self.own, self.config):
            found = number(source.get("threshold"))
            if found is not None:
                return found
        return 1.0

    def rewards(self) -> dict[str, float]:
        return self._numbers(mapping(self.result.get("verifier_result")).get("rewards"))

    def harbor_rewards(self) -> dict[str, float] | None:
        """What Harbor's runner would have given, unless an error keeps it from counting."""
        found = self._numbers(self.own.get("harbor_rewards")) or self.rewards()
        errors_there = (mapping(one.get("exception_info")) for one in (self.result, *self.steps))
        names = [name for one in errors_there if (name := text(one.get("exception_type"), 100))]
        return found if found and harbor_counts(names) else None

    @staticmethod
    def _numbers(value: Any) -> dict[str, float]:
        found = mapping(value)
        values = ((text(key, 100), number(value)) for key, value in found.items())
        known = [(key, value) for key, value in values if value is not None]
        return dict(known[:_MAX_REWARD_KEYS])

    def category(self) -> str:
        """Ours tells; of Harbor's result it is what the interface's table says of the end."""
        told = self.own.get("category")
        if told in CATEGORIES:
            return str(told)
        if self.result.get("reward_valid") is True and self.rewards():
            return "reward"
        kind = getattr(errors, self.fault()[0], None)
        for base, category in _NOT_A_SKILL:
            if isinstance(kind, type) and issubclass(kind, base):
                return category
        return "" if self.fault()[0] == "CancelledError" else "task"

    def passed(self, category: str, reward: float | None, threshold: float) -> bool:
        told = self.own.get("passed")
        if isinstance(told, bool):
            return told
        return category == "reward" and reward is not None and reward >= threshold

    def fault(self) -> tuple[str, str]:
        for source in (self.result, *self.steps):
            found = mapping(source.get("exception_info"))
            if name := text(found.get("exception_type"), 100):
                return name, text(found.get("exception_message"), MAX_MESSAGE_CHARS)
        return "", text(self.own.get("skip_reason"), MAX_MESSAGE_CHARS)

    def findings(self) -> Iterator[Any]:
        """What was found of tampering, in all steps."""
        for source in (self.result, *self.steps):
            report = mapping(mapping(source.get("pytest_harbor")).get("integrity"))
            yield from items(report.get("findings"))

    def spans(self, started: float | None) -> Iterator[Span]:
        works = [("", self.result)]
        works += [(text(step.get("step_name")), step) for step in self.steps]
        for name, work in works:
            for phase, key in HARBOR_PHASES.items():
                times = mapping(work.get(key))
                begin, end = moment(times.get("started_at")), moment(times.get("finished_at"))
                if begin is not None and end is not None:
                    offset = max(begin - (begin if started is None else started), 0.0)
                    yield Span(phase, name, offset, max(end - begin, 0.0))

    def usage(self) -> dict[str, float]:
        """Of the trial; else the sum over its steps, as Harbor has it."""
        names = {name: name if name == "cost_usd" else f"n_{name}" for name in USAGE}
        found = {name: self._usage(key) for name, key in names.items()}
        return {name: value for name, value in found.items() if value is not None}

    def _usage(self, key: str) -> float | None:
        whole = (mapping(self.own.get("usage")), mapping(self.result.get("agent_result")))
        for source in whole:
            if (told := finite(source.get(key))) is not None:
                return told
        values = [finite(mapping(step.get("agent_result")).get(key)) for step in self.steps]
        known = [value for value in values if value is not None]
        return sum(known) if known else None


def _deciding(rewards: Mapping[str, float], threshold: float, key: str | None) -> float | None:
    try:
        return float(judge(rewards, threshold, key).reward)
    except errors.VerifierOutputParseError:
        return None
