"""Every check as data, and the families that find what it names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pytest_harbor.check import (
    compose,
    dataset,
    files,
    formats,
    house,
    images,
    instruction,
    leaks,
    limits,
    packages,
    scripts,
    secrets,
    verifier,
)
from pytest_harbor.check.finding import Check, Found
from pytest_harbor.check.rules import HouseRules
from pytest_harbor.check.subject import Subject

Family = Callable[[Subject, HouseRules], Iterator[Found]]

FAMILIES: tuple[Family, ...] = (
    files.find,
    scripts.find,
    images.find,
    packages.find,
    leaks.find,
    instruction.find,
    verifier.find,
    limits.find,
    compose.find,
    secrets.find,
    house.find,
)
"""Checks of one task by itself."""

TRIAL_CHECKS = (
    Check("slow-verifier", "on a slower machine it runs out of time", "raise timeout_sec"),
    Check(
        "refused-while-grading",
        "the verifier asks for a network that it does not have",
        "bring what it asks for in the image",
    ),
)
"""What only trials tell, under ``--harbor-check=full``."""

CHECKS: Mapping[str, Check] = {
    check.code: check
    for family in (
        formats.CHECKS,
        files.CHECKS,
        scripts.CHECKS,
        images.CHECKS,
        packages.CHECKS,
        leaks.CHECKS,
        instruction.CHECKS,
        verifier.CHECKS,
        limits.CHECKS,
        compose.CHECKS,
        secrets.CHECKS,
        house.CHECKS,
        dataset.CHECKS,
        TRIAL_CHECKS,
    )
    for check in family
}
