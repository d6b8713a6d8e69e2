"""Records of segments as Arrow record batches, as a KafkaConsumer would see them.

Memory is bounded by the rows and bytes of a record batch, by one decompressed batch and by the
headers of one piece. A record batch holds rows of several batches and segments; a batch is resumed
in the middle.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from logwright.batches.segment_file import Piece, in_file
from logwright.batches.source import Source
from logwright.batches.status import NEEDS_ROOM, OK, ROWS_FULL, StoppedAt
from logwright.batches.unpack import Workspace, remove_obstacle
from logwright.errors import CorruptBatch, CorruptLogError, UnsupportedFormatError, enough_memory
from logwright.format.names import TopicPartition
from logwright.locks import broker_kept_out
from logwright.records import fill
from logwright.records import schema as names
from logwright.records.fill import RowScope
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
    Effects: reads the segments; until its end it keeps brokers out of the log directory.

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
    with broker_kept_out(records_range.log_dir), enough_memory(records_range.directory):
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
        except (CorruptLogError, UnsupportedFormatError) as error:
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
            status = fill.fill_rows(
                piece.data, piece.batches, last, scope, memory, state, rows.buffers
            )
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
