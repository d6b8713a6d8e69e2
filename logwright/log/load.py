"""Read a log directory: its partitions, its checkpoints, and one partition's log as a value.

1. All entries of the partition's directory are listed and stamped once; that is also the
   fingerprint. Of a version in a bucket the manifest is enough: steps 1 to 3 are done where it is
   read (`logwright.bucket.rows`), and files are looked at only if something is wrong.
2. Names give the segments. Anything that an interrupted operation leaves, or that a broker would
   repair at load, stops here: this directory needs recovery first.
3. Of each segment the last time index entry and the first batch's header are read, of the active
   one also the tail after the last index entry (`tail`). No segment is read whole.
4. Checkpoints give the offsets, limited as LogLoader and UnifiedLog of Kafka 4.3.0 limit them.

Reading only; nothing here follows a symlink below the log directory.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Generic, NamedTuple

from logwright.errors import CorruptCheckpoint, CorruptIndex, NotALogDir, UncleanLogDir
from logwright.format import names
from logwright.format.batch import HEADER_BYTES
from logwright.format.checkpoints import find_offset
from logwright.format.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from logwright.format.names import TopicPartition, segment_file_name
from logwright.log.absence import BRING_BACK, Traces, absences
from logwright.log.checkpoints import (
    CHECKPOINT_FILES,
    Checkpoints,
    checkpoint_contents,
    read_open_checkpoints,
)
from logwright.log.committed import HighWatermark
from logwright.log.listing import segment_stems, snapshot_offsets, stamp_files
from logwright.log.log_dir import list_log_dir
from logwright.log.missing import snapshots_beyond
from logwright.log.model import (
    FilesOfVersion,
    Fingerprint,
    PartitionLog,
    Segment,
    SegmentTable,
)
from logwright.log.producers import Producers, first_batch_at, load_producers
from logwright.log.recovered import is_recovered
from logwright.log.tail import first_batch_max_timestamp, log_end_offset, looked_at_bytes
from logwright.place.files import open_log_dir, open_partition_dir
from logwright.place.model import (
    AnyPlace,
    FileStamp,
    OpenDir,
    Place,
    ReadOnlyPlace,
    is_running,
)
from logwright.units import Offset, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
META_PROPERTIES: Final = "meta.properties"
_LOG_DIR_FILES: Final = frozenset((*CHECKPOINT_FILES, META_PROPERTIES))
_REBUILD: Final = (
    "The log was left untouched. `logwright recover` rebuilds the indexes; so does a broker that"
    " finds a segment without its .index."
)
_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_TIME_ENTRIES: Final = struct.Struct(">qiqi")


def list_partitions(log_dir: Place) -> list[TopicPartition]:
    """Return the partitions in a log directory, sorted. Effects: reads the directory.

    By name only. A symlink with a partition's name is listed, so that `observe` refuses it instead
    of ignoring it. Deleted, future and stray logs are left out, as are the
    cluster metadata log and the remote log cache, which log maintenance never touches.

    Raises:
        NotALogDir: it is missing, no directory, or has neither partitions nor any file that a
            broker keeps in a log directory.
        UnreadableFile: it cannot be read.
    """
    with open_log_dir(log_dir) as directory:
        listing = list_log_dir(directory)
    if not listing.partitions and _LOG_DIR_FILES.isdisjoint(listing.names):
        raise NotALogDir(
            "not a log directory: it has no partition directory, no checkpoint file and no"
            f" {META_PROPERTIES}.",
            path=log_dir,
            remedy="Give a directory of a broker's log.dirs.",
        )
    return sorted(
        partition
        for name, partition in listing.partitions.items()
        if partition.directory_name == name and partition.topic != CLUSTER_METADATA_TOPIC
    )


def fingerprint(
    log_dir: Place, partition: TopicPartition, contents: Mapping[str, bytes] | None = None
) -> Fingerprint:
    """Return what a plan compares before it commits. Effects: reads the directory and the
    checkpoints.

    `contents`: as `checkpoint_contents` gives them, if they were read already.

    Raises:
        NotALogDir, UnreadableFile: as `observe`.
    """
    contents_of = checkpoint_contents(log_dir) if contents is None else contents
    entries = tuple(
        [(name, find_offset(contents_of.get(name, b""), partition)) for name in CHECKPOINT_FILES]
    )
    with open_partition_dir(log_dir, partition) as directory:
        known = _known(log_dir, partition)
        files = tuple(stamp_files(directory).values()) if known is None else known.files
        return Fingerprint(files=files, checkpoints=entries)


def observe(
    log_dir: AnyPlace,
    partition: TopicPartition,
    *,
    high_watermark: HighWatermark,
    checkpoints: Checkpoints | None = None,
) -> PartitionLog[AnyPlace]:
    """Observe one partition's log. Effects: reads, see the module.

    Args:
        log_dir: the log directory.
        partition: one of its partitions.
        high_watermark: see `HighWatermark`; what is recorded is limited to the log.
        checkpoints: as `read_checkpoints` gives them, if they were read already.

    Raises:
        NotALogDir: there is no such log directory or partition.
        UnreadableFile: a file cannot be read, or is a symlink, FIFO or the like.
        UncleanLogDir: neither a clean-shutdown marker nor a record that this log was recovered
            since, leftovers, a segment that is not whole, or it ends before an offset that it had.
        CorruptBatch, CorruptIndex, CorruptCheckpoint: what was read is malformed.
        UnsupportedFormatError: another magic or version than the known ones.
    """
    with open_log_dir(log_dir) as parent:
        entries = read_open_checkpoints(parent) if checkpoints is None else checkpoints
        return observe_one(share(log_dir, parent, high_watermark, entries), partition)


class Shared(NamedTuple, Generic[AnyPlace]):
    """The arguments of `observe_one` that all partitions share.

    Attributes:
        log_dir, directory: the log directory, and the same open.
        high_watermark, checkpoints: see `observe`.
        clean_shutdown: it has the broker's marker, or needs none.
    """

    log_dir: AnyPlace
    directory: OpenDir
    high_watermark: HighWatermark
    checkpoints: Checkpoints
    clean_shutdown: bool


def share(
    log_dir: AnyPlace,
    directory: OpenDir,
    high_watermark: HighWatermark,
    checkpoints: Checkpoints,
) -> Shared[AnyPlace]:
    """Return the arguments of `observe_one` that all partitions share. Effects: looks for the
    marker. Logs of a running broker are whole without one, and end at their high watermark.
    """
    if is_running(log_dir):
        return Shared(log_dir, directory, "end", checkpoints, clean_shutdown=True)
    clean_shutdown = directory.exists(names.CLEAN_SHUTDOWN_MARKER)
    return Shared(log_dir, directory, high_watermark, checkpoints, clean_shutdown)


def observe_one(shared: Shared[AnyPlace], partition: TopicPartition) -> PartitionLog[AnyPlace]:
    """Observe a partition's log in an open log directory; see `observe`."""
    with shared.directory.open_dir(partition.directory_name) as directory:
        return _observe(shared, partition, directory)


