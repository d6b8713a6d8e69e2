"""Update a table from the logs of a topic's partitions: plan, read, rewrite, commit.

1. Each partition's step is planned from what the table records and what the log is now.
2. Its records are decoded and distributed to buckets; tombstones, and records that cannot be
   decoded, take the row of their key away.
3. Buckets with changed keys are rewritten, one after the other.
4. The new files are committed together with the progress.

A killed update has committed all of a partition or nothing; the next one continues. Memory is that
of one bucket's changed keys, a spill's buffer and a row group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from logwright.errors import LogwrightError
from logwright.tables.buckets import bucket_count
from logwright.tables.columns import KEY, READ_COLUMNS, Columns
from logwright.tables.model import Commit, DataFile, Form, OtherForm, Progress, Snapshot
from logwright.tables.plan import (
    Observed,
    PartitionStep,
    differences,
    gone_partitions,
    plan_partition,
)
from logwright.tables.quarantine import Quarantine
from logwright.tables.rewrite import GroupWriter, RewriteCounts, has_any, read_batches, rewritten
from logwright.tables.spill import Spill
from logwright.tables.store import Store

if TYPE_CHECKING:
    from logwright.decode.model import Decoder

COMMIT_BYTES: Final = 1 << 30
"""Files of so many bytes are committed before the next partition begins."""
_NO_KEYS: Final = pa.array([], pa.binary())
_KEYS: Final = pa.schema([pa.field(KEY, pa.binary())])


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSource:
    """One partition's log.

    Attributes:
        observed: the log as it is now.
        log_bytes: size of its ``.log`` files.
        read: yields the newest record of each key of a step, columns `READ_COLUMNS`; tombstones
            only for an upsert.
    """

    partition: int
    observed: Observed
    log_bytes: int
    read: Callable[[PartitionStep], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """What an update did for one partition.

    Attributes:
        held: the table holds the log below this offset.
        records: records read: the newest of each key in the range of the step.
        written: rows that are new, or replace one.
        deleted: rows that tombstones, or records that cannot be decoded, took away.
        refused: records that cannot be decoded.
        buckets: files that were rewritten.
    """

    partition: int
    step: PartitionStep
    held: int
    records: int = 0
    written: int = 0
    deleted: int = 0
    refused: int = 0
    buckets: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What an update did.

    Attributes:
        snapshot: the table afterwards; None: there is none.
        changed: there is a new version.
        partitions: those that were planned.
        failures: partition → error, of those that could not be updated.
        gone: partitions of an earlier topic of the same name, whose rows were removed.
    """

    snapshot: Snapshot | None
    changed: bool
    partitions: tuple[PartitionResult, ...]
    failures: Mapping[int, LogwrightError]
    gone: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The table to update.

    Attributes:
        store: the table.
        quarantine: where records go that cannot be decoded.
        topic: whose state it is.
        decoder: of its records.
        columns: of its files.
        decoding: digest of the decoder's settings.
        buckets: wanted number of buckets; None: by size, or as the table has.
        work: directory of temporary files.
    """

    store: Store
    quarantine: Quarantine
    topic: str
    decoder: Decoder
    columns: Columns
    decoding: str
    work: Path
    buckets: int | None = None


@dataclass(slots=True)
class _Pending:
    """What is not committed yet."""

    progress: dict[int, Progress]
    added: list[DataFile] = field(default_factory=list)
    removed: list[DataFile] = field(default_factory=list)
    changed: bool = False

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.added)


def update_table(target: Target, sources: Sequence[PartitionSource]) -> UpdateResult:
    """Bring a table up to date. Effects: reads the logs, writes and commits files. The caller is
    the only one that updates the table.

    Raises:
        UnknownTable, OtherForm: the table is not one that can be continued.
        OSError, pyarrow.ArrowException, errors of the format's library: it cannot be written.
    """
    store = target.store
    store.recover()
    before = store.load()
    form = _form(target, before, sources)
    recorded = dict(before.progress) if before is not None else {}
    present = frozenset(source.partition for source in sources)
    topics = frozenset(source.observed.topic_id for source in sources)
    gone = gone_partitions(recorded, topics, present)
    steps = [
        (source, plan_partition(recorded.get(source.partition), source.observed))
        for source in sources
    ]
    pending = _Pending(progress=recorded)
    for partition in gone:
        assert before is not None  # noqa: S101 - it has recorded the partition
        del pending.progress[partition]
        pending.removed += [file for file in before.files if file.partition == partition]
        pending.changed = True
    results: list[PartitionResult] = []
    failures: dict[int, LogwrightError] = {}
    prepared, changed = False, False
    for source, step in steps:
        if step.kind == "nothing":
            held = step.end_offset
            results.append(PartitionResult(partition=source.partition, step=step, held=held))
            continue
        if not prepared:
            store.prepare(form, target.columns.full)
            prepared = True
        try:
            result, added, removed = _update_partition(target, form, source, step, before)
        except LogwrightError as error:
            failures[source.partition] = error
            continue
        results.append(result)
        pending.progress[source.partition] = source.observed.progress
        pending.added += added
        pending.removed += removed
        pending.changed = True
        if pending.bytes >= COMMIT_BYTES:
            changed |= _commit(target, form, pending)
    changed |= _commit(target, form, pending)
    return UpdateResult(
        snapshot=store.load(),
        changed=changed,
        partitions=tuple(results),
        failures=failures,
        gone=gone,
    )


def _form(target: Target, before: Snapshot | None, sources: Iterable[PartitionSource]) -> Form:
    """Return the form of the table.

    Raises:
        OtherForm: the table has another one.
    """
    buckets = target.buckets
    if buckets is None:
        sizes = [source.log_bytes for source in sources]
        buckets = bucket_count(sizes) if before is None else before.form.buckets
    form = Form(
        topic=target.topic,
        buckets=buckets,
        columns=target.columns.pairs,
        decoding=target.decoding,
    )
    why = None if before is None else differences(before.form, form)
    if why is not None:
        raise OtherForm(
            f"the table {target.store.name} cannot be continued: {why}.",
            remedy="Remove the table, or give another path; it is then made anew from the log.",
        )
    return form


def _commit(target: Target, form: Form, pending: _Pending) -> bool:
    """Commit what is pending, if there is something; return whether there was."""
    if not pending.changed:
        return False
    target.store.commit(
        Commit(
            form=form,
            progress=dict(pending.progress),
            added=tuple(pending.added),
            removed=tuple(pending.removed),
        ),
        target.columns.full,
    )
    pending.added, pending.removed, pending.changed = [], [], False
    return True


def _update_partition(
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
        for batch in source.read(step):
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
