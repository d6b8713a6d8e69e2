"""LZ4 frames in Kafka's form (Lz4BlockOutputStream, Lz4BlockInputStream, 4.3.0).

::

    magic      4     0x184D2204, little-endian
    FLG        1     bits 7-6 version 01; 5 independent blocks; 4 block checksums; 3 content size;
                     2 content checksum
    BD         1     bits 6-4: code of the largest block, 4 = 64 KiB .. 7 = 4 MiB
    size       0, 8  content size, if flagged; ignored
    HC         1     second byte of xxHash32 of FLG .. content size
    blocks           uint32 little-endian size, top bit = stored; the bytes; a checksum, if flagged
    end mark   4     zero
    checksum   0, 4  of the content, if flagged; not verified

This module writes the frame and a library the blocks: the output of cramjam's block compressor is
identical to Kafka's, that of the frame writers of python-lz4 and liblz4 is not. python-lz4 is
faster at reading.
"""

from __future__ import annotations

from typing import Final

import cramjam
import lz4.block

from logwright.format.limits import AboveLimit

_MAGIC: Final = b"\x04\x22\x4d\x18"
_WRITTEN_HEADER: Final = _MAGIC + b"\x60\x40\x82"
_END_MARK: Final = b"\x00\x00\x00\x00"
_WRITTEN_BLOCK_BYTES: Final = 65536
_STORED: Final = 0x80000000

_VERSION_MASK: Final = 0xC0
_VERSION: Final = 0x40
_INDEPENDENT: Final = 0x20
_BLOCK_CHECKSUM: Final = 0x10
_CONTENT_SIZE: Final = 0x08
_CONTENT_CHECKSUM: Final = 0x04
_FLAGS_RESERVED: Final = 0x03
_DESCRIPTOR_RESERVED: Final = 0x8F
_SMALLEST_BLOCK_CODE: Final = 4

_MASK: Final = 0xFFFFFFFF
_P1: Final = 2654435761
_P2: Final = 2246822519
_P3: Final = 3266489917
_P4: Final = 668265263
_P5: Final = 374761393


def compress_lz4(records: memoryview) -> bytes:
    """Compress to one frame; a block that would not shrink is stored."""
    parts = [_WRITTEN_HEADER]
    for start in range(0, len(records), _WRITTEN_BLOCK_BYTES):
        block = records[start : start + _WRITTEN_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += (len(packed).to_bytes(4, "little"), packed)
        else:
            parts += ((len(block) | _STORED).to_bytes(4, "little"), bytes(block))
    parts.append(_END_MARK)
    return b"".join(parts)


def decompress_lz4(payload: memoryview, limit: int, *, check_header: bool = True) -> bytes:
    """Decompress one frame to at most `limit` bytes.

    Args:
        check_header: false for messages of format v0, whose frames have a wrong HC.

    Raises:
        ValueError: the frame is malformed, truncated, or followed by other bytes.
        AboveLimit: it has more than that.
    """
    flags, largest_block, position = _read_header(payload, check=check_header)
    parts: list[bytes] = []
    left = limit
    while True:
        header = _uint32(payload, position)
        position += 4
        if header == 0:
            break
        block_bytes = header & ~_STORED
        if block_bytes > largest_block:
            raise ValueError(f"lz4: a block of {block_bytes} bytes is larger than {largest_block}")
        block = payload[position : position + block_bytes]
        position += block_bytes
        if position > len(payload):
            raise ValueError("lz4: a block is truncated")
        if flags & _BLOCK_CHECKSUM:
            if _uint32(payload, position) != xxhash32(block):
                raise ValueError("lz4: a block's checksum is wrong")
            position += 4
        parts.append(bytes(block) if header & _STORED else _unpack(block, largest_block))
        left -= len(parts[-1])
        if left < 0:
            raise AboveLimit(f"lz4: more than the limit of {limit} bytes")
    if flags & _CONTENT_CHECKSUM:
        position += 4
    if position != len(payload):
        raise ValueError("lz4: the frame ends before or after the payload")
    return b"".join(parts)


def _read_header(payload: memoryview, *, check: bool) -> tuple[int, int, int]:
    """Return (flags, largest block in bytes, position of the first block)."""
    if payload[: len(_WRITTEN_HEADER)] == _WRITTEN_HEADER and len(payload) > len(_WRITTEN_HEADER):
        return _INDEPENDENT | _VERSION, _WRITTEN_BLOCK_BYTES, len(_WRITTEN_HEADER)
    if bytes(payload[:4]) != _MAGIC:
        raise ValueError("lz4: the frame's magic is missing")
    if len(payload) < len(_WRITTEN_HEADER):
        raise ValueError("lz4: the frame's header is truncated")
    flags, descriptor = payload[4], payload[5]
    if flags & _VERSION_MASK != _VERSION or flags & _FLAGS_RESERVED:
        raise ValueError(f"lz4: flags {flags:#04x} are unknown")
    if not flags & _INDEPENDENT:
        raise ValueError("lz4: linked blocks are not supported, as in Kafka")
    code = descriptor >> 4
    if descriptor & _DESCRIPTOR_RESERVED or code < _SMALLEST_BLOCK_CODE:
        raise ValueError(f"lz4: block descriptor {descriptor:#04x} is unknown")
    end = 14 if flags & _CONTENT_SIZE else 6
    if end >= len(payload):
        raise ValueError("lz4: the frame's header is truncated")
    if check and payload[end] != (xxhash32(payload[4:end]) >> 8) & 0xFF:
        raise ValueError("lz4: the frame header's checksum is wrong")
    return flags, 1 << (2 * code + 8), end + 1


def _unpack(block: memoryview, largest_block: int) -> bytes:
    try:
        unpacked: bytes = lz4.block.decompress(block, uncompressed_size=largest_block)
    except lz4.block.LZ4BlockError as error:
        raise ValueError(f"lz4: {error}") from error
    return unpacked


def _uint32(payload: memoryview, position: int) -> int:
    if position + 4 > len(payload):
        raise ValueError("lz4: the frame is truncated")
    return int.from_bytes(payload[position : position + 4], "little")


def xxhash32(data: bytes | memoryview) -> int:
    """Return the xxHash32, seed 0, of a frame's header or of a block; Kafka writes no block
    checksums.
    """
    size = len(data)
    position = 0
    if size >= 16:  # noqa: PLR2004 - one stripe of the algorithm
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        while position + 16 <= size:
            for lane in range(4):
                word = int.from_bytes(data[position : position + 4], "little")
                lanes[lane] = _rotate(lanes[lane] + word * _P2, 13) * _P1 & _MASK
                position += 4
        digest = sum(_rotate(lanes[lane], turn) for lane, turn in enumerate((1, 7, 12, 18)))
    else:
        digest = _P5
    digest += size
    while position + 4 <= size:
        word = int.from_bytes(data[position : position + 4], "little")
        digest = _rotate(digest + word * _P3, 17) * _P4
        position += 4
    for byte in data[position:]:
        digest = _rotate(digest + byte * _P5, 11) * _P1
    digest &= _MASK
    digest = (digest ^ digest >> 15) * _P2 & _MASK
    digest = (digest ^ digest >> 13) * _P3 & _MASK
    return digest ^ digest >> 16


def _rotate(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (32 - bits)) & _MASK
