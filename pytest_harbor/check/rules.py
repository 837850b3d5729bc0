"""What a house asks of its tasks beyond what every task needs; set up in the ini file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pytest_harbor.check.finding import Severity

_SEVERITIES: Mapping[str, Severity] = {"error": "error", "warning": "warning"}


@dataclass(frozen=True, slots=True)
class HouseRules:
    """The rules of one run.

    Attributes:
        ignore: Codes that are switched off for every task.
        enforce: Codes that no task may switch off.
        severity: Severities by code, in place of the usual ones.
        canary: Text that every text file must hold; None: no such rule.
        metadata: Keys that ``[metadata]`` must have; with values, only those are allowed.
        base_images: Globs of the images that may be built from; empty: any.
        network: Allowed values of ``network_mode``; empty: any.
        gpu_types: Allowed entries of ``gpu_types``; empty: any.
        instruction_end: What an instruction must end with; ``{timeout}`` stands for the agent's
            limit in seconds. None: no such rule.
        name_words: Most words, parted by hyphens, of a task's folder name; None: any number.
        separate: Every verifier must have an environment of its own.
        digests: Images must be pinned by digest, not only by tag.
        agent_timeout: Least and greatest limit of the agent in seconds.
        verifier_timeout: The same of the verifier.
        file_mb: Size of a file in MB above which it is too large.
        task_mb: The same of the task's whole folder.
        similarity: Share of common text, from 0 to 1, at which two instructions are too alike.
    """

    ignore: frozenset[str] = frozenset()
    enforce: frozenset[str] = frozenset()
    severity: Mapping[str, Severity] = field(default_factory=dict)
    canary: str | None = None
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    base_images: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    gpu_types: tuple[str, ...] = ()
    instruction_end: str | None = None
    name_words: int | None = None
    separate: bool = False
    digests: bool = False
    agent_timeout: tuple[float, float] = (10.0, 86_400.0)
    verifier_timeout: tuple[float, float] = (5.0, 43_200.0)
    file_mb: float = 50.0
    task_mb: float = 100.0
    similarity: float = 0.8


def parse_severities(pairs: Iterable[str], known: Iterable[str]) -> dict[str, Severity]:
    """``code=error`` and ``code=warning`` as a table.

    Raises:
        ValueError: A pair has another form, or its code does not exist.
    """
    table = {}
    for pair in pairs:
        code, _, severity = pair.partition("=")
        if severity not in _SEVERITIES:
            raise ValueError(f"expected CODE=error or CODE=warning, got {pair!r}")
        (table_code,) = parse_codes([code], known)
        table[table_code] = _SEVERITIES[severity]
    return table


def parse_codes(codes: Iterable[str], known: Iterable[str]) -> frozenset[str]:
    """Codes of checks.

    Raises:
        ValueError: One does not exist.
    """
    from pytest_harbor.task.finding import nearest

    known = frozenset(known)
    for code in codes:
        if code not in known:
            raise ValueError(f"no check has the code {code!r}{nearest(code, sorted(known))}")
    return frozenset(codes)


def parse_metadata(entries: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """``key`` and ``key=one|two`` as keys with their allowed values; no values: any."""
    split = (entry.partition("=") for entry in entries)
    return {
        key.strip(): tuple(value.strip() for value in values.split("|") if value.strip())
        for key, _, values in split
    }


def parse_range(text: str) -> tuple[float, float]:
    """``least-greatest`` as two numbers.

    Raises:
        ValueError: It has another form.
    """
    least, hyphen, greatest = text.partition("-")
    try:
        pair = (float(least), float(greatest))
    except ValueError:
        pair = (1.0, 0.0)
    if not hyphen or pair[0] > pair[1]:
        raise ValueError(f"expected two numbers as 60-7200, got {text!r}")
    return pair
