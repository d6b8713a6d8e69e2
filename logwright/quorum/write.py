"""Write a directory from which one controller starts as the only voter of its cluster.

It has ``meta.properties``, a ``quorum-state`` with an epoch above all that were seen, and one
snapshot: the records of the source's snapshot and of its log after it, without those of
transactions that did not end, with raised counters (`logwright.quorum.counters`), and with the
controller as the only voter (kraft.version 1). A node
that has a snapshot and no log after it starts, as after the download of a snapshot
(KafkaMetadataLog). The snapshot's epoch is newer than that of every record: a broker whose own log
ends there, or later, would else continue from it, with the counters and replicas in sync of before
(RaftLog.validateOffsetAndEpoch, 4.3.0). The source is only read. The directory appears as a whole,
or not at all.
"""

from __future__ import annotations

import base64
import json
import secrets
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from logwright import durable
from logwright.errors import PreconditionError, StalePlan, invariant, unreadable
from logwright.format.batch import (
    CONTROL,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    RecordBatch,
    serialize_batch,
)
from logwright.format.control import ControlType, serialize_control_key
from logwright.format.names import LOG, TopicPartition, segment_file_name
from logwright.format.record import SMALLEST_RECORD_BYTES, Record, encode_records
from logwright.metadata.files import segments
from logwright.metadata.find import METADATA_DIRECTORY
from logwright.metadata.image import Image
from logwright.metadata.model import ELIGIBLE_LEADERS, RESERVED_IDS, ConfigEntry, TopicMetadata
from logwright.metadata.quorum import QUORUM_STATE
from logwright.metadata.read import META_PROPERTIES, read_metadata
from logwright.metadata.records import ABORT_TRANSACTION, BEGIN_TRANSACTION, END_TRANSACTION
from logwright.place.files import open_log_dir
from logwright.quorum.batches import LogFile, ReadBatch
from logwright.quorum.control import (
    serialize_footer,
    serialize_header,
    serialize_kraft_version,
    serialize_voters,
)
from logwright.quorum.counters import with_raised
from logwright.quorum.kinds import NO_OP, api_key
from logwright.quorum.model import NewDirectory, State, Verdict
from logwright.quorum.replicas import Demotion, partition_change
from logwright.units import Offset

_START: Final = Offset(0)
_NO_DIRECTORY: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_BATCH_BYTES: Final = 512 * 1024
"""Of values in a batch; a reader takes up to 8 MiB (KafkaRaftClient.MAX_BATCH_SIZE_BYTES)."""


def new_directory_id() -> str:
    """Return a random id of a directory, as `Uuid.randomUuid` makes them. Effects: random."""
    while True:
        content = secrets.token_bytes(16)
        text = base64.urlsafe_b64encode(content).decode().rstrip("=")
        if not text.startswith("-") and int.from_bytes(content, "big") >= RESERVED_IDS:
            return text


def write_directory(verdict: Verdict, new: NewDirectory, demoted: Sequence[Demotion]) -> Path:
    """Write the directory; return the path of the snapshot in it. Effects: makes it, durably.

    `demoted`: partitions with replicas that lack records: they are not in sync there.

    Raises:
        PreconditionError: there is something already, or it cannot be written.
        StalePlan: the source has changed since it was read.
    """
    state = verdict.state
    name = f"{state.end_offset:020d}-{new.epoch:010d}.checkpoint"
    if new.directory.exists() or new.directory.is_symlink():
        raise PreconditionError(
            "is there already.",
            path=new.directory,
            remedy="Give a directory that does not exist. Nothing was changed.",
        )
    try:
        with durable.directory(new.directory) as staged:
            metadata = staged / METADATA_DIRECTORY
            metadata.mkdir()
            durable.new(staged / META_PROPERTIES, _properties(new))
            durable.new(metadata / QUORUM_STATE, _quorum_state(new))
            with durable.created(metadata / name) as file:
                _write_snapshot(file, verdict, new, demoted)
            _check(metadata, state.image, demoted)
    except OSError as error:
        raise unreadable(error, new.directory) from error
    return new.directory / METADATA_DIRECTORY / name


def _properties(new: NewDirectory) -> bytes:
    pairs = {
        "version": 1,
        "cluster.id": new.cluster_id,
        "node.id": new.node_id,
        "directory.id": new.directory_id,
    }
    return "".join(f"{name}={value}\n" for name, value in pairs.items()).encode()


def _quorum_state(new: NewDirectory) -> bytes:
    """Return the content of a ``quorum-state``: an epoch without leader and vote."""
    content: dict[str, object] = {"leaderId": -1, "leaderEpoch": new.epoch, "votedId": -1}
    if new.voter is not None:
        content |= {"votedDirectoryId": _NO_DIRECTORY, "data_version": 1}
    else:
        content |= {"clusterId": "", "appliedOffset": 0, "data_version": 0}
        content |= {"currentVoters": []}
    return json.dumps(content, separators=(",", ":")).encode()


