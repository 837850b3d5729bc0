"""Endpoints as people write them."""

import pytest

from pytest_harbor.task.endpoint import parse_endpoint
from pytest_harbor.task.network import HOST_MACHINE, Endpoint


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("https://api.example/v1?x=1", "api.example", 443),
        ("HTTP://API.example.", "api.example", 80),
        ("https://api.example:8443", "api.example", 8443),
        ("api.example:22", "api.example", 22),
        ("10.0.0.1:80", "10.0.0.1", 80),
        ("[2001:DB8::1]:80", "2001:db8::1", 80),
        (f"http://{HOST_MACHINE}:8000", HOST_MACHINE, 8000),
    ],
)
def test_a_url_or_a_host_and_its_port(text: str, host: str, port: int) -> None:
    endpoint = parse_endpoint(text)
    assert endpoint == Endpoint(host, port)
    assert parse_endpoint(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "without a host"),
        ("api.example", "needs a port"),
        ("api.example:0", "needs a port"),
        ("api.example:x", "a number from 1 to 65535"),
        ("//api.example:80", "without a host"),
        ("ssh://api.example:22", "'ssh' is no scheme"),
        ("*.example:80", "one host"),
        ("10.0.0.0/8", "needs a port"),
        ("https://me:pw@api.example", "without a user and a password"),
        ("http://localhost:80", f"write {HOST_MACHINE} for the engine's machine"),
        ("http://api.localhost:80", f"write {HOST_MACHINE}"),
        ("127.1.2.3:80", f"write {HOST_MACHINE}"),
        ("0.0.0.0:80", f"write {HOST_MACHINE}"),
        ("[::1]:80", f"write {HOST_MACHINE}"),
        ("[::1", "not an endpoint"),
        ("999.1.1.1:80", "looks like an IPv4 address"),
    ],
)
def test_what_no_container_reaches_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_endpoint(text)
    assert reason in str(caught.value)
    assert "pw" not in str(caught.value)
