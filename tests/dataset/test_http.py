"""Requests to servers that are out of order."""

import pytest

from pytest_harbor.dataset import http as http_module
from pytest_harbor.dataset.http import Http
from pytest_harbor.errors import DatasetUnreachableError


@pytest.mark.timeout(30)
@pytest.mark.parametrize("status", [429, 503])
def test_a_server_does_not_say_how_long_a_run_waits(serve, monkeypatch, status):
    monkeypatch.setattr(http_module, "_MAX_WAIT_SEC", 0.01)
    monkeypatch.setattr(http_module, "_TRIES", 2)
    server = serve(lambda *_: (status, {"Retry-After": "86400"}, b""))
    with pytest.raises(DatasetUnreachableError, match="does not answer"):
        Http().document("GET", server.url)
    assert len(server.paths) == 3
