"""One staged segment while it is written: the output buffer, the indexes beside it, and what makes
it durable.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from logwright.compaction import batch_receipt as witness
from logwright.compaction.model import GroupFacts, PackedFacts, StagedSegment
from logwright.compaction.rewrite import copy as copying
from logwright.compaction.rewrite.chunks import PieceWriter, new_indexes, new_state, remove_obstacle
from logwright.compaction.runtime import Runtime
from logwright.compaction.source import Source, row_ranges
from logwright.compaction.unpack import NOT_GIVEN, Workspace
from logwright.errors import UnsupportedFormatError
from logwright.format.index import AbortedTransaction, serialize_txn_index
from logwright.format.names import INDEX, LOG, TIMEINDEX, TXNINDEX, segment_file_name
from logwright.log.model import Segment
from logwright.steps.work import PrivateDirectory
from logwright.units import INT32_MAX, ByteCount, Offset

BUFFER_BYTES: Final = 1024 * 1024
"""Of output that is written at once, from the CPU's cache. A small log gets no more than its own
size."""

_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


class SegmentWriter:
    """Writes the cleaned segment of one group. Effects: creates its three files in `directory`.

    Args:
        directory: the staging directory, open.
        sources: the group's segments as observed, and their logs in memory; the first gives base
            offset, mode and owner, the last the modification time.
        rule: int64[2], see `recopy.recopy`.
        dead: bitmap by ordinal.
        aborted: the entries of its ``.txnindex``; without any there is no such file.
        facts: of the group, which are handed on.
        hash_key, last_mapped_offset: of the first pass.
        runtime: threads that copy, and the throttle of what is read and written.
        rebuilt: uint8[n], the bytes that the sources' `rebuilt` is about.
    """

    def __init__(
        self,
        directory: PrivateDirectory,
        sources: list[tuple[Segment, Source]],
        *,
        rule: NDArray[np.int64],
        dead: NDArray[np.uint8],
        aborted: tuple[AbortedTransaction, ...],
        facts: GroupFacts,
        hash_key: tuple[int, int],
        last_mapped_offset: int,
        runtime: Runtime,
        rebuilt: NDArray[np.uint8],
    ) -> None:
        self._directory = directory
        self._sources = sources
        self._rule = rule
        self._dead = dead
        self._aborted = aborted
        self._facts = facts
        self._told = witness.new_told(hash_key, last_mapped_offset)
        self._runtime = runtime
        self._rebuilt = rebuilt
        self._base_offset = sources[0][0].base_offset
        self._modified_ns = sources[-1][0].modified_ns
        self._like = os.stat(sources[0][1].log.path)  # noqa: PTH116 -- a path costs
        batches = sum(len(source.batches) for _, source in sources)
        self._indexes = new_indexes(batches)
        room = min(sum(source.log.bytes for _, source in sources), BUFFER_BYTES)
        self._buffer = np.empty(room, dtype=np.uint8)
        self._space = Workspace()
        self.state = new_state()
        self.state[copying.NEXT_OFFSET] = self._base_offset

    def write(self, copied: Callable[[int], None]) -> StagedSegment:
        """Recopy the group; `copied` is told the bytes of the sources as they are done.

        Raises:
            OSError: a file cannot be written.
            UnsupportedFormatError: the output would be larger than a segment can be.
        """
        with self._create(LOG) as log:
            if self._runtime.threads > 1:
                self._copy_in_pieces(log, copied)
            else:
                for _, source in self._sources:
                    self._copy(source, log, copied)
                self._flush(log)
            log.sync(self._modified_ns)
        copying.index_time(self.state, self._indexes[1])
        index = self._relative(0, copying.INDEX_ENTRIES, offset_column=0)
        timeindex = self._relative(1, copying.TIMEINDEX_ENTRIES, offset_column=1)
        index_bytes = self._write_index(INDEX, index, _OFFSET_ENTRY)
        timeindex_bytes = self._write_index(TIMEINDEX, timeindex, _TIME_ENTRY)
        return StagedSegment(
            base_offset=self._base_offset,
            source_base_offsets=tuple(segment.base_offset for segment, _ in self._sources),
            log_bytes=ByteCount(int(self.state[copying.POSITION])),
            index_bytes=ByteCount(index_bytes),
            timeindex_bytes=ByteCount(timeindex_bytes),
            txnindex_bytes=self._write_txnindex(),
            next_offset=Offset(int(self.state[copying.NEXT_OFFSET])),
            modified_ns=self._modified_ns,
            facts=self._facts,
            packed=self._packed_facts(),
        )

    def _packed_facts(self) -> PackedFacts:
        content, digest, mapped = self._told[2].tolist()
        return PackedFacts(content=content, digest=digest, mapped=mapped)

    def _path(self, suffix: str) -> str:
        return f"{self._directory.path}/{segment_file_name(self._base_offset, suffix)}"

    def _create(self, suffix: str) -> _Output:
        name = segment_file_name(self._base_offset, suffix)
        return _Output(self._directory.create(name), like=self._like, sync=self._runtime.sync)

    def _copy(self, source: Source, log: _Output, copied: Callable[[int], None]) -> None:
        space, throttle = self._space, self._runtime.throttle
        self.state[copying.GIVEN] = NOT_GIVEN
        for first, last in row_ranges(
            source, first=0, last=len(source.batches), window_bytes=throttle.step_bytes
        ):
            row, batches = first, source.batches[:last]
            space.need_kept(int(batches["count"][first:].max(initial=0)))
            before = int(self.state[copying.POSITION])
            while row < last:
                row, why = copying.recopy(
                    source.data,
                    batches,
                    row,
                    self._dead,
                    self._rule,
                    self._buffer,
                    self._indexes,
                    self.state,
                    space.for_recopy(),
                    self._told,
                    (source.rebuilt[:last], self._rebuilt),
                )
                if why == copying.BUFFER_FULL:
                    self._make_room(int(self.state[copying.NEEDED]), log)
                elif why != copying.DONE:
                    remove_obstacle(why, source, batches, row, self.state, space)
            read = source.bytes_before(last) - source.bytes_before(first)
            throttle.observe(read + int(self.state[copying.POSITION]) - before)
            copied(read)

    def _copy_in_pieces(self, log: _Output, copied: Callable[[int], None]) -> None:
        pieces = PieceWriter(
            log.fileno(),
            rule=self._rule,
            dead=self._dead,
            indexes=self._indexes,
            state=self.state,
            told=self._told,
            check=self._refuse_large,
            rebuilt=self._rebuilt,
        )
        pieces.write([source for _, source in self._sources], self._runtime, copied)

    def _make_room(self, needed: int, log: _Output) -> None:
        """Empty the buffer, and enlarge it if even then it is too small."""
        self._flush(log)
        if needed > len(self._buffer):
            self._buffer = np.empty(needed, dtype=np.uint8)

    def _refuse_large(self) -> None:
        if self.state[copying.POSITION] > INT32_MAX:
            raise UnsupportedFormatError(
                f"the cleaned segment {self._base_offset} would be larger than {INT32_MAX} bytes.",
                path=self._path(LOG),
                remedy="The log was left untouched. Lower segment.bytes.",
            )

    def _flush(self, log: _Output) -> None:
        self._refuse_large()
        log.write(self._buffer[: int(self.state[copying.BUFFERED])].data)
        self.state[copying.BUFFERED] = 0

    def _relative(self, which: int, count_cell: int, *, offset_column: int) -> NDArray[np.int64]:
        """The entries of one index with offsets relative to the base offset, int64[n, 2]."""
        entries: NDArray[np.int64] = self._indexes[which][: int(self.state[count_cell])].copy()
        entries[:, offset_column] -= self._base_offset
        return entries

    def _write_index(
        self, suffix: str, entries: NDArray[np.int64], dtype: np.dtype[np.void]
    ) -> int:
        rows = np.empty(len(entries), dtype=dtype)
        for column, name in enumerate(dtype.names or ()):
            rows[name] = entries[:, column]
        with self._create(suffix) as file:
            file.write(memoryview(rows.tobytes()))
            file.sync(self._modified_ns)
        return rows.nbytes

    def _write_txnindex(self) -> ByteCount | None:
        if not self._aborted:
            return None
        content = serialize_txn_index(self._aborted)
        with self._create(TXNINDEX) as file:
            file.write(memoryview(content))
            file.sync(None)
        return ByteCount(len(content))


class _Output:
    """A new file with the mode and owner of another. Effects: writes it, closes it."""

    def __init__(self, file: int, *, like: os.stat_result, sync: Callable[[int], None]) -> None:
        self._sync = sync
        self._descriptor = file
        if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(self._descriptor, like.st_uid, like.st_gid)
        os.fchmod(self._descriptor, like.st_mode & 0o777)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def sync(self, modified_ns: int | None) -> None:
        """Give it this modification time, if any, and make all of it durable (`Runtime.sync`)."""
        if modified_ns is not None:
            os.utime(self._descriptor, ns=(modified_ns, modified_ns))
        self._sync(self._descriptor)

    def write(self, content: memoryview) -> None:
        """Write all of it; the operating system may take it in parts."""
        while content:
            content = content[os.write(self._descriptor, content) :]
