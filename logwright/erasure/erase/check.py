"""The checks of an erasure: what is proved from the bytes of both sides before the commit.

Of each rebuilt segment:

``crc_valid``
    Every batch of the output can be read, and its CRC is right.
``offsets_ascending``
    Batches ascend and stay in the range of their segment.
``others_identical``
    Each record of the source that has none of the keys is in the output: offset, timestamp, key,
    value, headers, and the header of its batch. A batch without a match has the same bytes: the
    first 21 are compared, length and CRC among them, and its CRC is right. There is nothing else in
    the output. Its transaction index has the same bytes.
``erased_absent``
    No record of the output has one of the keys: batches that have the bytes of a source batch
    without a match need no search, all others are searched.
``producers_kept``
    The last batch of each producer that the log knows is still there, for its sequence numbers, and
    so is each batch of an open transaction.
``index_entries_valid``
    Every entry of the offset index and the time index describes the batch that it points to.

Which records match is decided here once more, on purpose: neither the matching and the bitmap of
the scan nor anything that the build reports is used. Both read by `logwright.batches.projection`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches.projection import project
from logwright.batches.runtime import STEP_BYTES
from logwright.batches.source import Source, Window, open_source, open_window, side_of
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
from logwright.erasure.keys import Keys
from logwright.errors import CorruptBatch, QualityError, UnsupportedFormatError
from logwright.format.batch import CODEC_MASK, CONTROL, TRANSACTIONAL
from logwright.format.names import LOG, TXNINDEX, segment_file_name
from logwright.format.scan import bad_crcs, scan_whatever
from logwright.format.walk import OK
from logwright.place.mapped import MappedFiles, map_file
from logwright.rewrite.staging import staging_directory

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def check_erasure(
    plan: ErasePlan, segments: Iterable[StagedSegment], keys: Matcher
) -> tuple[CheckResult, ...]:
    """Judge the rebuilt segments of a plan. Effects: reads them and the segments that they replace.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the *source* changed for
        the worse.
    """
    log = plan.log
    judged = _Judged(plan, keys)
    following = dict(pairwise([each.base_offset for each in plan.rolled_log.segments]))
    by_base = {segment.base_offset: segment for segment in log.segments}
    files = MappedFiles()
    for segment in segments:
        end = following[segment.base_offset]
        source = open_source(
            log.directory_text,
            by_base[segment.base_offset],
            files,
            end_offset=end,
            first_ordinal=0,
        )
        judged.segment(segment, source, end)
    return judged.results()


def require_correct(plan: ErasePlan, segments: Iterable[StagedSegment], keys: Matcher) -> None:
    """Refuse an output that fails a check. Effects and other errors: see `check_erasure`.

    Raises:
        QualityError: a check failed. Nothing was changed.
    """
    failed = [check for check in check_erasure(plan, segments, keys) if not check.passed]
    if failed:
        sentences = "; ".join(check.sentence for check in failed)
        raise QualityError(
            f"the rebuilt output failed its checks: {sentences}.",
            path=plan.log.directory,
            remedy="Nothing was changed.",
        )


class _Judged:
    """The verdicts, while segment after segment is judged."""

    def __init__(self, plan: ErasePlan, keys: Matcher) -> None:
        self._log: PartitionLog = plan.log
        self._directory = staging_directory(plan)
        self._keys = keys
        self._of = {name: kernels.new_verdict() for name in CHECKS}

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

    def segment(self, segment: StagedSegment, source: Source, end_offset: int) -> None:
        """Judge one rebuilt segment by the segment that it replaces."""
        output = self._open(segment)
        if output is None:
            return
        base = segment.base_offset
        kernels.check_batch_order(output.batches, base, end_offset, self._of[OFFSETS_ASCENDING])
        for offset in check_indexes(segment, output, self._directory)[1]:
            self.blame(INDEX_ENTRIES_VALID, offset)
        if self._txn_index(segment) != self._txn_index_of(source):
            self.blame(OTHERS_IDENTICAL, base)
        try:
            self._search(output, self._compare(source, output))
        except _Unreadable as unreadable:
            self.blame(CRC_VALID, unreadable.offset)
        self._producers(source, output)

    def _open(self, segment: StagedSegment) -> Source | None:
        """Return the output, None if it cannot be read; its CRCs are right then."""
        path = f"{self._directory}/{segment_file_name(segment.base_offset, LOG)}"
        log = MappedFiles().open(path)
        try:
            batches = scan_whatever(log.data, path)
        except (CorruptBatch, UnsupportedFormatError):
            self.blame(CRC_VALID, segment.base_offset)
            return None
        bad = bad_crcs(log.data, batches)
        for row in bad:
            self.blame(CRC_VALID, int(batches[row]["base_offset"]))
        return None if bad else Source(base_offset=segment.base_offset, log=log, batches=batches)

    def _txn_index(self, segment: StagedSegment) -> bytes:
        path = self._directory / segment_file_name(segment.base_offset, TXNINDEX)
        return map_file(path).tobytes() if path.exists() else b""

    def _txn_index_of(self, source: Source) -> bytes:
        path = self._log.directory / segment_file_name(source.base_offset, TXNINDEX)
        return map_file(path).tobytes() if path.exists() else b""

    def _compare(self, source: Source, output: Source) -> NDArray[np.int64]:
        """Find the output of each source batch, and compare the two. Return the rows of the output
        that are not proved to be a source batch without a match.
        """
        known = np.zeros(len(output.batches), dtype=np.bool_)
        unmatched = known.copy()
        for rows in runs(
            source, np.arange(len(source.batches)), window_bytes=_window_bytes(source)
        ):
            window = open_window(source, rows)
            bits, starts, erased = _erased(source, window, self._keys)
            partners, has = _partners(window.batches, output.batches)
            known[partners[has]] = True
            whole = (erased == 0) & (window.batches["count"] > 0)
            stays = whole & has
            same = np.zeros(int(stays.sum()), dtype=np.bool_)
            left, right = output.batches[partners[stays]], window.batches[stays]
            match_heads(output.data, left, source.data, right, same)
            unmatched[partners[stays][same]] = True
            self._blame_rows(right[~same])
            emptied = (erased > 0) & (erased == window.batches["count"])
            self._blame_rows(window.batches[~has & ~emptied])
            changed = ~whole & has
            if changed.any():
                rebuilt = _opened(output, partners[changed])
                row, status = compare_rebuilt(
                    side_of(output, rebuilt),
                    side_of(source, window.only(changed)),
                    starts[changed],
                    bits,
                    self._of[OTHERS_IDENTICAL],
                )
                if status != OK:
                    raise _Unreadable(int(rebuilt.batches[row]["base_offset"]))
        self._blame_rows(output.batches[~known])
        return np.flatnonzero(~unmatched)

    def _blame_rows(self, batches: NDArray[np.void]) -> None:
        for offset in batches["base_offset"].tolist():
            self.blame(OTHERS_IDENTICAL, offset)

    def _search(self, output: Source, rows: NDArray[np.int64]) -> None:
        """Blame the records in these rows of the output that have one of the keys."""
        for run in runs(output, rows, window_bytes=_window_bytes(output)):
            window = _opened(output, run)
            try:
                _, _, erased = _erased(output, window, self._keys)
            except CorruptBatch as error:
                raise _Unreadable(int(window.batches[0]["base_offset"])) from error
            for offset in window.batches["base_offset"][erased > 0].tolist():
                self.blame(ERASED_ABSENT, offset)

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


class _Unreadable(Exception):
    """A batch of the output cannot be read."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        super().__init__(offset)


def _window_bytes(source: Source) -> int | None:
    """Return the size of the windows in which a segment is read: large ones if nothing is
    decompressed, since each costs some calls.
    """
    return None if source.attributes & CODEC_MASK else STEP_BYTES // 2


def _opened(output: Source, rows: NDArray[np.int64]) -> Window:
    """Open batches of the output.

    Raises:
        _Unreadable: one does not decompress.
    """
    try:
        return open_window(output, rows)
    except CorruptBatch as error:
        raise _Unreadable(int(output.batches[rows[0]]["base_offset"])) from error


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


def _erased(
    source: Source, window: Window, keys: Matcher
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return which records of a window have one of the keys: a bitmap, where the bits of each batch
    begin in it, int64[n], and how many of each batch are set, int64[n].

    Raises:
        CorruptBatch: a batch cannot be read.
    """
    records = project(source, window)
    counts = window.batches["count"].astype(np.int64)
    flags = keys.match(Keys(records.buffer, *records.key_spans())) >= 0
    erased = np.bincount(records.rows["row"][flags], minlength=len(counts))
    return np.packbits(flags, bitorder="little"), np.cumsum(counts) - counts, erased
