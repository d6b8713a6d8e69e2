"""Damage: what a disk, a network or an attacker may do to the bytes of a segment."""

from __future__ import annotations

import struct
from random import Random

from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.batch import CRC_START, HEADER_BYTES, parse_batch
from logwright.format.codec import compress, decompress
from logwright.format.crc import crc32c
from logwright.format.limits import CodecError

_LENGTH = struct.Struct(">i")
_ABSURD_INT32 = (-(2**31), -1, 0, 1, 48, 49, 2**16, 2**24, 2**31 - 1)
_ABSURD_INT64 = (-(2**63), -1, 0, 2**31, 2**62, 2**63 - 1)
_ABSURD_VARINTS = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x00",
    b"\x80\x80\x80\x80\x00",
    b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
)
_INT32_FIELDS = (8, 23, 57)
"""batchLength, lastOffsetDelta, recordsCount."""
_INT64_FIELDS = (0, 27, 35, 43)
"""baseOffset, baseTimestamp, maxTimestamp, producerId."""


def mutate(content: bytes, random: Random) -> bytes:
    """One to three damages; with right CRCs half of the time, so that they reach the decoder."""
    damaged = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if damaged:
            random.choice(_DAMAGES)(damaged, random)
    if random.random() < 0.5:
        mend_crcs(damaged)
    return bytes(damaged)


def mend_crcs(content: bytearray) -> None:
    """Give every batch that can be found the CRC of its bytes."""
    position = 0
    while position + HEADER_BYTES <= len(content):
        (length,) = _LENGTH.unpack_from(content, position + 8)
        end = position + 12 + length
        if length < HEADER_BYTES - 12 or end > len(content):
            return
        crc = crc32c(bytes(content[position + CRC_START : end]))
        struct.pack_into(">I", content, position + 17, crc)
        position = end


def _some_start(content: bytearray, random: Random) -> int:
    """A batch's, as far as the lengths still show."""
    return random.choice(_starts(content))


def _starts(content: bytearray) -> list[int]:
    starts, position = [], 0
    while position + HEADER_BYTES <= len(content):
        starts.append(position)
        (length,) = _LENGTH.unpack_from(content, position + 8)
        if length < 1:
            break
        position += 12 + length
    return starts or [0]


def _flip(content: bytearray, random: Random) -> None:
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)


def _flip_in_header(content: bytearray, random: Random) -> None:
    at = _some_start(content, random) + random.randrange(HEADER_BYTES)
    if at < len(content):
        content[at] ^= 1 << random.randrange(8)


def _truncate(content: bytearray, random: Random) -> None:
    del content[random.randrange(len(content)) :]


def _zero(content: bytearray, random: Random) -> None:
    start = random.randrange(len(content))
    end = min(start + random.choice((1, 8, 61, 4096)), len(content))
    content[start:end] = bytes(end - start)


def _duplicate(content: bytearray, random: Random) -> None:
    start = random.randrange(len(content))
    piece = content[start : start + random.choice((1, 7, 61, 500))]
    content[start:start] = piece


def _duplicate_batch(content: bytearray, random: Random) -> None:
    start = _some_start(content, random)
    (length,) = _LENGTH.unpack_from(content.ljust(start + 12, b"\0"), start + 8)
    if 0 < length < len(content):
        piece = content[start : start + 12 + length]
        content[start:start] = piece


def _remove(content: bytearray, random: Random) -> None:
    start = random.randrange(len(content))
    del content[start : start + random.choice((1, 7, 61))]


def _absurd_int32(content: bytearray, random: Random) -> None:
    at = _some_start(content, random) + random.choice(_INT32_FIELDS)
    if at + 4 <= len(content):
        struct.pack_into(">i", content, at, random.choice(_ABSURD_INT32))


def _absurd_count(content: bytearray, random: Random) -> None:
    """A record count and an offset delta that go with each other, and with no such payload, in the
    last batch: after another one its offsets would be in the way.
    """
    at = _starts(content)[-1]
    if at + HEADER_BYTES <= len(content):
        count = random.choice((2**10, 2**20, 2**30))
        struct.pack_into(">i", content, at + 23, count - 1)
        struct.pack_into(">i", content, at + 57, count)


def _absurd_int64(content: bytearray, random: Random) -> None:
    at = _some_start(content, random) + random.choice(_INT64_FIELDS)
    if at + 8 <= len(content):
        struct.pack_into(">q", content, at, random.choice(_ABSURD_INT64))


def _attributes(content: bytearray, random: Random) -> None:
    at = _some_start(content, random) + 22
    if at < len(content):
        content[at] = random.randrange(256)


def _absurd_varint(content: bytearray, random: Random) -> None:
    """Where a record's fields are, in the first bytes of a batch's records; the batch's length is
    set right most of the time.
    """
    start = _some_start(content, random)
    at = start + HEADER_BYTES + random.randrange(12)
    varint = random.choice(_ABSURD_VARINTS)
    removed = random.choice((0, 1, len(varint)))
    if at + removed > len(content):
        return
    content[at : at + removed] = varint
    if random.random() < 0.8:
        _lengthen(content, start, len(varint) - removed)


def _inside(content: bytearray, random: Random) -> None:
    """Damage to a batch's records before they were compressed."""
    start = _some_start(content, random)
    try:
        batch = parse_batch(bytes(content[start:]))
        payload = bytes(content[start + HEADER_BYTES : start + batch.size_bytes])
        records = bytearray(decompress(batch.codec, payload, limit=1 << 20))
    except (CorruptBatch, UnsupportedFormatError, CodecError):
        return
    if not records:
        return
    at = random.randrange(min(len(records), 60))
    records[at : at + random.choice((0, 1))] = random.choice(_ABSURD_VARINTS)
    damaged = compress(batch.codec, bytes(records))
    content[start + HEADER_BYTES : start + batch.size_bytes] = damaged
    _lengthen(content, start, len(damaged) - len(payload))


def _lengthen(content: bytearray, start: int, by: int) -> None:
    (length,) = _LENGTH.unpack_from(content, start + 8)
    if 0 < length < 2**30:
        _LENGTH.pack_into(content, start + 8, length + by)


_DAMAGES = (
    _flip,
    _flip,
    _flip_in_header,
    _flip_in_header,
    _truncate,
    _zero,
    _duplicate,
    _duplicate_batch,
    _remove,
    _absurd_int32,
    _absurd_count,
    _absurd_int64,
    _attributes,
    _absurd_varint,
    _inside,
    _inside,
)
