"""Who answers for a model: base URLs and keys, from the variables that users have set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pytest_harbor.errors import OptionError
from pytest_harbor.model_gateway.wire import Wire

_WIRES: tuple[Wire, ...] = ("openai", "anthropic", "gemini")


@dataclass(frozen=True, slots=True)
class Upstream:
    """One protocol of one provider.

    Attributes:
        wire: The protocol.
        base_url: Where its paths begin; with ``/v1`` for OpenAI's, without for the others.
        key: The real key. It never leaves the gateway but to this base URL.
        bearer: Whether the key is sent as ``Authorization: Bearer`` whatever the protocol.
        is_official: Whether this is the protocol's own provider, so that its prices and the
            filters of its tools are known to hold.
    """

    wire: Wire
    base_url: str
    key: str = field(repr=False)
    bearer: bool = False
    is_official: bool = False

    def auth_headers(self) -> dict[str, str]:
        """The header that holds the key."""
        if self.wire == "openai" or self.bearer:
            return {"authorization": f"Bearer {self.key}"}
        return {"x-api-key" if self.wire == "anthropic" else "x-goog-api-key": self.key}


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider, and the protocols that it speaks.

    Attributes:
        name: As in ``name/model``.
        upstreams: By protocol.
    """

    name: str
    upstreams: Mapping[Wire, Upstream]

    def secrets(self) -> frozenset[str]:
        """Its keys."""
        return frozenset(upstream.key for upstream in self.upstreams.values())


@dataclass(frozen=True, slots=True)
class _Known:
    """How a provider is found in the environment.

    Attributes:
        keys: Variables that may hold its key; the first that is set counts.
        bases: Protocol to its own base URL.
        base_variables: Protocol to the variables that may replace it.
        bearer_keys: Variables with a key that is sent as a bearer token.
    """

    keys: tuple[str, ...]
    bases: Mapping[Wire, str]
    base_variables: Mapping[Wire, tuple[str, ...]] = field(default_factory=dict)
    bearer_keys: tuple[str, ...] = ()


def _openai_like(name: str, base: str) -> _Known:
    """A provider with OpenAI's protocol and the usual names of its variables."""
    word = name.upper()
    bases = {"openai": (f"{word}_BASE_URL", f"{word}_API_BASE")}
    return _Known((f"{word}_API_KEY",), {"openai": base}, bases)  # type: ignore[arg-type]


