"""Search keys and patterns in columns of Arrow: the Parquet files of a table, and the rows that a
write by Spark has spooled. Effects: reads the files. Needs pyarrow.

A key is compared with whole values of all columns of bytes and text, nested ones too; a pattern is
searched in them. A deleted row of a table is in its file until that is removed, so it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.erasure.find.scan import Scanned, Unread, nothing_found
from logwright.erasure.find.texts import RowHit, hits_of_rows
from logwright.erasure.keys import Answers, Keys, KeySet
from logwright.extras import require

if TYPE_CHECKING:
    import pyarrow as pa

RAW_KEYS: Final = ("_key", "key")
"""The column of the key as it is in the log: the first that a file has
(`logwright.tables.columns`)."""
POSITIONS: Final = ("file_path", "pos")
"""The columns of Iceberg's position deletes."""
_BATCH_ROWS: Final = 64 * 1024
_VALUES: Final = ("value", "headers")


class Rows(NamedTuple):
    """What a Parquet file has.

    Attributes:
        hits: rows, each once for a request and once for a pattern.
        texts: of its footer.
        has_keys: whether it has the column of keys as they are in the log.
        are_positions: it names rows of other files, as Iceberg's position deletes do.
        others: see `logwright.erasure.find.scan.Scanned`.
    """

    hits: list[RowHit]
    texts: list[bytes]
    has_keys: bool
    are_positions: bool
    others: set[tuple[int, str]]


def scan_spool(data: NDArray[np.uint8], keys: KeySet, patterns: tuple[bytes, ...]) -> Scanned:
    """Scan the rows of a file in Arrow's IPC format (`logwright.spark.kafka_log_spool`). They have
    no offsets yet: that of a hit is the row's number.

    Args:
        data: uint8[n], all of it.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    require("tables", by="searching spooled rows")
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    hits: list[RowHit] = []
    answers = Answers([], set(), set())
    row = 0
    try:
        with pa.ipc.open_file(pa.py_buffer(data)) as file:
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                requests, more = keys.search(_keys_of(batch["key"]))
                answers.others.update(more.others)
                answers.undecoded.update(more.undecoded)
                for at in np.flatnonzero(requests >= 0).tolist():
                    dead = not batch["value"][at].is_valid
                    hits.append((int(requests[at]), -1, row + at, dead))
                for at, pattern in _patterns_in(batch, patterns):
                    if requests[at] < 0:
                        hits.append((-1, pattern, row + at, False))
                row += batch.num_rows
    except (pa.ArrowException, OSError, KeyError):
        return nothing_found(Unread(position=0, bytes=-1, problem="it is not a whole Arrow file"))
    scanned = hits_of_rows(hits)
    scanned.others, scanned.undecoded = answers.others, answers.undecoded
    return scanned


def _patterns_in(batch: pa.RecordBatch, patterns: tuple[bytes, ...]) -> Iterator[tuple[int, int]]:
    """Yield row and pattern of the rows whose key, value or headers have one."""
    for at in range(batch.num_rows if patterns else 0):
        row = {name: batch[name][at].as_py() for name in ("key", *_VALUES)}
        parts = [row["key"], row["value"]]
        for header in row["headers"] or ():
            parts += [header["key"], header["value"]]
        for number, pattern in enumerate(patterns):
            if any(part is not None and pattern in part for part in parts):
                yield at, number
                break


def scan_parquet(path: Path, keys: KeySet, patterns: Sequence[bytes]) -> Rows | None:
    """Search all columns of bytes and text of a Parquet file; None if it cannot be read.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    require("tables", by="searching a table")
    import pyarrow as pa  # noqa: PLC0415 -- an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    hits: list[RowHit] = []
    others: set[tuple[int, str]] = set()
    start = 0
    try:
        with pq.ParquetFile(path) as file:
            has_keys = any(
                field.name in RAW_KEYS and _is_bytes(field.type) for field in file.schema_arrow
            )
            are_positions = tuple(file.schema_arrow.names) == POSITIONS
            footer = file.metadata.metadata or {}
            texts = [text for pair in footer.items() for text in pair]
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                some, more = _hits_in(batch.columns, start, keys, patterns)
                hits += some
                others |= more
                start += batch.num_rows
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return None
    return Rows(hits, texts, has_keys, are_positions, others)


def _hits_in(
    columns: Iterable[pa.Array], start: int, keys: KeySet, patterns: Sequence[bytes]
) -> tuple[list[RowHit], set[tuple[int, str]]]:
    """Return the hits of a batch of rows, the first of which has the number `start`, and the other
    forms of requested keys.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 -- an extra

    hits: set[tuple[int, int, int]] = set()
    others: set[tuple[int, str]] = set()
    for column, rows in (leaf for one in columns for leaf in _leaves(one)):
        matched, more = keys.search(_keys_of(column))
        others |= more.others
        for at in np.flatnonzero(matched >= 0).tolist():
            hits.add((int(matched[at]), -1, start + int(rows[at])))
        for number, pattern in enumerate(patterns):
            has = pc.fill_null(pc.match_substring(_as_bytes(column), pattern), fill_value=False)
            for at in np.flatnonzero(has.to_numpy(zero_copy_only=False)).tolist():
                hits.add((-1, number, start + int(rows[at])))
    requested = {row for request, _, row in hits if request >= 0}
    return [
        (request, pattern, row, False)
        for request, pattern, row in sorted(hits)
        if request >= 0 or row not in requested
    ], others


def _leaves(
    column: pa.Array, rows: NDArray[np.int64] | None = None
) -> Iterator[tuple[pa.Array, NDArray[np.int64]]]:
    """Yield the arrays of bytes and text in a column, and the row of each of their values."""
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    types, kind = pa.types, column.type
    rows = np.arange(len(column)) if rows is None else rows
    if isinstance(kind, pa.BaseExtensionType):
        yield from _leaves(column.storage, rows)
    elif types.is_dictionary(kind):
        yield from _leaves(column.dictionary_decode(), rows)
    elif types.is_struct(kind):
        for child in column.flatten():
            yield from _leaves(child, rows)
    elif types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind):
        plain = column.cast(pa.large_list(_entry(kind)))
        yield from _leaves(plain.flatten(), rows[plain.value_parent_indices().to_numpy()])
    elif _is_bytes(kind):
        yield column, rows


def _entry(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    if not pa.types.is_map(kind):
        return kind.value_type
    return pa.struct([kind.key_field, kind.item_field])


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
    )


def _as_bytes(column: pa.Array) -> pa.Array:
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    kind = column.type
    if pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.binary())
    array = column.cast(pa.large_binary())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _keys_of(column: pa.Array) -> Keys:
    """Return the keys of a column of bytes or text."""
    array = _as_bytes(column)
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


def _nothing() -> NDArray[np.uint8]:
    return np.zeros(0, dtype=np.uint8)
