"""A Hub of published datasets and tasks, as Harbor's own client asks it.

Its tables are read through PostgREST and its archives from the storage beside. The
address is always the user's to give.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from pytest_harbor.dataset.digest import PREFIX, dataset_digest
from pytest_harbor.dataset.http import Http
from pytest_harbor.dataset.source import HubTask
from pytest_harbor.dataset.spec import HubSpec, parse_package, refuse_account
from pytest_harbor.errors import DatasetError

URL_VARIABLE = "HARBOR_SUPABASE_URL"
KEY_VARIABLE = "HARBOR_SUPABASE_PUBLISHABLE_KEY"
TOKEN_VARIABLE = "HARBOR_HUB_TOKEN"
_PAGE = 1000
_HEX = re.compile(r"[0-9a-f]{64}")
_PACKAGE = "package:package_id!inner(*,org:org_id!inner(name))"


class HubFile(NamedTuple):
    """A file of a dataset's own.

    Attributes:
        digest: ``sha256:`` and the digest of its content.
        storage_path: Where the Hub keeps it.
    """

    digest: str
    storage_path: str


@dataclass(frozen=True, slots=True)
class HubDataset:
    """One version of a published dataset.

    Attributes:
        digest: ``sha256:`` and the digest of its content.
        description: For people.
        tasks: Pinned, sorted by name.
        files: Its own files, as ``metric.py``, by path.
        notes: What the user should know.
    """

    digest: str
    description: str
    tasks: tuple[HubTask, ...]
    files: Mapping[str, HubFile] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Hub:
    """A client of one Hub.

    Args:
        url: Its address; None: of the environment.
    """

    def __init__(self, url: str | None = None) -> None:
        given = url or os.environ.get(URL_VARIABLE)
        if not given:
            raise DatasetError(
                "a dataset ORG/NAME is of a Hub, and no Hub is named: give its address with "
                f"--harbor-hub, the ini value harbor_hub or the variable {URL_VARIABLE}. A git "
                "repository is written git+ORG/NAME, or with its host in front"
            )
        self._url = check_address(given)
        self._http = Http(_headers(), follow=False)

    def dataset(self, spec: HubSpec) -> HubDataset:
        """Find a dataset's version with its tasks.

        Raises:
            DatasetError: There is none, it is empty, or tasks of it cannot be had.
        """
        what = f"{spec.org}/{spec.name}@{spec.ref}"
        row = self._version(spec, what)
        digest = _digest(row.get("content_hash"), what)
        tasks, files = self._tasks(row["id"], what), self._files(row["id"], what)
        hashes = {path: one.digest for path, one in files.items()}
        expected = dataset_digest([task.digest for task in tasks], hashes)
        if digest != expected:
            raise DatasetError(f"{what}: the Hub says {digest}, its tasks make {expected}")
        if spec.is_pinned and spec.ref != digest:
            raise DatasetError(f"{what}: the Hub gave {digest}")
        description = str(row.get("description") or "")
        return HubDataset(digest, description, tasks, files, tuple(_notes(row, what)))

    def download_task(
        self, task: HubTask, path: Path, announced: Callable[[int], None] | None = None
    ) -> Path:
        """Write a task's archive to a file; ``announced`` hears its size before it comes."""
        what = f"{task.full_name}@{task.digest}"
        given = {"p_org": task.org, "p_name": task.name, "p_ref": task.digest}
        row = self._ask("POST", "rpc/resolve_task_version", what, json=given)
        if not isinstance(row, dict) or not isinstance(row.get("archive_path"), str):
            raise DatasetError(f"the Hub has no task {what}")
        if _digest(row.get("content_hash"), what) != task.digest:
            raise DatasetError(f"the Hub gave another version of {what}")
        return self._http.download(self._stored(row["archive_path"]), path, announced)

    def download_file(self, storage_path: str) -> bytes:
        """The content of a dataset's own file."""
        return self._http.document("GET", self._stored(storage_path))

    def _stored(self, path: str) -> str:
        return f"{self._url}/storage/v1/object/packages/{quote(path.lstrip('/'))}"

    def _version(self, spec: HubSpec, what: str) -> dict[str, Any]:
        named = {
            "package.name": f"eq.{spec.name}",
            "package.type": "eq.dataset",
            "package.org.name": f"eq.{spec.org}",
            "limit": "1",
        }
        if spec.is_pinned or spec.ref.isdecimal():
            column = "content_hash" if spec.is_pinned else "revision"
            ref = {column: f"eq.{spec.ref.removeprefix(PREFIX)}"}
            rows = self._rows("dataset_version", {"select": f"*,{_PACKAGE}", **ref, **named}, what)
            row = rows[0] if rows else None
        else:
            select = f"dataset_version:dataset_version_id(*),{_PACKAGE}"
            query = {"select": select, "tag": f"eq.{spec.ref}", **named}
            rows = self._rows("dataset_version_tag", query, what)
            row = rows[0].get("dataset_version") if rows else None
        if not isinstance(row, dict) or "id" not in row:
            raise DatasetError(f"the Hub has no dataset {what}, or not for this account")
        return row

    def _tasks(self, version: object, what: str) -> tuple[HubTask, ...]:
        select = (
            "task_version_id,task_version:task_version_id(content_hash,"
            "package:package_id(name,org:org_id(name)))"
        )
        rows = self._pages("dataset_version_task", select, version, "task_version_id", what)
        found = [row["task_version"] for row in rows if row.get("task_version") is not None]
        if len(found) < len(rows):
            raise DatasetError(
                f"{what}: {len(rows) - len(found)} of its {len(rows)} tasks cannot be had with "
                f"this account; the variable {TOKEN_VARIABLE} may hold another's token"
            )
        if not found:
            raise DatasetError(f"{what} has no tasks")
        return tuple(sorted((_task(row, what) for row in found), key=lambda one: one.full_name))

    def _files(self, version: object, what: str) -> dict[str, HubFile]:
        select = "path,storage_path,content_hash"
        rows = self._pages("dataset_version_file", select, version, "id", what)
        return {
            str(row.get("path")): HubFile(
                _digest(row.get("content_hash"), what), str(row.get("storage_path") or "")
            )
            for row in rows
        }

    def _pages(
        self, table: str, select: str, version: object, order: str, what: str
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            query = {
                "select": select,
                "dataset_version_id": f"eq.{version}",
                "order": f"{order}.asc",
                "limit": str(_PAGE),
                "offset": str(len(found)),
            }
            page = self._rows(table, query, what)
            found += page
            if len(page) < _PAGE:
                return found

    def _rows(self, table: str, query: Mapping[str, str], what: str) -> list[dict[str, Any]]:
        rows = self._ask("GET", table, what, params=query)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise DatasetError(f"{what}: the Hub gave no rows of {table}")
        return rows

    def _ask(self, method: str, path: str, what: str, **given: Any) -> Any:
        body = self._http.document(method, f"{self._url}/rest/v1/{path}", **given)
        try:
            return json.loads(body)
        except ValueError:
            raise DatasetError(f"{what}: the Hub did not answer with JSON") from None


def check_address(text: str) -> str:
    """A Hub's address, without what does not count.

    Raises:
        DatasetError: It is none, or has somebody's key in it.
    """
    refuse_account(text, f"a token is taken from the variable {TOKEN_VARIABLE}")
    if not text.startswith(("http://", "https://")):
        raise DatasetError(f"expected a URL with https://, got {text!r}")
    return text.rstrip("/")


def _headers() -> dict[str, str]:
    key = os.environ.get(KEY_VARIABLE, "")
    token = os.environ.get(TOKEN_VARIABLE) or key
    return {
        **({"apikey": key} if key else {}),
        **({"Authorization": f"Bearer {token}"} if token else {}),
    }


def _task(row: Any, what: str) -> HubTask:
    try:
        package = row["package"]
        spec = parse_package(f"{package['org']['name']}/{package['name']}")
    except (KeyError, TypeError):
        raise DatasetError(f"{what}: the Hub gave {row!r} as a task") from None
    return HubTask(spec.org, spec.name, _digest(row.get("content_hash"), what))


def _digest(value: object, what: str) -> str:
    text = str(value).removeprefix(PREFIX)
    if not _HEX.fullmatch(text):
        raise DatasetError(f"{what}: the Hub gave {value!r} as a digest")
    return PREFIX + text


def _notes(row: Mapping[str, Any], what: str) -> list[str]:
    if not row.get("yanked_at"):
        return []
    reason = f": {row['yanked_reason']}" if row.get("yanked_reason") else ""
    return [f"{what} was yanked{reason}"]
