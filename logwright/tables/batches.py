"""Whether a log still has the batches that a table was made from, whatever its marks say.

By the mark of an erasure (`logwright.state.erasure_mark`) a table knows that it must read the log
again. A copy of the log may come without it: a copy by another program, or a replica that a broker
has fetched again. So a table records a sum over the headers of the batches that it holds, with
their CRCs, and compares it. A batch in which a record was erased has another CRC.

Headers are read only if the log's files are others than before; if it is only the last one, which
grows, only its headers. That it has the same inode does not show that what the table holds of it is
the same: a file system gives a removed file's inode to a new one. A cleaning changes batches, too:
a difference counts only if the cleaner checkpoint has not moved on since. So one thing is not
noticed: a copy without the mark that was also cleaned before the table's next update.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.format.names import LOG, segment_file_name

if TYPE_CHECKING:
    from logwright.batches.source import Source
    from logwright.log.model import ReadableLog

_CRC_AT: Final = 17
"""Position of the CRC in a batch (DefaultRecordBatch)."""
_CRC_BYTES: Final = 4
_DIGEST_BYTES: Final = 16
_SEEDS: Final = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
_MASK: Final = (1 << 64) - 1

Pieces = Callable[[int, int], Iterator["Source"]]
"""Yields the batches that have offsets in [start, end)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """The batches of a log below an offset.

    Attributes:
        files: identifies the segments that hold them: a digest of names, sizes, times and inodes.
        total: sum of a hash of each batch's offsets and CRC, 32 hexadecimal digits.
        cleaned_to: the cleaner checkpoint then, None if there was none.
        closed: `files` and `total` of these segments without the last one; None in tables of
            earlier versions.
    """

    files: str
    total: str
    cleaned_to: int | None
    closed: tuple[str, str] | None = None

    @classmethod
    def of(cls, stored: Any) -> Batches | None:  # noqa: ANN401 -- of JSON
        """Return what a table has stored, None if it has nothing.

        Raises:
            KeyError, TypeError, ValueError: it has another form.
        """
        if stored is None:
            return None
        cleaned_to, closed = stored["cleaned_to"], stored.get("closed")
        if closed is not None:
            files, total = closed
            closed = str(files), str(total)
        return cls(
            files=str(stored["files"]),
            total=str(stored["total"]),
            cleaned_to=None if cleaned_to is None else int(cleaned_to),
            closed=closed,
        )


def are_others(recorded: Batches | None, observed: Batches | None) -> bool:
    """Return whether a log has other batches than a table has recorded, without a cleaning since.

    Args:
        recorded, observed: of the same offset; None: not known.
    """
    if recorded is None or observed is None or recorded.total == observed.total:
        return False
    if observed.cleaned_to is None:
        return True
    return recorded.cleaned_to is not None and observed.cleaned_to <= recorded.cleaned_to


class BatchesOf:
    """Sums up the batches of one log, each header once."""

    def __init__(self, log: ReadableLog, pieces: Pieces) -> None:
        self._log = log
        self._pieces = pieces
        self._totals: dict[int, tuple[int, ...]] = {}

    def below(self, end_offset: int, recorded: Batches | None = None) -> Batches:
        """Return the batches that begin below an offset. Effects: reads headers, but not those of
        files that `recorded`, of the same offset, is of: all, or all but the last.

        Raises:
            LogwrightError: the log cannot be read.
        """
        log = self._log
        bases = [int(one.base_offset) for one in log.segments if one.base_offset < end_offset]
        files, closed = _files(log, bases), _files(log, bases[:-1])
        start = max(int(log.log_start_offset), bases[-1] if bases else 0)
        if recorded is not None and recorded.closed is not None and recorded.closed[0] == closed:
            self._totals[start] = _parsed(recorded.closed[1])
        if recorded is not None and recorded.files == files:
            self._totals[end_offset] = _parsed(recorded.total)
        return Batches(
            files=files,
            closed=(closed, _text(self._total(start))),
            total=_text(self._total(end_offset)),
            cleaned_to=log.cleaner_checkpoint,
        )

    def _total(self, end_offset: int) -> tuple[int, ...]:
        """Add what is above the highest offset that is known."""
        first = int(self._log.log_start_offset)
        start = max((one for one in self._totals if one <= end_offset), default=first)
        total = self._totals.get(start, (0,) * len(_SEEDS))
        for piece in self._pieces(start, end_offset) if start < end_offset else ():
            bases = piece.batches["base_offset"]
            rows = np.flatnonzero(((bases >= start) | (start == first)) & (bases < end_offset))
            added = _sums(piece, rows)
            total = tuple((one + more) & _MASK for one, more in zip(total, added, strict=True))
        self._totals[end_offset] = total
        return total


def _files(log: ReadableLog, bases: Sequence[int]) -> str:
    """Identify the segments that begin at these offsets."""
    stamps = {one.name: one for one in log.fingerprint.files}
    facts = [tuple(stamps[segment_file_name(base, LOG)]) for base in bases]
    return hashlib.blake2b(repr(facts).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _text(total: tuple[int, ...]) -> str:
    return "".join(f"{one:016x}" for one in total)


def _parsed(total: str) -> tuple[int, ...]:
    return tuple(int(total[at : at + 16], 16) for at in (0, 16))


def _sums(piece: Source, rows: NDArray[np.int64]) -> tuple[int, ...]:
    """Return the sums of two hashes of each of these batches, modulo 2^64."""
    batches = piece.batches[rows]
    at = batches["position"].astype(np.int64)[:, None] + _CRC_AT + np.arange(_CRC_BYTES)
    crcs = piece.data[at].astype(np.uint64)
    shifts = np.array([24, 16, 8, 0], dtype=np.uint64)
    crc = np.bitwise_or.reduce(crcs << shifts, axis=1)
    base, last = (batches[name].astype(np.uint64) for name in ("base_offset", "last_offset"))
    sums = []
    for seed in _SEEDS:
        mixed = _mix(_mix(_mix(base + np.uint64(seed)) ^ last) ^ crc)
        sums.append(int(mixed.sum(dtype=np.uint64)))
    return tuple(sums)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash each value (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed
