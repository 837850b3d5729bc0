"""What a run's options name on the engine; no container is made for it."""

import pytest

from pytest_harbor.environment.docker import Engine
from pytest_harbor.environment.docker.gateway.uplink import find_uplink
from pytest_harbor.environment.docker.run_check import require_named
from pytest_harbor.errors import EnvironmentStartError, OptionError

pytestmark = pytest.mark.docker


def test_a_network_and_a_runtime_that_the_engine_has_pass(engine: Engine) -> None:
    require_named(engine, uplink="bridge", runtime="runc")
    require_named(engine, uplink=None, runtime=None)


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        ("no-such-network", "a network that the engine does not have; it has .*bridge"),
        ("host", "the machine's own; it has .*bridge"),
        ("none", "leads nowhere; it has .*bridge"),
    ],
)
def test_an_uplink_that_is_none_is_told_with_what_there_is(
    engine: Engine, network: str, reason: str
) -> None:
    told = rf"--harbor-uplink \(ini: harbor_uplink\) is '{network}', .*{reason}"
    with pytest.raises(OptionError, match=told):
        require_named(engine, uplink=network, runtime=None)


def test_both_faults_are_told_at_once(engine: Engine) -> None:
    told = r"--harbor-uplink .*'no-net'.*; --harbor-runtime .*'no-run'.*it has .*runc"
    with pytest.raises(OptionError, match=told):
        require_named(engine, uplink="no-net", runtime="no-run")


def test_restricted_trials_need_an_uplink_of_the_users_own(engine: Engine) -> None:
    with pytest.raises(EnvironmentStartError, match="'bridge', and a restricted trial"):
        find_uplink(engine, "bridge")
