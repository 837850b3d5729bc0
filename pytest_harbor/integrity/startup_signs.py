"""Signs in what runs whenever Python starts."""

from __future__ import annotations

import ast
import hashlib
import re

from pytest_harbor.integrity.python_text import parsed, text_of

_EDITABLE = re.compile(r"import (__editable___\w+_finder); (__editable___\w+_finder)\.install\(\)")
_NAMES = r"'[\w.]+'"
_NAMESPACE = re.compile(
    r"import sys, types, os;(?:\s*has_mfs = sys\.version_info > \(3, 5\);)?"
    r"\s*p = os\.path\.join\(sys\._getframe\(1\)\.f_locals\['sitedir'\], "
    rf"\*\({_NAMES}(?:, {_NAMES})*,?\)\);"
    r"\s*importlib = (?:has_mfs and )?__import__\('importlib\.util'\);"
    r"\s*(?:has_mfs and )?__import__\('importlib\.machinery'\);"
    rf"\s*m = (?:has_mfs and )?sys\.modules\.setdefault\({_NAMES}, importlib\.util\."
    r"module_from_spec\(importlib\.machinery\.PathFinder\.find_spec\("
    rf"{_NAMES}, \[os\.path\.dirname\(p\)\]\)\)\);"
    rf"\s*m = m or sys\.modules\.setdefault\({_NAMES}, types\.ModuleType\({_NAMES}\)\);"
    r"\s*mp = \(m or \[\]\) and m\.__dict__\.setdefault\('__path__',\s?\[\]\);"
    r"\s*\(p not in mp\) and mp\.append\(p\)"
    rf"(?:;\s*m and setattr\(sys\.modules\[{_NAMES}\], {_NAMES}, m\))?"
)
_DISTUTILS = re.compile(
    r"import os; var = 'SETUPTOOLS_USE_DISTUTILS'; "
    r"enabled = os\.environ\.get\(var, '(?:local|stdlib)'\) == 'local'; "
    r"enabled and __import__\('_distutils_hack'\)\.add_shim\(\);"
)
# Lines of pytest-cov and coverage, too long to be spelt out → what they import.
_LINES = {
    "b8e1b828090bfec4b25656d04cd0948d3e70221ea8281ac0e12569eef48ae2a6": "pytest_cov",
    "2cbb286eeaf39b2cd7d68cb09c1bc3cfb0cc8d27da949004d0c22698f127f270": "coverage",
}
# Of Debian's Python: a file that does nothing where apport is not installed.
_APPORT = "43d81125d92376b1a69d53a71126a041cc9a18d8080e92dea0a2ae23be138b1e"
_IMPORTED = {
    "sys": (),
    "__future__": ("annotations",),
    "importlib.machinery": ("ModuleSpec", "PathFinder", "all_suffixes"),
    "importlib.util": ("spec_from_file_location",),
    "itertools": ("chain",),
    "pathlib": ("Path",),
}
_READ = {
    *("meta_path", "path", "path_hooks", "append", "install", "items", "get", "exists", "is_file"),
    *(
        "find_spec",
        "_find_spec",
        "_path_hook",
        "_paths",
        "find_module",
        "submodule_search_locations",
    ),
    *("startswith", "replace", "strip", "split", "with_suffix", "rpartition", "partition"),
    *("invalidate_caches", "_find_nested_spec", "_path_hooks", "joinpath", "parent"),
}
_FORBIDDEN = {
    *("exec", "eval", "compile", "open", "getattr", "setattr", "delattr", "globals", "locals"),
    *("vars", "__import__", "__builtins__", "__loader__", "__spec__", "breakpoint", "input"),
}
_STARTUP = ("sitecustomize", "usercustomize", "encodings", "pytest", "_pytest")


def in_pth(text: str) -> str:
    """Code of a ``.pth`` file that no known tool writes; it runs whenever Python starts."""
    odd = [line for line in _code_lines(text) if not runs_of(line)]
    return f"it runs {odd[0][:80]!r}" if odd else ""


def modules_of_pth(text: str) -> list[str]:
    """Modules that a ``.pth`` file of known tools runs."""
    return [module for line in _code_lines(text) for module in runs_of(line)[:1] if module]


def runs_of(line: str) -> tuple[str, ...]:
    """What a known line of a ``.pth`` file imports; nothing at all for an unknown line."""
    line = line.strip()
    if (match := _EDITABLE.fullmatch(line)) and match[1] == match[2]:
        return (match[1],)
    if _NAMESPACE.fullmatch(line):
        return ("",)
    if _DISTUTILS.fullmatch(line):
        return ("_distutils_hack",)
    if line in ("import _virtualenv", "import a1_coverage"):
        return (line.removeprefix("import "),)
    known = _LINES.get(hashlib.sha256(line.encode("utf-8", "replace")).hexdigest())
    return (known,) if known else ()


def _code_lines(text: str) -> list[str]:
    # Versions of Python differ in what ends a line.
    text = text.removeprefix("\ufeff")
    lines = dict.fromkeys([*text.splitlines(), *re.split(r"\r\n|\r|\n", text)])
    return [line for line in lines if line.startswith(("import ", "import\t"))]


def is_harmless_customisation(content: bytes) -> bool:
    """Whether a ``sitecustomize`` is the one that Debian's Python comes with."""
    return hashlib.sha256(content).hexdigest() == _APPORT


def in_editable_finder(text: str) -> str:
    """Code in the finder of an editable install beyond what setuptools writes there."""
    tree = parsed(text)
    if tree is None:
        return "its finder cannot be read as Python"
    for node in ast.walk(tree):
        if reason := _import_of(node):
            return f"its finder imports {reason!r}"
        if isinstance(node, ast.Attribute) and node.attr not in _READ:
            return f"its finder uses {node.attr[:80]!r}"
        if isinstance(node, ast.Name) and node.id in _FORBIDDEN:
            return f"its finder uses {node.id!r}"
        if isinstance(node, ast.Dict):
            taken = [text_of(key) for key in node.keys if key and text_of(key) in _STARTUP]
            if taken:
                return f"its finder gives the module {taken[0]!r}"
    return ""


def _import_of(node: ast.AST) -> str:
    if isinstance(node, ast.Import):
        return next((alias.name for alias in node.names if alias.name != "sys"), "")
    if isinstance(node, ast.ImportFrom):
        known = _IMPORTED.get(node.module or "", ())
        return next((alias.name for alias in node.names if alias.name not in known), "")
    return ""
