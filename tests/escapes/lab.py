"""The outside of an attack: servers that log, on networks of the suite's own.

All of it carries the label ``pytest-harbor-escapes`` with the number of the process that
made it, so that the next run can take away what a killed one left.
"""

import io
import json
import os
import random
import secrets
import tarfile
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from docker import APIClient
from docker.errors import APIError, ImageNotFound
from docker.types import IPAMConfig, IPAMPool
from filelock import FileLock

from tests.machine_address import on_default_bridge

INSIDE = Path(__file__).parent / "inside"
LABEL = "pytest-harbor-escapes"
OUTSIDE_SUBNETS = 16
SETTLE_SEC = 0.6
READY_SEC = 20.0

ALLOWED, OTHER, WILD = "198.51.100.10", "198.51.100.11", "198.51.100.12"
NAME_SERVER, ENDPOINT = "198.51.100.53", "198.51.100.20"
RANGE, IN_RANGE = "198.51.100.64/28", "198.51.100.65"
NAMES_PORT = 53
METADATA = "169.254.169.254"
# Where nothing of the suite listens: the gateway would answer for it with an error.
CLOSED = "198.51.100.99"

ZONE = {
    "allowed.test": [ALLOWED],
    "other.test": [OTHER],
    "*.wild.test": [WILD],
    "evilwild.test": [OTHER],
    "*.evilwild.test": [OTHER],
    "otherallowed.test": [OTHER],
    "*.allowed.test": [OTHER],
    "*.other.test": [OTHER],
    "dns.test": [NAME_SERVER],
    "denied.test": [ALLOWED],
    "any.below.test": [ALLOWED],
    "in-range.test": [IN_RANGE],
    "api.test": [ENDPOINT],
    "to-metadata.test": [METADATA],
    "to-loopback.test": ["127.0.0.1"],
    "to-multicast.test": ["224.0.0.1"],
    "to-self.test": ["0.0.0.0"],
}


