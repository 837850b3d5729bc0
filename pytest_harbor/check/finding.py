"""A kind of finding, and one finding of that kind with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Check:
    """One kind of finding.

    Attributes:
        code: Its stable name, as ``script-crlf``: people switch it off by it.
        reason: Why it matters, in one line.
        remedy: What to do about it.
        severity: ``"error"`` fails the task's check, ``"warning"`` is only shown.
        house: It finds nothing unless the ini file sets up its rule.
    """

    code: str
    reason: str
    remedy: str
    severity: Severity = "error"
    house: bool = False


class Found(NamedTuple):
    """What a family of checks found, before its severity is settled.

    Attributes:
        code: The kind.
        message: What was found.
        path: The file.
        line: Line from 1; None where it is the file as a whole.
        field: Dotted path in ``task.toml``; empty if none.
    """

    code: str
    message: str
    path: Path
    line: int | None = None
    field: str = ""


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """A finding, judged.

    Attributes:
        code: The kind.
        severity: ``"error"``, ``"warning"``, or ``"ignored"`` where it is switched off.
        path: The file, absolute.
        line: Line from 1; None where it is the file as a whole.
        message: What was found.
        remedy: What to do about it.
        field: Dotted path in ``task.toml``; empty if none.
    """

    code: str
    severity: str
    path: Path
    line: int | None
    message: str
    remedy: str = ""
    field: str = ""

    @property
    def text(self) -> str:
        """What was found, with the field and the remedy."""
        said = ": ".join(part for part in (self.field, self.message) if part)
        return f"{said}; {self.remedy}" if self.remedy else said

    def as_dict(self, root: Path | None = None) -> dict[str, Any]:
        """Plain values, fit for JSON; the file is named from ``root`` where it lies below."""
        path = self.path
        if root is not None and path.is_relative_to(root):
            path = path.relative_to(root)
        return {
            "code": self.code,
            "severity": self.severity,
            "file": path.as_posix(),
            "line": self.line,
            "field": self.field,
            "message": self.message,
            "remedy": self.remedy,
        }


def finding_line(finding: Mapping[str, Any]) -> str:
    """One line of text for a finding in the form of :meth:`CheckFinding.as_dict`."""
    place = finding["file"] + (f":{finding['line']}" if finding["line"] else "")
    said = ": ".join(part for part in (finding["field"], finding["message"]) if part)
    remedy = f"; {finding['remedy']}" if finding["remedy"] else ""
    return f"{place}: {finding['severity']}: {said}{remedy} [{finding['code']}]"
