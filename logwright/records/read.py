"""Records of segments as Arrow record batches, as a KafkaConsumer would see them.

Memory is bounded by the rows and bytes of a record batch, by one decompressed batch and by the
headers of one piece. A record batch holds rows of several batches and segments; a batch is resumed
in the middle.

`fill_rows` is the kernel that reads batches and writes rows into buffers in Arrow's layout:

1. A batch is checked, decompressed into scratch memory if necessary, and its records are walked.
   Keys, values and headers are copied once, from the segment or the scratch memory to the buffers.
2. Columns that nobody asked for are neither computed nor copied.
3. When a buffer is full, the state holds where the batch continues.

Its loop is fused: `batches.projection` before it would add at least 8 % (5 of 62 ms, 128 MB u100).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from logwright.batches.segment_file import Piece, in_file
from logwright.batches.source import Source
from logwright.batches.status import NEEDS_ROOM, OK, ROWS_FULL, WRONG_CRC, StoppedAt
from logwright.batches.unpack import NOT_GIVEN, Workspace, is_packed, open_records, remove_obstacle
from logwright.errors import (
    BatchAboveLimit,
    CorruptBatch,
    CorruptLogError,
    UnsupportedFormatError,
    enough_memory,
)
from logwright.format.batch import CONTROL, HEADER_BYTES, LOG_APPEND_TIME
from logwright.format.names import TopicPartition
from logwright.format.scan import has_right_crc
from logwright.format.walk import (
    OFFSET_DELTA,
    TRAILING,
    check_records,
    copy_bytes,
    read_record,
    step_over,
)
from logwright.kernel import inline_kernel, kernel
from logwright.keys.offset_map import count_dead, has_bit
from logwright.reading import reading
from logwright.records import schema as names
from logwright.records.model import (
    BATCH_BYTES,
    BATCH_ROWS,
    ReadCounts,
    RecordsRange,
    Selection,
)
from logwright.records.pieces import Pieces
from logwright.records.rows import Rows
from logwright.units import INT64_MAX

_ALL: Final = Selection()
_NONE_DEAD: Final = np.zeros(0, dtype=np.uint8)

_LARGEST_MS = np.int64(9_223_372_036_854_775)
"""The largest that is an int64 in microseconds; it stands for those beyond."""


def read_range(
    records_range: RecordsRange,
    *,
    columns: Sequence[str],
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
    selection: Selection | None = None,
    counts: ReadCounts | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the records of a range, in order, as record batches of `records_schema(columns)`.
    Effects: reads the segments.

    Args:
        columns: which columns, of `schema.RECORDS`; others cost nothing.
        batch_rows: the most rows of a record batch.
        batch_bytes: the most bytes of its keys, values and headers, unless one record has more.
        selection: records that are left out. The ordinals of a range are all 0: no `dead`.
        counts: added to.

    Raises:
        StalePlan: a segment changed since it was planned.
        CorruptBatch, UnsupportedFormatError: a batch cannot be read, unless such are skipped.
        LogDirLocked, NotALogDir, UnreadableFile, OutOfMemory: the directory, a file or the machine.
    """
    counts = ReadCounts() if counts is None else counts
    rows = Rows(
        partition=records_range.partition,
        columns=columns,
        most_rows=batch_rows,
        most_bytes=batch_bytes,
        log_bytes=records_range.bytes,
    )
    scope = _scope(records_range, columns, batch_bytes, selection or _ALL)
    with reading(records_range.log_dir), enough_memory(records_range.directory):
        yield from _read(Pieces(records_range, counts).in_memory(), rows, scope, counts)


