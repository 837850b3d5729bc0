"""Small files and archives over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_harbor.errors import DatasetError, DatasetUnreachableError

if TYPE_CHECKING:
    import requests
    from urllib3 import BaseHTTPResponse
    from urllib3.util import Retry

MAX_DOCUMENT = 64 * 1024**2
MAX_ARCHIVE = 1024**3
_TIMEOUT = (15, 60)
_TRIES = 3
_MAX_WAIT_SEC = 20.0
_CHUNK = 256 * 1024


class Http:
    """A session with one kind of server.

    Args:
        headers: Sent with each request.
        follow: Whether redirects are followed; not where the headers hold keys.
    """

    def __init__(self, headers: Mapping[str, str] | None = None, *, follow: bool = True) -> None:
        # Only runs with a dataset pay for the imports.
        import requests
        from requests.adapters import HTTPAdapter

        self._session = requests.Session()
        self._session.headers.update({"User-Agent": "pytest-harbor", **(headers or {})})
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=_retry()))
        self._follow = follow

    def document(self, method: str, url: str, **given: Any) -> bytes:
        """The body of an answer.

        Raises:
            DatasetUnreachableError: The server does not answer, or is out of order.
            DatasetError: It refuses, or the body is too large.
        """
        body = bytearray()
        with self._answer(method, url, given) as answer:
            for chunk in self._chunks(answer, MAX_DOCUMENT):
                body += chunk
        return bytes(body)

    def download(
        self, url: str, path: Path, announced: Callable[[int], None] | None = None
    ) -> Path:
        """Write the body of an answer to a file; raises as :meth:`document`.

        Args:
            url: What to get.
            path: The file.
            announced: Is told the size that the server announces, before the body is read.
        """
        with self._answer("GET", url, {}) as answer, path.open("wb") as file:
            length = answer.headers.get("Content-Length", "")
            if announced is not None and length.isdigit():
                announced(int(length))
            for chunk in self._chunks(answer, MAX_ARCHIVE):
                file.write(chunk)
        return path

    def _answer(self, method: str, url: str, given: Mapping[str, Any]) -> requests.Response:
        import requests

        try:
            answer = self._session.request(
                method, url, timeout=_TIMEOUT, stream=True, allow_redirects=self._follow, **given
            )
        except (
            requests.ConnectionError,
            requests.Timeout,
            requests.exceptions.RetryError,
        ) as error:
            raise DatasetUnreachableError(f"{url} does not answer: {_reason(error)}") from None
        except (requests.RequestException, ValueError) as error:
            raise DatasetError(f"{url}: {error}") from None
        if answer.status_code >= 500:
            raise DatasetUnreachableError(f"{url} is out of order: status {answer.status_code}")
        if answer.status_code >= 300:
            raise DatasetError(f"{url}: {_refusal(answer)}")
        return answer

    def _chunks(self, answer: requests.Response, limit: int) -> Any:
        import requests

        size = 0
        try:
            for chunk in answer.iter_content(_CHUNK):
                size += len(chunk)
                if size > limit:
                    raise DatasetError(f"{answer.url}: larger than {limit // 1024**2} MiB")
                yield chunk
        except requests.RequestException as error:
            raise DatasetUnreachableError(f"{answer.url} broke off: {_reason(error)}") from None


def _retry() -> Retry:
    from urllib3.util import Retry

    class BoundedRetry(Retry):
        """Waits no longer than we allow, whatever the server asks for."""

        def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
            asked = super().get_retry_after(response)
            return None if asked is None else min(asked, _MAX_WAIT_SEC)

    return BoundedRetry(
        _TRIES, backoff_factor=0.5, status_forcelist=(429, 502, 503, 504), allowed_methods=None
    )


def _reason(error: Exception) -> str:
    """The innermost cause, which says most."""
    reason: BaseException = error
    while inner := reason.__cause__ or reason.__context__:
        reason = inner
    return str(reason) or type(reason).__name__


def _refusal(answer: requests.Response) -> str:
    words = {401: "no access", 403: "no access", 404: "not found"}
    what = words.get(answer.status_code, "refused")
    return f"{what} (status {answer.status_code})"
