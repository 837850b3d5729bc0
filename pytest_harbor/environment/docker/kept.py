"""What stays on the engine for a person, and how it goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from docker.errors import APIError

from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.naming import kept_name
from pytest_harbor.errors import EnvironmentFault


@contextmanager
def renamed_to_stay(engine: Engine, names: Sequence[str]) -> Iterator[None]:
    """Containers have names that no sweep takes, unless what follows fails.

    Raises:
        EnvironmentFault: One cannot be renamed; all have the names that they had.
    """
    done = list[str]()
    try:
        for name in names:
            with engine.errors(f"keeping {name}", EnvironmentFault):
                engine.api.rename(name, kept_name(name))
            done.append(name)
        yield
    except BaseException:
        for name in done:
            with suppress(APIError):
                engine.api.rename(kept_name(name), name)
        raise


@dataclass(frozen=True, slots=True)
class Kept:
    """What a person has to remove who is done with a box that was kept.

    Attributes:
        containers: Names of them.
        networks: Names of them, free once the containers are gone.
    """

    containers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
