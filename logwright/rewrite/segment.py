"""Write the cleaned segment of one group: its log, its indexes, and their metadata; make all of it
durable.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from logwright.batches.source import Source
from logwright.errors import UnsupportedFormatError
from logwright.format.index import AbortedTransaction, serialize_txn_index
from logwright.format.names import INDEX, LOG, TIMEINDEX, TXNINDEX, segment_file_name
from logwright.log.model import Segment
from logwright.rewrite.chunks import ChunkWriter, Rewrite
from logwright.rewrite.model import GroupFacts, RebuiltFacts, StagedSegment
from logwright.rewrite.output import Output, index_files, new_output
from logwright.steps.work import PrivateDirectory
from logwright.units import INT32_MAX, ByteCount, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The source segments of one cleaned segment.

    Attributes:
        sources: as observed, and their logs in memory; the first gives base offset, mode and owner,
            the last the modification time.
        aborted: the entries of the cleaned ``.txnindex``; without any there is no such file.
        facts: for the checks.
    """

    sources: list[tuple[Segment, Source]]
    aborted: tuple[AbortedTransaction, ...]
    facts: GroupFacts


class SegmentWriter:
    """Writes the cleaned segment of one group. Effects: creates its files in `directory`.

    Args:
        directory: the staging directory, open.
        rewrite: what the build has decided.

    Attributes:
        output: its indexes and counts.
    """

    def __init__(self, directory: PrivateDirectory, group: Group, rewrite: Rewrite) -> None:
        sources = group.sources
        self._directory = directory
        self._group = group
        self._rewrite = rewrite
        self._receipt = rewrite.receipt.emptied()
        self._base_offset = sources[0][0].base_offset
        self._modified_ns = sources[-1][0].modified_ns
        self._like = os.stat(str(sources[0][1].log.path))  # noqa: PTH116 -- a path costs
        batches = sum(len(source.batches) for _, source in sources)
        self.output: Output = new_output(batches=batches)
        self.output.state["next_offset"] = self._base_offset

    def write(self, copied: Callable[[int], None]) -> StagedSegment:
        """Copy the group, and call `copied` with the bytes of the sources that are done.

        Raises:
            OSError: a file cannot be written.
            UnsupportedFormatError: the output would be larger than a segment can be.
        """
        state = self.output.state
        with self._create(LOG) as log:
            writer = ChunkWriter(
                log.fileno(),
                self._rewrite,
                self.output,
                self._receipt,
                check=self._refuse_large,
                copied=copied,
            )
            writer.write([source for _, source in self._group.sources])
            log.sync(self._modified_ns)
        index, timeindex = index_files(self.output, self._base_offset)
        self._write_index(INDEX, index)
        self._write_index(TIMEINDEX, timeindex)
        content, digest = self._receipt.sums.tolist()
        return StagedSegment(
            base_offset=self._base_offset,
            source_base_offsets=tuple(segment.base_offset for segment, _ in self._group.sources),
            log_bytes=ByteCount(int(state["position"])),
            index_bytes=ByteCount(index.nbytes),
            timeindex_bytes=ByteCount(timeindex.nbytes),
            txnindex_bytes=self._write_txnindex(),
            next_offset=Offset(int(state["next_offset"])),
            modified_ns=self._modified_ns,
            facts=self._group.facts,
            rebuilt=RebuiltFacts(content=content, digest=digest),
        )

    def _create(self, suffix: str) -> _File:
        name = segment_file_name(self._base_offset, suffix)
        sync = self._rewrite.runtime.sync
        return _File(self._directory.create(name), like=self._like, sync=sync)

    def _refuse_large(self) -> None:
        if self.output.state["position"] > INT32_MAX:
            name = segment_file_name(self._base_offset, LOG)
            raise UnsupportedFormatError(
                f"the cleaned segment {self._base_offset} would be larger than {INT32_MAX} bytes.",
                path=f"{self._directory.path}/{name}",
                remedy="The log was left untouched. Lower segment.bytes.",
            )

    def _write_index(self, suffix: str, rows: NDArray[np.void]) -> None:
        with self._create(suffix) as file:
            file.write(memoryview(rows.tobytes()))
            file.sync(self._modified_ns)

    def _write_txnindex(self) -> ByteCount | None:
        if not self._group.aborted:
            return None
        content = serialize_txn_index(self._group.aborted)
        with self._create(TXNINDEX) as file:
            file.write(memoryview(content))
            file.sync(None)
        return ByteCount(len(content))


class _File:
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
        """Return the descriptor."""
        return self._descriptor

    def sync(self, modified_ns: int | None) -> None:
        """Set the modification time, if given, and make the file durable (`Runtime.sync`)."""
        if modified_ns is not None:
            os.utime(self._descriptor, ns=(modified_ns, modified_ns))
        self._sync(self._descriptor)

    def write(self, content: memoryview) -> None:
        """Write all of it; the operating system may take it in parts."""
        while content:
            content = content[os.write(self._descriptor, content) :]
