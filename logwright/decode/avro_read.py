"""Read Avro's binary encoding strictly (Avro 1.12, "Binary encoding").

fastavro, the usual library, takes an index of a union or enum below zero, a boolean of 7 and a
varint of any length, and counts an array of nulls up to 2^63; here each is refused, and every
length is compared with the bytes that are left (docs/adr/0028).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from logwright.decode.cells import Cells
from logwright.decode.refusal import Refused
from logwright.units import INT32_MAX

Read = Callable[[bytes, int], tuple[Any, int]]
"""(content, position) → (value, position after it).

Raises:
    Refused: the content is malformed.
    IndexError: the content ends too early.
"""

_MORE: Final = 0x80
_BITS: Final = 7
_VARINT_BITS: Final = 64
_DOUBLE: Final = struct.Struct("<d")
_FLOAT: Final = struct.Struct("<f")
_ENDS: Final = "ends too early"


def read_datum(read: Read, content: bytes) -> Any:
    """Return the one datum that a content is.

    Raises:
        Refused: it is malformed, or bytes are left.
    """
    try:
        value, position = read(content, 0)
    except (IndexError, struct.error):
        raise Refused(f"is not Avro: {_ENDS}") from None
    if position != len(content):
        raise Refused("is not Avro: bytes are left after it")
    return value


def long(content: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag varint of at most 64 bits."""
    byte = content[position]
    position += 1
    if byte < _MORE:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = _BITS
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            break
        shift += _BITS
        if shift >= _VARINT_BITS:
            raise Refused("is not Avro: a varint is too long")
    if value >> _VARINT_BITS:
        raise Refused("is not Avro: a varint is too long")
    return (value >> 1) ^ -(value & 1), position


def int_(content: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag varint of at most 32 bits."""
    value, position = long(content, position)
    if not -INT32_MAX - 1 <= value <= INT32_MAX:
        raise Refused("is not Avro: an int is out of range")
    return value, position


def null(_content: bytes, position: int) -> tuple[None, int]:
    """Read nothing."""
    return None, position


def boolean(content: bytes, position: int) -> tuple[bool, int]:
    """Read a byte of 0 or 1."""
    byte = content[position]
    if byte > 1:
        raise Refused("is not Avro: a boolean is neither 0 nor 1")
    return byte == 1, position + 1


def double(content: bytes, position: int) -> tuple[float, int]:
    """Read 8 bytes."""
    return _DOUBLE.unpack_from(content, position)[0], position + 8


def float_(content: bytes, position: int) -> tuple[float, int]:
    """Read 4 bytes."""
    return _FLOAT.unpack_from(content, position)[0], position + 4


def bytes_of(content: bytes, position: int) -> tuple[bytes, int]:
    """Read a length, and as many bytes."""
    size, position = long(content, position)
    end = position + size
    if size < 0 or end > len(content):
        raise Refused("is not Avro: a length is more than the bytes that are left")
    return content[position:end], end


def string(content: bytes, position: int) -> tuple[str, int]:
    """Read a length, and as many bytes of UTF-8."""
    text, position = bytes_of(content, position)
    try:
        return text.decode(), position
    except UnicodeDecodeError:
        raise Refused("is not Avro: a string is not UTF-8") from None


def fixed_of(size: int) -> Read:
    """Return what reads this number of bytes."""

    def read(content: bytes, position: int) -> tuple[bytes, int]:
        end = position + size
        if end > len(content):
            raise IndexError
        return content[position:end], end

    return read


def converted(inner: Read, convert: Callable[[Any], Any]) -> Read:
    """Return what reads a value and converts it."""

    def read(content: bytes, position: int) -> tuple[Any, int]:
        value, position = inner(content, position)
        return convert(value), position

    return read


def enum_of(symbols: Sequence[str | Read]) -> Read:
    """Return what reads the index of a symbol; one may be refused by what it is instead."""
    count = len(symbols)

    def read(content: bytes, position: int) -> tuple[Any, int]:
        index, position = long(content, position)
        if not 0 <= index < count:
            raise Refused("is not Avro: the index of an enum is out of range")
        symbol = symbols[index]
        return (symbol, position) if isinstance(symbol, str) else symbol(content, position)

    return read


def choice_of(choices: Sequence[tuple[str | None, Read]]) -> Read:
    """Return what reads the index of a union's type and a value of it; with a name, a dictionary
    of the name to the value.
    """
    count = len(choices)

    def read(content: bytes, position: int) -> tuple[Any, int]:
        index, position = long(content, position)
        if not 0 <= index < count:
            raise Refused("is not Avro: the index of a union is out of range")
        name, inner = choices[index]
        value, position = inner(content, position)
        return (value if name is None else {name: value}), position

    return read


def record_of(fields: Sequence[tuple[str | None, Read]], cells: Cells) -> Read:
    """Return what reads fields, one after the other; one without a name is not kept."""
    count = len(fields)
    kept = [(name, inner) for name, inner in fields if name is not None]
    if len(kept) < count:
        return _part_of(fields, cells)

    def read(content: bytes, position: int) -> tuple[dict[str, Any], int]:
        cells.take(count)
        record = {}
        for name, inner in kept:
            record[name], position = inner(content, position)
        return record, position

    return read


def _part_of(fields: Sequence[tuple[str | None, Read]], cells: Cells) -> Read:
    """Return what reads fields of which some are not kept."""
    count = len(fields)

    def read(content: bytes, position: int) -> tuple[dict[str, Any], int]:
        cells.take(count)
        record = {}
        for name, inner in fields:
            value, position = inner(content, position)
            if name is not None:
                record[name] = value
        return record, position

    return read


def _block(content: bytes, position: int) -> tuple[int, int]:
    """Read the number of items of a block; below zero its size in bytes follows."""
    count, position = long(content, position)
    if count < 0:
        _, position = long(content, position)
        count = -count
    if count > len(content) - position:
        raise Refused("is not Avro: more items than bytes are left")
    return count, position


def array_of(inner: Read, cells: Cells) -> Read:
    """Return what reads blocks of items, each of at least one byte."""

    def read(content: bytes, position: int) -> tuple[list[Any], int]:
        array: list[Any] = []
        while True:
            count, position = _block(content, position)
            if not count:
                return array, position
            cells.take(count)
            for _ in range(count):
                item, position = inner(content, position)
                array.append(item)

    return read


def map_of(inner: Read, cells: Cells) -> Read:
    """Return what reads blocks of keys and values."""

    def read(content: bytes, position: int) -> tuple[dict[str, Any], int]:
        pairs: dict[str, Any] = {}
        while True:
            count, position = _block(content, position)
            if not count:
                return pairs, position
            cells.take(count)
            for _ in range(count):
                key, position = string(content, position)
                pairs[key], position = inner(content, position)

    return read
