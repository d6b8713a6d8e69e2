"""The quick checks: read the staged output, and of the source only what rebuilt batches come from.

The checks are those of `thorough`, kept by cheaper means (docs/adr/0010):

1. Every staged batch is read from disk: CRC, header, order, index entries.
2. A batch whose bytes are its source's needs no more. The records of any other are compared with
   its source's, in which they must be found in their order.
3. The latest values: the sum of the keys that the offset map holds as the latest must be the sum of
   those in the output (`digest`). The records kept of each source segment, the removed by cause,
   and the number of mapped keys must add up. The map is tried by a sample of its keys.

A failed check is found here, and where by `thorough`, which then judges too.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.checks import packed_kernels, quick_kernels
from logwright.checks import thorough_kernels as kernels
from logwright.checks.latest import require_readable
from logwright.checks.model import (
    LATEST_VALUE_PER_KEY,
    SURVIVORS_IDENTICAL,
    OutputFacts,
    SegmentFacts,
)
from logwright.checks.results import Verdicts
from logwright.checks.segments import (
    Pair,
    open_matched,
    open_pairs,
    output_facts,
    runs,
    segment_facts,
    set_valueless,
)
from logwright.compaction.model import CleanPlan, GroupFacts, KeyFacts, PackedFacts, StagedCleaning
from logwright.compaction.runtime import Means
from logwright.compaction.source import Source, open_window
from logwright.errors import invariant
from logwright.format.batch import CODEC_MASK, TRANSACTIONAL
from logwright.format.scan import bad_crcs
from logwright.format.walk import OK
from logwright.units import INT64_MAX

_ALL: Final = 1 << 64


_Run = tuple[Source, NDArray[np.int64], NDArray[np.int64]]
"""A source, staged rows that come from it, and the rows of it that they come from."""
_Results = tuple[NDArray[np.uint64], NDArray[np.int64]]
"""What was found of keys (`quick_kernels`), and facts (`kernels`)."""


@dataclass(slots=True, kw_only=True)
class _Check:
    """The state of one examination.

    Attributes:
        keys: what the map pass found out.
        digest, mapped: of the keys that were found in the output so far.
    """

    plan: CleanPlan
    staged: StagedCleaning
    keys: KeyFacts
    verdicts: Verdicts
    digest: int = 0
    mapped: int = 0

    def require(self, holds: object, offset: int, check: str = LATEST_VALUE_PER_KEY) -> None:
        """Blame a check at an offset unless something holds."""
        if not holds:
            self.verdicts.blame(check, offset)


def examine_quickly(
    plan: CleanPlan, staged: StagedCleaning, *, means: Means | None = None
) -> OutputFacts:
    """Judge the staged output by itself, the source batches of what was rebuilt, and what `build`
    told of it. Effects: reads the staged files; maps the segments they were made from.

    `means`: one thread and no throttle, if not given.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the *source* changed for
        the worse.
    """
    invariant(staged.keys is not None, "the build told nothing of the keys")
    assert staged.keys is not None  # noqa: S101 -- for the type
    verdicts = Verdicts()
    pairs = open_pairs(plan, staged, verdicts)
    set_valueless(plan, [source for pair in pairs for source in pair.sources])
    task = _Check(plan=plan, staged=staged, keys=staged.keys, verdicts=verdicts)
    facts = [_check_pair(task, pair, means or Means()) for pair in pairs]
    for segment in staged.standing:
        task.digest += segment.facts.mostly_digest
        task.mapped += segment.facts.mostly_mapped
    _check_range(task)
    _check_sums(task)
    return output_facts(plan, staged, pairs, facts, verdicts)


def _check_range(task: _Check) -> None:
    """Every segment that the cleaning reached was rewritten or stays, none twice."""
    reached = [
        segment.base_offset
        for segment in task.plan.rolled_log.sealed
        if segment.base_offset < task.staged.end_offset
    ]
    standing = [segment.base_offset for segment in task.staged.standing]
    replaced = [base for each in task.staged.segments for base in each.source_base_offsets]
    for base in set(reached) ^ {*standing, *replaced}:
        task.verdicts.blame(LATEST_VALUE_PER_KEY, base)
    task.require(len(reached) == len(standing) + len(replaced), reached[0] if reached else 0)


def _check_sums(task: _Check) -> None:
    """The output holds what the map holds; the map is right by the sample; all records are
    accounted for.
    """
    keys, stats = task.keys, task.staged.stats
    base = task.plan.rolled_log.segments[0].base_offset
    task.require(keys.sample_digest == keys.expected_sample_digest, base)
    found = task.digest % _ALL, task.mapped % _ALL
    task.require(found == (keys.digest, keys.records), base)
    removed = (
        stats.removed_superseded
        + stats.removed_tombstones
        + stats.removed_null_keys
        + stats.removed_aborted
        + stats.removed_markers
    )
    task.require(stats.records_read == removed + stats.records_written, base)


def _told_of(pair: Pair) -> tuple[GroupFacts, PackedFacts]:
    facts, packed = pair.segment.facts, pair.segment.packed
    told = facts is not None and packed is not None
    invariant(told, f"the build told nothing of segment {pair.segment.base_offset}")
    assert facts is not None and packed is not None  # noqa: S101, PT018 -- for the types
    return facts, packed


def _check_pair(task: _Check, pair: Pair, means: Means) -> SegmentFacts:
    """Judge one staged segment, and gather its facts."""
    (told, packed), base = _told_of(pair), pair.segment.base_offset
    _number_records(pair, told)
    source_of, partners = _partners(task, pair)
    rows_of = [(source_of == number).nonzero()[0] for number in range(len(pair.sources))]
    work = [
        (source, run, partners[run])
        for source, rows in zip(pair.sources, rows_of, strict=True)
        for run in runs(pair.staged, rows)
    ]
    found, cells = _check_runs(task, pair, work, means)
    for number, (source, rows) in enumerate(zip(pair.sources, rows_of, strict=True)):
        kept = int(pair.staged.batches["count"][rows].sum(dtype=np.int64))
        task.require(kept == told.kept_records[number], source.base_offset)
        _check_gone(task, source, partners[rows])
    _check_told(task, pair, found)
    task.digest += told.mostly_digest + int(found[quick_kernels.DIGEST])
    task.mapped += told.mostly_mapped + int(found[quick_kernels.MAPPED])
    task.digest += packed.digest
    for check in (
        SURVIVORS_IDENTICAL,
        LATEST_VALUE_PER_KEY,
    ):  # of these batches the keys are known by that sum alone
        task.require(int(found[quick_kernels.PACKED_CONTENT]) == packed.content, base, check)
    cells[kernels.TOMBSTONES] += told.mostly_tombstones
    if told.verbatim_min_timestamp_ms is not None:
        smallest = min(int(cells[kernels.MIN_TIMESTAMP]), told.verbatim_min_timestamp_ms)
        cells[kernels.MIN_TIMESTAMP] = smallest
    if cells[kernels.RECORDS] == 0:
        cells[kernels.MIN_TIMESTAMP] = -1
    return segment_facts(task.plan, pair, task.staged.directory, cells, task.verdicts)


def _check_runs(
    task: _Check, pair: Pair, work: list[_Run], means: Means
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Judge the batches of a staged segment, by one thread or several; what was found of their
    keys, and their facts.
    """

    def one(own: _Check, results: _Results, run: _Run) -> None:
        source, rows, partners = run
        _check_run(own, (pair, source), rows, partners, results)
        means.throttle.observe(int(pair.staged.batches["size"][rows].sum()))

    if means.threads == 1 or len(work) == 1:
        found, cells = _no_results()
        for run in work:
            one(task, (found, cells), run)
        return found, cells
    judged = [(replace(task, verdicts=Verdicts()), _no_results(), run) for run in work]
    with ThreadPoolExecutor(means.threads) as pool:
        for _ in pool.map(lambda arguments: one(*arguments), judged):
            pass
    found, cells = _no_results()
    for own, (found_here, facts), _ in judged:
        task.verdicts.add(own.verdicts)
        found += found_here
        _add_facts(cells, facts)
    return found, cells


