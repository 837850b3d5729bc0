"""Names on the engine: valid, distinct, and still telling whose they are."""

from __future__ import annotations

import re
import secrets
import unicodedata

MAX_NAME_LENGTH = 63
"""A DNS label: the container's name is also its host name on the run's network."""

KEPT_PREFIX = "pytest-harbor-kept-"
"""Labels cannot change after creation, names can: so the name says that a person wants it."""

_GUARD = "-guard-"


def slug(text: str, max_length: int = 40) -> str:
    """ASCII letters, digits and single hyphens that recall ``text``; never empty."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^a-z0-9]+", "-", ascii_text.lower()).strip("-")
    return plain[:max_length].rstrip("-") or "task"


def container_name(hint: str) -> str:
    """A fresh name for one container."""
    return f"{slug(hint, MAX_NAME_LENGTH - 10)}-{secrets.token_hex(4)}"


def guard_name(network: str, token: str) -> str:
    """What the container is called that holds the host guard's rules for some bridges.

    Args:
        network: Of the run.
        token: What the names of the bridges have in common.
    """
    return f"{network}{_GUARD}{token}"


def is_guard(name: str) -> bool:
    """Whether a container's name says that it holds a host guard's rules."""
    return _GUARD in name


def kept_name(name: str) -> str:
    """What a container is called once a person wants to keep it."""
    return f"{KEPT_PREFIX}{name}"


def is_kept(name: str) -> bool:
    """Whether a container's name says that it is to be left alone."""
    return name.lstrip("/").startswith(KEPT_PREFIX)
