"""Containers of the gateway's image, and talk to the control program in them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from docker.errors import APIError

from pytest_harbor.environment.docker.attach import AttachedStream, Deadline
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.command import new_mark
from pytest_harbor.environment.docker.container import remove_container
from pytest_harbor.environment.docker.naming import kept_name
from pytest_harbor.environment.docker.process import DockerProcess
from pytest_harbor.errors import EnvironmentFault, EnvironmentLostError, EnvironmentStartError

ANSWER_SEC = 30.0
MAX_ANSWER = 4 * 1024 * 1024

_CONTROL = Path(__file__).with_name("control.py")


class Channel:
    """One container with the control program in it.

    Attributes:
        name: The container's name.
    """

    def __init__(
        self, engine: Engine, name: str, image: str, host_config: Mapping[str, Any], argument: str
    ) -> None:
        """Create the container; :meth:`start` starts it."""
        self._engine = engine
        self.name = name
        self._process: DockerProcess | None = None
        self._lock = threading.Lock()
        self._rest = b""
        self._broken = ""
        config = {
            "Image": image,
            "Entrypoint": ["python3", "-u", "-c", _CONTROL.read_text(encoding="utf-8"), argument],
            "Cmd": [],
            "User": "0",
            "OpenStdin": True,
            # The program's input ends with this process, and the program with its input.
            "StdinOnce": True,
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "Labels": engine.labels(),
            "HostConfig": {
                "CapDrop": ["ALL"],
                "ReadonlyRootfs": True,
                "Tmpfs": {"/run": "size=16m", "/tmp": "size=16m"},
                "LogConfig": {"Type": "none"},
                "Memory": 512 * 1024 * 1024,
                "PidsLimit": 128,
                "SecurityOpt": ["no-new-privileges"],
                **host_config,
            },
        }
        with engine.errors(f"creating {name}", EnvironmentStartError):
            engine.api.create_from(config, name)

    def start(self) -> None:
        """Start the container, its program's input and output in hand."""
        with self._engine.errors(f"starting {self.name}", EnvironmentStartError):
            response = self._engine.api.request_container(
                "POST",
                self.name,
                "attach",
                params={"stream": 1, "stdin": 1, "stdout": 1, "stderr": 1},
                headers={"Connection": "Upgrade", "Upgrade": "tcp"},
                stream=True,
            )
            stream = AttachedStream(response)
            self._process = DockerProcess(stream, new_mark(), lambda _process: None, None)
            self._engine.api.start(self.name)

    @property
    def is_gone(self) -> bool:
        """Whether the program has ended, or is not listened to any more."""
        return bool(self._broken) or self._process is None or self._process.wait(0)

    def ask(self, verb: str, *words: object, texts: tuple[str, ...] = ()) -> str:
        """Send one request; the answer's text.

        Raises:
            EnvironmentFault: It was not done, or the program is gone; says why.
        """
        data = [text.encode() for text in texts]
        lengths = " ".join(str(len(text)) for text in data)
        head = f"{verb}|{' '.join(map(str, words))}|{lengths}\n".encode()
        with self._lock:
            if self._broken or self._process is None:
                raise EnvironmentLostError(f"{self.name}: {self._broken or 'not started'}")
            try:
                self._process.write(head + b"".join(data))
                state, text = self._answer(Deadline(ANSWER_SEC))
            except (BrokenPipeError, ValueError) as error:
                self._broken = f"the network gateway's program is gone ({error})"
                words_of_it = self._process.stderr[-500:]
                raise EnvironmentLostError(
                    f"{self.name}: {self._broken} {words_of_it}".rstrip()
                ) from error
        if state != "ok":
            raise EnvironmentFault(f"{self.name}: {verb}: {text}")
        return text

    def _answer(self, deadline: Deadline) -> tuple[str, str]:
        head = b""
        while b"\n" not in self._rest:
            self._read(deadline)
        head, _, self._rest = self._rest.partition(b"\n")
        state, length = head.decode().split()
        size = int(length)
        if size > MAX_ANSWER:
            raise ValueError(f"an answer of {size} bytes")
        while len(self._rest) < size:
            self._read(deadline)
        text, self._rest = self._rest[:size], self._rest[size:]
        return state, text.decode(errors="replace")

    def _read(self, deadline: Deadline) -> None:
        assert self._process is not None
        piece = self._process.read(deadline.remaining)
        if not piece:
            raise BrokenPipeError("no answer" if piece is None else "its output has ended")
        self._rest += piece

    def keep(self) -> None:
        """Let the container live on when this process ends, under a name that no sweep takes."""
        self.ask("keep")
        with self._engine.errors(f"keeping {self.name}", EnvironmentFault):
            self._engine.api.rename(self.name, kept_name(self.name))
        self.name = kept_name(self.name)

    def end(self) -> None:
        """Let the program end by itself, then remove the container."""
        if self._process is not None and not self._broken:
            self._broken = "ended"
            with suppress(APIError, OSError):
                self._process.close()
        self.remove()

    def remove(self) -> None:
        """Remove the container, whatever state it is in."""
        self._broken = self._broken or "removed"
        with self._engine.errors(f"removing {self.name}", EnvironmentFault):
            remove_container(self._engine, self.name)
        self.let_go()

    def let_go(self) -> None:
        """Close the connection; a container that is kept lives on."""
        self._broken = self._broken or "let go"
        if self._process is not None:
            with suppress(APIError, OSError):
                self._process.close(0)
