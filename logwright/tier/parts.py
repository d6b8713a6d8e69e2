"""The files of a log that are in remote storage, as a broker would have them on its disk.

A segment that the next one overlaps is shown up to where that begins: its ``.log`` to the last
batch below, its indexes to the last entry that names such a batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from logwright.format.names import (
    INDEX,
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    SNAPSHOT,
    TIMEINDEX,
    TXNINDEX,
    segment_file_name,
)
from logwright.place.model import Bytes, Entry
from logwright.running.bounds import (
    end_of_log,
    size_of_index,
    size_of_timeindex,
    size_of_txnindex,
)
from logwright.tier.chunks import entry_of_part
from logwright.tier.lineage import Link
from logwright.tier.model import LEADER_EPOCHS, RemoteSegment, damaged


class RemotePart(NamedTuple):
    """A file of a log that is in remote storage.

    Attributes:
        seen: as `Bytes.seen` is.
    """

    segment: RemoteSegment
    suffix: str
    seen: tuple[int, int, int]

    @property
    def name(self) -> str:
        """What its object is called, for messages."""
        return f"{self.segment.bucket.name}/{self.segment.key_of(self.suffix)}"

    def entry(self, name: str) -> Entry:
        """Return its entry under a name. Pure."""
        return entry_of_part(self.seen, name)

    def open(self) -> Bytes:
        """Open it. Effects and errors: as `RemoteSegment.open`."""
        return self.segment.open(self.suffix, self.seen)


def part_of(segment: RemoteSegment, suffix: str, size: int) -> RemotePart:
    """Return a part of which this many bytes are shown. Pure."""
    key = segment.key_of(suffix)
    digest = hashlib.blake2b(f"{key} {suffix}".encode(), digest_size=8).digest()
    stat = next(iter(segment.objects.values()))
    return RemotePart(segment, suffix, (size, stat.modified_ns, int.from_bytes(digest) >> 1))


def parts_of_log(links: Iterable[Link], *, alone: bool) -> dict[str, RemotePart]:
    """Return the files of a log's remote segments, by name. Effects: reads manifests; of segments
    that are cut some batches and index entries.

    Args:
        alone: there is no local log: the leader epochs of the last segment count.

    Raises:
        CorruptObject: an object is missing, or not what was written.
        UnreadableFile: one cannot be read.
    """
    parts: dict[str, RemotePart] = {}
    last: RemoteSegment | None = None
    for link in links:
        segment, base = link.segment, link.segment.id.base_offset
        sizes, following = _shown(link)
        for suffix in (LOG, INDEX, TIMEINDEX, TXNINDEX):
            if suffix in sizes:
                name = segment_file_name(base, suffix)
                parts[name] = part_of(segment, suffix, sizes[suffix])
        if SNAPSHOT in sizes and following is not None:
            name = segment_file_name(following, SNAPSHOT)
            parts[name] = part_of(segment, SNAPSHOT, sizes[SNAPSHOT])
        last = segment
    epochs = last.sizes().get(LEADER_EPOCHS) if alone and last is not None else None
    if last is not None and epochs is not None:
        parts[LEADER_EPOCH_CHECKPOINT] = part_of(last, LEADER_EPOCHS, epochs)
    return parts


def _shown(link: Link) -> tuple[dict[str, int], int | None]:
    """Return how many bytes are shown of each part of a segment; and the offset of its producer
    snapshot, None if that is not of what is shown.
    """
    segment, base = link.segment, link.segment.id.base_offset
    sizes = dict(segment.sizes())
    if not link.is_cut:
        return sizes, link.bound
    log = part_of(segment, LOG, sizes[LOG]).open()
    index = part_of(segment, INDEX, sizes[INDEX]).open()
    end = end_of_log(log, index, base_offset=base, bound=link.bound)
    if end.size == sizes[LOG]:
        return sizes, link.bound
    if not end.reached:
        problem = f"the batch at offset {end.following} or later is damaged"
        raise damaged(problem, segment.key_of(LOG), end.size)
    cut = {LOG: end.size, INDEX: size_of_index(index, base_offset=base, end=end)}
    timeindex = part_of(segment, TIMEINDEX, sizes[TIMEINDEX]).open()
    cut[TIMEINDEX] = size_of_timeindex(timeindex, base_offset=base, end=end)
    if TXNINDEX in sizes:
        txnindex = part_of(segment, TXNINDEX, sizes[TXNINDEX]).open()
        cut[TXNINDEX] = size_of_txnindex(txnindex, end=end)
    return cut, None
