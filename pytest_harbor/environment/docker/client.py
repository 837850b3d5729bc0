"""The connection to the engine: found, opened once per process, its errors made ours."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import docker
import docker.errors
import requests
import requests.exceptions
import urllib3.exceptions
from docker.context import ContextAPI
from docker.context.config import get_current_context_name
from docker.utils import kwargs_from_env

from pytest_harbor.environment.docker.owner import Owner
from pytest_harbor.errors import EngineUnavailableError, EnvironmentFault, EnvironmentLostError

LABEL = "pytest-harbor"
RUN_LABEL = "pytest-harbor.run"
OWNER_LABEL = "pytest-harbor.owner"
FORK_LABEL = "pytest-harbor.fork"

REQUEST_TIMEOUT_SEC = 120.0
"""For answers that an engine under load owes at once; commands and builds have their own."""

CONNECT_TIMEOUT_SEC = 20

_CONNECTION_ERRORS = (
    requests.exceptions.ConnectionError,
    requests.exceptions.Timeout,
    requests.exceptions.ChunkedEncodingError,
    urllib3.exceptions.HTTPError,
    OSError,
)


class ApiClient(docker.APIClient):
    """The SDK's low-level client, and the requests that it has no fitting method for."""

    timeout: Any

    def request_container(
        self, method: str, container: str, *rest: str, **options: Any
    ) -> requests.Response:
        """Send a request about a container."""
        options.setdefault("timeout", self.timeout)
        url = self._address("/containers/{0}/" + "/".join(rest), container)
        return self._checked(self.request(method, url, **options))

    def look_at(self, container: str, path: str) -> requests.Response:
        """Ask for a file's status; also of one that the engine says is not there."""
        url = self._address("/containers/{0}/archive", container)
        response: requests.Response = self.head(url, params={"path": path}, timeout=self.timeout)
        return response

    def create_from(self, config: Mapping[str, Any], name: str) -> None:
        """Create a container from the engine's own form of its settings."""
        url = self._address("/containers/create")
        self._checked(self.post(url, params={"name": name}, json=config, timeout=self.timeout))

    def image(self, reference: str) -> Mapping[str, Any]:
        """The engine's description of an image."""
        url = self._address("/images/{0}/json", reference)
        answer: Mapping[str, Any] = self._checked(self.get(url, timeout=self.timeout)).json()
        return answer

    def attach_exec(self, exec_id: str) -> requests.Response:
        """Start a prepared command; the connection below the response is now its output."""
        response = self.post(
            self._address("/exec/{0}/start", exec_id),
            json={"Tty": False, "Detach": False},
            headers={"Connection": "Upgrade", "Upgrade": "tcp"},
            timeout=self.timeout,
            stream=True,
        )
        return self._checked(response)

    def _address(self, path: str, *values: str) -> str:
        return str(self._url(path, *values))  # type: ignore[attr-defined]

    def _checked(self, response: requests.Response) -> requests.Response:
        """The response, unless the engine refused: then what the SDK's methods raise."""
        self._raise_for_status(response)  # type: ignore[attr-defined]
        return response


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the engine is.

    Attributes:
        address: URL of the engine's socket.
        source: Where the address comes from, for people.
        context: Name of the docker CLI's context that gave it.
        tls: What the SDK takes as ``tls``.
    """

    address: str
    source: str
    context: str | None = None
    tls: Any = False

    def cli_environment(self) -> dict[str, str]:
        """What makes the docker CLI talk to the same engine."""
        if self.context is not None:
            return {"DOCKER_CONTEXT": self.context}
        return {}


def find_endpoint() -> Endpoint:
    """Where the docker CLI would go: ``DOCKER_HOST``, then its context, then the socket."""
    if os.environ.get("DOCKER_HOST"):
        from_env = kwargs_from_env()
        return Endpoint(from_env["base_url"], "DOCKER_HOST", tls=from_env.get("tls", False))
    name = os.environ.get("DOCKER_CONTEXT") or get_current_context_name()
    if name and name != "default":
        return _context_endpoint(name)
    return Endpoint("unix:///var/run/docker.sock", "the default socket")


def _context_endpoint(name: str) -> Endpoint:
    context = ContextAPI.get_context(name)
    if context is None or not context.Host:
        raise EngineUnavailableError(
            f"the docker context {name!r} is current but has no readable settings; "
            "choose another with `docker context use default`, or set DOCKER_HOST"
        )
    return Endpoint(context.Host, f"the docker context {name!r}", name, context.TLSConfig or False)


@dataclass(slots=True, eq=False)
class EngineCache:
    """What one process has already asked the engine or found out about images.

    Attributes:
        shells: Image id to the shell that its containers have.
        networks: Names of networks known to be there.
        resolvers: Name servers of its containers; None: not asked yet.
        network_maker: Makes, or has made, the run's network in the background.
    """

    shells: dict[str, str] = field(default_factory=dict)
    networks: set[str] = field(default_factory=set)
    resolvers: tuple[str, ...] | None = None
    network_maker: threading.Thread | None = None


class Engine:
    """One connection to one engine, for one run; made by :meth:`connect`.

    Attributes:
        api: The SDK's low-level client: its high-level objects ask the engine twice.
        endpoint: Where the engine is.
        run_id: The run that everything made here belongs to.
        owner: This process, for the labels.
    """

    def __init__(self, api: ApiClient, endpoint: Endpoint, run_id: str) -> None:
        self.api = api
        self.endpoint = endpoint
        self.run_id = run_id
        self.owner = Owner.current()
        self.cache = EngineCache()

    @classmethod
    def connect(cls, run_id: str | None = None) -> Engine:
        """Find the engine and make sure that it answers.

        Args:
            run_id: The run's id, the same in all of its processes; None: a new one.

        Raises:
            EngineUnavailableError: Nothing answers; says what was tried and what to do.
        """
        endpoint = find_endpoint()
        try:
            _try_socket(endpoint.address)
            api = ApiClient(
                base_url=endpoint.address,
                version="auto",
                timeout=CONNECT_TIMEOUT_SEC,
                tls=endpoint.tls,
                use_ssh_client=endpoint.address.startswith("ssh://"),
            )
        except (docker.errors.DockerException, *_CONNECTION_ERRORS) as error:
            raise EngineUnavailableError(_unavailable(endpoint, error)) from error
        api.timeout = REQUEST_TIMEOUT_SEC
        # Proxies and .netrc mean nothing to a local socket, and are looked up on every request.
        is_local = endpoint.address.startswith("unix://")
        api.trust_env = not is_local
        if is_local:  # the engine would compress files that go no further than its socket
            api.headers["Accept-Encoding"] = "identity"
        return cls(api, endpoint, run_id or secrets.token_hex(6))

    @cached_property
    def info(self) -> Mapping[str, Any]:
        """What the engine says of itself and its machine."""
        with self.errors("asking the engine about itself", EngineUnavailableError):
            answer: Mapping[str, Any] = self.api.info()
            return answer

    @cached_property
    def is_podman(self) -> bool:
        """Whether Podman answers here, in Docker's language."""
        with self.errors("asking the engine for its version", EngineUnavailableError):
            components = self.api.version().get("Components") or ()
        return any("podman" in str(part.get("Name", "")).lower() for part in components)

    def labels(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Labels for something made now."""
        own = {LABEL: "1", RUN_LABEL: self.run_id, OWNER_LABEL: self.owner.label()}
        return {**(extra or {}), **own}

    @contextmanager
    def errors(
        self,
        doing: str,
        refused: type[EnvironmentFault],
        lost: type[EnvironmentFault] = EnvironmentLostError,
    ) -> Iterator[None]:
        """Turn what the SDK raises into what :mod:`pytest_harbor.errors` names.

        Args:
            doing: What is being done, for the message.
            refused: For an engine that answers, and says no.
            lost: For a container that is gone or an engine that does not answer.
        """
        try:
            yield
        except docker.errors.APIError as error:
            kind = lost if container_is_gone(error) else refused
            raise kind(f"{doing}: {explanation(error)}") from error
        except _CONNECTION_ERRORS as error:
            raise lost(
                f"{doing}: the engine at {self.endpoint.address} stopped answering ({error}); "
                "see that it runs and has room on its disk"
            ) from error

    def close(self) -> None:
        """Close the connections."""
        self.api.close()


def container_is_gone(error: docker.errors.APIError) -> bool:
    """Whether the engine refuses because the container is no more, or no longer runs."""
    text = explanation(error).lower()
    stopped = "non running container" in text or "non-running container" in text
    return (
        "no such container" in text
        or stopped
        or (error.status_code == 409 and "not running" in text)
    )


def explanation(error: docker.errors.APIError) -> str:
    """The engine's own words."""
    words = error.explanation
    return (words.decode(errors="replace") if isinstance(words, bytes) else words) or str(error)


def _try_socket(address: str) -> None:
    """Raise what keeps a local socket from being opened; the SDK would leave it unclosed."""
    scheme, _, path = address.partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(CONNECT_TIMEOUT_SEC)
            probe.connect(path)


def _unavailable(endpoint: Endpoint, error: Exception) -> str:
    reason = str(error).removeprefix("Error while fetching server API version: ")
    return (
        f"no container engine answers at {endpoint.address} (from {endpoint.source}): {reason}. "
        "Start Docker, choose another engine with DOCKER_HOST or `docker context use`, "
        "or see that this user may open the socket; `docker version` shows whether it works"
    )