class Lab:
    """The servers and networks of one process of the suite."""

    def __init__(self, api: APIClient, folder: Path) -> None:
        self._api = api
        self._folder = folder
        self._name = f"escapes-{os.getpid()}-{secrets.token_hex(3)}"
        self._labels = {LABEL: str(os.getpid())}
        self._containers: list[str] = []
        self._networks: list[str] = []
        self.image = ""
        self.outside = ""
        self.place: dict[str, Any] = {}

    def start(self) -> None:
        """Make the networks and start the servers."""
        remove_leftovers(self._api)
        self.image = build_image(self._api, self._folder)
        subnet = self._make_outside()
        plain = self._make_network("plain")
        self._server("neighbour", network=plain, ports=[9999])
        host = self._server("host", network="host")
        # What is meant for the machine and passes a gateway ends in the world as well.
        ports = [str(port) for port in (host["tcp"], host["udp"], self._published())]
        world = (f"{subnet.router}/28", *ports)
        self._server("world", *world, network=self.outside, caps=["NET_ADMIN"])
        self.place = {
            "allowed": ALLOWED, "other": OTHER, "dns": NAME_SERVER, "metadata": METADATA,
            "closed": CLOSED, "endpoint": ENDPOINT, "in_range": IN_RANGE,
            "other_router": "198.51.100.1", "uplink_router": subnet.router,
            "host": main_address(), "bridge": self._bridge_address(),
            "host_tcp": host["tcp"], "host_udp": host["udp"],
            "neighbour": self.address("neighbour", plain), "published": self._published(),
            "front": "allowed.test", "front_address": ALLOWED, "alike": "otherallowed.test",
            # Known once there are such boxes; until then nobody is there.
            "peer_box": "198.51.100.97", "peer_gateway": "198.51.100.98",
            "own_gateway": subnet.router, "own_router": subnet.router, "gateway_ports": [8000],
        }  # fmt: skip
        self.plain = plain
        self.set_zone()

    def stop(self) -> None:
        """Remove everything."""
        for name in self._containers:
            with suppress(APIError):
                self._api.remove_container(name, force=True, v=True)
        for network in self._networks:
            with suppress(APIError):
                self._api.remove_network(network)

    def set_zone(self) -> None:
        """Tell the world's name server what it knows, the lab's addresses included."""
        zone = {
            **ZONE,
            "to-machine.test": [self.place["host"]],
            "to-bridge.test": [self.place["bridge"]],
            "to-uplink.test": [self.place["uplink_router"]],
            "to-peer.test": [self.place["peer_box"]],
            "to-gateway.test": [self.place["peer_gateway"]],
        }
        self._put("world", "/run/zone.json", json.dumps(zone).encode())

    def events(self, extra: str = "") -> list[dict[str, Any]]:
        """Everything that the servers have logged, and lines of further logs."""
        time.sleep(SETTLE_SEC)
        found = []
        for name in self._containers:
            text = self._api.logs(name, stderr=False).decode() if "-box" not in name else ""
            role = name.removeprefix(self._name + "-")
            found += [{**json.loads(line), "at": role} for line in text.splitlines()]
        found += [{**json.loads(line), "at": "peer"} for line in extra.splitlines()]
        return found

    def run_box(self, name: str, network: str) -> str:
        """An ordinary container of the suite's own, for the control."""
        return self._run(f"box-{name}", ["sleep", "infinity"], network=network)

    def run_in(self, container: str, table: Mapping[str, Any], mode: str = "run") -> Any:
        """Run the probe in a container of the suite's own."""
        self._put(container, "/tmp/probe.py", (INSIDE / "probe.py").read_bytes())
        self._put(container, "/tmp/table.json", json.dumps(table).encode())
        made = self._api.exec_create(
            self._full(container), ["python3", "/tmp/probe.py", mode, "/tmp/table.json"]
        )
        out, err = self._api.exec_start(made["Id"], demux=True)
        assert not err, err.decode()
        return json.loads(out)

    def address(self, container: str, network: str) -> str:
        """Address of a container, of the suite or not, on a network."""
        details = self._api.inspect_container(self._full(container))
        return str(details["NetworkSettings"]["Networks"][network]["IPAddress"])

    def box_address(self, container: str) -> str:
        """An address of a trial's container, on whichever network it is."""
        details = self._api.inspect_container(container)
        networks = details["NetworkSettings"]["Networks"].values()
        addresses = [network["IPAddress"] for network in networks if network["IPAddress"]]
        return str(addresses[0]) if addresses else self.place["peer_box"]

    def gateway_of(self, container: str, known: Collection[str]) -> dict[str, Any]:
        """Where a trial's gateway is, as far as it has one, and on which ports it listens."""
        own = self._api.inspect_container(container)
        routers = [each["Gateway"] for each in own["NetworkSettings"]["Networks"].values()]
        pools = [
            config.get("Gateway")
            for name in own["NetworkSettings"]["Networks"]
            for config in self._api.inspect_network(name)["IPAM"]["Config"] or []
        ]
        known_routers = [router for router in (*pools, *routers) if router]
        found: dict[str, Any] = {"own_router": known_routers[-1]} if known_routers else {}
        for gateway, address in self.others_on_outside().items():
            if gateway not in known and gateway != own["Id"]:
                found |= {"own_gateway": address, "gateway_ports": self._listening(gateway)}
        return found

    def _listening(self, container: str) -> list[int]:
        made = self._api.exec_create(container, ["cat", "/proc/net/tcp", "/proc/net/tcp6"])
        lines = [line.split() for line in self._api.exec_start(made["Id"]).decode().splitlines()]
        ports = {
            int(line[1].split(":")[1], 16) for line in lines if len(line) > 3 and line[3] == "0A"
        }
        return sorted(ports - {NAMES_PORT})

    def others_on_outside(self) -> dict[str, str]:
        """Every container on the outside network but the world: its id to its address there."""
        details = self._api.inspect_network(self.outside)
        world = self._api.inspect_container(self._full("world"))["Id"]
        return {
            container: facts["IPv4Address"].split("/")[0]
            for container, facts in details["Containers"].items()
            if container != world
        }

    def _full(self, name: str) -> str:
        full = f"{self._name}-{name}"
        return full if full in self._containers else name

    def _make_outside(self) -> "Subnet":
        # The world is this network's router, so the machine itself has no address on it.
        for number in random.sample(range(OUTSIDE_SUBNETS), OUTSIDE_SUBNETS):
            subnet = Subnet(number)
            try:
                self.outside = self._make_network("outside", subnet)
            except APIError as error:
                if "overlaps" not in str(error):
                    raise
            else:
                return subnet
        raise AssertionError("every subnet of the suite's is taken: are old runs in the way?")

    def _make_network(self, name: str, subnet: "Subnet | None" = None) -> str:
        full = f"{self._name}-{name}"
        pools = [IPAMPool(subnet=subnet.text, gateway=subnet.router)] if subnet else []
        options = {
            "com.docker.network.bridge.inhibit_ipv4": "true",
            "com.docker.network.bridge.enable_ip_masquerade": "false",
        }
        self._api.create_network(
            full, driver="bridge", labels=self._labels, options=options if subnet else {},
            ipam=IPAMConfig(pool_configs=pools) if subnet else None,
        )  # fmt: skip
        self._networks.append(full)
        return full

    def _server(
        self,
        role: str,
        *args: str,
        network: str,
        caps: Sequence[str] = (),
        ports: Sequence[int] = (),
    ) -> dict[str, Any]:
        command = ["python3", "-u", "/servers.py", role, *args]
        self._run(role, command, network=network, caps=caps, ports=ports)
        for _ in range(int(READY_SEC / 0.05)):
            for line in self._api.logs(self._full(role)).decode().splitlines():
                if '"via": "ready"' in line:
                    return dict(json.loads(line))
            time.sleep(0.05)
        raise AssertionError(f"{role}: {self._api.logs(self._full(role)).decode()[-2000:]}")

    def _run(
        self, name: str, command: list[str], *, network: str, caps: Sequence[str] = (),
        ports: Sequence[int] = (),
    ) -> str:  # fmt: skip
        full = f"{self._name}-{name}"
        config = self._api.create_host_config(
            network_mode=network, cap_add=list(caps), port_bindings=dict.fromkeys(ports)
        )
        self._api.create_container(
            self.image, command, name=full, labels=self._labels, host_config=config,
            ports=list(ports), stop_signal="SIGKILL",
        )  # fmt: skip
        self._containers.append(full)
        self._put(name, "/servers.py", (INSIDE / "servers.py").read_bytes())
        self._api.start(full)
        return name

    def _put(self, container: str, path: str, data: bytes) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        self._api.put_archive(self._full(container), "/", buffer.getvalue())

    def _bridge_address(self) -> str:
        return on_default_bridge(self._api)

    def _published(self) -> int:
        (binding, *_) = self._api.port(self._full("neighbour"), 9999)
        return int(binding["HostPort"])


