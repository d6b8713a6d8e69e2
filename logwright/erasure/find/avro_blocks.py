"""How large the blocks of an Avro file become, before a library reads it: a few bytes of a stranger
must not fill the memory.

An Avro file is a magic, a map of metadata, a sync marker, and blocks: count and size as varints,
content, sync marker (Avro 1.12, "Object Container Files").
"""

from __future__ import annotations

import zlib
from typing import Final

MOST_BYTES: Final = 256 * 1024 * 1024
"""Of all blocks, decompressed."""
_MAGIC_BYTES: Final = 4
_SYNC_BYTES: Final = 16
_MOST_VARINT_BYTES: Final = 10
_WINDOW: Final = -15
"""Deflate without a header, as RFC 1951 has it."""


def require_small_blocks(content: bytes, most: int = MOST_BYTES) -> None:
    """Require that all blocks together are at most this large.

    Raises:
        ValueError: they are, the file is not whole, or its codec is neither null nor deflate.
    """
    codec, at = _header(content)
    if codec not in (b"null", b"deflate"):
        raise ValueError("another codec")
    left = most
    while at < len(content):
        _, at = _long(content, at)
        size, at = _long(content, at)
        if not 0 <= size <= len(content) - at - _SYNC_BYTES:
            raise ValueError("a block is cut")
        if codec == b"deflate":
            left -= _inflated(content[at : at + size], left)
        at += size + _SYNC_BYTES


def _inflated(data: bytes, most: int) -> int:
    inflate, total = zlib.decompressobj(_WINDOW), 0
    while data and total <= most:
        try:
            total += len(inflate.decompress(data, 1 << 20))
        except zlib.error as error:
            raise ValueError("not deflated") from error
        data = inflate.unconsumed_tail
    if total > most:
        raise ValueError("too large")
    return total


def _header(content: bytes) -> tuple[bytes, int]:
    """Return the codec, and where the first block begins."""
    codec, at = b"null", _MAGIC_BYTES
    count, at = _long(content, at)
    while count:
        if count < 0:
            _, at = _long(content, at)
        for _ in range(abs(count)):
            name, at = _bytes(content, at)
            value, at = _bytes(content, at)
            codec = value if name == b"avro.codec" else codec
        count, at = _long(content, at)
    return codec, at + _SYNC_BYTES


def _bytes(content: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(content, at)
    if not 0 <= size <= len(content) - at:
        raise ValueError("the header is cut")
    return content[at : at + size], at + size


def _long(content: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag varint, and where it ends."""
    value = 0
    for number in range(_MOST_VARINT_BYTES):
        if at + number >= len(content):
            break
        byte = content[at + number]
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80:  # noqa: PLR2004 -- the last byte
            return (value >> 1) ^ -(value & 1), at + number + 1
    raise ValueError("a varint is cut")
