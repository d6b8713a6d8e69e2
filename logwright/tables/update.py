"""Update a table from the logs of a topic's partitions: plan, read, rewrite, commit.

1. Each partition's step is planned from what the table records and what the log is now.
2. Its records are decoded and distributed to buckets; tombstones, and records that cannot be
   decoded, take the row of their key away.
3. Buckets with changed keys are changed, one after the other: files are written, and old rows are
   deleted.
4. The new files are committed together with the progress.

A killed update has committed all of a partition or nothing; the next one continues. Memory is that
of one bucket's changed keys, a spill's buffer and a row group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from logwright.errors import LogwrightError
from logwright.tables.buckets import bucket_count
from logwright.tables.model import Commit, Form, InDoubt, OtherForm, Progress, Snapshot
from logwright.tables.plan import (
    PartitionStep,
    are_comparable,
    differences,
    gone_partitions,
    made_again,
    other_log,
    plan_partition,
)
from logwright.tables.work import PartitionResult, PartitionSource, Target, UpdateResult
from logwright.tables.write import FileChanges, update_partition

_REMOVE: Final = "Remove the table, or give another path; it is then made again from the log."
_MADE_AGAIN: Final = (
    "`latest --rebuild` makes it again from the log. Or remove the table, or give another path."
)
COMMIT_BYTES: Final = 1 << 30
"""At this number of bytes, files are committed before the next partition begins."""


@dataclass(slots=True)
class Pending:
    """What is not committed yet."""

    progress: dict[int, Progress]
    files: FileChanges = field(default_factory=FileChanges)
    changed: bool = False

    @property
    def bytes(self) -> int:
        """Size of the new files."""
        return sum(file.bytes for file in self.files.added)

    def add(self, source: PartitionSource, done: PartitionResult, files: FileChanges) -> None:
        """Take what was done for a partition. Effects: reads headers.

        Raises:
            LogwrightError: the log cannot be read, or what was read is not its history any more.
        """
        end = source.observed.end_offset
        observed = replace(
            source.observed,
            tail=source.tail(end),
            batches=source.batches(end, None),
            epoch=source.epoch(end - 1),
        )
        source.settle()
        rows, since_ms = done.written, None
        if done.step.kind == "upsert":
            before = self.progress[source.partition]
            rows += (before.rows or 0) - done.replaced
            since_ms = None if done.step.purges else before.deleted_since_ms
            if since_ms is None and any(files.deleted.values()):
                since_ms = observed.now_ms
        self.progress[source.partition] = replace(
            observed.progress, rows=rows, deleted_since_ms=since_ms, erased=done.step.erased
        )
        self.files.add(files)
        self.changed = True


def update_table(target: Target, sources: Sequence[PartitionSource]) -> UpdateResult:
    """Bring a table up to date. Effects: reads the logs, writes and commits files. The caller is
    the only one that updates the table, and has called `Store.recover`.

    Raises:
        UnknownTable, OtherForm: the table is not one that can be continued.
        OSError, pyarrow.ArrowException, errors of the format's library: it cannot be written.
    """
    store = target.store
    before = store.load()
    form = form_of(target, before, sources)
    pending = Pending(progress={} if before is None else recorded_of(before, sources))
    gone = drop_gone(before, sources, pending)
    results: list[PartitionResult] = []
    failures: dict[int, LogwrightError] = {}
    commits = 0
    for source in sources:
        try:
            step = plan_source(source, pending.progress.get(source.partition), target.keep_ms)
            step = made_again(step, target.again) if target.again else step
            if step.kind == "nothing":
                results.append(unchanged(source, step))
                continue
            if before is None:
                store.prepare(form, target.columns.full)
            result, files = update_partition(target, form, source, step, before)
            pending.add(source, result, files)
        except LogwrightError as error:
            failures[source.partition] = error.as_value()
            continue
        results.append(result)
        if pending.bytes >= COMMIT_BYTES and not target.again:
            commits += commit_pending(target, form, pending)
    if target.again and failures:  # all of it is made again, or nothing
        return UpdateResult(snapshot=before, changed=False, partitions=(), failures=failures)
    commits += commit_pending(target, form, pending)
    return UpdateResult(
        snapshot=store.load(),
        changed=commits > 0,
        partitions=tuple(results),
        failures=failures,
        gone=gone,
    )


def recorded_of(before: Snapshot, sources: Sequence[PartitionSource]) -> dict[int, Progress]:
    """Return what is known of the rows of each partition. Erased records of earlier versions are
    gone by now.

    Raises:
        InDoubt: another program has changed rows of a partition that has no log here.
    """
    recorded: dict[int, Progress] = {}
    for partition, progress in before.doubted.items():
        noted = progress.rows is not None
        rows = progress.rows if noted else before.of_partition(partition).rows
        since_ms = progress.deleted_since_ms if noted else 0  # not known: long ago
        marked = before.deleted.get(partition, 0) > 0
        since_ms = since_ms if marked else None
        recorded[partition] = replace(progress, rows=rows, deleted_since_ms=since_ms, erased=False)
    doubted = {number for number, one in recorded.items() if one.in_doubt is not None}
    if before.in_doubt is not None and not recorded:  # not even that is known
        doubted = {file.partition for file in before.files}
    topics = frozenset(source.observed.topic_id for source in sources)
    present = frozenset(source.partition for source in sources)
    lost = sorted(doubted - present - set(gone_partitions(recorded, topics, present)))
    if lost:
        raise InDoubt(
            "another program has changed the table"
            f" ({before.in_doubt or recorded[lost[0]].in_doubt}), and partition {lost[0]} has no"
            " log here to make its rows again from.",
            path=None,
            remedy="Give the log directory that has it, or remove the table; it is then made again"
            " from the logs that are there.",
        )
    return recorded


def plan_source(source: PartitionSource, recorded: Progress | None, keep_ms: int) -> PartitionStep:
    """Plan a partition's step. Effects: reads headers: those of the new batches, and one more; all
    if the log's files are others than before.

    Raises:
        LogwrightError: the log cannot be read.
    """
    observed = source.observed
    if recorded is not None:
        end = recorded.end_offset
        observed = replace(observed, tail=source.tail(end), epoch=source.epoch(end - 1))
        if recorded.batches is not None and are_comparable(recorded, observed):
            batches = source.batches(end, recorded.batches)
            observed = replace(observed, batches=batches)
        if other_log(recorded, observed) is None and recorded.in_doubt is None:
            missing = source.missing(end, max(end, observed.end_offset))
            observed = replace(observed, missing_offset=missing)
    return plan_partition(recorded, observed, keep_ms=keep_ms)


def unchanged(source: PartitionSource, step: PartitionStep) -> PartitionResult:
    """Return what was done for a partition that has nothing new."""
    return PartitionResult(partition=source.partition, step=step, held=step.end_offset)


def drop_gone(
    before: Snapshot | None, sources: Sequence[PartitionSource], pending: Pending
) -> tuple[int, ...]:
    """Remove the partitions of an earlier topic of the same name, and return them; and files of
    other programs that are of no partition.
    """
    if before is None:
        return ()
    present = frozenset(source.partition for source in sources)
    known = present | before.progress.keys()
    unknown = [file for file in before.files if file.partition not in known]
    pending.files.removed.extend(unknown)
    pending.changed = bool(unknown)
    topics = frozenset(source.observed.topic_id for source in sources)
    gone = gone_partitions(before.progress, topics, present)
    for partition in gone:
        del pending.progress[partition]
        pending.files.removed.extend(file for file in before.files if file.partition == partition)
        pending.changed = True
    return gone


def form_of(target: Target, before: Snapshot | None, sources: Iterable[PartitionSource]) -> Form:
    """Return the form of the table.

    Raises:
        OtherForm: the table has another one.
    """
    buckets = target.buckets
    if buckets is None:
        sizes = [source.log_bytes for source in sources]
        sizes = [sum(sizes)] if target.remembers else sizes  # a bucket's keys are in memory
        buckets = bucket_count(sizes) if before is None else before.form.buckets
    form = Form(
        topic=target.topic,
        buckets=buckets,
        columns=target.columns.pairs,
        asked=target.asked,
        decoding=target.decoding,
        unique=target.unique,
        unique_by=target.unique_by,
    )
    if before is None:
        return form
    known = before.form
    lasting = differences(known, replace(form, asked=known.asked, columns=known.columns))
    why = lasting if target.again else differences(known, form)
    if why is not None:
        raise OtherForm(
            f"the table {target.store.name} cannot be continued: {why}.",
            remedy=_MADE_AGAIN if lasting is None else _REMOVE,
        )
    return form


def commit_pending(target: Target, form: Form, pending: Pending) -> bool:
    """Commit what is pending, if there is something; return whether there was."""
    if not pending.changed:
        return False
    target.store.commit(
        Commit(
            form=form,
            progress=dict(pending.progress),
            added=tuple(pending.files.added),
            removed=tuple(pending.files.removed),
            deleted=pending.files.deleted,
        ),
        target.columns.full,
    )
    pending.files, pending.changed = FileChanges(), False
    return True