def _no_results() -> _Results:
    cells = kernels.new_cells()
    cells[kernels.MIN_TIMESTAMP] = INT64_MAX
    return np.zeros(quick_kernels.FOUND_CELLS, dtype=np.uint64), cells


def _add_facts(cells: NDArray[np.int64], later: NDArray[np.int64]) -> None:
    """Add the facts of batches that come after those of `cells`."""
    if later[kernels.NULL_KEYS] and not cells[kernels.NULL_KEYS]:
        cells[kernels.FIRST_NULL_KEY] = later[kernels.FIRST_NULL_KEY]
    for cell in (kernels.RECORDS, kernels.TOMBSTONES, kernels.NULL_KEYS):
        cells[cell] += later[cell]
    cells[kernels.MIN_TIMESTAMP] = min(cells[kernels.MIN_TIMESTAMP], later[kernels.MIN_TIMESTAMP])
    cells[kernels.MAX_TIMESTAMP] = max(cells[kernels.MAX_TIMESTAMP], later[kernels.MAX_TIMESTAMP])


def _number_records(pair: Pair, told: GroupFacts) -> None:
    """Number the sources' records as the map pass did."""
    for source, first_ordinal in zip(pair.sources, told.first_ordinals, strict=True):
        source.batches["first_ordinal"] += first_ordinal


