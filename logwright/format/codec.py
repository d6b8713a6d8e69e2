"""The five codecs of a record batch's payload, in the framings that Kafka 4.3.0 writes.

::

    0  none    the bytes themselves
    1  gzip    one RFC 1952 member, level -1
    2  snappy  xerial stream (snappy-java's SnappyOutputStream): header, then raw snappy chunks
    3  lz4     one LZ4 frame: independent 64 KiB blocks, no checksums, no content size (`lz4frame`)
    4  zstd    one Zstandard frame, level 3, no content size, no checksum (`zstdframe`)

Kafka's cleaner does not limit the decompressed size; here every decoder has a limit and checks each
length in the payload against the remaining bytes before use.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

import cramjam

from logwright.format.limits import AboveLimit, CodecError
from logwright.format.lz4frame import compress_lz4, decompress_lz4
from logwright.format.zstdframe import compress_zstd, decompress_zstd

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
Compressing = Literal["gzip", "snappy", "lz4", "zstd"]
"""Names of the codecs that compress."""
CodecName = Literal["none", Compressing]
"""Names of all codecs (CompressionType.name), by id."""

_GZIP_STEP_BYTES: Final = 512
"""First input chunk of a gzip member, in bytes; later chunks double. zlib copies the input after a
member's end, so passing it all would be quadratic with many small members."""
_GZIP_HEADER: Final = bytes.fromhex("1f8b08000000000000ff")
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_VERSION: Final = 1
_SNAPPY_BLOCK_BYTES: Final = 32768
_SNAPPY_LARGEST_RATIO: Final = 22
"""A copy of at most 64 bytes takes at least 3, so no raw snappy block grows by more than 64/3."""
_UVARINT32_BYTES: Final = 5


def decompress(codec: int, payload: bytes | memoryview, *, limit: int) -> bytes:
    """Decompress the records of a batch.

    Args:
        codec: bits 0 to 2 of the batch's attributes.
        payload: the bytes after the batch's header.
        limit: maximum number of bytes to return.

    Raises:
        CodecError: the codec is unknown; the payload is malformed, truncated, or followed by other
            bytes.
        AboveLimit: it is larger than `limit` when decompressed.
    """
    if not 0 <= codec < len(CODECS):
        raise CodecError(f"codec {codec} is unknown")
    try:
        return CODECS[codec].unpack(memoryview(payload), limit)
    except CodecError:
        raise
    except ValueError as error:
        # As the modules of the frame formats say what is malformed.
        raise CodecError(str(error)) from error


def compress(codec: int, records: bytes | memoryview) -> bytes:
    """Compress the records of a batch at the codec's default level, as Kafka's cleaner does.

    Raises:
        CodecError: the codec is unknown.
    """
    if not 0 <= codec < len(CODECS):
        raise CodecError(f"codec {codec} is unknown")
    return CODECS[codec].pack(memoryview(records))


def _store(payload: memoryview, limit: int) -> bytes:
    if len(payload) > limit:
        raise AboveLimit(f"the payload is larger than the limit of {limit} bytes")
    return bytes(payload)


def _compress_gzip(records: memoryview) -> bytes:
    """Compress like the JDK's GZIPOutputStream: no name, no time, operating system 255."""
    deflate = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(records) + deflate.flush()
    trailer = zlib.crc32(records).to_bytes(4, "little") + len(records).to_bytes(4, "little")
    return _GZIP_HEADER + body + trailer


def _decompress_gzip(payload: memoryview, limit: int) -> bytes:
    """Decompress all members, like the JDK's GZIPInputStream."""
    content = bytearray()
    position = _after_gzip_member(payload, 0, content, limit)
    while position < len(payload):
        position = _after_gzip_member(payload, position, content, limit)
    return bytes(content)