def _observe(
    shared: Shared[AnyPlace], partition: TopicPartition, directory: OpenDir
) -> PartitionLog[AnyPlace]:
    segments, snapshots, end, files = _known(shared.log_dir, partition) or _looked_at(
        shared, directory
    )
    entries = shared.checkpoints.of(partition)
    if not is_running(shared.log_dir):
        _refuse_missing(shared, partition, end, snapshots)
    if is_running(shared.log_dir):
        entries = (*entries[:2], (names.HIGH_WATERMARK_CHECKPOINT, end), entries[3])
    _, (_, recorded_start), (_, watermark), (_, cleaner) = entries
    start = Offset(max(recorded_start or 0, segments[0].base_offset))
    if start > end:
        raise _start_beyond_end(shared.log_dir, partition, start, end)
    committed = end
    unknown = watermark is None and shared.high_watermark == "recorded"
    if shared.high_watermark != "end" and not unknown:
        committed = Offset(min(max(watermark or 0, start), end))
    producers = load_producers(
        directory,
        segments,
        snapshots,
        log_start_offset=start,
        log_end_offset=end,
        stopped=not is_running(shared.log_dir),
    )
    stable = _last_stable_offset(producers, directory, segments, (start, end, committed))
    return PartitionLog(
        log_dir=shared.log_dir,
        partition=partition,
        segments=segments,
        log_start_offset=start,
        log_end_offset=end,
        high_watermark=committed,
        last_stable_offset=stable,
        # After a clean stop everything is flushed (LogLoader.load, last step).
        recovery_point=end,
        cleaner_checkpoint=cleaner,
        snapshot_offsets=snapshots,
        producers=producers.entries,
        fingerprint=Fingerprint(files=files, checkpoints=entries),
    )


