"""The thorough checks: read the staged output and its source, and judge every record.

The output is read once, for its facts and its keys; then the source, from its end, once for the
comparison and its keys; and both once more for each further shard of the keys (`latest`).
Segments that stay as they are count as output. Markers and aborted data hold no values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logwright.batches.source import Source, Window, open_window, require_batch, side_of
from logwright.checks import kernels, thorough_kernels
from logwright.checks.latest import KeyTable
from logwright.checks.model import (
    LATEST_VALUE_PER_KEY,
    OFFSETS_ASCENDING,
    SURVIVORS_IDENTICAL,
    OutputFacts,
    SegmentFacts,
)
from logwright.checks.results import Verdicts
from logwright.checks.segments import (
    Pair,
    discard_valueless,
    open_decodable,
    open_pairs,
    open_sources,
    output_facts,
    runs,
    segment_facts,
)
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.format.batch import DELETE_HORIZON
from logwright.format.legacy import LEGACY_EXPIRED, NOT_LEGACY
from logwright.format.scan import bad_crcs
from logwright.format.walk import OK
from logwright.place.mapped import MappedFiles


@dataclass(slots=True, kw_only=True)
class _Matched:
    """A pair, and which staged batch was made from which source batch.

    Attributes:
        identical: for each source, bool[batches], true where the output has the same bytes.
        partners: for each source, int64[batches], row of the staged batch to compare with; -1
            where there is none, or the same bytes.
    """

    pair: Pair
    identical: list[NDArray[np.bool_]]
    partners: list[NDArray[np.int64]]


@dataclass(slots=True, kw_only=True)
class _Examination:
    """The state of one examination.

    Attributes:
        unchanged: the segments that stay as they are.
        tombstones_may_go: also those without a delete horizon.
    """

    plan: CleanPlan
    staged: StagedCleaning
    verdicts: Verdicts
    matched: list[_Matched]
    unchanged: list[Source]
    tombstones_may_go: bool

    @property
    def pairs(self) -> list[Pair]:
        return [each.pair for each in self.matched]

    @property
    def output(self) -> list[tuple[Source, NDArray[np.int64]]]:
        """The segments of the output, with the rows that can be read."""
        unchanged = [(source, np.arange(len(source.batches))) for source in self.unchanged]
        return [*unchanged, *((pair.staged, pair.readable_rows()) for pair in self.pairs)]


def examine_thoroughly(
    plan: CleanPlan, staged: StagedCleaning, *, tombstones_may_go: bool = False
) -> OutputFacts:
    """Judge the staged output of a plan by the segments it was made from. Effects: reads the staged
    files and the segments in the cleaning's range.

    Args:
        plan: of the cleaning.
        staged: its output. Only the directory, the segments and the map's end are used.
        tombstones_may_go: accept that tombstones without a delete horizon are gone, because there
            was more than one cleaning.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the *source* changed for
        the worse.
    """
    verdicts = Verdicts()
    files = MappedFiles()
    pairs = open_pairs(plan, staged, verdicts, files)
    bases = {segment.base_offset for segment in staged.unchanged}
    unchanged = open_sources(plan, bases, files)
    task = _Examination(
        plan=plan,
        staged=staged,
        verdicts=verdicts,
        matched=[_unmatched(pair, verdicts) for pair in pairs],
        unchanged=[*unchanged.values()],
        tombstones_may_go=tombstones_may_go,
    )
    sources = [source for pair in pairs for source in pair.sources]
    output = [*(pair.staged for pair in pairs), *task.unchanged]
    discard_valueless(plan, [*sources, *task.unchanged], output)
    facts: list[SegmentFacts] = []
    keys = _key_table(task)
    for shard in keys.shards():
        if shard == 0:
            facts = [_survey(task, pair) for pair in pairs]
            for each in task.matched:
                _match_batches(task, each)
        for source, rows in task.output:
            for run in runs(source, rows):
                keys.note(source, open_window(source, run))
        _note_expiring(task, keys)
        for each in reversed(task.matched):
            _check_sources(task, each, keys, compare=shard == 0)
    return output_facts(plan, staged, pairs, facts, verdicts)


def _unmatched(pair: Pair, verdicts: Verdicts) -> _Matched:
    """Check the CRCs, and set bad batches apart."""
    for row in bad_crcs(pair.staged.data, pair.staged.batches):
        pair.set_apart(row, verdicts)
    return _Matched(
        pair=pair,
        identical=[np.zeros(len(source.batches), dtype=np.bool_) for source in pair.sources],
        partners=[np.full(len(source.batches), -1, dtype=np.int64) for source in pair.sources],
    )


def _survey(task: _Examination, pair: Pair) -> SegmentFacts:
    """Gather the facts of one staged segment; set batches apart whose records cannot be read."""
    facts, order = kernels.new_facts(), task.verdicts.of[OFFSETS_ASCENDING]
    staged = pair.staged
    for run in runs(staged, pair.readable_rows()):
        rows, window = open_decodable(pair, run, task.verdicts)
        while rows.size:
            at, status = kernels.survey(side_of(staged, window), facts, order)
            if status != OK:
                pair.set_apart(int(rows[at]), task.verdicts)
            rows, window = rows[at + 1 :], window.only(slice(at + 1, None))
    return segment_facts(task.plan, pair, task.staged.directory, facts, task.verdicts)


def _match_batches(task: _Examination, matched: _Matched) -> None:
    """Find the source batch of each staged batch by its base offset: the same bytes, or to be
    compared.

    A staged batch without one is blamed. A source batch without one may be gone only below the
    map's end.
    """
    pair = matched.pair
    staged = pair.staged
    known = np.zeros(len(staged.batches), dtype=np.bool_)
    for source, identical, partners in zip(
        pair.sources, matched.identical, matched.partners, strict=True
    ):
        batches = source.batches
        _, rows, source_rows = np.intersect1d(
            _bases_in(staged.batches, batches), batches["base_offset"], return_indices=True
        )
        known[rows] = True
        readable = pair.readable[rows]
        rows, source_rows = rows[readable], source_rows[readable]
        same = np.zeros(len(rows), dtype=np.bool_)
        thorough_kernels.match_batches(
            staged.data, staged.batches[rows], source.data, batches, source_rows, same
        )
        identical[source_rows[same]] = True
        partners[source_rows[~same]] = rows[~same]
        gone = ~identical & (partners < 0) & (batches["count"] > 0) & ~batches["discard"]
        beyond = batches["last_offset"] > task.staged.last_mapped_offset
        for row in np.flatnonzero(gone & beyond):
            task.verdicts.blame(LATEST_VALUE_PER_KEY, int(batches[row]["last_offset"]))
    for row in np.flatnonzero(~known & pair.readable):
        task.verdicts.blame(SURVIVORS_IDENTICAL, int(staged.batches[row]["base_offset"]))


def _bases_in(staged: NDArray[np.void], batches: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the base offset in the source of each staged batch, int64[n]: one of an old format
    begins at the first record that it keeps.
    """
    bases: NDArray[np.int64] = staged["base_offset"].copy()
    if not batches["legacy"].any():
        return bases
    at = np.searchsorted(batches["base_offset"], bases, side="right") - 1
    holds = (at >= 0) & (batches["legacy"][at] != NOT_LEGACY)
    holds &= batches["last_offset"][at] >= bases
    bases[holds] = batches["base_offset"][at[holds]]
    return bases


