"""What a resolved compose configuration may not ask of the machine."""

from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.environment.docker.compose_policy import refusals, ways_out
from pytest_harbor.environment.docker.compose_service_keys import Grounds

TASK = Path("/tasks/hello")
LOGS = "/tmp/private/logs/verifier"
GROUNDS = Grounds(TASK, frozenset({LOGS}))


def bind(source: str) -> dict[str, Any]:
    return {"type": "bind", "source": source, "target": "/x"}


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("privileged", True, "privileged"),
        ("cap_add", ["SYS_ADMIN"], "cap_add"),
        ("devices", [{"source": "/dev/kvm", "target": "/dev/kvm"}], "devices"),
        ("device_cgroup_rules", ["c 1:3 mr"], "device_cgroup_rules"),
        ("gpus", [{"count": -1}], "gpus"),
        ("network_mode", "host", "network_mode"),
        ("network_mode", "container:other", "network_mode"),
        ("pid", "host", "pid"),
        ("ipc", "host", "ipc"),
        ("uts", "host", "uts"),
        ("userns_mode", "host", "userns_mode"),
        ("cgroup", "host", "cgroup"),
        ("cgroup_parent", "/", "cgroup_parent"),
        ("runtime", "other", "runtime"),
        ("security_opt", ["seccomp:unconfined"], "security_opt"),
        ("security_opt", ["apparmor=unconfined"], "security_opt"),
        ("security_opt", ["no-new-privileges:false"], "security_opt"),
        ("sysctls", {"kernel.core_pattern": "|/x"}, "sysctls.kernel.core_pattern"),
        ("volumes", [bind("/")], "volumes[0].source"),
        ("volumes", [bind("/var/run/docker.sock")], "volumes[0].source"),
        ("volumes", [bind("/tasks/hello/../other")], "volumes[0].source"),
        ("volumes", [bind("/tasks/hello2")], "volumes[0].source"),
        ("volumes", [{"type": "npipe", "source": "x", "target": "y"}], "volumes[0].type"),
        ("volumes_from", ["container:other"], "volumes_from"),
        ("external_links", ["other"], "external_links"),
        ("credential_spec", {"file": "x"}, "credential_spec"),
        ("use_api_socket", True, "use_api_socket"),
        ("provider", {"type": "x"}, "provider"),
        ("post_start", [{"command": "x", "privileged": True}], "post_start[0].privileged"),
        ("oom_kill_disable", True, "oom_kill_disable"),
        ("oom_score_adj", -500, "oom_score_adj"),
        ("something_new", {"a": 1}, "something_new"),
        ("build", {"context": "/"}, "build.context"),
        ("build", {"context": "https://example.com/x.git"}, "build.context"),
        ("build", {"context": "/tasks/hello", "dockerfile": "../x"}, "build.dockerfile"),
        ("build", {"context": "/tasks/hello", "network": "host"}, "build.network"),
        ("build", {"context": "/tasks/hello", "privileged": True}, "build.privileged"),
        ("build", {"context": "/tasks/hello", "ssh": ["default"]}, "build.ssh"),
        ("build", {"context": "/tasks/hello", "entitlements": ["x"]}, "build.entitlements"),
        (
            "build",
            {"context": "/tasks/hello", "additional_contexts": {"a": "/etc"}},
            "build.additional_contexts.a",
        ),
        (
            "deploy",
            {"resources": {"reservations": {"devices": [{"driver": "nvidia"}]}}},
            "deploy.resources.reservations.devices",
        ),
    ],
)
def test_rights_over_the_host_are_refused_by_name(key: str, value: Any, named: str) -> None:
    model = {"services": {"main": {}, "db": {key: value}}}
    (refusal,) = refusals(model, GROUNDS)
    assert (refusal.service, refusal.key) == ("db", named)
    assert str(refusal).startswith(f"service 'db': {named}: ")


@pytest.mark.parametrize(
    ("kind", "settings", "named"),
    [
        ("volumes", {"external": True}, "volumes.x.external"),
        ("volumes", {"driver": "plugin"}, "volumes.x.driver"),
        (
            "volumes",
            {"driver_opts": {"type": "none", "o": "bind", "device": "/"}},
            "volumes.x.driver_opts",
        ),
        ("networks", {"external": True}, "networks.x.external"),
        ("networks", {"driver": "host"}, "networks.x.driver"),
        ("networks", {"driver": "macvlan"}, "networks.x.driver"),
        (
            "networks",
            {"driver_opts": {"com.docker.network.bridge.name": "eth0"}},
            "networks.x.driver_opts.com.docker.network.bridge.name",
        ),
        ("networks", {"ipam": {"driver": "plugin"}}, "networks.x.ipam.driver"),
        ("secrets", {"file": "/etc/shadow"}, "secrets.x.file"),
        ("secrets", {"external": True}, "secrets.x.external"),
        ("configs", {"file": "/etc/shadow"}, "configs.x.file"),
        ("configs", {"template_driver": "x"}, "configs.x.template_driver"),
    ],
)
def test_what_is_shared_with_the_host_is_refused(kind: str, settings: Any, named: str) -> None:
    (refusal,) = refusals({"services": {}, kind: {"x": settings}}, GROUNDS)
    assert (refusal.service, refusal.key) == ("", named)


def test_unknown_sections_are_refused() -> None:
    (refusal,) = refusals({"services": {}, "models": {"a": {}}, "x-mine": {}}, GROUNDS)
    assert refusal.key == "models"


