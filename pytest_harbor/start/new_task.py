"""The folder of a new task, made of the templates beside this module.

``templates/common`` is a whole task; a variant's own folder is laid over it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_harbor.errors import OptionError
from pytest_harbor.task import layout

DEFAULT_IMAGE = "debian:bookworm-slim"
VARIANTS: Mapping[str, str] = {
    "simple": "graded by a shell script in the agent's container",
    "python-tests": "graded by pytest in the agent's container",
    "separate-verifier": "graded in a container of the verifier's own",
    "multi-step": "two steps in one container, each with its own instruction and tests",
    "compose": "a second service beside the agent's container",
}
"""Kinds of task, and what each shows."""

_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")
_IMAGE = re.compile(r"[a-zA-Z0-9][^\s{}]*")
_KEY = re.compile(r"[A-Za-z0-9_-]+")
_FIRST_STEP = f"{layout.STEPS_FOLDER}/sum"
_OF_STEPS = (layout.INSTRUCTION_FILE, layout.SOLUTION_FOLDER, layout.TESTS_FOLDER)
_LEFT_OUT = {"compose": (f"{layout.ENVIRONMENT_FOLDER}/numbers.txt",)}
_SEPARATE = """
# This table alone makes the verifier separate.
[verifier.environment]
network_mode = "no-network"
"""
_ARTIFACTS = """
# What the verifier gets of the agent's container, at the same place. Before the first table:
# below one, the key would be the table's.
artifacts = ["/app/sum.txt"]
"""
_STEPS = """
# In their order; each is a folder in steps/. A step's verifier has 600 s unless it says
# otherwise: [verifier].timeout_sec does not reach it.
[[steps]]
name = "sum"
# The trial ends here where this step earns less.
min_reward = 1.0
verifier = { timeout_sec = 120.0 }

[[steps]]
name = "count"
verifier = { timeout_sec = 120.0 }
"""


@dataclass(frozen=True, slots=True)
class NewTask:
    """What a new task is to be.

    Attributes:
        folder: Where it is written; its last part is the task's name.
        variant: One of ``VARIANTS``.
        image: What its Dockerfiles start from.
        organisation: First half of the package's name; None: it is no package.
        authors: Their names, each perhaps with an address: ``A. Author <a@b.example>``.
        metadata: Keys of ``[metadata]`` and their values.
    """

    folder: Path
    variant: str = "simple"
    image: str = DEFAULT_IMAGE
    organisation: str | None = None
    authors: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The task's name: its folder's."""
        return Path(os.path.abspath(self.folder)).name


def write_task(new: NewTask) -> list[Path]:
    """Write the task's files and give their paths; nothing that is there is touched.

    Raises:
        OptionError: What was asked for cannot be written.
    """
    _check(new)
    texts = {path: _filled(text, new) for path, text in _files(new.variant)}
    try:
        new.folder.mkdir(parents=True)
    except OSError as error:
        reason = "is there already" if isinstance(error, FileExistsError) else error.strerror
        raise OptionError(
            f"{new.folder}: {reason}; nothing was written. Choose another name"
        ) from None
    return [_write(new.folder / path, text) for path, text in sorted(texts.items())]


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    if path.suffix == ".sh":
        path.chmod(0o755)
    return path


def _check(new: NewTask) -> None:
    for what, name in (("NAME", new.name), ("--org", new.organisation)):
        if name is not None and (not _NAME.fullmatch(name) or ".." in name):
            raise OptionError(
                f"{what}: expected letters, digits and . _ - with a letter or digit first and "
                f"no two dots, got {name[:80]!r}"
            )
    if not _IMAGE.fullmatch(new.image):
        raise OptionError(f"--image: expected an image as {DEFAULT_IMAGE}, got {new.image[:80]!r}")
    if new.authors and new.organisation is None:
        raise OptionError(
            "--author: authors are part of a package; give its organisation with --org, or "
            "write --metadata author_name=…"
        )
    for key in new.metadata:
        if not _KEY.fullmatch(key):
            raise OptionError(
                f"--metadata: expected KEY=VALUE with letters, digits, _ and - in KEY, got {key!r}"
            )


def _files(variant: str) -> Iterator[tuple[str, str]]:
    """Path below the task's folder and text of each file."""
    found = {**_texts("common"), **({} if variant == "simple" else _texts(variant))}
    for path, text in found.items():
        if path not in _LEFT_OUT.get(variant, ()):
            is_of_step = variant == "multi-step" and path.partition("/")[0] in _OF_STEPS
            yield f"{_FIRST_STEP}/{path}" if is_of_step else path, text


def _texts(folder: str) -> dict[str, str]:
    root = _TEMPLATES / folder
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files}


def _filled(text: str, new: NewTask) -> str:
    values = {
        "image": new.image,
        "task": _package(new),
        "metadata": "".join(f"{key} = {_quoted(v)}\n" for key, v in new.metadata.items()),
        "artifacts": _ARTIFACTS if new.variant == "separate-verifier" else "",
        "verifier": _SEPARATE if new.variant == "separate-verifier" else "",
        "steps": _STEPS if new.variant == "multi-step" else "",
    }
    filled = re.sub(r"\{\{(\w+)\}\}\n?", lambda match: _ended(values[match[1]]), text)
    return filled.rstrip("\n") + "\n"


def _ended(value: str) -> str:
    return value if not value or value.endswith("\n") else f"{value}\n"


def _package(new: NewTask) -> str:
    if new.organisation is None:
        return "\n"
    authors = ", ".join(map(_author, new.authors))
    lines = ["", "[task]", f"name = {_quoted(f'{new.organisation}/{new.name}')}"]
    lines += [f"authors = [{authors}]"] if authors else []
    return "\n".join(lines) + "\n\n"


def _author(text: str) -> str:
    name, _, email = text.partition("<")
    parts = [f"name = {_quoted(name.strip())}"]
    if email:
        parts.append(f"email = {_quoted(email.strip().rstrip('>'))}")
    return f"{{ {', '.join(parts)} }}"


def _quoted(text: str) -> str:
    """A basic string of TOML, which JSON's are, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
