"""The real tools in real containers, with a model that says what it is told to."""

from tests.trial.conftest import run_tasks  # noqa: F401 - a fixture of theirs
