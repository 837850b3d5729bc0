"""The lab of servers, and the results of all escapes under each policy, gathered once."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from pytest_harbor.environment.docker import remove_run

from .gather import Outcome, Peer, gather, load, save, together_with
from .lab import Lab
from .policies import CASE, EXACT, PUBLIC
from .trial_box import trial_box

OutcomeOf = Callable[[str], Outcome]

LONG = {
    *("wildcard", "addresses", "endpoints", "compose-tightened", "sidecar-exact"),
    *("sidecar-tightened", "compose-exact"),
}
"""Cases that a round in a hurry leaves out: another of the same means is in it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        if getattr(item, "callspec", None) and item.callspec.params.get("case") in LONG:
            item.add_marker(pytest.mark.long)
        if {"lab", "outcome_of"} & {*item.fixturenames}:
            item.add_marker(pytest.mark.docker)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all workers of one run of the suite share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "escapes"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def lab(engine, shared_folder: Path) -> Iterator[Lab]:
    made = Lab(engine.api, shared_folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def peer(lab: Lab, engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """Another trial, in its open phase."""
    folder = tmp_path_factory.mktemp("peer") / "peer"
    try:
        with trial_box(lab, engine.run_id, folder, (PUBLIC, EXACT)) as box:
            yield Peer(box, lab)
    finally:
        # Whatever waits on the lab's network goes before the network itself.
        remove_run(engine, engine.run_id, kept=True)


@pytest.fixture(scope="session")
def outcome_of(request: pytest.FixtureRequest, shared_folder: Path, tmp_path_factory) -> OutcomeOf:
    """What came of a case; tried once, by whichever worker needs it first."""

    def outcome_of(name: str) -> Outcome:
        case = CASE[name]
        with FileLock(shared_folder / f"{together_with(case)[0].name}.lock"):
            kept = load(shared_folder, name)
            if kept is None:
                lab, peer = (request.getfixturevalue(each) for each in ("lab", "peer"))
                folder = tmp_path_factory.mktemp("case") / name
                run_id = request.getfixturevalue("engine").run_id
                save(shared_folder, gather(lab, peer, run_id, folder, case))
                kept = load(shared_folder, name)
        assert kept is not None
        return kept

    return functools.cache(outcome_of)
