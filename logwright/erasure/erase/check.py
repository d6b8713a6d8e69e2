"""The checks of an erasure: what is proved from the bytes of both sides before the commit.

Of each rebuilt segment:

``crc_valid``
    Every batch of the output can be read, and its CRC is right.
``offsets_ascending``
    Batches ascend and stay in the range of their segment.
``others_identical``
    Each record of the source that has none of the keys is in the output: offset, timestamp, key,
    value, headers, and the header of its batch. There is nothing else in the output. Its
    transaction index has the same bytes.
``erased_absent``
    No record of the output has one of the keys: all of them are searched.
``producers_kept``
    The last batch of each producer that the log knows is still there, for its sequence numbers, and
    so is each batch of an open transaction.
``index_entries_valid``
    Every entry of the offset index and the time index describes the batch that it points to.

Which records match is decided here once more, on purpose: neither the matching and the bitmap of
the scan nor anything that the build reports is used. But scan and check search by the same kernel
(`logwright.erasure.erase.search`): what that one does not find, only the last search of an erasure
finds, which reads all files by the walk of `logwright.erasure.find`.

The output is read once: CRC and search of a window while it is in the CPU's cache. Of the source
only headers are read where the output has the same batch: one whose first 21 bytes are equal,
length and CRC among them, while the CRC is right, and in which the search found nothing. What is
different or missing in the output is searched in the source, and compared record by record.

A segment is judged as soon as it is rebuilt, while the system's cache has it and its source.
Windows are judged on as many threads as there are; verdicts do not depend on their number.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import STEP_BYTES, Runtime, in_order
from logwright.batches.source import (
    Source,
    open_source,
    open_window,
    row_ranges,
    side_of,
)
from logwright.checks import kernels
from logwright.checks.indexes import check_indexes
from logwright.checks.model import (
    CRC_VALID,
    INDEX_ENTRIES_VALID,
    OFFSETS_ASCENDING,
    CheckResult,
)
from logwright.checks.segments import runs
from logwright.erasure.erase.check_kernels import compare_rebuilt, match_heads
from logwright.erasure.erase.search import search_batches
from logwright.errors import CorruptBatch, QualityError, UnsupportedFormatError
from logwright.format.batch import CODEC_MASK, CONTROL, TRANSACTIONAL
from logwright.format.names import LOG, TXNINDEX, segment_file_name
from logwright.format.scan import bad_crcs, scan_whatever
from logwright.place.mapped import MappedFiles, map_file
from logwright.rewrite.staging import staging_directory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwright.erasure.erase.model import ErasePlan, Matcher
    from logwright.format.snapshot import ProducerEntry
    from logwright.log.model import PartitionLog
    from logwright.rewrite.model import StagedSegment

OTHERS_IDENTICAL: Final = "others_identical"
ERASED_ABSENT: Final = "erased_absent"
PRODUCERS_KEPT: Final = "producers_kept"
CHECKS: Final = (
    CRC_VALID,
    OFFSETS_ASCENDING,
    OTHERS_IDENTICAL,
    ERASED_ABSENT,
    PRODUCERS_KEPT,
    INDEX_ENTRIES_VALID,
)
"""In the order in which results are given."""


class ErasureChecks:
    """The checks of a plan's output, while segment after segment is judged. Effects: reads the
    segments and those that they replace.

    Args:
        plan: of the erasure.
        keys: that were erased.
        runtime: one thread and no throttle, if not given.
    """

    def __init__(self, plan: ErasePlan, keys: Matcher, runtime: Runtime | None = None) -> None:
        self._log: PartitionLog = plan.log
        self._directory = staging_directory(plan)
        self._keys = keys
        self._runtime = runtime or Runtime()
        self._ends = dict(pairwise([each.base_offset for each in plan.rolled_log.segments]))
        self._sources = {segment.base_offset: segment for segment in plan.log.segments}
        self._of = {name: kernels.new_verdict() for name in CHECKS}
        self._judged = set[int]()
        self._due = {segment.base_offset for segment in plan.scan.segments}

    def judge(self, segment: StagedSegment) -> None:
        """Judge one rebuilt segment by the segment that it replaces.

        Raises:
            CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the *source* changed
                for the worse.
        """
        base = segment.base_offset
        end = self._ends[base]
        source = open_source(
            self._log.directory_text,
            self._sources[base],
            MappedFiles(),
            end_offset=end,
            first_ordinal=0,
        )
        self._segment(segment, source, end)
        self._judged.add(base)

    def require_passed(self) -> None:
        """Refuse an output of which a segment was not judged, or fails a check.

        Raises:
            QualityError: it does. Nothing was changed.
        """
        failed = [check.sentence for check in self.results() if not check.passed]
        if self._judged != self._due:
            failed.append(f"{len(self._due - self._judged)} segments were not checked")
        if failed:
            raise QualityError(
                f"the rebuilt output failed its checks: {'; '.join(failed)}.",
                path=self._log.directory,
                remedy="Nothing was changed.",
            )

    def results(self) -> tuple[CheckResult, ...]:
        """Return the result of each check."""
        return tuple(
            CheckResult(
                name=name,
                violations=int(verdict.violations),
                first_offset=int(verdict.first_offset) if verdict.violations else None,
            )
            for name, verdict in self._of.items()
        )

    def blame(self, name: str, offset: int) -> None:
        """Count a violation at this offset."""
        kernels.blame(self._of[name], offset)

    def _segment(self, segment: StagedSegment, source: Source, end_offset: int) -> None:
        output = self._open(segment)
        matching = None if output is None else self._search(output)
        if output is None or matching is None:
            return
        base = segment.base_offset
        kernels.check_batch_order(output.batches, base, end_offset, self._of[OFFSETS_ASCENDING])
        for offset in check_indexes(segment, output, self._directory)[1]:
            self.blame(INDEX_ENTRIES_VALID, offset)
        if self._txn_index(segment) != self._txn_index_of(source):
            self.blame(OTHERS_IDENTICAL, base)
        self._blame_rows(ERASED_ABSENT, output.batches[matching])
        self._compare(source, output, matching)
        self._producers(source, output)

    def _open(self, segment: StagedSegment) -> Source | None:
        """Return the output, None if the headers of its batches cannot be read."""
        path = f"{self._directory}/{segment_file_name(segment.base_offset, LOG)}"
        log = MappedFiles().open(path)
        try:
            batches = scan_whatever(log.data, path)
        except (CorruptBatch, UnsupportedFormatError):
            self.blame(CRC_VALID, segment.base_offset)
            return None
        return Source(base_offset=segment.base_offset, log=log, batches=batches)

    def _search(self, output: Source) -> NDArray[np.bool_] | None:
        """Read all records of the output. Return which batches have one of the keys, bool[n]; None
        if one cannot be read.
        """
        matching = np.zeros(len(output.batches), dtype=np.bool_)
        ranges = list(row_ranges(output, first=0, last=len(output.batches)))

        def read(first: int, last: int) -> list[int]:
            """Return the offsets of batches that cannot be read."""
            batches, bad = output.batches[first:last], list[int]()
            try:
                _, matched = search_batches(output, slice(first, last), self._keys)
                matching[first + matched.rows] = True
            except CorruptBatch:
                bad = bad_crcs(output.data, batches) or [0]
            self._runtime.throttle.observe(int(batches["size"].sum()))
            return [int(batches[row]["base_offset"]) for row in bad]

        unreadable: list[int] = []
        tasks = (partial(read, *rows) for rows in ranges)
        for offsets in in_order(tasks, threads=self._threads(ranges)):
            unreadable.extend(offsets)
        for offset in unreadable:
            self.blame(CRC_VALID, offset)
        return None if unreadable else matching

    def _threads(self, windows: Sequence[object]) -> int:
        return min(self._runtime.threads, len(windows) or 1)

    def _txn_index(self, segment: StagedSegment) -> bytes:
        path = self._directory / segment_file_name(segment.base_offset, TXNINDEX)
        return map_file(path).tobytes() if path.exists() else b""

    def _txn_index_of(self, source: Source) -> bytes:
        path = self._log.directory / segment_file_name(source.base_offset, TXNINDEX)
        return map_file(path).tobytes() if path.exists() else b""

    def _compare(self, source: Source, output: Source, matching: NDArray[np.bool_]) -> None:
        """Blame what differs between the source without the records that match and the output.

        Args:
            matching: bool[batches of the output], which have one of the keys.
        """
        partners, has = _partners(source.batches, output.batches)
        known = np.zeros(len(output.batches), dtype=np.bool_)
        known[partners[has]] = True
        self._blame_rows(OTHERS_IDENTICAL, output.batches[~known])
        places = output.batches["position"][partners[has]], source.batches["position"][has]
        same_heads = np.zeros(len(places[0]), dtype=np.bool_)
        match_heads(output.data, places[0], source.data, places[1], same_heads)
        differs = ~has
        differs[has] = ~same_heads | matching[partners[has]]
        # Few of their batches are read, so the windows of plain ones are large.
        limit = None if source.attributes & CODEC_MASK else STEP_BYTES
        windows = list(runs(source, np.flatnonzero(differs), window_bytes=limit))

        def judge(rows: NDArray[np.int64]) -> np.record:
            return _judge_rows((source, output), rows, (partners[rows], has[rows]), self._keys)

        tasks = (partial(judge, rows) for rows in windows)
        total = self._of[OTHERS_IDENTICAL]
        for verdict in in_order(tasks, threads=self._threads(windows)):
            if verdict.violations:
                kernels.blame(total, verdict.first_offset)
                total.violations += verdict.violations - 1

    def _blame_rows(self, name: str, batches: NDArray[np.void]) -> None:
        for offset in batches["base_offset"].tolist():
            self.blame(name, offset)

    def _producers(self, source: Source, output: Source) -> None:
        """Blame the last batches of producers that are in the source and not in the output."""
        rows, kept = source.batches, output.batches
        for entry in self._log.producers:
            if entry.last_offset < 0:
                continue
            was = (rows["producer_id"] == entry.producer_id) & (
                rows["last_offset"] == entry.last_offset
            )
            now = (kept["producer_id"] == entry.producer_id) & (
                kept["last_offset"] == entry.last_offset
            )
            if (was & ((rows["attributes"] & CONTROL) == 0)).any() and not now.any():
                self.blame(PRODUCERS_KEPT, entry.last_offset)
            if entry.current_txn_first_offset is not None:
                start = entry.current_txn_first_offset
                still = {row["base_offset"] for row in kept[_is_open(kept, entry, start)]}
                for row in rows[_is_open(rows, entry, start)]:
                    if row["base_offset"] not in still:
                        self.blame(PRODUCERS_KEPT, int(row["base_offset"]))


def _is_open(
    batches: NDArray[np.void], entry: ProducerEntry, start_offset: int
) -> NDArray[np.bool_]:
    """Return which batches are of a producer's open transaction, bool[n]."""
    result: NDArray[np.bool_] = (
        (batches["producer_id"] == entry.producer_id)
        & ((batches["attributes"] & CONTROL) == 0)
        & ((batches["attributes"] & TRANSACTIONAL) != 0)
        & (batches["last_offset"] >= start_offset)
    )
    return result


