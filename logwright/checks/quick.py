"""The quick checks: read the staged output, and the headers of its source.

1. Every staged batch is read from disk: CRC, header, order, index entries.
2. A batch that has its source's bytes needs no more. The header of any other must be its source's
   but for what a rebuild changes; the sum of the records in all of them must be that of the
   source's records which the build took before it wrote them.
3. Latest values: the sum of the keys that the offset map holds must be the sum of those in the
   output. Records kept of each source segment, records removed by cause, and the number of mapped
   keys must add up. A sample of the keys tests the map itself.

What the build reports for this (`GroupFacts`, `RebuiltFacts`, `KeyFacts`) is described in
`logwright.keys.receipt`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Runtime
from logwright.batches.source import Source, open_window, side_of
from logwright.checks import kernels, quick_kernels
from logwright.checks.model import (
    LATEST_VALUE_PER_KEY,
    SURVIVORS_IDENTICAL,
    OutputFacts,
    SegmentFacts,
)
from logwright.checks.results import Verdicts
from logwright.checks.segments import (
    Pair,
    discard_valueless,
    open_matched,
    open_pairs,
    output_facts,
    runs,
    segment_facts,
)
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.errors import invariant
from logwright.format.batch import CODEC_MASK, TRANSACTIONAL
from logwright.format.walk import OK
from logwright.keys.receipt import KeyFacts
from logwright.rewrite.model import GroupFacts, RebuiltFacts
from logwright.units import INT64_MAX

_ALL: Final = 1 << 64


_Run = tuple[Source, NDArray[np.int64], NDArray[np.int64]]
"""A source, staged rows that come from it, and the rows of it that they come from."""
_Results = tuple[np.record, np.record]
"""`quick_kernels.new_sums` and `kernels.new_facts`, added to."""


@dataclass(slots=True, kw_only=True)
class _Examination:
    """The state of one examination.

    Attributes:
        keys: what the map pass reports.
        digest, mapped: sum and number of the keys that were found in the output so far.
    """

    plan: CleanPlan
    staged: StagedCleaning
    keys: KeyFacts
    verdicts: Verdicts
    digest: int = 0
    mapped: int = 0

    def require(self, holds: object, offset: int, check: str = LATEST_VALUE_PER_KEY) -> None:
        """Blame a check at an offset unless the condition holds."""
        if not holds:
            self.verdicts.blame(check, offset)


def examine_quickly(
    plan: CleanPlan,
    staged: StagedCleaning,
    *,
    runtime: Runtime | None = None,
    aborted: NDArray[np.int64] | None = None,
) -> OutputFacts:
    """Judge the staged output by itself, by the headers of its source, and by what the build
    reports. Effects: reads the staged files; maps the segments they were made from.

    Args:
        plan: of the cleaning.
        staged: its output.
        runtime: threads, throttle and maps; by default one thread, no throttle.
        aborted: of `aborted_intervals`, of a log of which this is a part; None: by what is read.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the *source* changed for
        the worse.
    """
    invariant(staged.keys is not None, "the build reports no keys")
    assert staged.keys is not None  # noqa: S101 -- for the type
    verdicts = Verdicts()
    runtime = runtime or Runtime()
    pairs = open_pairs(plan, staged, verdicts, runtime.files)
    discard_valueless(plan, [source for pair in pairs for source in pair.sources], aborted=aborted)
    task = _Examination(plan=plan, staged=staged, keys=staged.keys, verdicts=verdicts)
    facts = [_check_pair(task, pair, runtime) for pair in pairs]
    for segment in staged.unchanged:
        task.digest += segment.facts.summed_digest
        task.mapped += segment.facts.summed_mapped
    _check_range(task)
    _check_sums(task)
    return output_facts(plan, staged, pairs, facts, verdicts)


def _check_range(task: _Examination) -> None:
    """Require that every segment below the end of the cleaning is replaced or stays, once."""
    reached = [
        segment.base_offset
        for segment in task.plan.rolled_log.sealed
        if segment.base_offset < task.staged.end_offset
    ]
    unchanged = [segment.base_offset for segment in task.staged.unchanged]
    replaced = [base for each in task.staged.segments for base in each.source_base_offsets]
    for base in set(reached) ^ {*unchanged, *replaced}:
        task.verdicts.blame(LATEST_VALUE_PER_KEY, base)
    task.require(len(reached) == len(unchanged) + len(replaced), reached[0] if reached else 0)


def _check_sums(task: _Examination) -> None:
    """Require that the output holds what the map holds, that the sample finds the map right, and
    that no record is unaccounted for.
    """
    keys, stats = task.keys, task.staged.stats
    base = task.plan.rolled_log.segments[0].base_offset
    task.require(keys.sample_digest == keys.expected_sample_digest, base)
    totals = task.digest % _ALL, task.mapped % _ALL
    task.require(totals == (keys.digest, keys.records), base)
    removed = (
        stats.removed_superseded
        + stats.removed_tombstones
        + stats.removed_null_keys
        + stats.removed_aborted
        + stats.removed_markers
    )
    task.require(stats.records_read == removed + stats.records_written, base)


def _reports_of(pair: Pair) -> tuple[GroupFacts, RebuiltFacts]:
    facts, rebuilt = pair.segment.facts, pair.segment.rebuilt
    has_both = facts is not None and rebuilt is not None
    invariant(has_both, f"the build reports nothing on segment {pair.segment.base_offset}")
    assert facts is not None and rebuilt is not None  # noqa: S101, PT018 -- for the types
    return facts, rebuilt


def _check_pair(task: _Examination, pair: Pair, runtime: Runtime) -> SegmentFacts:
    """Judge one staged segment, and gather its facts."""
    (report, rebuilt), base = _reports_of(pair), pair.segment.base_offset
    source_of, partners = _partners(task, pair)
    rows_of = [(source_of == number).nonzero()[0] for number in range(len(pair.sources))]
    # Compressed batches are decompressed by the window, others are read one by one.
    is_packed = pair.staged.attributes & CODEC_MASK != 0
    window_bytes = None if is_packed else runtime.throttle.step_bytes
    work = [
        (source, run, partners[run])
        for source, rows in zip(pair.sources, rows_of, strict=True)
        for run in runs(pair.staged, rows, window_bytes=window_bytes)
    ]
    sums, facts = _check_runs(task, pair, work, runtime)
    for number, (source, rows) in enumerate(zip(pair.sources, rows_of, strict=True)):
        kept = int(pair.staged.batches["count"][rows].sum(dtype=np.int64))
        task.require(kept == report.kept_records[number], source.base_offset)
        _check_gone(task, source, partners[rows])
    _check_report(task, pair, sums)
    task.digest += report.summed_digest + rebuilt.digest
    task.mapped += report.summed_mapped + int(sums.mapped)
    # The keys of rebuilt batches are known by that sum alone.
    for check in (SURVIVORS_IDENTICAL, LATEST_VALUE_PER_KEY):
        task.require(int(sums.content) == rebuilt.content, base, check)
    facts.tombstones += report.summed_tombstones
    if report.verbatim_min_timestamp_ms is not None:
        facts.min_timestamp = min(facts.min_timestamp, report.verbatim_min_timestamp_ms)
    return segment_facts(task.plan, pair, task.staged.directory, facts, task.verdicts)


def _check_runs(task: _Examination, pair: Pair, work: list[_Run], runtime: Runtime) -> _Results:
    """Judge the batches of a staged segment, by one thread or several."""

    def judge(own: _Examination, results: _Results, run: _Run) -> None:
        source, rows, partners = run
        _check_run(own, (pair, source), rows, partners, results)
        runtime.throttle.observe(int(pair.staged.batches["size"][rows].sum()))

    if runtime.threads == 1 or len(work) == 1:
        results = _no_results()
        for run in work:
            judge(task, results, run)
        return results
    judged = [(replace(task, verdicts=Verdicts()), _no_results(), run) for run in work]
    with ThreadPoolExecutor(runtime.threads) as pool:
        for _ in pool.map(lambda arguments: judge(*arguments), judged):
            pass
    sums, facts = _no_results()
    for own, (sums_here, facts_here), _ in judged:
        task.verdicts.add(own.verdicts)
        for name in sums.dtype.names or ():
            sums[name] = (int(sums[name]) + int(sums_here[name])) % _ALL
        _add_facts(facts, facts_here)
    return sums, facts


def _no_results() -> _Results:
    return quick_kernels.new_sums(), kernels.new_facts()


def _add_facts(facts: np.record, later: np.record) -> None:
    """Add the facts of batches that come after those of `facts`."""
    _add_null_keys(facts, later)
    facts.records += later.records
    facts.tombstones += later.tombstones
    facts.min_timestamp = min(facts.min_timestamp, later.min_timestamp)
    facts.max_timestamp = max(facts.max_timestamp, later.max_timestamp)


def _add_null_keys(facts: np.record, later: np.record) -> None:
    if later.null_keys and not facts.null_keys:
        facts.first_null_key = later.first_null_key
    facts.null_keys += later.null_keys


def _partners(task: _Examination, pair: Pair) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each staged batch, number of the source and row of the batch that has its base
    offset; -1 and -1 where there is none.
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
    task: _Examination,
    pair_and_source: tuple[Pair, Source],
    rows: NDArray[np.int64],
    partners: NDArray[np.int64],
    results: _Results,
) -> None:
    """Judge a window of staged batches of one source."""
    pair, source = pair_and_source
    sources = source.batches.take(partners)
    kinds = np.zeros(len(rows), dtype=np.uint8)
    quick_kernels.check_batches(
        pair.staged.data,
        pair.staged.batches.take(rows),
        source.data,
        sources,
        _limits(task),
        task.verdicts.of[SURVIVORS_IDENTICAL],
        *results,
        kinds,
    )
    for row in rows[kinds == quick_kernels.UNREADABLE]:
        pair.set_apart(int(row), task.verdicts)
    _note_unmapped(task, pair, rows[kinds == quick_kernels.VERBATIM], results[1])
    packed = kinds == quick_kernels.PACKED
    if packed.any():
        _check_packed(task, pair_and_source, (rows[packed], partners[packed]), results)


def _note_unmapped(
    task: _Examination, pair: Pair, rows: NDArray[np.int64], facts: np.record
) -> None:
    """Count the records without a key in batches above the map's end."""
    beyond = pair.staged.batches["last_offset"][rows] > task.staged.last_mapped_offset
    rows = rows[beyond]
    if not rows.size:
        return
    window = open_window(pair.staged, rows)
    own = kernels.new_facts()
    kernels.survey(side_of(pair.staged, window), own, kernels.new_verdict())
    _add_null_keys(facts, own)


