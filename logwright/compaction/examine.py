"""Read the compacted output back and judge it, before anything live changes.

The laws of a cleaning, each a count of violations and the first offender's offset:

1. ``crc_valid``: every batch of the output can be read and its CRC is right.
2. ``offsets_ascending``: batches and records ascend and stay in their segment's range.
3. ``survivors_identical``: every record of the output is the source's at that offset: time, key,
   value, headers.
4. ``latest_value_per_key``: for every record of the source there is one of its key at that offset
   or above in the output, or its key's last record is a tombstone past its delete horizon
   (KIP-534). Above the map's end every record is there. Markers and aborted data have no values.
5. ``index_entries_valid``: index entries point at batches, and time index entries tell the truth.

The output is read once, for its facts and its keys; then the source, from its end, once for the
comparison and its keys; and both once more for each further shard of the keys (`keys_law`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.compaction import laws
from logwright.compaction.index_law import check_indexes
from logwright.compaction.keys_law import KeyTable, require_readable
from logwright.compaction.model import (
    CleanPlan,
    OutputFacts,
    SegmentFacts,
    StagedCleaning,
    StagedSegment,
)
from logwright.compaction.source import Source, Window, open_source, open_window, row_ranges
from logwright.compaction.transactions import TransactionIndexes
from logwright.compaction.verdicts import Verdicts
from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.batch import CODEC_MASK, DELETE_HORIZON
from logwright.format.names import LOG, segment_file_name
from logwright.format.scan import bad_crcs, scan_whatever
from logwright.format.walk import OK
from logwright.log.mapped import map_file

_MAGIC: Final = 2


@dataclass(slots=True, kw_only=True)
class _Pair:
    """One staged segment and the sources it replaces.

    Attributes:
        readable: bool[staged batches], false where CRC or records are bad.
        identical: for each source, bool[batches], true where the output has the same bytes.
        partners: for each source, int64[batches], row of the staged batch to compare with; -1
            where there is none, or the same bytes.
    """

    segment: StagedSegment
    staged: Source
    sources: list[Source]
    readable: NDArray[np.bool_]
    identical: list[NDArray[np.bool_]]
    partners: list[NDArray[np.int64]]

    def readable_rows(self) -> NDArray[np.int64]:
        """Rows of the staged batches that can be read."""
        return np.flatnonzero(self.readable)


@dataclass(slots=True, kw_only=True)
class _Examination:
    plan: CleanPlan
    staged: StagedCleaning
    verdicts: Verdicts
    pairs: list[_Pair]
    tombstones_may_go: bool


def examine(
    plan: CleanPlan, staged: StagedCleaning, *, tombstones_may_go: bool = False
) -> OutputFacts:
    """Judge the staged output of a plan. Effects: reads the staged files and the segments they were
    made from.

    Args:
        plan: whose source is compared.
        staged: what is judged.
        tombstones_may_go: also those that have no delete horizon yet: more than one cleaning may
            lie between.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the *source* changed for
        the worse.
    """
    verdicts = Verdicts()
    sources = _open_sources(plan, staged)
    pairs = [
        _open_pair(segment, staged.directory, sources, verdicts) for segment in staged.segments
    ]
    task = _Examination(
        plan=plan,
        staged=staged,
        verdicts=verdicts,
        pairs=pairs,
        tombstones_may_go=tombstones_may_go,
    )
    _check_order(task)
    _set_valueless(task)
    facts: list[SegmentFacts] = []
    keys = _key_table(task)
    for shard in keys.shards():
        if shard == 0:
            facts = [_survey(task, pair, keys) for pair in pairs]
            for pair in pairs:
                _match_batches(task, pair)
        else:
            _note_staged(task, keys)
        _note_expiring(task, keys)
        for pair in reversed(pairs):
            _check_sources(task, pair, keys, compare=shard == 0)
    return OutputFacts(
        topic_partition=str(plan.log.partition),
        plan_id=plan.plan_id,
        laws=verdicts.results(),
        segments=tuple(facts),
        source_records=sum(source.records for source in sources.values()),
        source_bytes=sum(len(source.data) for source in sources.values()),
        expected_records=staged.stats.records_written,
        expected_bytes=staged.stats.bytes_written,
    )


def _open_sources(plan: CleanPlan, staged: StagedCleaning) -> dict[int, Source]:
    """The segments that are replaced, by base offset."""
    replaced = {base for segment in staged.segments for base in segment.source_base_offsets}
    segments = plan.rolled_log.segments
    return {
        segment.base_offset: open_source(
            plan.log.directory, segment, end_offset=following.base_offset, first_ordinal=0
        )
        for segment, following in pairwise(segments)
        if segment.base_offset in replaced
    }


def _open_pair(
    segment: StagedSegment, directory: Path, sources: dict[int, Source], verdicts: Verdicts
) -> _Pair:
    """Read the staged batch headers and check the CRCs; unreadable batches are set apart."""
    path = directory / segment_file_name(segment.base_offset, LOG)
    data = map_file(path)
    try:
        batches = scan_whatever(data, path)
    except (CorruptBatch, UnsupportedFormatError):
        verdicts.blame("crc_valid", segment.base_offset)
        batches = scan_whatever(data[:0], path)
    replaced = [sources[base] for base in segment.source_base_offsets]
    pair = _Pair(
        segment=segment,
        staged=Source(base_offset=segment.base_offset, path=path, data=data, batches=batches),
        sources=replaced,
        readable=np.ones(len(batches), dtype=np.bool_),
        identical=[np.zeros(len(source.batches), dtype=np.bool_) for source in replaced],
        partners=[np.full(len(source.batches), -1, dtype=np.int64) for source in replaced],
    )
    for row in bad_crcs(data, batches):
        verdicts.blame("crc_valid", int(batches[row]["base_offset"]))
        pair.readable[row] = False
    return pair


def _runs(source: Source, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Ascending rows of a source, cut into windows of bounded bytes."""
    for first, last in row_ranges(source, first=0, last=len(source.batches)):
        start, stop = np.searchsorted(rows, [first, last])
        if start < stop:
            yield rows[start:stop]