def _judge_rows(
    pair: tuple[Source, Source],
    rows: NDArray[np.int64],
    partners: tuple[NDArray[np.int64], NDArray[np.bool_]],
    keys: Matcher,
) -> np.record:
    """Search batches of the source of which the output has no copy, and compare them with what it
    has. Return the verdict on the other records.

    Args:
        pair: the source, and the output. rows: int64[k], of the source.
        partners: see `_partners`, of these rows.
    """
    (source, output), (partner_rows, has) = pair, partners
    window, matched = search_batches(source, rows, keys)
    counts = window.batches["count"]
    hits = np.zeros(int(counts.sum(dtype=np.int64)), dtype=np.bool_)
    hits[matched.numbers] = True
    bits = np.packbits(hits, bitorder="little")
    erased = np.bincount(matched.rows, minlength=len(counts))
    verdict = kernels.new_verdict()
    emptied = (erased > 0) & (erased == counts)
    unmatched = (erased == 0) & (counts > 0)
    for offset in window.batches["base_offset"][unmatched | (~has & ~emptied)].tolist():
        kernels.blame(verdict, offset)
    changed = has & ~unmatched
    if changed.any():
        starts = np.cumsum(counts, dtype=np.int64) - counts
        compare_rebuilt(
            side_of(output, open_window(output, partner_rows[changed])),
            side_of(source, window.only(changed)),
            starts[changed],
            bits,
            verdict,
        )
    return verdict


def _partners(
    batches: NDArray[np.void], output: NDArray[np.void]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the output row of each source batch, int64[n], by its base offset, and whether there
    is one, bool[n].
    """
    if not len(output):
        return np.zeros(len(batches), dtype=np.int64), np.zeros(len(batches), dtype=np.bool_)
    at = np.searchsorted(output["base_offset"], batches["base_offset"])
    at = np.minimum(at, len(output) - 1).astype(np.int64)
    return at, np.asarray(output["base_offset"][at] == batches["base_offset"])
