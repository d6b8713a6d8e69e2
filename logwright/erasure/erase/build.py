"""Rebuild the segments of a log that have a match, in its staging directory. No live file is
changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Runtime
from logwright.cleaner_rules import end_kept
from logwright.erasure.erase.model import ErasePlan, StagedErasure
from logwright.format.batch import CONTROL, TRANSACTIONAL
from logwright.format.index import AbortedTransaction, check_txn_index
from logwright.format.names import TXNINDEX, segment_file_name
from logwright.place.mapped import map_file
from logwright.rewrite.batch import NO_HORIZON
from logwright.rewrite.batch_receipt import new_receipt
from logwright.rewrite.cache import NOTHING_REBUILT
from logwright.rewrite.chunks import Rewrite
from logwright.rewrite.copy import CopyRule
from logwright.rewrite.kept_ends import keep_ends
from logwright.rewrite.segment import Group
from logwright.rewrite.staging import (
    copy_progress,
    discarded_on_error,
    new_staging,
    write_groups,
)
from logwright.rewrite.unchanged import group_facts
from logwright.steps.work import PrivateDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from logwright.batches.runtime import Progress
    from logwright.batches.source import Source
    from logwright.format.snapshot import ProducerEntry
    from logwright.log.model import Segment
    from logwright.rewrite.model import StagedSegment

_NOTHING_MAPPED: Final = -1
"""No record has a place in an offset map."""


def build_erasure(
    plan: ErasePlan,
    *,
    progress: Progress,
    runtime: Runtime | None = None,
    written: Callable[[StagedSegment], None] = lambda _: None,
) -> StagedErasure:
    """Rebuild the segments of a log that have a match. Effects: writes the staging directory, and
    removes it if an error is raised.

    Args:
        plan: of the erasure.
        progress: called with the phase "copy", the bytes done, and the bytes in total.
        runtime: one thread and no throttle, if not given.
        written: called with each rebuilt segment, before the next one is written, while its source
            and its output are in the memory that caches files. The source is not, afterwards.

    Raises:
        CorruptBatch, CorruptIndex, CorruptProducerSnapshot, UnsupportedFormatError, UnreadableFile,
            StalePlan: the log is refused.
        DiskFull, StepFailed: the output could not be written.
    """
    if not plan.rebuilds:
        return StagedErasure(plan=plan, segments=())
    with discarded_on_error(plan), new_staging(plan) as directory:
        segments = _rebuild(plan, directory, progress, runtime or Runtime(), written)
    return StagedErasure(plan=plan, segments=segments)


def _rebuild(
    plan: ErasePlan,
    directory: PrivateDirectory,
    progress: Progress,
    runtime: Runtime,
    written: Callable[[StagedSegment], None],
) -> tuple[StagedSegment, ...]:
    log = plan.log
    chosen = {segment.base_offset for segment in plan.scan.segments}
    pairs = [
        (segment, source)
        for segment, source in zip(log.segments, plan.scan.sources, strict=True)
        if segment.base_offset in chosen
    ]
    bound = plan.rolled_log.active.base_offset
    end = end_kept(plan.cleaner.kafka, bound, log.high_watermark)
    for _, source in pairs:
        keep_ends(log, source.batches, log.producers, end_offset=end)
        source.batches["keep_empty"] |= source.batches["count"] == 0
        _keep_open(source.batches, log.producers)
    rewrite = Rewrite(
        rule=CopyRule(plan.config.index_interval_bytes, NO_HORIZON),
        dead=plan.scan.matching,
        rebuilt=NOTHING_REBUILT,
        receipt=new_receipt((0, 0), _NOTHING_MAPPED),
        runtime=runtime,
    )
    copied = copy_progress(progress, sum(source.log.bytes for _, source in pairs))
    groups = (_group(plan, segment, source) for segment, source in pairs)
    sources = {source.base_offset: source for _, source in pairs}

    def finish(segment: StagedSegment) -> None:
        written(segment)
        sources[segment.base_offset].log.release()

    segments, _ = write_groups(directory, groups, rewrite, copied, finish)
    return segments


def _keep_open(batches: NDArray[np.void], producers: Sequence[ProducerEntry]) -> None:
    """Set `keep_empty` of the data of open transactions: a broker looks for the first batch to find
    the last stable offset (UnifiedLog.maybeIncrementFirstUnstableOffset, Kafka 4.3.0). A cleaning
    never comes so far.
    """
    data = (batches["attributes"] & (TRANSACTIONAL | CONTROL)) == TRANSACTIONAL
    for entry in producers:
        if entry.current_txn_first_offset is not None:
            own = batches["producer_id"] == entry.producer_id
            later = batches["last_offset"] >= entry.current_txn_first_offset
            batches["keep_empty"] |= data & own & later


def _group(plan: ErasePlan, segment: Segment, source: Source) -> Group:
    """Return a segment as a group of its own; its transaction index stays as it is: entries of
    transactions without data do no harm, and the markers stay. Effects: reads that index.
    """
    log = plan.log
    aborted: tuple[AbortedTransaction, ...] = ()
    if segment.txnindex_bytes:
        path = log.directory / segment_file_name(segment.base_offset, TXNINDEX)
        content = map_file(path).tobytes()
        aborted = check_txn_index(content, base_offset=segment.base_offset, path=path)
    facts = group_facts(
        [source],
        plan.scan.matching,
        log_start_offset=log.log_start_offset,
    )
    return Group(sources=[(segment, source)], aborted=aborted, facts=facts)
