"""Zstandard frames in Kafka's form (zstd-jni's stream, level 3), decompressed under a limit.

The headers of a frame are walked first (RFC 8878), to find its end, detect truncation, and get an
upper bound of the output: the content size in the header is not trusted for allocations.
"""

from __future__ import annotations

import threading
from typing import Final

import zstandard

from logwright.format.limits import AboveLimit

LARGEST_WINDOW_BYTES: Final = 128 * 1024 * 1024
"""Default limit of zstd's own reader (ZSTD_WINDOWLOG_LIMIT_DEFAULT = 27)."""

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
    """A compressor and a decompressor per thread: they are expensive and must not be shared."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(
            level=_LEVEL, write_content_size=False, write_checksum=False, write_dict_id=False
        )
        self.decompressor = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW_BYTES)


_CONTEXTS = _Contexts()


def compress_zstd(records: memoryview) -> bytes:
    """Compress to one frame, flushed before its end as Kafka does: its last block is empty."""
    stream = _CONTEXTS.compressor.compressobj()
    data = stream.compress(records) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return data + stream.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH)


def decompress_zstd(payload: memoryview, limit: int) -> bytes:
    """Decompress all frames of a payload to at most `limit` bytes.

    Raises:
        ValueError: a frame is malformed, truncated, followed by other bytes, or needs a
            dictionary or a window larger than `LARGEST_WINDOW_BYTES`.
        AboveLimit: it has more than that.
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
    """Decompress one whole frame; `bound` is its largest possible content, `limit` the allowed one.

    A frame that cannot exceed the limit is decompressed in one call into the output, which needs no
    window buffer.
    """
    content = bytearray()
    try:
        if bound <= limit:
            return _CONTEXTS.decompressor.decompress(frame, max_output_size=max(1, bound))
        with _CONTEXTS.decompressor.stream_reader(frame, read_size=max(1, len(frame))) as reader:
            while len(content) <= limit:
                part = reader.read(max(1, min(bound, _READ_BYTES, limit + 1 - len(content))))
                if not part:
                    return bytes(content)
                content += part
    except zstandard.ZstdError as error:
        raise ValueError(f"zstd: {error}") from error
    raise AboveLimit(f"zstd: more than the limit of {limit} bytes")


def _walk_frame(payload: memoryview, start: int) -> tuple[int, int | None]:
    """Return (position after the frame, its largest possible content); None for a skippable one."""
    if bytes(payload[start : start + 4]) != _MAGIC:
        if _read(payload, start, 4) & 0xFFFFFFF0 != _SKIPPABLE_MAGIC:
            raise ValueError("zstd: the frame's magic is missing")
        end = start + 8 + _read(payload, start + 4, 4)
        if end > len(payload):
            raise ValueError("zstd: the frame is truncated")
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
        raise ValueError("zstd: the frame is truncated")
    if content_bytes > bound:
        raise ValueError(f"zstd: the frame cannot contain {content_bytes} bytes, its content size")
    return position, bound


def _read_header(payload: memoryview, start: int) -> tuple[int, int, int, int]:
    """Return (flags, position of the first block, largest block, content size or 0) of a frame."""
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
        raise ValueError("zstd: the frame is truncated")
    return int.from_bytes(payload[position : position + size], "little")
