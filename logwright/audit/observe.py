"""Look at a replica: its offsets, and its transactions by the headers of its batches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logwright.audit.model import Replica, Transactions
from logwright.batches.outcomes import is_end
from logwright.batches.source import each_source
from logwright.compaction.coordination import clean_offset
from logwright.format.batch import CONTROL, TRANSACTIONAL
from logwright.format.names import TopicPartition
from logwright.format.scan import check_crcs
from logwright.log.committed import HighWatermark
from logwright.log.watermark import require_high_watermark
from logwright.observe import observe_unlocked
from logwright.place.model import Place


def look(log_dir: Place, partition: TopicPartition, *, high_watermark: HighWatermark) -> Replica:
    """Return a replica. Effects: reads the headers of all of its batches, and its markers.

    Raises:
        LogDirLocked: a broker works on the directory.
        UncleanLogDir: it needs a recovery.
        PreconditionError: its high watermark is asked for, and none is on record.
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: it cannot be read.
    """
    log = observe_unlocked(log_dir, partition, high_watermark=high_watermark)
    if high_watermark == "checkpoint":
        require_high_watermark(log)
    data, emptied, markers, records = [_PAIRS], [_PAIRS], [_TRIPLES], 0
    for source in each_source(log):
        batches = source.batches[source.batches["last_offset"] < log.high_watermark]
        records += int(batches["count"].sum(dtype=np.int64))
        if not source.attributes & (TRANSACTIONAL | CONTROL):
            continue
        ends = batches[is_end(batches)]
        check_crcs(source.data, ends, source.path, first=0, last=len(ends))
        kinds = ends["control_type"].astype(np.int64)
        markers.append(np.stack([ends["producer_id"], ends["base_offset"], kinds], axis=1))
        within = (batches["attributes"] & (CONTROL | TRANSACTIONAL)) == TRANSACTIONAL
        within &= (batches["producer_id"] >= 0) & (batches["last_offset"] >= log.log_start_offset)
        for parts, chosen in ((data, batches["count"] > 0), (emptied, batches["count"] == 0)):
            rows = batches[within & chosen]
            parts.append(np.stack([rows["producer_id"], rows["base_offset"]], axis=1))
    opened = [
        (entry.producer_id, int(entry.current_txn_first_offset))
        for entry in log.producers
        if entry.current_txn_first_offset is not None
    ]
    transactions = Transactions(
        data=_ascending(data),
        emptied=_ascending(emptied),
        markers=_ascending(markers),
        open=np.array(opened, dtype=np.int64).reshape(-1, 2),
    )
    return Replica(log, clean_offset(log), transactions, records)


def _ascending(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    rows = np.concatenate(parts)
    return np.ascontiguousarray(rows[np.lexsort((rows[:, 1], rows[:, 0]))])


_PAIRS = np.zeros((0, 2), dtype=np.int64)
_TRIPLES = np.zeros((0, 3), dtype=np.int64)
