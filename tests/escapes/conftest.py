"""The lab of servers, and the results of all escapes under each policy, gathered once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .lab import Lab


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and "lab" in item.fixturenames:
            item.add_marker(pytest.mark.docker)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all workers of one run of the suite share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "escapes"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def lab(engine, shared_folder: Path) -> Iterator[Lab]:
    made = Lab(engine.api, shared_folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