def _limits(task: _Examination) -> quick_kernels.Limits:
    """Return the limits that rebuilt batches are checked against."""
    retention_ms = task.plan.config.delete_retention_ms
    horizon_ms = min(task.plan.now_ms + retention_ms, INT64_MAX)
    return quick_kernels.Limits(task.staged.last_mapped_offset, horizon_ms)


def _check_packed(
    task: _Examination,
    pair_and_source: tuple[Pair, Source],
    matched: tuple[NDArray[np.int64], NDArray[np.int64]],
    results: _Results,
) -> None:
    """Decompress rebuilt batches, and judge them."""
    pair, source = pair_and_source
    rows, partners, window = open_matched(pair, matched, task.verdicts)
    batches = source.batches.take(partners)
    while rows.size:
        row, status = quick_kernels.check_packed(
            side_of(pair.staged, window),
            source.data,
            batches,
            _limits(task),
            task.verdicts.of[SURVIVORS_IDENTICAL],
            *results,
        )
        if status != OK:
            pair.set_apart(int(rows[row]), task.verdicts)
        rest = slice(row + 1, None)
        rows, window, batches = rows[rest], window.only(rest), batches[rest]


def _check_gone(task: _Examination, source: Source, partners: NDArray[np.int64]) -> None:
    """Blame missing batches above the map's end, except markers and aborted data."""
    batches, last_mapped = source.batches, task.staged.last_mapped_offset
    if source.first_row("last_offset", last_mapped + 1) == len(batches):
        return
    gone = np.ones(len(batches), dtype=np.bool_)
    gone[partners] = False
    beyond = batches["last_offset"] > last_mapped
    lost = gone & beyond & (batches["count"] > 0) & ~batches["discard"]
    for row in np.flatnonzero(lost):
        task.verdicts.blame(LATEST_VALUE_PER_KEY, int(batches[row]["last_offset"]))


def _check_report(task: _Examination, pair: Pair, sums: np.record) -> None:
    """Require that the build summed the keys of the batches that stay, all of them mapped, and took
    the batches for aborted that the markers say.
    """
    report, base = _reports_of(pair)[0], pair.segment.base_offset
    task.require(int(sums.summed_set) == report.summed_set, base)
    mapped = int(sums.summed_keys)
    beyond = pair.staged.batches["last_offset"] > task.staged.last_mapped_offset
    right = report.summed_mapped <= mapped if beyond.any() else report.summed_mapped == mapped
    task.require(right, base)
    having = [source for source in pair.sources if source.attributes & TRANSACTIONAL]
    start = task.plan.log.log_start_offset
    aborted = sum(int(quick_kernels.sum_aborted(source.batches, start)) for source in having)
    task.require(aborted % _ALL == report.aborted_set, base)
