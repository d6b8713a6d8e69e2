"""Each staged segment with the segments that it replaces, as the checks read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set  # noqa: PYI025 -- it is not shadowed
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from logwright.batches.outcomes import aborted_intervals
from logwright.batches.source import Source, Window, open_source, open_window, row_ranges
from logwright.checks import kernels
from logwright.checks.indexes import check_indexes
from logwright.checks.model import (
    CRC_VALID,
    INDEX_ENTRIES_VALID,
    OFFSETS_ASCENDING,
    OutputFacts,
    SegmentFacts,
)
from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.batch import CODEC_MASK, CONTROL, TRANSACTIONAL
from logwright.format.legacy import LEGACY_EXPIRED
from logwright.format.names import LOG, segment_file_name
from logwright.format.scan import scan_whatever
from logwright.place.mapped import MappedFiles
from logwright.rewrite.model import StagedSegment

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.checks.results import Verdicts
    from logwright.compaction.model import CleanPlan, StagedCleaning


@dataclass(slots=True, kw_only=True)
class Pair:
    """One staged segment and the sources that it replaces.

    Attributes:
        readable: bool[staged batches], false where CRC or records are bad.
    """

    segment: StagedSegment
    staged: Source
    sources: list[Source]
    readable: NDArray[np.bool_]

    def readable_rows(self) -> NDArray[np.int64]:
        """Return the rows of the staged batches that can be read."""
        return np.flatnonzero(self.readable)

    def set_apart(self, row: int, verdicts: Verdicts) -> None:
        """Leave a staged batch that cannot be read out of the other checks."""
        self.readable[row] = False
        verdicts.blame(CRC_VALID, int(self.staged.batches[row]["base_offset"]))


def open_pairs(
    plan: CleanPlan, staged: StagedCleaning, verdicts: Verdicts, files: MappedFiles
) -> list[Pair]:
    """Read the headers of both sides, without their CRCs. Effects: maps the files, the log's in
    `files`.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the *source* changed for
        the worse.
    """
    replaced = {base for segment in staged.segments for base in segment.source_base_offsets}
    sources = open_sources(plan, replaced, files)
    outputs = MappedFiles()
    pairs = [
        _open_pair(segment, outputs, staged.directory, sources, verdicts)
        for segment in staged.segments
    ]
    bases = [segment.base_offset for segment in plan.rolled_log.segments]
    following = dict(pairwise(bases))
    for pair in pairs:
        kernels.check_batch_order(
            pair.staged.batches,
            pair.segment.base_offset,
            following[pair.segment.source_base_offsets[-1]],
            verdicts.of[OFFSETS_ASCENDING],
        )
    return pairs


def open_sources(plan: CleanPlan, bases: Set[int], files: MappedFiles) -> dict[int, Source]:
    """Open segments of the log, by base offset. Effects and errors: see `open_source`."""
    directory = plan.log.directory_text
    sources = {}
    for segment, following in pairwise(plan.rolled_log.segments):
        if segment.base_offset in bases:
            source = open_source(
                directory, segment, files, end_offset=following.base_offset, first_ordinal=0
            )
            if source.is_converted and _is_old_enough(plan, segment.modified_ns):
                source.batches["legacy"] *= LEGACY_EXPIRED
            sources[int(segment.base_offset)] = source
    return sources


def _is_old_enough(plan: CleanPlan, modified_ns: int) -> bool:
    """Return whether the tombstones of old formats may go of a segment that was modified then:
    ``delete.retention.ms`` before the last segment of the clean section. The build has this rule
    separately (`logwright.compaction.legacy`).
    """
    times = [
        each.modified_ns // 1_000_000
        for each in plan.rolled_log.segments
        if each.base_offset < plan.compaction.first_dirty_offset
    ]
    bound = times[-1] - plan.config.delete_retention_ms if times else 0
    return modified_ns // 1_000_000 <= bound


def _open_pair(
    segment: StagedSegment,
    outputs: MappedFiles,
    directory: Path,
    sources: dict[int, Source],
    verdicts: Verdicts,
) -> Pair:
    path = f"{directory}/{segment_file_name(segment.base_offset, LOG)}"
    log = outputs.open(path)
    try:
        batches = scan_whatever(log.data, path)
    except (CorruptBatch, UnsupportedFormatError):
        verdicts.blame(CRC_VALID, segment.base_offset)
        batches = scan_whatever(log.data[:0], path)
    return Pair(
        segment=segment,
        staged=Source(base_offset=segment.base_offset, log=log, batches=batches),
        sources=[sources[base] for base in segment.source_base_offsets],
        readable=np.ones(len(batches), dtype=np.bool_),
    )


def discard_valueless(
    plan: CleanPlan,
    sources: Sequence[Source],
    output: Sequence[Source] = (),
    *,
    aborted: NDArray[np.int64] | None = None,
) -> None:
    """Mark control batches and the data of aborted transactions as `discard`: they hold no values
    of keys, and may go from above the map's end too.

    The build goes by the transaction indexes, the checks by the markers in the log. Below the log
    start offset the markers may be gone: there, all transactional data of the sources is marked,
    and none of the output. Effects: may read headers of segments after the sources.

    Args:
        plan: of the cleaning.
        sources: segments of the log.
        output: staged segments made from them, and those that stay.
        aborted: what `aborted_intervals` finds, if it is known.
    """
    having = [source for source in sources if source.attributes & (TRANSACTIONAL | CONTROL)]
    if having:
        if aborted is None:
            aborted = aborted_intervals(plan.log, having)
        for judged, below in ((having, True), (output, False)):
            for source in judged:
                kernels.discard_valueless(source.batches, aborted, plan.log.log_start_offset, below)


def runs(
    source: Source, rows: NDArray[np.int64], *, window_bytes: int | None = None
) -> Iterator[NDArray[np.int64]]:
    """Split ascending rows of a source into windows of bounded bytes, see `row_ranges`."""
    ranges = row_ranges(source, first=0, last=len(source.batches), window_bytes=window_bytes)
    for first, last in ranges:
        start, stop = rows.searchsorted((first, last))
        if start < stop:
            yield rows[start:stop]


def open_decodable(
    pair: Pair, rows: NDArray[np.int64], verdicts: Verdicts
) -> tuple[NDArray[np.int64], Window]:
    """Open the staged batches among `rows` that decompress, and set the others apart."""
    try:
        return rows, open_window(pair.staged, rows)
    except CorruptBatch:
        decoded = [row for row in rows if _decodes(pair, int(row), verdicts)]
        rows = np.array(decoded, dtype=np.int64)
        return rows, open_window(pair.staged, rows)


def open_matched(
    pair: Pair, matched: tuple[NDArray[np.int64], NDArray[np.int64]], verdicts: Verdicts
) -> tuple[NDArray[np.int64], NDArray[np.int64], Window]:
    """Open the decodable batches of (staged rows, rows of their sources); return those that are
    left of both, and the window.
    """
    given, partners = matched
    rows, window = open_decodable(pair, given, verdicts)
    if len(rows) < len(given):
        partners = partners[np.isin(given, rows)]
    return rows, partners, window


def _decodes(pair: Pair, row: int, verdicts: Verdicts) -> bool:
    try:
        open_window(pair.staged, np.array([row]))
    except CorruptBatch:
        pair.set_apart(row, verdicts)
        return False
    return True


def segment_facts(
    plan: CleanPlan,
    pair: Pair,
    directory: Path,
    facts: np.record,
    verdicts: Verdicts,
) -> SegmentFacts:
    """Gather the facts of a staged segment from its records, headers and indexes, and check the
    indexes. Effects: reads them.

    Args:
        facts: see `kernels.new_facts`.
    """
    staged = pair.staged
    entries, misplaced = check_indexes(pair.segment, staged, directory)
    for offset in misplaced:
        verdicts.blame(INDEX_ENTRIES_VALID, offset)
    batches = staged.batches
    some = len(batches) > 0
    return SegmentFacts(
        topic_partition=str(plan.log.partition),
        base_offset=staged.base_offset,
        log_bytes=staged.log.bytes,
        batches=len(batches),
        records=int(facts.records),
        tombstones=int(facts.tombstones),
        null_key_records=int(facts.null_keys),
        first_null_key_offset=int(facts.first_null_key),
        first_offset=int(batches["base_offset"][0]) if some else -1,
        last_offset=int(batches["last_offset"][-1]) if some else -1,
        max_codec=int((batches["attributes"] & CODEC_MASK).max()) if some else -1,
        min_timestamp_ms=int(facts.min_timestamp) if facts.records else -1,
        max_timestamp_ms=int(facts.max_timestamp) if facts.records else -1,
        largest_batch_bytes=int(batches["size"].max()) if some else 0,
        index_entries=entries[0],
        timeindex_entries=entries[1],
        misplaced_index_entries=len(misplaced),
    )


def output_facts(
    plan: CleanPlan,
    staged: StagedCleaning,
    pairs: list[Pair],
    facts: list[SegmentFacts],
    verdicts: Verdicts,
) -> OutputFacts:
    """Combine all facts about a staged cleaning."""
    sources = [source for pair in pairs for source in pair.sources]
    unchanged = sum(segment.records for segment in staged.unchanged)
    return OutputFacts(
        topic_partition=str(plan.log.partition),
        plan_id=plan.plan_id,
        checks=verdicts.results(),
        segments=tuple(facts),
        source_records=sum(source.records for source in sources),
        source_bytes=sum(source.log.bytes for source in sources),
        expected_records=staged.stats.records_written - unchanged,
        expected_bytes=staged.stats.bytes_written,
    )