class Subnet:
    """One of the small networks within 203.0.113.0/24."""

    def __init__(self, number: int) -> None:
        self.text = f"203.0.113.{number * 16}/28"
        self.router = f"203.0.113.{number * 16 + 1}"


def main_address() -> str:
    """The address by which this machine speaks to the outside; nothing is sent."""
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.connect((OTHER, 9))
        return str(connection.getsockname()[0])


def build_image(api: APIClient, folder: Path) -> str:
    """The image of probes and servers; kept for later runs under its content's name."""
    data = (INSIDE / "Dockerfile").read_bytes()
    tag = f"{LABEL}:{sha256(data).hexdigest()[:20]}"
    with FileLock(folder / "image.lock"):
        try:
            api.inspect_image(tag)
        except ImageNotFound:
            log = list(api.build(path=str(INSIDE), tag=tag, rm=True, forcerm=True, decode=True))
            problems = [line["error"] for line in log if "error" in line]
            assert not problems, problems
    return tag


def remove_leftovers(api: APIClient) -> None:
    """Take away what a killed process of the suite left on the engine."""
    for container in api.containers(all=True, filters={"label": LABEL}):
        if not is_alive(container["Labels"][LABEL]):
            with suppress(APIError):
                api.remove_container(container["Id"], force=True, v=True)
    for network in api.networks(filters={"label": LABEL}):
        if not is_alive(network["Labels"][LABEL]):
            with suppress(APIError):
                api.remove_network(network["Id"])


def is_alive(pid: str) -> bool:
    """Whether a process of this machine still runs."""
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
