"""Trials that are tried again: the item is set up anew, with fresh fixtures and a fresh box.

This lies below the phases that other plugins see, so that pytest-rerunfailures, where it is on,
sees the last try alone.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_harbor.plugin.options import settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_harbor.trial.retries import RetryPolicy

TRIES = "tries"
"""Folder of a trial that holds the earlier tries."""

_EARLIER = pytest.StashKey[list["Try"]]()
_NO_RETRY = (pytest.exit.Exception, KeyboardInterrupt, GeneratorExit, SystemExit)
_SEAMS = ("harbor_agent", "harbor_environment", "harbor_trial")


class Try(NamedTuple):
    """One that came to nothing.

    Attributes:
        folder: Of its trial.
        faults: What went wrong, a name and a message each.
        waited_sec: How long until the next one.
        had_reward: A verifier graded what there was; it counts nowhere.
    """

    folder: Path
    faults: Sequence[tuple[str, str]]
    waited_sec: float
    had_reward: bool


def set_up(
    item: pytest.Item, guarded: Callable[[pytest.Item], AbstractContextManager[None]]
) -> Generator[None]:
    """Around the set-up of a trial's item: once, and again where its cause is one for that.

    Args:
        item: The trial's.
        guarded: Around each try: makes outcomes of our errors.
    """
    item.stash[_EARLIER] = []
    while True:
        wait: float | None = None
        try:
            with guarded(item):
                if item.stash[_EARLIER]:
                    item.session._setupstate.setup(item)
                else:
                    yield
        except _NO_RETRY:
            raise
        except BaseException:
            if (wait := wait_for(item)) is None:
                _adopt(item)
                raise
        else:  # an agent that could not work is no error of the set-up
            if (wait := wait_for(item)) is None:
                _adopt(item)
                return
        _put_away(item, wait)
        time.sleep(wait)


def wait_for(item: pytest.Item) -> float | None:
    """Seconds until the next try of an item whose trial is settled; None: there is none."""
    from pytest_harbor.plugin.trial_of_item import ITEM_TRIAL

    earlier = item.stash.get(_EARLIER, None)
    found = item.stash.get(ITEM_TRIAL, None)
    if earlier is None or found is None or not _is_fresh_each_time(item):
        return None
    return policy(item.config).wait_before(found.trial.result, len(earlier) + 1)


def policy(config: pytest.Config) -> RetryPolicy:
    """What the run asks for."""
    from pytest_harbor.trial.retries import RetryPolicy

    wanted = settings(config).benchmark
    return RetryPolicy(
        wanted.retries,
        frozenset(wanted.retry_include),
        frozenset(wanted.retry_exclude),
        wanted.retry_waits,
    )


def _adopt(item: pytest.Item) -> None:
    """Take the earlier tries of an item into the folder and the result of its last one."""
    from pytest_harbor.plugin.trial_of_item import ITEM_TRIAL

    earlier, found = item.stash[_EARLIER], item.stash.get(ITEM_TRIAL, None)
    if not earlier or found is None:
        return
    trial = found.trial
    for number, one in enumerate(earlier, 1):
        place = trial.record.path / TRIES / str(number)
        with suppress(OSError):  # kept beside it, then
            place.parent.mkdir(exist_ok=True)
            one.folder.rename(place)
        trial.result.tries.append(_told(one, number))
    trial.write()
    item.user_properties.append(("tries", len(earlier) + 1))


def _told(one: Try, number: int) -> dict[str, Any]:
    return {
        "folder": f"{TRIES}/{number}",
        "trial_name": one.folder.name,
        "faults": [{"type": name, "message": message} for name, message in one.faults],
        "waited_sec": round(one.waited_sec, 3),
        "had_reward": one.had_reward,
    }


def _is_fresh_each_time(item: pytest.Item) -> bool:
    """Whether the fixtures of the trial end with the item; a wider one would be the same again."""
    known = getattr(item, "_fixtureinfo", None)
    found = known.name2fixturedefs if known else {}
    scopes = [found[name][-1].scope for name in _SEAMS if name in found]
    return bool(scopes) and all(scope == "function" for scope in scopes)


def _put_away(item: pytest.Item, wait: float) -> None:
    from pytest_harbor.plugin.trial_of_item import ITEM_TRIAL

    trial = item.stash[ITEM_TRIAL].trial
    found = [(fault.type, fault.message) for work in trial.result.works for fault in work.faults]
    earlier = item.stash[_EARLIER]
    had_reward = any(work.reward is not None for work in trial.result.works)
    earlier.append(Try(trial.record.path, found, wait, had_reward))
    name, message = found[0]
    text = f"try {len(earlier)} failed, the next one after {wait:.1f} s: {name}: {message}"
    trial.record.note(f"tried again after {wait:.1f} s")
    _take_down(item)
    item.add_report_section("setup", "harbor", trial.record.redactor.text(text))


def _take_down(item: Any) -> None:
    """End the item's own fixtures, and make ready for new ones; wider ones stay."""
    item.session._setupstate.teardown_exact(item.parent)
    item._initrequest()