def read_pieces(
    pieces: Iterable[Piece], records_range: RecordsRange, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of some pieces of a range; see `read_range`."""
    rows = Rows(
        partition=records_range.partition,
        columns=columns,
        most_rows=BATCH_ROWS,
        most_bytes=BATCH_BYTES,
        log_bytes=records_range.bytes,
    )
    return _read(pieces, rows, _scope(records_range, columns, BATCH_BYTES, _ALL), ReadCounts())


def read_sources(
    sources: Iterable[Source],
    *,
    partition: TopicPartition,
    offsets: tuple[int, int],
    columns: Sequence[str],
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
    selection: Selection | None = None,
    counts: ReadCounts | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the records of segments that are open already; see `read_range`. The caller keeps
    brokers out.

    Args:
        sources: in order; batches to `discard` and control batches are left out.
        offsets: first offset, and the end, exclusive.
        selection: records that are left out; `dead` by the ordinals of the sources.
    """
    counts = ReadCounts() if counts is None else counts
    limits = (offsets[0], offsets[1], -INT64_MAX, INT64_MAX)
    scope = _row_scope(limits, columns, batch_bytes, selection or _ALL, checks_first=False)
    rows = Rows(partition=partition, columns=columns, most_rows=batch_rows, most_bytes=batch_bytes)
    pieces = (
        Piece(source.path, 0, source.data, source.batches, source.log.bytes) for source in sources
    )
    yield from _read(pieces, rows, scope, counts)


def _scope(
    records_range: RecordsRange, columns: Sequence[str], batch_bytes: int, selection: Selection
) -> RowScope:
    low, high = records_range.min_timestamp_ms, records_range.max_timestamp_ms
    limits = (
        max(records_range.start_offset, records_range.log_start_offset),
        records_range.end_offset,
        -INT64_MAX if low is None else low,
        INT64_MAX if high is None else high,
    )
    checks_first = records_range.on_corrupt == "skip"
    return _row_scope(limits, columns, batch_bytes, selection, checks_first=checks_first)


def _row_scope(
    limits: tuple[int, int, int, int],
    columns: Sequence[str],
    batch_bytes: int,
    selection: Selection,
    *,
    checks_first: bool,
) -> RowScope:
    first, end, low, high = limits
    return RowScope(
        first_offset=first,
        end_offset=end,
        min_timestamp_ms=low,
        max_timestamp_ms=high,
        by_time=(low, high) != (-INT64_MAX, INT64_MAX),
        checks_first=checks_first,
        dead=_NONE_DEAD if selection.dead is None else selection.dead,
        skip_tombstones=selection.skip_tombstones,
        skip_null_keys=selection.skip_null_keys,
        key=names.KEY in columns,
        value=names.VALUE in columns,
        headers=names.HEADERS in columns,
        offset=names.OFFSET in columns,
        timestamp=names.TIMESTAMP in columns,
        timestamp_type=names.TIMESTAMP_TYPE in columns,
        most_bytes=batch_bytes,
    )


def _read(
    pieces: Iterable[Piece], rows: Rows, scope: RowScope, counts: ReadCounts
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of pieces; what was read before a batch that cannot be read comes first."""
    filled = _fill(pieces, rows, scope, counts)
    more, problem = True, None
    while more:
        try:
            more = next(filled, False)
        except (CorruptLogError, UnsupportedFormatError, BatchAboveLimit) as error:
            more, problem = False, error
        if rows.state["rows"]:
            counts.rows += int(rows.state["rows"])
            yield rows.take()
    if problem is not None:
        raise problem


def _fill(
    pieces: Iterable[Piece], rows: Rows, scope: RowScope, counts: ReadCounts
) -> Iterator[bool]:
    """Fill the buffers, and yield True whenever they are full."""
    space = Workspace()
    state: Any = rows.state
    for piece in pieces:
        rows.begin(0)
        last, status = len(piece.batches), ROWS_FULL
        while status != OK:
            memory = (space.scratch, space.cells)
            status = fill_rows(piece.data, piece.batches, last, scope, memory, state, rows.buffers)
            if status == ROWS_FULL:
                yield True
                space.use_here()  # the caller may continue in another thread
            elif status == NEEDS_ROOM:
                rows.make_room()
            elif status != OK:
                try:
                    with in_file(piece.shift):
                        stopped = StoppedAt(
                            piece.data, piece.path, piece.batches, int(state["row"])
                        )
                        state["given"] = remove_obstacle(space, stopped, int(status))
                except CorruptBatch:
                    if not scope.checks_first:
                        raise
                    _skip(piece, rows, counts)
        counts.add_read(int(state["batches"]), int(state["bytes"]))
        state["batches"] = state["bytes"] = 0
        space.release_scratch()


def _skip(piece: Piece, rows: Rows, counts: ReadCounts) -> None:
    """Go to the next batch."""
    row = int(rows.state["row"])
    position, size, offset = piece.batches[row][["position", "size", "base_offset"]].tolist()
    counts.add_corrupt(str(piece.path), piece.shift + position, size, offset)
    rows.begin(row + 1)


class RowScope(NamedTuple):
    """Which records become rows, and which of their columns.

    Attributes:
        first_offset, end_offset: of the records, the end excluded.
        min_timestamp_ms, max_timestamp_ms: of the records, both included.
        by_time: timestamps matter.
        checks_first: all records of a batch are checked before the first becomes a row.
        dead: uint8[n], bitmap of records that are left out, by ordinal; empty if there are none.
            Whoever set it has checked the records.
        skip_tombstones, skip_null_keys: see `Selection`.
        key, value, headers, offset, timestamp, timestamp_type: the column is wanted.
        most_bytes: of keys, values and headers together.
    """

    first_offset: int
    end_offset: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    by_time: bool
    checks_first: bool
    dead: NDArray[np.uint8]
    skip_tombstones: bool
    skip_null_keys: bool
    key: bool
    value: bool
    headers: bool
    offset: bool
    timestamp: bool
    timestamp_type: bool
    most_bytes: int


@kernel
def _has_no_row(batch: Any, scope: Any) -> Any:
    """Decide by its header, and by the bitmap, that no record of a batch is wanted."""
    return (
        batch.last_offset < scope.first_offset
        or batch.base_offset >= scope.end_offset
        or (scope.by_time and batch.max_timestamp < scope.min_timestamp_ms)
        or (
            len(scope.dead) > 0
            and count_dead(scope.dead, batch.first_ordinal, batch.count) == batch.count
        )
    )


@kernel
def fill_rows(
    data: Any, batches: Any, last: int, scope: Any, space: Any, state: Any, out: Any
) -> Any:
    """Read the batches [state.row, last) into the buffers, from where the state is.

    Args:
        data: uint8[n], the segment. batches: BATCH[m]; those to `discard` and control batches are
            checked, but have no rows.
        scope: `RowScope`. space: (scratch, cells) of the Workspace; the scratch memory must stay
            as it is while `state.is_open`. state: STATE. out: `RowBuffers`.

    Returns:
        `OK`; or what must be done before the call is repeated; or what is wrong with the batch
        `state.row`.
    """
    scratch, cells = space
    while state.row < last:
        batch = batches[state.row]
        if state.is_open == 0:
            if _has_no_row(batch, scope):
                state.row += 1
                continue
            if state.given < 0 and not has_right_crc(data, batch):
                return np.int64(WRONG_CRC)
            # One without records is opened like any other: it must not have anything else either.
            is_marker = batch.attributes & CONTROL != 0 and batch.count > 0
            if is_marker:
                span = (batch.position + HEADER_BYTES, batch.position + batch.size)
                status = check_records(data, batch, span)
                if status != OK:
                    return status
            if is_marker or batch.discard or (batch.count == 0 and batch.size == HEADER_BYTES):
                state.row += 1
                continue
            status = _open_batch(data, batch, scope, (scratch, cells), state)
            if status != OK:
                return status
        source = scratch if is_packed(batch) else data
        status = _fill_from(source, batch, scope, state, out)
        if status != OK:
            return status
        state.is_open = 0
        state.row += 1
        state.batches += 1
        state.bytes += batch.size
    return np.int64(OK)


@kernel
def _open_batch(data: Any, batch: Any, scope: Any, space: Any, state: Any) -> Any:
    """Set the state to the first record of a batch, decompressed; return a status."""
    scratch, cells = space
    position, end, status = open_records(data, batch, state.given, scratch, np.int64(0), cells)  # type: ignore[arg-type]  # in a kernel it is one
    if status != OK:
        return status
    state.given = NOT_GIVEN
    if scope.checks_first:
        source = scratch if is_packed(batch) else data
        status = check_records(source, batch, (position, end))
        if status != OK:
            return status
    state.position, state.end, state.index, state.last_delta = position, end, 0, -1
    state.is_open = 1
    return np.int64(OK)


@inline_kernel
def _is_wanted(record: Any, scope: Any) -> Any:
    """Decide whether a record becomes a row; `record`: (offset, timestamp, key length, value
    length).
    """
    offset, timestamp, key_length, value_length = record
    wanted = (
        (offset >= scope.first_offset)
        & (offset < scope.end_offset)
        & ((value_length >= 0) | (not scope.skip_tombstones))
        & ((key_length >= 0) | (not scope.skip_null_keys))
    )
    if scope.by_time:
        wanted &= (timestamp >= scope.min_timestamp_ms) & (timestamp <= scope.max_timestamp_ms)
    return wanted


@inline_kernel
def _put(source: Any, at: int, length: int, row: int, used: Any, out: Any) -> Any:
    """Write the key or value of a row, of this length or -1; return the (bytes, nulls) then used.

    Args:
        used: (bytes, nulls) before. out: (bytes, ends, valid) of the column.
    """
    column, ends, valid = out
    taken, nulls = used
    if length < 0:
        ends[row + 1] = taken
        return taken, nulls + 1
    copy_bytes(column, taken, source, at, length)
    ends[row + 1] = taken + length
    valid[row >> 3] |= np.uint8(1) << np.uint8(row & 7)
    return taken + length, nulls


@inline_kernel
def _status_of_room(state: Any, out: Any, most_bytes: int, rows: int, sizes: Any) -> Any:
    """Return `OK` if a row has room.

    Args:
        sizes: the bytes that are used and that are needed, of key, value and headers each.
    """
    key, key_size, value, value_size, headers, headers_size = sizes
    total = key + key_size + value + value_size + headers + headers_size
    if (
        rows < out.rows
        and (total <= most_bytes or rows == 0)
        and key + key_size <= len(out.key)
        and value + value_size <= len(out.value)
        and headers + headers_size <= len(out.headers)
    ):
        return np.int64(OK)
    state.needed = max(key_size, value_size, headers_size)
    return np.int64(ROWS_FULL if rows > 0 else NEEDS_ROOM)


@kernel
def _fill_from(source: Any, batch: Any, scope: Any, state: Any, out: Any) -> Any:
    """Write the records of the open batch, from where the state is; return a status."""
    position, end, last_delta, index = state.position, state.end, state.last_delta, state.index
    zero, status, append_time = np.int64(0), np.int64(OK), batch.attributes & LOG_APPEND_TIME != 0
    rows, in_headers = state.rows, state.headers_bytes
    keys, values = (state.key_bytes, state.null_keys), (state.value_bytes, state.null_values)
    has_dead = len(scope.dead) > 0
    while index < np.int64(batch.count):
        if has_dead and has_bit(scope.dead, batch.first_ordinal + index):
            # Whoever set the bit has checked the record; what is malformed now ends the batch.
            position, index = step_over(source, position, end), index + 1
            continue
        record = read_record(source, position, end)
        stop, delta, headers = record.stop, record.delta, record.headers
        key_length, value_length = record.key_length, record.value_length
        if stop < 0:
            return stop
        if delta <= last_delta or delta > batch.last_offset - batch.base_offset:
            return np.int64(OFFSET_DELTA)
        offset = batch.base_offset + delta
        timestamp = batch.max_timestamp if append_time else batch.base_timestamp + record.time_delta
        if _is_wanted((offset, timestamp, key_length, value_length), scope):
            key_size = max(key_length, zero) if scope.key else zero
            value_size = max(value_length, zero) if scope.value else zero
            headers_size = stop - headers if scope.headers else zero
            sizes = (keys[0], key_size, values[0], value_size, in_headers, headers_size)
            status = _status_of_room(state, out, scope.most_bytes, rows, sizes)
            if status != OK:
                break
            if scope.key:
                column = (out.key, out.key_ends, out.key_valid)
                keys = _put(source, record.key, key_length, rows, keys, column)
            if scope.value:
                column = (out.value, out.value_ends, out.value_valid)
                values = _put(source, record.value, value_length, rows, values, column)
            if scope.headers:
                copy_bytes(out.headers, in_headers, source, headers, headers_size)  # type: ignore[arg-type]  # in a kernel it is one
                in_headers += headers_size
                out.headers_ends[rows + 1] = in_headers
            if scope.offset:
                out.offsets[rows] = offset
            if scope.timestamp:
                out.timestamps[rows] = min(max(timestamp, -_LARGEST_MS), _LARGEST_MS) * 1000
            if scope.timestamp_type:
                out.types[rows] = append_time
            rows += 1
        last_delta, position, index = delta, stop, index + 1
    state.position, state.index, state.last_delta = position, index, last_delta
    state.rows, state.headers_bytes = rows, in_headers
    state.key_bytes, state.null_keys = keys
    state.value_bytes, state.null_values = values
    return np.int64(TRAILING) if status == OK and position != end else status