def _set_apart(task: _Examination, pair: _Pair, row: int) -> None:
    pair.readable[row] = False
    task.verdicts.blame("crc_valid", int(pair.staged.batches[row]["base_offset"]))


def _survey(task: _Examination, pair: _Pair, keys: KeyTable) -> SegmentFacts:
    """Facts of one staged segment, whose keys are noted; batches whose records cannot be read are
    set apart.
    """
    cells = np.full(laws.FACT_CELLS, -1, dtype=np.int64)
    cells[[laws.RECORDS, laws.TOMBSTONES, laws.NULL_KEYS]] = 0
    order = task.verdicts.cells["offsets_ascending"]
    staged = pair.staged
    for run in _runs(staged, pair.readable_rows()):
        rows = run
        while rows.size:
            try:
                window = open_window(staged, rows)
            except CorruptBatch:
                rows = _without_undecodable(task, pair, rows)
                continue
            at, status = laws.survey(
                staged.data, window.scratch, window.batches, window.spans, cells, order
            )
            keys.note(staged, window.only(slice(int(at))))
            if status != OK:
                _set_apart(task, pair, int(rows[at]))
            rows = rows[at + 1 :]
    return _facts(task, pair, cells)


def _facts(task: _Examination, pair: _Pair, cells: NDArray[np.int64]) -> SegmentFacts:
    """What the records (`laws.survey`), the headers and the indexes of a staged segment tell."""
    staged = pair.staged
    entries, misplaced = check_indexes(pair.segment, staged, task.staged.directory)
    for offset in misplaced:
        task.verdicts.blame("index_entries_valid", offset)
    batches = staged.batches
    some = len(batches) > 0
    return SegmentFacts(
        topic_partition=str(task.plan.log.partition),
        base_offset=staged.base_offset,
        log_bytes=len(staged.data),
        batches=len(batches),
        records=int(cells[laws.RECORDS]),
        tombstones=int(cells[laws.TOMBSTONES]),
        null_key_records=int(cells[laws.NULL_KEYS]),
        first_null_key_offset=int(cells[laws.FIRST_NULL_KEY]),
        first_offset=int(batches["base_offset"][0]) if some else -1,
        last_offset=int(batches["last_offset"][-1]) if some else -1,
        min_magic=_MAGIC if some else -1,
        max_magic=_MAGIC if some else -1,
        max_codec=int((batches["attributes"] & CODEC_MASK).max()) if some else -1,
        min_timestamp_ms=int(cells[laws.MIN_TIMESTAMP]),
        max_timestamp_ms=int(cells[laws.MAX_TIMESTAMP]),
        largest_batch_bytes=int(batches["size"].max()) if some else 0,
        index_entries=entries[0],
        timeindex_entries=entries[1],
        misplaced_index_entries=len(misplaced),
    )


