"""The record of one trial's calls: a line of JSON each, written as they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from pytest_harbor.model_gateway.assemble import assemble
from pytest_harbor.model_gateway.call import Call, CallSummary
from pytest_harbor.model_gateway.echo import repeats_request
from pytest_harbor.model_gateway.history import History

RECORD_CAP = 1024 * 1024 * 1024
"""Bytes of a record from which on bodies are left out."""
REFUSALS_RECORDED = 200
"""Requests that the gateway itself refused, of which each has a line; the rest are counted."""

_SHOWN_TEXT = 4000

Redact = Callable[[str], str]


class CallRecord:
    """A file of calls. Used from one thread alone.

    Attributes:
        fault: Why calls are missing in it; empty: none is.
    """

    def __init__(self, path: Path, redact: Redact) -> None:
        """Begin a record.

        Args:
            path: The file; made, with its folders, at the first call, and added to.
            redact: Takes secrets out of a text.
        """
        self._path = path
        self._redact = redact
        self._file: BinaryIO | None = None
        self._size = 0
        self._refusals = 0
        self._history = History()
        self.fault = ""

    def add(self, call: Call) -> CallSummary:
        """Write a call down, and let go of its bodies; it counts where that fails, too."""
        conversation, offers_tools = "", False
        repeats = False
        try:
            repeats = repeats_request(call)
            body, conversation, offers_tools = self._request(call)
            self._write(call, body)
        except OSError as error:
            self.fault = f"calls are missing in it: {error.strerror}"
        finally:
            call.request.close()
            call.response.close()
        return CallSummary(
            call.outcome,
            call.status,
            call.model,
            self._redact(call.error),
            call.answer.asks_for_tool,
            conversation,
            offers_tools,
            call.duration_sec,
            repeats,
        )

    def close(self) -> None:
        """There are no more calls."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, call: Call, body: Any) -> None:
        if call.outcome in ("limit", "gateway"):
            self._refusals += 1
            if self._refusals > REFUSALS_RECORDED:
                return
        entry = _head(call)
        if self._size >= RECORD_CAP:
            self._write_line({**entry, "note": "the record is full: bodies are left out"})
            return
        try:
            self._write_line({**entry, "request": body, "response": _response(call)})
        except RecursionError:
            self._write_line({**entry, "note": "bodies are nested too deeply, and left out"})

    def _write_line(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry)
        if self._redact(line) != line:
            # A secret that looks like a number or like a bracket must not spoil the line,
            # so what is replaced is what lies in strings.
            line = json.dumps(_redacted(entry, self._redact))
        data = line.encode() + b"\n"
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab", buffering=0)
        self._file.write(data)
        self._size += len(data)

    def _request(self, call: Call) -> tuple[Any, str, bool]:
        text = call.request.read()
        try:
            body = json.loads(text)
            if not isinstance(body, dict):
                return body, "", False
            offers_tools = bool(body.get("tools") or body.get("functions"))
            return *self._history.fold(call.number, body), offers_tools
        except (ValueError, RecursionError):
            return _text(text, call.request.dropped), "", False


def _head(call: Call) -> dict[str, Any]:
    tokens = call.tokens
    usage = None
    if tokens is not None:
        usage = {
            "n_input_tokens": tokens.input,
            "n_cache_tokens": tokens.cached,
            "n_output_tokens": tokens.output,
            "is_complete": tokens.is_complete,
        }
    return {
        "n": call.number,
        "started_at": call.started_at.isoformat(),
        "wire": call.route.wire,
        "operation": call.route.operation,
        "path": call.route.path,
        "provider": call.provider,
        "model": call.model,
        "answered_by": call.answer.model or None,
        "stream": call.streams,
        "status": call.status,
        "outcome": call.outcome,
        "error": call.error or None,
        "retry_after": call.retry_after or None,
        "changes": call.changes,
        "usage": usage,
        "cost_usd": call.cost_usd,
        "first_byte_sec": call.first_byte_sec,
        "duration_sec": call.duration_sec,
    }


def _response(call: Call) -> Any:
    """The answer in one piece; its text where it cannot be read so."""
    data = call.response.read()
    if not data:
        return None
    if call.is_stream:
        whole = assemble(call.route.operation, data)
        if whole is not None:
            return whole
    else:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            pass
    return _text(data, call.response.dropped)


def _text(data: bytes, dropped: int) -> dict[str, Any] | None:
    if not data:
        return None
    left_out = max(len(data) - _SHOWN_TEXT, 0) + dropped
    shown = {"text": data[:_SHOWN_TEXT].decode(errors="replace")}
    return {**shown, "bytes_left_out": left_out} if left_out else shown


def _redacted(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(name): _redacted(one, redact) for name, one in value.items()}
    if isinstance(value, list):
        return [_redacted(one, redact) for one in value]
    return value
