"""What ``--harbor-dataset`` names: a text → one of four kinds of source.

Told apart by form alone, never by what happens to exist: ``name[@version]`` is of a
registry, ``org/name[@ref]`` of a Hub, what has a host or ``git+`` in front is a git
repository, and what begins with ``.``, ``/`` or ``~`` is a folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

from pytest_harbor.errors import DatasetError

SCHEMES = ("https", "http", "ssh", "git", "file")
DEFAULT_HOST = "github.com"
"""Where ``git+org/name`` is, as in Harbor."""

_FORMS = (
    "accepted are NAME[@VERSION] of a registry, ORG/NAME[@TAG|@REVISION|@sha256:DIGEST] of a Hub, "
    "a git repository as HOST/ORG/NAME[@REF], a URL or git+ORG/NAME[@REF], and a folder as ./PATH"
)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.IGNORECASE)
_PACKAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TAG = re.compile(r"[a-z0-9][a-z0-9.\-]*")
_SCP = re.compile(r"(?P<user>[\w.-]+)@(?P<host>\w[\w.-]*):(?P<path>[^:]+)")
_HOST = re.compile(r"\w[\w.-]*(:\d+)?")
_NOT_IN_REF = re.compile(r"[\s~^:?*\[\\\x00-\x1f\x7f]|\.\.|@\{|//")


@dataclass(frozen=True, slots=True)
class RegistrySpec:
    """A dataset of a ``registry.json``.

    Attributes:
        name: Its name there.
        version: Its version; None: chosen by Harbor's rules.
    """

    name: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class HubSpec:
    """A dataset that was published to a Hub.

    Attributes:
        org: The organisation.
        name: Its name there.
        ref: A tag, a revision's number, or ``sha256:`` and the digest.
    """

    org: str
    name: str
    ref: str = "latest"

    @property
    def is_pinned(self) -> bool:
        """Whether it names content that cannot change."""
        return self.ref.startswith("sha256:")


@dataclass(frozen=True, slots=True)
class GitSpec:
    """A git repository.

    Attributes:
        url: For the ``git`` program; never with a password.
        host: Host and port; ``local`` for a repository on this machine.
        repository: Path on the host, without ``.git``.
        ref: A branch, tag or full commit id; None: the default branch.
        folder: Where the tasks lie in it; None: ``tasks/``, or what its registry says.
    """

    url: str
    host: str
    repository: str
    ref: str | None = None
    folder: str | None = None

    @property
    def is_pinned(self) -> bool:
        """Whether it names content that cannot change."""
        return self.ref is not None and is_commit(self.ref)

    @property
    def label(self) -> str:
        """How it is called in ids."""
        ref = self.ref[:12] if self.ref and self.is_pinned else self.ref
        parts = f"{self.host}/{self.repository}", f"@{ref}" if ref else ""
        return "".join(parts) + (f"/{self.folder}" if self.folder not in (None, ".") else "")


@dataclass(frozen=True, slots=True)
class FolderSpec:
    """A folder on this machine that holds ``dataset.toml``.

    Attributes:
        path: As it was written.
    """

    path: str


DatasetSpec = RegistrySpec | HubSpec | GitSpec | FolderSpec


def is_commit(ref: str) -> bool:
    """Whether a ref is a full commit id."""
    return _COMMIT.fullmatch(ref) is not None


def parse_dataset(text: str) -> DatasetSpec:
    """Read what ``--harbor-dataset`` was given.

    Raises:
        DatasetError: It has none of the accepted forms.
    """
    text = _plain(text)
    if text.startswith((".", "/", "~")):
        return FolderSpec(text)
    if is_git(text):
        return parse_git(text)
    if "/" not in text:
        return _parse_registry(text)
    if text.partition("@")[0].count("/") == 1:
        return parse_package(text)
    raise DatasetError(f"{text!r} names no dataset; {_FORMS}")


def parse_package(text: str) -> HubSpec:
    """Read the name of something published, as ``org/name[@ref]``.

    Raises:
        DatasetError: It is none.
    """
    package, _, ref = text.rpartition("@") if "@" in text else (text, "", "latest")
    org, _, name = package.partition("/")
    if not (_PACKAGE.fullmatch(org) and _PACKAGE.fullmatch(name)) or ".." in package:
        raise DatasetError(
            f"{text!r}: expected ORG/NAME of letters, digits, '.', '_' and '-', got {package!r}"
        )
    if not (ref.isdecimal() or _DIGEST.fullmatch(ref) or _TAG.fullmatch(ref)):
        raise DatasetError(
            f"{text!r}: expected behind the '@' a tag of small letters, digits, '.' and '-', a "
            f"revision's number, or sha256: and 64 hexadecimal digits, got {ref!r}; a git "
            f"repository's branch is written git+{text}"
        )
    return HubSpec(org, name, ref)


def is_git(text: str) -> bool:
    """Whether a text has one of the forms of a git repository, beside ``org/name``."""
    if text.startswith("git+") or "://" in text or _SCP.match(text):
        return True
    host, _, path = text.partition("/")
    return "/" in path.partition("@")[0] and ("." in host or ":" in host or host == "localhost")


def parse_git(text: str) -> GitSpec:
    """Read the name of a git repository, as Harbor's ``--repo`` does.

    Raises:
        DatasetError: It is none, or one that is not allowed.
    """
    source = _plain(text).removeprefix("git+")
    if "://" in source:
        refuse_password(source)
    if source.startswith((".", "/", "~")):
        raise DatasetError(
            f"{text!r}: a folder is no git repository here; write ./PATH for a folder with "
            "dataset.toml, or file:///PATH for a repository on this machine"
        )
    base, ref = _split_ref(source)
    if match := _SCP.fullmatch(base):
        path = match["path"].strip("/").removesuffix(".git")
        return _checked(GitSpec(base, match["host"], path, ref), text)
    if "://" not in base:
        host = base.partition("/")[0]
        is_short = base.count("/") == 1 and not _looks_like_host(host)
        base = f"https://{DEFAULT_HOST}/{base}.git" if is_short else f"https://{base}"
    return _parse_url(base, ref, text)


def refuse_password(url: str) -> None:
    """See that a URL may be shown and written.

    Raises:
        DatasetError: It has a password; the message has not.
    """
    if shown := _without_password(url):
        raise DatasetError(
            f"a password stands in the URL of {shown}, from where it gets into logs and results. "
            "Leave it out: git asks its credential helper (git help credentials), or use ssh"
        )


def refuse_account(url: str, instead: str) -> None:
    """See that an address that only we ask may be shown and written.

    Args:
        url: The address.
        instead: Where an account's key belongs.

    Raises:
        DatasetError: It has a name or password of an account; the message has not.
    """
    if "@" not in _authority(url):
        return
    host = _authority(url).rpartition("@")[2]
    raise DatasetError(
        f"a name or password of an account stands in the URL of {host}, from where it "
        f"gets into logs and results. Leave it out: {instead}"
    )


def _authority(url: str) -> str:
    """What stands between ``//`` and the path, also where the URL is none."""
    return re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]


