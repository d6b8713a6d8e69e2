"""What an update takes of the records of a partition: their rows, by bucket, and what they say
beyond that.

1. A record without a key has no row. It may empty the table (`Keyless.truncations`): then rows of
   records of lower offsets go, those of the table, too. Of a topic with several partitions that is
   refused, since nothing orders it among the records of the others.
2. Rows with values that the source left out wait until all is read. Then all records of their keys
   are read, in the same range, and with the rows that the table has they give the former values
   (`logwright.tables.former`).

If keys are compared by their decoded values, a row is in the bucket of its key's identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from logwright.decode.model import ORIGIN
from logwright.decode.rows import refused_rows
from logwright.tables.buckets import buckets_of
from logwright.tables.columns import KEY, OFFSET, READ_COLUMNS
from logwright.tables.former import (
    SAME,
    UNKNOWN_GAPS,
    Flags,
    Gaps,
    fill,
    history_schema,
    packed,
)
from logwright.tables.model import DataFile
from logwright.tables.plan import PartitionStep
from logwright.tables.quarantine import Refusals
from logwright.tables.rewrite import read_batches, without
from logwright.tables.spill import Spill
from logwright.tables.work import PartitionSource, Target

if TYPE_CHECKING:
    from logwright.decode.model import Decoded

_HASHES: Final = 1 << 31
_SEVERAL: Final = (
    "is a truncation, and rows stay: only of a topic with one partition it is known which"
)

Files = Mapping[int, Sequence[DataFile]]
NewSpill = Callable[[pa.Schema, str], Spill]


class Taken(NamedTuple):
    """Records that were taken.

    Attributes:
        batch: the newest of each key.
        no_row: which of them have none.
        known: the identity of their decoded keys; None: keys are compared by their bytes.
    """

    batch: pa.RecordBatch
    no_row: pa.BooleanArray
    known: pa.Array | None


@dataclass(slots=True, kw_only=True, eq=False)
class Intake:
    """The records of a partition in an update.

    Attributes:
        rows: rows of new records, by bucket; waiting: those with values that were left out.
        new_spill: returns one with the table's buckets.
        refused: takes records that cannot be decoded.
        records: those with a key; bytes: of the log that hold them.
        keyless, messages, truncations, unknown: see `PartitionResult`.
        truncated_below: rows of records below this offset go; 0: there was no truncation.
    """

    target: Target
    source: PartitionSource
    step: PartitionStep
    rows: Spill
    waiting: Spill
    new_spill: NewSpill
    refused: Refusals
    records: int = 0
    bytes: int = 0
    keyless: int = 0
    messages: int = 0
    truncations: int = 0
    unknown: int = 0
    truncated_below: int = 0
    left_out: set[str] = field(default_factory=set)

    def read(self) -> Iterator[Taken]:
        """Yield the newest records of each key. Effects: reads; spills.

        Raises:
            LogwrightError: the log cannot be read.
        """
        reading = self.source.read(self.step)
        self.bytes = reading.bytes
        for batch in reading.batches:
            yield self._take(batch)
        self.keyless = reading.counts.keyless
        if self.keyless and self.target.decoder.reads_keyless:
            for batch in self.source.records(self.step.start_offset, self.step.end_offset):
                self._take_keyless(batch.filter(batch[KEY].is_null()))

    def complete(self, files: Files, start: int | None) -> None:
        """Give the rows that wait their former values. Effects: reads the log from an offset on,
        and rows of the table; spills.

        Args:
            files: of the partition, by bucket; its rows are of this log.
            start: where the log is read from; None: from its start.
        """
        names = [name for name in self.target.columns.decoded if name in self.left_out]
        if not names:
            return
        history = _History(self, names, files)
        with self.new_spill(history.schema, SAME) as spill:
            for batch in history.of_log(start):
                spill.add(batch)
            for bucket in sorted(self.waiting.buckets):
                rows = pa.Table.from_batches(self.waiting.read(bucket))
                rows = rows.filter(pc.greater_equal(rows[OFFSET], self.truncated_below))
                if len(rows):
                    self._complete(rows, history.of_keys(bucket, rows, spill))

    def rows_of(self, bucket: int) -> Iterator[pa.RecordBatch]:
        """Yield the new rows of a bucket, without those that a truncation took away. Effects: reads
        what was spilled.
        """
        for batch in self.rows.read(bucket):
            kept = batch
            if self.truncated_below:
                kept = batch.filter(pc.greater_equal(batch[OFFSET], self.truncated_below))
            if len(kept):
                yield kept

    @property
    def written(self) -> int:
        """How many new rows there are. Effects: may read what was spilled."""
        if not self.truncated_below:
            return self.rows.rows
        return sum(len(batch) for bucket in self.rows.buckets for batch in self.rows_of(bucket))

    @property
    def removal(self) -> PartitionStep:
        """The step, as it removes rows of the table: after a truncation all that it had."""
        if not self.truncated_below:
            return self.step
        return replace(self.step, compares=False, trims_below=self.truncated_below)

    @property
    def counts(self) -> dict[str, int]:
        """What a `PartitionResult` has of these records."""
        names = ("keyless", "messages", "truncations", "unknown")
        counts = {name: getattr(self, name) for name in names}
        read = {"bytes_read": self.bytes, "records": self.records}
        return {**counts, **read, "refused": self.refused.rows}

    def identity_of(self, rows: pa.RecordBatch | pa.Table) -> pa.Array | None:
        """Return the identity of the keys of rows of the table; None: it is that of their bytes."""
        identity = self.target.identity
        if identity is None:
            return None
        return identity.of_rows(_array(rows[KEY]), self.source.partition)

    def identity_of_records(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the identity of the keys of records; None: it is that of their bytes."""
        identity = self.target.identity
        if identity is None:
            return None
        return identity.of_keys(self.target.decoder, batch, self.source.partition)

    def _take(self, batch: pa.RecordBatch) -> Taken:
        """Decode records; their rows go to the spills."""
        decoded = self.target.decoder.decode(batch.select(list(READ_COLUMNS)))
        self.records += len(batch)
        self.messages += decoded.messages
        read = batch.take(decoded.positions)
        lives = pc.invert(decoded.deleted)
        rows = self.target.columns.rows(decoded.rows.filter(lives), read.filter(lives))
        known = self._known(batch, decoded)
        keys = None if known is None else known.take(decoded.positions).filter(lives)
        masks = self._masks(decoded)
        if masks is None:
            self.rows.add(rows, keys)
        else:
            self._add(rows, keys, masks[lives.to_numpy(zero_copy_only=False)])
        if len(decoded.refused):
            self.refused.add(decoded.refused)
        stays = pc.is_in(batch[OFFSET], value_set=read[OFFSET].filter(lives))
        return Taken(batch, pc.invert(stays), known)

    def _known(self, batch: pa.RecordBatch, decoded: Decoded) -> pa.Array | None:
        identity = self.target.identity
        if identity is None:
            return None
        number = self.source.partition
        return identity.of_records(self.target.decoder, batch, number, decoded)

    def _take_keyless(self, batch: pa.RecordBatch) -> None:
        """Take what records without a key say."""
        keyless = self.target.decoder.keyless(batch)
        self.messages += keyless.messages
        if len(keyless.refused):
            self.refused.add(keyless.refused)
        if not keyless.truncations:
            return
        if self.target.partitions == {0}:
            self.truncations += len(keyless.truncations)
            self.truncated_below = max(self.truncated_below, *keyless.truncations)
            return
        chosen = pc.index_in(pa.array(keyless.truncations, pa.int64()), value_set=batch[OFFSET])
        origin = [batch.column(one.name).cast(one.type) for one in ORIGIN]
        reasons = {"value": dict.fromkeys(chosen.to_pylist(), _SEVERAL)}
        self.refused.add(refused_rows(origin, reasons))

    def _masks(self, decoded: Decoded) -> Flags | None:
        """Return which values of each row are left out, by the columns of the table; None: none."""
        if not decoded.unavailable:
            return None
        names = decoded.rows.schema.names[len(ORIGIN) :]
        masks = np.zeros((len(decoded.rows), len(names)), np.bool_)
        for name, mask in decoded.unavailable.items():
            masks[:, names.index(name)] = mask.to_numpy(zero_copy_only=False)
        return masks

    def _add(self, rows: pa.RecordBatch, keys: pa.Array | None, masks: Flags) -> None:
        wait = masks.any(axis=1)
        columns = self.target.columns.decoded
        self.left_out.update(columns[at] for at in np.flatnonzero(masks.any(axis=0)).tolist())
        for spill, which in ((self.rows, pa.array(~wait)), (self.waiting, pa.array(wait))):
            spill.add(rows.filter(which), None if keys is None else keys.filter(which))

    def _complete(self, rows: pa.Table, history: pa.Table) -> None:
        """Give rows of a bucket the values that they left out."""
        filled = fill(history, rows[OFFSET].to_numpy())
        self.unknown += int(filled.unknown.sum())
        for name, values in filled.columns.items():
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(at), values)
        for batch in rows.combine_chunks().to_batches():
            self.rows.add(batch, self.identity_of(batch))


