"""A segment that several threads copy, piece by piece; it becomes the same as by one.

1. A piece is a run of batches of one source. A thread copies it into memory of its own
   (`recopy.recopy`), with an index entry for every batch.
2. When the pieces before it have had their place, it gets its own behind them, and the segment's
   index entries are made as for batches that are copied one by one: a batch matters to the time
   index only if its timestamp is above all before it, thus above those of its own piece.
3. It is written there while the next one gets its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Condition
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.compaction.batch_receipt import Told, like_told
from logwright.compaction.rewrite import copy as copying
from logwright.compaction.runtime import Runtime
from logwright.compaction.source import Source, decompress_batch, row_ranges
from logwright.compaction.unpack import NOT_GIVEN, Workspace
from logwright.errors import invariant
from logwright.format.scan import BATCH
from logwright.kernel import kernel

PIECE_BYTES: Final = 2 * 1024 * 1024
"""Of a source: what is made of it is written from the CPU's cache."""
_EVERY_BATCH: Final = -1
"""As ``index.interval.bytes``: then each batch has an index entry."""
_COUNTS: Final = (
    copying.RECORDS,
    copying.VERBATIM,
    copying.REBUILT,
    copying.DROPPED,
    copying.HORIZONS,
)

Piece = tuple[int, Source, int, int]
"""Its number, its source, and its rows [first, last)."""


def new_state() -> NDArray[np.int64]:
    """Of a segment to which nothing is copied yet."""
    state = np.zeros(copying.STATE_CELLS, dtype=np.int64)
    state[copying.LARGEST_TIMESTAMP] = -1
    state[copying.LAST_INDEXED_TIMESTAMP] = -1
    return state