def _write_snapshot(
    file: BinaryIO, verdict: Verdict, new: NewDirectory, demoted: Sequence[Demotion]
) -> None:
    """Write the whole snapshot. Effects: reads the source; writes."""
    state = verdict.state
    head = [(ControlType.SNAPSHOT_HEADER, serialize_header(state.timestamp_ms))]
    if new.voter is not None:
        head += [
            (ControlType.KRAFT_VERSION, serialize_kraft_version(state.kraft_version)),
            (ControlType.KRAFT_VOTERS, serialize_voters((new.voter,))),
        ]
    file.write(_control_batch(head, _START, state))
    offset = Offset(len(head))
    records = (one for batch in _source_batches(verdict) for one in batch.records)
    changes = _changes(demoted, state)
    for group in _grouped(chain(with_raised(_happened(records)), changes)):
        file.write(_batch(group, offset, state, 0))
        offset = Offset(offset + len(group))
    file.write(_control_batch([(ControlType.SNAPSHOT_FOOTER, serialize_footer())], offset, state))


def _changes(demoted: Sequence[Demotion], state: State) -> Iterator[Record]:
    """Yield the records that say who is in sync."""
    eligible = state.image.features.get(ELIGIBLE_LEADERS, 0) > 0
    for each in demoted:
        yield Record(
            offset=_START,
            timestamp_ms=state.timestamp_ms,
            sequence=NO_SEQUENCE,
            key=None,
            value=partition_change(each, eligible=eligible),
            headers=(),
        )


def _source_batches(verdict: Verdict) -> Iterator[ReadBatch]:
    """Yield the source's batches of records: of its snapshot, and of its log after it.

    Raises:
        StalePlan: they are not what was read before.
    """
    state = verdict.state
    directory = verdict.source.log_dir / METADATA_DIRECTORY
    if state.snapshot is not None:
        file = LogFile(directory / state.snapshot, _START)
        yield from (one for one in file.batches(_START) if not one.header.is_control)
        if file.damage is not None:
            raise _changed(file.path)
    with open_log_dir(directory) as opened:
        bases = segments(opened.names())
    end = state.snapshot_end
    for base in bases[max(0, bisect_right(bases, end) - 1) :]:
        file = LogFile(directory / segment_file_name(base, LOG), base)
        for batch in file.batches(end):
            if batch.header.base_offset >= state.end_offset:
                break
            end = batch.end_offset
            if not batch.header.is_control:
                yield batch
        if end >= state.end_offset:
            break
    if end != state.end_offset:
        raise _changed(directory)


def _changed(path: Path) -> StalePlan:
    return StalePlan(
        "has changed since it was read.",
        path=path,
        remedy="Stop what writes to it, and run the command again. Nothing was changed.",
    )


def _happened(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records that have an effect: none of a transaction that was aborted or did not end,
    no marker, and no NoOpRecord.
    """
    pending: list[Record] | None = None
    for record in records:
        key = api_key(record.value)
        if key == BEGIN_TRANSACTION:
            pending = []
        elif key == END_TRANSACTION:
            yield from pending or ()
            pending = None
        elif key == ABORT_TRANSACTION:
            pending = None
        elif key != NO_OP and pending is None:
            yield record
        elif key != NO_OP and pending is not None:
            pending.append(record)


def _grouped(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield records in lists, each for a batch."""
    group: list[Record] = []
    size = 0
    for record in records:
        if size >= _BATCH_BYTES:
            yield group
            group, size = [], 0
        group.append(record)
        size += len(record.value or b"") + SMALLEST_RECORD_BYTES
    if group:
        yield group


def _control_batch(controls: list[tuple[ControlType, bytes]], base: Offset, state: State) -> bytes:
    records = [
        Record(
            offset=base,
            timestamp_ms=state.timestamp_ms,
            sequence=NO_SEQUENCE,
            key=serialize_control_key(kind),
            value=value,
            headers=(),
        )
        for kind, value in controls
    ]
    return _batch(records, base, state, CONTROL)


def _batch(records: list[Record], base: Offset, state: State, attributes: int) -> bytes:
    """Return an uncompressed batch of these records, with offsets from its base on. A snapshot's
    batch has one time for all of its records (RecordsIterator.readRecord).
    """
    header = RecordBatch(
        base_offset=base,
        batch_length=0,
        partition_leader_epoch=state.epoch,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=state.timestamp_ms,
        max_timestamp=state.timestamp_ms,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        records_count=len(records),
    )
    placed = (
        replace(record, offset=Offset(at), timestamp_ms=state.timestamp_ms)
        for at, record in enumerate(records, base)
    )
    return serialize_batch(header, encode_records(header, placed))


def _check(metadata: Path, image: Image, demoted: Sequence[Demotion]) -> None:
    """Check that what was written has the same state, but for who is in sync. Effects: reads it."""
    written = read_metadata(metadata)
    same = (
        written.features == image.features
        and written.registered == image.registered
        and _in_sync(written.topics, ()) == _in_sync(image.topics, demoted)
        and _values(written.topic_configs) == _values(image.topic_configs)
        and _values(written.broker_configs) == _values(image.broker_configs)
    )
    invariant(same, "the snapshot that was written has another state than the source.")


def _in_sync(
    topics: Mapping[str, TopicMetadata], demoted: Sequence[Demotion]
) -> dict[TopicPartition, frozenset[int]]:
    """Return who is in sync of each partition, after these changes."""
    in_sync = {
        TopicPartition(name, number): frozenset(known.in_sync)
        for name, topic in topics.items()
        for number, known in topic.partitions.items()
    }
    return in_sync | {each.partition: frozenset(each.in_sync) for each in demoted}


def _values(configs: Mapping[str, Mapping[str, ConfigEntry]]) -> dict[str, dict[str, str]]:
    return {
        resource: {name: entry.value for name, entry in entries.items()}
        for resource, entries in configs.items()
    }
