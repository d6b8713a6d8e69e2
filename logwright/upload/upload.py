"""Write a log into a bucket as it is: the files of its segments byte for byte.

The log may be of a stopped broker, or a running one's, which is shown up to its high watermark
(`logwright.running`): then the active segment is written up to there, and again the next time, with
the producer snapshot that a broker writes when it stops.

1. The bucket is probed, once for all, and its limits are read (`logwright.bucket.agreement`).
2. The newest manifest is read, then the log observed (`logwright.upload.source`). If it changes
   until a commit, or records are erased from it here or in the bucket, all begins again.
3. Each file is read once for its checksum; if the bucket has it, it is not sent. Else it is sent
   under a name of its own and read back: its length and checksum must be those of what was sent.
4. What was sent is committed when a part of the deadline has passed, or the log is complete. So a
   log of any size is committed in parts, each a log that can be read. A compacted log is committed
   when it is complete (`logwright.upload.plan`, 4), and has longer for it.

Wherever it is killed, the newest manifest names whole objects only. What was sent and not
committed is removed by a later removal (`logwright.bucket.commit`, 7); the next upload sends it
again.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, Protocol, cast

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Throttle
from logwright.bucket.agreement import LONGEST_REQUEST_MS
from logwright.bucket.commit import (
    Commit,
    Conflict,
    ErasedSince,
    Limits,
    Operation,
    Requests,
    TooLate,
    data_key,
    newest,
)
from logwright.bucket.driver import drive
from logwright.bucket.manifest import Erased, LogState, Manifest, erased_in
from logwright.bucket.store import Bucket
from logwright.bucket.stored import MOST_EDGE_BYTES, StoredFile, StoredSegment, StoredSnapshot
from logwright.errors import (
    CorruptLogError,
    StalePlan,
    StepFailed,
    UnreadableFile,
    Unsettled,
    invariant,
    unreadable,
)
from logwright.format import names
from logwright.format.batch import HEADER_BYTES
from logwright.format.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from logwright.format.names import TopicPartition, segment_file_name
from logwright.format.snapshot import serialize_snapshot
from logwright.log.model import ReadableLog, Segment
from logwright.log.topic_id import read_topic_id
from logwright.place.files import open_partition_dir
from logwright.place.model import (
    RANGE_BYTES,
    Bytes,
    Entry,
    FileStamp,
    OpenDir,
    Place,
    is_running,
)
from logwright.state.erasure_mark import absent_below, erased_at_once
from logwright.units import ByteCount, DurationMs
from logwright.upload.plan import (
    LogFacts,
    brought_back,
    dropped_offsets,
    is_compacted,
    merged,
    missing_offsets,
    needed_segments,
    part_of,
    require_continues,
    require_erased,
    require_named,
)
from logwright.upload.source import Source

_LOG: Final = logging.getLogger(__name__)
_SHARE_OF_DEADLINE: Final = 4
"""What was sent is committed when this part of the deadline has passed: one quarter."""
_ATTEMPTS: Final = 5
_TRIES: Final = 5
_LOGS_AT_ONCE: Final = 4
"""Segments that are sent at once."""
_HEAD_BYTES: Final = {names.LOG: HEADER_BYTES}
_TAIL_BYTES: Final = {
    names.INDEX: 2 * OFFSET_ENTRY_BYTES,
    names.TIMEINDEX: 2 * TIME_ENTRY_BYTES,
}
"""What `logwright.log.load` reads of each segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """What became of one log.

    Attributes:
        partition: whose log it is.
        version: the newest version in the bucket.
        end_offset: the log end offset there.
        segments, bytes: how many segments, and bytes of all files, that version has.
        sent_files, sent_bytes: what was sent.
        commits: how many versions were made.
        missing: offsets, first and last, that retention deleted before they were written; None:
            there are none.
        dropped: offsets, first and last, that an earlier version had and the newest has not, since
            the log is compacted; None: there are none.
    """

    partition: TopicPartition
    version: int
    end_offset: int
    segments: int
    bytes: ByteCount
    sent_files: int
    sent_bytes: ByteCount
    commits: int
    missing: tuple[int, int] | None
    dropped: tuple[int, int] | None


