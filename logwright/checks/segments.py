"""Each staged segment beside the segments that it replaces, as the checks read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set  # noqa: PYI025 -- it is not shadowed
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from logwright.checks import thorough_kernels as kernels
from logwright.checks.indexes import check_indexes
from logwright.checks.model import (
    CRC_VALID,
    INDEX_ENTRIES_VALID,
    OFFSETS_ASCENDING,
    OutputFacts,
    SegmentFacts,
)
from logwright.compaction.model import StagedSegment
from logwright.compaction.outcomes import aborted_intervals
from logwright.compaction.source import Source, Window, open_source, open_window, row_ranges
from logwright.compaction.transactions import UNMAPPED
from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.batch import CODEC_MASK
from logwright.format.names import LOG, segment_file_name
from logwright.format.scan import scan_whatever
from logwright.log.mapped import MappedFiles

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.checks.results import Verdicts
    from logwright.compaction.model import CleanPlan, StagedCleaning

_MAGIC: Final = 2


@dataclass(slots=True, kw_only=True)
class Pair:
    """One staged segment and the sources it replaces.

    Attributes:
        readable: bool[staged batches], false where CRC or records are bad.
    """

    segment: StagedSegment
    staged: Source
    sources: list[Source]
    readable: NDArray[np.bool_]

    def readable_rows(self) -> NDArray[np.int64]:
        """Rows of the staged batches that can be read."""
        return np.flatnonzero(self.readable)

    def set_apart(self, row: int, verdicts: Verdicts) -> None:
        """A staged batch cannot be read."""
        self.readable[row] = False
        verdicts.blame(CRC_VALID, int(self.staged.batches[row]["base_offset"]))


def open_pairs(plan: CleanPlan, staged: StagedCleaning, verdicts: Verdicts) -> list[Pair]:
    """Read the headers of both sides; CRCs are not checked. Effects: maps the files.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the *source* changed for
        the worse.
    """
    replaced = {base for segment in staged.segments for base in segment.source_base_offsets}
    sources = open_sources(plan, replaced)
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
            verdicts.cells[OFFSETS_ASCENDING],
        )
    return pairs


def open_sources(plan: CleanPlan, bases: Set[int]) -> dict[int, Source]:
    """Segments of the log, by base offset. Effects and errors: see `open_source`."""
    files, directory = MappedFiles(), plan.log.directory_text
    return {
        segment.base_offset: open_source(
            directory, segment, files, end_offset=following.base_offset, first_ordinal=0
        )
        for segment, following in pairwise(plan.rolled_log.segments)
        if segment.base_offset in bases
    }


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


def set_valueless(
    plan: CleanPlan, sources: Sequence[Source], output: Sequence[Source] = ()
) -> None:
    """Mark control batches and the data of aborted transactions: they hold no values of keys, and
    may go from above the map's end too. The markers of the log tell, not the transaction indexes,
    by which the build went. Of the data of transactions below the log start offset nobody knows:
    sources are not judged by it, the output may show it. Effects: may read headers of segments
    behind the sources.

    Args:
        sources: segments of the log.
        output: staged segments made of them, and those that stay.
    """
    having = [source for source in sources if source.attributes & UNMAPPED]
    if having:
        aborted = aborted_intervals(plan.log, having)
        for judged, below in ((having, True), (output, False)):
            for source in judged:
                kernels.set_valueless(source.batches, aborted, plan.log.log_start_offset, below)


def runs(source: Source, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Ascending rows of a source, cut into windows of bounded bytes."""
    for first, last in row_ranges(source, first=0, last=len(source.batches)):
        start, stop = rows.searchsorted((first, last))
        if start < stop:
            yield rows[start:stop]


def open_decodable(
    pair: Pair, rows: NDArray[np.int64], verdicts: Verdicts
) -> tuple[NDArray[np.int64], Window]:
    """The staged batches among `rows` that decompress, opened; the others are set apart."""
    try:
        return rows, open_window(pair.staged, rows)
    except CorruptBatch:
        decoded = [row for row in rows if _decodes(pair, int(row), verdicts)]
        rows = np.array(decoded, dtype=np.int64)
        return rows, open_window(pair.staged, rows)


def open_matched(
    pair: Pair, matched: tuple[NDArray[np.int64], NDArray[np.int64]], verdicts: Verdicts
) -> tuple[NDArray[np.int64], NDArray[np.int64], Window]:
    """`open_decodable` of rows and, beside each, its source's row; those of both that are left."""
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
    cells: NDArray[np.int64],
    verdicts: Verdicts,
) -> SegmentFacts:
    """What the records (`kernels.survey`), the headers and the indexes of a staged segment tell.
    Effects: reads its indexes.

    Args:
        cells: int64[kernels.FACT_CELLS].
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
        records=int(cells[kernels.RECORDS]),
        tombstones=int(cells[kernels.TOMBSTONES]),
        null_key_records=int(cells[kernels.NULL_KEYS]),
        first_null_key_offset=int(cells[kernels.FIRST_NULL_KEY]),
        first_offset=int(batches["base_offset"][0]) if some else -1,
        last_offset=int(batches["last_offset"][-1]) if some else -1,
        min_magic=_MAGIC if some else -1,
        max_magic=_MAGIC if some else -1,
        max_codec=int((batches["attributes"] & CODEC_MASK).max()) if some else -1,
        min_timestamp_ms=int(cells[kernels.MIN_TIMESTAMP]),
        max_timestamp_ms=int(cells[kernels.MAX_TIMESTAMP]),
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
    """All that was found out about a staged cleaning."""
    sources = [source for pair in pairs for source in pair.sources]
    standing = sum(segment.records for segment in staged.standing)
    return OutputFacts(
        topic_partition=str(plan.log.partition),
        plan_id=plan.plan_id,
        checks=verdicts.results(),
        segments=tuple(facts),
        source_records=sum(source.records for source in sources),
        source_bytes=sum(source.log.bytes for source in sources),
        expected_records=staged.stats.records_written - standing,
        expected_bytes=staged.stats.bytes_written,
    )
