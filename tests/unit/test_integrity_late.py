"""Changes while a verifier works: its own are told from those of what ran on."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_harbor.integrity.late import late_findings
from pytest_harbor.result.integrity import IntegrityFinding

CONFTEST = "def pytest_runtest_protocol(): ...\n"
SCRIPT = """\
#!/bin/bash
apt-get install -y python3 && cp /tests/conftest.py /app/conftest.py
pip config set global.index-url x; install /tests/tool /usr/local/bin/curl
python3 -m pytest | cat > /logs/verifier/out
"""


@pytest.fixture
def tests_folder(tmp_path: Path) -> Path:
    (tmp_path / "test.sh").write_text(SCRIPT)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    return tmp_path


def found(code: str, path: str, content: str = "?") -> IntegrityFinding:
    digest = hashlib.sha256(content.encode()).hexdigest()
    return IntegrityFinding(code, "suspicious", f"{path} was changed", path, found=digest)


@pytest.mark.parametrize(
    ("finding", "level"),
    [
        (found("pytest-configuration", "/app/sub/conftest.py"), "information"),
        (found("pytest-configuration", "/app/tests/conftest.py", CONFTEST), "information"),
        (found("changed-module", "/usr/lib/python3/x.py", CONFTEST), "information"),
        (found("installer-configuration", "/root/.config/pip/pip.conf"), "information"),
        (found("path-shadow", "/usr/local/bin/curl"), "information"),
        (found("path-shadow", "/usr/local/bin/python3"), "suspicious"),
        (found("replaced-program", "/usr/bin/cat"), "suspicious"),
        (found("replaced-library", "/usr/lib/libc.so.6"), "suspicious"),
        (found("pytest-configuration", "/app/pytest.ini"), "suspicious"),
        (found("python-startup", "/usr/lib/python3/dist-packages/a.pth"), "suspicious"),
        (found("loader", "/etc/ld.so.preload"), "suspicious"),
    ],
    ids=lambda value: value.path if isinstance(value, IntegrityFinding) else value,
)
def test_what_the_tests_hold_or_name_is_the_verifiers(
    tests_folder: Path, finding: IntegrityFinding, level: str
) -> None:
    (one,) = late_findings([], [finding], [tests_folder])
    assert one.level == level


def test_what_was_known_or_leads_nowhere_is_not_told(tests_folder: Path) -> None:
    known = found("replaced-program", "/usr/bin/cat")
    links = [found("link-to-verifier", "/app/tests"), found("link-in-place", "/tests")]
    assert list(late_findings([known], [known, *links], [tests_folder])) == []


def test_what_was_harmless_or_another_before_is_told(tests_folder: Path) -> None:
    swapped = found("python-startup", "/usr/lib/python3/dist-packages/a.pth", "import evil")
    harmless = replace(swapped, level="information", found="")
    other = replace(swapped, found="0" * 64)
    for known in (harmless, other):
        (told,) = late_findings([known], [swapped], [tests_folder])
        assert told.level == "suspicious"