class _Files(NamedTuple):
    """What the files of a log say: its segments, the offsets of its producer snapshots, its end."""

    segments: Sequence[Segment]
    snapshots: tuple[Offset, ...]
    end: Offset
    files: Sequence[FileStamp]


def _known(log_dir: Place, partition: TopicPartition) -> _Files | None:
    """Return what is known of a log's files without looking at them; None if it is not enough."""
    if not isinstance(log_dir, ReadOnlyPlace):
        return None
    directory = log_dir / partition.directory_name
    known = directory.known_log()
    if known is None:
        return None
    snapshots = tuple(map(Offset, known.snapshots))
    files = FilesOfVersion(directory, known)
    return _Files(SegmentTable(known.segments), snapshots, Offset(known.end), files)


def _looked_at(shared: Shared[AnyPlace], directory: OpenDir) -> _Files:
    stamps = stamp_files(directory)
    as_stopped = shared.clean_shutdown or is_recovered(directory, stamps)
    stems = segment_stems(stamps, directory.name, clean_shutdown=as_stopped)
    segments = _segments(directory, stamps, stems)
    end = _log_end_offset(directory, segments[-1])
    return _Files(segments, snapshot_offsets(stamps), end, tuple(stamps.values()))


def _last_stable_offset(
    producers: Producers,
    directory: OpenDir,
    segments: Sequence[Segment],
    offsets: tuple[Offset, Offset, Offset],
) -> Offset:
    """Return the last stable offset. For a transaction that began in deleted records, the first
    remaining batch counts (UnifiedLog.maybeIncrementFirstUnstableOffset); `offsets`: log start, log
    end, high watermark.
    """
    start, end, committed = offsets
    stable = producers.last_stable_offset(committed)
    if stable >= start:
        return stable
    return min(committed, first_batch_at(directory.path, segments, start, log_end_offset=end))


def _refuse_missing(
    shared: Shared[AnyPlace], partition: TopicPartition, end: Offset, snapshots: Sequence[Offset]
) -> None:
    """Raise if the log ends before an offset that it had reached."""
    (_, point), _, (_, watermark), _ = shared.checkpoints.of(partition)
    if end >= max(point or 0, watermark or 0, *snapshots[-1:]):
        return
    traces = Traces(
        segments={},
        log_start_offset=end,
        log_end_offset=end,
        is_tiered=False,
        orphans={},
        snapshots=snapshots_beyond(shared.log_dir / partition.directory_name, snapshots, end),
        epochs=(),
        recovery_point=point,
        high_watermark=watermark,
        clean=shared.clean_shutdown,
        is_young=False,
        deleted_to=-1,
    )
    for absence in absences(traces):
        raise UncleanLogDir(
            f"{absence.offsets} offsets are missing: {absence.reason}.",
            path=shared.log_dir / partition.directory_name,
            remedy=f"{BRING_BACK} `logwright recover --accept-loss` takes the log for what is"
            " there.",
        )


def _start_beyond_end(
    log_dir: Place, partition: TopicPartition, start: Offset, end: Offset
) -> CorruptCheckpoint:
    return CorruptCheckpoint(
        f"log start offset {start} of {partition} is beyond the log's end at {end}.",
        path=log_dir / names.LOG_START_OFFSET_CHECKPOINT,
        remedy="A broker would drop the whole log. Restore the log or the checkpoint.",
    )


def _segments(
    directory: OpenDir, stamps: Mapping[str, FileStamp], stems: Sequence[str]
) -> tuple[Segment, ...]:
    following = [int(stem) for stem in stems[1:]]
    return tuple(
        [
            _segment(directory, stamps, stem, end)
            for stem, end in zip(stems, [*following, None], strict=True)
        ]
    )


