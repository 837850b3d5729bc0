"""Try all escapes of a case once, and keep what came of them for its many tests."""

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_harbor.environment.base import Environment

from .attack import Attack
from .lab import Lab
from .policies import CASES, Allowance, Case
from .table import Escape
from .trial_box import probe, serve, served, trial_box


@dataclass
class Outcome:
    """What came of one case.

    Attributes:
        proofs: Row to what proves that it got out.
        said: Row to what the box itself saw.
        opened: Held row to what opening it brought.
        allowed: Allowance to what the box heard.
        refused: What the environment tells of refused connections.
    """

    proofs: dict[str, list[str]]
    said: dict[str, str]
    opened: dict[str, str]
    allowed: dict[str, str]
    refused: list[dict[str, Any]]


class Peer:
    """Another trial's box, with servers in it."""

    def __init__(self, box: Environment, lab: Lab) -> None:
        self.box = box
        serve(box)
        self.on_outside = set(lab.others_on_outside())
        lab.place["peer_box"] = lab.box_address(box.name)
        gateways = set(lab.others_on_outside().values()) - {lab.place["peer_box"]}
        lab.place["peer_gateway"] = min(gateways, default=lab.place["peer_gateway"])
        lab.set_zone()

    def log(self) -> str:
        """Who came."""
        return served(self.box)


def gather(lab: Lab, peer: Peer, run_id: str, folder: Path, case: Case) -> dict[str, Outcome]:
    """Try a case, and with it the others that need the same boxes."""
    cases = together_with(case)
    with trial_box(lab, run_id, folder, case.policies, compose=case.compose) as main:
        boxes = {
            each.name: main if each.box == "main" else main.service(each.box) for each in cases
        }
        attempts = {each.name: Attempt(each, boxes[each.name], lab) for each in cases}
        if case.compose:
            for box in (main, *map(main.service, main.services)):
                serve(box)
        place = {**lab.place, **lab.gateway_of(main.name, peer.on_outside)}
        for attempt in attempts.values():
            attempt.hold(place)
        for policy in case.policies[1:]:
            main.expect_network_policy(policy)
            main.set_network_policy(policy)
        place |= lab.gateway_of(main.name, peer.on_outside)
        together(attempts.values(), place)
        refused = [asdict(each) for each in main.refused_connections()]
        events = lab.events(peer.log())
    return {name: attempt.outcome(events, refused) for name, attempt in attempts.items()}


def together_with(case: Case) -> list[Case]:
    """The cases that are tried in the same boxes, this one among them."""
    key = (case.policies, case.compose)
    return [each for each in CASES if (each.policies, each.compose) == key]


def together(attempts: Any, place: Mapping[str, Any]) -> None:
    """Try from all boxes at once."""
    threads = [threading.Thread(target=attempt.run, args=(place,)) for attempt in attempts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Attempt:
    """One case in its box."""

    def __init__(self, case: Case, box: Environment, lab: Lab) -> None:
        self.case, self.box, self.lab = case, box, lab
        self.attack = Attack(case.rows)
        self.allowances = Attack([as_row(each) for each in case.allowances])
        self.opened: dict[str, str] = {}
        self.said: dict[str, str] = {}
        self.heard: dict[str, str] = {}

    def hold(self, place: Mapping[str, Any]) -> None:
        """Open the connections that are to be used later."""
        table = self.attack.table(self._place(place))
        if table["held"]:
            self.opened = probe(self.box, table, "hold")

    def run(self, place: Mapping[str, Any]) -> None:
        """Try everything, then what is allowed."""
        self.said = probe(self.box, self.attack.table(self._place(place)))
        self.heard = probe(self.box, self.allowances.table(self._place(place)))

    def outcome(self, events: list[dict[str, Any]], refused: list[dict[str, Any]]) -> Outcome:
        """What came of it."""
        proofs = self.attack.proofs(events, self.said, [self.case.front])
        return Outcome(proofs, self.said, self.opened, self.heard, refused)

    def _place(self, place: Mapping[str, Any]) -> dict[str, Any]:
        case = self.case
        return {
            **place,
            "front": case.front,
            "front_address": case.front_address,
            "alike": case.alike,
        }


def as_row(allowance: Allowance) -> Escape:
    """An allowance in the form that the probe takes."""
    return Escape(allowance.name, "", allowance.way, allowance.args)


def save(folder: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Keep outcomes for the other workers."""
    for name, outcome in outcomes.items():
        (folder / f"{name}.json").write_text(json.dumps(asdict(outcome)))


def load(folder: Path, name: str) -> Outcome | None:
    """An outcome that some worker has kept."""
    file = folder / f"{name}.json"
    return Outcome(**json.loads(file.read_text())) if file.exists() else None
