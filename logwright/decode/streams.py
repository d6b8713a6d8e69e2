"""What Kafka Streams writes around values and keys.

::

    timestamped value: timestamp int64, value
    key of a time window: key, start int64; in a store's changelog a number int32 after it
    key of a session window: key, end int64, start int64

Times are ms since the epoch, big end first. Source: ValueAndTimestampSerializer, WindowKeySchema
and SessionKeySchema of org.apache.kafka.streams.state.internals (4.3.0).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from logwright.config.decoding import TimestampedSpec, WindowedSpec
from logwright.decode.leaves import FIRST_MS, LAST_MS, NOT_IN_YEARS
from logwright.decode.make import Made, Making
from logwright.decode.model import TIMESTAMP, Part, PartDecoder

Times = NDArray[np.int64]

_LONG: Final = 8
_NUMBER: Final = 4
_MICROSECONDS: Final = 1000
_UNKNOWN_MS: Final = -1
"""ConsumerRecord.NO_TIMESTAMP."""
_START: Final = "window_start"
_END: Final = "window_end"


def make(spec: TimestampedSpec | WindowedSpec, making: Making) -> Made:
    """Return the decoder of a spec. Effects, errors: as `make_decoder`."""
    if isinstance(spec, TimestampedSpec):
        inner = making.inside(lambda column: cut(column, _LONG, 0)[0]).make(spec.of)
        decoder: PartDecoder = TimestampedDecoder(inner.decoder)
    else:
        tail = tail_bytes(spec)
        inner = making.inside(lambda column: cut(column, 0, tail)[0]).make(spec.of)
        decoder = WindowedDecoder(inner.decoder, spec)
    return Made(decoder, spec.model_copy(update={"of": inner.spec}))


def tail_bytes(spec: WindowedSpec) -> int:
    """Return how many bytes are after a key."""
    return 2 * _LONG if spec.session else _LONG + _NUMBER * spec.store


def cut(column: pa.Array, before: int, after: int) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Return values without bytes at their ends, null for those that are shorter; and which are
    shorter.
    """
    short = pc.less(pc.binary_length(column), before + after)
    flags: NDArray[np.bool_] = pc.fill_null(short, False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - a value
    return part_of(column, before, -after or None, flags), flags


def part_of(column: pa.Array, start: int, stop: int | None, absent: NDArray[np.bool_]) -> pa.Array:
    """Return a slice of each value; null if it is null, or absent."""
    rows = zip(column.to_pylist(), absent.tolist(), strict=True)
    slices = [None if value is None or out else value[start:stop] for value, out in rows]
    return pa.array(slices, pa.binary())


class TimestampedDecoder:
    """Decodes values with their timestamp: the column ``timestamp`` next to those of the value."""

    def __init__(self, value: PartDecoder) -> None:
        self._value = value
        fields = list(value.type) if pa.types.is_struct(value.type) else []
        others = fields or [pa.field("value", value.type)]
        self._has_fields = bool(fields)
        self.type = pa.struct([pa.field("timestamp", TIMESTAMP), *map(_nullable, others)])

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""
        inside, short = cut(column, _LONG, 0)
        part = self._value.decode(inside)
        reasons = dict.fromkeys(np.flatnonzero(short).tolist(), "is shorter than its timestamp")
        for row, why in part.reasons.items():
            reasons.setdefault(row, why)
        times = _times(part_of(column, 0, _LONG, short), "timestamp", reasons)
        inner = part.values.flatten() if self._has_fields else [part.values]
        values = pa.StructArray.from_arrays([times, *inner], fields=list(self.type))
        deleted = column.is_null() if part.deleted is None else part.deleted
        return Part(values, reasons, deleted)


class WindowedDecoder:
    """Decodes keys with their window: a struct of the key, `window_start` and `window_end`. The end
    of a time window is not part of it; of a session's window it is the time of the last record.
    """

    def __init__(self, key: PartDecoder, spec: WindowedSpec) -> None:
        self._key = key
        self._spec = spec
        self._tail = tail_bytes(spec)
        times = (pa.field(_START, TIMESTAMP), pa.field(_END, TIMESTAMP))
        self.type = pa.struct([pa.field("key", key.type), *times])

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""
        keys, short = cut(column, 0, self._tail)
        part = self._key.decode(keys)
        reasons = dict.fromkeys(np.flatnonzero(short).tolist(), "is shorter than its window")
        for row, why in part.reasons.items():
            reasons.setdefault(row, why)
        first = part_of(column, -self._tail, _LONG - self._tail or None, short)
        if self._spec.session:
            start = _times(part_of(column, -_LONG, None, short), _START, reasons)
            end = _times(first, _END, reasons)
        else:
            start = _times(first, _START, reasons)
            end = self._end(start)
        values = pa.StructArray.from_arrays([part.values, start, end], fields=list(self.type))
        return Part(pc.if_else(column.is_valid(), values, pa.scalar(None, self.type)), reasons)

    def _end(self, start: pa.Array) -> pa.Array:
        """Return the ends of time windows, null where they are not known or beyond all years."""
        size_ms = self._spec.size_ms
        if size_ms is None or size_ms > LAST_MS - FIRST_MS:
            return pa.nulls(len(start), TIMESTAMP)
        starts = start.view(pa.int64())
        most = LAST_MS * _MICROSECONDS - size_ms * _MICROSECONDS
        ends = pc.if_else(pc.less_equal(starts, most), starts, None)
        return pc.add(ends, size_ms * _MICROSECONDS).view(TIMESTAMP)


def _times(column: pa.Array, name: str, reasons: dict[int, str]) -> pa.Array:
    """Return times of 8 bytes each, null where there are none; one out of range is refused."""
    absent = column.is_null().to_numpy(zero_copy_only=False)
    milliseconds = np.zeros(len(column), np.int64)
    milliseconds[~absent] = np.frombuffer(b"".join(column.drop_null().to_pylist()), ">i8")
    unknown = milliseconds == _UNKNOWN_MS
    wrong = (milliseconds < FIRST_MS) | (milliseconds > LAST_MS)
    for row in np.flatnonzero(wrong).tolist():
        reasons.setdefault(row, f"field {name} {NOT_IN_YEARS}")
    milliseconds[wrong] = 0
    mask = absent | wrong | unknown
    return pa.array(milliseconds * _MICROSECONDS, pa.int64(), mask=mask).view(TIMESTAMP)


def _nullable(field: pa.Field) -> pa.Field:
    return field.with_nullable(True)  # noqa: FBT003 - Arrow's