class _History:
    """The records of the keys of rows that wait, as `fill` takes them.

    Args:
        intake: has the rows that wait.
        names: the columns that may be left out.
        files: of the table's partition.
    """

    def __init__(self, intake: Intake, names: Sequence[str], files: Files) -> None:
        self._intake = intake
        self._names = names
        self._files = {} if intake.truncated_below else files
        self._key = intake.target.columns.key
        self.schema = history_schema(intake.target.columns.stored, names)
        step = intake.step
        self._held = intake.source.held(step.start_offset or 0) if step.compares else None
        waiting = intake.waiting
        hashes = [_hashes(self._same(one)) for at in waiting.buckets for one in waiting.read(at)]
        self._hashes = np.unique(np.concatenate(hashes))

    def of_log(self, start: int | None) -> Iterator[pa.RecordBatch]:
        """Yield records of about these keys, all of them. Effects: reads the log."""
        intake = self._intake
        first = max(start or 0, intake.truncated_below) or None
        gaps = Gaps()
        for batch in intake.source.records(first, intake.step.end_offset):
            before = gaps.before(batch[OFFSET].to_numpy())
            has_key = batch[KEY].is_valid()
            keyed, before = batch.filter(has_key), before.filter(has_key)
            same = intake.identity_of_records(keyed)
            same = keyed[KEY].cast(pa.binary()) if same is None else same
            some = pa.array(np.isin(_hashes(same), self._hashes))
            chosen = keyed.filter(some)
            if len(chosen):
                yield self._of_records(chosen, same.filter(some), before.filter(some))

    def of_keys(self, bucket: int, rows: pa.Table, spill: Spill) -> pa.Table:
        """Return the records of the keys of some rows: of the table, then of the log."""
        keys = self._same(rows)
        batches = [*self._of_table(bucket), *spill.read(bucket)]
        chosen = [batch.filter(pc.is_in(batch[SAME], value_set=keys)) for batch in batches]
        return pa.Table.from_batches(chosen, self.schema)

    def _same(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """Return what the keys of rows are compared by."""
        known = self._intake.identity_of(rows)
        return _array(rows[self._key]) if known is None else known

    def _of_table(self, bucket: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the table whose records are known to precede those of the log."""
        intake = self._intake
        store = intake.target.store
        keys = [self._key] if intake.target.identity is None else [self._key, KEY]
        for file in self._files.get(bucket, ()):
            with store.source(file) as opened:
                columns = [*keys, OFFSET, *self._names]
                for batch in without(read_batches(opened, columns), store.deleted(file)):
                    known = batch.filter(self._precede(batch[OFFSET]))
                    none = np.zeros((len(known), len(self._names)), np.bool_)
                    ends = pa.array(np.zeros(len(known), np.bool_))
                    before = pa.array(np.full(len(known), UNKNOWN_GAPS))
                    values = [known[name] for name in (OFFSET, *self._names)]
                    places = [known[self._key], before]
                    yield pa.RecordBatch.from_arrays(
                        [self._same(known), *values, ends, packed(none), *places],
                        schema=self.schema,
                    )

    def _precede(self, offsets: pa.Array) -> pa.BooleanArray:
        first = self._intake.step.trims_below or 0
        kept = pc.greater_equal(offsets, first)
        if self._held is None:
            return kept
        held = self._held
        return pc.and_(kept, pa.array([one in held for one in offsets.to_pylist()], pa.bool_()))

    def _of_records(self, batch: pa.RecordBatch, same: pa.Array, gaps: pa.Array) -> pa.RecordBatch:
        """Return what records have of the columns; one that cannot be decoded ends its key.

        Args:
            same: what their keys are compared by; gaps: see `Gaps`.
        """
        intake = self._intake
        columns = intake.target.columns
        decoded = intake.target.decoder.decode(batch.select(list(READ_COLUMNS)))
        rows = columns.rows(decoded.rows, batch.take(decoded.positions))
        positions = decoded.positions.to_numpy()
        at = np.full(len(batch), -1, np.int64)
        at[positions] = np.arange(len(positions))
        ends = at < 0
        ends[positions] = decoded.deleted.to_numpy(zero_copy_only=False)
        masks = np.zeros((len(batch), len(self._names)), np.bool_)
        of_rows = intake._masks(decoded)  # noqa: SLF001 - of the same records
        if of_rows is not None:
            places = [columns.decoded.index(name) for name in self._names]
            masks[positions] = of_rows[:, places]
        chosen = pa.array(at, mask=at < 0)
        values = [rows[name].take(chosen) for name in self._names]
        return pa.RecordBatch.from_arrays(
            [
                same,
                batch[OFFSET],
                *values,
                pa.array(ends),
                packed(masks),
                batch[KEY].cast(pa.binary()),
                gaps,
            ],
            schema=self.schema,
        )


def _hashes(keys: pa.Array) -> NDArray[np.int64]:
    return buckets_of(keys, _HASHES)


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
