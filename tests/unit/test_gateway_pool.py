"""What becomes of gateways that fail, and of those that are given back late."""

import threading
from types import SimpleNamespace

import pytest

from pytest_harbor.environment.docker import gateway_network
from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.gateway.gateway import Gateway
from pytest_harbor.environment.docker.gateway.pool import GatewayPool
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.errors import EnvironmentFault
from pytest_harbor.task.network import NetworkPolicy


class Made:
    """Stands where a gateway would."""

    def __init__(self):
        self.removed = False

    def reset(self):
        raise KeyError("a gateway of an unknown state")

    def remove(self):
        self.removed = True


@pytest.fixture
def pool(monkeypatch):
    pool = GatewayPool(SimpleNamespace(), None, None)
    monkeypatch.setattr(pool, "_make", Made)
    return pool


def failing(pool, monkeypatch, error):
    def fail():
        raise error

    monkeypatch.setattr(pool, "_make", fail)


def settled(pool):
    for making in pool._coming:
        making._thread.join()


@pytest.mark.parametrize("error", [EnvironmentFault("no room"), KeyError("eth0")])
def test_an_old_failure_is_not_the_next_trials(pool, monkeypatch, error):
    with monkeypatch.context() as then:
        failing(pool, then, error)
        pool.warm()
        settled(pool)
    assert isinstance(pool.acquire(Deadline(None)), Made)


def test_a_failure_of_any_kind_is_told(pool, monkeypatch):
    failing(pool, monkeypatch, KeyError("eth0"))
    with pytest.raises(EnvironmentFault, match="eth0"):
        pool.acquire(Deadline(None))


def test_a_gateway_that_comes_back_after_the_end_is_removed(pool, monkeypatch):
    gateway = pool.acquire(Deadline(None))
    pool.close()
    failing(pool, monkeypatch, EnvironmentFault("closed"))
    pool.release(gateway)
    assert gateway.removed


def test_a_box_that_ends_after_the_run_gives_its_gateway_to_no_new_pool(pool, monkeypatch):
    made = []

    def pool_of_the_run(*_):
        made.append(pool)
        return pool if made == [pool] else GatewayPool(SimpleNamespace(), None, None)

    monkeypatch.setattr(gateway_network, "gateways", pool_of_the_run)
    spec = ContainerSpec("hello")
    network = gateway_network.GatewayNetwork(SimpleNamespace(), "box", spec)
    monkeypatch.setattr(network, "_enforce_first", lambda: None)
    network.begin(Deadline(None))
    network.settle()
    gateway = network._gateway
    pool.close()
    failing(pool, monkeypatch, EnvironmentFault("closed"))
    network.leave()
    assert gateway.removed
    assert len(made) == 1


def test_a_gateway_that_cannot_be_reset_is_replaced(pool):
    gateway = pool.acquire(Deadline(None))
    pool.release(gateway)
    assert pool.acquire(Deadline(None)) is not gateway
    assert gateway.removed


def test_what_is_made_ready_late_is_not_for_the_next_trial(monkeypatch):
    gateway = Gateway.__new__(Gateway)
    gateway._lock, made_ready = threading.RLock(), []
    monkeypatch.setattr(gateway, "_prepare", made_ready.append)
    monkeypatch.setattr(Gateway, "_talk", SimpleNamespace(ask=lambda *_, **__: ""))
    with gateway._lock:  # the trial ends before its next policy is seen to
        gateway.prepare(NetworkPolicy("allowlist", ("a.example",)))
        gateway.reset()
    for thread in threading.enumerate():
        if thread.name == "harbor gateway":
            thread.join()
    assert made_ready == []


def test_only_the_policy_that_is_wanted_last_is_made_ready(monkeypatch):
    gateway = Gateway.__new__(Gateway)
    gateway._lock, made_ready = threading.RLock(), []
    monkeypatch.setattr(gateway, "_prepare", made_ready.append)
    last = NetworkPolicy("allowlist", ("b.example",))
    with gateway._lock:
        gateway.prepare(NetworkPolicy("allowlist", ("a.example",)))
        gateway.prepare(last)
    for thread in threading.enumerate():
        if thread.name == "harbor gateway":
            thread.join()
    assert made_ready == [last]
