"""The tasks of a cleaning that is split, each a function of a module that any process can call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Runtime, Throttle, in_order, silent
from logwright.checks.quick import examine_quickly
from logwright.compaction import split
from logwright.compaction.build import rewrite
from logwright.compaction.record_limit import require_within_limit
from logwright.compaction.survivors import open_sources
from logwright.errors import enough_memory
from logwright.format.index import AbortedTransaction
from logwright.format.scan import BATCH
from logwright.keys.exchange import KEY_ROW, KeyRows, NewestKeys
from logwright.keys.receipt import KeyFacts
from logwright.maintenance.copy import write_stored
from logwright.maintenance.scratch import (
    no_room_or_unreadable,
    own_temporary,
    working_directory,
)
from logwright.maintenance.split.model import (
    GroupBuilt,
    GroupTask,
    KeysRead,
    Piece,
    RewriteTask,
    ShardFound,
    ShardTask,
    TransactionsTask,
)
from logwright.maintenance.split.objects import JobObjects, Stored
from logwright.place.files import open_log_dir
from logwright.rewrite.staging import new_staging
from logwright.units import ByteCount, Offset
from logwright.upload.upload import Files

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.batches.source import Source
    from logwright.bucket.commit import Operation
    from logwright.bucket.store import Bucket
    from logwright.bucket.stored import StoredFile
    from logwright.compaction.model import CleanPlan

_AT_ONCE: Final = 4
"""Objects that a task reads at once."""
_COPIES: Final = 2
"""A group and what it becomes."""
_ALL: Final = 1 << 64


def read_keys(task: GroupTask, *, runtime: Runtime) -> KeysRead:
    """Read the keys of a group. Effects: reads its segments; writes objects of the job.

    Raises:
        CorruptBatch, UnsupportedFormatError: a batch cannot be read.
        StalePlan, UnreadableFile, CorruptLogError, DiskFull, OutOfMemory, Unsettled: see
            `write_stored`, `JobObjects`.
    """
    objects = task.job.objects
    with _local(task, runtime, copies=1) as (plan, sources):
        thin = [split.thin(source) for source in sources]
        has_transactions = split.has_transactions(sources)
        thin_stored = objects.put_arrays(**_numbered(thin))
        if has_transactions and task.fates is None:
            return KeysRead(thin_stored, has_transactions)
        if task.fates is not None:
            split.set_fates(sources, fates_of(objects, task.fates))
        pieces: list[Piece] = []
        reader = KeyRows(
            records=sum(source.records for source in sources),
            key=task.job.key,
            shards=task.job.shards,
            give=lambda rows, counts: pieces.append(_put_rows(objects, rows, counts)),
            throttle=runtime.throttle,
        )
        reader.read(split.reading_of(plan, sources))
        read = objects.put_arrays(
            null_keys=reader.null_keys, expired=reader.expired, notes=split.notes_of(sources)
        )
    return KeysRead(thin_stored, has_transactions, read, tuple(pieces), reader.offered)


def _put_rows(objects: JobObjects, rows: NDArray[np.void], counts: NDArray[np.int64]) -> Piece:
    """Write rows, KEY_ROW[n], by shard. Effects: as said."""
    ends = np.cumsum(counts[0])
    crcs = np.array(
        [
            google_crc32c.value(rows[end - length : end].tobytes())
            for end, length in zip(ends.tolist(), counts[0].tolist(), strict=True)
        ],
        dtype=np.uint32,
    )
    return Piece(objects.put(rows.tobytes()).key, counts, crcs)


def parts_of(piece: Piece) -> tuple[Stored, ...]:
    """Return the part of each shard."""
    sizes = piece.counts[0] * KEY_ROW.itemsize
    starts = np.cumsum(sizes) - sizes
    return tuple(
        Stored(piece.key, start, size, crc)
        for start, size, crc in zip(
            starts.tolist(), sizes.tolist(), piece.crcs.tolist(), strict=True
        )
    )


def decide_transactions(task: TransactionsTask, *, runtime: Runtime) -> tuple[Stored, ...]:
    """Decide about the transactions of a log; return what that is for each group. Effects: reads
    what the groups have left, the transaction indexes, and headers of the segments after them;
    writes objects of the job.

    Raises:
        CorruptIndex, CorruptProducerSnapshot, UnsupportedFormatError: see `split.decide`.
        StalePlan, UnreadableFile, CorruptLogError, OutOfMemory, Unsettled: see `JobObjects`.
    """
    del runtime
    objects = task.job.objects
    with enough_memory(task.plan.log.directory):
        rows: list[NDArray[np.void]] = []
        for arrays in in_order(
            (partial(objects.get_arrays, part) for part in task.thin), threads=_AT_ONCE
        ):
            rows += [arrays[name].astype(BATCH) for name in sorted(arrays)]
        fates = split.decide(task.plan, task.groups, rows)
    return tuple(_put_fates(objects, each) for each in fates)


def _put_fates(objects: JobObjects, fates: split.Fates) -> Stored:
    aborted = [
        (
            each.version,
            each.producer_id,
            each.first_offset,
            each.last_offset,
            each.last_stable_offset,
        )
        for each in fates.aborted
    ]
    return objects.put_arrays(
        intervals=fates.intervals,
        aborted=np.array(aborted, dtype=np.int64).reshape(-1, 5),
        **_numbered(fates.flags),
    )


def fates_of(objects: JobObjects, stored: Stored) -> split.Fates:
    """Return what transactions decide about a group. Effects and errors: see `JobObjects.get`."""
    arrays = objects.get_arrays(stored)
    intervals, aborted = arrays.pop("intervals"), arrays.pop("aborted")
    return split.Fates(
        flags=tuple(arrays[name].astype(np.uint8) for name in sorted(arrays)),
        aborted=tuple(
            AbortedTransaction(
                version=version,
                producer_id=producer,
                first_offset=Offset(first),
                last_offset=Offset(last),
                last_stable_offset=Offset(stable),
            )
            for version, producer, first, last, stable in aborted.tolist()
        ),
        intervals=intervals.astype(np.int64),
    )


def _numbered(arrays: Sequence[NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
    """Return arrays by names that sort as they do."""
    return {f"a{number:08d}": array for number, array in enumerate(arrays)}


def find_superseded(task: ShardTask, *, runtime: Runtime) -> ShardFound:
    """Find the records of one shard that a later one supersedes. Effects: reads and writes objects
    of the job.

    Raises:
        StalePlan, UnreadableFile, CorruptLogError, OutOfMemory, Unsettled: see `JobObjects`.
    """
    objects = task.job.objects

    def rows(numbers: Sequence[int]) -> Iterable[NDArray[np.void]]:
        reads = (partial(_rows_of, objects, task.parts[number]) for number in numbers)
        for each in in_order(reads, threads=_AT_ONCE):
            runtime.throttle.observe(each.nbytes)
            yield each

    rows_of = [sum(part.bytes for part in parts) // KEY_ROW.itemsize for parts in task.parts]
    with enough_memory(task.job.directory):
        shard = NewestKeys(
            shard=task.shard,
            shards=task.job.shards,
            rows=rows,
            counts=np.array(rows_of, dtype=np.int64),
            inserted=task.inserted,
            cleaner=task.cleaner,
        ).find()
        nothing = np.zeros(0, dtype=np.uint32)
        dead = [shard.dead.get(number, nothing) for number in range(len(task.parts))]
        stored = objects.put(b"".join(each.tobytes() for each in dead))
    return ShardFound(
        key=stored.key,
        counts=np.array([len(each) for each in dead], dtype=np.int64),
        crcs=np.array([google_crc32c.value(each.tobytes()) for each in dead], dtype=np.uint32),
        sums=shard.sums,
        is_right=shard.sampled == shard.expected,
        distinct=shard.distinct,
        table_bytes=shard.table_bytes,
        reads=shard.reads,
    )


def _rows_of(objects: JobObjects, parts: Sequence[Stored]) -> NDArray[np.void]:
    rows = [np.frombuffer(objects.get(part), dtype=KEY_ROW) for part in parts]
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def superseded_of(shard: ShardFound) -> tuple[Stored, ...]:
    """Return the part of each group."""
    sizes = shard.counts * np.dtype(np.uint32).itemsize
    starts = np.cumsum(sizes) - sizes
    return tuple(
        Stored(shard.key, start, size, crc)
        for start, size, crc in zip(
            starts.tolist(), sizes.tolist(), shard.crcs.tolist(), strict=True
        )
    )


@dataclass(slots=True, kw_only=True)
class _Sender:
    """Sends the files of one group; see `logwright.upload.upload.Sender`."""

    directory: Bucket
    job: Operation
    throttle: Throttle
    bytes: int = 0
    began: list[str] = field(default_factory=list)

    def begin(self, key: str) -> None:
        """Note an object that is sent from now on."""
        self.began.append(key)

    def sent(self, size: int) -> None:
        """Note an object that was sent."""
        self.bytes += size


def rewrite_group(task: RewriteTask, *, runtime: Runtime) -> GroupBuilt:
    """Build and check what a group becomes, and send it if no check fails. Effects: reads its
    segments and objects of the job; writes objects of the log.

    Raises:
        RecordAboveLimit: Kafka's cleaner would not read a record.
        CorruptBatch, UnsupportedFormatError, CorruptProducerSnapshot: the log is refused.
        StepFailed: an object is not what was sent.
        StalePlan, UnreadableFile, CorruptLogError, DiskFull, OutOfMemory, Unsettled: as
            `read_keys`.
    """
    group, objects = task.group, task.group.job.objects
    with _local(group, runtime, copies=_COPIES) as (plan, sources):
        aborted: tuple[AbortedTransaction, ...] = ()
        intervals = np.zeros((0, 3), dtype=np.int64)
        if group.fates is not None:
            fates = fates_of(objects, group.fates)
            split.set_fates(sources, fates)
            aborted, intervals = fates.aborted, fates.intervals
        read = _read_of(task, objects)
        gone = in_order(
            (partial(objects.get, part) for part in task.superseded if part.bytes),
            threads=_AT_ONCE,
        )
        ordinals = (np.frombuffer(each, dtype=np.uint32) for each in gone)
        survivors = split.survivors_of_group(plan, sources, read, ordinals, aborted)
        require_within_limit(plan.config, sources)
        own = replace(runtime, sync=_not_durable)
        try:
            with new_staging(plan) as directory:
                staged = rewrite(plan, survivors, directory, silent, own)
        except OSError as error:
            raise no_room_or_unreadable(error, plan.log.directory, plan.log.directory) from error
        facts = examine_quickly(plan, staged, runtime=own, aborted=intervals)
        if facts.failed:
            return GroupBuilt(staged, facts, {}, 0)
        sender = _Sender(directory=group.job.directory, job=objects.job, throttle=runtime.throttle)
        files = _send(sender, staged.directory)
    return GroupBuilt(staged, facts, files, sender.bytes)


def _not_durable(descriptor: int) -> None:
    """Leave a file as it is: what counts is sent."""
    del descriptor


def _read_of(task: RewriteTask, objects: JobObjects) -> split.ReadGroup:
    arrays, key = objects.get_arrays(task.read), task.group.job.key
    return split.ReadGroup(
        null_keys=arrays["null_keys"].astype(np.uint8),
        expired=arrays["expired"].astype(np.uint8),
        notes=arrays["notes"].astype(split.NOTES),
        keys=KeyFacts((key.low, key.high), task.digest % _ALL, task.records, 0, 0),
    )


def _send(sender: _Sender, staging: Path) -> dict[str, StoredFile]:
    """Send all that was staged. Effects: writes objects, and reads them back."""
    with open_log_dir(staging) as directory:
        files = Files(sender, directory, {})
        return {name: files.file(name) for name in directory.names()}


@contextmanager
def _local(
    task: GroupTask, runtime: Runtime, *, copies: int
) -> Iterator[tuple[CleanPlan, list[Source]]]:
    """Give the plan and the segments of a group on this machine. Effects: downloads them, and
    removes them on leaving.
    """
    job = task.job
    scratch = own_temporary() if job.scratch is None else job.scratch
    room = ByteCount(copies * sum(file.bytes for file, _ in task.files.values()))
    with working_directory(scratch, room) as directory, enough_memory(directory):
        log_dir = directory / "logs"
        partition = log_dir / job.partition.directory_name
        try:
            partition.mkdir(parents=True)
        except OSError as error:
            raise no_room_or_unreadable(error, partition, partition) from error
        for name, (stored, modified_ns) in task.files.items():
            write_stored(partition / name, job.directory, stored, modified_ns, hollow=False)
            runtime.throttle.observe(stored.bytes)
        plan = split.placed(task.plan, log_dir)
        yield plan, open_sources(plan, runtime.files)
