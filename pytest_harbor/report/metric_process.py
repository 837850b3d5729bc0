"""A metric's script, run as Harbor runs one: ``uv run metric.py -i REWARDS -o METRIC``."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_harbor.errors import OptionError
from pytest_harbor.trial.logs import read_tail

SCRIPT_SEC = 600.0
MAX_OUTPUT_BYTES = 1024**2
_TAIL_CHARS = 500
_INLINE = re.compile(r"^# /// script\s*$", re.MULTILINE)
_HARMLESS = frozenset((
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "UV_CACHE_DIR", "UV_INDEX_URL"),
    *("UV_DEFAULT_INDEX", "UV_PYTHON", "UV_OFFLINE", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS"),
))  # fmt: skip
"""What a stranger's script gets of the environment: what uv and Python work with, and no keys."""


def run_script(
    path: Path, rewards: Sequence[Mapping[str, float] | None], *, is_ours: bool = True
) -> Any:
    """Run a ``metric.py`` over rewards.

    Args:
        path: The script.
        rewards: A trial's each.
        is_ours: Whether the user named it; else it gets neither their variables nor their folder.

    Raises:
        OptionError: It cannot be run, failed, or left no JSON.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, output = Path(folder, "rewards.jsonl"), Path(folder, "metric.json")
        lines = (json.dumps(None if one is None else dict(one)) + "\n" for one in rewards)
        given.write_text("".join(lines), encoding="utf-8")
        argv = [*_runner(path), str(path), "-i", str(given), "-o", str(output)]
        variables = None if is_ours else _harmless_variables()
        _run(argv, Path(folder), None if is_ours else folder, variables)
        return _read(output, path.name)


def _read(output: Path, name: str) -> Any:
    try:
        if not output.is_file():
            raise OptionError(f"{name} left no JSON behind -o: there is no such file")
        if output.stat().st_size > MAX_OUTPUT_BYTES:
            raise OptionError(f"{name} left more than {MAX_OUTPUT_BYTES // 1024**2} MiB behind -o")
        return json.loads(output.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise OptionError(f"{name} left no JSON behind -o: {error}") from None


def _harmless_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.upper() in _HARMLESS}


def _runner(path: Path) -> list[str]:
    if uv := shutil.which("uv"):
        return [uv, "run"]
    if _INLINE.search(path.read_text(encoding="utf-8", errors="replace")):
        raise OptionError(
            f"{path.name} names its own requirements (# /// script), which takes uv; install uv"
        )
    return [sys.executable]


def _run(
    argv: Sequence[str], folder: Path, cwd: str | None, variables: Mapping[str, str] | None
) -> None:
    said = folder / "stderr"
    with said.open("wb") as stderr:
        try:
            # A group of its own: what it has started ends with it.
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd=cwd,
                env=variables,
                start_new_session=True,
            )
        except OSError as error:
            raise OptionError(f"{argv[0]}: {error.strerror}") from None
        try:
            status = process.wait(SCRIPT_SEC)
        except subprocess.TimeoutExpired:
            raise OptionError(f"ran for more than {SCRIPT_SEC:g} s") from None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if status:
        tail = read_tail(said, 4 * _TAIL_CHARS).strip()[-_TAIL_CHARS:]
        raise OptionError(f"ended with exit status {status}: {tail}")