def _partners(task: _Check, pair: Pair) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each staged batch the number of the source and the row of the batch that has its base
    offset; -1 and -1 of one that comes from nowhere.
    """
    bases = pair.staged.batches["base_offset"]
    source_of, partners = np.full((2, len(bases)), -1, dtype=np.int64)
    for number, source in enumerate(pair.sources):
        quick_kernels.find_partners(
            pair.staged.batches, source.batches, number, source_of, partners
        )
    for row in (source_of < 0).nonzero()[0]:
        task.verdicts.blame(SURVIVORS_IDENTICAL, int(bases[row]))
    return source_of, partners


def _check_run(
    task: _Check,
    pair_and_source: tuple[Pair, Source],
    rows: NDArray[np.int64],
    partners: NDArray[np.int64],
    results: tuple[NDArray[np.uint64], NDArray[np.int64]],
) -> None:
    """Judge some staged batches of one source while they are in the CPU's cache."""
    pair, source = pair_and_source
    found, cells = results
    staged = pair.staged
    batches = staged.batches.take(rows)
    bad = bad_crcs(staged.data, batches)
    if bad:
        for at in bad:
            pair.set_apart(int(rows[at]), task.verdicts)
        rows, partners = np.delete(rows, bad), np.delete(partners, bad)
        batches = staged.batches.take(rows)
    verbatim = np.zeros(len(batches), dtype=np.bool_)
    quick_kernels.find_verbatim(
        staged.data, batches, source.data, source.batches, partners, found, cells, verbatim
    )
    _note_unmapped(task, pair, rows[verbatim], cells)
    rows, partners = rows[~verbatim], partners[~verbatim]
    packed = (source.batches["attributes"][partners] & CODEC_MASK) != 0
    for chosen, judge in ((packed, _sum_packed), (~packed, _compare)):
        if chosen.any():
            judge(task, pair_and_source, (rows[chosen], partners[chosen]), results)


def _note_unmapped(
    task: _Check, pair: Pair, rows: NDArray[np.int64], cells: NDArray[np.int64]
) -> None:
    """Count the records without a key in batches that lie above the map's end."""
    beyond = pair.staged.batches["last_offset"][rows] > task.staged.last_mapped_offset
    rows = rows[beyond]
    if not rows.size:
        return
    window = open_window(pair.staged, rows)
    own, order = kernels.new_cells(), np.zeros(2, dtype=np.int64)
    kernels.survey(pair.staged.data, window.scratch, window.batches, window.spans, own, order)
    if own[kernels.NULL_KEYS] and not cells[kernels.NULL_KEYS]:
        cells[kernels.FIRST_NULL_KEY] = own[kernels.FIRST_NULL_KEY]
    cells[kernels.NULL_KEYS] += own[kernels.NULL_KEYS]


