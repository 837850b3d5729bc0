"""Python's source of hostile hands, taken apart and never run."""

from __future__ import annotations

import ast
import warnings


def parsed(text: str | bytes) -> ast.Module | None:
    """The source's tree; None where it cannot be read."""
    try:
        with warnings.catch_warnings():
            # Odd escapes in a text are no fault, whatever the run makes of warnings.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def text_of(node: ast.AST) -> str:
    """The text that a node is; empty where it is none."""
    value = node.value if isinstance(node, ast.Constant) else ""
    return value if isinstance(value, str) else ""


def name_of(node: ast.AST) -> str:
    """The last name of what is called or read."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def owner_of(node: ast.AST) -> str:
    """The name before the last one; empty for a bare name."""
    return name_of(node.value) if isinstance(node, ast.Attribute) else ""
