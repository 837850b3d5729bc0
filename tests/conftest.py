"""Fixtures that every folder of tests shares."""

import contextlib
import os
import shutil
import socket
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

import pytest_harbor
from tests.machine_address import on_default_bridge

BASE_IMAGE = "debian:bookworm-slim"

FILES = {
    "task.toml": """\
        version = "1.0"
        [agent]
        timeout_sec = 60
        [verifier]
        timeout_sec = 60
        [environment]
        build_timeout_sec = 300
        """,
    "instruction.md": "Write the word ok into /app/out.txt.\n",
    "environment/Dockerfile": f"FROM {BASE_IMAGE}\nWORKDIR /app\n",
    "solution/solve.sh": "#!/bin/bash\necho ok > /app/out.txt\n",
    "tests/test.sh": """\
        #!/bin/bash
        mkdir -p /logs/verifier
        if [ "$(cat /app/out.txt 2>/dev/null)" = ok ]; then r=1; else r=0; fi
        echo "$r" > /logs/verifier/reward.txt
        """,
}


class TaskMaker:
    """Writes small tasks below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(
        self, name: str = "hello", *, remove: tuple[str, ...] = (), **changed: str | bytes
    ) -> Path:
        """Write a sound task and change it.

        Args:
            name: Folder below the root.
            remove: Files and folders to leave out.
            changed: Content of ``toml``, ``instruction``, ``dockerfile``, ``solve``, ``test``;
                ``toml`` is added to the end of the usual one unless it starts with ``=``.
        """
        folder = self.root / name
        names = {
            "toml": "task.toml",
            "instruction": "instruction.md",
            "dockerfile": "environment/Dockerfile",
            "solve": "solution/solve.sh",
            "test": "tests/test.sh",
        }
        files: dict[str, str | bytes] = {path: textwrap.dedent(t) for path, t in FILES.items()}
        for key, content in changed.items():
            files[names[key]] = self._content(key, content, files[names[key]])
        for path, content in files.items():
            self.write(folder, path, content)
        for path in remove:
            place = folder / path
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        return folder

    @staticmethod
    def _content(key: str, content: str | bytes, usual: str | bytes) -> str | bytes:
        if isinstance(content, bytes):
            return content
        content = textwrap.dedent(content)
        if key != "toml":
            return content
        return content[1:] if content.startswith("=") else f"{usual!s}{content}"

    @staticmethod
    def write(folder: Path, path: str, content: str | bytes) -> Path:
        """Write one file of a task."""
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        place.write_bytes(data)
        return place


@pytest.fixture
def make_task(request: pytest.FixtureRequest, tmp_path: Path) -> TaskMaker:
    """Write tasks: below the inner project's ``tasks`` where there is one, else in tmp_path."""
    if "pytester" in request.fixturenames:
        return TaskMaker(request.getfixturevalue("pytester").path / "tasks")
    return TaskMaker(tmp_path)


@pytest.fixture(scope="session")
def engine():
    """A connection to the engine. Where none answers, CI fails and others skip."""
    # An inner run in this process forgets what it imported, and its successor would mix the
    # forgotten modules, which their package still holds, with new ones.
    import_module("pytest_harbor.environment.docker.backend")
    from pytest_harbor.environment.docker.client import Engine
    from pytest_harbor.errors import EngineUnavailableError

    try:
        connected = Engine.connect()
    except EngineUnavailableError as error:
        if os.environ.get("PYTEST_HARBOR_REQUIRE_DOCKER") == "1":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    yield connected
    connected.close()


class Listener:
    """A server of the test's own, on this machine, that knows who came.

    Attributes:
        address: Where a container on the engine's own bridge reaches it.
        port: Its port.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.create_server(("", 0))
        self._socket.settimeout(0.5)
        self.port = self._socket.getsockname()[1]

    def visits(self) -> int:
        """How many connections came since the last look."""
        count = 0
        with contextlib.suppress(TimeoutError):
            while True:
                self._socket.accept()[0].close()
                count += 1
        return count

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listener(engine):
    """A server outside the containers, at the address that this machine has on their side."""
    listening = Listener(on_default_bridge(engine.api))
    yield listening
    listening.close()


OTHER_PLUGINS = (
    "allure_pytest",
    "html",
    "html_fixtures",
    "metadata",
    "pytest-split",
    "pytest-teamcity",
    "pytest_jsonreport",
    "randomly",
)
"""Plugins that are there for the tests in ``ecosystem/``, by their entry points."""


@pytest.fixture(autouse=True)
def _own_settings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the outer run's environment reaches an inner run, nor do other plugins."""
    if "pytester" in request.fixturenames:
        request.getfixturevalue("pytester")  # it drops the variable that is set here
    monkeypatch.delenv("MY_TOKEN", raising=False)
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(f"-p no:{name}" for name in OTHER_PLUGINS))
    monkeypatch.setenv("COLUMNS", "240")
    # A fault that a test is about would be met three times, with waits.
    monkeypatch.setattr("pytest_harbor.plugin.benchmark_options.RETRIES", 0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Here and not in the ini file, which holds for the example tasks of this folder too.
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.filterwarnings("error"), append=False)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))


def pytest_configure(config: pytest.Config) -> None:
    # The suite is about the installed package and its entry point, not a stray copy.
    plugin = config.pluginmanager.getplugin("harbor")
    if plugin is None or not os.path.samefile(
        Path(plugin.__file__).parent.parent, Path(pytest_harbor.__file__).parent
    ):
        raise pytest.UsageError("install the package first: pip install -e .")
