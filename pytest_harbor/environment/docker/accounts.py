"""Whom a box takes a user for, by account files that may hold anything."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_harbor.environment.docker.execution import no_such_user
from pytest_harbor.environment.docker.transfer import LINK, Transfer
from pytest_harbor.errors import TransferError

_PASSWD, _GROUP = "/etc/passwd", "/etc/group"
_MAX_BYTES = 4 * 1024 * 1024
_MAX_LINKS = 8
_MAX_GROUPS = 1000
_MAX_DIGITS = 10
_MAX_HOME = 4096


@dataclass(frozen=True, slots=True)
class Account:
    """What a command gets of its user: numbers, and the folder in ``HOME``."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


class Accounts:
    """The users of one box, as its files name them when they are first asked for."""

    def __init__(self, transfer: Transfer, more_groups: Sequence[str] = ()) -> None:
        """The users of the container that ``transfer`` reads.

        Args:
            transfer: Reads the account files.
            more_groups: What every user is in beside its own groups, by name or number.
        """
        self._transfer = transfer
        self._more_groups = more_groups
        self._known: dict[str, Account] = {}

    def find(self, spec: str) -> Account:
        """Whom the engine would take ``spec`` for.

        Raises:
            EnvironmentStartError: There is no such user or group.
        """
        if spec not in self._known:
            self._known[spec] = self._find(spec)
        return self._known[spec]

    def _find(self, spec: str) -> Account:
        wanted, _, group = spec.partition(":")
        wanted = wanted or "0"
        record = _record(self._text(_PASSWD), wanted, 6)
        name, _, uid, gid, _, home = (record or ["", "", wanted, "", "", ""])[:6]
        number = account_number(uid)
        if number is None:
            words = f"unable to find user {wanted}: no matching entries in passwd file"
            raise no_such_user(spec, words)
        home = home if home and "\0" not in home and len(home) <= _MAX_HOME else "/"
        more = [self._group(spec, str(one)) for one in self._more_groups]
        if group:
            return Account(number, self._group(spec, group), tuple(more), home)
        groups = self._groups_of(name) if record else []
        return Account(number, account_number(gid) or 0, (*groups, *more), home)

    def _group(self, spec: str, group: str) -> int:
        record = _record(self._text(_GROUP), group, 3)
        number = account_number(record[2] if record else group)
        if number is None:
            words = f"unable to find group {group}: no matching entries in group file"
            raise no_such_user(spec, words)
        return number

    def _groups_of(self, name: str) -> list[int]:
        found = dict.fromkeys(
            number
            for each in _records(self._text(_GROUP), 4)
            if name in each[3].split(",") and (number := account_number(each[2])) is not None
        )
        return list(found)[:_MAX_GROUPS]

    def _text(self, path: str) -> str:
        """An account file; empty where there is none that can be read."""
        try:
            return self._transfer.read(self._followed(path), _MAX_BYTES).decode(errors="replace")
        except (FileNotFoundError, TransferError):
            return ""

    def _followed(self, path: str) -> str:
        for _ in range(_MAX_LINKS):
            status = self._transfer.status(path)
            if status is None or status.kind != LINK:
                break
            path = posixpath.join(posixpath.dirname(path), status.target)
        return path


def account_number(text: str) -> int | None:
    """The number of a user or a group; None if the text is none."""
    if len(text) > _MAX_DIGITS or not (text.isascii() and text.isdecimal()):
        return None
    return int(text) if int(text) < 2**31 else None


def _record(text: str, wanted: str, fields: int) -> list[str] | None:
    """The record of this name, else the one of this number."""
    numbered = None
    for record in _records(text, fields):
        if account_number(record[2]) is None:
            continue
        if record[0] == wanted:
            return record
        if numbered is None and record[2] == wanted:
            numbered = record
    return numbered


def _records(text: str, fields: int) -> Iterator[list[str]]:
    for line in text.split("\n"):
        record = line.strip().split(":")
        if len(record) >= fields:
            yield record
