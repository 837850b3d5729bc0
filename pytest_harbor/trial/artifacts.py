"""Bring home what the task asked for, before the verifier runs.

Places and the manifest: ``format/rewards-and-results.md``, sections 6 and 8. A missing
artifact never fails a trial. ``/logs/artifacts`` comes with the other logs.
"""

from __future__ import annotations

import fnmatch
import json
import posixpath
import shutil
from collections.abc import Sequence
from pathlib import Path

from pytest_harbor.environment.base import Environment
from pytest_harbor.errors import TransferError
from pytest_harbor.task.artifacts import ArtifactEntry
from pytest_harbor.task.layout import ARTIFACTS_LOGS
from pytest_harbor.trial.record import TrialRecord, write_whole


def collect_artifacts(
    entries: Sequence[ArtifactEntry], environment: Environment, record: TrialRecord
) -> None:
    """Copy every declared artifact below ``artifacts/`` and write ``manifest.json``.

    The first claim of a place wins; later ones are recorded as skipped.
    """
    rows = []
    claimed: set[str] = set()
    for entry in entries:
        source = posixpath.normpath(posixpath.join(environment.workdir, entry.source))
        if source == ARTIFACTS_LOGS:
            continue
        place = (entry.destination or source).strip("/")
        row = {
            "source": entry.source,
            "destination": f"artifacts/{place}",
            "type": "file",
            "status": "skipped",
            "service": entry.service,
            "exclude": list(entry.exclude),
        }
        if place not in claimed:
            claimed.add(place)
            target = record.artifacts_dir / place
            row["status"] = _fetch(source, target, environment, record)
            row["type"] = "directory" if target.is_dir() else "file"
            _drop_excluded(target, entry.exclude)
        rows.append(row)
    if rows:
        write_whole(record.artifacts_dir / "manifest.json", json.dumps(rows, indent=4) + "\n")


def _fetch(source: str, target: Path, environment: Environment, record: TrialRecord) -> str:
    try:
        report = environment.download(source, target, filter_data=record.redactor.reader)
    except FileNotFoundError:
        record.note(f"artifact {source}: not there")
        return "failed"
    except (TransferError, OSError) as error:
        record.note(f"artifact {source}: {error}")
        return "failed"
    for name, reason in list(report.skipped.items())[:100]:
        record.note(f"artifact {source}: {name} left out: {reason}")
    return "ok" if report.complete else "failed"


def _drop_excluded(target: Path, patterns: tuple[str, ...]) -> None:
    """Remove what matches; tar's ``--exclude`` patterns match a name or a relative path."""
    if not patterns or not target.is_dir():
        return
    for path in sorted(target.rglob("*"), reverse=True):
        names = (path.name, path.relative_to(target).as_posix())
        if any(fnmatch.fnmatch(name, pattern) for name in names for pattern in patterns):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