def _segment(
    directory: OpenDir, stamps: Mapping[str, FileStamp], stem: str, following: int | None
) -> Segment:
    """Return a segment; `following` is the next one's base offset, None for the active one."""
    base = int(stem)
    name, log_bytes, modified_ns, _ = stamps[stem + names.LOG]
    index = stamps[stem + names.INDEX]
    timeindex = stamps[stem + names.TIMEINDEX]
    txnindex = stamps.get(stem + names.TXNINDEX)
    if index.bytes % OFFSET_ENTRY_BYTES:
        raise _broken_entries(directory, index, OFFSET_ENTRY_BYTES)
    if timeindex.bytes % TIME_ENTRY_BYTES:
        raise _broken_entries(directory, timeindex, TIME_ENTRY_BYTES)
    largest = _last_timestamp(directory, timeindex, base, following) if timeindex.bytes else -1
    first: TimestampMs | None = None
    if log_bytes:
        header = directory.read_part(name, 0, HEADER_BYTES)
        looked_at = looked_at_bytes(header, log_bytes)
        if looked_at > len(header):
            header = directory.read_part(name, 0, looked_at)
        first = first_batch_max_timestamp(
            header, base_offset=base, log_bytes=log_bytes, path=directory.file(name)
        )
    return Segment(
        base_offset=Offset(base),
        log_bytes=log_bytes,
        index_bytes=index.bytes,
        timeindex_bytes=timeindex.bytes,
        txnindex_bytes=None if txnindex is None else txnindex.bytes,
        modified_ns=modified_ns,
        largest_timestamp_ms=TimestampMs(largest if largest >= 0 else modified_ns // 1_000_000),
        first_batch_max_timestamp_ms=first,
    )


def _broken_entries(directory: OpenDir, index: FileStamp, entry_bytes: int) -> CorruptIndex:
    return CorruptIndex(
        f"{index.bytes} bytes are not a multiple of the entry size of {entry_bytes} bytes.",
        path=directory.path / index.name,
        position=index.bytes - index.bytes % entry_bytes,
        remedy=_REBUILD,
    )


def _last_timestamp(
    directory: OpenDir, timeindex: FileStamp, base: int, following: int | None
) -> TimestampMs:
    """Return the timestamp of a time index's last entry, which must fit the one before it and the
    segment.
    """
    position = max(0, timeindex.bytes - 2 * TIME_ENTRY_BYTES)
    name, size = timeindex.name, timeindex.bytes - position
    content = directory.read_part(name, position, size)
    timestamp = offset = -1
    ascends = True
    if len(content) == 2 * TIME_ENTRY_BYTES:
        before, at, timestamp, offset = _TIME_ENTRIES.unpack(content)
        ascends = before < timestamp and at <= offset
    elif len(content) >= TIME_ENTRY_BYTES:
        timestamp, offset = _TIME_ENTRY.unpack_from(content)
    if not ascends or offset < 0 or (following is not None and base + offset >= following):
        raise CorruptIndex(
            "the last entry does not ascend or is outside the segment.",
            path=directory.path / timeindex.name,
            position=timeindex.bytes - TIME_ENTRY_BYTES,
            remedy=_REBUILD,
        )
    return TimestampMs(timestamp)


def _log_end_offset(directory: OpenDir, active: Segment) -> Offset:
    stem = segment_file_name(active.base_offset, "")
    last_entry: tuple[int, int] | None = None
    if active.log_bytes == 0 and active.index_bytes == 0:
        return active.base_offset
    if active.index_bytes:
        name = stem + names.INDEX
        start = max(0, active.index_bytes - 2 * OFFSET_ENTRY_BYTES)
        content = directory.read_part(name, start, active.index_bytes - start)
        entries = list(_OFFSET_ENTRY.iter_unpack(content[: len(content) - len(content) % 8]))
        offset, position = entries[-1] if entries else (-1, -1)
        ascends = len(entries) == 1 or (entries[0][0] < offset and entries[0][1] < position)
        if not ascends or offset < 0 or not 0 < position < active.log_bytes:
            raise CorruptIndex(
                "the last entry does not ascend or points outside the .log.",
                path=directory.path / name,
                position=active.index_bytes - OFFSET_ENTRY_BYTES,
                remedy=_REBUILD,
            )
        last_entry = (active.base_offset + offset, position)
    name = stem + names.LOG
    with directory.open(name) as file:
        return log_end_offset(
            file,
            directory.file(name),
            base_offset=active.base_offset,
            log_bytes=active.log_bytes,
            last_entry=last_entry,
        )
