"""Copy a segment in chunks, with one thread or several. The output is the same.

1. A chunk is a run of batches of one source. A thread copies it into its own memory
   (`copy.copy_batches`), with an index entry for every batch.
2. When all chunks before it have their place in the output, it gets the next one, and the
   segment's index entries are made from the chunk's (`output.append_output`).
3. It is written there, while the next one gets its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Condition
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches import status as statuses
from logwright.batches.runtime import Runtime
from logwright.batches.source import Source, row_ranges
from logwright.batches.status import StoppedAt
from logwright.batches.unpack import NOT_GIVEN, remove_obstacle
from logwright.errors import invariant
from logwright.rewrite import copy as copying
from logwright.rewrite.batch import RewriteWorkspace
from logwright.rewrite.batch_receipt import BatchReceipt
from logwright.rewrite.cache import Rebuilt
from logwright.rewrite.copy import CopyRule
from logwright.rewrite.output import Output, append_output, new_output

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a source in a chunk."""
WRITE_BYTES: Final = 1024 * 1024
"""Bytes per call of `os.pwrite`: for 4 MiB at once Linux 6.18 needed four times the CPU time."""
_EVERY_BATCH: Final = -1
"""As ``index.interval.bytes``: each batch gets an index entry."""

Chunk = tuple[Source, int, int]
"""Its source, and its rows [first, last)."""


