"""Commands that the pages show are taken, and their links lead somewhere."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_harbor.__main__ import make_parser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(page: Path) -> Iterator[list[str]]:
    """What is typed at a prompt, and what a run says to type, without comments."""
    text = page.read_text().replace("\\\n", " ")
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            typed = re.match(r"(?:\$|run again:|verify:|remove[^:]*:) (.*)", line)
            if typed:
                yield shlex.split(typed[1].partition("   #")[0], comments=True)


def said(start: list[str]) -> list[object]:
    """The arguments of all commands that begin so, by page."""
    found = [
        pytest.param(command[len(start) :], id=f"{page.stem}-{' '.join(command)}"[:100])
        for page in PAGES
        for command in commands(page)
        if command[: len(start)] == start
    ]
    assert found, "the pages were not understood"
    return found


@pytest.mark.parametrize("arguments", said(["pytest"]))
def test_pytest_takes_the_options(arguments: list[str], pytester: pytest.Pytester) -> None:
    pytester.parseconfig(*arguments)
    with pytest.raises(pytest.UsageError):
        pytester.parseconfig(*arguments, "--harbor-misspelt")


@pytest.mark.parametrize("arguments", said(["python", "-m", "pytest_harbor"]))
def test_the_packages_own_commands_exist(arguments: list[str]) -> None:
    assert callable(make_parser().parse_args(arguments).run)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        file = (page.parent / path) if path else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{page.name}: {target}"


def anchors(page: Path) -> set[str]:
    """Names of a page's headings, as hosts of repositories make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}
