"""Erase the records of some keys by Kafka's own rules: append tombstones as a producer would, roll,
compact, and purge what is due.

1. A key gets a tombstone in each partition of a compacted topic that has a record of it which no
   tombstone follows. Aborted records do not count, and undecided ones may be aborted.
2. Each run looks at the log again: after an append, the latest record of each key is its tombstone,
   so that nothing is appended twice. An append that was interrupted has the id of the records that
   it was for, by their offsets, and is completed by the next run (`logwright.ingest.journal`).
3. The tombstones are rolled into a sealed segment, so that the cleaning maps them. It removes what
   they supersede, but not what ``min.compaction.lag.ms`` or an open transaction holds back, nor
   anything for the sake of a record beyond the high watermark: an election may remove that one. An
   append raises the high watermark on record, as that of an only replica.
4. The tombstones stay until ``delete.retention.ms`` after it (KIP-534), the replaced files until
   ``file.delete.delay.ms``: run it again then. If nothing else is cleanable by then, the log is
   cleaned from its start, as by a broker that has lost its cleaner checkpoint.
5. Once its tombstones are there, the mark of the log has which keys were erased, and when. A run
   that died in between is noted by the next one: the journal of ingests has the offsets of the
   tombstones that erasures have appended.

A topic that is not compacted gets no tombstones: its records go by its retention.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from logwright.batches.outcomes import aborted_intervals
from logwright.batches.runtime import Runtime, available_cores
from logwright.checks.kernels import discard_valueless
from logwright.compaction.model import CleaningOptions, CleanPlan
from logwright.erasure.erase.scan import matches_of, open_segments
from logwright.errors import QualityError
from logwright.format.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from logwright.ingest.commit import commit_append, plan_append, stage_append
from logwright.ingest.journal import read_journal
from logwright.ingest.model import Appended, AppendOptions
from logwright.ingest.replicated import refuse_replicated
from logwright.observe import observe_unlocked
from logwright.purge.commit import purge_partition
from logwright.roll.commit import plan_roll_of, roll_partition
from logwright.state.erasure_mark import Erasure, erased_keys, note_steps
from logwright.steps.interpreter import execute
from logwright.steps.live import locked_partition
from logwright.sweep.clean import clean_logs
from logwright.sweep.executor import LocalExecutor
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.plan import plan_cleaning, plan_from_start
from logwright.units import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from logwright.config.policy_models import Checks
    from logwright.config.topic import CleanerConfig, TopicConfig
    from logwright.erasure.erase.model import Matcher
    from logwright.format.names import TopicPartition
    from logwright.ingest.journal import Journal
    from logwright.log.model import PartitionLog
    from logwright.purge.plan import PurgeResult
    from logwright.sweep.commit import CommitResult
    from logwright.units import TimestampMs

ID: Final = "erase-"
"""Before the digest in the id of an append of tombstones."""
_ID_DIGITS: Final = 32
_HOW: Final = "by tombstones"
_THROUGH_THE_CLUSTER: Final = (
    "Produce the tombstones through the cluster: `logwright rolling` does, with this `erase` in its"
    " file; or erase at once (--now-and-for-good), from each replica. Nothing was changed."
)


class Latest(NamedTuple):
    """The latest record of a key that a consumer may see.

    Attributes:
        timestamp: ms since the epoch.
        tombstone: it is one, and decided. request: the number of the key's.
    """

    offset: int
    timestamp: int
    tombstone: bool
    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstones:
    """The tombstones that a partition lacks.

    Attributes:
        keys: in the order of their latest records; never shown. ingest_id: of their append.
        missing: the requests of these keys.
        unnoted: request → timestamp of a tombstone that an erasure has appended and did not note.
        matches: number of records of requested keys, aborted ones left out.
    """

    log: PartitionLog
    keys: tuple[bytes, ...]
    ingest_id: str
    missing: frozenset[int]
    unnoted: Mapping[int, int]
    matches: int

    def __repr__(self) -> str:
        return f"Tombstones({self.log.partition}, {len(self.keys)} keys)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedByRules:
    """What was done to one log.

    Attributes:
        matches: records of requested keys before.
        appended: the tombstones; None if none was missing.
        committed: the cleaning; None if nothing was cleanable.
        purged: what a purge removed, and what is due later.
    """

    matches: int
    appended: Appended | None
    committed: CommitResult | None
    purged: PurgeResult


def missing_tombstones(
    log_dir: Path, partition: TopicPartition, config: TopicConfig, keys: Matcher
) -> Tombstones:
    """Find the keys that need a tombstone in a partition. Effects: reads it.

    Raises:
        LogwrightError: it cannot be read; see `observe_unlocked`.
    """
    log = observe_unlocked(log_dir, partition, high_watermark="end")
    latest, matches = _latest(log, keys)
    lacking = _without_tombstone(latest)
    ingest_id = _id_of(partition, lacking)
    journal = read_journal(log.directory)
    pending = journal.interrupted
    if pending is not None and pending.id.startswith(ID):
        # A broker may have recovered the log since: some of the tombstones may be there.
        before, _ = _latest(log, keys, end_offset=pending.first_offset)
        lacking_then = _without_tombstone(before)
        if _id_of(partition, lacking_then) == pending.id:
            lacking, ingest_id = lacking_then, pending.id
    if not config.compact:
        lacking = {}
    ordered = sorted(lacking, key=lambda key: lacking[key].offset)
    return Tombstones(
        log=log,
        keys=tuple(ordered),
        ingest_id=ingest_id,
        missing=frozenset(record.request for record in lacking.values()),
        unnoted=_unnoted(log, latest.values(), journal),
        matches=matches,
    )


def _unnoted(log: PartitionLog, latest: Iterable[Latest], journal: Journal) -> dict[int, int]:
    """Return request → timestamp of the tombstones that erasures have appended, by the journal, and
    that the mark has no erasure of that time for. Effects: reads the mark.
    """
    appends = [done for done in journal.settled().done if done.id.startswith(ID)]
    notes = (erased_keys(log.directory) or {}).values() if appends else ()
    noted = {erasure.at_ms for erasure in notes if erasure.how == _HOW}
    return {
        record.request: record.timestamp
        for record in latest
        if record.tombstone
        and record.timestamp not in noted
        and any(done.first_offset <= record.offset < done.end_offset for done in appends)
    }


def refuse_tombstones(tombstones: Tombstones, replicas: Sequence[int]) -> None:
    """Refuse to append tombstones to one replica of several (node ids); see `refuse_replicated`.

    Raises:
        PreconditionError: some are missing, and there are several replicas.
    """
    if tombstones.keys:
        log = tombstones.log
        refuse_replicated(log.log_dir, log.partition, replicas, remedy=_THROUGH_THE_CLUSTER)


def append_tombstones(
    tombstones: Tombstones, config: TopicConfig, *, now_ms: TimestampMs
) -> Appended | None:
    """Append what is missing, as a producer would. Effects: changes the log, see `commit_append`.

    Raises:
        LogwrightError: see `plan_append`, `stage_append` and `commit_append`.
    """
    if not tombstones.keys:
        return None
    log = tombstones.log
    plan = plan_append(
        log.log_dir,
        log.partition,
        config,
        ingest_id=tombstones.ingest_id,
        now_ms=now_ms,
        options=AppendOptions(),
    )
    if isinstance(plan, Appended):
        return plan
    return commit_append(plan, stage_append(plan, [_records(tombstones.keys, now_ms)]))


def _records(keys: Sequence[bytes], now_ms: TimestampMs) -> pa.RecordBatch:
    """The tombstones as records to append."""
    import pyarrow as pa  # noqa: PLC0415 -- of an extra; an erasure at once does not need it

    from logwright.ingest.schema import SCHEMA  # noqa: PLC0415 -- it imports pyarrow

    columns = (
        pa.array(keys, type=pa.binary()),
        pa.nulls(len(keys), type=pa.binary()),
        pa.nulls(len(keys), type=SCHEMA.field("headers").type),
        pa.array([int(now_ms)] * len(keys), type=pa.int64()),
    )
    return pa.RecordBatch.from_arrays(list(columns), schema=SCHEMA)


def erase_by_rules(
    log_dir: Path,
    partition: TopicPartition,
    settings: tuple[TopicConfig, CleanerConfig],
    keys: Matcher,
    *,
    now_ms: TimestampMs,
    checks: Checks = "quick",
    replicas: Sequence[int] = (),
) -> ErasedByRules:
    """Append the missing tombstones, roll, compact, and purge what is due. Effects: changes the
    log, as `logwright ingest`, `roll`, `clean` and `purge` do. A log without a record of the keys
    is left as it is. `replicas`: node ids of the partition's, by the cluster's metadata.

    Raises:
        PreconditionError: as `refuse_tombstones`.
        QualityError: the compacted output failed a check; the log has its tombstones.
        LogwrightError: as those.
    """
    config, _ = settings
    tombstones = missing_tombstones(log_dir, partition, config, keys)
    refuse_tombstones(tombstones, replicas)
    appended = append_tombstones(tombstones, config, now_ms=now_ms)
    committed = None
    if config.compact and tombstones.matches:
        _note(tombstones, keys, now_ms=now_ms)
        roll_partition(*plan_roll_of(log_dir, partition, config, now_ms=now_ms, force=True))
        committed = _clean(log_dir, partition, settings, keys, now_ms=now_ms, checks=checks)
    purged = purge_partition(
        log_dir, partition, now_ms=now_ms, file_delete_delay_ms=config.file_delete_delay_ms
    )
    return ErasedByRules(
        matches=tombstones.matches, appended=appended, committed=committed, purged=purged
    )


def _note(tombstones: Tombstones, keys: Matcher, *, now_ms: TimestampMs) -> None:
    """Note which keys are erased. Effects: may replace the mark, under the partition's lock."""
    times = {**tombstones.unnoted, **dict.fromkeys(tombstones.missing, int(now_ms))}
    erased = {
        short: Erasure(at_ms, _HOW)
        for request, at_ms in times.items()
        for short in keys.shorts((request,))
    }
    with locked_partition(tombstones.log) as files:
        execute(note_steps(tombstones.log.directory, erased), files)