def _after_gzip_member(payload: memoryview, position: int, content: bytearray, limit: int) -> int:
    """Append a member's content to `content` and return the position after it."""
    member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    step = _GZIP_STEP_BYTES
    while not member.eof:
        given = payload[position : position + step]
        if not given:
            raise CodecError("gzip: the stream is truncated")
        try:
            # zlib takes 0 as "no limit", so request one byte more than allowed.
            content += member.decompress(given, limit - len(content) + 1)
        except zlib.error as error:
            raise CodecError(f"gzip: {error}") from error
        if len(content) > limit:
            raise AboveLimit(f"gzip: more than the limit of {limit} bytes")
        position += len(given) - len(member.unused_data)
        step *= 2
    return position


def _compress_snappy(records: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(records), _SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(records[start : start + _SNAPPY_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _decompress_snappy(payload: memoryview, limit: int) -> bytes:
    """Decompress a xerial stream, or a raw block without its header, like snappy-java."""
    if bytes(payload[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(payload, limit)
    position = _after_xerial_header(payload, 0)
    parts: list[bytes] = []
    left = limit
    while position < len(payload):
        if bytes(payload[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position = _after_xerial_header(payload, position)
            continue
        if position + 4 > len(payload):
            raise CodecError("snappy: a chunk's length is truncated")
        chunk_bytes = int.from_bytes(payload[position : position + 4], "big", signed=True)
        position += 4
        if not 0 < chunk_bytes <= len(payload) - position:
            raise CodecError(f"snappy: a chunk of {chunk_bytes} bytes is truncated")
        parts.append(_snappy_block(payload[position : position + chunk_bytes], left))
        left -= len(parts[-1])
        position += chunk_bytes
    return b"".join(parts)


def _after_xerial_header(payload: memoryview, position: int) -> int:
    end = position + len(_XERIAL_HEADER)
    if end > len(payload):
        raise CodecError("snappy: the stream's header is truncated")
    version = int.from_bytes(payload[position + 8 : position + 12], "big", signed=True)
    if version < _XERIAL_VERSION:
        raise CodecError(f"snappy: stream version {version} is unknown")
    return end


def _snappy_block(block: memoryview, limit: int) -> bytes:
    claimed = _snappy_length(block)
    if claimed > _SNAPPY_LARGEST_RATIO * len(block):
        raise CodecError(f"snappy: {len(block)} bytes cannot hold {claimed}")
    if claimed > limit:
        raise AboveLimit(f"snappy: a block of {claimed} bytes exceeds the limit")
    try:
        content = bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CodecError(f"snappy: {error}") from error
    if len(content) != claimed:
        raise CodecError(f"snappy: a block of {claimed} bytes holds {len(content)}")
    return content


def _snappy_length(block: memoryview) -> int:
    """Read the length at the start of a raw snappy block: an unsigned varint of at most 32 bits."""
    length = 0
    for index, byte in enumerate(block[:_UVARINT32_BYTES]):
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:  # noqa: PLR2004 - the top bit says that more follow
            return length
    raise CodecError("snappy: a block's length is malformed")


class Codec(NamedTuple):
    """A codec.

    Attributes:
        pack: compress at the default level.
        unpack: decompress to at most this number of bytes; CodecError or ValueError if it cannot.
        largest_growth: the maximum decompression ratio; bounds the number of records of a batch.
    """

    name: CodecName
    pack: Callable[[memoryview], bytes]
    unpack: Callable[[memoryview, int], bytes]
    largest_growth: int


CODECS: Final = (
    Codec("none", bytes, _store, 1),
    Codec("gzip", _compress_gzip, _decompress_gzip, 1032),  # deflate: 258 bytes for 2 bits
    Codec("snappy", _compress_snappy, _decompress_snappy, _SNAPPY_LARGEST_RATIO),
    Codec("lz4", compress_lz4, decompress_lz4, 255),  # 255 bytes for one
    Codec("zstd", compress_zstd, decompress_zstd, 32_768),  # a block of 128 KiB for 4 bytes
)
"""By id. All else asks this table. The kernels use it too, for codecs and framings that
`native_codec` does not know. So a new codec is its row, its two functions and its name above; what
it packs must fit into `native_codec.packed_bound`, which is to be raised if it can grow by more.
"""
CODEC_NAMES: Final = tuple(codec.name for codec in CODECS)
LARGEST_GROWTH: Final = tuple(codec.largest_growth for codec in CODECS)