def _without_password(url: str) -> str:
    """The URL without the account in it; empty where it has no password."""
    account, _, host = _authority(url).rpartition("@")
    return url.replace(f"{account}@{host}", host, 1) if ":" in account else ""


def parse_task_path(path: str) -> str:
    """A task's path inside of a repository, without ``..``.

    Raises:
        DatasetError: It leads out of it.
    """
    parts: list[str] = []
    fault = DatasetError(f"the path {path!r} does not stay inside of the repository")
    if path.startswith("/") or any(mark in path for mark in "\\\0:"):
        raise fault
    for part in path.split("/"):
        if part != "..":
            parts += [part] if part not in ("", ".") else []
        elif not parts:
            raise fault
        else:
            parts.pop()
    return "/".join(parts) or "."


def _plain(text: str) -> str:
    text = text.strip()
    if not text or not text.isprintable() or any(char.isspace() for char in text):
        raise DatasetError(f"{text!r} names no dataset; {_FORMS}")
    if text.startswith("-") or "::" in text:
        raise DatasetError(f"{text!r} names no dataset: git's helpers are not used; {_FORMS}")
    return text


def _parse_registry(text: str) -> RegistrySpec:
    name, at, version = text.partition("@")
    if not name or (at and not version) or "[" in text:
        raise DatasetError(f"{text!r} names no dataset of a registry; expected NAME[@VERSION]")
    return RegistrySpec(name, version or None)


def _split_ref(source: str) -> tuple[str, str | None]:
    base, at, ref = source.rpartition("@")
    if not (base and at) or not ref or "/" in ref or ":" in ref:
        return source, None
    return base, ref


def _looks_like_host(text: str) -> bool:
    return "." in text or ":" in text or text == "localhost"


def _parse_url(url: str, ref: str | None, text: str) -> GitSpec:
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError as error:
        raise DatasetError(f"{text!r} is no URL: {error}") from None
    if parts.scheme not in SCHEMES or (parts.scheme == "file") == bool(host):
        raise DatasetError(
            f"{text!r}: expected a URL that begins with {', '.join(f'{s}://' for s in SCHEMES)} "
            "and has a host (file:// has none)"
        )
    repository, tree_ref, folder = _split_tree([one for one in parts.path.split("/") if one])
    if ref is not None and tree_ref is not None:
        raise DatasetError(f"{text!r}: two refs, @{ref} and /tree/{tree_ref}; leave one out")
    plain = parts._replace(path="/" + "/".join(repository), query="", fragment="").geturl()
    name = "/".join(repository[-2:] if parts.scheme == "file" else repository)
    spec = GitSpec(plain, host or "local", name.removesuffix(".git"), ref or tree_ref, folder)
    return _checked(spec, text)


def _split_tree(parts: list[str]) -> tuple[list[str], str | None, str | None]:
    """Repository, ref and folder of a URL's path with ``/tree/<ref>/<folder>``."""
    if "tree" not in parts[1:]:
        return parts, None, None
    index = parts.index("tree", 1)
    repository = parts[:index]
    if repository[-1] == "-":  # as GitLab writes it
        repository.pop()
    ref = unquote(parts[index + 1]) if len(parts) > index + 1 else None
    return repository, ref, "/".join(map(unquote, parts[index + 2 :])) or None


def _checked(spec: GitSpec, text: str) -> GitSpec:
    if spec.host != "local" and not _HOST.fullmatch(spec.host):
        raise DatasetError(f"{text!r}: {spec.host!r} is no host")
    parts = spec.repository.split("/")
    if not spec.repository or any(one.startswith("-") or "@" in one for one in parts):
        raise DatasetError(
            f"{text!r}: expected the path of a repository behind the host, and @REF at the end"
        )
    if spec.ref is not None:
        check_ref(spec.ref)
    if spec.folder is not None:
        return replace(spec, folder=parse_task_path(spec.folder))
    return spec


def check_ref(ref: str) -> str:
    """Give back a branch, tag or commit id that git may be given.

    Raises:
        DatasetError: It is none: git would read it as an option or an expression.
    """
    bad = ref.startswith(("-", "/", ".")) or ref.endswith(("/", ".", ".lock"))
    if not ref or bad or _NOT_IN_REF.search(ref):
        raise DatasetError(f"{ref!r} is no branch, tag or commit id")
    return ref
