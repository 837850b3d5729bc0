"""How a task's script is run in its environment, whatever its mode bits and first line."""

from __future__ import annotations

from pathlib import Path

_SHELL_RUNS = 'if command -v bash >/dev/null 2>&1; then exec bash "$0"; else exec sh "$0"; fi'


def script_argv(host_script: Path, target: str) -> list[str]:
    """Argument list that runs a script which was uploaded to ``target``.

    A script without ``#!`` line goes through bash, or sh where there is no bash: the
    kernel would refuse it, and bash is what Harbor's own shell makes of it.

    Args:
        host_script: The script on this machine.
        target: Its absolute path in the environment.
    """
    with host_script.open("rb") as file:
        if file.read(2) == b"#!":
            return [target]
    return ["sh", "-c", _SHELL_RUNS, target]
