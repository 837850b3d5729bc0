"""Whether the process that wrote something is still at work."""

from __future__ import annotations

from dataclasses import replace

from pytest_harbor.environment.docker.owner import Owner


def is_running(owner: Owner) -> bool:
    """Whether the process lives for certain; False wherever that cannot be known."""
    here = replace(Owner.current(), pid=owner.pid, started=owner.started)
    return here == owner and not owner.is_dead()
