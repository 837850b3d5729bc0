"""What a task asks to bring home: entries of ``artifacts``."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

MAIN_SERVICE = "main"
MANIFEST_FILE = "manifest.json"
PARENT_IN_PATH = r"(^|/)\.\.(/|$)"
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/")


class ArtifactEntry(BaseModel):
    """One file or folder to copy out of the environment after the agent."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    source: str
    """Path in the container; relative to the working folder unless absolute."""
    destination: str | None = None
    """Where it goes below the trial's ``artifacts/``; None: by its source path."""
    exclude: tuple[str, ...] = ()
    """``tar --exclude`` patterns, for folders."""
    service: str | None = None
    """Compose service that holds it; None or ``main``: the agent's container."""

    @property
    def is_in_main(self) -> bool:
        """Whether the agent's own container holds it."""
        return self.service in (None, MAIN_SERVICE)

    @field_validator("source")
    @classmethod
    def _check_source(cls, source: str) -> str:
        if re.search(PARENT_IN_PATH, source):
            raise ValueError(f"{source[:80]!r} has '..'; write the path without it")
        return source

    @field_validator("destination")
    @classmethod
    def _check_destination(cls, destination: str | None) -> str | None:
        if not destination:
            return None
        fault = _destination_fault(destination)
        if fault:
            raise ValueError(
                f"{destination[:80]!r} {fault}; expected a relative path with forward slashes"
            )
        return destination

    @model_validator(mode="after")
    def _check_service(self) -> ArtifactEntry:
        if not self.is_in_main and not _ABSOLUTE.match(self.source):
            raise ValueError(
                f"source {self.source[:80]!r} in service {self.service!r} is relative; "
                "a path in a service other than main must be absolute"
            )
        return self


def _destination_fault(destination: str) -> str | None:
    parts = [part for part in destination.split("/") if part not in ("", ".")]
    if "\\" in destination:
        return "has a backslash"
    if _ABSOLUTE.match(destination):
        return "is absolute"
    if ".." in parts:
        return "has '..'"
    if not parts:
        return "names no file"
    if parts == [MANIFEST_FILE]:
        return f"is reserved: {MANIFEST_FILE} lists the artifacts"
    return None


def _as_entry(value: Any) -> Any:
    if isinstance(value, str):
        return {"source": value}
    if isinstance(value, dict | ArtifactEntry):
        return value
    raise PydanticCustomError("expected", "expected a path, or a table with the key source")


_Path = Annotated[str, Field(json_schema_extra={"not": {"pattern": PARENT_IN_PATH}})]
Artifact = Annotated[
    ArtifactEntry, BeforeValidator(_as_entry, json_schema_input_type=_Path | ArtifactEntry)
]