_GEMINI = _Known(
    ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    {"gemini": "https://generativelanguage.googleapis.com"},
    {"gemini": ("GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL")},
)
KNOWN: Mapping[str, _Known] = {
    "anthropic": _Known(
        ("ANTHROPIC_API_KEY",),
        {"anthropic": "https://api.anthropic.com"},
        {"anthropic": ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")},
        ("ANTHROPIC_AUTH_TOKEN",),
    ),
    "openai": _openai_like("openai", "https://api.openai.com/v1"),
    "gemini": _GEMINI,
    "google": _GEMINI,
    "openrouter": _Known(
        ("OPENROUTER_API_KEY",),
        {"openai": "https://openrouter.ai/api/v1", "anthropic": "https://openrouter.ai/api"},
        {"openai": ("OPENROUTER_BASE_URL", "OPENROUTER_API_BASE")},
        ("OPENROUTER_API_KEY",),
    ),
    "deepseek": _openai_like("deepseek", "https://api.deepseek.com/v1"),
    "groq": _openai_like("groq", "https://api.groq.com/openai/v1"),
    "mistral": _openai_like("mistral", "https://api.mistral.ai/v1"),
    "xai": _openai_like("xai", "https://api.x.ai/v1"),
    "together_ai": _Known(
        ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY"), {"openai": "https://api.together.xyz/v1"}
    ),
    "fireworks_ai": _Known(
        ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"),
        {"openai": "https://api.fireworks.ai/inference/v1"},
    ),
    "dashscope": _openai_like(
        "dashscope", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"
    ),
    "moonshot": _openai_like("moonshot", "https://api.moonshot.ai/v1"),
}
_OFFICIAL = frozenset({"anthropic", "openai", "gemini", "google"})
_MODEL_STARTS = {
    "claude": "anthropic",
    "gpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "gemini": "gemini",
}


class Providers:
    """The providers that the user's environment gives keys for."""

    def __init__(self, environment: Mapping[str, str], *more: Provider) -> None:
        """Read the environment when a provider is asked for, not before.

        Args:
            environment: Variables of this machine, as ``os.environ``.
            more: Further providers, such as a server on this machine; they come first.
        """
        self._environment = environment
        self._more = {provider.name: provider for provider in more}

    def for_model(self, model: str) -> tuple[Provider, str]:
        """The provider of ``provider/name``, and the name by which it knows the model.

        A name without a provider's, or with one that is not known, belongs to the provider
        that its first letters tell, else to whatever ``OPENAI_BASE_URL`` points to.

        Raises:
            OptionError: The provider is not known, or its key is not set.
        """
        prefix, slash, rest = model.partition("/")
        if slash and (prefix in self._more or prefix in KNOWN):
            return self.named(prefix), rest
        for start, name in _MODEL_STARTS.items():
            if not slash and model.startswith(start):
                return self.named(name), model
        if self._base(KNOWN["openai"], "openai"):
            return self.named("openai"), model
        raise OptionError(
            f"the model {model!r} names no provider that is known; expected provider/name with "
            f"one of {', '.join(sorted({*KNOWN, *self._more}))}, or OPENAI_BASE_URL set to a "
            "server that speaks OpenAI's protocol"
        )

    def named(self, name: str) -> Provider:
        """One provider.

        Raises:
            OptionError: It is not known, its key is not set, or a base URL is none.
        """
        if name in self._more:
            return self._more[name]
        if name not in KNOWN:
            raise OptionError(
                f"the provider {name!r} is not known; known are {', '.join(sorted(KNOWN))}"
            )
        known = KNOWN[name]
        key, bearer = self._key(name, known)
        upstreams = {
            wire: Upstream(wire, base, key, bearer, is_official)
            for wire, base, is_official in self._bases(name, known)
        }
        return Provider(name, upstreams)

    def available(self) -> list[Provider]:
        """Every provider whose key is set; for agents that choose their model themselves."""
        found = list(self._more.values())
        for name, known in KNOWN.items():
            keys = (*known.keys, *known.bearer_keys)
            if (
                name != "google"
                and name not in self._more
                and any(self._environment.get(key) for key in keys)
            ):
                found.append(self.named(name))
        return found

    def _key(self, name: str, known: _Known) -> tuple[str, bool]:
        for variables, bearer in (
            (known.keys, known.keys == known.bearer_keys),
            (known.bearer_keys, True),
        ):
            for variable in variables:
                value = self._environment.get(variable, "").strip()
                if value:
                    return _checked_key(variable, value), bearer
        if any(not _is_remote(self._base(known, wire)) for wire in known.bases):
            return "none", False  # a server on this machine, which asks for no key
        wanted = " or ".join(dict.fromkeys((*known.keys, *known.bearer_keys)))
        raise OptionError(
            f"{wanted} is not set on this machine, and models of {name!r} need it. "
            "Export it before the run; it stays outside of every container"
        )

    def _bases(self, name: str, known: _Known) -> list[tuple[Wire, str, bool]]:
        return [
            (
                wire,
                _checked_base(self._base(known, wire) or base),
                name in _OFFICIAL and not self._base(known, wire),
            )
            for wire, base in known.bases.items()
        ]

    def _base(self, known: _Known, wire: Wire) -> str:
        """The base URL that the user has set; empty: none."""
        own = {
            variable: self._environment.get(variable, "").strip()
            for variable in known.base_variables.get(wire, ())
        }
        return next((value for value in own.values() if value), "")


def _checked_key(variable: str, key: str) -> str:
    if not key.isascii() or not key.isprintable() or " " in key:
        raise OptionError(
            f"{variable} holds characters that no HTTP header can: expected a key alone"
        )
    return key


def _checked_base(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OptionError(f"the base URL {url!r} is none: expected https://host/path")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise OptionError(
            "a base URL holds credentials, a query or a fragment: expected https://host/path"
        )
    return url.rstrip("/")


def _is_remote(url: str) -> bool:
    host = urlsplit(url).hostname if url else None
    return host is None or host not in ("localhost", "127.0.0.1", "::1")