def _rule(task: _Check) -> NDArray[np.int64]:
    """int64[2]: the map's last offset, the delete horizon that this cleaning sets."""
    retention_ms = task.plan.config.delete_retention_ms
    horizon_ms = min(task.plan.now_ms + retention_ms, INT64_MAX)
    return np.array([task.staged.last_mapped_offset, horizon_ms], dtype=np.int64)


def _sum_packed(
    task: _Check,
    pair_and_source: tuple[Pair, Source],
    matched: tuple[NDArray[np.int64], NDArray[np.int64]],
    results: tuple[NDArray[np.uint64], NDArray[np.int64]],
) -> None:
    """Sum the records of rebuilt batches whose sources are compressed and not decompressed again:
    the build has told their sum.
    """
    pair, source = pair_and_source
    rows, partners, window = open_matched(pair, matched, task.verdicts)
    batches = source.batches.take(partners)
    while rows.size:
        row, status = packed_kernels.check_packed(
            pair.staged.data,
            window.scratch,
            window.batches,
            window.spans,
            source.data,
            batches,
            _rule(task),
            task.verdicts.cells[SURVIVORS_IDENTICAL],
            *results,
        )
        if status != OK:
            pair.set_apart(int(rows[row]), task.verdicts)
        rest = slice(row + 1, None)
        rows, window, batches = rows[rest], window.only(rest), batches[rest]


def _compare(
    task: _Check,
    pair_and_source: tuple[Pair, Source],
    matched: tuple[NDArray[np.int64], NDArray[np.int64]],
    results: tuple[NDArray[np.uint64], NDArray[np.int64]],
) -> None:
    """Compare rebuilt batches with their sources', record by record."""
    pair, source = pair_and_source
    staged = pair.staged
    rows, partners, left = open_matched(pair, matched, task.verdicts)
    right = open_window(source, partners)
    while rows.size:
        row, status, source_status = quick_kernels.check_rebuilt(
            staged.data,
            left.scratch,
            left.batches,
            left.spans,
            source.data,
            right.scratch,
            right.batches,
            right.spans,
            _rule(task),
            np.array(task.keys.hash_key, dtype=np.uint64),
            task.verdicts.cells[SURVIVORS_IDENTICAL],
            *results,
        )
        require_readable(source, right, row, source_status)
        if status != OK:
            pair.set_apart(int(rows[row]), task.verdicts)
        rest = slice(row + 1, None)
        rows, left, right = rows[rest], left.only(rest), right.only(rest)


def _check_gone(task: _Check, source: Source, partners: NDArray[np.int64]) -> None:
    """No batch above the map's end is missing, nor any of its records, but markers and aborted
    data.
    """
    batches, last_mapped = source.batches, task.staged.last_mapped_offset
    if source.first_row("last_offset", last_mapped + 1) == len(batches):
        return
    gone = np.ones(len(batches), dtype=np.bool_)
    gone[partners] = False
    beyond = batches["last_offset"] > last_mapped
    lost = gone & beyond & (batches["count"] > 0) & ~batches["discard"]
    for row in np.flatnonzero(lost):
        task.verdicts.blame(LATEST_VALUE_PER_KEY, int(batches[row]["last_offset"]))


def _check_told(task: _Check, pair: Pair, found: NDArray[np.uint64]) -> None:
    """The batches that stay are those that the build says, and all their records were mapped; it
    took those for aborted that the markers say.
    """
    told, base = _told_of(pair)[0], pair.segment.base_offset
    task.require(int(found[quick_kernels.MOSTLY_SET]) == told.mostly_set, base)
    mapped = int(found[quick_kernels.EXPECTED_MAPPED])
    beyond = pair.staged.batches["last_offset"] > task.staged.last_mapped_offset
    right = told.mostly_mapped <= mapped if beyond.any() else told.mostly_mapped == mapped
    task.require(right, base)
    having = [source for source in pair.sources if source.attributes & TRANSACTIONAL]
    start = task.plan.log.log_start_offset
    aborted = sum(int(quick_kernels.sum_aborted(source.batches, start)) for source in having)
    task.require(aborted % _ALL == told.aborted_set, base)