@dataclass(slots=True)
class _Space:
    """The memory that one thread copies with."""

    buffer: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, dtype=np.uint8))
    work: RewriteWorkspace = field(default_factory=RewriteWorkspace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """The decisions of a build for all segments that it writes.

    Attributes:
        rule: interval of the index entries, and the delete horizon that is set now.
        dead: bitmap by ordinal.
        rebuilt: what the first pass has rebuilt.
        receipt: of batches that are rebuilt; each segment sums its own.
        runtime: threads, throttle, and how files become durable.
        spaces: memory that no thread uses now, reused for the next segment.
    """

    rule: CopyRule
    dead: NDArray[np.uint8]
    rebuilt: Rebuilt
    receipt: BatchReceipt
    runtime: Runtime
    spaces: list[_Space] = field(default_factory=list)


class ChunkWriter:
    """Copies all sources of one segment. Effects: writes the open file.

    Args:
        log: descriptor of the empty file.
        output: of the segment, is filled; its buffer is not used.
        receipt: of the segment, is filled.
        check: called when a chunk has its place; it may refuse the segment.
        copied: called with the source bytes of each chunk that is done.
    """

    def __init__(
        self,
        log: int,
        rewrite: Rewrite,
        output: Output,
        receipt: BatchReceipt,
        *,
        check: Callable[[], None],
        copied: Callable[[int], None],
    ) -> None:
        self._log = log
        self._rewrite = rewrite
        self._rule = rewrite.rule._replace(interval_bytes=_EVERY_BATCH)
        self._output = output
        self._receipt = receipt
        self._check = check
        self._copied = copied
        self._turn = Condition()
        self._chunks: list[Chunk] = []
        self._taken = 0
        self._placed = 0
        self._failure: BaseException | None = None

    def write(self, sources: list[Source]) -> None:
        """Copy the sources.

        Raises:
            OSError: the file cannot be written.
            LogwrightError: a batch cannot be read, or what `check` raises.
        """
        runtime = self._rewrite.runtime
        limit = min(CHUNK_BYTES, runtime.throttle.step_bytes)
        self._chunks = [
            (source, first, last)
            for source in sources
            for first, last in row_ranges(
                source, first=0, last=len(source.batches), window_bytes=limit
            )
        ]
        room = min(sum(source.log.bytes for source in sources), limit)
        threads = min(runtime.threads, len(self._chunks))
        if threads <= 1:
            self._work(room)
        else:
            with ThreadPoolExecutor(threads) as pool:
                for _ in range(threads):
                    pool.submit(self._work, room)
        if self._failure is not None:
            raise self._failure

    def _work(self, room: int) -> None:
        """Write chunks as long as there are any, in memory of this thread's own."""
        spaces = self._rewrite.spaces
        try:
            with self._turn:
                space = spaces.pop() if spaces else _Space()
            space.work.use_here()
            if len(space.buffer) < room:
                space.buffer = np.empty(room, dtype=np.uint8)
            while (number := self._take()) is not None:
                self._write_chunk(number, space)
            spaces.append(space)
        except BaseException as error:  # noqa: BLE001 -- `write` raises it
            with self._turn:
                self._failure = self._failure or error
                self._turn.notify_all()

    def _take(self) -> int | None:
        """Return the number of the next chunk, None if there is none, or one has failed."""
        with self._turn:
            if self._failure is not None or self._taken == len(self._chunks):
                return None
            self._taken += 1
            return self._taken - 1

    def _write_chunk(self, number: int, space: _Space) -> None:
        source, first, last = self._chunks[number]
        output = new_output(batches=last - first, buffer=space.buffer)
        receipt = self._receipt.emptied()
        output = self._copy(source, slice(first, last), space, output, receipt)
        position = self._place(number, output, receipt)
        if position is None:
            return
        written = int(output.state["position"])
        _write_at(self._log, output.buffer[:written].data, position)
        read = source.bytes_before(last) - source.bytes_before(first)
        self._rewrite.runtime.throttle.observe(read + written)
        with self._turn:
            self._copied(read)

    def _copy(
        self, source: Source, rows: slice, space: _Space, output: Output, receipt: BatchReceipt
    ) -> Output:
        """Copy the rows. Return the output, whose buffer may be a larger one."""
        work, state, row = space.work, output.state, 0
        batches = source.batches[rows]
        work.need_kept(int(batches["count"].max(initial=0)))
        state["given"] = NOT_GIVEN
        cache = self._rewrite.rebuilt.of(source.base_offset, rows)
        while row < len(batches):
            row, why = copying.copy_batches(
                source.data,
                batches,
                row,
                self._rewrite.dead,
                self._rule,
                output,
                work.for_rewrite(),
                receipt,
                cache,
            )
            match why:
                case statuses.OK:
                    break
                case statuses.BUFFER_FULL:
                    output = output._replace(buffer=_enlarge(space, state))
                case statuses.PLAIN_FULL:
                    work.need_plain(int(state["needed"]))
                case statuses.NOT_PACKED:
                    invariant(False, "the records of a batch cannot be compressed")  # noqa: FBT003
                case _:
                    stopped = StoppedAt(source.data, source.path, batches, row)
                    state["given"] = remove_obstacle(work, stopped, why)
        return output

    def _place(self, number: int, chunk: Output, receipt: BatchReceipt) -> int | None:
        """Wait for the chunks before this one, and append it to the segment. Return where it is to
        be written, None if another chunk has failed.
        """
        with self._turn:
            self._turn.wait_for(lambda: self._placed == number or self._failure is not None)
            if self._failure is not None:
                return None
            position = int(self._output.state["position"])
            append_output(self._output, chunk, self._rewrite.rule.interval_bytes)
            self._receipt.add(receipt)
            self._check()
            self._placed += 1
            self._turn.notify_all()
        return position


def _enlarge(space: _Space, state: np.void) -> NDArray[np.uint8]:
    """Return a larger buffer with what the old one holds."""
    used = int(state["buffered"])
    larger = np.empty(max(used + int(state["needed"]), 2 * len(space.buffer)), dtype=np.uint8)
    larger[:used] = space.buffer[:used]
    space.buffer = larger
    return larger


def _write_at(file: int, content: memoryview, position: int) -> None:
    while content:
        written = os.pwrite(file, content[:WRITE_BYTES], position)
        content, position = content[written:], position + written
