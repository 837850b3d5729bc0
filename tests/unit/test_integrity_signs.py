"""Signs in texts: cheap forgeries are seen, honest files are left alone, and no text takes long."""

import base64
import hashlib
from collections.abc import Callable

import pytest

from pytest_harbor.integrity import pytest_signs, signs, startup_signs
from tests.unit.test_integrity import SITE, codes, judged

SHADE = f"{SITE}/__editable__.e.pth"
FINDER = f"{SITE}/__editable___e_finder.py"
INSTALLS = "import __editable___e_finder; __editable___e_finder.install()\n"
DISTUTILS = (
    "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os.environ.get(var, 'local')"
    " == 'local'; enabled and __import__('_distutils_hack').add_shim(); \n"
)
HONEST_FINDER = """\
import sys
from importlib.machinery import ModuleSpec
from importlib.machinery import all_suffixes as module_suffixes
from importlib.util import spec_from_file_location
from itertools import chain
from pathlib import Path

MAPPING = {'greeting': '/app/greeting'}

class _EditableFinder:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        for pkg, pkg_path in reversed(list(MAPPING.items())):
            if fullname == pkg or fullname.startswith(f"{pkg}."):
                rest = fullname.replace(pkg, "", 1).strip(".").split(".")
                return cls._find_spec(fullname, Path(pkg_path, *rest))
        return None

def install():
    if not any(finder == _EditableFinder for finder in sys.meta_path):
        sys.meta_path.append(_EditableFinder)
"""
NAMESPACE = (
    "import sys, types, os;has_mfs = sys.version_info > (3, 5);p = os.path.join("
    "sys._getframe(1).f_locals['sitedir'], *('google',));importlib = has_mfs and "
    "__import__('importlib.util');has_mfs and __import__('importlib.machinery');m = has_mfs and "
    "sys.modules.setdefault('google', importlib.util.module_from_spec(importlib.machinery."
    "PathFinder.find_spec('google', [os.path.dirname(p)])));m = m or sys.modules.setdefault("
    "'google', types.ModuleType('google'));mp = (m or []) and m.__dict__.setdefault("
    "'__path__',[]);(p not in mp) and mp.append(p)\n"
)


def record(*files: tuple[str, str]) -> dict[str, str]:
    rows = []
    for name, text in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
        rows.append(f"{name},sha256={digest.rstrip('=')},1")
    return {f"{SITE}/x-1.dist-info/RECORD": "\n".join(rows)}


STARTS_HONESTLY = {
    "an editable install": {SHADE: INSTALLS, FINDER: HONEST_FINDER},
    "a namespace": {SHADE: NAMESPACE},
    "setuptools of the image": {SHADE: DISTUTILS},
    "setuptools by pip": {
        SHADE: DISTUTILS,
        f"{SITE}/_distutils_hack/__init__.py": "x",
        **record(("_distutils_hack/__init__.py", "x")),
    },
    "an environment of its own": {
        "/app/.venv": "",
        "/app/.venv/pyvenv.cfg": "x",
        "/app/.venv/lib/python3.11/site-packages/_virtualenv.pth": "import _virtualenv\n",
        "/app/.venv/lib/python3.11/site-packages/_virtualenv.py": "x",
    },
}
STARTS_FORGED = {
    "more behind a known beginning": {
        SHADE: "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; exec(open('/app/e').read())\n"
    },
    "more behind a namespace": {
        SHADE: "import sys, types, os;has_mfs = sys.version_info; exec('x')\n"
    },
    "a known name of nobody's": {SHADE: "import _virtualenv\n", f"{SITE}/_virtualenv.py": "x"},
    "setuptools of nobody's": {SHADE: DISTUTILS, f"{SITE}/_distutils_hack/__init__.py": "x"},
    "code behind a page of remarks": {SHADE: "# x\n" * 70_000 + "import evil\n"},
    "code behind a book of remarks": {SHADE: "# x\n" * 300_000 + "import evil\n"},
    "code behind a mark": {SHADE: "\ufeffimport evil\n"},
    "code behind a page break": {SHADE: f"{DISTUTILS.strip()}\x0cimport evil\n"},
    "no finder": {SHADE: INSTALLS},
    "a finder that is a folder": {
        SHADE: INSTALLS,
        FINDER: HONEST_FINDER,
        f"{SITE}/__editable___e_finder/__init__.py": "x",
    },
    "a finder elsewhere": {
        SHADE: INSTALLS,
        FINDER: HONEST_FINDER,
        "/usr/lib/python3.11/__editable___e_finder.py": "x",
    },
    "a finder that runs": {
        SHADE: INSTALLS,
        FINDER: "import sys\ndef install(): sys.modules['os'].system('x')\n",
    },
    "a finder of the start-up": {
        SHADE: INSTALLS,
        FINDER: HONEST_FINDER.replace("greeting'", "sitecustomize'", 1),
    },
    "a crowd in front": {f"/app/{n:03}/conftest.py": "" for n in range(250)}
    | {SHADE: "import evil\n"},
}


