"""What a tier and the log directories next to it have of each log, looked at once.

1. The pictures of running logs are taken first, then the events are read, then the bucket is
   listed: what a broker deletes from its disk was copied before.
2. A local log's topic id says which remote segments are its own. Of a log that is in no local
   directory the remote segments alone are shown, and that is noted.
3. Segments are readable as the events say; where no event is about a log, those are that are
   completely there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import NamedTuple
from uuid import uuid4

from logwright.errors import PreconditionError
from logwright.format import names
from logwright.format.checkpoints import LeaderEpoch, find_offset, parse_leader_epochs
from logwright.format.names import TopicPartition, parse_segment_file_name
from logwright.log.checkpoints import checkpoint_contents
from logwright.log.log_dir import list_log_dir
from logwright.log.topic_id import read_topic_id
from logwright.place.files import open_log_dir
from logwright.place.model import OpenDir, Place, is_running
from logwright.running.place import RunningPlace, look_at
from logwright.tier.encryption import load_key
from logwright.tier.layout import Found, by_log, find_segments
from logwright.tier.lineage import Candidate, Link, candidate, chain, is_within, require_no_gap
from logwright.tier.metadata import TOPIC, LogId, RemoteLogMetadata, read_remote_log_metadata
from logwright.tier.model import RemoteSegment, damaged
from logwright.tier.objects import Objects, objects_of
from logwright.tier.parts import RemotePart, parts_of_log


class TierOptions(NamedTuple):
    """Which tier it is.

    Attributes:
        text: a directory, from the root on, or a URL.
        key: the file of the private key, None: not encrypted.
    """

    text: str
    key: Path | None = None

    @classmethod
    def of(cls, text: str, key: Path | None = None) -> TierOptions:
        """Return the options as a user gives them: a task may have another working directory."""
        known = text if "://" in text else str(Path(text).absolute())
        return cls(known, None if key is None else key.absolute())


class Local(NamedTuple):
    """What of a log is in a log directory.

    Attributes:
        topic_id: None: it has none.
        start: the base offset of its first segment, None: it has no segment.
        epochs: its leader epochs.
    """

    topic_id: str | None
    start: int | None
    epochs: tuple[LeaderEpoch, ...]


@dataclass(eq=False, slots=True)
class Tier:
    """A tier, and the log directories of one broker, or none. For several threads.

    Attributes:
        options: which tier.
        log_dirs: whose logs are parts of logs in the tier.
        id: of this look; tasks that one process gets of it share a look of their own.
    """

    options: TierOptions
    log_dirs: tuple[Place, ...] = ()
    id: str = field(default_factory=lambda: uuid4().hex)
    _turn: RLock = field(default_factory=RLock)
    _found: Found | None = None
    _bucket: Objects | None = None
    _metadata: RemoteLogMetadata | None = None
    _logs: dict[LogId, list[RemoteSegment]] = field(default_factory=dict)
    _held: dict[str, Place] = field(default_factory=dict)
    _parts: dict[str, dict[str, RemotePart]] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Callable[..., Tier], tuple[object, ...]]:
        """Another process looks for itself, once."""
        return _sent, (self.options, self.log_dirs, self.id)

    @property
    def bucket(self) -> Objects:
        """Where its objects are.

        Raises:
            PolicyError: the text names no bucket.
        """
        if self._bucket is None:
            self._bucket = objects_of(self.options.text)
        return self._bucket

    def found(self) -> Found:
        """Return the segments of the bucket. Effects: looks at the logs, reads the events, lists
        the bucket; once.

        Raises:
            LogwrightError: something of this cannot be read.
        """
        with self._turn:
            if self._found is None:
                self._look_at_logs()
                self._metadata = read_remote_log_metadata(map(_uncommitted, self.log_dirs))
                key = None if self.options.key is None else load_key(self.options.key)
                self._found = find_segments(self.bucket, key)
                self._logs = by_log(self._found.segments)
            return self._found

    def metadata(self) -> RemoteLogMetadata:
        """Return what the events say. Effects and errors: as `found`."""
        self.found()
        assert self._metadata is not None  # noqa: S101 -- `found` sets it
        return self._metadata

    def logs(self) -> Mapping[LogId, list[RemoteSegment]]:
        """Return the segments of each log in the bucket. Effects and errors: as `found`."""
        self.found()
        return self._logs

    def holder(self, directory: str) -> Place | None:
        """Return the log directory that has a log, None if none has. Effects and errors: as
        `found`.
        """
        self.found()
        return self._held.get(directory)

    def only_remote(self) -> dict[str, TopicPartition]:
        """Return the logs that are in no log directory, by the name of their directory. Effects and
        errors: as `found`.
        """
        logs = self.logs().keys() | {
            log for log, known in self.metadata().segments.items() if known
        }
        return {
            partition.directory_name: partition
            for partition, _ in sorted(logs)
            if self.holder(partition.directory_name) is None
        }

    def parts(self, directory: str) -> Mapping[str, RemotePart]:
        """Return the files of a log that are shown of its remote segments, by name. Effects: reads
        manifests, once.

        Raises:
            CorruptObject: an object is missing, or not what was written.
            PreconditionError: offsets between two segments are missing.
            LogwrightError: as `found`.
        """
        with self._turn:
            if directory not in self._parts:
                links, gaps = self._links(directory)
                holder = self.holder(directory)
                require_no_gap(gaps, f"{holder or self.bucket.name}/{directory}")
                self._parts[directory] = parts_of_log(links, alone=holder is None)
            return self._parts[directory]

    def known_parts(self, directory: str) -> Mapping[str, RemotePart]:
        """Return `parts` as far as they were looked at. Pure."""
        return self._parts.get(directory, {})

    def looked_at_alone(self) -> list[str]:
        """Return the logs that are in no log directory and that were looked at. Pure."""
        return sorted(self._parts.keys() - self._held.keys())

    def segments_of(self, directory: str) -> list[RemoteSegment]:
        """Return the segments of a log that should be readable, and that have an object. Effects:
        as `found`.

        Raises:
            LogwrightError: as `found`.
        """
        holder = self.holder(directory)
        local = None if holder is None else local_of(holder, directory)
        log = self._log_of(directory, None if local is None else local.topic_id)
        if log is None:
            return []
        known = self.metadata().of(log)
        return [
            segment
            for segment in self.logs().get(log, ())
            if (
                segment.is_finished
                if known is None
                else segment.id.segment_id in known and known[segment.id.segment_id].is_readable
            )
        ]

    def topic_id(self, directory: str) -> str | None:
        """Return the topic id of a log that is in no log directory. Effects and errors: as
        `_log_of`.
        """
        log = self._log_of(directory, None)
        return None if log is None else log[1]

    def _look_at_logs(self) -> None:
        """Note which log directory has which log. Effects: lists them; looks at running logs."""
        for log_dir in self.log_dirs:
            with open_log_dir(log_dir) as opened:
                partitions = list_log_dir(opened).partitions
            look_at(log_dir, [name for name, log in partitions.items() if log.topic != TOPIC])
            for name in partitions:
                self._held.setdefault(name, log_dir)

    def _links(self, directory: str) -> tuple[list[Link], list[tuple[int, int]]]:
        """Return the segments of a log that are shown, and the offsets that are missing."""
        holder = self.holder(directory)
        local = None if holder is None else local_of(holder, directory)
        log = self._log_of(directory, None if local is None else local.topic_id)
        epochs = () if local is None else local.epochs
        readable = [] if log is None else self._readable(log)
        fitting = [segment for segment in readable if is_within(segment, epochs)]
        if holder is None or local is None:
            return chain(fitting, local_start=None, log_start=None)
        # A broker that runs records it each minute: it is too low after a retention.
        start = None if is_running(holder) else _log_start(holder, directory)
        return chain(fitting, local_start=local.start, log_start=start)

    def _log_of(self, directory: str, topic_id: str | None) -> LogId | None:
        """Return the log of a directory's name in the tier, None if the tier has none.

        Raises:
            PreconditionError: it has several.
        """
        partition = TopicPartition.parse(directory)
        if partition is None:
            return None
        known = {log for log, segments in self.metadata().segments.items() if segments}
        logs = sorted(log for log in self.logs().keys() | known if log[0] == partition)
        if topic_id is not None:
            logs = [log for log in logs if log[1] == topic_id]
        if len(logs) > 1:
            ids = ", ".join(topic_id for _, topic_id in logs)
            raise PreconditionError(
                f"the tier has segments of several topics of this name: {ids}.",
                path=f"{self.bucket.name}: {directory}",
                remedy="Give the log directory that has the log: its topic id says which it is.",
            )
        return logs[0] if logs else None

    def _readable(self, log: LogId) -> list[Candidate]:
        """Return the readable segments of a log. Effects: may read manifests.

        Raises:
            CorruptObject: one that should be there is not.
        """
        there = {segment.id.segment_id: segment for segment in self.logs().get(log, ())}
        known = self.metadata().of(log)
        if known is None:
            return [
                candidate(segment, segment.span())
                for segment in there.values()
                if segment.is_finished
            ]
        fitting = []
        for segment_id, segment in known.items():
            if not segment.is_readable:
                continue
            if segment_id not in there:
                key = f"{log[0].topic}-{log[1]}: {segment.id.base_offset:020d}-{segment_id}"
                raise damaged("all objects of the segment are missing", key)
            fitting.append(candidate(there[segment_id], segment.span))
        return fitting


@lru_cache(maxsize=4)
def _sent(options: TierOptions, log_dirs: tuple[Place, ...], look: str) -> Tier:
    return Tier(options, log_dirs, look)


def local_of(log_dir: Place, directory: str) -> Local:
    """Return what of a log is in a log directory. Effects: lists its directory; reads two files.

    Raises:
        LogwrightError: something of it cannot be read.
    """
    with open_log_dir(log_dir) as root, root.open_dir(directory) as opened:
        parsed = map(parse_segment_file_name, opened.names())
        bases = [each[0] for each in parsed if each is not None and each[1] == names.LOG]
        return Local(read_topic_id(opened), min(bases, default=None), _epochs(opened))


def _epochs(directory: OpenDir) -> tuple[LeaderEpoch, ...]:
    name = names.LEADER_EPOCH_CHECKPOINT
    if not directory.exists(name):
        return ()
    return parse_leader_epochs(directory.read(name), directory.path / name)


def _log_start(log_dir: Place, directory: str) -> int | None:
    """Return the log start offset on record, None if there is none. Effects: reads it."""
    partition = TopicPartition.parse(directory)
    if partition is None:
        return None
    content = checkpoint_contents(log_dir).get(names.LOG_START_OFFSET_CHECKPOINT, b"")
    return find_offset(content, partition)


def _uncommitted(log_dir: Place) -> Place:
    """Return a log directory with all whole batches: which events are committed is known seconds
    later, and a segment is deleted from the disk as soon as its event was read by the broker.
    """
    if isinstance(log_dir, RunningPlace):
        return log_dir.session.another(whole=True).place
    return log_dir