@dataclass(slots=True, kw_only=True)
class Upload:
    """The upload of one log; `run` is all of it.

    Attributes:
        place: the log directory; of a running broker as a `RunningPlace` that is exact: a key of a
            compacted log would be missing below an older high watermark.
        partition: whose log.
        bucket: the log directory in the bucket.
        limits: as `agree` gives them.
        configs: settings of the topic that are kept with it.
        now_ms: for the manifests.
        throttle: what is read of the log directory.
        elapsed_ms: a clock that only runs forward.
        bring_back_erased: also a log that may have what was erased in the bucket is written.
    """

    place: Place
    partition: TopicPartition
    bucket: Bucket
    limits: Limits
    configs: Mapping[str, str]
    now_ms: int
    throttle: Throttle = field(default_factory=Throttle)
    elapsed_ms: Callable[[], int] = lambda: int(time.monotonic() * 1000)
    bring_back_erased: bool = False
    _job: str = ""
    _own: dict[str, int] = field(default_factory=dict)
    _sent: list[int] = field(default_factory=list)
    _commits: int = 0
    _missing: tuple[int, int] | None = None
    _dropped: tuple[int, int] | None = None

    def run(self) -> Uploaded:
        """Upload the log. Effects: reads it; writes objects and manifests.

        Raises:
            PreconditionError: the log cannot follow what is in the bucket, or would bring back what
                was erased there; see `logwright.upload.plan`. Conflict: another operation came
                between.
            StalePlan, ErasedSince: the log changed meanwhile, again and again, or was erased from.
            Unsettled: a broker works on it now, or the bucket does not answer.
            UnreadableFile: a file cannot be read, or an object not be written.
            StepFailed: an object is not what was sent.
            LogwrightError: as `observe`.
        """
        for attempt in range(_ATTEMPTS):
            self._begin()
            try:
                manifest = self._attempt()
            except (TooLate, StalePlan, ErasedSince) as error:
                if attempt + 1 == _ATTEMPTS:
                    raise
                _LOG.warning("begun again topic_partition=%s: %s", self.partition, error)
                continue
            break
        state = manifest.state
        return Uploaded(
            partition=self.partition,
            version=manifest.version,
            end_offset=state.log_end_offset,
            segments=len(state.segments),
            bytes=ByteCount(sum(file.bytes for file, _ in state.files.values())),
            sent_files=len(self._sent),
            sent_bytes=ByteCount(sum(self._sent)),
            commits=self._commits,
            missing=self._missing,
            dropped=self._dropped,
        )

    @property
    def directory(self) -> Bucket:
        """The partition's directory in the bucket."""
        return self.bucket.below(self.partition.directory_name)

    @property
    def job(self) -> Operation:
        """What the names of objects are made of."""
        return Operation(id=self._job, attempt=0, planned_version=-1, written_ms=0)

    def begin(self, key: str) -> None:
        """Note an object that is sent from now on."""
        self._own[key] = self.elapsed_ms()

    def sent(self, size: int) -> None:
        """Note an object that was sent."""
        self._sent.append(size)

    def _started_ms(self) -> int:
        """Return when the first object was begun that is not committed yet."""
        return min([*self._own.values()], default=self.elapsed_ms())

    def _begin(self) -> None:
        """Begin with names that nobody has used, and with the whole deadline."""
        self._job = f"upload-{secrets.token_hex(8)}"
        self._own = {}

    def _attempt(self) -> Manifest:
        base = drive(self.directory, newest())
        source = Source.seen(self.place, self.partition)
        try:
            return self._write(base, source)
        except (UnreadableFile, CorruptLogError) as error:
            if source.has_changed():
                raise StalePlan(
                    "changed while it was copied.", path=self.partition, remedy="Run it again."
                ) from error
            raise

    def _write(self, base: Manifest | None, source: Source) -> Manifest:
        """Send and commit a log; return the newest version."""
        log, before = source.log, None if base is None else base.state
        segments = needed_segments(before, log.segments, log.log_end_offset)
        ends = [*(each.base_offset for each in segments[1:]), log.log_end_offset]
        erasures = erased_in(base).number
        with (
            open_partition_dir(self.place, self.partition) as directory,
            ThreadPoolExecutor(_LOGS_AT_ONCE) as pool,
        ):
            files = Files(self, directory, {} if before is None else before.files, source)
            first = segments[0].base_offset if segments else log.log_end_offset
            facts = self._facts(log, directory, first)
            require_continues(before, facts)
            if base is not None and not segments:
                return base
            self._missing = self._missing or missing_offsets(before, facts)
            self._dropped = self._dropped or dropped_offsets(before, facts)
            self._require_erased(base, source, facts)
            snapshots = self._snapshots(files, log, segments[0].base_offset)
            ready: list[StoredSegment] = []
            try:
                for segment in pool.map(files.segment, segments, ends):
                    ready.append(segment)
                    is_last = len(ready) == len(ends)
                    if not is_last and (facts.compacted or self._is_early()):
                        continue
                    state = state_of(log, directory, tuple(ready), snapshots, configs=self.configs)
                    part = _Part(state, facts, source, erasures, is_last)
                    base = self._commit(base, part)
            finally:
                pool.shutdown(cancel_futures=True)
        source.require_mark()
        invariant(base is not None, "the last commit made a version")
        return cast("Manifest", base)

    def _facts(self, log: ReadableLog, directory: OpenDir, first: int) -> LogFacts:
        compacted = is_compacted(log.cleaner_checkpoint, self.configs)
        topic_id = read_topic_id(directory)
        return LogFacts(self.partition, topic_id, first, log.log_end_offset, compacted)

    def _require_erased(self, base: Manifest | None, source: Source, facts: LogFacts) -> None:
        """Refuse what would bring back what was erased; see `logwright.upload.plan`, 6."""
        if not self.bring_back_erased:
            require_erased(erased_in(base), absent_below(source.mark), facts)

    def _snapshots(self, files: Files, log: ReadableLog, first: int) -> tuple[StoredSnapshot, ...]:
        """Send the producer snapshots of what is written from an offset on."""
        offsets = [offset for offset in log.snapshot_offsets if offset >= first]
        snapshots = tuple(map(files.snapshot, offsets))
        if is_running(self.place) and log.log_end_offset not in log.snapshot_offsets:
            snapshots += (files.snapshot_at_end(log),)
        return snapshots

    def _is_early(self) -> bool:
        """Return whether it is too early for a commit."""
        used_ms = self.elapsed_ms() - self._started_ms()
        return used_ms * _SHARE_OF_DEADLINE < self.limits.deadline_ms

    def _commit(self, base: Manifest | None, part: _Part) -> Manifest | None:
        """Commit what is ready; return the newest version. Nothing is committed that changes
        nothing, or, unless it is the last, that is not a log yet.
        """
        state = part.state

        def after(manifest: Manifest | None) -> LogState | None:
            before = None if manifest is None else manifest.state
            changed = merged(before, state) if part.is_last else part_of(before, state)
            if changed is not None:
                require_named(before, changed, self._own)
            return changed

        def change(manifest: Manifest | None) -> Requests[LogState]:
            changed = after(manifest)
            if changed is None:
                raise Conflict("another operation came between.", path=self.partition)
            self._require_erased(manifest, part.source, part.facts)
            part.source.require_same()
            yield from ()
            return changed

        planned = after(base)
        if planned is None:
            return base
        if base is not None and planned == base.state and part.erased_after(base) == base.erased:
            return base
        operation = Operation(
            id=f"{self._job}-{self._commits}",
            attempt=0,
            planned_version=-1 if base is None else base.version,
            written_ms=self.now_ms,
            erasures=part.erasures,
        )
        commit = Commit(
            operation,
            change,
            for_whole(self.limits) if part.facts.compacted else self.limits,
            started_ms=self._started_ms(),
            erased=part.erased_after,
        )
        drive(self.directory, commit.run())
        self._commits += 1
        for key in planned.keys() & self._own.keys():
            del self._own[key]
        return drive(self.directory, newest())


