"""Bytes with or without a person: batches, segments, rows, files of old formats, damaged ones."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path
from typing import Final

from logwright.format.record import RecordHeader
from tests.log_builder import START_MS, Pair, SegmentBuilder
from tests.worlds.requests import PATTERN, PERSONS, other_forms

OTHER_FORM: Final = 0.06
"""How often a person's key is in other bytes."""
_OTHERS: Final = tuple(f"k{n}" for n in range(6))


def draw_pairs(draw: random.Random, *, share: float = 0.35, most: int = 4) -> list[Pair]:
    """Some records, few of them a person's; some are tombstones."""
    pairs: list[Pair] = []
    for _ in range(draw.randint(1, most)):
        key: str | bytes = draw.choice(_OTHERS)
        if draw.random() < share / 2:
            key = draw.choice(PERSONS)
            key = draw.choice(other_forms(key)) if draw.random() < OTHER_FORM else key
        value = None if draw.random() < 0.2 else f"v{draw.randrange(100)}"
        if value is not None and draw.random() < 0.08:
            value = f"{value} {PATTERN.decode()} x"
        pairs.append((None if draw.random() < 0.04 else key, value))
    return pairs


def draw_share(draw: random.Random) -> float:
    """How much of a place is of persons: often nothing."""
    return draw.choice((0.0, 0.0, 0.5, 0.9))


def add_batches(
    segment: SegmentBuilder, draw: random.Random, first: int, *, share: float, count: int
) -> int:
    """Append some batches; the offset after the last."""
    offset = first
    for _ in range(count):
        pairs = draw_pairs(draw, share=share)
        codec = draw.choice((0, 0, 1, 2, 3, 4))
        headers = (RecordHeader(key=b"h", value=b"x"),) if draw.random() < 0.2 else ()
        if draw.random() < 0.15:
            producer = draw.randrange(1, 50)
            ends = draw.choice(("commit", "abort", "abort"))
            segment.batch(
                offset,
                pairs,
                codec=codec,
                producer_id=producer,
                transactional=True,
                headers=headers,
            )
            segment.marker(offset + len(pairs), producer, ends)  # type: ignore[arg-type]  # one of two
            offset += len(pairs) + 1
            continue
        segment.batch(offset, pairs, codec=codec, headers=headers)
        offset += len(pairs)
    return offset


def log_bytes(draw: random.Random, *, share: float | None = None, base: int = 0) -> bytes:
    """A small ``.log``."""
    segment = SegmentBuilder(base)
    chosen = draw_share(draw) if share is None else share
    add_batches(segment, draw, base, share=chosen, count=draw.randint(1, 2))
    return segment.content


def damaged(draw: random.Random, content: bytes) -> bytes:
    """A log of which something is no more what was written."""
    changed = bytearray(content)
    kind = draw.randrange(4)
    if kind == 0:
        at = draw.randrange(17, len(changed))
        changed[at] ^= 1 << draw.randrange(8)
    elif kind == 1:
        return content[: draw.randrange(1, len(content))]
    elif kind == 2:
        changed[16] = draw.choice((3, 77))
    else:
        return content + draw.randbytes(draw.choice((1, 12, 300)))
    return bytes(changed)


def old_format(draw: random.Random, magic: int) -> bytes:
    """Messages of version 0 or 1, uncompressed, with right CRCs."""
    parts = []
    for offset, (key, value) in enumerate(draw_pairs(draw, share=draw_share(draw))):
        body = bytes((magic, 0)) + (struct.pack(">q", START_MS) if magic else b"")
        for content in (key, value):
            text = content.encode() if isinstance(content, str) else content
            body += struct.pack(">i", -1 if text is None else len(text)) + (text or b"")
        message = struct.pack(">I", zlib.crc32(body)) + body
        parts.append(struct.pack(">qi", offset, len(message)) + message)
    return b"".join(parts)


def write(path: Path, content: bytes) -> None:
    """A file, with its directories. Effects: makes them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
