"""Write the rows of a topic as Parquet files, one for each partition, in the layout of Hive:
``partition=N/rows.parquet``. The column `partition` is in the names of the directories only.

The rows of all partitions appear together, or not at all (`durable.directory`).
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from logwright import durable
from logwright.errors import DiskFull, PreconditionError, StepFailed
from logwright.format.names import TopicPartition
from logwright.records import schema as names

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE_NAME: Final = "rows.parquet"
_ROW_GROUP_ROWS: Final = 1024 * 1024
_ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
"""A row group ends at either."""
_REPEATED: Final = (names.TOPIC, names.TIMESTAMP_TYPE)
_ASCENDING: Final = (names.OFFSET, names.TIMESTAMP)
_WITH_STATISTICS: Final = (names.KEY, *_ASCENDING)


class WrittenFile(NamedTuple):
    """One file: its partition, rows, bytes, and path."""

    partition: TopicPartition
    rows: int
    bytes: int
    path: Path


def write_parquet(
    directory: Path,
    schema: pa.Schema,
    partitions: Iterable[tuple[TopicPartition, Iterator[pa.RecordBatch]]],
) -> list[WrittenFile]:
    """Write the rows of some partitions. Memory is bounded by a row group. Effects: makes the
    directory; nothing is left of it if an error occurs.

    Args:
        directory: must not exist, or be empty.
        schema: of the rows.
        partitions: each with its rows.

    Raises:
        PreconditionError: there is something else, or a directory that is not empty.
        DiskFull, StepFailed: the files cannot be written.
    """
    columns = [column for column in schema.names if column != names.PARTITION]
    written: list[WrittenFile] = []
    with _write_errors(directory):
        _require_free(directory)
    with _write_errors(directory), durable.directory(directory) as staged:
        for partition, batches in partitions:
            name = Path(f"{names.PARTITION}={partition.partition}") / FILE_NAME
            (staged / name).parent.mkdir()
            rows = _write_file(staged / name, schema, columns, batches)
            size = (staged / name).stat().st_size
            written.append(WrittenFile(partition, rows, size, directory / name))
    return written


@contextmanager
def _write_errors(directory: Path) -> Iterator[None]:
    """Turn the errors of the file system into ours.

    Raises:
        DiskFull: there is no room.
        StepFailed: any other.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                "not enough disk space for the files.",
                path=directory,
                remedy="Nothing was left there. Free some space, then run it again.",
            ) from error
        raise StepFailed(
            f"the files cannot be written: {error.strerror}.",
            path=directory,
            remedy="Nothing was left there.",
        ) from error


def _require_free(directory: Path) -> None:
    try:
        holds = any(directory.iterdir())
    except FileNotFoundError:
        return
    except NotADirectoryError:
        if not directory.exists():  # something on the way is a file
            raise
        holds = True
    if holds:
        raise PreconditionError(
            "is there already, and is not an empty directory.",
            path=directory,
            remedy="Give another path, or remove it.",
        )


def _write_file(
    path: Path, schema: pa.Schema, columns: Sequence[str], batches: Iterator[pa.RecordBatch]
) -> int:
    """Write these columns of the batches, durably; return the number of rows. Effects: writes."""
    kept = pa.schema([schema.field(column) for column in columns])
    rows = 0
    with (
        durable.created(path) as file,
        pq.ParquetWriter(
            file,
            kept,
            compression="zstd",
            use_dictionary=[column for column in _REPEATED if column in columns],
            column_encoding={
                column: "DELTA_BINARY_PACKED" for column in _ASCENDING if column in columns
            },
            write_statistics=[column for column in _WITH_STATISTICS if column in columns],
        ) as writer,
    ):
        for group in _row_groups(batches):
            writer.write_table(group.select(columns), row_group_size=group.num_rows)
            rows += group.num_rows
    return rows


def _row_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the batches joined to row groups."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROW_GROUP_ROWS or size >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(group)
            group, rows, size = [], 0, 0
    if group:
        yield pa.Table.from_batches(group)
