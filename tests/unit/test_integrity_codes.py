"""The page on trust names every code that a finding may have, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from pytest_harbor.integrity.watched import Family

ROOT = Path(__file__).parents[2]
# Kinds of files whose findings go by another code, or by several that are in the source.
OTHER_CODES = {
    "program": "",
    "library": "",
    "python-module": "",
    "python-cache": "",
    "plugin-entry": "",
    "installer-cache": "",
    "pytest-root-configuration": "pytest-configuration",
    "pytest-project-configuration": "pytest-configuration",
}


def named_on_the_page() -> dict[str, str]:
    """Code → its level, as the table has them."""
    lines = (ROOT / "docs/trust.md").read_text(encoding="utf-8").splitlines()
    rows = [
        line.split("|")
        for line in lines
        if re.match(r"\| `[a-z-]+`.*\|.*information|\| `[a-z-]+`.*\| suspicious", line)
    ]
    return {code: row[2] for row in rows for code in re.findall(r"`([a-z-]+)`", row[1])}


def in_the_source() -> Iterator[str]:
    for file in sorted((ROOT / "pytest_harbor").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "IntegrityFinding(" in text or "Judged(" in text:
            yield from codes_of(ast.parse(text))
    yield from set(get_args(Family)) - set(OTHER_CODES)
    yield from filter(None, OTHER_CODES.values())


def codes_of(tree: ast.AST) -> Iterator[str]:
    """First text in a finding's own arguments or in those of what adds one; texts in tables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            at = {"IntegrityFinding": 0, "Judged": 0, "_add": 1}.get(name)
            if at is not None and len(node.args) > at:
                yield from texts(node.args[at])
        named = isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "kinds"
        if named and isinstance(node.value, ast.Dict):
            yield from (str(value.value) for value in node.value.values)


def texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from (*texts(node.body), *texts(node.orelse))
    elif isinstance(node, ast.Constant):
        yield str(node.value)


def test_the_page_names_every_code() -> None:
    assert set(named_on_the_page()) == set(in_the_source())
