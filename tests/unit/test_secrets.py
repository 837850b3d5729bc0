"""Secrets are taken out whole, however they overlap and however the bytes are cut."""

import io
import itertools
import json
import os
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable
from html import escape
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.trial.secrets import MIN_SECRET_CHARS, REDACTED, Redactor

# Few letters and short words: secrets overlap, repeat, begin and contain one another.
LETTERS = "ab"
secret_lists = st.lists(st.text(LETTERS, min_size=4, max_size=9), max_size=4)
texts = st.text(LETTERS + "c[", max_size=60)


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def expected(text: str, secrets: list[str]) -> str:
    """The rule, letter by letter: what is in any secret goes, overlapping ones as one."""
    inside = [False] * len(text)
    joined = [False] * len(text)  # this letter and the one before are in one secret
    for secret in secrets:
        for start in range(len(text) - len(secret) + 1):
            if text.startswith(secret, start):
                for place in range(start, start + len(secret)):
                    inside[place] = True
                    joined[place] |= place > start
    return "".join(
        letter if not inside[place] else "" if joined[place] else REDACTED
        for place, letter in enumerate(text)
    )


@given(texts, secret_lists)
def test_all_that_belongs_to_a_secret_goes(text: str, secrets: list[str]) -> None:
    redactor = Redactor(secrets)
    assert redactor.text(text) == expected(text, secrets)
    assert redactor.data(text.encode()) == redactor.text(text).encode()


@given(texts, secret_lists, st.lists(st.integers(0, 60), max_size=12))
def test_any_cut_gives_what_the_whole_gives(
    text: str, secrets: list[str], places: list[int]
) -> None:
    redactor = Redactor(secrets)
    stream = redactor.stream()
    given_on = [stream.feed(piece) for piece in cut(text.encode(), places)]
    assert b"".join([*given_on, stream.finish()]) == redactor.data(text.encode())


@given(texts, secret_lists, st.integers(1, 7))
def test_the_reader_gives_what_the_whole_gives(text: str, secrets: list[str], size: int) -> None:
    redactor = Redactor(secrets)
    reader = redactor.reader(io.BytesIO(text.encode()))
    assert b"".join(iter(lambda: reader.read(size), b"")) == redactor.data(text.encode())


@given(texts, secret_lists.filter(bool), st.lists(st.integers(0, 60), max_size=12))
def test_less_than_the_longest_secret_is_held_back(
    text: str, secrets: list[str], places: list[int]
) -> None:
    longest = max(map(len, secrets))
    stream = Redactor(secrets).stream()
    came = went = b""
    for piece in cut(text.encode(), places):
        came += piece
        went += stream.feed(piece)
        decided = came[: max(len(came) - longest + 1, 0)]
        assert went.startswith(Redactor(secrets).data(decided)[: -len(REDACTED)])


def test_nothing_is_held_back_where_no_secret_begins() -> None:
    stream = Redactor(["s3cr3t-value"]).stream()
    assert stream.feed(b"plain text") == b"plain text"
    assert stream.feed(b"s3cr3t") == b""
    assert stream.feed(b"!") == b"s3cr3t!"


def test_a_longer_secret_goes_whole_though_a_shorter_one_begins_it() -> None:
    stream = Redactor(["abcd", "abcdefgh"]).stream()
    assert stream.feed(b"x abcd") + stream.feed(b"efgh y") + stream.finish() == b"x [REDACTED] y"


def test_what_stands_for_a_secret_is_not_searched_for_others() -> None:
    assert Redactor(["REDACTED", "password1"]).text("password1") == "[REDACTED]"


@pytest.mark.parametrize("value", ["", "1", "abc", "true", "False", "null", "none"])
def test_what_occurs_by_chance_is_left_alone(value: str) -> None:
    text = f'{{"reward": 1, "ok": {value}}}'
    assert Redactor([value]).text(text) == text
    assert len(value) < MIN_SECRET_CHARS or value.lower() in {"true", "false", "null", "none"}


@pytest.mark.parametrize("secret", ['pass"word\\1', "-----BEGIN KEY-----\nMIIE\n", "clé-secrète"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_secrets_that_json_writes_otherwise_are_known(secret: str, ascii_only: bool) -> None:
    line = json.dumps({"env": f"KEY={secret}"}, ensure_ascii=ascii_only)
    cleaned = Redactor([secret]).data(line.encode())
    assert json.loads(cleaned) == {"env": f"KEY={REDACTED}"}


def test_bytes_that_are_no_text_are_secrets_too() -> None:
    secret = os.fsdecode(b"k\xff\xfeey-1")
    assert Redactor([secret]).data(b"<k\xff\xfeey-1>") == b"<[REDACTED]>"


def test_without_secrets_the_source_itself_is_read() -> None:
    source = io.BytesIO(b"data")
    assert Redactor().reader(source) is source


@pytest.mark.parametrize("filler", [b"\x00", b"s3cr3t-valu", b"s", os.urandom(997)])
def test_many_bytes_pass_in_bounded_memory(filler: bytes) -> None:
    total = 50 * 1024 * 1024
    stream = Redactor(["s3cr3t-value", "another-s3cr3t" * 40]).stream()
    piece = (filler * (64 * 1024 // len(filler) + 1))[: 64 * 1024]
    size = 0
    for _ in range(total // len(piece)):
        released = stream.feed(piece)
        assert len(released) <= len(piece) + 600
        size += len(released)
    assert size + len(stream.finish()) == total


AWKWARD = 'it\'s "so" \\ odd\tand é\x01'


@pytest.mark.parametrize("around", ["", "'", '"', "'\""])
@pytest.mark.parametrize("write", [str, repr, json.dumps])
def test_a_secret_is_known_however_python_and_json_write_it(write, around: str) -> None:
    redactor = Redactor([AWKWARD])
    text = redactor.text(write(f"{around}{AWKWARD}end"))
    assert f"{REDACTED}end" in text
    assert not any(word in text for word in ("it", "so", "odd"))


ENCODINGS = {
    "url": lambda text: quote(text, safe=""),
    "url's path": quote,
    "form": quote_plus,
    "lower case": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text, safe="")),
    "html": escape,
    "base64": lambda text: b64encode(text.encode()).decode(),
    "base64 in a url": lambda text: urlsafe_b64encode(text.encode()).decode(),
}


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("before", ["", "user:", "a", "ab"])
def test_a_secret_is_known_in_what_encodes_it(encode, before: str) -> None:
    secret = "k<e>y/with=odd+signs?\x7f and more"
    text = encode(f"{before}{secret}:end")
    cleaned = Redactor([secret]).text(f"Basic {text}, then")
    assert REDACTED in cleaned
    # What is left is less than four characters of each side of it.
    assert len(cleaned) - len(REDACTED) <= len(f"Basic , then{encode(before)}{encode(':end')}") + 8


def test_short_values_are_not_looked_for_in_base64() -> None:
    text = b64encode(b"swordfish").decode()
    assert Redactor(["sword"]).text(text) == text


def test_each_long_line_of_a_secret_is_one() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nshort\n"
    assert Redactor([key]).text("E   MIIEvQIBADANBgkq, short") == f"E   {REDACTED}, short"
    assert Redactor(["a single line that is long"]).text("a single line") == "a single line"
