"""Records of a ``.log``, read as plainly as possible: nothing of the package is used."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

import cramjam
import google_crc32c
import lz4.frame
import zstandard

HEADER_BYTES: Final = 61
OLD_BYTES: Final = 14
CONTROL: Final = 32
_XERIAL: Final = b"\x82SNAPPY\x00"


class PlainRecord(NamedTuple):
    """One record. `is_control`: of a marker, whose key is none of a producer's."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[bytes, ...]
    is_control: bool


class Unreadable(Exception):
    """Bytes that are not what they should be."""


def read_all(content: bytes) -> tuple[list[PlainRecord], bool]:
    """The records of all batches; whether nothing but whole, right batches is there, and zeros
    after them. After bytes that are not a batch, the next one is looked for at each position.
    """
    records: list[PlainRecord] = []
    position, whole = 0, True
    while position < len(content):
        size = batch_bytes(content, position)
        if not size and not any(content[position:]):
            break
        if not size:
            whole = False
            position = next_batch(content, position + 1)
            continue
        try:
            records += records_of(content[position : position + size])
        except Unreadable:
            whole = False
        position += size
    return records, whole


def has_zeros(content: bytes) -> bool:
    """Whether something follows the whole, right batches at its beginning."""
    position = 0
    while size := batch_bytes(content, position):
        position += size
    return position < len(content)


def old_bytes(content: bytes) -> int:
    """How many bytes at its beginning are uncompressed messages of version 0 or 1, whose keys are
    plain bytes. Batches may follow: a broker, and an append, write them after old messages.
    """
    position = 0
    while position < len(content):
        message = content[position + 12 :]
        if len(message) < OLD_BYTES or message[4] not in (0, 1) or message[5] & 7:
            break
        (size,) = struct.unpack_from(">i", content, position + 8)
        (crc,) = struct.unpack_from(">I", message)
        if not OLD_BYTES <= size <= len(message) or zlib.crc32(message[4:size]) != crc:
            break
        position += 12 + size
    return position


def next_batch(content: bytes, position: int) -> int:
    """Where the next right batch begins; the end if there is none."""
    at = content.find(b"\x02", position + 16)
    while at >= 0:
        if batch_bytes(content, at - 16):
            return at - 16
        at = content.find(b"\x02", at + 1)
    return len(content)


def batch_bytes(content: bytes, position: int) -> int:
    """The size of the batch at a position, 0 if none with a right CRC is there. Its base offset is
    not covered by that: whatever it is, the keys can be read.
    """
    if len(content) - position < HEADER_BYTES or content[position + 16] != 2:
        return 0
    (length,) = struct.unpack_from(">i", content, position + 8)
    if length < HEADER_BYTES - 12 or length > len(content) - position - 12:
        return 0
    (crc,) = struct.unpack_from(">I", content, position + 17)
    checked = content[position + 21 : position + 12 + length]
    return 12 + length if google_crc32c.value(checked) == crc else 0


def records_of(batch: bytes) -> Iterator[PlainRecord]:
    """The records of a whole batch.

    Raises:
        Unreadable: its payload is damaged, or of an unknown codec.
    """
    base, attributes = struct.unpack_from(">q", batch)[0], struct.unpack_from(">h", batch, 21)[0]
    (count,) = struct.unpack_from(">i", batch, 57)
    payload = decompressed(attributes & 7, batch[HEADER_BYTES:])
    position, records = 0, []
    try:
        for _ in range(count):
            size, position = varint(payload, position)
            record = payload[position : position + size]
            if size < 0 or len(record) < size:
                raise Unreadable
            records.append(_record(record, base, bool(attributes & CONTROL)))
            position += size
    except (IndexError, UnicodeDecodeError) as error:
        raise Unreadable from error
    if position != len(payload):
        raise Unreadable
    return iter(records)


def _record(content: bytes, base: int, is_control: bool) -> PlainRecord:
    _, position = varint(content, 1)
    delta, position = varint(content, position)
    key, position = _bytes(content, position)
    value, position = _bytes(content, position)
    count, position = varint(content, position)
    headers: list[bytes] = []
    for _ in range(count):
        name, position = _bytes(content, position)
        held, position = _bytes(content, position)
        headers += [name or b"", held or b""]
    return PlainRecord(base + delta, key, value, tuple(headers), is_control)


def _bytes(content: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = varint(content, position)
    if size < 0:
        return None, position
    if len(content) - position < size:
        raise Unreadable
    return content[position : position + size], position + size


def varint(content: bytes, position: int) -> tuple[int, int]:
    """A zigzag varint and the position after it."""
    shift = value = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7


def decompressed(codec: int, payload: bytes) -> bytes:
    """A payload, by the number of Kafka's codec.

    Raises:
        Unreadable: it is damaged, or the codec is unknown.
    """
    try:
        if codec == 0:
            return payload
        if codec == 1:
            return gzip.decompress(payload)
        if codec == 2:
            return _snappy(payload)
        if codec == 3:
            return bytes(lz4.frame.decompress(payload))
        if codec == 4:
            return zstandard.ZstdDecompressor().decompressobj().decompress(payload)
    except (OSError, EOFError, RuntimeError, zlib.error, zstandard.ZstdError) as error:
        raise Unreadable from error
    except cramjam.DecompressionError as error:
        raise Unreadable from error
    raise Unreadable


def _snappy(payload: bytes) -> bytes:
    if not payload.startswith(_XERIAL):
        return bytes(cramjam.snappy.decompress_raw(payload))
    position, parts = 16, []
    while position < len(payload):
        (size,) = struct.unpack_from(">i", payload, position)
        block = payload[position + 4 : position + 4 + size]
        if size < 0 or len(block) < size:
            raise Unreadable
        parts.append(bytes(cramjam.snappy.decompress_raw(block)))
        position += 4 + size
    return b"".join(parts)
