"""Chunks: the parts of a segment that the common plugin compresses and encrypts one by one.

::

    object      IV 12 | ciphertext | tag 16      and so on, one for each chunk, if encrypted
    chunk       a zstd frame, if compressed, of `original_chunk_bytes` bytes; the last has the rest

A chunk is the unit of a read: memory is bounded by it, not by the segment.
Source: the plugin's published layout, compared with objects that it wrote.
"""

from __future__ import annotations

import binascii
import struct
from base64 import b64decode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.errors import CorruptObject
from logwright.format.zstdframe import decompress_zstd
from logwright.place.model import LARGEST_FILE_BYTES, Bytes, Entry, FileStamp
from logwright.tier.model import damaged
from logwright.units import ByteCount

if TYPE_CHECKING:
    from logwright.tier.encryption import Cipher
    from logwright.tier.objects import Objects, ObjectStat

LARGEST_CHUNK_BYTES: Final = 256 * 1024 * 1024
"""A larger chunk is refused: it would be in memory as a whole."""
MOST_CHUNKS: Final = 1 << 20
_HEAD: Final = struct.Struct(">iiB")
_COUNT: Final = struct.Struct(">i")
_SINGLE: Final = struct.Struct(">ii")
_WIDEST: Final = 4


class ChunkIndex(NamedTuple):
    """Where the chunks of a segment are.

    Attributes:
        original_bytes: of the segment's ``.log``.
        original_chunk_bytes: of a chunk of it; the last may be shorter.
        ends: int64[n], where each chunk ends in the object.
    """

    original_bytes: int
    original_chunk_bytes: int
    ends: NDArray[np.int64]

    def original_span(self, number: int) -> tuple[int, int]:
        """Return (position, bytes) of a chunk in the ``.log``."""
        start = number * self.original_chunk_bytes
        return start, min(self.original_chunk_bytes, self.original_bytes - start)

    def object_span(self, number: int) -> tuple[int, int]:
        """Return (position, bytes) of a chunk in the object."""
        start = int(self.ends[number - 1]) if number else 0
        return start, int(self.ends[number]) - start


