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
from logwright.tables.model import Commit, Form, OtherForm, Progress, Snapshot
from logwright.tables.plan import (
    PartitionStep,
    asks_for_missing,
    differences,
    gone_partitions,
    plan_partition,
)
from logwright.tables.work import PartitionResult, PartitionSource, Target, UpdateResult
from logwright.tables.write import FileChanges, update_partition

COMMIT_BYTES: Final = 1 << 30
"""At this number of bytes, files are committed before the next partition begins."""


@dataclass(slots=True)
class _Pending:
    """What is not committed yet."""

    progress: dict[int, Progress]
    files: FileChanges = field(default_factory=FileChanges)
    changed: bool = False

    @property
    def bytes(self) -> int:
        """Size of the new files."""
        return sum(file.bytes for file in self.files.added)

    def add(self, source: PartitionSource, files: FileChanges) -> None:
        """Take what was done for a partition."""
        end = source.observed.end_offset
        observed = replace(
            source.observed, tail=source.tail(end), batches=source.batches(end, None)
        )
        self.progress[source.partition] = observed.progress
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
    form = _form(target, before, sources)
    pending = _Pending(progress=dict(before.progress) if before is not None else {})
    gone = _drop_gone(before, sources, pending)
    results: list[PartitionResult] = []
    failures: dict[int, LogwrightError] = {}
    commits = 0
    for source in sources:
        try:
            step = _plan(source, None if before is None else before.progress.get(source.partition))
            if step.kind == "nothing":
                results.append(_unchanged(source, step))
                continue
            if before is None:
                store.prepare(form, target.columns.full)
            result, files = update_partition(target, form, source, step, before)
        except LogwrightError as error:
            failures[source.partition] = error
            continue
        results.append(result)
        pending.add(source, files)
        if pending.bytes >= COMMIT_BYTES:
            commits += _commit(target, form, pending)
    commits += _commit(target, form, pending)
    return UpdateResult(
        snapshot=store.load(),
        changed=commits > 0,
        partitions=tuple(results),
        failures=failures,
        gone=gone,
    )


def _plan(source: PartitionSource, recorded: Progress | None) -> PartitionStep:
    """Plan a partition's step. Effects: reads a header; all new ones if it depends on them, and all
    if the log's files are others than before.

    Raises:
        LogwrightError: the log cannot be read.
    """
    observed = source.observed
    if recorded is not None:
        observed = replace(observed, tail=source.tail(recorded.end_offset))
        if recorded.batches is not None:
            batches = source.batches(recorded.end_offset, recorded.batches)
            observed = replace(observed, batches=batches)
    if recorded is not None and asks_for_missing(recorded, observed):
        missing = source.missing(recorded.end_offset, observed.end_offset)
        observed = replace(observed, missing_offset=missing)
    return plan_partition(recorded, observed)


def _unchanged(source: PartitionSource, step: PartitionStep) -> PartitionResult:
    return PartitionResult(partition=source.partition, step=step, held=step.end_offset)


def _drop_gone(
    before: Snapshot | None, sources: Sequence[PartitionSource], pending: _Pending
) -> tuple[int, ...]:
    """Remove the partitions of an earlier topic of the same name, and return them."""
    if before is None:
        return ()
    present = frozenset(source.partition for source in sources)
    topics = frozenset(source.observed.topic_id for source in sources)
    gone = gone_partitions(before.progress, topics, present)
    for partition in gone:
        del pending.progress[partition]
        pending.files.removed.extend(file for file in before.files if file.partition == partition)
        pending.changed = True
    return gone


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
        asked=target.asked,
        decoding=target.decoding,
    )
    why = None if before is None else differences(before.form, form)
    if why is not None:
        raise OtherForm(
            f"the table {target.store.name} cannot be continued: {why}.",
            remedy="Remove the table, or give another path; it is then made again from the log.",
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
            added=tuple(pending.files.added),
            removed=tuple(pending.files.removed),
            deleted=pending.files.deleted,
        ),
        target.columns.full,
    )
    pending.files, pending.changed = FileChanges(), False
    return True