@pytest.mark.parametrize("name", STARTS_HONESTLY)
def test_known_tools_may_run_with_python(name: str) -> None:
    found, _ = judged(STARTS_HONESTLY[name])
    assert codes(found, "suspicious") == set(), found.findings


@pytest.mark.parametrize("name", STARTS_FORGED)
def test_nothing_else_may_run_with_python(name: str) -> None:
    found, _ = judged(STARTS_FORGED[name])
    assert codes(found, "suspicious") == {"python-startup"}
    assert SHADE in found.remove


@pytest.mark.parametrize(
    "judge",
    [
        signs.in_shell_file,
        signs.in_environment_file,
        signs.in_git_file,
        startup_signs.in_pth,
        lambda text: pytest_signs.in_pytest_file("pytest.ini", text),
        lambda text: pytest_signs.in_pytest_file("pyproject.toml", text),
        lambda text: pytest_signs.in_pytest_file("conftest.py", text),
        lambda text: ",".join(pytest_signs.plugin_modules(text)),
    ],
)
@pytest.mark.parametrize("piece", ["\n", " ", "a.", "[pytest11]\n", "alias\n", "-p,"])
def test_no_text_takes_long(judge: Callable[[str], str], piece: str) -> None:
    # What looks at a text again from each of its places takes hours for these.
    judge(piece * (256 * 1024 // len(piece)))


@pytest.mark.parametrize(
    "text",
    [
        "import re\nX = re.compile('a')\n",
        "def f(model): model.eval()\n",
        "def f(session): session.exec(1)\n",
        "import pytest\ndef pytest_runtest_setup(item):\n"
        "    if 'slow' in item.keywords: pytest.skip('x')\n",
        'PATTERN = "\\d"\n',
        "def pytest_collection_modifyitems(items): items[:] = sorted(items, key=str)\n",
        "import os\ndef pytest_configure(config): os.environ.pop('X', None)\n",
        "def pytest_runtest_logreport(report): print(report.outcome)\n",
    ],
)
def test_honest_conftests(text: str) -> None:
    assert pytest_signs.in_pytest_file("conftest.py", text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "import os\ndef f(): os._exit(0)\n",
        "import builtins\nbuiltins.exec('x')\n",
        "exec('x')\n",
        "def f(outcome): outcome.force_result(None)\n",
        "def pytest_runtest_setup(item): item.obj = print\n",
        "def pytest_runtest_logreport(report): report.outcome = 'passed'\n",
        "import pytest\n@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_call(item):\n"
        "    try:\n        return (yield)\n    except Exception:\n        return None\n",
    ],
)
def test_conftests_that_forge(text: str) -> None:
    assert pytest_signs.in_pytest_file("conftest.py", text)


@pytest.mark.parametrize(
    "text",
    [
        '[tool.pytest.ini_options]\ntestpaths = ["backend/tests", "./tests"]\n',
        '[tool.coverage.run]\nomit = ["*/tests/*"]\n',
        '[project.urls]\nlogs = "https://example.org/logs"\n',
        "[tool.pytest.ini_options]\naddopts = \"-m 'not slow' -ra -vv\"\n",
    ],
)
def test_honest_project_files(text: str) -> None:
    assert pytest_signs.in_pytest_file("pyproject.toml", text) == ""


@pytest.mark.parametrize(
    "options",
    ["-V", "-h", "-qV", "--markers", "--cache-show", "--fixtures", "-knothing", "-qk x", "-pevil"],
)
def test_options_that_run_nothing(options: str) -> None:
    assert pytest_signs.in_pytest_file("pytest.ini", f"[pytest]\naddopts = {options}\n")


@pytest.mark.parametrize(
    "text", ["ls /tests", "cat x >/logs/verifier/a", "cd /app/../logs/verifier"]
)
def test_places_of_the_verifier_are_seen(text: str) -> None:
    assert signs.in_shell_file(text)


def test_a_projects_own_places_are_not_the_verifiers() -> None:
    assert signs.in_git_file("#!/bin/sh\npytest backend/tests ./tests app/logs\n") == ""


@pytest.mark.parametrize(
    "text",
    [
        "[diff]\n\texternal = /app/e\n",
        '[filter "x"]\n\tclean = /app/e\n',
        '[filter "lfs"]\n\tclean = git-lfs clean -- %f; /app/e\n',
        "[include]\n\tpath = /app/e\n",
        '[includeIf "gitdir:/app/"]\n\tpath = /app/e\n',
        "[core] hooksPath = /app/e\n",
    ],
)
def test_programs_that_git_runs_are_seen(text: str) -> None:
    assert signs.in_git_file(text)


@pytest.mark.parametrize(
    "text",
    [
        '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\tprocess = git-lfs filter-process\n',
        "#!/bin/sh\nclean=1\nprocess=$!\n",
        '[remote "origin"]\n\turl = https://example.org/include.git\n',
    ],
)
def test_honest_settings_of_git(text: str) -> None:
    assert signs.in_git_file(text) == ""


@pytest.mark.parametrize(
    "path",
    [
        "/app/src/py/__init__.py",
        "/app/test/unittest/__init__.py",
        "/app/cpython/Lib/doctest.py",
        "/app/cpython/Lib/json/__init__.py",
        "/app/calendar.py",
        "/app/heapq.py",
    ],
)
def test_modules_of_a_project_may_have_any_name(path: str) -> None:
    found, _ = judged({path: "import datetime\n\ndef days(): return 7\n"})
    assert codes(found, "suspicious") == set()
    assert found.remove == []


@pytest.mark.parametrize(
    "path", ["/app/pytest/__init__.py", "/app/tests/pytest.py", "/pluggy.py", "/app/struct.py"]
)
def test_modules_in_the_way_of_the_tests(path: str) -> None:
    found, _ = judged({path: "x"})
    assert codes(found, "suspicious") == {"shadowing-module"}
    assert found.remove == [path]


def test_a_plausible_name_is_no_cover() -> None:
    found, _ = judged({"/app/calendar.py": "import os\nos._exit(0)\n"})
    assert codes(found, "suspicious") == {"shadowing-module"}


RC = "/root/.bashrc"
LISTED = "/var/lib/dpkg/info/e.list"
CONF = "/etc/ld.so.conf.d/a.conf"


@pytest.mark.parametrize(
    ("now", "links", "code"),
    [
        ({RC: "# x\n" * 70_000 + "grep() { true; }\n"}, {}, "shell-startup"),
        ({"/app/rc": "grep() { true; }\n"}, {RC: "/app/rc"}, "shell-startup"),
        ({}, {RC: "/nowhere"}, "shell-startup"),
        ({"/app/e": "LD_PRELOAD=/x.so"}, {"/etc/environment": "/app/e"}, "environment-file"),
        (
            {"/etc/profile.d/x.sh": "grep() { true; }", LISTED: "/etc/profile.d/x.sh"},
            {},
            "shell-startup",
        ),
        ({CONF: "/app/l\n", LISTED: CONF}, {}, "loader"),
        ({CONF: "/usr/lib/e\n", "/usr/lib/e/libc.so.6": "x", LISTED: CONF}, {}, "loader"),
        (
            {f"/app/{n:03}/conftest.py": "" for n in range(250)} | {RC: "exec x"},
            {},
            "shell-startup",
        ),
    ],
)
def test_no_way_round_a_look_at_what_runs_unasked(
    now: dict[str, str], links: dict[str, str], code: str
) -> None:
    found, _ = judged(now, {"/usr/lib/libc.so.6": "c"} | dict.fromkeys(links, "old"), links)
    assert code in codes(found, "suspicious")


def test_an_honest_link_to_settings_is_followed() -> None:
    found, _ = judged({"/root/dotfiles/rc": "alias ll='ls -l'\n"}, links={RC: "dotfiles/rc"})
    assert codes(found, "suspicious") == set()
    assert codes(found, "information") == {"shell-startup"}


def test_comments_and_prompts_of_a_shell_are_harmless() -> None:
    assert signs.in_shell_file("# LD_PRELOAD=/x.so\n  # exec x\nPROMPT_COMMAND=date\n") == ""