@dataclass(frozen=True, slots=True)
class _Part:
    """What is committed of a log.

    Attributes:
        state: with the segments that are ready.
        facts, source: of the log directory's log.
        erasures: see `Operation`.
        is_last: the log is complete.
    """

    state: LogState
    facts: LogFacts
    source: Source
    erasures: int
    is_last: bool

    def erased_after(self, manifest: Manifest | None) -> Erased:
        """Return what was erased from the log that this makes of the newest version: what was
        before, without what it brings back; and, if all of it is the log directory's, what was
        erased there.
        """
        erased, first = erased_in(manifest), self.facts.first_offset
        back = brought_back(erased, absent_below(self.source.mark), first)
        below = {key: offset for key, offset in erased.below.items() if key not in back}
        kept = replace(erased, below=below)
        before = None if manifest is None else manifest.state
        is_whole = self.is_last and merged(before, self.state).segments == self.state.segments
        return kept.with_absent(erased_at_once(self.source.mark)) if is_whole else kept


def for_whole(limits: Limits) -> Limits:
    """Return the limits of a writer who commits once: its objects are too young to be removed for
    as long as their age and the life of a request permit (`logwright.bucket.commit`, 6); it has
    half of that.
    """
    longest_ms = (limits.age_ms - LONGEST_REQUEST_MS) // 2
    return replace(limits, deadline_ms=DurationMs(max(limits.deadline_ms, longest_ms)))


