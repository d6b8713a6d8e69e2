"""Search keys in columns of Arrow: Parquet files of tables, and the rows that a write by Spark has
spooled. Effects: reads the files. Needs pyarrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from logwright.erasure.find.model import Finding
from logwright.erasure.find.scan import HIT, Scanned, Unread, nothing_found
from logwright.erasure.keys import Keys, KeySet
from logwright.extras import require
from logwright.format.names import TopicPartition
from logwright.format.scan import BATCH
from logwright.records.markers import NO_MARKERS

if TYPE_CHECKING:
    import pyarrow as pa

RAW_KEYS: Final = ("_key", "key")
"""The column of the key as it is in the log: the first that a file has
(`logwright.tables.columns`)."""
_PARTITION: Final = re.compile(r"(?:^|/)partition=(\d{1,10})/")
_PARQUET: Final = re.compile(r".*\.(?:parquet|new)(?:\..*)?")
_NO_ROWS: Final = re.compile(r"_logwright\.json|_SUCCESS|commit\.json|lock|.*\.crc")
_BATCH_ROWS: Final = 64 * 1024
_VALUES: Final = ("value", "headers")


def scan_spool(path: Path, keys: KeySet, patterns: tuple[bytes, ...]) -> Scanned:
    """Scan the rows of a file in Arrow's IPC format (`logwright.spark.kafka_log_spool`). They have
    no offsets yet: that of a hit is the row's number.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    require("tables", by="searching spooled rows")
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    hits: list[tuple[int, int, int, bool]] = []
    row = 0
    try:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                found = keys.match(_keys_of(batch["key"]))
                for at in np.flatnonzero(found >= 0).tolist():
                    dead = not batch["value"][at].is_valid
                    hits.append((int(found[at]), -1, row + at, dead))
                for at, pattern in _patterns_in(batch, patterns):
                    if found[at] < 0:
                        hits.append((-1, pattern, row + at, False))
                row += batch.num_rows
    except (pa.ArrowException, OSError, KeyError):
        return nothing_found(Unread(position=0, bytes=-1, problem="it is not a whole Arrow file"))
    return _scanned(hits)


def _scanned(hits: list[tuple[int, int, int, bool]]) -> Scanned:
    found = np.zeros(len(hits), dtype=HIT)
    for at, (request, pattern, row, dead) in enumerate(sorted(hits, key=lambda one: one[2])):
        one = found[at]
        one["request"], one["pattern"], one["offset"], one["is_tombstone"] = (
            request,
            pattern,
            row,
            dead,
        )
    batches = np.zeros(1, dtype=BATCH)
    batches["position"] = -1
    return Scanned(hits=found, batches=batches, markers=NO_MARKERS, unread=())


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


def search_table(
    root: Path, keys: KeySet
) -> tuple[list[Finding], list[tuple[str, TopicPartition, str]]]:
    """Search the Parquet files of a table, or one file.

    Returns:
        the findings, and (path, partition, problem) of what cannot be searched.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    require("tables", by="searching a table")
    findings: list[Finding] = []
    problems: list[tuple[str, TopicPartition, str]] = []
    paths = sorted(root.rglob("*")) if root.is_dir() else [root]
    for path in paths:
        relative = str(path.relative_to(root)) if path != root else path.name
        place = _PARTITION.search(relative)
        partition = TopicPartition("", int(place[1]) if place else -1)
        if path.is_symlink():
            problems.append((relative, partition, "it is a symbolic link, which is not followed"))
        elif path.is_dir() or _NO_ROWS.fullmatch(path.name):
            continue
        elif not path.is_file():
            problems.append((relative, partition, "it is not a regular file"))
        elif path == root or _PARQUET.fullmatch(path.name):
            problem = _search_parquet(path, (relative, partition), keys, findings)
            if problem is not None:
                problems.append((relative, partition, problem))
        else:
            problems.append((relative, partition, "it is not a Parquet file"))
    return findings, problems


def _search_parquet(
    path: Path, where: tuple[str, TopicPartition], keys: KeySet, findings: list[Finding]
) -> str | None:
    """Add the findings of one file; return why it cannot be searched, None if it can."""
    import pyarrow as pa  # noqa: PLC0415 -- an extra
    import pyarrow.parquet as pq  # noqa: PLC0415 -- an extra

    relative, partition = where
    try:
        with pq.ParquetFile(path) as file:
            names = [name for name in RAW_KEYS if name in file.schema_arrow.names]
            if not names or not _is_bytes(file.schema_arrow.field(names[0]).type):
                return "it has no column of keys as bytes or text"
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=names[:1]):
                found = keys.match(_keys_of(batch.column(0)))
                findings += [
                    Finding(
                        request=request,
                        topic=partition.topic,
                        partition=partition.partition,
                        path=relative,
                        place="table",
                        offset=-1,
                        batch_position=-1,
                        kind="live",
                        rule="",
                        gone_by_ms=None,
                    )
                    for request in found[found >= 0].tolist()
                ]
    except (pa.ArrowException, OSError, ValueError):
        return "it is not a Parquet file that can be read"
    return None


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
    )


def _keys_of(column: pa.Array) -> Keys:
    """Return the keys of a column of bytes or text."""
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    array = column.cast(pa.large_binary())
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
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
