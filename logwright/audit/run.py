"""Audit one partition over several log directories. Read-only.

The replicas are read side by side, once, and once more for each further shard of their keys: as
many keys are compared at once as the memory allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import permutations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.audit.model import (
    KEYED,
    KINDS,
    ROW,
    Difference,
    Finding,
    Kind,
    PartitionAudit,
    Replica,
)
from logwright.audit.observe import look
from logwright.audit.records import read_rows
from logwright.audit.rules import Pair, Sums, diverged, frozen_offsets, judge_keys, lost_markers
from logwright.audit.running import require_one_history
from logwright.errors import NotALogDir, enough_memory
from logwright.format.names import TopicPartition
from logwright.format.siphash import HashKey
from logwright.log.committed import HighWatermark
from logwright.observe import holds
from logwright.place.model import Place
from logwright.reading import reading
from logwright.units import ByteCount

MOST_BYTES: Final = ByteCount(512 * 1024 * 1024)
"""Memory for the rows that are compared at once."""
SAMPLES: Final = 100
"""Findings that are kept of each kind, replica and other replica; all are counted."""
_ROW_BYTES: Final = 4 * ROW.itemsize
"""A row, and what sorting it needs."""
_SHARD_SPACE: Final = 1 << 32


def audit_partition(
    partition: TopicPartition,
    log_dirs: Sequence[Place],
    *,
    high_watermark: HighWatermark,
    most_bytes: ByteCount = MOST_BYTES,
) -> PartitionAudit:
    """Compare the replicas of a partition. Effects: reads them.

    Args:
        log_dirs: those that lack the partition do not count.
        high_watermark: what counts as committed of a replica.
        most_bytes: memory for the rows that are compared at once; more only for a window of each.

    Raises:
        NotALogDir: no directory has the partition.
        LogDirLocked, UncleanLogDir: a broker works on a directory, or it needs a recovery.
        Unsettled: of a running broker: it has no high watermark, or another history.
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan, OutOfMemory: a replica
            cannot be read.
    """
    holding = [log_dir for log_dir in log_dirs if holds(log_dir, partition)]
    if not holding:
        raise NotALogDir(f"none of {len(log_dirs)} log directories has {partition}.")
    with ExitStack() as stack:
        for log_dir in holding:
            stack.enter_context(reading(log_dir))
        stack.enter_context(enough_memory(holding[0] / partition.directory_name))
        replicas = tuple(look(one, partition, high_watermark=high_watermark) for one in holding)
        require_one_history(replicas)
        tally = _Tally(replicas)
        if len(replicas) > 1:
            _judge_transactions(replicas, tally)
            _judge_records(replicas, tally, most_bytes)
    return tally.audit(partition)


class _Tally:
    """The findings, counted, and the first of each sort."""

    def __init__(self, replicas: tuple[Replica, ...]) -> None:
        self._replicas = replicas
        self._counts: Counter[Kind] = Counter()
        self._kept: Counter[tuple[Kind, int, int]] = Counter()
        self._seen: set[tuple[Kind, int, int]] = set()
        self._found: list[Difference] = []

    def add(self, difference: Difference) -> None:
        """Count a finding. What several replicas show of one offset counts once, and only as long
        as it is among those that are kept.
        """
        same = (difference.kind, difference.replica, difference.offset)
        if same in self._seen:
            return
        self._counts[difference.kind] += 1
        where = (difference.kind, difference.replica, difference.other)
        if self._kept[where] < SAMPLES:
            self._kept[where] += 1
            self._seen.add(same)
            self._found.append(difference)

    def audit(self, partition: TopicPartition) -> PartitionAudit:
        """Return the result."""
        order = {kind: number for number, kind in enumerate(KINDS)}
        differences = sorted(
            self._found, key=lambda one: (order[one.kind], one.replica, one.offset)
        )
        directories = [replica.log.log_dir for replica in self._replicas]
        return PartitionAudit(
            partition=partition,
            replicas=self._replicas,
            counts={kind: self._counts[kind] for kind in KINDS if self._counts[kind]},
            findings=tuple(
                Finding(
                    kind=difference.kind,
                    partition=partition,
                    log_dir=directories[difference.replica],
                    offset=difference.offset,
                    other_log_dir=directories[difference.other],
                    other_offset=difference.other_offset,
                    producer_id=difference.producer_id,
                )
                for difference in differences
            ),
        )


def _judge_transactions(replicas: Sequence[Replica], tally: _Tally) -> None:
    """Compare the transactions of each two replicas."""
    furthest = max((replica.span.end for replica in replicas), default=0)
    for first, second in permutations(range(len(replicas)), 2):
        spans = (replicas[first].span, replicas[second].span)
        sides = (replicas[first].transactions, replicas[second].transactions)
        for difference in (
            *lost_markers((first, second), *sides, spans),
            *frozen_offsets((first, second), *sides, spans, furthest),
        ):
            tally.add(difference)


def _judge_records(replicas: Sequence[Replica], tally: _Tally, most_bytes: int) -> None:
    """Compare the records of all replicas by offset, and the latest ones by key. Effects: reads."""
    records = sum(replica.records for replica in replicas)
    count = max(-(-records * _ROW_BYTES // most_bytes), 1)
    hash_key, spans = HashKey.random(), [replica.span for replica in replicas]
    limits: dict[Pair, int] = {}
    for number in range(count):
        shard = (number * _SHARD_SPACE // count, (number + 1) * _SHARD_SPACE // count)
        kept: list[list[NDArray[np.void]]] = [[np.zeros(0, dtype=ROW)] for _ in replicas]
        streams = [
            _sums(replica, hash_key, shard, keep)
            for replica, keep in zip(replicas, kept, strict=True)
        ]
        if number == 0:
            for offset, pair in diverged(streams):
                limits.setdefault((min(pair), max(pair)), offset)
                tally.add(Difference("diverged offset", max(pair), offset, min(pair), offset))
        else:
            for stream in streams:
                for _ in stream:
                    pass
        rows = [np.concatenate(parts) for parts in kept]
        for difference in judge_keys(rows, spans, limits):
            tally.add(difference)


def _sums(
    replica: Replica, hash_key: HashKey, shard: tuple[int, int], keep: list[NDArray[np.void]]
) -> Iterator[Sums]:
    """Yield the offsets and sums of all records; keep the rows of the shard's keys."""
    first, end = shard
    for rows in read_rows(replica, hash_key):
        part = rows["hash1"] >> np.uint64(32)
        chosen = ((rows["flags"] & KEYED) != 0) & (part >= first) & (part < end)
        keep.append(rows[chosen])
        yield rows["offset"].copy(), rows["sum"].copy()