def test_what_tasks_use_is_accepted() -> None:
    service = {
        "build": {
            "context": "/tasks/hello",
            "dockerfile": "environment/Dockerfile",
            "args": {"A": "1"},
            "target": "last",
            "network": "none",
            "additional_contexts": {"base": "docker-image://debian", "own": "/tasks/hello/a"},
        },
        "privileged": False,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "sysctls": {"net.core.somaxconn": "1024"},
        "network_mode": "service:main",
        "ipc": "shareable",
        "volumes": [
            bind("/tasks/hello/environment/my.conf"),
            bind(LOGS),
            {"type": "volume", "source": "data", "target": "/data", "volume": {}},
            {"type": "tmpfs", "target": "/tmp"},
        ],
        "deploy": {"resources": {"limits": {"cpus": 1, "memory": "1"}}, "replicas": 2},
        "x-note": {"anything": True},
    }
    model = {
        "name": "hello",
        "services": {"main": service},
        "volumes": {"data": {}, "ram": {"driver_opts": {"type": "tmpfs", "device": "tmpfs"}}},
        "networks": {"back": {"driver": "bridge", "ipam": {}, "internal": True}},
        "secrets": {"s": {"file": "/tasks/hello/environment/secret"}, "e": {"environment": "A"}},
        "configs": {"c": {"content": "text"}},
    }
    assert refusals(model, GROUNDS) == []


def test_gpus_come_with_the_tasks_own_field() -> None:
    device = {"driver": "nvidia", "capabilities": ["gpu"], "count": 1}
    deploy = {"resources": {"reservations": {"devices": [device]}}}
    model = {"services": {"main": {"deploy": deploy}}}
    assert refusals(model, Grounds(TASK, gpus=1)) == []
    assert len(refusals(model, Grounds(TASK, gpus=0))) == 1


def test_crowds_are_refused() -> None:
    (refusal,) = refusals({"services": {"main": {}, "b": {"scale": 1000}}}, GROUNDS)
    assert "1001 containers" in str(refusal)


def test_a_link_out_of_the_task_is_no_file_of_it(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "link").symlink_to("/etc")
    model = {"services": {"main": {"volumes": [bind(str(tmp_path / "task" / "link"))]}}}
    (refusal,) = refusals(model, Grounds(tmp_path / "task"))
    assert refusal.key == "volumes[0].source"


def test_ways_out_of_a_closed_network() -> None:
    model = {
        "services": {
            "a": {"network_mode": "host"},
            "b": {"extra_hosts": ["host.docker.internal=host-gateway"]},
            "c": {"network_mode": "none", "extra_hosts": ["db=10.0.0.1"]},
        },
        "networks": {"n": {"external": True}, "m": None},
    }
    found = [(refusal.service, refusal.key) for refusal in ways_out(model, GROUNDS)]
    assert found == [("a", "network_mode"), ("b", "extra_hosts"), ("", "networks.n.external")]


@pytest.mark.parametrize(
    ("service", "key"),
    [
        ({"privileged": True}, "privileged"),
        ({"cap_add": ["CHOWN", "NET_ADMIN"]}, "cap_add"),
        ({"cap_add": ["cap_net_raw"]}, "cap_add"),
        ({"cap_add": ["SYS_ADMIN"]}, "cap_add"),
        ({"pid": "host"}, "pid"),
        ({"ipc": "container:other"}, "ipc"),
        ({"use_api_socket": True}, "use_api_socket"),
        ({"devices": ["/dev/net/tun"]}, "devices"),
        ({"volumes": [bind("/var/run/docker.sock")]}, "volumes[0].source"),
        ({"post_start": [{"command": "x", "privileged": True}]}, "post_start[0].privileged"),
        ({"cap_add": ["DAC_READ_SEARCH"]}, "cap_add"),
        ({"cap_add": ["SOMETHING_NEW"]}, "cap_add"),
        ({"security_opt": ["systempaths=unconfined"]}, "security_opt"),
        ({"security_opt": ["seccomp=unconfined"]}, "security_opt"),
        ({"sysctls": {"kernel.core_pattern": "|/x"}}, "sysctls.kernel.core_pattern"),
        ({"gpus": [{"count": -1}]}, "gpus"),
        ({"runtime": "other"}, "runtime"),
        ({"cgroup_parent": "/"}, "cgroup_parent"),
        ({"something_new": True}, "something_new"),
        (
            {"deploy": {"resources": {"reservations": {"devices": [{"driver": "any"}]}}}},
            "deploy.resources.reservations.devices",
        ),
    ],
)
def test_rights_that_lead_round_a_policy(service: dict[str, Any], key: str) -> None:
    (refusal,) = ways_out({"services": {"main": service}}, GROUNDS)
    assert (refusal.service, refusal.key) == ("main", key)


@pytest.mark.parametrize("kind", ["secrets", "configs"])
def test_a_socket_of_the_machine_is_a_way_out_whatever_it_is_called(kind: str) -> None:
    model = {"services": {}, kind: {"x": {"file": "/var/run/docker.sock"}}}
    (refusal,) = ways_out(model, GROUNDS)
    assert refusal.key == f"{kind}.x.file"


def test_harmless_rights_are_no_way_out() -> None:
    service = {"cap_add": ["SYS_NICE"], "volumes": [bind("/tasks/hello/data")], "pid": "service:b"}
    assert ways_out({"services": {"main": service}}, GROUNDS) == []
