"""Two policies made one, held against a judge that asks of each host in turn."""

import ipaddress
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.task.network import Endpoint, NetworkPolicy, distinct
from pytest_harbor.task.network_combination import combined, covers, widest

LABELS = ("a", "b", "org")
NAMES = tuple(".".join(parts) for n in (1, 2, 3) for parts in product(LABELS, repeat=n))
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.1.1", "10.1.0.1", "11.0.0.1", "2001:db8::1", "2001::1")
NETWORKS = ("10.0.0.0/24", "10.0.0.0/16", "10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "::/0")
HOSTS = (*NAMES, *ADDRESSES)
ENDPOINTS = (Endpoint("a.org", 443), Endpoint("10.0.0.1", 80))

entries = st.sampled_from((*HOSTS, *NETWORKS, "10.0.0.1/32", *(f"*.{name}" for name in NAMES[:12])))
lists = st.lists(entries, max_size=4).map(tuple)
policies = st.builds(
    lambda mode, hosts, denied, endpoints: NetworkPolicy(
        mode, hosts if mode == "allowlist" else (), denied, endpoints
    ),
    st.sampled_from(("public", "no-network", "allowlist")),
    lists,
    lists,
    st.lists(st.sampled_from(ENDPOINTS), max_size=2, unique=True).map(tuple),
)


def means(entry: str, host: str) -> bool:
    """Whether one entry of a list stands for one host."""
    if entry.startswith("*."):
        return host in NAMES and host.endswith(entry[1:])
    if host in NAMES or "/" not in entry:
        return entry == host
    return ipaddress.ip_address(host) in ipaddress.ip_network(entry)


def lets_host_through(policy: NetworkPolicy, host: str) -> bool:
    """Whether a policy lets one host through, its endpoints aside."""
    if policy.mode == "no-network" or any(means(entry, host) for entry in policy.denied):
        return False
    return policy.mode == "public" or any(means(entry, host) for entry in policy.hosts)


@given(policies, policies)
def test_only_what_both_allow(first: NetworkPolicy, second: NetworkPolicy) -> None:
    both = combined(first, second)
    for host in HOSTS:
        allowed = lets_host_through(first, host) and lets_host_through(second, host)
        assert lets_host_through(both, host) is allowed, host


@given(policies, policies)
def test_endpoints_of_both_survive_everything(first: NetworkPolicy, second: NetworkPolicy) -> None:
    assert set(combined(first, second).endpoints) == {*first.endpoints, *second.endpoints}


@given(policies, policies)
def test_no_network_wins_and_public_adds_nothing(
    first: NetworkPolicy, second: NetworkPolicy
) -> None:
    modes = {first.mode, second.mode}
    expected = next(m for m in ("no-network", "allowlist", "public") if m in modes)
    assert combined(first, second).mode == expected


@given(policies, policies)
def test_combined_once_more_it_stays_as_it_is(first: NetworkPolicy, second: NetworkPolicy) -> None:
    both = combined(first, second)
    assert combined(both, second) == both


@given(policies)
def test_a_policy_without_a_run_is_the_tasks(policy: NetworkPolicy) -> None:
    same = combined(policy, NetworkPolicy())
    for host in HOSTS:
        assert lets_host_through(same, host) is lets_host_through(policy, host)


@given(entries, entries)
def test_an_entry_covers_another_where_it_means_all_that_it_means(wide: str, narrow: str) -> None:
    if covers(wide, narrow):
        assert all(means(wide, host) for host in HOSTS if means(narrow, host))
    elif "*" not in narrow and "/" not in narrow:
        assert not means(wide, narrow)


@given(lists)
def test_the_widest_entries_mean_the_same(hosts: tuple[str, ...]) -> None:
    kept = widest(hosts)
    assert set(kept) <= set(hosts)
    for host in HOSTS:
        assert any(means(one, host) for one in kept) is any(means(one, host) for one in hosts)


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ("a.org", "a.org", "a.org"),
        ("a.org", "b.org", ""),
        ("a.org", "*.org", "a.org"),
        ("org", "*.org", ""),
        ("xorg", "*.org", ""),
        ("*.a.org", "*.org", "*.a.org"),
        ("*.a.org", "*.b.org", ""),
        ("10.0.0.1", "10.0.0.0/8", "10.0.0.1"),
        ("10.0.0.0/8", "10.1.0.0/16", "10.1.0.0/16"),
        ("10.0.0.0/8", "11.0.0.0/8", ""),
        ("2001:db8::1", "2001:db8::/32", "2001:db8::1"),
        ("2001:db8::1", "0.0.0.0/0", ""),
        ("a.org", "10.0.0.1", ""),
        ("a.org 10.0.0.1", "*.org 10.0.0.0/24 b.org", "a.org 10.0.0.1"),
    ],
)
def test_two_allowlists(first: str, second: str, both: str) -> None:
    def listed(hosts: str) -> NetworkPolicy:
        return NetworkPolicy("allowlist", tuple(hosts.split()))

    assert combined(listed(first), listed(second)) == listed(both)
    assert set(combined(listed(second), listed(first)).hosts) == set(both.split())


def test_denied_hosts_leave_the_list_and_stay_denied_for_the_rest() -> None:
    task = NetworkPolicy("allowlist", ("a.org", "*.b.org", "10.0.0.0/8"))
    run = NetworkPolicy("public", denied=("a.org", "x.b.org", "10.0.0.1"))
    assert combined(task, run) == NetworkPolicy("allowlist", ("*.b.org", "10.0.0.0/8"), run.denied)


def test_policies_that_let_the_same_through_are_told_once() -> None:
    closed = NetworkPolicy("no-network")
    listed = NetworkPolicy("allowlist", ("a.org",))
    assert distinct([closed, NetworkPolicy("allowlist"), listed, NetworkPolicy(), listed]) == (
        closed,
        listed,
        NetworkPolicy(),
    )
    with_endpoint = closed.with_endpoints(ENDPOINTS[:1])
    assert distinct([closed, with_endpoint]) == (closed, with_endpoint)
