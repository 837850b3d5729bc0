"""A terminal in the environment, kept by tmux: keys go in, the screen comes out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pytest_harbor.agent.aio import AsyncEnvironment
from pytest_harbor.environment.base import ExecResult
from pytest_harbor.errors import AgentCrashError

_TMUX = ("tmux", "-L", "pytest-harbor")
_SESSION = "main"
_SHELL = "if command -v bash >/dev/null; then exec bash; fi; exec sh"
_HISTORY_LINES = 50_000
_COMMAND_SEC = 30.0
_SHOWN_CHARS = 10_000
# A client's message to its server has 16 KiB.
_PIECE_CHARS = 2000

_NAMES = r"Enter|Escape|Tab|BTab|BSpace|DC|Up|Down|Left|Right|Home|End|PageUp|PageDown|F\d{1,2}"
_KEY = re.compile(rf"(?:[CMS]-)+(?:\S|{_NAMES}|Space)|{_NAMES}")

# What has scrolled out of sight since the last look belongs to what is to be seen.
_LOOK = """\
now=$({tmux} display-message -p -t {session} '#{{history_size}}') || exit
echo "$now"
{tmux} capture-pane -p -J -t {session} -S "-$(( now > $1 ? now - $1 : 0 ))"
"""


class Terminal:
    """One terminal; use it in an ``async with``, at whose end everything in it is ended."""

    def __init__(self, environment: AsyncEnvironment, *, width: int, height: int) -> None:
        self._environment = environment
        self._size = ("-x", str(width), "-y", str(height))
        self._scrolled = 0

    async def __aenter__(self) -> Terminal:
        await self._open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._tmux("kill-server")

    async def _open(self) -> None:
        await self._tmux("kill-server")
        options = ("set-option", "-g", "history-limit", str(_HISTORY_LINES))
        session = ("new-session", "-d", "-s", _SESSION, *self._size, _SHELL)
        result = await self._tmux("-f", "/dev/null", "start-server", ";", *options, ";", *session)
        if result.exit_code != 0:
            raise AgentCrashError(f"no terminal can be opened: {result.output.strip()[-500:]}")
        self._scrolled = 0

    async def press(self, keystrokes: str) -> None:
        """Press keys: one that tmux has a name for, as ``C-c``, or a text as it is."""
        if _KEY.fullmatch(keystrokes.strip()):
            await self._tmux("send-keys", "-t", _SESSION, keystrokes.strip())
            return
        for piece in _pieces(keystrokes):
            await self._tmux("send-keys", "-t", _SESSION, "-l", "--", piece)

    async def look(self) -> str:
        """The screen, and before it what has left it since the last look."""
        script = _LOOK.format(tmux=" ".join(_TMUX), session=_SESSION)
        result = await self._exec(["sh", "-c", script, "look", str(self._scrolled)])
        if result.exit_code != 0:
            await self._open()
            return "[the terminal had ended, and what ran in it; this is a new one]"
        scrolled, _, screen = result.stdout.partition("\n")
        self._scrolled = int(scrolled) if scrolled.isdecimal() else 0
        return _shown(screen)

    async def _tmux(self, *arguments: str) -> ExecResult:
        return await self._exec([*_TMUX, *arguments])

    async def _exec(self, command: Sequence[str]) -> ExecResult:
        return await self._environment.exec(command, timeout_sec=_COMMAND_SEC)


def _pieces(keystrokes: str) -> Iterator[str]:
    """The text in lengths that tmux takes, and as it takes it."""
    text = re.sub(r"\r\n|\n", "\r", keystrokes).replace("\0", "")
    for start in range(0, len(text), _PIECE_CHARS):
        piece = text[start : start + _PIECE_CHARS]
        # At the end of an argument it would end the command.
        yield f"{piece[:-1]}\\;" if piece.endswith(";") else piece


def _shown(screen: str) -> str:
    lines = "\n".join(line.rstrip() for line in screen.splitlines()).strip("\n")
    if len(lines) <= _SHOWN_CHARS:
        return lines
    half = _SHOWN_CHARS // 2
    left_out = len(lines) - 2 * half
    return f"{lines[:half]}\n[{left_out} characters are left out here]\n{lines[-half:]}"
