"""Talk to the service as its customers would; exit 0 if every answer is right."""

import hashlib
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

ADDRESS = "http://127.0.0.1:8080"
UNTOUCHED = {
    "/app/server.py": "5d42562f297b5b66c95b9ceccf69873fa4b376281a4743ef0b1b5e2592ffa30b",
    "/app/data/stock.csv": "7eb03635e471d65f83f4298d4e422bff0efc0aa520c7e8f4c8a600e30fb86c77",
}
# In this order: what is taken away stays away. (method, path, status, item)
EXCHANGES = [
    ("GET", "/items/rope", 200, ("rope", 12)),
    ("GET", "/items/fender", 200, ("fender", 40)),
    ("POST", "/items/rope/take", 200, ("rope", 11)),
    ("POST", "/items/rope/take", 200, ("rope", 10)),
    ("GET", "/items/rope", 200, ("rope", 10)),
    ("POST", "/items/lantern/take", 200, ("lantern", 0)),
    ("POST", "/items/lantern/take", 409, ("lantern", 0)),
    ("GET", "/items/anchor", 200, ("anchor", 3)),
    ("GET", "/items/mermaid", 404, None),
]


def request(method, path):
    """Status and decoded body of one answer."""
    try:
        with urllib.request.urlopen(
            urllib.request.Request(ADDRESS + path, method=method), timeout=5
        ) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def complaints():
    for path, digest in UNTOUCHED.items():
        if hashlib.sha256(Path(path).read_bytes()).hexdigest() != digest:
            yield f"{path} was changed"
    for method, path, status, item in EXCHANGES:
        seen_status, body = request(method, path)
        seen_item = (body.get("name"), body.get("count")) if item else None
        if (seen_status, seen_item) != (status, item):
            yield f"{method} {path}: expected {status} {item}, got {seen_status} {body}"


try:
    found = list(complaints())
except (OSError, ValueError) as error:
    found = [f"the service at {ADDRESS} does not answer as it should: {error}"]
print(*found, sep="\n")
sys.exit(bool(found))
