"""``--harbor-untrusted``: of the folders to collect, nothing but tasks is looked at.

pytest runs much of what lies beside tests on this machine: ``conftest.py``, ``__init__.py``
of the folders above, Python tests, and ``test*.txt`` as doctests. In a pull request each may be
a stranger's.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from pytest_harbor.plugin import collect

_NAME = "harbor_untrusted"


def close_early(config: pytest.Config) -> None:
    """Before any ``conftest.py`` is looked for: have none loaded.

    Raises:
        pytest.UsageError: The configuration may be a stranger's, too.
    """
    given = config.known_args_namespace  # config.option is not filled yet
    if not (getattr(given, _NAME, None) or config.getini(_NAME)):
        return
    if not given.inifilename:
        raise pytest.UsageError(
            "--harbor-untrusted needs a configuration that is named: pytest looks for one beside "
            "the tasks, where it may be a stranger's, and obeys it before any plugin is asked. "
            "Give one of your own: pytest -c trusted/pytest.ini ... (an empty file will do)"
        )
    given.noconftest = True


def register(config: pytest.Config, wanted: bool) -> None:
    """Look at nothing but tasks, where that was asked for."""
    if wanted:
        config.pluginmanager.register(OnlyTasks(), "harbor-untrusted")


class OnlyTasks:
    """Answers for every file and folder before other plugins do."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """No file is collected: a task is a folder."""
        return None if collection_path.is_dir() else True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collect_file(self) -> Generator[None, object, list[pytest.Collector]]:
        """Not one that is named on the command line either, of which the hook above never hears."""
        yield
        return []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector:
        """A task, or a plain folder, whose ``__init__.py`` is not run."""
        return collect.collect_folder(path, parent) or pytest.Dir.from_parent(parent, path=path)
