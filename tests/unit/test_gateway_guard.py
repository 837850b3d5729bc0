"""The guard of a process: several wait for it, and what is over leaves nothing in its rules."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from pytest_harbor.environment.docker.gateway.guard import Guard
from pytest_harbor.errors import EnvironmentFault, EnvironmentStartError


class Channel:
    """Writes down what it is asked."""

    def __init__(self):
        self.asked = []
        self.is_gone = False

    def ask(self, verb, *words, texts=()):
        self.asked.append(" ".join([verb, *words, *texts]).strip())
        return ""

    def end(self):
        self.asked.append("end")


@pytest.fixture
def guard(monkeypatch):
    guard = Guard(SimpleNamespace())
    guard.channel = Channel()
    monkeypatch.setattr(guard, "_made", lambda _image: guard.channel)
    return guard


def test_everybody_who_waits_is_told_the_same_reason(guard, monkeypatch):
    begun, waiting = [], threading.Barrier(4)

    def fail(_image):
        begun.append(1)
        waiting.wait(10)
        raise EnvironmentFault("no NET_ADMIN here")

    def reason(_number):
        guard.begin()
        attempt = guard._begun(None)
        waiting.wait(10)
        monkeypatch.setattr(guard, "_begun", lambda _image: attempt)
        with pytest.raises(EnvironmentStartError) as caught:
            guard.require()
        return str(caught.value)

    monkeypatch.setattr(guard, "_made", fail)
    with ThreadPoolExecutor(3) as threads:
        reasons = list(threads.map(reason, range(3)))
    assert begun == [1]
    assert all("no NET_ADMIN here" in one for one in reasons)


def test_a_failure_is_tried_anew(guard, monkeypatch):
    def fail(_image):
        raise KeyError("phg")

    with monkeypatch.context() as then:
        then.setattr(guard, "_made", fail)
        with pytest.raises(EnvironmentStartError, match="phg"):
            guard.require()
    guard.require()


def test_a_gateway_that_is_gone_leaves_its_address_to_others(guard):
    guard.close_to("172.20.0.9", "br-1")
    guard.forget("172.20.0.9", "br-1")
    deleted = [one for one in guard.channel.asked if one.startswith("add delete element")]
    assert len(deleted) == 2
    guard.close_to("172.20.0.9", "br-1")  # the next gateway there is closed in again
    assert sum("add add element" in one for one in guard.channel.asked) == 4


def test_the_guard_does_not_linger_when_its_process_ends_it(guard):
    guard.require()
    guard.close()
    assert guard.channel.asked[-2:] == ["linger", "end"]


def test_lost_rules_are_made_anew_with_all_that_they_knew(guard):
    guard.require()
    guard.next_bridge_name()
    guard.close_to("172.20.0.9", "br-1")
    lost, guard.channel = guard.channel, Channel()
    lost.is_gone = True
    asked = list(lost.asked)
    bridge = guard.next_bridge_name()  # asks nobody who is gone
    guard.begin()
    guard.require()
    assert lost.asked == asked
    added = [one for one in guard.channel.asked if one.startswith("add add element")]
    assert len(added) == 4
    assert any("172.20.0.9 }" in one for one in added)
    assert any(bridge in one for one in added)
