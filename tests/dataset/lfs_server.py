"""A server of repositories and of their objects in Git LFS, on this machine."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from tests.dataset.conftest import Answer, git_backend


def pointer(content: bytes, *, size: int | None = None) -> bytes:
    """The pointer that stands for a content."""
    oid = hashlib.sha256(content).hexdigest()
    count = len(content) if size is None else size
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {count}\n".encode()


class LfsServer:
    """Answers as a host of git repositories does: git, the batch API, and the objects.

    Attributes:
        objects: The content of what there is, by its SHA-256.
        asked: The objects of each batch.
        batch: Answers a batch in its place, where it gives something.
        url: Where it is; set once it is.
    """

    def __init__(self, root: Path) -> None:
        self._backend = git_backend(root)
        self.objects: dict[str, bytes] = {}
        self.asked: list[list[str]] = []
        self.batch: Callable[[dict[str, object]], Answer | None] = lambda request: None
        self.token = ""
        self.url = ""

    def add(self, content: bytes) -> bytes:
        """Have a content; give its pointer."""
        self.objects[hashlib.sha256(content).hexdigest()] = content
        return pointer(content)

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if self.token and headers.get("Authorization") != self.token:
            return 401, {"WWW-Authenticate": 'Basic realm="x"'}, b""
        if path.endswith("/objects/batch"):
            request = json.loads(body)
            self.asked.append([one["oid"] for one in request["objects"]])
            return self.batch(request) or self._batch(request)
        if path.startswith("/objects/"):
            content = self.objects.get(path.rpartition("/")[2])
            return (200, {}, content) if content is not None else (404, {}, b"")
        return self._backend(method, path, headers, body)

    def _batch(self, request: dict[str, object]) -> Answer:
        rows = [self._row(one) for one in request["objects"]]  # type: ignore[attr-defined]
        return lfs_json(200, {"transfer": "basic", "objects": rows})

    def _row(self, asked: dict[str, object]) -> dict[str, object]:
        if asked["oid"] not in self.objects:
            gone = {"code": 404, "message": "Object does not exist on the server"}
            return {**asked, "error": gone}
        place = {"href": f"{self.url}/objects/{asked['oid']}"}
        if self.token:
            place["header"] = {"Authorization": self.token}  # type: ignore[assignment]
        return {**asked, "authenticated": True, "actions": {"download": place}}


def lfs_json(status: int, value: object) -> Answer:
    """An answer of the API of Git LFS."""
    kind = "application/vnd.git-lfs+json"
    return status, {"Content-Type": kind}, json.dumps(value).encode()
