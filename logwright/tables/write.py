"""Write the new files of one partition: its records are decoded, distributed to buckets, and the
buckets with changed keys are changed, one after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from logwright.tables.columns import KEY, OFFSET
from logwright.tables.intake import Intake
from logwright.tables.merge import FileChange, Positions, files_to_write_again
from logwright.tables.model import DataFile, Form, Snapshot
from logwright.tables.plan import PartitionStep
from logwright.tables.rewrite import NO_KEYS, GroupWriter, read_batches, rows_of_keys, without
from logwright.tables.spill import Spill
from logwright.tables.store import Store
from logwright.tables.work import PartitionResult, PartitionSource, Target

_KEYS: Final = pa.schema([pa.field(KEY, pa.binary())])


@dataclass(slots=True)
class _Lost:
    """How many rows went: `replaced`: all of them; `deleted`: those whose key has none now."""

    replaced: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """What a commit changes: see `Commit`.

    Attributes:
        lost: the rows that it takes away.
        purges: files with deleted rows are written again.
    """

    added: list[DataFile] = field(default_factory=list)
    removed: list[DataFile] = field(default_factory=list)
    deleted: dict[tuple[int, int], Mapping[DataFile, Positions]] = field(default_factory=dict)
    lost: _Lost = field(default_factory=_Lost)
    purges: bool = False

    def add(self, other: FileChanges) -> None:
        """Take the changes of other buckets."""
        self.added.extend(other.added)
        self.removed.extend(other.removed)
        self.deleted.update(other.deleted)


class NewRows(NamedTuple):
    """The new rows of a bucket, and the keys that have none any more."""

    rows: Callable[[], Iterator[pa.RecordBatch]]
    dead: pa.Array


def update_partition(
    target: Target,
    form: Form,
    source: PartitionSource,
    step: PartitionStep,
    before: Snapshot | None,
) -> tuple[PartitionResult, FileChanges]:
    """Write the new files of a partition; return what was done, and what the commit changes."""
    old = {} if before is None else before.by_bucket(source.partition)
    columns = target.columns
    new_spill = partial(Spill, buckets=form.buckets, directory=target.work)
    with (
        new_spill(columns.stored, columns.key) as rows,
        new_spill(columns.stored, columns.key) as waiting,
        new_spill(_KEYS, KEY) as dead,
        target.quarantine.opened(source.partition, step) as refused,
    ):
        intake = Intake(
            target=target,
            source=source,
            step=step,
            rows=rows,
            waiting=waiting,
            new_spill=new_spill,
            refused=refused,
        )
        for taken in intake.read():
            keys = taken.batch[KEY].filter(taken.no_row)
            dead.add(pa.RecordBatch.from_arrays([keys], schema=_KEYS))
        intake.complete(old if step.kind == "upsert" else {}, step.start_offset)
        removal = intake.removal
        if removal.compares or removal.trims_below is not None:
            _find_vanished(target, source, removal, old, dead)
        changes = FileChanges(purges=step.purges)
        for bucket in _buckets(target.store, step, (rows, dead), old):
            place = (source.partition, bucket)
            new = NewRows(partial(intake.rows_of, bucket), _keys(dead.read(bucket), KEY))
            if step.kind == "upsert":
                change_bucket(target, place, old.get(bucket, ()), new, changes)
            else:
                write_again(target, place, (), new, changes)
        if step.kind == "rebuild":
            changes.removed.extend(file for files in old.values() for file in files)
        refused.commit()
        result = PartitionResult(
            partition=source.partition,
            step=step,
            held=step.end_offset,
            written=intake.written,
            deleted=changes.lost.deleted,
            replaced=changes.lost.replaced,
            buckets=len(changes.added),
            **intake.counts,
        )
    return result, changes


def _buckets(
    store: Store,
    step: PartitionStep,
    spills: tuple[Spill, Spill],
    old: Mapping[int, Sequence[DataFile]],
) -> list[int]:
    """Return the buckets to look at."""
    rows, dead = spills
    buckets = set(rows.buckets)
    if step.kind == "upsert":
        buckets |= dead.buckets & old.keys()
        if step.purges:
            buckets |= {one for one in old if any(len(store.deleted(file)) for file in old[one])}
    elif store.keeps_empty:
        buckets |= {0, *old}
    return sorted(buckets)


def _find_vanished(
    target: Target,
    source: PartitionSource,
    step: PartitionStep,
    old: Mapping[int, Sequence[DataFile]],
    dead: Spill,
) -> None:
    """Give the keys of rows whose record the log does not have any more to the spill. Effects:
    reads the offsets of the rows, and for a comparison those of the log below the step.
    """
    held = source.held(step.start_offset or 0) if step.compares else None
    for file in (file for files in old.values() for file in files):
        columns = [target.columns.key, OFFSET]
        with target.store.source(file) as opened:
            for batch in without(read_batches(opened, columns), target.store.deleted(file)):
                offsets = batch[OFFSET].to_numpy()
                if held is None:
                    lost = offsets < (step.trims_below or 0)
                else:
                    lost = np.isin(offsets, list(BitMap64(offsets) - held))
                keys = batch[target.columns.key].filter(pa.array(lost))
                dead.add(pa.RecordBatch.from_arrays([keys], schema=_KEYS))


def _keys(batches: Iterable[pa.RecordBatch], key: str) -> pa.Array:
    chunks = [batch[key] for batch in batches]
    return pa.concat_arrays(chunks) if chunks else NO_KEYS


def change_bucket(
    target: Target,
    place: tuple[int, int],
    files: Sequence[DataFile],
    new: NewRows,
    changes: FileChanges,
) -> None:
    """Replace the rows of changed keys. Effects: reads the keys of the bucket's files, and may
    write a file.
    """
    fresh = _keys(new.rows(), target.columns.key) if files else NO_KEYS
    keys = pa.concat_arrays([fresh, new.dead])
    dead = new.dead.filter(pc.invert(pc.is_in(new.dead, value_set=fresh)))
    file_changes = []
    for file in files:
        before = target.store.deleted(file)
        with target.store.source(file) as opened:
            batches = read_batches(opened, [target.columns.key])
            rows, their_keys = rows_of_keys(batches, target.columns.key, keys)
        is_new = np.isin(rows, before, assume_unique=True, invert=True)
        lost = pc.is_in(their_keys, value_set=dead).to_numpy(zero_copy_only=False)
        changes.lost.deleted += int((lost & is_new).sum())
        changes.lost.replaced += int(is_new.sum())
        file_changes.append(FileChange(file=file, before=before, added=rows[is_new]))
    has_new = next(new.rows(), None) is not None
    marked = changes.purges and any(len(one.before) for one in file_changes)
    if has_new or marked or any(len(one.added) for one in file_changes):
        limits = target.limits if target.store.deletes_rows else None
        again = files_to_write_again(file_changes, limits, purges=changes.purges)
        write_again(target, place, again, new, changes)
        changes.removed.extend(one.file for one in again)
        stay = [one for one in file_changes if one not in again and len(one.deleted)]
        changes.deleted[place] = {one.file: one.deleted for one in stay}


def write_again(
    target: Target,
    place: tuple[int, int],
    old: Iterable[FileChange],
    new: NewRows,
    changes: FileChanges,
) -> None:
    """Write a bucket's new file, with the rows that some old files keep, and the new ones; none if
    there are no rows and the format has no files without.
    """
    columns, store = target.columns, target.store
    batches = _rows(target, old, new)
    first = next(batches, None)
    if first is None and not store.keeps_empty:
        return
    rows = 0
    with store.output(*place) as (path, opened):
        writer = GroupWriter(opened, columns.full if store.places_in_files else columns.stored)
        for batch in () if first is None else itertools.chain((first,), batches):
            rows += len(batch)
            writer.write(columns.placed(batch, *place) if store.places_in_files else batch)
        writer.close()
        size = opened.tell()
    partition, bucket = place
    changes.added.append(
        DataFile(partition=partition, bucket=bucket, path=path, rows=rows, bytes=size)
    )


def _rows(target: Target, old: Iterable[FileChange], new: NewRows) -> Iterator[pa.RecordBatch]:
    for change in old:
        with target.store.source(change.file) as opened:
            batches = read_batches(opened, target.columns.stored.names)
            yield from (batch for batch in without(batches, change.deleted) if len(batch))
    yield from new.rows()
