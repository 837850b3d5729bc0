"""A box that stays for a person, and the commands that go with it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

AGENTS, VERIFIERS = "the agent's", "the verifier's"
"""Whose a box is, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBox:
    """A container that outlives its run, under a name that no sweep takes.

    Attributes:
        name: Of the container.
        run_id: The run.
        shell: A shell that it has.
        workdir: Where its commands begin.
        is_running: Commands can be run in it.
        containers: All that stay for it, itself the first; what guards the engine's machine is
            shared with other boxes of the run.
        networks: Those that are of no more use without it.
        project: Its compose project; empty where it is a container alone.
    """

    name: str
    run_id: str
    shell: str = "sh"
    workdir: str = "/"
    is_running: bool = True
    containers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    project: str = ""

    def enter(self, user: str | int | None = None) -> str:
        """The command, for a shell on the engine's side, that enters it.

        Args:
            user: Who to be in it; None: its own user.
        """
        who = [] if user is None else ["--user", str(user)]
        words = ["docker", "exec", "-it", *who, "--workdir", self.workdir, self.name, self.shell]
        start = "" if self.is_running else f"docker start {self.name} && "
        return start + shlex.join(words)

    @property
    def removal(self) -> str:
        """Commands of the engine's own that remove all that stays for it."""
        if self.project:
            first = f"docker compose --project-name {self.project} down --volumes"
            rest = self.containers[1:]
        else:
            first, rest = "", self.containers
        parts = [
            first,
            f"docker rm -f -v {' '.join(rest)}" if rest else "",
            f"docker network rm {' '.join(self.networks)}" if self.networks else "",
        ]
        return "; ".join(filter(None, parts))

    def __str__(self) -> str:
        """For people."""
        return f"enter:  {self.enter()}\nremove: {self.removal}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> KeptBox | None:
        """What :meth:`to_json` gave; None for anything else."""
        try:
            lists = {key: tuple(map(str, found[key])) for key in ("containers", "networks")}
            box = cls(**{**found, **lists})
        except (KeyError, TypeError):
            return None
        return box if all(isinstance(one, str) for one in (box.name, box.run_id)) else None