def state_of(
    log: ReadableLog,
    directory: OpenDir,
    segments: tuple[StoredSegment, ...],
    snapshots: tuple[StoredSnapshot, ...],
    *,
    configs: Mapping[str, str],
) -> LogState:
    """Return a log's state, with the files that are written. Effects: reads the leader epochs and
    the topic id.

    Args:
        log: as it was observed; directory: its own.
        segments, snapshots: what is in the bucket.
        configs: settings of the topic.

    Raises:
        UnreadableFile, UnsupportedFormatError: they cannot be read.
    """
    epochs = names.LEADER_EPOCH_CHECKPOINT
    return LogState(
        topic=log.partition.topic,
        number=log.partition.partition,
        topic_id=read_topic_id(directory),
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        cleaner_checkpoint=log.cleaner_checkpoint,
        leader_epochs=directory.read(epochs) if directory.exists(epochs) else None,
        configs=dict(configs),
        segments=segments,
        snapshots=snapshots,
    )


class Sender(Protocol):
    """Who sends the files of a log, and what of it they need.

    Attributes:
        directory: the partition's directory in the bucket.
        job: what the names of objects are made of.
        throttle: what is read of the log directory.
    """

    throttle: Throttle

    @property
    def directory(self) -> Bucket:
        """See above."""

    @property
    def job(self) -> Operation:
        """See above."""

    def begin(self, key: str) -> None:
        """Note an object that is sent from now on."""

    def sent(self, size: int) -> None:
        """Note an object that was sent, with its bytes."""


