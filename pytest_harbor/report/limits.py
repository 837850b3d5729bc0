"""How much of a trial a report shows; less of each where there are thousands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one trial's details.

    Attributes:
        log_bytes: Of the verifier's output and of other logs.
        message_chars: Of one message, argument or answer of a trajectory.
        steps: Steps of a trajectory; the first and the last are kept.
        file_bytes: Of a text file that is shown.
        files: Text files that are shown, and files that are listed.
        tests: Tests of a report.
    """

    log_bytes: int = 64 * 1024
    message_chars: int = 16_000
    steps: int = 400
    file_bytes: int = 48 * 1024
    files: int = 40
    tests: int = 300

    def smaller(self) -> Limits:
        """A quarter of it all."""
        return Limits(*(max(getattr(self, name) // 4, 4) for name in self.__slots__))
