"""Repositories, registries and a Hub on this machine, and a cache of the test's own."""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest
import requests.adapters  # noqa: F401

# What inner runs need is loaded once: each starts with the modules that are there now.
import pytest_harbor.dataset.resolve  # noqa: F401
from pytest_harbor.dataset.cache import VARIABLE, Cache
from pytest_harbor.dataset.digest import dataset_digest, task_digest, task_files

_GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")


def git(*arguments: object, cwd: Path) -> str:
    """Run git as a test's own."""
    run = subprocess.run(
        [*_GIT, *map(str, arguments)], cwd=cwd, check=True, capture_output=True, text=True
    )
    return run.stdout.strip()


class Repositories:
    """Repositories below one folder, as they are on a server.

    Attributes:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def make(self, name: str, source: Path, *, filters: bool = True) -> str:
        """Commit a folder into a new repository; give the commit."""
        git("init", "-q", "-b", "main", ".", cwd=source)
        commit = self.commit(source)
        bare = self.root / name
        bare.parent.mkdir(parents=True, exist_ok=True)
        git("clone", "-q", "--bare", source, bare, cwd=self.root)
        git("config", "uploadpack.allowFilter", str(filters).lower(), cwd=bare)
        git("remote", "add", "origin", bare, cwd=source)
        return commit

    @staticmethod
    def commit(source: Path) -> str:
        """Commit all that a folder holds."""
        git("add", "-A", "-f", ".", cwd=source)
        git("commit", "-q", "-m", "x", cwd=source)
        return git("rev-parse", "HEAD", cwd=source)

    def url(self, name: str) -> str:
        """Where git finds a repository without a server."""
        return f"file://{self.root / name}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.paths.append(self.path)  # type: ignore[attr-defined]
        self.server.headers.append(dict(self.headers))  # type: ignore[attr-defined]
        status, headers, content = self.server.answer(  # type: ignore[attr-defined]
            self.command, self.path, dict(self.headers), body
        )
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


Answer = tuple[int, dict[str, str], bytes]


class Server(ThreadingHTTPServer):
    """Answers by a function; knows what it was asked."""

    daemon_threads = True

    def __init__(self, answer: Callable[[str, str, dict[str, str], bytes], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self._thread = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def handle_error(self, request: object, address: object) -> None:
        """A client that was killed is what some tests are about."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, address)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def stop(self) -> None:
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join()
            self.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Start a server that answers by a function."""
    running: list[Server] = []

    def start(answer: Callable[[str, str, dict[str, str], bytes], Answer]) -> Server:
        running.append(Server(answer))
        return running[-1]

    yield start
    for server in running:
        server.stop()


def git_backend(root: Path) -> Callable[[str, str, dict[str, str], bytes], Answer]:
    """Git's own program for servers, below a small web server."""

    def answer(method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        parts = urlsplit(path)
        env = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "REQUEST_METHOD": method,
            "CONTENT_TYPE": headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "GIT_PROTOCOL": headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": headers.get("Content-Encoding", ""),
        }
        run = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True)
        head, _, content = run.stdout.partition(b"\r\n\r\n")
        found = dict(re.findall(r"(?m)^([\w-]+): (.*?)\r?$", head.decode()))
        status = int(found.pop("Status", "200").split()[0])
        return status, found, content

    return answer


class HubData:
    """What a Hub has: published tasks, and one dataset of all of them."""

    def __init__(self) -> None:
        self.archives: dict[str, bytes] = {}
        self.tasks: dict[str, str] = {}
        self.hidden = 0
        self.yanked = ""
        self.files: dict[str, str] = {}
        self.claims: str | None = None

    def publish(self, folder: Path, archive: bytes | None = None) -> str:
        """Publish a task as ``acme/<folder>``; give its digest."""
        digest = task_digest(folder).removeprefix("sha256:")
        self.tasks[folder.name] = digest
        self.archives[f"packages/acme/{folder.name}/{digest}/dist.tar.gz"] = archive or packed(
            folder
        )
        return f"sha256:{digest}"

    @property
    def digest(self) -> str:
        return self.claims or dataset_digest(self.tasks.values(), self.files)

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        found = self._find(parts.path.removeprefix("/rest/v1/"), query, body)
        if isinstance(found, bytes):
            return 200, {"Content-Type": "application/gzip"}, found
        return 200, {"Content-Type": "application/json"}, json.dumps(found).encode()

    def _find(self, name: str, query: dict[str, str], body: bytes) -> object:
        if name.startswith("/storage/v1/object/packages/"):
            return self.archives[name.removeprefix("/storage/v1/object/")]
        if name == "rpc/resolve_task_version":
            return self._task(json.loads(body))
        if name == "dataset_version_tag":
            is_known = query["tag"] in ("eq.latest", "eq.v1") and self._is_ours(query)
            return [{"dataset_version": self._version()}] if is_known else []
        if name == "dataset_version":
            ref = query.get("revision") or query["content_hash"]
            known = ("eq.3", f"eq.{self.digest.removeprefix('sha256:')}")
            return [self._version()] if ref in known and self._is_ours(query) else []
        if name == "dataset_version_task":
            return self._rows()[int(query["offset"]) :][: int(query["limit"])]
        if name == "dataset_version_file":
            return [
                {"path": path, "storage_path": f"acme/bench/{path}", "content_hash": one}
                for path, one in self.files.items()
            ]
        raise AssertionError(name)

    @staticmethod
    def _is_ours(query: dict[str, str]) -> bool:
        return (query["package.name"], query["package.org.name"]) == ("eq.bench", "eq.acme")

    def _version(self) -> dict[str, object]:
        yanked = {"yanked_at": "2026-01-01", "yanked_reason": self.yanked} if self.yanked else {}
        return {"id": "7", "content_hash": self.digest.removeprefix("sha256:"), **yanked}

    def _rows(self) -> list[dict[str, object]]:
        shown = [
            {"content_hash": one, "package": {"name": name, "org": {"name": "acme"}}}
            for name, one in self.tasks.items()
        ]
        rows = [*shown, *[None] * self.hidden]
        return [{"task_version_id": str(n), "task_version": row} for n, row in enumerate(rows)]

    def _task(self, asked: dict[str, str]) -> object:
        digest = asked["p_ref"].removeprefix("sha256:")
        if self.tasks.get(asked["p_name"]) != digest:
            return None
        place = f"acme/{asked['p_name']}/{digest}/dist.tar.gz"
        return {"id": "1", "content_hash": digest, "archive_path": place}


def packed(folder: Path) -> bytes:
    """A task's archive as Harbor publishes it."""
    return archive({path: (folder / path).read_bytes() for path in task_files(folder)})


def archive(files: dict[str, bytes], *more: tarfile.TarInfo) -> bytes:
    """A gzip tar."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(content), 0o755 if path.endswith(".sh") else 0o644
            tar.addfile(info, io.BytesIO(content))
        for info in more:
            tar.addfile(info)
    return made.getvalue()


def content_of(folder: Path) -> dict[str, str]:
    """Hashes of all files below a folder."""
    return {
        one.relative_to(folder).as_posix(): hashlib.sha256(one.read_bytes()).hexdigest()
        for one in folder.rglob("*")
        if one.is_file()
    }


@pytest.fixture
def repositories(tmp_path: Path) -> Repositories:
    """Repositories without a server."""
    root = tmp_path / "repositories"
    root.mkdir()
    return Repositories(root)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """A cache of the test's own, and no settings of git or a Hub from outside."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("HARBOR_SUPABASE_URL", "HARBOR_SUPABASE_PUBLISHABLE_KEY", "HARBOR_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return Cache()
