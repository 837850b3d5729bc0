"""pytest-xdist: one job for all workers, and no trace of a worker that died.

Registered only where pytest-xdist is.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_harbor.plugin import engine
from pytest_harbor.plugin.job import WORKER_INPUT, job


class XdistHooks:
    """What the controller does for its workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_configure_node(self, node: Any) -> None:
        """Hand the job to a worker."""
        current = job(self._config)
        node.workerinput[WORKER_INPUT] = {
            "run_id": current.run_id,
            "path": str(current.path),
            "standing": current.standing,
            "owner": current.owner,
        }

    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Meet the engine once a worker found trials to run."""
        engine.require_for(self._config, ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        """Clean up after a worker that did not end by itself."""
        if error:
            engine.sweep(self._config)
