"""What of the things on an engine may go, and why the others stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_harbor.environment.docker.leftovers import Leftover


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is to be removed besides what dead runs left.

    Attributes:
        images: Cached images.
        kept: What ``--harbor-keep`` kept.
        foreign: What processes made that cannot be seen from here.
        older_than_sec: Only what is older; 0: everything.
        run: Only what this run made; None: of every run.
    """

    images: bool = False
    kept: bool = False
    foreign: bool = False
    older_than_sec: float = 0.0
    run: str | None = None


def choose(
    things: Sequence[Leftover], wishes: Wishes, now: float
) -> Iterator[tuple[Leftover, str]]:
    """Each thing of the runs that are meant, and why it stays; nothing for what goes."""
    busy = any(one.owner == "alive" and one.kind != "image" for one in things)
    for thing in things:
        if wishes.run not in (None, thing.run):
            continue
        yield thing, _reason(thing, wishes, now, busy)


def _reason(thing: Leftover, wishes: Wishes, now: float, busy: bool) -> str:
    if thing.kind == "image":
        if not wishes.images:
            return "cached (--images)"
        # Whoever is at work has looked for its images and will start containers of them.
        if busy:
            return "a run is at work"
    elif thing.is_kept:
        if not wishes.kept:
            return "kept (--kept)"
    elif thing.owner == "alive":
        return "in use"
    elif thing.owner == "unknown" and not wishes.foreign:
        return "made elsewhere (--foreign)"
    if now - thing.created <= wishes.older_than_sec:
        return "too new"
    return ""
