"""The loader's memory of libraries, ``/etc/ld.so.cache``, taken apart."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20sII20x")
_ENTRY = struct.Struct("<iIIIQ")
_MAX_NAME = 4096


def libraries_in_cache(data: bytes) -> Iterator[tuple[str, str]]:
    """Name and path of every library that programs are given without a search.

    Raises:
        ValueError: It is no such file.
    """
    # An older kind may stand before it.
    start = data.find(_MAGIC)
    try:
        _, number, _ = _HEADER.unpack_from(data, max(start, 0))
        if start < 0 or number * _ENTRY.size > len(data):
            raise ValueError("no memory of the loader")
        for index in range(number):
            at = start + _HEADER.size + index * _ENTRY.size
            _, name, path, _, _ = _ENTRY.unpack_from(data, at)
            yield _text_at(data, start + name), _text_at(data, start + path)
    except struct.error as error:
        raise ValueError("no memory of the loader") from error


def _text_at(data: bytes, at: int) -> str:
    end = data.find(b"\0", at, at + _MAX_NAME)
    if end < 0:
        raise ValueError("no memory of the loader: a name without an end")
    return data[at:end].decode("utf-8", "replace")
