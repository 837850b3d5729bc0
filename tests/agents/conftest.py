"""The real tools in real containers, with a model that says what it is told to."""

from collections.abc import Iterator

import pytest

from tests.model_server import ModelServer
from tests.trial.conftest import run_tasks  # noqa: F401 - a fixture of theirs

KEY = "sk-real-0123456789abcdef0123456789"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A scripted model in the place of every provider."""
    with ModelServer() as server:
        for name in ("OPENAI", "ANTHROPIC", "GEMINI"):
            monkeypatch.setenv(f"{name}_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.root}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.root)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.root)
        yield server
