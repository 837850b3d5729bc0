"""Whether the verifier can come to a verdict, the same one each time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pytest_harbor.check.dockerfile import Dockerfile
from pytest_harbor.check.finding import Check, Found
from pytest_harbor.check.reward_paths import rewardless_ends
from pytest_harbor.check.rules import HouseRules
from pytest_harbor.check.shell import Command
from pytest_harbor.check.subject import Subject
from pytest_harbor.task import layout

CHECKS = (
    Check(
        "no-reward",
        "without /logs/verifier/reward.txt or reward.json there is no verdict",
        "write one of them at the end of tests/test.sh",
    ),
    Check(
        "reward-not-always",
        "a trial without a reward is an error, not a 0, and is left out of the rates",
        "write a 0 first, or in an else",
        "warning",
    ),
    Check(
        "verifier-download",
        "grading depends on servers of others, and on what they send that day",
        "bring it in the image, or in tests/",
        "warning",
    ),
    Check(
        "verifier-without-network",
        "the verifier has no network, and its script asks for one",
        "bring it in the image, or allow [verifier] network_mode",
        "warning",
    ),
    Check(
        "tests-not-in-verifier",
        "an image of the verifier's own brings the tests itself: nothing is uploaded",
        "write COPY . /tests/ in tests/Dockerfile",
    ),
    Check(
        "artifact-parent",
        "what the agent made cannot be put there in the verifier's container",
        "make the folder in tests/Dockerfile",
        "warning",
        house=True,
    ),
    Check(
        "shared-verifier",
        "the house grades in an environment of the verifier's own",
        'write environment_mode = "separate" under [verifier]',
        house=True,
    ),
)

_REWARD = re.compile(r"reward", re.IGNORECASE)
_REWARD_FILE = re.compile(r"reward\w*\.(?:txt|json)|reward_(?:file|path)", re.IGNORECASE)
_LOCAL_HOST = re.compile(
    r"https?://(?:localhost|127\.|0\.0\.0\.0|\[::1\]|[a-z0-9_-]+(?=[:/]|$)|\$)"
)
_INSTALLERS = ("apt-get", "apt", "apk", "pip", "pip3", "npm", "uvx", "dnf", "yum", "brew", "gem")


def find(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    """What keeps a verifier from its verdict, or makes it another's."""
    yield from _rewards(subject)
    yield from _downloads(subject)
    yield from _own_images(subject, rules)
    if rules.separate:
        yield from _shared(subject)


def _rewards(subject: Subject) -> Iterator[Found]:
    writers = [
        entry.name for entry, text in subject.texts(subject.test_files) if _REWARD.search(text)
    ]
    elsewhere = any(
        _REWARD_FILE.search(text) for _, text in subject.texts(subject.environment_files)
    )
    for path in subject.test_scripts:
        own = subject.text(path) or ""
        others = [name for name in writers if name != path.name]
        if not (_REWARD.search(own) or others or elsewhere):
            yield Found("no-reward", "nothing in tests/ mentions a reward", path)
        else:
            yield from _ways(subject, path, others, elsewhere or not own.strip())


def _ways(subject: Subject, path: Path, others: list[str], unknown: bool) -> Iterator[Found]:
    """Ways through the script without a reward; programs that may write one are trusted."""
    if unknown:
        return
    marks = [
        *others,
        *(("pytest", "/tests", "$(dirname", "$SCRIPT_DIR", "BASH_SOURCE") if others else ()),
    ]
    for end in rewardless_ends(subject.script(path), marks):
        yield Found("reward-not-always", end.why, path, end.line)


def _downloads(subject: Subject) -> Iterator[Found]:
    closed = _has_no_network(subject)
    for path in subject.test_scripts:
        for command in subject.script(path).commands():
            if _fetches(command):
                code = "verifier-without-network" if closed else "verifier-download"
                yield Found(code, " ".join(command.plain)[:100], path, command.line)
            elif _installs(command) and closed:
                message = " ".join(command.plain)[:100]
                yield Found("verifier-without-network", message, path, command.line)


def _has_no_network(subject: Subject) -> bool:
    config = subject.task.config
    if config.verifier_mode() == "separate" and config.verifier.environment is not None:
        own = config.verifier.network_policy or config.verifier.environment.network_policy
        return own.mode == "no-network"
    return config.verifier_policy().mode == "no-network"


def _fetches(command: Command) -> bool:
    text = " ".join(command.plain)
    is_client = command.name in ("curl", "wget") or command.plain[:2] == ("git", "clone")
    return is_client and "://" in text and not _LOCAL_HOST.search(text)


def _installs(command: Command) -> bool:
    words = command.plain
    is_offline = not {"--no-index", "--offline"}.isdisjoint(words)
    asks = command.name == "uvx" or not {"install", "update", "add"}.isdisjoint(words[1:4])
    return command.name in _INSTALLERS and asks and not is_offline


def _own_images(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    """``tests/Dockerfile`` of a separate verifier."""
    if subject.task.verifier_mode() != "separate" or subject.task.is_multi_step:
        return
    mine = subject.task.tests_dir / layout.DOCKERFILE
    dockerfile = next((one for one in subject.dockerfiles if one.path == mine), None)
    if dockerfile is None:
        return
    stages = dockerfile.stages
    if stages and not _brings_tests(dockerfile):
        yield Found("tests-not-in-verifier", "nothing is copied to /tests", mine, stages[-1].line)
    if rules.separate:
        yield from _artifact_parents(subject, dockerfile)


def _brings_tests(dockerfile: Dockerfile) -> bool:
    workdir = ""
    for one in dockerfile.instructions:
        if one.keyword == "WORKDIR":
            workdir = one.value.strip()
        elif one.keyword in ("COPY", "ADD") and one.words:
            target = PurePosixPath("/", workdir, one.words[-1]).as_posix()
            if target == "/tests" or target.startswith("/tests/") or target == "/":
                return True
        elif one.keyword == "RUN" and "/tests" in f"{one.value}{one.heredoc}":
            return True
        elif one.keyword == "FROM" and "/" in one.value.split(":")[0]:
            return True  # an image of their own, which may bring them
    return False


def _artifact_parents(subject: Subject, dockerfile: Dockerfile) -> Iterator[Found]:
    for index, artifact in enumerate(subject.task.config.artifacts):
        parent = PurePosixPath(artifact.source).parent.as_posix()
        known = ("/", ".", "/tmp", "/root", "/home", "/opt", "/srv", "/var", "/logs/artifacts")
        if not artifact.source.startswith("/") or parent in known or parent in dockerfile.text:
            continue
        message = f"{parent} of the artifact {artifact.source} is not made in tests/Dockerfile"
        line = subject.line_of("artifacts", index)
        yield Found(
            "artifact-parent", message, subject.task.config_file, line, f"artifacts[{index}]"
        )


def _shared(subject: Subject) -> Iterator[Found]:
    for step in subject.task.steps or (None,):
        if subject.task.verifier_mode(step) != "separate":
            whose = f" of the step {step.name}" if step else ""
            line = subject.line_of("verifier", "environment_mode")
            message = f"the verifier{whose} shares the agent's environment"
            yield Found("shared-verifier", message, subject.task.config_file, line)
