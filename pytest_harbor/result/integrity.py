"""What was found that may have touched a reward, and how far the reward can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["information", "suspicious"]
Grading = Literal["shared", "private", "isolated", "separate"]


@dataclass(frozen=True, slots=True)
class IntegrityFinding:
    """One thing that was found.

    Attributes:
        code: Its kind, as ``replaced-program``; the documentation has the table of them.
        level: ``suspicious``: an honest solution has no reason for it and the verifier may
            have relied on it; ``information``: honest work does this too.
        message: For people, one sentence.
        path: Of the file, where it is one.
        original: SHA-256 of the image's file, hexadecimal; empty where there is none.
        found: The same of the file that was found.
        remedied: It was undone before grading, and so earned nothing.
    """

    code: str
    level: Level
    message: str
    path: str = ""
    original: str = ""
    found: str = ""
    remedied: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain values, without what is empty."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in values.items() if value not in ("", False)}


@dataclass(slots=True)
class IntegrityReport:
    """How one grading came about.

    Attributes:
        grading: ``shared``: in the agent's box, where nothing of the agent's ran any more;
            ``private``: in it, out of reach of what still ran; ``isolated``: in a fresh box
            made from its files; ``separate``: in a box of the verifier's own.
        findings: All of them, the suspicious first.
        restored: Paths that the image's version took the place of, or that were removed.
        left_running: Command lines of the agent's processes that lived while it was graded.
        unseen: What could not be looked at, one sentence each.
    """

    grading: Grading = "shared"
    findings: list[IntegrityFinding] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    left_running: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    @property
    def suspicious(self) -> Sequence[IntegrityFinding]:
        """Findings that may have touched the reward."""
        return [each for each in self.findings if each.level == "suspicious"]

    @property
    def unremedied(self) -> Sequence[IntegrityFinding]:
        """Suspicious findings that were not undone before grading."""
        return [each for each in self.suspicious if not each.remedied]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "grading": self.grading,
            "findings": [each.to_json() for each in self.findings],
            "restored": list(self.restored),
            "left_running": list(self.left_running),
            "unseen": list(self.unseen),
        }
