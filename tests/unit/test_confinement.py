"""What a container may not do, as the engine is told."""

import pytest

from pytest_harbor.environment.docker.capabilities import confinement
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.task.network import NetworkPolicy

OPEN, CLOSED = NetworkPolicy(), NetworkPolicy("no-network")
LISTED = NetworkPolicy("allowlist", ("a.example",))


def test_a_box_without_restrictions_and_options_is_told_nothing() -> None:
    assert confinement(ContainerSpec("hello")) == {}


@pytest.mark.parametrize("policies", [(CLOSED,), (OPEN, CLOSED), (LISTED,), (OPEN, LISTED)])
def test_a_restricted_box_sends_no_raw_frames(policies: tuple[NetworkPolicy, ...]) -> None:
    assert confinement(ContainerSpec("hello", network=policies))["CapDrop"] == ["NET_RAW"]


def test_beside_a_gateway_names_are_asked_for_below_no_domain_and_without_ipv6() -> None:
    told = confinement(ContainerSpec("hello", network=(OPEN, LISTED)))
    assert told["DnsSearch"] == ["."]
    assert set(told["Sysctls"].values()) == {"1"}


def test_options_of_the_run() -> None:
    told = confinement(ContainerSpec("hello", runtime="runsc", hardened=True))
    assert told == {"Runtime": "runsc", "SecurityOpt": ["no-new-privileges"]}