def _without_undecodable(
    task: _Examination, pair: _Pair, rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Set apart the batches that do not decompress; the rows that do."""
    kept = []
    for row in rows:
        try:
            open_window(pair.staged, np.array([row]))
        except CorruptBatch:
            _set_apart(task, pair, int(row))
        else:
            kept.append(row)
    return np.array(kept, dtype=np.int64)


def _check_order(task: _Examination) -> None:
    """Each staged segment's batches ascend and end before the next one's base, the last before the
    cleaning's end.
    """
    segments = task.plan.rolled_log.segments
    bases = [segment.base_offset for segment in segments]
    for pair in task.pairs:
        after = bases.index(pair.segment.source_base_offsets[-1]) + 1
        laws.check_batch_order(
            pair.staged.batches,
            pair.segment.base_offset,
            bases[after],
            task.verdicts.cells["offsets_ascending"],
        )


def _match_batches(task: _Examination, pair: _Pair) -> None:
    """Find each staged batch's source batch, by base offset: of the same bytes, or to be compared.

    A staged batch without one comes from nowhere; a source batch without one may be gone only below
    the map's end.
    """
    staged = pair.staged
    found = np.zeros(len(staged.batches), dtype=np.bool_)
    for source, identical, partners in zip(
        pair.sources, pair.identical, pair.partners, strict=True
    ):
        batches = source.batches
        _, rows, source_rows = np.intersect1d(
            staged.batches["base_offset"], batches["base_offset"], return_indices=True
        )
        found[rows] = True
        readable = pair.readable[rows]
        rows, source_rows = rows[readable], source_rows[readable]
        same = laws.match_batches(
            staged.data, staged.batches[rows], source.data, batches, source_rows
        )
        identical[source_rows[same]] = True
        partners[source_rows[~same]] = rows[~same]
        gone = ~identical & (partners < 0) & (batches["count"] > 0) & ~batches["discard"]
        beyond = batches["last_offset"] > task.staged.last_mapped_offset
        for row in np.flatnonzero(gone & beyond):
            task.verdicts.blame("latest_value_per_key", int(batches[row]["last_offset"]))
    for row in np.flatnonzero(~found & pair.readable):
        task.verdicts.blame("survivors_identical", int(staged.batches[row]["base_offset"]))


def _check_sources(task: _Examination, pair: _Pair, keys: KeyTable, *, compare: bool) -> None:
    """Judge the keys of all source batches that are not in the output as they were, and compare
    their records with those of the output.
    """
    triples = list(zip(pair.sources, pair.identical, pair.partners, strict=True))
    for source, identical, partners in reversed(triples):
        for run in reversed(list(_runs(source, np.flatnonzero(~identical)))):
            window = open_window(source, run)
            compared = partners[run] >= 0
            if compare and compared.any():
                left = open_window(pair.staged, partners[run[compared]])
                _compare(task, (pair.staged, left), (source, window.only(compared)))
            keys.judge(source, window)


def _compare(
    task: _Examination, staged: tuple[Source, Window], original: tuple[Source, Window]
) -> None:
    """Compare the records of two windows, batch by batch."""
    (output, left), (source, right) = staged, original
    cells = [task.verdicts.cells[law] for law in ("survivors_identical", "latest_value_per_key")]
    verdicts = np.stack(cells)
    row, status = laws.check_survivors(
        output.data,
        left.scratch,
        left.batches,
        left.spans,
        source.data,
        right.scratch,
        right.batches,
        right.spans,
        task.staged.last_mapped_offset,
        verdicts,
    )
    cells[0][:], cells[1][:] = verdicts
    require_readable(source, right, row, status)


def _set_valueless(task: _Examination) -> None:
    """Mark control batches and the data of aborted transactions: they hold no values of keys, and
    may go from above the map's end too.
    """
    aborted = TransactionIndexes(task.plan.log).intervals()
    for pair in task.pairs:
        for source in (pair.staged, *pair.sources):
            laws.set_valueless(source.batches, aborted)


def _key_table(task: _Examination) -> KeyTable:
    """Room for the keys of the output, and of the source's tombstones that may be gone."""
    records = sum(pair.staged.records for pair in task.pairs)
    for source in (source for pair in task.pairs for source in pair.sources):
        counts = source.batches["count"][_expiring(task, source)]
        records += int(counts.sum(dtype=np.int64))
    return KeyTable(
        records=records,
        budget_bytes=task.plan.cleaner.dedupe_buffer_bytes,
        last_mapped_offset=task.staged.last_mapped_offset,
        verdict=task.verdicts.cells["latest_value_per_key"],
    )


def _expiring(task: _Examination, source: Source) -> NDArray[np.int64]:
    """Rows of the batches whose delete horizon is reached."""
    batches = source.batches
    if task.tombstones_may_go:
        return np.arange(len(batches))
    has_horizon = (batches["attributes"] & DELETE_HORIZON) != 0
    return np.flatnonzero(has_horizon & (batches["base_timestamp"] <= task.plan.now_ms))


def _note_staged(task: _Examination, keys: KeyTable) -> None:
    """Note the output's keys."""
    for pair in task.pairs:
        for run in _runs(pair.staged, pair.readable_rows()):
            keys.note(pair.staged, open_window(pair.staged, run))


def _note_expiring(task: _Examination, keys: KeyTable) -> None:
    """Note the keys of tombstones whose delete horizon is reached: they may be gone."""
    for source in (source for pair in task.pairs for source in pair.sources):
        for run in _runs(source, _expiring(task, source)):
            keys.note(source, open_window(source, run), only_tombstones=True)
