"""Keys and passwords that look like true ones.

Only forms that a provider gives its keys, so that what is found is worth a look; tasks
that are *about* leaked keys have made-up ones, and switch the check off.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from pytest_harbor.check.finding import Check, Found
from pytest_harbor.check.rules import HouseRules
from pytest_harbor.check.subject import Subject

CHECKS = (
    Check(
        "secret",
        "who has the task has the key",
        "revoke it; hand it in as ${NAME} under an env table, or write one that looks made up",
    ),
    Check(
        "private-key",
        "who has the task has the key",
        "make it while the image is built; keep one only if it was made for the task",
        "warning",
    ),
)

_KINDS = {
    "an AWS key": r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b",
    "a GitHub token": (
        r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b"
    ),
    "a GitLab token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "an Anthropic key": r"\bsk-ant-[A-Za-z0-9_-]{32,}",
    "an OpenAI key": r"\bsk-(?:proj-)?[A-Za-z0-9_-]{40,}",
    "an OpenRouter key": r"\bsk-or-v1-[0-9a-f]{64}\b",
    "a Google key": r"\bAIza[0-9A-Za-z_-]{35}\b",
    "a Slack token": r"\bxox[abprs]-[0-9]{8,}-[0-9A-Za-z-]{20,}",
    "a Stripe key": r"\b[rs]k_live_[0-9A-Za-z]{24,}\b",
    "a Hugging Face token": r"\bhf_[A-Za-z]{34}\b",
    "a PyPI token": r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}",
    "an npm token": r"\bnpm_[A-Za-z0-9]{36}\b",
}
_ANY = re.compile("|".join(f"(?P<k{n}>{form})" for n, form in enumerate(_KINDS.values())))
_KEY = re.compile(r"-----BEGIN (?:RSA |EC |OPENSSH |DSA |)PRIVATE KEY-----\s*[A-Za-z0-9+/=]{30}")
_MADE_UP = re.compile(
    r"example|fake|dummy|test|sample|placeholder|your|xxxx|1234567|abcdef|changeme", re.IGNORECASE
)
_MIN_BITS = 3.0


def find(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    """Every text of the task that has the form of a key."""
    for entry, text in subject.texts(iter(subject.files)):
        for match in _ANY.finditer(text):
            if _is_random(match[0]):
                kind = list(_KINDS)[int((match.lastgroup or "k0")[1:])]
                line = text.count("\n", 0, match.start()) + 1
                yield Found("secret", f"{kind}: {match[0][:8]}…", entry.path, line)
        if key := _KEY.search(text):
            line = text.count("\n", 0, key.start()) + 1
            yield Found("private-key", "a private key", entry.path, line)


def _is_random(text: str) -> bool:
    """Whether nobody typed it: bits a character, and no word for made-up."""
    if _MADE_UP.search(text):
        return False
    counts = Counter(text).values()
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts) >= _MIN_BITS