def _clean(
    log_dir: Path,
    partition: TopicPartition,
    settings: tuple[TopicConfig, CleanerConfig],
    keys: Matcher,
    *,
    now_ms: TimestampMs,
    checks: Checks,
) -> CommitResult | None:
    """Compact the log; see 3 and 4 of the module."""
    options = CleaningOptions(force=True, checks=checks)
    plan = plan_cleaning(
        log_dir, partition, settings, now_ms=now_ms, options=options, high_watermark="recorded"
    )
    if not plan.clean and _tombstones_are_due(plan.log, keys, now_ms=now_ms):
        plan = _from_the_start(plan)
    if not plan.clean:
        return None
    work = LogWork(key=str(partition), log_dir=log_dir, partition=partition, plan=plan)
    (work,) = clean_logs(SweepState(works=(work,), now_ms=now_ms), LocalExecutor())
    if isinstance(work.failure, QualityError):
        work.failure.remedy = "The log was not compacted."
    if work.failure is not None:
        raise work.failure
    return work.result


def _tombstones_are_due(log: PartitionLog, keys: Matcher, *, now_ms: TimestampMs) -> bool:
    """Return whether tombstones of the keys are past their delete horizon. Effects: reads the log.

    Raises:
        LogwrightError: it cannot be read.
    """
    runtime = Runtime(threads=available_cores())
    for source in open_segments(log):
        for hits in matches_of(source, keys, runtime=runtime):
            rows = hits.records.rows
            batches = hits.records.batches[rows["row"][rows["value_length"] < 0]]
            has_horizon = (batches["attributes"] & DELETE_HORIZON) != 0
            if (has_horizon & (batches["base_timestamp"] <= now_ms)).any():
                return True
    return False


