"""The forms in which a key could have been written as a simple value of a table. Needs pyarrow.

==========================  ======================================================================
value                       is compared with keys as
==========================  ======================================================================
bytes, text                 it is
16 bytes of a fixed size    and as the text of a UUID
whole number                decimal text, and what Kafka's serializers write: 4 and 8 bytes; of 16
                            bits or fewer 2 bytes, too
floating point number       decimal text, 4 and 8 bytes; if it is whole, as a whole number, too
decimal number              decimal text, with and without zeros at its end
date, time, both            text of ISO 8601, with a blank or a ``T``, and without a fraction of 0
duration                    the whole number that it is stored as
==========================  ======================================================================

A pattern is searched in the bytes and texts. True and false are not keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from logwright.erasure.find.leaves import UnknownType, type_name
from logwright.erasure.keys import Keys

if TYPE_CHECKING:
    import pyarrow as pa

UUID_BYTES: Final = 16
_SIZES: Final = (8, 4, 2)
_WHOLE: Final = float(1 << 53)
"""Up to this whole numbers are exact as floating point numbers."""


def texts_of(leaf: pa.Array) -> Iterator[pa.Array]:
    """Yield the forms of values that are bytes or texts, each as large_binary.

    Raises:
        UnknownType: the type has no such form that is known.
    """
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    types, kind = pa.types, leaf.type
    if is_searchable(kind):
        yield as_bytes(leaf)
        if types.is_fixed_size_binary(kind) and kind.byte_width == UUID_BYTES:
            yield _uuids(leaf)
    elif types.is_integer(kind):
        yield as_bytes(leaf.cast(pa.string()))
    elif types.is_floating(kind):
        yield from _of_floats(leaf)
    elif types.is_decimal(kind):
        yield from _of_decimals(leaf)
    elif types.is_duration(kind):
        yield as_bytes(leaf.cast(pa.int64()).cast(pa.string()))
    elif types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind):
        yield from _of_times(leaf)
    else:
        raise UnknownType(type_name(kind))


def forms_of_values(leaf: pa.Array) -> Iterator[Keys]:
    """Yield the forms of values that can be keys.

    Raises:
        UnknownType: the type has no form that is known.
    """
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    for texts in texts_of(leaf):
        yield keys_of_bytes(texts)
    if pa.types.is_integer(leaf.type):
        yield from _serialized(leaf)
    elif pa.types.is_floating(leaf.type):
        numbers = leaf.cast(pa.float64()).to_numpy(zero_copy_only=False)
        is_null = leaf.is_null().to_numpy(zero_copy_only=False)
        for size in (8, 4):
            with np.errstate(over="ignore"):
                yield _fixed(numbers.astype(f">f{size}"), size, is_null)
        yield from _serialized(_whole(leaf))


def is_searchable(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes or text, maybe in a dictionary."""
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    types = pa.types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        kind = kind.value_type
    is_known = (
        types.is_binary,
        types.is_large_binary,
        types.is_fixed_size_binary,
        types.is_binary_view,
        types.is_string,
        types.is_large_string,
        types.is_string_view,
    )
    return any(check(kind) for check in is_known)


def as_bytes(column: pa.Array) -> pa.Array:
    """Return a column of bytes or text as large_binary."""
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    array = column.cast(pa.large_binary())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def keys_of_bytes(array: pa.Array) -> Keys:
    """Return the keys of a column of large_binary."""
    _, places, content = array.buffers()
    if len(array) == 0 or places is None:
        return Keys(_nothing(), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    bounds = np.frombuffer(places, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    data = _nothing() if content is None else np.frombuffer(content, dtype=np.uint8)
    lengths = np.diff(bounds)
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        lengths = np.where(valid, lengths, -1)
    return Keys(data, np.ascontiguousarray(bounds[:-1]), np.ascontiguousarray(lengths))


def _uuids(leaf: pa.Array) -> pa.Array:
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    values = (None if value is None else value.hex() for value in leaf.to_pylist())
    spans = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
    texts = [value and "-".join(value[first:end] for first, end in spans) for value in values]
    return pa.array(texts, pa.large_binary())


def _serialized(numbers: pa.Array) -> Iterator[Keys]:
    """Yield whole numbers as the serializers of Kafka write them (ShortSerializer,
    IntegerSerializer, LongSerializer).
    """
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    is_null = numbers.is_null().to_numpy(zero_copy_only=False)
    plain = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    if pa.types.is_uint64(numbers.type):
        is_null |= plain > np.uint64(np.iinfo(np.int64).max)
    plain = plain.astype(np.int64)
    for size in _SIZES if numbers.type.bit_width <= 16 else _SIZES[:2]:  # noqa: PLR2004 -- of ShortSerializer
        limits = np.iinfo(f"i{size}")
        is_away = is_null | (plain < limits.min) | (plain > limits.max)
        yield _fixed(plain.astype(f">i{size}"), size, is_away)


def _fixed(values: NDArray[np.generic], size: int, is_away: NDArray[np.bool_]) -> Keys:
    """Return values of a fixed size as keys, without those that are away."""
    data = np.ascontiguousarray(values).view(np.uint8)
    starts = np.arange(len(values), dtype=np.int64) * size
    return Keys(data, starts, np.where(is_away, -1, size).astype(np.int64))


def _whole(leaf: pa.Array) -> pa.Array:
    """Return the whole numbers among floating point numbers, as int64."""
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    numbers = leaf.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    is_whole = (np.abs(numbers) <= _WHOLE) & (numbers == np.floor(numbers))
    return pa.array(np.where(is_whole, numbers, 0).astype(np.int64), mask=~is_whole)


def _of_floats(leaf: pa.Array) -> Iterator[pa.Array]:
    import pyarrow as pa  # noqa: PLC0415 -- an extra
    import pyarrow.compute as pc  # noqa: PLC0415

    if pa.types.is_float16(leaf.type):
        leaf = leaf.cast(pa.float32())
    yield as_bytes(leaf.cast(pa.string()))
    whole = _whole(leaf).cast(pa.string())
    yield as_bytes(whole)
    yield as_bytes(pc.binary_join_element_wise(whole, ".0", ""))


def _of_decimals(leaf: pa.Array) -> Iterator[pa.Array]:
    import pyarrow as pa  # noqa: PLC0415 -- an extra
    import pyarrow.compute as pc  # noqa: PLC0415

    if leaf.type.scale < 0:
        leaf = leaf.cast(pa.decimal256(76, 0))
    texts = leaf.cast(pa.string())
    yield as_bytes(texts)
    short = pc.replace_substring_regex(texts, r"^(-?\d+)\.0+$", r"\1")
    yield as_bytes(pc.replace_substring_regex(short, r"(\.\d*[1-9])0+$", r"\1"))


def _of_times(leaf: pa.Array) -> Iterator[pa.Array]:
    import pyarrow as pa  # noqa: PLC0415 -- an extra
    import pyarrow.compute as pc  # noqa: PLC0415

    if pa.types.is_timestamp(leaf.type) and leaf.type.tz is not None:
        leaf = leaf.cast(pa.timestamp(leaf.type.unit))
    texts = leaf.cast(pa.string())
    short = pc.replace_substring_regex(texts, r"\.0+$", "")
    for form in (texts, short):
        yield as_bytes(form)
        yield as_bytes(pc.replace_substring(form, " ", "T"))


def _nothing() -> NDArray[np.uint8]:
    return np.zeros(0, dtype=np.uint8)
