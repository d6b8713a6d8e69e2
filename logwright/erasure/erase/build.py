"""Rebuild the segments of a log that have a match, in its staging directory. No live file is
changed.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Runtime
from logwright.compaction.batch_receipt import new_receipt
from logwright.compaction.build import discard_staging, give_up
from logwright.compaction.model import CleaningStats, StagedCleaning
from logwright.compaction.rewrite.batch import NO_HORIZON
from logwright.compaction.rewrite.cache import NOTHING_REBUILT
from logwright.compaction.rewrite.chunks import Rewrite
from logwright.compaction.rewrite.copy import CopyRule
from logwright.compaction.rewrite.output import COUNTS
from logwright.compaction.rewrite.segment import Group, SegmentWriter
from logwright.compaction.rewrite.unchanged import group_facts
from logwright.compaction.transactions import keep_ends
from logwright.erasure.erase.model import ErasePlan, StagedErasure
from logwright.errors import LogwrightError
from logwright.format.batch import CONTROL, TRANSACTIONAL
from logwright.format.index import AbortedTransaction, check_txn_index
from logwright.format.names import STAGING, TXNINDEX, WORK_DIRECTORY, segment_file_name
from logwright.live_plans import hold_plan
from logwright.log.mapped import map_file
from logwright.steps.work import PrivateDirectory, make_private, remove_private
from logwright.units import ByteCount, Offset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwright.batches.runtime import Progress
    from logwright.batches.source import Source
    from logwright.compaction.model import StagedSegment
    from logwright.format.snapshot import ProducerEntry
    from logwright.log.model import Segment

_NOTHING_MAPPED: Final = -1
"""No record has a place in an offset map."""


def build_erasure(
    plan: ErasePlan, *, progress: Progress, runtime: Runtime | None = None
) -> StagedErasure:
    """Rebuild the segments of a log that have a match. Effects: writes the staging directory, and
    removes it if an error is raised.

    Args:
        plan: of the erasure.
        progress: called with the phase "copy", the bytes done, and the bytes in total.
        runtime: one thread and no throttle, if not given.

    Raises:
        CorruptBatch, CorruptIndex, CorruptProducerSnapshot, UnsupportedFormatError, UnreadableFile,
            StalePlan: the log is refused.
        DiskFull, StepFailed: the output could not be written.
    """
    if not plan.rebuilds:
        return StagedErasure(plan=plan, staged=None)
    clean = plan.clean
    below = (WORK_DIRECTORY, STAGING, clean.plan_id)
    try:
        hold_plan(clean.log.log_dir, clean.plan_id)
        if os.path.lexists("/".join((clean.log.directory_text, *below))):
            remove_private(clean.log.directory_text, *below)
        with make_private(clean.log.directory_text, *below) as directory:
            staged = _rebuild(plan, directory, progress, runtime or Runtime())
    except OSError as error:
        raise give_up(clean, error) from error
    except LogwrightError:
        discard_staging(clean)
        raise
    return StagedErasure(plan=plan, staged=staged)


def _rebuild(
    plan: ErasePlan, directory: PrivateDirectory, progress: Progress, runtime: Runtime
) -> StagedCleaning:
    started = time.perf_counter()
    clean, matching = plan.clean, plan.scan.matching
    chosen = {segment.base_offset for segment in plan.scan.segments}
    pairs = [
        (segment, source)
        for segment, source in zip(clean.log.segments, plan.scan.sources, strict=True)
        if segment.base_offset in chosen
    ]
    bound = clean.compaction.first_uncleanable_offset
    for _, source in pairs:
        keep_ends(clean, source.batches, clean.log.producers)
        source.batches["keep_empty"] |= source.batches["count"] == 0
        _keep_open(source.batches, clean.log.producers)
    rewrite = Rewrite(
        rule=CopyRule(clean.config.index_interval_bytes, NO_HORIZON),
        dead=matching,
        rebuilt=NOTHING_REBUILT,
        receipt=new_receipt((0, 0), _NOTHING_MAPPED),
        runtime=runtime,
    )
    total, done = sum(source.log.bytes for _, source in pairs), 0

    def copied(length: int) -> None:
        nonlocal done
        done += length
        progress("copy", done, total)

    staged: list[StagedSegment] = []
    counts = Counter[str]()
    for segment, source in pairs:
        writer = SegmentWriter(directory, _group(plan, segment, source), rewrite)
        staged.append(writer.write(copied))
        counts.update({name: int(writer.output.state[name]) for name in COUNTS})
    runtime.sync(directory.fd)
    return StagedCleaning(
        plan_id=clean.plan_id,
        directory=directory.path,
        end_offset=Offset(bound),
        last_mapped_offset=Offset(_NOTHING_MAPPED),
        segments=tuple(staged),
        stats=_stats(pairs, staged, counts, time.perf_counter() - started),
    )


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
    log = plan.clean.log
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


def _stats(
    pairs: list[tuple[Segment, Source]],
    staged: list[StagedSegment],
    counts: Counter[str],
    seconds: float,
) -> CleaningStats:
    return CleaningStats(
        bytes_read=ByteCount(sum(source.log.bytes for _, source in pairs)),
        bytes_written=ByteCount(sum(segment.log_bytes for segment in staged)),
        bytes_kept=ByteCount(0),
        records_read=sum(source.records for _, source in pairs),
        records_written=counts["records"],
        segments_before=len(pairs),
        segments_after=len(staged),
        map_reads=0,
        map_records=0,
        map_bytes=ByteCount(0),
        distinct_keys=0,
        removed_superseded=0,
        removed_tombstones=0,
        removed_null_keys=0,
        horizons_set=counts["horizons"],
        batches_verbatim=counts["verbatim"],
        batches_rebuilt=counts["rebuilt"],
        batches_dropped=counts["dropped"],
        map_seconds=0.0,
        copy_seconds=seconds,
        cpu_seconds=0.0,
        delete_horizon_ms=None,
    )