def _from_the_start(plan: CleanPlan) -> CleanPlan:
    """Return the plan that there would be without the cleaner checkpoint."""
    compaction = plan_from_start(plan.rolled_log, plan.config, now_ms=plan.now_ms)
    return plan._replace(compaction=compaction, clean=compaction.cleanable_bytes > 0)


def _without_tombstone(latest: Mapping[bytes, Latest]) -> dict[bytes, Latest]:
    return {key: record for key, record in latest.items() if not record.tombstone}


def _id_of(partition: TopicPartition, lacking: Mapping[bytes, Latest]) -> str:
    """Return the id of an append: a digest of the offsets of the records that it is for, in which
    nothing of a key is.
    """
    text = f"{partition}:{sorted(record.offset for record in lacking.values())}"
    return ID + hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]


def _latest(
    log: PartitionLog, keys: Matcher, *, end_offset: int = INT64_MAX
) -> tuple[dict[bytes, Latest], int]:
    """Return the latest record of each requested key, and how many records match; aborted ones are
    left out.
    """
    sources = open_segments(log)
    having = [source for source in sources if source.attributes & (TRANSACTIONAL | CONTROL)]
    if having:
        aborted = aborted_intervals(log, having)
        for source in having:
            discard_valueless(source.batches, aborted, log.log_start_offset, False)  # noqa: FBT003
    latest: dict[bytes, Latest] = {}
    count, runtime = 0, Runtime(threads=available_cores())
    for source in sources:
        for hits in matches_of(source, keys, runtime=runtime):
            columns = hits.records.rows[["offset", "timestamp", "value_length"]].tolist()
            requests = hits.requests.tolist()
            for row, (offset, timestamp, value_length) in enumerate(columns):
                if offset < end_offset:
                    decided = value_length < 0 and offset < log.last_stable_offset
                    latest[hits.key(row)] = Latest(offset, timestamp, decided, requests[row])
                    count += 1
    return latest, count