def new_indexes(batches: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Room for the entries of so many batches."""
    return np.zeros((batches, 2), dtype=np.int64), np.zeros((batches + 1, 2), dtype=np.int64)


@kernel
def _index_piece(
    entries: Any, times: Any, piece: Any, interval: int, row: Any, indexes: Any, state: Any
) -> None:
    """Account for the batches of a piece as `recopy.note_batch` does for each.

    entries, times, piece: indexes and state of the piece. row: BATCH[1], to be used.
    """
    last, at = piece[copying.INDEX_ENTRIES], 0
    for number in range(last):
        offset, start = entries[number, 0], entries[number, 1]
        end = entries[number + 1, 1] if number + 1 < last else piece[copying.POSITION]
        timestamp = np.int64(-1)
        if at < piece[copying.TIMEINDEX_ENTRIES] and times[at, 1] == offset:
            timestamp = times[at, 0]
            at += 1
        row[0].last_offset = offset
        copying.note_batch(state, indexes, interval, row[0], (end - start, timestamp))


@dataclass(slots=True, kw_only=True)
class _Space:
    """What one thread copies with."""

    out: NDArray[np.uint8] = field(default_factory=lambda: np.empty(PIECE_BYTES, dtype=np.uint8))
    work: Workspace = field(default_factory=Workspace)


class PieceWriter:
    """Copies all sources of one segment with several threads. Effects: writes the open file.

    Args:
        log: descriptor of the empty file.
        rule, dead: see `recopy.recopy`.
        indexes, state, told: of the segment.
        check: called when a piece has its place; it may refuse the segment.
        rebuilt: uint8[n], the bytes that the sources' `rebuilt` is about.
    """

    def __init__(
        self,
        log: int,
        *,
        rule: NDArray[np.int64],
        dead: NDArray[np.uint8],
        indexes: tuple[NDArray[np.int64], NDArray[np.int64]],
        state: NDArray[np.int64],
        told: Told,
        check: Callable[[], None],
        rebuilt: NDArray[np.uint8],
    ) -> None:
        self._log = log
        self._rule = np.array([_EVERY_BATCH, rule[1]], dtype=np.int64)
        self._interval = int(rule[0])
        self._dead = dead
        self._indexes = indexes
        self._state = state
        self._told = told
        self._check = check
        self._rebuilt = rebuilt
        self._row = np.zeros(1, dtype=BATCH)
        self._turn = Condition()
        self._next = 0
        self._failed = False
        self._free: SimpleQueue[_Space] = SimpleQueue()

    def write(self, sources: list[Source], runtime: Runtime, copied: Callable[[int], None]) -> None:
        """Copy the sources; `copied` is told the bytes of each piece that is done.

        Raises:
            OSError: the file cannot be written.
            LogwrightError: a batch cannot be read, or what `check` raises.
        """
        limit = min(PIECE_BYTES, runtime.throttle.step_bytes)
        pieces = [
            (source, first, last)
            for source in sources
            for first, last in row_ranges(
                source, first=0, last=len(source.batches), window_bytes=limit
            )
        ]
        for _ in range(runtime.threads):
            self._free.put(_Space())

        def one(piece: Piece) -> None:
            read, written = self._write_piece(piece)
            runtime.throttle.observe(read + written)
            with self._turn:
                copied(read)

        pool = ThreadPoolExecutor(runtime.threads)
        try:
            for _ in pool.map(one, [(number, *piece) for number, piece in enumerate(pieces)]):
                pass
        finally:
            pool.shutdown(cancel_futures=True)

    def _write_piece(self, piece: Piece) -> tuple[int, int]:
        """Copy one piece; bytes that were read and written."""
        number, source, first, last = piece
        space = self._free.get()
        try:
            space.work.use_here()
            batches = source.batches[first:last]
            indexes, state = new_indexes(len(batches)), new_state()
            told = like_told(self._told)
            self._copy(source, slice(first, last), space, (indexes, state, told))
            position = self._place(number, indexes, state, told)
            length = int(state[copying.POSITION])
            _write_at(self._log, space.out[:length].data, position)
        except BaseException:
            with self._turn:
                self._failed = True
                self._turn.notify_all()
            raise
        finally:
            self._free.put(space)
        return int(batches["size"].sum()), length

    def _copy(
        self,
        source: Source,
        rows: slice,
        space: _Space,
        output: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64], Told],
    ) -> None:
        (indexes, state, told), work, row = output, space.work, 0
        batches, rebuilt = source.batches[rows], source.rebuilt[rows]
        work.need_kept(int(batches["count"].max(initial=0)))
        state[copying.GIVEN] = NOT_GIVEN
        while row < len(batches):
            row, why = copying.recopy(
                source.data,
                batches,
                row,
                self._dead,
                self._rule,
                space.out,
                indexes,
                state,
                work.for_recopy(),
                told,
                (rebuilt, self._rebuilt),
            )
            if why == copying.BUFFER_FULL:
                used = int(state[copying.BUFFERED])
                room = max(used + int(state[copying.NEEDED]), 2 * len(space.out))
                larger = np.empty(room, dtype=np.uint8)
                larger[:used] = space.out[:used]
                space.out = larger
            elif why != copying.DONE:
                remove_obstacle(why, source, batches, row, state, work)

    def _place(
        self,
        number: int,
        indexes: tuple[NDArray[np.int64], NDArray[np.int64]],
        state: NDArray[np.int64],
        told: Told,
    ) -> int:
        """Wait for the pieces before it; where it is to be written."""
        with self._turn:
            self._turn.wait_for(lambda: self._next == number or self._failed)
            invariant(not self._failed, "a piece before this one could not be copied")
            position = int(self._state[copying.POSITION])
            _index_piece(*indexes, state, self._interval, self._row, self._indexes, self._state)
            for cell in _COUNTS:
                self._state[cell] += state[cell]
            self._told[2][:] += told[2]
            self._check()
            self._next += 1
            self._turn.notify_all()
        return position


def remove_obstacle(
    why: int,
    source: Source,
    batches: NDArray[np.void],
    row: int,
    state: NDArray[np.int64],
    space: Workspace,
) -> None:
    """Make room in the workspace for what `recopy.recopy` could not do with a batch, or do it.

    Raises:
        CorruptBatch: it does not decompress.
    """
    match why:
        case copying.SCRATCH_FULL:
            space.double_scratch()
        case copying.PLAIN_FULL:
            space.need_plain(int(state[copying.NEEDED]))
        case copying.NOT_UNPACKED:
            space.release_scratch()
            state[copying.GIVEN] = space.fill(decompress_batch(source, batches[row]))
        case _:
            invariant(why == copying.DONE, "the records of a batch cannot be compressed")


def _write_at(file: int, content: memoryview, position: int) -> None:
    while content:
        written = os.pwrite(file, content, position)
        content, position = content[written:], position + written
