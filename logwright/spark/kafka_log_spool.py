"""The rows of one task of a write, in a file: sorted by partition, for the process that appends."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.datasource import WriterCommitMessage

from logwright.errors import DiskFull, StalePlan, StepFailed
from logwright.format.names import TopicPartition
from logwright.ingest.partitioner import UNKNOWN
from logwright.ingest.schema import SCHEMA
from logwright.spark.append import first_slots, no_such_partition, place_rows

SORTED_BYTES: Final = 32 * 1024 * 1024
"""Bytes of rows that a task sorts at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spooled(WriterCommitMessage):
    """What one task has written.

    Attributes:
        name: of its file in the log directory's root, empty if it has no rows.
        runs: partition → numbers of the file's record batches with its rows, in order.
    """

    name: str
    runs: Mapping[TopicPartition, Sequence[int]]


def spool_rows(
    path: Path,
    topic: str | None,
    slots: Sequence[TopicPartition],
    batches: Iterable[pa.RecordBatch],
) -> dict[TopicPartition, list[int]]:
    """Write rows to a file of Arrow's; return the numbers of its record batches by partition.
    Effects: makes the file, and removes it after an error.

    Raises:
        RefusedRecord: a row's topic or partition does not exist.
        DiskFull, StepFailed: the file cannot be written.
    """
    try:
        return _spool(path, topic, slots, batches)
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        kind = DiskFull if full else StepFailed
        raise kind(
            f"the rows cannot be written: {error.strerror}.",
            path=path,
            remedy="Nothing was appended. Fix the cause and write again.",
        ) from error


def _spool(
    path: Path,
    topic: str | None,
    slots: Sequence[TopicPartition],
    batches: Iterable[pa.RecordBatch],
) -> dict[TopicPartition, list[int]]:
    first = first_slots(slots)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode=0o600)
    try:
        with os.fdopen(descriptor, "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as file:
            sorter = _Sorter(file, slots)
            for batch in batches:
                if len(batch):
                    rows = canonical(batch, topic)
                    placed = place_rows(first, rows)
                    if (placed == UNKNOWN).any():
                        raise no_such_partition()
                    sorter.add(placed, rows.select(SCHEMA.names))
            sorter.flush()
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return sorter.runs


@dataclass(slots=True)
class _Sorter:
    """Sorts rows by partition while they are written to a file."""

    file: pa.RecordBatchFileWriter
    slots: Sequence[TopicPartition]
    runs: dict[TopicPartition, list[int]] = field(default_factory=dict)
    _waiting: list[tuple[NDArray[np.int32], pa.RecordBatch]] = field(default_factory=list)
    _bytes: int = 0
    _written: int = 0

    def add(self, slots: NDArray[np.int32], rows: pa.RecordBatch) -> None:
        """Take rows and their slots."""
        self._waiting.append((slots, rows))
        self._bytes += rows.nbytes
        if self._bytes >= SORTED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits; rows of a partition stay in their order."""
        if not self._waiting:
            return
        slots = np.concatenate([one for one, _ in self._waiting])
        order = np.argsort(slots, kind="stable")
        rows = pa.concat_batches([one for _, one in self._waiting]).take(pa.array(order))
        slots = slots[order]
        changes = (np.flatnonzero(np.diff(slots)) + 1).tolist()
        for begin, end in pairwise([0, *changes, len(slots)]):
            self.file.write_batch(rows.slice(begin, end - begin))
            self.runs.setdefault(self.slots[slots[begin]], []).append(self._written)
            self._written += 1
        self._waiting, self._bytes = [], 0


def spooled_rows(
    log_dir: Path, spools: Iterable[Spooled], partition: TopicPartition
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one partition. Effects: maps the files.

    Raises:
        StalePlan: a file is gone.
    """
    for spool in spools:
        path = log_dir / spool.name
        try:
            mapped = pa.memory_map(str(path))
        except OSError as error:
            raise StalePlan(
                "the rows of a task are gone.",
                path=path,
                remedy="Nothing was appended. Write again.",
            ) from error
        with mapped, pa.ipc.open_file(mapped) as file:
            for number in spool.runs[partition]:
                yield file.get_batch(number)


def canonical(batch: pa.RecordBatch, topic: str | None) -> pa.RecordBatch:
    """Return the columns of `SCHEMA`, and topic and partition, of a frame's rows."""
    kinds = {
        **{one.name: one.type for one in SCHEMA},
        "topic": pa.string(),
        "partition": pa.int32(),
    }
    columns = {name: pa.nulls(len(batch), kind) for name, kind in kinds.items()}
    for name in batch.schema.names:
        given = batch[name]
        if name == "timestamp" and pa.types.is_timestamp(given.type):
            given = _milliseconds(given)
        columns[name] = given.cast(kinds[name])
    if topic is not None:
        columns["topic"] = pa.repeat(pa.scalar(topic), len(batch))
    return pa.RecordBatch.from_pydict(columns)


def _milliseconds(times: pa.Array) -> pa.Array:
    """Return times as whole ms since the epoch, rounded down."""
    micros = times.cast(pa.timestamp("us", tz=times.type.tz)).cast(pa.int64())
    whole = micros.fill_null(0).to_numpy(zero_copy_only=False) // 1000
    return pa.array(whole, mask=micros.is_null().to_numpy(zero_copy_only=False))
