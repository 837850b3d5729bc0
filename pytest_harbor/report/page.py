"""One HTML file with everything in it: style, code and the job's data.

Of the job only its name is written as text; all else is compressed and in base64, which can
neither end a script nor be one, and is put on the page as text by the page's own code. The
content security policy names that code by its hash and lets nothing else run or be fetched.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from pytest_harbor.report.comparison import Comparison, compare
from pytest_harbor.report.data import plain, report_data
from pytest_harbor.report.detail import Details
from pytest_harbor.report.files import write_lines
from pytest_harbor.report.job import JobReading, read_job
from pytest_harbor.report.limits import Limits
from pytest_harbor.report.trial import Trial
from pytest_harbor.report.values import cut

MAX_DETAIL_BYTES = 24 * 1024**2
"""Of all trials' details together, as they stand in the file."""

_SCRIPTS = ("base.js", "plots.js", "table.js", "trial.js", "main.js")
_SMALLEST = 4


def write_report(
    job_folder: Path,
    path: Path,
    *,
    baseline: Path | None = None,
    more: Sequence[Trial] = (),
) -> None:
    """Write the report of a job, which may still run, into one HTML file.

    Args:
        job_folder: The job's folder.
        path: The file; what is there is replaced.
        baseline: Folder of an earlier job to compare with.
        more: Trials that have no folder.

    Raises:
        OptionError: A folder is no job's, or the file cannot be written.
    """
    job = read_job(job_folder)
    comparison = compare(job, read_job(baseline)) if baseline else None
    write_lines(path, page(job, [*job.trials, *more], comparison))


def page(
    job: JobReading, trials: Sequence[Trial], comparison: Comparison | None = None
) -> Iterator[str]:
    """The page of a report, piece by piece."""
    style, script = _file("report.css"), "".join(map(_file, _SCRIPTS))
    before, after = (
        Template(_file("report.html"))
        .safe_substitute(
            title=html.escape(_printable(job.name)),
            style=style,
            style_hash=_hash(style),
            script=script,
            script_hash=_hash(script),
        )
        .split("<!-- data -->")
    )
    yield before
    yield _block("data", packed(report_data(job, trials, comparison)))
    yield from _details(trials)
    yield after


def packed(value: Any) -> str:
    """JSON, compressed, in base64."""
    data = json.dumps(plain(value), separators=(",", ":"), allow_nan=False).encode("ascii")
    return base64.b64encode(gzip.compress(data, 6, mtime=0)).decode("ascii")


def _details(trials: Sequence[Trial]) -> Iterator[str]:
    """A block for each trial; all of them have the same right to a part of the space."""
    details, left = Details(), MAX_DETAIL_BYTES
    for number, trial in enumerate(trials):
        content = _fitting(details, trial, left // (len(trials) - number))
        left -= len(content)
        yield _block(f"trial-{number}", content)


def _fitting(details: Details, trial: Trial, allowed: int) -> str:
    limits = Limits()
    while True:
        content = packed(details.of(trial, limits))
        if len(content) <= allowed or limits.steps <= _SMALLEST:
            return content
        limits = limits.smaller()


def _block(name: str, content: str) -> str:
    return f'<script type="text/plain" id="{name}">{content}</script>\n'


def _printable(name: str) -> str:
    shown = (char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)
    return cut("".join(shown), 200)


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _file(name: str) -> str:
    return (resources.files(__package__) / "page_files" / name).read_text(encoding="utf-8")
