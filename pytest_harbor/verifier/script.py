"""The verifier of every Harbor task: ``tests/test.sh``, which writes a reward file.

Order and rules: ``format/trial-lifecycle.md``, section 8, and
``format/rewards-and-results.md``, section 1. Where Harbor removes two stale reward
files and lays the tests over whatever is in ``/tests``, both folders are made anew.
"""

from __future__ import annotations

import stat
from pathlib import Path

from pytest_harbor.environment.base import Environment, ExecResult
from pytest_harbor.environment.logs import bring_logs_home
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
from pytest_harbor.task.layout import TEST_SCRIPTS, TESTS_DIR, VERIFIER_LOGS
from pytest_harbor.verifier.base import Verifier, VerifierContext, VerifierReport

OUTPUT_FILE = "test-stdout.txt"
"""The test script's output, as Harbor names it."""

# A script in the verifier's own image: nobody here has seen its mode and first line.
_BUNDLED_RUNS = 'if [ -x "$0" ]; then exec "$0"; else exec bash "$0"; fi'

MAX_REWARD_BYTES = 1024 * 1024
MAX_CTRF_BYTES = 16 * 1024 * 1024


class ScriptVerifier(Verifier):
    """Runs the task's test script and reads the reward that it wrote."""

    def verify(self, environment: Environment, context: VerifierContext) -> VerifierReport:
        """Upload the tests, run the script, bring ``/logs`` home, read the reward."""
        result = self._run(environment, context)
        report = VerifierReport(
            exit_code=result.exit_code,
            script_sec=result.duration_sec,
            out_of_memory=result.out_of_memory,
        )
        landing = context.verifier_dir.parent / ".logs"
        report.findings += bring_logs_home(environment, context.homes, landing, context.filter_data)
        try:
            _raise_for_timeout(result, context)
            report.reward = _read_reward(context.verifier_dir, result)
        except VerifierFault as fault:
            report.fault = fault
        else:
            report.findings += report.reward.findings
            report.integrity += report.reward.integrity
        report.ctrf = _read_ctrf(context.verifier_dir)
        return report

    def _run(self, environment: Environment, context: VerifierContext) -> ExecResult:
        _lay_out_tests(environment, context)
        with context.open_log(context.verifier_dir / OUTPUT_FILE) as log:
            return environment.exec(
                _test_argv(context),
                user=context.user,
                env=context.env,
                timeout_sec=context.timeout_sec,
                output=log,
                merge_streams=True,
            )


def _lay_out_tests(environment: Environment, context: VerifierContext) -> None:
    """Make ``/tests`` and ``/logs/verifier`` anew.

    Done by the engine from outside: nothing that the agent put there survives, and no
    program of the agent's is asked to remove it.
    """
    if not context.tests:
        environment.clear([VERIFIER_LOGS])
    for number, folder in enumerate(context.tests):
        script = context.test_script
        environment.upload(
            folder,
            TESTS_DIR,
            executable=[script.name] if script and script.parent == folder else [],
            include=upload_filter(folder),
            replace=number == 0,
            clear=[VERIFIER_LOGS] if number == 0 else [],
        )


def _test_argv(context: VerifierContext) -> list[str]:
    if context.test_script is not None:
        return script_argv(context.test_script, f"{TESTS_DIR}/{context.test_script.name}")
    return ["sh", "-c", _BUNDLED_RUNS, f"{TESTS_DIR}/{TEST_SCRIPTS['linux']}"]


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
            f" {VERIFIER_LOGS}/reward.json nor {VERIFIER_LOGS}/reward.txt (regular files);"
            " tests/test.sh has to write one on every path, as `echo 0` into reward.txt"
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
