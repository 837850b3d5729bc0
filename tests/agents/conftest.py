"""The real tools in real containers, with a model that says what it is told to."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.agents.scripts import IMAGES, SCRIPTS, TOML
from tests.conftest import BASE_IMAGE
from tests.model_server import ModelServer
from tests.trial.conftest import run_tasks  # noqa: F401 - a fixture of theirs

KEY = "sk-real-0123456789abcdef0123456789"
TIMED = f"""\
=version = "1.0"
[agent]
timeout_sec = {{seconds}}
[verifier]
timeout_sec = 60
[environment]
{TOML}"""


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


class Runs:
    """Runs one tool on one task whose image all tests share."""

    def __init__(self, runner: Any, make_task: Any, model: Any, engine: Any) -> None:
        self._run_tasks, self._make_task, self._model = runner, make_task, model
        self._engine = engine

    def __call__(
        self, name: str, turns: list[Any], *more: str, seconds: int = 240, **changed: Any
    ) -> Any:
        toml = TIMED.format(seconds=seconds).replace(BASE_IMAGE, image_for(name, self._engine))
        folder = self._make_task(toml=toml, remove=("environment/Dockerfile",), **changed)
        (folder / "environment").mkdir(exist_ok=True)
        self._model.script.refill(turns)
        wanted = [f"--harbor-agent={name}", f"--harbor-model={SCRIPTS[name][0]}"]
        wanted += ["--harbor-network=no-network", "--harbor-setup-timeout-multiplier=2"]
        return self._run_tasks(*wanted, *more)


def image_for(name: str, engine: Any) -> str:
    """The image that a tool is tried in."""
    image = IMAGES.get(name, BASE_IMAGE)
    if name in IMAGES and not engine.api.images(image):
        pytest.skip(f"{name} is tried in the image {image}, and the engine has none")
    return image


@pytest.fixture
def run_tool(run_tasks, make_task, model, engine) -> Runs:  # noqa: F811
    return Runs(run_tasks, make_task, model, engine)