def _check_sources(task: _Examination, matched: _Matched, keys: KeyTable, *, compare: bool) -> None:
    """Judge the keys of all source batches that the output does not hold unchanged, and compare
    their records with those of the output.
    """
    pair = matched.pair
    triples = list(zip(pair.sources, matched.identical, matched.partners, strict=True))
    for source, identical, partners in reversed(triples):
        for run in reversed(list(runs(source, np.flatnonzero(~identical)))):
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
    row, status = thorough_kernels.check_survivors(
        side_of(output, left),
        side_of(source, right),
        task.staged.last_mapped_offset,
        task.verdicts.of[SURVIVORS_IDENTICAL],
        task.verdicts.of[LATEST_VALUE_PER_KEY],
    )
    require_batch(source, right.batches, row, status)


def _key_table(task: _Examination) -> KeyTable:
    """Return a table for the keys of the output and of the source's tombstones that may go."""
    records = sum(source.records for source, _ in task.output)
    for source in (source for pair in task.pairs for source in pair.sources):
        counts = source.batches["count"][_expiring(task, source)]
        records += int(counts.sum(dtype=np.int64))
    return KeyTable(
        records=records,
        budget_bytes=task.plan.cleaner.map_bytes(like_kafka=False),
        last_mapped_offset=task.staged.last_mapped_offset,
        verdict=task.verdicts.of[LATEST_VALUE_PER_KEY],
    )


def _expiring(task: _Examination, source: Source) -> NDArray[np.int64]:
    """Return the rows of the batches whose tombstones may go."""
    batches = source.batches
    if task.tombstones_may_go:
        return np.arange(len(batches))
    has_horizon = (batches["attributes"] & DELETE_HORIZON) != 0
    reached = has_horizon & (batches["base_timestamp"] <= task.plan.now_ms)
    reached |= batches["legacy"] == LEGACY_EXPIRED
    return np.flatnonzero(reached & (batches["last_offset"] < task.plan.removal.end))


def _note_expiring(task: _Examination, keys: KeyTable) -> None:
    """Note the keys of tombstones that may go, as if the output had them."""
    for source in (source for pair in task.pairs for source in pair.sources):
        for run in runs(source, _expiring(task, source)):
            keys.note(source, open_window(source, run), only_tombstones=True)
