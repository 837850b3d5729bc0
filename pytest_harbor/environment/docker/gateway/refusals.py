"""What a gateway's counters and logs say, as refused connections."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_harbor.environment.docker.gateway.recipe import STAND_IN
from pytest_harbor.result.network import RefusedConnection

MAX_LISTED = 1000

MORE = "(further destinations)"
"""Destination of the entry that counts those which are not listed."""


ALLOWED_NAME = "(an allowed name)"
"""Destination of what says no name, such as QUIC, to a name that is allowed."""

Told = dict[tuple[str, str, int | None], int]
"""What the sets and counters of one table said before: they count on, names begin anew."""


def parse_refusals(answer: str, told: Told | None = None) -> list[RefusedConnection]:
    """Read the control program's answer; the most often refused first.

    At most ``MAX_LISTED`` destinations; one entry more counts the tries to others.

    Args:
        answer: Of the request ``refused``.
        told: What the same table has told already, left out now; brought up to date.
    """
    told = {} if told is None else told
    listing, _, names = answer.partition("\n")
    parts = [part for part in json.loads(listing)["nftables"] if isinstance(part, dict)]
    found: dict[tuple[str, str, int | None], int] = {}
    more = 0
    for name, how, port, count in [*_from_names(names), *_anew(_from_sets(parts), told)]:
        if how == "more":
            more += count
            continue
        if name == STAND_IN:
            if how == "tcp":
                continue  # the way to the proxy, whose log has the name
            name = ALLOWED_NAME
        key = (name, how, port)
        found[key] = found.get(key, 0) + count
    ordered = sorted(found.items(), key=lambda item: -item[1])
    more += sum(count for _, count in ordered[MAX_LISTED:])
    more += sum(count for *_, count in _anew([(MORE, "", None, _not_in_sets(parts))], told))
    refused = [RefusedConnection(*key, count) for key, count in ordered[:MAX_LISTED]]
    return [*refused, *([RefusedConnection(MORE, "tcp", None, more)] if more > 0 else [])]


def _anew(
    entries: Iterable[tuple[str, str, int | None, int]], told: Told
) -> Iterator[tuple[str, str, int | None, int]]:
    for name, how, port, count in entries:
        before = told.get((name, how, port), 0)
        told[(name, how, port)] = count
        if count > before:
            yield name, how, port, count - before


def _from_names(text: str) -> Iterator[tuple[str, str, int | None, int]]:
    for line in text.splitlines():
        how, port, count, name = line.split(" ", 3)
        yield name, how, None if port == "-" else int(port), int(count)


def _from_sets(
    parts: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[str, str, int | None, int]]:
    for protocol, key, count in _elements(parts):
        address, second = key
        if protocol != "other":
            yield address, protocol, int(second), count
        else:
            yield address, str(second), None, count


def _elements(parts: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, list[Any], int]]:
    for part in parts:
        name = str(part.get("set", {}).get("name", ""))
        if not name.startswith("refused_"):
            continue
        for element in part["set"].get("elem", ()):
            value = element["elem"]
            count = int(value.get("counter", {}).get("packets", 1))
            yield name.removeprefix("refused_"), value["val"]["concat"], count


def _not_in_sets(parts: Sequence[Mapping[str, Any]]) -> int:
    """Tries that found the sets full."""
    listed: dict[str, int] = {}
    for protocol, _, count in _elements(parts):
        listed[protocol] = listed.get(protocol, 0) + count
    missing = 0
    for part in parts:
        counter = part.get("counter", {})
        name = str(counter.get("name", "")).removeprefix("refused_").removesuffix("_all")
        if counter:
            missing += max(0, int(counter["packets"]) - listed.get(name, 0))
    return missing
