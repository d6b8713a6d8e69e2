"""Deliberate faults in the cleaning rules, one line each: no test run may let one pass."""

from __future__ import annotations

from tests.mutation.auditing import AUDITING
from tests.mutation.between import BETWEEN
from tests.mutation.buckets import BUCKETS
from tests.mutation.certificates import CERTIFICATES
from tests.mutation.checking import CHECKING
from tests.mutation.copies import COPIES
from tests.mutation.decoding import DECODING
from tests.mutation.edges import EDGES
from tests.mutation.erasing import ERASING
from tests.mutation.erasure import ERASURE
from tests.mutation.fault import Fault
from tests.mutation.kafka_log import KAFKA_LOG
from tests.mutation.latest import LATEST
from tests.mutation.models import MODELS
from tests.mutation.platform import PLATFORM
from tests.mutation.reading import READING
from tests.mutation.replicas import REPLICAS
from tests.mutation.tables import TABLES
from tests.mutation.tiers import TIERS

DECODER = (
    "tests/property/test_record_decoder.py",
    "tests/property/test_damaged_segments.py",
)


FAULTS = (
    Fault(
        family="superseded: the earlier record stays",
        file="keys/read.py",
        right="            set_bit(dead, latest)\n",
        wrong="            set_bit(dead, ordinal)\n",
    ),
    Fault(
        family="superseded: the clean section is not asked",
        file="keys/read.py",
        right="        if is_superseded(ordinal, ordinal_at(table, at)):",
        wrong="        if is_superseded(ordinal_at(table, at), ordinal):",
    ),
    Fault(
        family="null key: kept",
        file="keys/read.py",
        right="    if not has_bit(dead, ordinal):",
        wrong="    if has_bit(dead, ordinal):",
    ),
    Fault(
        family="tombstone: one millisecond late",
        file="cleaner_rules.py",
        right="and batch.base_timestamp <= now_ms",
        wrong="and batch.base_timestamp < now_ms",
    ),
    Fault(
        family="delete horizon: not set for a tombstone",
        file="cleaner_rules.py",
        right="(retains_tombstone or batch.empty_marker)",
        wrong="batch.empty_marker",
    ),
    Fault(
        family="delete horizon: moves",
        file="cleaner_rules.py",
        right="        return np.int64(batch.base_timestamp)\n",
        wrong="        return np.int64(horizon_ms)\n",
    ),
    Fault(
        family="delete horizon: not set for a marker",
        file="cleaner_rules.py",
        right="(retains_tombstone or batch.empty_marker)",
        wrong="retains_tombstone",
    ),
    Fault(
        family="marker: goes before its horizon",
        file="cleaner_rules.py",
        right="    return can_discard and delete_horizon_reached(batch, now_ms, removable_end)\n",
        wrong="    return can_discard\n",
    ),
    Fault(
        family="marker: one millisecond late",
        file="cleaner_rules.py",
        right="    return can_discard and delete_horizon_reached(batch, now_ms, removable_end)\n",
        wrong="    return can_discard and delete_horizon_reached("
        "batch, now_ms - 1, removable_end)\n",
    ),
    Fault(
        family="marker: replaced by a record with its key",
        file="cleaner_rules.py",
        right="    return discarded or batch.attributes & CONTROL != 0\n",
        wrong="    return discarded\n",
    ),
    Fault(
        family="marker: a COMMIT is not needed after another producer's",
        file="cleaner_rules.py",
        right="        state.committed[producer] = False\n",
        wrong="        state.committed[:] = False\n",
    ),
    Fault(
        family="aborted data: mapped",
        file="compaction/transactions.py",
        right='batches["unmapped"][first:], _ = walk',
        wrong="_, _ = walk",
    ),
    Fault(
        family="aborted data: of one segment only",
        file="compaction/transactions.py",
        right="            walk.add(indexes.between(source.base_offset, end))",
        wrong="            walk.add(indexes.between(source.base_offset, end)[:1])",
    ),
    Fault(
        family="last batch of a producer: known by its first offset",
        file="cleaner_rules.py",
        right='(batches["last_offset"] == last_offsets)',
        wrong='(batches["base_offset"] == last_offsets)',
    ),
    Fault(
        family="last batch of a producer: a lone marker's epoch",
        file="cleaner_rules.py",
        right='control & (epochs == batches["producer_epoch"])',
        wrong='control & (epochs > batches["producer_epoch"])',
    ),
    Fault(
        family="last batch of a producer: of forgotten ones too",
        file="log/producers.py",
        right="now_ms - entry.timestamp_ms < expiration_ms",
        wrong="now_ms - entry.timestamp_ms <= now_ms",
    ),
    Fault(
        family="last batch of the round: not kept",
        file="cleaner_rules.py",
        right="return last_offset + 1 == end",
        wrong="return last_offset == end",
    ),
    Fault(
        family="rebuilt batch: max timestamp of what was read",
        file="rewrite/batch.py",
        right="summary.max_timestamp = batch.max_timestamp if append_time else largest",
        wrong="summary.max_timestamp = batch.max_timestamp",
    ),
    Fault(
        family="rebuilt batch: base timestamp of the last kept record",
        file="rewrite/batch.py",
        right="kept[0].timestamp if count > 0",
        wrong="kept[count - 1].timestamp if count > 0",
    ),
    Fault(
        family="rebuilt batch: append time is lost",
        file="rewrite/batch.py",
        right="timestamp = batch.max_timestamp if append_time else batch.base_timestamp + delta",
        wrong="timestamp = batch.base_timestamp + delta",
    ),
    Fault(
        family="index: one entry too many",
        file="rewrite/output.py",
        right="    if state.bytes_since_entry > interval:",
        wrong="    if state.bytes_since_entry >= interval:",
    ),
    Fault(
        family="index: first offset of the batch",
        file="rewrite/copy.py",
        right="note_batch(output, interval, batch.last_offset, batch.size,",
        wrong="note_batch(output, interval, batch.base_offset, batch.size,",
    ),
    Fault(
        family="time index: last batch that has the largest timestamp",
        file="rewrite/output.py",
        right="    if max_timestamp > state.largest_timestamp:",
        wrong="    if max_timestamp >= state.largest_timestamp:",
    ),
    Fault(
        family="grouping: offsets",
        file="compaction/plan.py",
        right="last_offset - group[0].base_offset <= INT32_MAX",
        wrong="segment.base_offset - group[0].base_offset <= INT32_MAX",
    ),
    Fault(
        family="grouping: empty segments",
        file="compaction/plan.py",
        right="        if group and segment.log_bytes:\n",
        wrong="        if group:\n",
    ),
    Fault(
        family="first uncleanable offset: min.compaction.lag.ms",
        file="compaction/plan.py",
        right="each.largest_timestamp_ms > newest_ms",
        wrong="each.largest_timestamp_ms >= newest_ms",
    ),
    Fault(
        family="first uncleanable offset: open transactions",
        file="compaction/plan.py",
        right="offset, reason = log.last_stable_offset,",
        wrong="offset, reason = log.high_watermark,",
    ),
    Fault(
        family="first uncleanable offset: high watermark",
        file="compaction/plan.py",
        right="offset, reason = log.last_stable_offset,",
        wrong="offset, reason = log.log_end_offset,",
    ),
    Fault(
        family="first dirty offset: beyond the log",
        file="compaction/plan.py",
        right=" or checkpoint > log.log_end_offset:",
        wrong=":",
    ),
    Fault(
        family="partial map: null keys past its end",
        file="keys/read.py",
        right="    index = stopped - 1\n",
        wrong="    index = -1\n",
    ),
    Fault(
        family="partial map: holes are not passed",
        file="compaction/survivors.py",
        right="        return task.plan.compaction.first_uncleanable_offset - 1\n",
        wrong='        return int(task.map.state.counters["latest"][0])\n',
    ),
    Fault(
        family="partial map: the checkpoint runs ahead",
        file="sweep/commit.py",
        right="        return staged.end_offset\n",
        wrong="        return plan.compaction.first_uncleanable_offset\n",
    ),
    Fault(
        family="transaction index: entries without data",
        file="cleaner_rules.py",
        right="has_data = state.aborted[producer] == DATA_SEEN",
        wrong="has_data = state.aborted[producer] != NOT_ABORTED",
    ),
    Fault(
        family="transaction index: not written",
        file="compaction/transactions.py",
        right="            stay += markers\n",
        wrong="            stay += markers[:0]\n",
    ),
    Fault(
        family="modification time: of the first segment",
        file="rewrite/segment.py",
        right="self._modified_ns = sources[-1][0].modified_ns",
        wrong="self._modified_ns = sources[0][0].modified_ns",
    ),
    Fault(
        family="decoder: a varint of more than 5 bytes",
        file="format/walk.py",
        right="_read_unsigned(data, at, end, 28)",
        wrong="_read_unsigned(data, at, end, 63)",
        tests=DECODER,
    ),
    Fault(
        family="decoder: a record count without the bytes for it",
        file="format/scan.py",
        right="    if batch.count > _most_records(batch):",
        wrong="    if batch.count > span + 1:",
        tests=DECODER,
    ),
    Fault(
        family="decoder: offsets beyond the next segment",
        file="format/scan.py",
        right="    if span >= end_offset - batch.base_offset:",
        wrong="    if span >= end_offset:",
        tests=("tests/unit/format/test_scan.py", *DECODER),
    ),
    *BETWEEN,
    *CHECKING,
    *DECODING,
    *ERASURE,
    *READING,
    *KAFKA_LOG,
    *LATEST,
    *MODELS,
    *PLATFORM,
    *EDGES,
    *REPLICAS,
    *ERASING,
    *TABLES,
    *CERTIFICATES,
    *AUDITING,
    *BUCKETS,
    *COPIES,
    *TIERS,
)
