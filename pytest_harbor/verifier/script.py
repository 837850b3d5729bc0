"""The verifier of every Harbor task: ``tests/test.sh``, which writes a reward file.

Order and rules: ``format/trial-lifecycle.md``, section 8, and
``format/rewards-and-results.md``, section 1. Where Harbor removes two stale reward
files and lays the tests over whatever is in ``/tests``, both folders are made anew.
"""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

from pytest_harbor.environment.base import Environment, ExecResult
from pytest_harbor.environment.script import script_argv
from pytest_harbor.errors import (
    RewardFileEmptyError,
    RewardFileNotFoundError,
    VerifierFault,
    VerifierOutputParseError,
    VerifierTimeoutError,
)
from pytest_harbor.result.ctrf import CtrfReport, parse_ctrf
from pytest_harbor.result.reward import Reward, parse_reward
from pytest_harbor.task.ignore import upload_filter
from pytest_harbor.task.layout import LOGS_DIR, TESTS_DIR, VERIFIER_LOGS
from pytest_harbor.verifier.base import Verifier, VerifierContext, VerifierReport

OUTPUT_FILE = "test-stdout.txt"
"""The test script's output, as Harbor names it."""

MAX_REWARD_BYTES = 1024 * 1024
MAX_CTRF_BYTES = 16 * 1024 * 1024


class ScriptVerifier(Verifier):
    """Runs the task's test script and reads the reward that it wrote."""

    def verify(self, environment: Environment, context: VerifierContext) -> VerifierReport:
        """Upload the tests, run the script, bring ``/logs`` home, read the reward."""
        report = VerifierReport()
        result = self._run(environment, context)
        report.exit_code = result.exit_code
        report.script_sec = result.duration_sec
        self._bring_home(environment, context, report)
        try:
            _raise_for_timeout(result, context)
            report.reward = _read_reward(context.verifier_dir, result)
        except VerifierFault as fault:
            report.fault = fault
        else:
            report.findings += report.reward.findings
        report.ctrf = _read_ctrf(context.verifier_dir)
        return report

    def _run(self, environment: Environment, context: VerifierContext) -> ExecResult:
        with context.open_log(context.verifier_dir / OUTPUT_FILE) as log:
            # One step, done by the engine from outside: nothing that the agent put there
            # survives, and no program of the agent's is asked to remove it.
            environment.upload(
                context.task.tests_dir,
                TESTS_DIR,
                executable=_scripts(context),
                include=upload_filter(context.task.tests_dir),
                replace=True,
                clear=[VERIFIER_LOGS],
            )
            return environment.exec(
                _test_argv(context),
                user=context.user,
                env=context.env,
                timeout_sec=context.timeout_sec,
                output=log,
                merge_streams=True,
            )

    @staticmethod
    def _bring_home(
        environment: Environment, context: VerifierContext, report: VerifierReport
    ) -> None:
        """Copy ``/logs`` into the trial's folder; what lies there already is never replaced."""
        landing = context.trial_dir / ".logs"
        try:
            found = environment.download(LOGS_DIR, landing, filter_data=context.filter_data)
        except FileNotFoundError:
            return
        report.findings += [
            f"{LOGS_DIR}/{name} was not copied: {reason}"
            for name, reason in sorted(found.skipped.items())[:20]
        ]
        homes = {"agent": "agent", "verifier": "verifier", "artifacts": "artifacts/logs/artifacts"}
        for name, home in homes.items():
            _merge(landing / name, context.trial_dir / home)
        shutil.rmtree(landing, ignore_errors=True)


def _test_argv(context: VerifierContext) -> list[str]:
    if context.task.test_script is None:
        raise RewardFileNotFoundError("the task has no tests/test.sh")
    return script_argv(context.task.test_script, f"{TESTS_DIR}/{_scripts(context)[0]}")


def _scripts(context: VerifierContext) -> list[str]:
    task = context.task
    if task.test_script is None:
        return []
    return [task.test_script.relative_to(task.tests_dir).as_posix()]


def _merge(source: Path, target: Path) -> None:
    """Move the content of one folder into another; existing files stay as they are."""
    if not source.is_dir():
        return
    target.mkdir(parents=True, exist_ok=True)
    for entry in sorted(source.iterdir()):
        place = target / entry.name
        if not place.exists() and not place.is_symlink():
            entry.replace(place)
        elif entry.is_dir() and place.is_dir():
            _merge(entry, place)


def _raise_for_timeout(result: ExecResult, context: VerifierContext) -> None:
    if result.timed_out:
        raise VerifierTimeoutError(f"verifier timed out after {context.timeout_sec:g} s")


def _read_reward(folder: Path, result: ExecResult) -> Reward:
    try:
        return parse_reward(
            _read_small(folder / "reward.json", MAX_REWARD_BYTES),
            _read_small(folder / "reward.txt", MAX_REWARD_BYTES),
        )
    except RewardFileNotFoundError:
        raise RewardFileNotFoundError(
            f"the test script ended with exit status {result.exit_code} and wrote neither"
            f" {VERIFIER_LOGS}/reward.json nor {VERIFIER_LOGS}/reward.txt (regular files)"
        ) from None
    except RewardFileEmptyError as error:
        raise RewardFileEmptyError(f"{error}; exit status {result.exit_code}") from None


def _read_small(path: Path, limit: int) -> bytes | None:
    """A regular file's bytes; None where there is none. Links are never followed."""
    try:
        status = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    if status.st_size > limit:
        raise VerifierOutputParseError(
            f"{VERIFIER_LOGS}/{path.name} has {status.st_size} bytes; a reward file has at most"
            f" {limit}"
        )
    return path.read_bytes()


def _read_ctrf(folder: Path) -> CtrfReport | None:
    try:
        data = _read_small(folder / "ctrf.json", MAX_CTRF_BYTES)
    except VerifierOutputParseError:
        return None
    return None if data is None else parse_ctrf(data)
