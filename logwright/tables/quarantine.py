"""The quarantine table: which records could not be decoded, and why; never their bytes.

It is a table of the same format next to the other, with one bucket for each partition. It is
committed before the other one, so that no refused record is forgotten; a record that is refused
again, by the next run after a killed one or by a rebuild, keeps its one row. The rows of another
topic of the same name, and of offsets that the log has lost, are removed with the rebuild.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from logwright.tables.model import Commit, DataFile, Form
from logwright.tables.plan import PartitionStep
from logwright.tables.rewrite import GroupWriter, read_batches
from logwright.tables.spill import Spill
from logwright.tables.store import Store

_PLACES: Final = (pa.field("partition", pa.int32()), pa.field("bucket", pa.int32()))
STORED: Final = pa.schema(
    [
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("part", pa.string()),
        pa.field("reason", pa.string()),
    ]
)
"""The columns of its files; partition and bucket are in their paths."""
FULL: Final = pa.schema([*_PLACES, *STORED])
_OFFSET: Final = "offset"
_WHY: Final = ("part", "reason")
_BUCKET: Final = 0


class Reason(NamedTuple):
    """Why records are in the table.

    Attributes:
        part: ``key``, ``value`` or ``headers``.
        reason: with names of the schema, and no bytes of a record.
        records: how many; a record whose key and value were refused counts for both.
    """

    part: str
    reason: str
    records: int


@dataclass(slots=True)
class Refusals:
    """The refused records of one partition in one update.

    Attributes:
        rows: how many.
    """

    rows: int
    _spill: Spill
    _commit: Callable[[Spill], None]

    def add(self, refused: pa.RecordBatch) -> None:
        """Take records, of the columns of `logwright.decode.model.REFUSED`."""
        batch = refused.select(STORED.names)
        self.rows += len(batch)
        self._spill.add(batch)

    def commit(self) -> None:
        """Make them visible. Effects: a new version, if something is new."""
        self._commit(self._spill)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """A quarantine table.

    Attributes:
        store: the table, recovered; it is made when a record is refused.
        topic: of the records.
        work: directory of temporary files.
    """

    store: Store
    topic: str
    work: Path

    @contextmanager
    def opened(self, partition: int, step: PartitionStep) -> Iterator[Refusals]:
        """Yield what takes the refused records of a partition."""
        with Spill(STORED, _OFFSET, 1, self.work) as spill:
            yield Refusals(0, spill, lambda found: self._commit(partition, step, found))

    def count(self) -> int:
        """Return the number of rows. Effects: reads."""
        snapshot = self.store.load()
        return 0 if snapshot is None else snapshot.rows

    def reasons(self) -> tuple[Reason, ...]:
        """Return why records are in the table, the most frequent reason first. Effects: reads."""
        snapshot = self.store.load()
        counts: Counter[tuple[str, str]] = Counter()
        for batch in self._read(() if snapshot is None else snapshot.files, list(_WHY)):
            counted = (
                pa.Table.from_batches([batch]).group_by(list(_WHY)).aggregate([([], "count_all")])
            )
            for row in counted.to_pylist():
                counts[row["part"], row["reason"]] += row["count_all"]
        ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        return tuple(Reason(part, why, count) for (part, why), count in ranked)

    def offsets(self, partition: int) -> frozenset[int]:
        """Return the offsets of a partition's rows. Effects: reads."""
        snapshot = self.store.load()
        if snapshot is None:
            return frozenset()
        offsets: set[int] = set()
        for batch in self._read(snapshot.by_bucket(partition).get(_BUCKET, ()), [_OFFSET]):
            offsets.update(batch[_OFFSET].to_pylist())
        return frozenset(offsets)

    def _commit(self, partition: int, step: PartitionStep, spill: Spill) -> None:
        before = self.store.load()
        if before is None and not spill.rows:
            return
        old = () if before is None else before.by_bucket(partition).get(_BUCKET, ())
        known = self._known(old)
        lost = step.kind == "rebuild" and (step.forgets or step.has_other_columns)
        new = _unknown(spill.read(_BUCKET), pa.array([], pa.int64()) if lost else known)
        first = next(new, None)
        if first is None and not (lost and old):
            return
        form = Form(topic=self.topic, buckets=1, columns=_pairs())
        self.store.prepare(form, FULL)
        kept = () if lost else old
        added = self._write(partition, kept, first, new)
        self.store.commit(
            Commit(
                form=form,
                progress={},
                added=() if added is None else (added,),
                removed=tuple(old),
            ),
            FULL,
        )

    def _known(self, files: tuple[DataFile, ...]) -> pa.Array:
        offsets = [batch[_OFFSET] for batch in self._read(files, [_OFFSET])]
        return pa.concat_arrays(offsets) if offsets else pa.array([], pa.int64())

    def _write(
        self,
        partition: int,
        old: tuple[DataFile, ...],
        first: pa.RecordBatch | None,
        new: Iterator[pa.RecordBatch],
    ) -> DataFile | None:
        if first is None and not self.store.keeps_empty:
            return None
        inside = self.store.places_in_files
        rows = 0
        with self.store.output(partition, _BUCKET) as (path, opened):
            writer = GroupWriter(opened, FULL if inside else STORED)
            for batch in self._all(old, first, new):
                rows += len(batch)
                writer.write(_placed(batch, partition) if inside else batch)
            writer.close()
            size = opened.tell()
        return DataFile(partition=partition, bucket=_BUCKET, path=path, rows=rows, bytes=size)

    def _all(
        self,
        old: tuple[DataFile, ...],
        first: pa.RecordBatch | None,
        new: Iterator[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        yield from self._read(old, STORED.names)
        if first is not None:
            yield first
        yield from new

    def _read(self, files: tuple[DataFile, ...], columns: list[str]) -> Iterator[pa.RecordBatch]:
        for file in files:
            with self.store.source(file) as opened:
                yield from read_batches(opened, columns)


def _unknown(batches: Iterator[pa.RecordBatch], known: pa.Array) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        fresh = batch.filter(pc.invert(pc.is_in(batch[_OFFSET], value_set=known)))
        if len(fresh):
            yield fresh


def _placed(batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    places = [pa.array([one] * len(batch), pa.int32()) for one in (partition, _BUCKET)]
    return pa.RecordBatch.from_arrays([*places, *batch.columns], schema=FULL)


def _pairs() -> tuple[tuple[str, str], ...]:
    return tuple((column.name, str(column.type)) for column in FULL)