class Files:
    """The files of one log while they are sent; for several threads.

    Attributes:
        upload: who sends them.
        directory: the partition's, open.
        known: what the bucket has, by name.
        source: what was observed; None: nobody else has the directory.
    """

    def __init__(
        self,
        upload: Sender,
        directory: OpenDir,
        known: Mapping[str, tuple[StoredFile, int]],
        source: Source | None = None,
    ) -> None:
        self.upload = upload
        self.directory = directory
        self.known = known
        self.source = source
        self._numbers = count()

    def segment(self, segment: Segment, next_offset: int) -> StoredSegment:
        """Send a segment's files; see `file`."""
        base = segment.base_offset
        has_txnindex = segment.txnindex_bytes is not None
        return StoredSegment(
            base_offset=base,
            next_offset=next_offset,
            max_timestamp_ms=segment.largest_timestamp_ms,
            modified_ns=segment.modified_ns,
            log=self.file(segment_file_name(base, names.LOG)),
            index=self.file(segment_file_name(base, names.INDEX)),
            timeindex=self.file(segment_file_name(base, names.TIMEINDEX)),
            txnindex=self.file(segment_file_name(base, names.TXNINDEX)) if has_txnindex else None,
        )

    def snapshot(self, offset: int) -> StoredSnapshot:
        """Send a producer snapshot; see `file`."""
        name = segment_file_name(offset, names.SNAPSHOT)
        with self.directory.open(name) as opened:
            modified_ns = opened.seen[1]
        return StoredSnapshot(offset=offset, modified_ns=modified_ns, file=self.file(name))

    def snapshot_at_end(self, log: ReadableLog) -> StoredSnapshot:
        """Send the producer snapshot that a broker writes when it stops: in a log that no broker
        has open, one without any snapshot has no producers, and no open transaction.
        """
        offset, modified_ns = log.log_end_offset, log.active.modified_ns
        name = segment_file_name(offset, names.SNAPSHOT)
        made = MadeBytes(name, serialize_snapshot(log.producers), modified_ns)
        return StoredSnapshot(offset=offset, modified_ns=modified_ns, file=self._stored(name, made))

    def file(self, name: str) -> StoredFile:
        """Send a file, unless the bucket has it. Effects: reads it; writes an object and reads it.

        Raises:
            StalePlan, UnreadableFile: it cannot be read, or is not what was observed.
            UnreadableFile: the bucket does not permit it. Unsettled: it does not answer.
            StepFailed: the object is not what was sent.
        """
        with self.directory.open(name) as opened:
            if self.source is not None:
                self.source.require_seen(name, opened)
            return self._stored(name, opened)

    def _stored(self, name: str, opened: Bytes) -> StoredFile:
        stored = self.known.get(name, (None, 0))[0]
        if stored is not None and stored.bytes == opened.seen[0]:
            read = Read(opened, self.upload.throttle)
            for _ in read:
                pass
            if read.crc32c == stored.crc32c:
                return stored
        return self.send(name, opened)

    def send(self, name: str, opened: Bytes) -> StoredFile:
        """Send a file. Effects and errors: as `file`."""
        upload, suffix = self.upload, f".{name.rpartition('.')[2]}"
        key = data_key(upload.job, next(self._numbers), suffix)
        path = f"{upload.directory}/{key}"
        upload.begin(key)
        for attempt in range(_TRIES):
            read = Read(opened, upload.throttle)
            try:
                small = b"".join(read) if opened.seen[0] <= RANGE_BYTES else None
                upload.directory.put_unique(key, iter(read) if small is None else small)
                self._require_same(key, read)
            except PermissionError as error:
                raise unreadable(error, path) from error
            except OSError as error:
                if attempt + 1 == _TRIES:
                    raise Unsettled(
                        "the bucket does not answer.",
                        path=path,
                        remedy="Run it again: what was committed is not sent again.",
                    ) from error
                continue
            break
        upload.sent(read.bytes)
        return StoredFile(
            key=key,
            bytes=read.bytes,
            crc32c=read.crc32c,
            head=read.head[: _HEAD_BYTES.get(suffix, 0)],
            tail=read.tail[-_TAIL_BYTES[suffix] :] if suffix in _TAIL_BYTES else b"",
        )

    def _require_same(self, key: str, read: Read) -> None:
        """Read an object back.

        Raises:
            StepFailed: it has other bytes. OSError: it cannot be read, or is shorter.
        """
        crc = 0
        for start in range(0, read.bytes, RANGE_BYTES):
            part = self.upload.directory.read(key, start, min(start + RANGE_BYTES, read.bytes))
            crc = google_crc32c.extend(crc, bytes(part))
        if crc != read.crc32c:
            raise StepFailed(
                "the object has other bytes than those that were sent.",
                path=f"{self.upload.directory}/{key}",
                remedy="Nothing names it. Look at what is between here and the bucket.",
            )


class MadeBytes(Bytes):
    """A small file that the log directory does not have."""

    __slots__ = ("_content",)

    def __init__(self, name: str, content: bytes, modified_ns: int) -> None:
        super().__init__(name, (len(content), modified_ns, 0))
        self._content = content

    def entry(self) -> Entry:
        """See `Bytes.entry`; it does not change."""
        size, modified_ns, inode = self.seen
        return Entry("file", FileStamp("", ByteCount(size), modified_ns, inode), modified_ns)

    def read_into(self, data: NDArray[np.uint8], position: int) -> int:
        """See `Bytes.read_into`."""
        part = self._content[position : position + len(data)]
        data[: len(part)] = np.frombuffer(part, dtype=np.uint8)
        return len(part)


class Read:
    """A file while it is read from begin to end, in pieces.

    Attributes:
        bytes, crc32c: of what was read.
        head, tail: its first and last bytes.
    """

    def __init__(self, opened: Bytes, throttle: Throttle) -> None:
        self.bytes = 0
        self.crc32c = 0
        self.head = self.tail = b""
        self._opened = opened
        self._throttle = throttle

    def __iter__(self) -> Iterator[bytes]:
        """Yield its pieces.

        Raises:
            StalePlan: it became shorter. UnreadableFile: the device fails.
        """
        size = self._opened.seen[0]
        while self.bytes < size:
            piece = self._opened.span(self.bytes, min(RANGE_BYTES, size - self.bytes))
            if not piece:
                raise StalePlan("became shorter.", path=self._opened.path, remedy="Run it again.")
            self._throttle.observe(len(piece))
            self.head = self.head or piece[:MOST_EDGE_BYTES]
            self.tail = (self.tail + piece[-MOST_EDGE_BYTES:])[-MOST_EDGE_BYTES:]
            self.bytes += len(piece)
            self.crc32c = google_crc32c.extend(self.crc32c, piece)
            yield piece
