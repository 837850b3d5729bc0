"""A shell script as syntax: its commands, and what stands on its top level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from tree_sitter import Language, Node, Parser

_PREFIXES = frozenset({"sudo", "env", "time", "exec", "command", "nohup", "then", "do", "eval"})
_MAX_DEPTH = 200
"""Deeper nesting is not looked at: no person wrote it."""


class Command(NamedTuple):
    """A simple command.

    Attributes:
        words: The program and its arguments, quotes taken off.
        line: Line from 1.
    """

    words: tuple[str, ...]
    line: int

    @property
    def name(self) -> str:
        """The program without its folder, what merely runs it left out."""
        return self.plain[0].rpartition("/")[2] if self.plain else ""

    @property
    def plain(self) -> tuple[str, ...]:
        """The words from the program on that does the work."""
        words = self.words
        while words and (words[0] in _PREFIXES or _is_assignment(words[0])):
            words = words[1:]
        if words[:1] == ("timeout",):
            rest = [at for at, word in enumerate(words) if at > 1 and not word.startswith("-")]
            words = words[rest[0] :] if rest else ()
        return words


def _is_assignment(word: str) -> bool:
    return "=" in word and word.partition("=")[0].isidentifier()


@dataclass(frozen=True, slots=True)
class ShellScript:
    """A script.

    Attributes:
        source: Its bytes.
        root: Its syntax tree.
    """

    source: bytes
    root: Node = field(repr=False)

    def commands(self) -> Iterator[Command]:
        """Every simple command, those in functions and branches included."""
        for node in walk(self.root):
            if node.type == "command":
                yield command_of(node)

    def statements(self) -> list[Node]:
        """What stands on the top level, remarks left out."""
        return [node for node in self.root.named_children if node.type != "comment"]


@cache
def _parser() -> Parser:
    import tree_sitter_bash

    return Parser(Language(tree_sitter_bash.language()))


def read_script(text: str) -> ShellScript:
    """Read a script; what is no shell gives what can be made of it, never an error."""
    source = text.encode("utf-8", "replace")
    return ShellScript(source, _parser().parse(source).root_node)


def walk(node: Node, depth: int = 0) -> Iterator[Node]:
    """A node and all below it, in the order of the text."""
    yield node
    if depth < _MAX_DEPTH:
        for child in node.named_children:
            yield from walk(child, depth + 1)


def text_of(node: Node) -> str:
    """The node's text."""
    return (node.text or b"").decode("utf-8", "replace")


def line_of(node: Node) -> int:
    """The node's first line, from 1."""
    return int(node.start_point[0]) + 1


def last_line_of(node: Node) -> int:
    """The node's last line, from 1."""
    row, column = node.end_point
    # What the parser misses is an empty node, which may stand before a line's first column.
    return max(line_of(node), int(row) + (1 if column else 0))


def command_of(node: Node) -> Command:
    """A command's words."""
    words = [_word(child) for child in node.named_children if not child.type.endswith("redirect")]
    return Command(tuple(word for word in words if word), line_of(node))


def _word(node: Node) -> str:
    text = text_of(node)
    if node.type in ("string", "raw_string") and len(text) > 1:
        return text[1:-1]
    if node.type in ("concatenation", "command_name"):
        return "".join(_word(child) for child in node.named_children) or text
    return text.replace("\\\n", "")
