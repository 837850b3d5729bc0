"""Entries of ``allowed_hosts``."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.task.network import is_impossible_ipv4, normal_host


@pytest.mark.parametrize(
    ("entry", "normal"),
    [
        ("example.com", "example.com"),
        (" Example.COM. ", "example.com"),
        ("localhost", "localhost"),
        ("*.example.com", "*.example.com"),
        ("10.1.2.3", "10.1.2.3"),
        ("999.1.1.1", "999.1.1.1"),
        ("::1", "::1"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("2001:db8:0::/32", "2001:db8::/32"),
        ("a" * 63 + ".b", "a" * 63 + ".b"),
    ],
)
def test_normal_form(entry: str, normal: str) -> None:
    assert normal_host(entry) == normal


@pytest.mark.parametrize(
    "entry",
    [
        "",
        " ",
        "...",
        "*",
        "*.",
        "a.*.b",
        "*a.b",
        "*.10.0.0.1",
        "*.*.b",
        "under_score.com",
        "-a.com",
        "a-.com",
        "a..b",
        "a" * 64,
        "http://example.com",
        "example.com/path",
        "example.com:443",
        "10.0.0.1/8",
        "[::1]",
        "fe80::1%eth0",
        "exämple.com",
        "a b",
    ],
)
def test_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="accepted is a host name"):
        normal_host(entry)


@pytest.mark.parametrize(
    ("host", "expected"), [("999.1.1.1", True), ("1.2.3.4", False), ("a.b", False)]
)
def test_impossible_addresses(host: str, expected: bool) -> None:
    assert is_impossible_ipv4(host) is expected


@given(st.text())
def test_any_text_has_a_normal_form_that_stays_or_is_refused(text: str) -> None:
    try:
        normal = normal_host(text)
    except ValueError:
        return
    assert normal_host(normal) == normal
    assert normal.isascii()


@given(st.ip_addresses())
def test_every_address_is_accepted(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    text = str(address)
    if "%" not in text:
        assert normal_host(text.upper()) == text
