"""What a verifier relies on and honest work has no reason to change: tables, and one look-up.

Paths are those of a box and hostile; nothing is read here.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Literal

Family = Literal[
    "program",
    "library",
    "loader",
    "environment-file",
    "python-startup",
    "python-module",
    "python-cache",
    "plugin-entry",
    "shell-startup",
    "pytest-root-configuration",
    "pytest-project-configuration",
    "shadowing-module",
    "installer-configuration",
    "installer-cache",
    "accounts",
    "git",
    "cron",
]

SHELLS = ("sh", "bash", "dash", "ash", "zsh", "busybox")
INTERPRETERS = ("python", "node", "nodejs", "npm", "npx", "perl", "ruby", "java", "php", "lua")
TEST_PROGRAMS = ("pytest", "py.test", "uv", "uvx", "pip", "pip3", "pipx", "tox", "nox", "coverage")
CORE_TOOLS = (
    *("env", "cat", "echo", "printf", "test", "[", "true", "false", "expr", "seq", "sleep"),
    *("grep", "egrep", "fgrep", "sed", "awk", "gawk", "mawk", "cut", "tr", "sort", "uniq", "wc"),
    *("head", "tail", "tee", "diff", "cmp", "comm", "paste", "xargs", "find", "ls", "stat"),
    *("cp", "mv", "rm", "mkdir", "chmod", "chown", "ln", "mktemp", "touch", "install", "tar"),
    *("date", "id", "whoami", "su", "sudo", "runuser", "timeout", "nice", "nohup", "setsid"),
    *("md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum", "base64", "od", "xxd", "hexdump"),
    *("basename", "dirname", "readlink", "realpath", "pwd", "kill", "pkill", "ps", "jq", "bc"),
    *("curl", "wget", "git", "make", "gcc", "cc", "g++", "go", "cargo", "rustc", "gzip", "unzip"),
    *("apt", "apt-get", "dpkg", "apk", "rpm", "dnf", "yum", "psql", "sqlite3", "openssl", "nc"),
)
WATCHED_PROGRAMS = frozenset((*SHELLS, *INTERPRETERS, *TEST_PROGRAMS, *CORE_TOOLS))
_VERSIONED = re.compile(r"(?:python|pip|pytest|perl|ruby|lua|php|pypy)-?[0-9]+(?:\.[0-9]+)*")

OPTIONAL_FOLDERS = (
    *("/go/bin", "/usr/local/go/bin", "/usr/local/cargo/bin"),
    *("/opt/venv/bin", "/venv/bin", "/opt/conda/bin", "/opt/bin"),
)
"""Folders that are in ``PATH`` where an image has them."""

PATH_FOLDERS = (
    *OPTIONAL_FOLDERS,
    *("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"),
)
"""Folders of a usual ``PATH`` in their order; below a home also ``.local/bin`` and ``bin``."""

LIBRARY_FOLDERS = (
    *("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/usr/lib64"),
    *("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib"),
)
"""Where the loader looks without being told."""

TEST_MODULES = frozenset(
    {
        *("pytest", "_pytest", "py", "pluggy", "iniconfig", "unittest", "doctest"),
        *(
            "pytest_json_ctrf",
            "pytest_jsonreport",
            "xdist",
            "pytest_timeout",
            "nose",
            "ctrf_report",
        ),
    }
)
STARTUP_MODULES = frozenset({"sitecustomize", "usercustomize"})
# What Python and pytest import before a test runs: a file of that name in the working folder
# breaks or forges every run from there, so honest work does not keep one.
_EARLY_MODULES = frozenset(
    {
        *("abc", "argparse", "ast", "codecs", "collections", "contextlib", "dataclasses"),
        *("enum", "functools", "importlib", "inspect", "io", "json", "os", "pathlib", "re"),
        *("shutil", "site", "subprocess", "sys", "tempfile", "traceback", "types", "typing"),
        *("warnings", "builtins", "genericpath", "posixpath", "stat", "encodings", "base64"),
        *("bdb", "binascii", "bz2", "codeop", "copy", "copyreg", "csv", "datetime", "difflib"),
        *("dis", "fcntl", "fnmatch", "gettext", "glob", "hashlib", "linecache", "locale"),
        *("logging", "lzma", "ntpath", "opcode", "pdb", "pprint", "quopri", "reprlib", "select"),
        *("selectors", "shlex", "socket", "sre_compile", "sre_constants", "sre_parse", "struct"),
        *("textwrap", "threading", "tokenize", "unicodedata", "urllib", "uuid", "weakref"),
        *("zipfile", "zipimport", "zlib"),
    }
)
PLAUSIBLE_MODULES = frozenset(
    {
        *("array", "bisect", "calendar", "cmd", "code", "decimal", "email", "heapq", "html"),
        *("ipaddress", "keyword", "math", "numbers", "operator", "platform", "random", "signal"),
        *("string", "token"),
    }
)
"""The same, but projects have modules of that name: their content tells."""

# Beside tests that a verifier lays out in the work folder.
_NEVER_BESIDE_TESTS = frozenset({"pytest", "_pytest", "pluggy", "unittest"})

_SHELL_FILES = frozenset(
    {
        *("/etc/profile", "/etc/bash.bashrc", "/etc/bashrc", "/etc/zshenv", "/etc/zsh/zshenv"),
        *("/etc/inputrc", "/etc/bash.bash_logout"),
    }
)
_SHELL_NAMES = frozenset(
    {
        *(".bashrc", ".profile", ".bash_profile", ".bash_login", ".bash_aliases", ".bash_logout"),
        *(".zshrc", ".zshenv", ".zprofile", ".shrc", ".kshrc", ".env.sh"),
    }
)
LOADER_CACHE = "/etc/ld.so.cache"
ALTERNATIVES = "/etc/alternatives"
NAME_SERVICES = "/etc/nsswitch.conf"
PYTEST_FILES = frozenset(
    {
        *("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "conftest.py"),
        *("pyproject.toml", "tox.ini", "setup.cfg"),
    }
)
_INSTALLER_FILES = frozenset(
    {"pip.conf", ".pip.conf", "uv.toml", ".curlrc", ".wgetrc", ".npmrc", "pydistutils.cfg"}
)

_HOME = re.compile(r"/root|/home/[^/]+")
_LIBRARY = re.compile(
    r"(?:/usr|/usr/local)?/lib(?:32|64|x32)?/(?:[^/]+-linux-[^/]+/)?(?:glibc-hwcaps/[^/]+/)?[^/]+\.so[.0-9]*"
)
_PYTHON_LIB = re.compile(
    r"/(?:lib|lib64)/(?:python|pypy)[0-9.]+(?:/|$)|/lib/python3/dist-packages/"
)
_LIBRARY_FOLDER = re.compile(
    r"(?:/usr|/usr/local)?/lib(?:32|64|x32)?"
    r"(?:/[^/]+-linux-[^/]+|/python[0-9.]+(?:/(?:site|dist)-packages)?|/python3/dist-packages)?"
)
_PACKAGES = re.compile(r"^(.*/(?:site|dist)-packages)/([^/]+)")
_NODE = "/node_modules/"
_ENTRY_POINTS = re.compile(r"/[^/]+\.(?:dist|egg)-info/entry_points\.txt$")
_CRON = re.compile(r"/etc/cron|/etc/anacrontab|/var/spool/cron/")


@dataclass(frozen=True, slots=True)
class Watched:
    """A path that matters.

    Attributes:
        family: Why it does.
        name: The program's or the module's name, where it has one.
    """

    family: Family
    name: str = ""


def watch(path: str, workdir: str = "/app") -> Watched | None:
    """Why a path matters to a verifier; None where it does not.

    Args:
        path: Absolute.
        workdir: The folder in which a verifier's commands run.
    """
    for look in (_startup, _python, _program, _configuration):
        found = look(path, workdir)
        if found is not None:
            return found
    return None


def is_watched_program(name: str) -> bool:
    """Whether verifiers may run a program of this name."""
    return name in WATCHED_PROGRAMS or bool(_VERSIONED.fullmatch(name))


def is_path_folder(folder: str) -> bool:
    """Whether programs in a folder are found by their name."""
    if folder in PATH_FOLDERS:
        return True
    home, tail = home_and_rest(folder)
    return bool(home) and tail in {".local/bin", "bin", ".cargo/bin"}


def holds_code(folder: str) -> bool:
    """Whether a folder holds programs, libraries, modules or settings of the whole box."""
    others = ("/etc", "/usr", "/usr/local", "/root")
    return folder in (*PATH_FOLDERS, *others) or bool(_LIBRARY_FOLDER.fullmatch(folder))


def home_and_rest(path: str) -> tuple[str, str]:
    """The home folder that a path lies in, and the rest; two empty texts for another path."""
    match = _HOME.match(path + "/")
    if match is None or path[match.end() : match.end() + 1] not in ("/", ""):
        return "", ""
    return match[0], path[match.end() + 1 :]


def package_folder(path: str) -> tuple[str, str]:
    """The folder of installed packages that a path lies in, and the first name below it."""
    match = _PACKAGES.match(path)
    return (match[1], match[2]) if match else ("", "")


def _startup(path: str, workdir: str) -> Watched | None:
    if path in ("/etc/ld.so.preload", LOADER_CACHE) or path.startswith("/etc/ld.so.conf"):
        return Watched("loader")
    if path in ("/etc/environment", "/etc/security/pam_env.conf"):
        return Watched("environment-file")
    if path in ("/etc/passwd", NAME_SERVICES):
        return Watched("accounts")
    if _CRON.match(path):
        return Watched("cron")
    if path in _SHELL_FILES or path.startswith("/etc/profile.d/"):
        return Watched("shell-startup")
    home, rest = home_and_rest(path)
    if home and (
        rest in _SHELL_NAMES
        or rest in (".local/bin/env", ".cargo/env", ".bashrc.d")
        or rest.startswith(".bashrc.d/")
    ):
        return Watched("shell-startup")
    return _installer(path, home, rest)


def _installer(path: str, home: str, rest: str) -> Watched | None:
    if (home or path.startswith("/etc/")) and posixpath.basename(path) in _INSTALLER_FILES:
        return Watched("installer-configuration")
    for cache in (".cache/uv", ".cache/pip", ".cache/pypoetry"):
        if home and (rest == cache or rest.startswith(f"{cache}/")):
            return Watched("installer-cache", f"{home}/{cache}")
    return None


def _python(path: str, workdir: str) -> Watched | None:
    folder, name = posixpath.split(path)
    stem, suffix = posixpath.splitext(name)
    module = posixpath.basename(folder) if stem == "__init__" else stem.partition(".")[0]
    if suffix in (".py", ".pyc", ".so", "") and module in STARTUP_MODULES:
        return Watched("python-startup", module)
    if _ENTRY_POINTS.search(path):
        return Watched("plugin-entry")
    packages, first = package_folder(path)
    if (suffix == ".pth" and folder == packages) or name.endswith("._pth"):
        return Watched("python-startup", stem)
    if packages or _PYTHON_LIB.search(path):
        return _installed_module(path, suffix, first)
    return _loose_module(folder, stem, suffix, workdir, path)


def _installed_module(path: str, suffix: str, first: str) -> Watched | None:
    if suffix not in (".py", ".pyc", ".so", ".pyi"):
        return None
    name = first.partition(".")[0] if first else "the standard library"
    if first and name not in TEST_MODULES:
        return None
    return Watched("python-cache" if suffix == ".pyc" else "python-module", name)


def _loose_module(folder: str, stem: str, suffix: str, workdir: str, path: str) -> Watched | None:
    """A module that shadows an installed one, where Python looks for it first."""
    if suffix not in (".py", ".so", ".pyc") or _NODE in path or folder.startswith("/tests"):
        return None
    stem = stem.partition(".")[0]
    is_package = stem == "__init__"
    name = posixpath.basename(folder) if is_package else stem
    inside = posixpath.dirname(folder) if is_package else folder
    work = workdir.rstrip("/")
    first = name in _EARLY_MODULES | PLAUSIBLE_MODULES | TEST_MODULES and inside in (
        work or "/",
        "/",
    )
    beside = name in _NEVER_BESIDE_TESTS and inside in (f"{work}/tests", f"{work}/test")
    if first or (beside and not is_package):
        return Watched("shadowing-module", name)
    return None


def _program(path: str, workdir: str) -> Watched | None:
    folder, name = posixpath.split(path)
    if _LIBRARY.fullmatch(path):
        return Watched("library", name)
    usual = posixpath.basename(folder) in ("bin", "sbin") or folder == ALTERNATIVES
    in_bin = usual or is_path_folder(folder)
    return Watched("program", name) if in_bin and is_watched_program(name) else None


def _configuration(path: str, workdir: str) -> Watched | None:
    folder, name = posixpath.split(path)
    if name in PYTEST_FILES:
        inside = any(part in path for part in ("-packages/", _NODE, "/.cache/"))
        if inside or path.startswith("/tests/"):
            return None
        above = folder == "/" and workdir != "/"
        return Watched(
            "pytest-root-configuration" if above else "pytest-project-configuration", name
        )
    if path == "/etc/gitconfig" or home_and_rest(path)[1] in (".gitconfig", ".config/git/config"):
        return Watched("git")
    if ("/.git/hooks/" in path and not name.endswith(".sample")) or path.endswith("/.git/config"):
        return Watched("git")
    return None
