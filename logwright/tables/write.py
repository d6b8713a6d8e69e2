"""Write the new files of one partition: its records are decoded, distributed to buckets, and the
buckets with changed keys are rewritten, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from logwright.tables.columns import KEY, READ_COLUMNS
from logwright.tables.model import DataFile, Form, Snapshot
from logwright.tables.plan import PartitionStep
from logwright.tables.rewrite import GroupWriter, RewriteCounts, has_any, read_batches, rewritten
from logwright.tables.spill import Spill
from logwright.tables.store import Store
from logwright.tables.work import PartitionResult, PartitionSource, Target

_NO_KEYS: Final = pa.array([], pa.binary())
_KEYS: Final = pa.schema([pa.field(KEY, pa.binary())])


def update_partition(
    target: Target,
    form: Form,
    source: PartitionSource,
    step: PartitionStep,
    before: Snapshot | None,
) -> tuple[PartitionResult, list[DataFile], list[DataFile]]:
    """Write the new files of a partition; return what was done, and the files that the commit adds
    and removes.
    """
    schema = target.columns.stored
    old = {} if before is None else before.by_bucket(source.partition)
    with (
        Spill(schema, target.columns.key, form.buckets, target.work) as rows,
        Spill(_KEYS, KEY, form.buckets, target.work) as dead,
        target.quarantine.opened(source.partition, step) as refused,
    ):
        records = 0
        reading = source.read(step)
        for batch in reading.batches:
            records += len(batch)
            _distribute(target, batch, (rows, dead), refused.add)
        counts = RewriteCounts()
        added: list[DataFile] = []
        removed: list[DataFile] = []
        for bucket in _buckets(target.store, step, rows, dead, old):
            files = old.get(bucket, ()) if step.kind == "upsert" else ()
            fresh, lost = _NO_KEYS, _NO_KEYS
            if files:
                fresh = _keys(rows.read(bucket), target.columns.key)
                lost = _keys(dead.read(bucket), KEY)
                if not len(fresh) and not _holds(target, files, lost):
                    continue
            place = (source.partition, bucket)
            file = _rewrite(target, place, files, rows.read(bucket), (fresh, lost, counts))
            if file is not None:
                added.append(file)
            removed += old.get(bucket, ())
        if step.kind == "rebuild":
            new = {file.bucket for file in added}
            removed += [
                file for bucket in old.keys() - new for file in old[bucket] if file not in removed
            ]
        refused.commit()
        result = PartitionResult(
            partition=source.partition,
            step=step,
            held=step.end_offset,
            bytes_read=reading.bytes,
            records=records,
            written=rows.rows,
            deleted=counts.deleted,
            refused=refused.rows,
            buckets=len(added),
        )
    return result, added, removed


def _buckets(
    store: Store,
    step: PartitionStep,
    rows: Spill,
    dead: Spill,
    old: Mapping[int, Sequence[DataFile]],
) -> list[int]:
    """Return the buckets to look at."""
    found = set(rows.buckets)
    if step.kind == "upsert":
        found |= dead.buckets & old.keys()
    elif store.keeps_empty:
        found |= {0, *old}
    return sorted(found)


def _distribute(
    target: Target,
    batch: pa.RecordBatch,
    spills: tuple[Spill, Spill],
    refuse: Callable[[pa.RecordBatch], None],
) -> None:
    """Decode records; their rows, and the keys that lose theirs, go to the spills."""
    rows, dead = spills
    decoded = target.decoder.decode(batch.select(list(READ_COLUMNS)))
    read = batch.take(decoded.positions)
    lives = pc.invert(decoded.deleted)
    rows.add(target.columns.rows(decoded.rows.filter(lives), read.filter(lives)))
    stays = pc.is_in(batch["offset"], value_set=read["offset"].filter(lives))
    keys = batch[KEY].filter(pc.invert(stays))
    dead.add(pa.RecordBatch.from_arrays([keys], schema=_KEYS))
    if len(decoded.refused):
        refuse(decoded.refused)


def _keys(batches: Iterable[pa.RecordBatch], key: str) -> pa.Array:
    chunks = [batch[key] for batch in batches]
    return pa.concat_arrays(chunks) if chunks else _NO_KEYS


def _read(target: Target, files: Iterable[DataFile]) -> Iterator[pa.RecordBatch]:
    for file in files:
        with target.store.source(file) as opened:
            yield from read_batches(opened, target.columns.stored.names)


def _holds(target: Target, files: Iterable[DataFile], keys: pa.Array) -> bool:
    """Return whether one of these keys has a row in the files. Effects: reads their keys."""
    if not len(keys):
        return False
    for file in files:
        with target.store.source(file) as opened:
            key = target.columns.key
            if has_any(read_batches(opened, [key]), key, keys):
                return True
    return False


def _rewrite(
    target: Target,
    place: tuple[int, int],
    files: Sequence[DataFile],
    new: Iterator[pa.RecordBatch],
    changes: tuple[pa.Array, pa.Array, RewriteCounts],
) -> DataFile | None:
    """Write a bucket's new file; None if it has no rows and the format has no files without."""
    partition, bucket = place
    fresh, dead, counts = changes
    columns, store = target.columns, target.store
    rows_before = counts.rows
    batches = rewritten(
        _read(target, files), new, key=columns.key, fresh=fresh, dead=dead, counts=counts
    )
    first = next(batches, None)
    if first is None and not store.keeps_empty:
        return None
    schema = columns.full if store.places_in_files else columns.stored
    with store.output(partition, bucket) as (path, opened):
        writer = GroupWriter(opened, schema)
        for batch in _with_first(first, batches):
            writer.write(columns.placed(batch, *place) if store.places_in_files else batch)
        writer.close()
        size = opened.tell()
    rows = counts.rows - rows_before
    return DataFile(partition=partition, bucket=bucket, path=path, rows=rows, bytes=size)


def _with_first(
    first: pa.RecordBatch | None, others: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    if first is not None:
        yield first
    yield from others
