"""Zstandard frames as Kafka writes them (zstd-jni's stream, level 3), decoded under a limit.

Before the library sees a frame its headers are walked here (RFC 8878): that gives the frame's end,
shows a cut off payload, and bounds the output from above, so that nothing is allocated on the word
of a content size that may be a lie.
"""

from __future__ import annotations

import threading
from typing import Final

import zstandard

LARGEST_WINDOW_BYTES: Final = 128 * 1024 * 1024
"""What zstd's own reader allows unless told otherwise (ZSTD_WINDOWLOG_LIMIT_DEFAULT = 27)."""

_LEVEL: Final = 3
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC: Final = 0x184D2A50
_LARGEST_BLOCK_BYTES: Final = 128 * 1024
_SINGLE_SEGMENT: Final = 0x20
_CHECKSUM: Final = 0x04
_RESERVED: Final = 0x08
_DICTIONARY_MASK: Final = 0x03
_RAW: Final = 0
_RLE: Final = 1
_COMPRESSED: Final = 2
_READ_BYTES: Final = 256 * 1024


class _Contexts(threading.local):
    """A compressor and decompressor per thread: sharing them is not allowed, making them dear."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(
            level=_LEVEL, write_content_size=False, write_checksum=False, write_dict_id=False
        )
        self.decompressor = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW_BYTES)


_CONTEXTS = _Contexts()


def compress_zstd(records: memoryview) -> bytes:
    """One frame, flushed before it is ended as Kafka does: its last block is empty."""
    stream = _CONTEXTS.compressor.compressobj()
    data = stream.compress(records) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return data + stream.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH)


def decompress_zstd(payload: memoryview, limit: int) -> bytes:
    """What all frames of a payload hold, at most `limit` bytes.

    Raises:
        ValueError: a frame is malformed, cut off or followed by other bytes, needs a dictionary or
            a larger window than `LARGEST_WINDOW_BYTES`, or holds too much.
    """
    parts: list[bytes] = []
    position = 0
    left = limit
    while True:
        end, bound = _walk_frame(payload, position)
        if bound is not None:
            parts.append(_decompress_frame(payload[position:end], bound, left))
            left -= len(parts[-1])
        position = end
        if position == len(payload):
            return b"".join(parts)


def _decompress_frame(frame: memoryview, bound: int, limit: int) -> bytes:
    """One whole frame; `bound` is what it can hold at most, `limit` what it may.

    A frame that cannot be too large is decompressed at once, straight into the output: that needs
    no buffer for its window.
    """
    found = bytearray()
    try:
        if bound <= limit:
            return _CONTEXTS.decompressor.decompress(frame, max_output_size=max(1, bound))
        with _CONTEXTS.decompressor.stream_reader(frame, read_size=max(1, len(frame))) as reader:
            while len(found) <= limit:
                part = reader.read(max(1, min(bound, _READ_BYTES, limit + 1 - len(found))))
                if not part:
                    return bytes(found)
                found += part
    except zstandard.ZstdError as error:
        raise ValueError(f"zstd: {error}") from error
    raise ValueError(f"zstd: more than the limit of {limit} bytes")


def _walk_frame(payload: memoryview, start: int) -> tuple[int, int | None]:
    """(position behind the frame, most bytes it can hold); None bytes for a skippable frame."""
    if bytes(payload[start : start + 4]) != _MAGIC:
        if _read(payload, start, 4) & 0xFFFFFFF0 != _SKIPPABLE_MAGIC:
            raise ValueError("zstd: the frame's magic is missing")
        end = start + 8 + _read(payload, start + 4, 4)
        if end > len(payload):
            raise ValueError("zstd: the frame is cut off")
        return end, None
    flags, position, largest_block, content_bytes = _read_header(payload, start)
    bound = 0
    last = False
    while not last:
        header = _read(payload, position, 3)
        position += 3
        last = bool(header & 1)
        kind, block_bytes = header >> 1 & 3, header >> 3
        # A block's size is the output's for raw and RLE, the input's for compressed ones.
        if kind > _COMPRESSED or block_bytes > largest_block:
            raise ValueError("zstd: a block is malformed")
        bound += largest_block if kind == _COMPRESSED else block_bytes
        position += 1 if kind == _RLE else block_bytes
    if flags & _CHECKSUM:
        position += 4
    if position > len(payload):
        raise ValueError("zstd: the frame is cut off")
    if content_bytes > bound:
        raise ValueError(f"zstd: the frame cannot hold {content_bytes} bytes, as it says")
    return position, bound


def _read_header(payload: memoryview, start: int) -> tuple[int, int, int, int]:
    """(flags, position of the first block, largest block, content size or 0) of one frame."""
    position = start + 5
    flags = _read(payload, start + 4, 1)
    if flags & _RESERVED:
        raise ValueError("zstd: the frame's flags are unknown")
    if flags & _DICTIONARY_MASK:
        raise ValueError("zstd: the frame needs a dictionary")
    single_segment = bool(flags & _SINGLE_SEGMENT)
    window = 0
    if not single_segment:
        descriptor = _read(payload, position, 1)
        base = 1 << (10 + (descriptor >> 3))
        window = base + (base >> 3) * (descriptor & 7)
        position += 1
    size_code = flags >> 6
    size_bytes = 1 << size_code if size_code or single_segment else 0
    content_bytes = _read(payload, position, size_bytes) + (256 if size_code == 1 else 0)
    position += size_bytes
    if single_segment:
        window = content_bytes
    if window > LARGEST_WINDOW_BYTES:
        raise ValueError(f"zstd: a window of {window} bytes exceeds {LARGEST_WINDOW_BYTES}")
    return flags, position, min(window, _LARGEST_BLOCK_BYTES), content_bytes


def _read(payload: memoryview, position: int, size: int) -> int:
    if position + size > len(payload):
        raise ValueError("zstd: the frame is cut off")
    return int.from_bytes(payload[position : position + size], "little")
