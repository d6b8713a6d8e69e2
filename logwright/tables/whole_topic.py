"""Update a table that has one row of a key in the whole topic, or of a decoded key
(`logwright.tables.heads`).

1. What is new is read of all partitions, with its tombstones.
2. Bucket by bucket it is decided which heads have rows: a key has the same bucket in all
   partitions. Rows are written and deleted as in any other update.
3. The heads without a row are written to a new file, which the commit names.

If one partition has to be made again, all are: a record of another one may be the newest of its key
now, and only its log has the value. The same if an older record than its predecessor becomes the
newest of its partition, since that may make one of another partition the newest of its key. Where a
key has one row in its partition, that partition alone is made again.

Memory is that of one bucket's changed keys in all partitions; of all its keys if it is made again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from logwright.config.table import Unique
from logwright.errors import LogwrightError
from logwright.tables.columns import KEY, OFFSET, PARTITION, TIMESTAMP
from logwright.tables.heads import (
    DEAD,
    HEADS,
    Decision,
    Known,
    Vanishing,
    as_dead,
    as_heads,
    decide,
    expired,
    heads_table,
    of_keys,
    raw_keys,
    remembered,
    vanished,
)
from logwright.tables.hidden import HiddenHeads, HiddenWriter, remove_old, written
from logwright.tables.intake import Files, Intake, NewSpill
from logwright.tables.model import DataFile, Progress, Snapshot
from logwright.tables.plan import PartitionStep, made_again
from logwright.tables.renewal import Renewed, renewed
from logwright.tables.rewrite import read_batches, without
from logwright.tables.spill import BUFFER_BYTES, Spill
from logwright.tables.update import (
    Pending,
    commit_pending,
    drop_gone,
    form_of,
    plan_source,
    recorded_of,
    unchanged,
)
from logwright.tables.work import PartitionResult, PartitionSource, Target, UpdateResult
from logwright.tables.write import FileChanges, NewRows, change_bucket, write_again
from logwright.units import INT64_MAX

_TOGETHER: Final = "another partition of the topic is made again"
_FORGOTTEN: Final = "what the table knew of keys in several partitions is gone"
_OLDER: Final = "a key has a record that is older than the one before it, and others elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Read:
    """What was read of a partition.

    Attributes:
        intake: has the rows of its new heads; heads: all of them.
        held: offsets of the records that the log has, if that is compared.
        vanishing: of a log that was read from its start.
    """

    source: PartitionSource
    step: PartitionStep
    intake: Intake
    heads: Spill
    held: BitMap64 | None
    vanishing: Vanishing | None = None

    def new_heads(self, bucket: int) -> pa.Table:
        """Return the new heads of a bucket: those before a truncation give their key no row."""
        heads = heads_table(self.heads.read(bucket))
        before = pc.less(heads[OFFSET], self.intake.truncated_below)
        at = heads.schema.get_field_index(DEAD)
        return heads.set_column(at, HEADS.field(at), pc.or_(heads[DEAD], before))


class _Changed(NamedTuple):
    """What changes in a bucket.

    Attributes:
        hidden: the hidden heads until now.
        new: the new ones.
        in_log: those of them that were read from a log.
        keys: all that are concerned; None: every key is.
    """

    hidden: pa.Table
    new: pa.Table
    in_log: pa.Table
    keys: pa.ChunkedArray | None

    def concerns(self, heads: pa.Table) -> pa.BooleanArray:
        """Return which heads are of a key that is concerned."""
        if self.keys is None:
            return pa.array([True] * len(heads), pa.bool_())
        return pa.array(of_keys(heads, self.keys))


@dataclass(slots=True, kw_only=True, eq=False)
class _Update:
    """An update.

    Attributes:
        progress: what the table holds of each partition; files: those of each, by bucket.
        hidden: its hidden heads until now.
        renewed: all heads until now, if their keys are decoded in another way; None: they are not.
        buckets: of the table.
        now_ms: when the logs were observed.
        reads: partition → what was read of it.
        changes: partition → what the commit changes; counts: rows written.
        lacking: partitions of which a row is missing, since their log could not be read again.
    """

    target: Target
    progress: Mapping[int, Progress]
    files: Mapping[int, Mapping[int, Sequence[DataFile]]]
    hidden: HiddenHeads
    renewed: Renewed | None
    buckets: int
    now_ms: int
    reads: dict[int, _Read] = field(default_factory=dict)
    changes: dict[int, FileChanges] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    lacking: set[int] = field(default_factory=set)

    @property
    def again(self) -> bool:
        """Whether partitions are made again that had rows before."""
        return any(number in self.progress and self._is_made(number) for number in self.reads)

    @property
    def erased(self) -> bool:
        """Whether it takes out what was erased."""
        return any(read.step.erased for read in self.reads.values())

    @property
    def is_due(self) -> bool:
        """Whether deleted keys can be forgotten."""
        first_ms = self.hidden.first_ms
        return first_ms is not None and first_ms <= self.now_ms - self.target.keep_ms

    def note(self, pending: Pending, name: str | None) -> None:
        """Note what is known of each partition afterwards, with the name of the hidden heads."""
        for number, progress in pending.progress.items():
            doubt = _TOGETHER if number in self.lacking else progress.in_doubt
            pending.progress[number] = replace(progress, heads=name, in_doubt=doubt)
        pending.changed = True

    def lacks(self) -> bool:
        """Return whether a hidden head needs a row. Effects: may read keys of the table."""
        for bucket in range(self.buckets):
            changed = self._changed(bucket)
            hidden = changed.hidden.filter(changed.concerns(changed.hidden))
            known = Known(hidden=hidden, rows=HEADS.empty_table(), new=changed.new)
            perhaps = decide(known).lacking[KEY]
            if len(perhaps):
                rows, _ = self._rows(bucket, changed._replace(keys=perhaps))
                if len(decide(replace(known, rows=rows)).lacking):
                    return True
        return False

    def write(self, writer: HiddenWriter) -> None:
        """Write all buckets. After an erasure the deleted keys that no log has are forgotten: it is
        unknown of which records were erased. Effects: reads keys of the table, writes files.
        """
        until_ms = self.now_ms - self.target.keep_ms
        for bucket in range(self.buckets):
            changed = self._changed(bucket)
            rows, before = self._rows(bucket, changed)
            concerned = changed.concerns(changed.hidden)
            hidden = pa.concat_tables([changed.hidden.filter(concerned), before])
            decision = decide(Known(hidden=hidden, rows=rows, new=changed.new))
            for number in sorted({*self.files, *self.reads}):
                self._write_rows(number, bucket, decision)
            self.lacking.update(decision.lacking[PARTITION].to_pylist())
            others = changed.hidden.filter(pc.invert(concerned))
            kept = pa.concat_tables([decision.hidden, decision.lacking, others]).combine_chunks()
            in_log = changed.in_log if self.erased else None
            old = expired(others, until_ms, in_log=in_log)[KEY]
            shown = pa.concat_tables(
                [
                    decision.written,
                    rows.filter(pa.array(~of_keys(rows, decision.replaced[KEY]))),
                    self._rows(bucket, changed._replace(keys=old))[0],
                ]
            )[KEY]
            heads = remembered(kept, until_ms, shown=shown, now_ms=self.now_ms, in_log=in_log)
            writer.write(bucket, heads)
        for number, read in self.reads.items():
            if self._is_made(number):
                old = (file for files in self.files.get(number, {}).values() for file in files)
                self._changes(number).removed.extend(old)
            read.intake.refused.commit()

    def _is_made(self, number: int) -> bool:
        """Whether all rows of a partition are made."""
        return number in self.reads and self.reads[number].step.kind == "rebuild"

    def _changes(self, number: int) -> FileChanges:
        purges = number in self.reads and self.reads[number].step.purges
        return self.changes.setdefault(number, FileChanges(purges=purges))

    def _changed(self, bucket: int) -> _Changed:
        """Return what changes in a bucket. Effects: reads; also the keys and offsets of partitions
        that are compared with their log.
        """
        hidden, new, in_log = [], [], []
        known = self.hidden.read(bucket) if self.renewed is None else self.renewed.hidden(bucket)
        for number, heads in _by_partition(known):
            read = self.reads.get(number)
            if number not in self.progress:
                continue
            if read is None:
                hidden.append(heads)
            elif read.vanishing is not None:
                hidden.append(read.vanishing.left(heads))
            else:
                hidden.append(heads)
                new.append(self._vanished(read, heads))
        for number, read in self.reads.items():
            if read.held is not None:
                new.append(self._vanished(read, self._heads(number, bucket)))
            in_log.append(read.new_heads(bucket))
        changes = heads_table([*new, *in_log])
        keys = None if self.again else changes[KEY]
        return _Changed(heads_table(hidden), changes, heads_table(in_log), keys)

    def _vanished(self, read: _Read, heads: pa.Table) -> pa.Table:
        """Return the heads whose record is gone, as dead."""
        if read.held is None:
            return HEADS.empty_table()
        return as_dead(heads.filter(pa.array(vanished(heads, read.held))), self.now_ms)

    def _rows(self, bucket: int, changed: _Changed) -> tuple[pa.Table, pa.Table]:
        """Return the heads that have rows, and what is left of those of partitions that are made
        again. Effects: reads keys.
        """
        if changed.keys is not None and not len(changed.keys):
            return HEADS.empty_table(), HEADS.empty_table()
        rows, before = [], []
        for number, progress in self.progress.items():
            if progress.in_doubt is not None:
                continue
            heads = self._heads(number, bucket)
            heads = heads.filter(changed.concerns(heads))
            read = self.reads.get(number)
            if read is None or read.vanishing is None:
                rows.append(heads)
            else:
                before.append(read.vanishing.left(heads))
        return heads_table(rows), heads_table(before)

    def _heads(self, number: int, bucket: int) -> pa.Table:
        """Return the heads of a partition that have rows. Effects: reads."""
        if self.renewed is not None:
            return self.renewed.rows(number, bucket)
        target = self.target
        identity = target.identity
        key = target.key_before or target.columns.key
        names = [key, OFFSET, TIMESTAMP, *([] if identity is None else [KEY])]
        heads = []
        for file in self.files.get(number, {}).get(bucket, ()):
            with target.store.source(file) as opened:
                batches = read_batches(opened, names)
                for batch in without(batches, target.store.deleted(file)):
                    no_row = pa.array([False] * len(batch), pa.bool_())
                    known = None if identity is None else identity.of_rows(batch[KEY], number)
                    origin = batch.columns[:3]
                    heads.append(as_heads(origin, number, no_row, self.now_ms, known))
        return heads_table(heads)

    def _write_rows(self, number: int, bucket: int, decision: Decision) -> None:
        """Write a partition's rows of a bucket, and delete those that go. Effects: as said."""
        target, place = self.target, (number, bucket)
        files = self.files.get(number, {})
        chosen, gone = (
            heads.filter(pc.equal(heads[PARTITION], number))
            for heads in (decision.written, decision.replaced)
        )
        self.counts[number] = self.counts.get(number, 0) + len(chosen)
        new = NewRows(
            partial(self._new_rows, number, bucket, chosen[OFFSET].to_numpy()),
            raw_keys(gone),
        )
        changes = self._changes(number)
        if self._is_made(number):
            if len(chosen) or (target.store.keeps_empty and bucket in {0, *files}):
                write_again(target, place, (), new, changes)
            return
        old = files.get(bucket, ())
        marked = changes.purges and any(len(target.store.deleted(file)) for file in old)
        if len(chosen) or len(gone) or marked:
            change_bucket(target, place, old, new, changes)

    def _new_rows(
        self, number: int, bucket: int, offsets: NDArray[np.int64]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some new records. Effects: reads what was spilled."""
        if not len(offsets):
            return
        for batch in self.reads[number].intake.rows.read(bucket):
            rows = batch.filter(pa.array(np.isin(batch[OFFSET].to_numpy(), offsets)))
            if len(rows):
                yield rows


def update_whole_topic(target: Target, sources: Sequence[PartitionSource]) -> UpdateResult:
    """Bring a table up to date: else as `update_table`. Effects: reads the logs, writes and commits
    files.

    Raises:
        UnknownTable, OtherForm, InDoubt: the table is not one that can be continued.
        OSError, pyarrow.ArrowException, errors of the format's library: it cannot be written.
    """
    before = target.store.load()
    form = form_of(target, before, sources)
    pending = Pending(progress={} if before is None else recorded_of(before, sources))
    gone = drop_gone(before, sources, pending)
    name = next((one.heads for one in pending.progress.values() if one.heads), None)
    if before is not None and before.has_erased:
        remove_old(target.hidden, name, 0)
    steps, failures = _planned(target, sources, pending.progress)
    commits = 0
    with ExitStack() as stack:
        hidden, why = _opened(stack, target, name)
        files = _files(before, {*pending.progress, *steps})
        update = partial(
            _Update,
            target=target,
            progress=dict(pending.progress),
            files=files,
            hidden=hidden,
            renewed=renewed(stack, target, files, hidden, form.buckets),
            buckets=form.buckets,
            now_ms=max((one.observed.now_ms for one in sources), default=0),
        )
        steps = together(target.unique, steps, pending.progress, target.again or why)
        done = _read_all(stack, update(), sources, (steps, failures))
        if not done.again and done.lacks():
            steps = together(target.unique, steps, pending.progress, _OLDER)
            done = _read_all(stack, update(), sources, (steps, failures))
        if target.again and failures:  # all of it is made again, or nothing
            return UpdateResult(snapshot=before, changed=False, partitions=(), failures=failures)
        erased = before is not None and before.has_erased
        if done.reads or done.is_due or pending.changed or erased:
            if before is None:
                target.store.prepare(form, target.columns.full)
            passed = target.hidden.listing()
            with written(target.hidden) as writer:
                done.write(writer)
            results = _account(pending, done, sources, steps)
            done.note(pending, writer.name)
            commits += commit_pending(target, form, pending)
            keep_ms = 0 if done.erased or erased else target.keep_ms
            remove_old(target.hidden, writer.name, keep_ms, passed)
        else:
            results = _account(pending, done, sources, steps)
    return UpdateResult(
        snapshot=target.store.load(),
        changed=commits > 0,
        partitions=results,
        failures=failures,
        gone=gone,
    )


def _planned(
    target: Target, sources: Sequence[PartitionSource], recorded: Mapping[int, Progress]
) -> tuple[dict[int, PartitionStep], dict[int, LogwrightError]]:
    """Return partition → step, and the errors of those that cannot be planned. Effects: reads."""
    steps, failures = {}, {}
    for source in sources:
        number = source.partition
        try:
            step = plan_source(source, recorded.get(number), target.keep_ms)
            step = made_again(step, target.again) if target.again else step
            # A row below a new log start can hide one of another partition.
            steps[number] = replace(step, compares=True) if step.trims_below is not None else step
        except LogwrightError as error:
            failures[number] = error.as_value()
    return steps, failures


def together(
    unique: Unique,
    steps: Mapping[int, PartitionStep],
    recorded: Collection[int],
    why: str,
) -> dict[int, PartitionStep]:
    """Return the steps of a whole topic: if one partition is made again, or its log start moved, so
    that rows go which may have hidden others, all are whose rows may be of the same keys.

    Args:
        unique: where a key has one row.
        recorded: partitions that the table has.
        why: all are in any case; empty: not.
    """
    if unique == "topic" and any(
        _is_again(step) and number in recorded for number, step in steps.items()
    ):
        why = why or _TOGETHER
    return {
        number: PartitionStep(
            kind="rebuild",
            start_offset=None,
            end_offset=step.end_offset,
            reason=step.reason if _is_again(step) else why,
            forgets=step.forgets,
            has_other_columns=step.has_other_columns,
            erased=step.erased,
            deletes=True,
        )
        if why or _is_again(step)
        else step
        for number, step in steps.items()
    }


def _is_again(step: PartitionStep) -> bool:
    return step.kind == "rebuild" or step.trims_below is not None


def _opened(stack: ExitStack, target: Target, name: str | None) -> tuple[HiddenHeads, str]:
    """Return the hidden heads, and why the table must be made again without them."""
    try:
        return stack.enter_context(HiddenHeads(target.hidden, name)), ""
    except FileNotFoundError:
        return HiddenHeads(target.hidden, None), _FORGOTTEN


def _files(
    before: Snapshot | None, partitions: Iterable[int]
) -> dict[int, Mapping[int, Sequence[DataFile]]]:
    return {} if before is None else {number: before.by_bucket(number) for number in partitions}


def _read_all(
    stack: ExitStack,
    update: _Update,
    sources: Sequence[PartitionSource],
    planned: tuple[Mapping[int, PartitionStep], dict[int, LogwrightError]],
) -> _Update:
    """Read what is new of each log, and add errors to those of the plan. Effects: reads; spills."""
    steps, failures = planned
    erased = any(step.erased for step in steps.values())
    limit = BUFFER_BYTES // max(len(sources), 1)
    for source in sources:
        step = steps.get(source.partition)
        if step is None or step.kind == "nothing":
            continue
        recorded = update.progress.get(source.partition)
        spill = partial(Spill, buckets=update.buckets, directory=update.target.work, limit=limit)
        try:
            files = update.files.get(source.partition, {})
            read = _read(stack, update.target, (source, step), spill, files)
            if step.kind == "rebuild" and recorded is not None:
                vanishing = _vanishing(source, recorded, step, erased=erased)
                read = replace(read, vanishing=vanishing)
        except LogwrightError as error:
            failures[source.partition] = error.as_value()
        else:
            failures.pop(source.partition, None)
            update.reads[source.partition] = read
    return update


def _read(
    stack: ExitStack,
    target: Target,
    planned: tuple[PartitionSource, PartitionStep],
    spill: NewSpill,
    files: Files,
) -> _Read:
    """Read what is new of a log. Effects: reads; spills.

    Raises:
        LogwrightError: the log cannot be read.
    """
    source, step = planned
    columns, number = target.columns, source.partition
    rows, waiting = (stack.enter_context(spill(columns.stored, columns.key)) for _ in range(2))
    heads = stack.enter_context(spill(HEADS, KEY))
    intake = Intake(
        target=target,
        source=source,
        step=step,
        rows=rows,
        waiting=waiting,
        new_spill=spill,
        refused=stack.enter_context(target.quarantine.opened(number, step)),
    )
    for batch, no_row, known in intake.read():
        origin = (batch[KEY], batch[OFFSET], batch[TIMESTAMP])
        heads.add(as_heads(origin, number, no_row, source.observed.now_ms, known))
    # A record of another partition may hide the row that this one had: the log has its values.
    intake.complete(files if step.kind == "upsert" else {}, None)
    held = source.held(step.start_offset or 0) if step.compares else None
    return _Read(
        source=source,
        step=step,
        intake=intake,
        heads=heads,
        held=BitMap64() if intake.truncated_below else held,
    )


def _vanishing(
    source: PartitionSource, recorded: Progress, step: PartitionStep, *, erased: bool
) -> Vanishing:
    """Return what is known of a log for what it does not have any more; a running broker's cleaner
    is further than its checkpoint. Effects: reads headers.
    """
    observed = source.observed
    batches = source.batches(observed.end_offset, None)
    cleaned_to = None if batches is None else batches.cleaned_to
    if cleaned_to is None:  # never cleaned, or without the checkpoint that it had
        was_cleaned = recorded.batches is not None and recorded.batches.cleaned_to is not None
        cleaned_to = INT64_MAX if was_cleaned else 0
    if observed.running and not step.forgets:
        cleaned_to = observed.end_offset
    return Vanishing(
        log_start_offset=observed.log_start_offset,
        cleaned_to=min(cleaned_to, observed.end_offset),
        now_ms=observed.now_ms,
        erased=erased,
        another=recorded.topic_id != observed.topic_id,
    )


def _by_partition(heads: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    for number in pc.unique(heads[PARTITION]).to_pylist():
        yield number, heads.filter(pc.equal(heads[PARTITION], number))


def _account(
    pending: Pending,
    done: _Update,
    sources: Sequence[PartitionSource],
    steps: Mapping[int, PartitionStep],
) -> tuple[PartitionResult, ...]:
    """Add what was done to what is committed; return it by partition. Effects: reads headers."""
    results = []
    for source in sources:
        number = source.partition
        read, changes = done.reads.get(number), done.changes.pop(number, FileChanges())
        lost = changes.lost
        if read is not None:
            result = PartitionResult(
                partition=number,
                step=read.step,
                held=read.step.end_offset,
                written=done.counts.get(number, 0),
                deleted=lost.deleted,
                replaced=lost.replaced,
                buckets=len(changes.added),
                **read.intake.counts,
            )
            pending.add(source, result, changes)
            results.append(result)
            continue
        if number in pending.progress:
            _take(pending, number, changes, source.observed.now_ms)
        if number in steps and steps[number].kind == "nothing":
            result = unchanged(source, steps[number])
            results.append(replace(result, deleted=lost.deleted, replaced=lost.replaced))
    for number, changes in done.changes.items():
        _take(pending, number, changes, done.now_ms)
    return tuple(results)


def _take(pending: Pending, number: int, changes: FileChanges, now_ms: int) -> None:
    """Take the rows that a partition has lost to others."""
    before = pending.progress[number]
    since_ms = before.deleted_since_ms
    if since_ms is None and any(changes.deleted.values()):
        since_ms = now_ms
    pending.progress[number] = replace(
        before, rows=(before.rows or 0) - changes.lost.replaced, deleted_since_ms=since_ms
    )
    pending.files.add(changes)