def chunk_count(original_bytes: int, original_chunk_bytes: int) -> int:
    """Return how many chunks a segment has.

    Raises:
        ValueError: these sizes cannot be.
    """
    if not 0 < original_bytes <= LARGEST_FILE_BYTES:
        raise ValueError(f"a segment of {original_bytes} bytes is not possible")
    if not 0 < original_chunk_bytes <= LARGEST_CHUNK_BYTES:
        raise ValueError(
            f"chunks of {original_chunk_bytes} bytes are not read: more than {LARGEST_CHUNK_BYTES}"
        )
    count = -(-original_bytes // original_chunk_bytes)
    if count > MOST_CHUNKS:
        raise ValueError(f"{count} chunks are more than {MOST_CHUNKS}")
    return count


def fixed_index(
    original_bytes: int, original_chunk_bytes: int, chunk_bytes: int, last_chunk_bytes: int
) -> ChunkIndex:
    """Return the index of chunks that all have one size in the object, but for the last.

    Raises:
        ValueError: the sizes cannot be.
    """
    count = chunk_count(original_bytes, original_chunk_bytes)
    ends = np.arange(1, count + 1, dtype=np.int64) * chunk_bytes
    ends[-1] += last_chunk_bytes - chunk_bytes
    return ChunkIndex(original_bytes, original_chunk_bytes, ends)


def variable_index(original_bytes: int, original_chunk_bytes: int, sizes: str) -> ChunkIndex:
    """Return the index of chunks that have a size each.

    Args:
        sizes: base64 of a zstd frame of: their number, int32; the smallest size, int32; and, if
            there are several, the width of what follows, int8; how much larger each but the last
            is; and the size of the last, int32.

    Raises:
        ValueError: they are malformed, or cannot be.
    """
    count = chunk_count(original_bytes, original_chunk_bytes)
    longest = _HEAD.size + _WIDEST * count
    try:
        raw = decompress_zstd(memoryview(b64decode(sizes, validate=True)), longest)
    except binascii.Error as error:
        raise ValueError("the sizes of the chunks are not base64") from error
    if count == 1:
        if len(raw) != _SINGLE.size:
            raise ValueError("the sizes of the chunks are malformed")
        stored, only = _SINGLE.unpack(raw)
        each = np.array([only], dtype=np.int64)
    else:
        stored, each = _several(raw, count)
    if stored != count:
        raise ValueError(f"there are sizes of {stored} chunks, not {count}")
    if each.min() <= 0:
        raise ValueError("a chunk has no bytes")
    return ChunkIndex(original_bytes, original_chunk_bytes, np.cumsum(each))


def _several(raw: bytes, count: int) -> tuple[int, NDArray[np.int64]]:
    """Return (how many sizes are declared, the sizes)."""
    if len(raw) < _HEAD.size:
        raise ValueError("the sizes of the chunks are malformed")
    stored, base, width = _HEAD.unpack_from(raw)
    end = _HEAD.size + width * (count - 1)
    if not 0 <= width <= _WIDEST or len(raw) != end + _COUNT.size:
        raise ValueError("the sizes of the chunks are malformed")
    more = np.zeros(count - 1, dtype=np.int64)
    digits = np.frombuffer(raw, dtype=np.uint8, count=width * (count - 1), offset=_HEAD.size)
    for column in digits.reshape(count - 1, width).T:
        more = more << 8 | column
    (last,) = _COUNT.unpack_from(raw, end)
    return stored, np.append(more + base, last)


class Coding(NamedTuple):
    """What was done to each chunk.

    Attributes:
        compressed: it is a zstd frame.
        cipher: what decrypts it, None: it is not encrypted.
    """

    compressed: bool
    cipher: Cipher | None


class ChunkedObject(NamedTuple):
    """The object of a ``.log``, and how it is read."""

    bucket: Objects
    stat: ObjectStat
    chunks: ChunkIndex
    coding: Coding

    def require_size(self) -> None:
        """Require that the object has all chunks, and nothing else.

        Raises:
            CorruptObject: it has not.
        """
        expected = int(self.chunks.ends[-1])
        if self.stat.bytes != expected:
            raise damaged(
                f"the object has {self.stat.bytes} bytes, not {expected} as its manifest says",
                self.stat.key,
                min(self.stat.bytes, expected),
            )

    def chunk(self, number: int) -> bytes:
        """Return a chunk of the ``.log``. Effects: reads it.

        Raises:
            CorruptObject: it is not what was written.
            UnreadableFile: it cannot be read.
        """
        position, size = self.chunks.object_span(number)
        content = self.bucket.read(self.stat.key, position, size)
        if len(content) < size:
            raise damaged(f"the object ends within chunk {number}", self.stat.key, position)
        try:
            return self._plain(content, self.chunks.original_span(number)[1])
        except ValueError as error:
            raise damaged(f"chunk {number}: {error}", self.stat.key, position) from error

    def _plain(self, content: bytes, expected: int) -> bytes:
        """Return what a chunk was made of; `expected`: its bytes."""
        if self.coding.cipher is not None:
            content = self.coding.cipher.decrypt(content)
        if self.coding.compressed:
            content = decompress_zstd(memoryview(content), expected)
        if len(content) != expected:
            raise ValueError(f"it has {len(content)} bytes, not {expected}")
        return content

    def faults(self) -> Iterator[CorruptObject]:
        """Yield what is wrong, once. Effects: reads all chunks."""
        try:
            self.require_size()
            for number in range(len(self.chunks.ends)):
                self.chunk(number)
        except CorruptObject as error:
            yield error


class ChunkedBytes(Bytes):
    """The ``.log`` of a remote segment. The chunk that was read last is kept."""

    __slots__ = ("_last", "_object")

    def __init__(self, chunked: ChunkedObject, seen: tuple[int, int, int]) -> None:
        chunked.require_size()
        super().__init__(chunked.stat.key, seen)
        self._object = chunked
        self._last = (-1, b"")

    def entry(self) -> Entry:
        """See `Bytes.entry`: an object does not change."""
        return entry_of_part(self.seen)

    def read_into(self, data: NDArray[np.uint8], position: int) -> int:
        """See `Bytes.read_into`: at most the rest of one chunk."""
        if position >= self.seen[0] or not len(data):
            return 0
        number = position // self._object.chunks.original_chunk_bytes
        kept, content = self._last
        if kept != number:
            content = self._object.chunk(number)
            self._last = (number, content)
        start = position - self._object.chunks.original_span(number)[0]
        part = content[start : start + min(len(data), self.seen[0] - position)]
        data[: len(part)] = np.frombuffer(part, dtype=np.uint8)
        return len(part)


class PlainBytes(Bytes):
    """An object that is a file as it was, or its first bytes."""

    __slots__ = ("_bucket", "_stat")

    def __init__(self, bucket: Objects, stat: ObjectStat, seen: tuple[int, int, int]) -> None:
        super().__init__(stat.key, seen)
        self._bucket = bucket
        self._stat = stat

    def entry(self) -> Entry:
        """See `Bytes.entry`: an object does not change."""
        return entry_of_part(self.seen)

    def read_into(self, data: NDArray[np.uint8], position: int) -> int:
        """See `Bytes.read_into`."""
        size = min(len(data), self.seen[0] - position)
        part = self._bucket.read(self._stat.key, position, size) if size > 0 else b""
        data[: len(part)] = np.frombuffer(part, dtype=np.uint8)
        return len(part)


class HeldBytes(Bytes):
    """A small part that was read at once."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes, path: str, seen: tuple[int, int, int]) -> None:
        super().__init__(path, seen)
        self._content = content[: seen[0]]

    def entry(self) -> Entry:
        """See `Bytes.entry`: an object does not change."""
        return entry_of_part(self.seen)

    def read_into(self, data: NDArray[np.uint8], position: int) -> int:
        """See `Bytes.read_into`."""
        part = self._content[position : position + len(data)]
        data[: len(part)] = np.frombuffer(part, dtype=np.uint8)
        return len(part)


def entry_of_part(seen: tuple[int, int, int], name: str = "") -> Entry:
    """Return the entry of a part by what `Bytes.seen` is."""
    size, modified_ns, inode = seen
    return Entry("file", FileStamp(name, ByteCount(size), modified_ns, inode), modified_ns)
