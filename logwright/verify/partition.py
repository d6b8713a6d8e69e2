"""Compare everything that a log directory holds about one partition with its batches.

1. Names: leftovers, indexes without a log, logs without an index.
2. Each segment: every batch, record and index entry (`segments`).
3. Producer snapshots: their bytes, and that no offset in them is past their number.
4. If all that is right: the producers' batches and markers in the log, against the transaction
   indexes and snapshots (`producers`).
5. Leader epochs, the topic id, and the partition's entry in each checkpoint file.

If objects of its remote segments are damaged, these are named, and nothing else is checked.

Of a log that a broker has open, all below its high watermark.
"""

from __future__ import annotations

from itertools import pairwise

from logwright.errors import CorruptLogError, UnsupportedFormatError
from logwright.format.checkpoints import parse_leader_epochs, parse_offset_checkpoint
from logwright.format.names import (
    CLEAN_SHUTDOWN_MARKER,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    SNAPSHOT,
    TopicPartition,
    segment_file_name,
)
from logwright.format.snapshot import ProducerEntry, parse_snapshot
from logwright.log.checkpoints import CHECKPOINT_FILES
from logwright.log.listing import look_for_damage, snapshot_offsets, stamp_files
from logwright.place.files import exists, open_partition_dir
from logwright.place.mapped import map_file
from logwright.place.model import Place, is_running, reading
from logwright.recovery.observe import read_offsets
from logwright.recovery.root import topic_id_problem
from logwright.units import INT64_MAX, Offset
from logwright.verify.model import Fault
from logwright.verify.producers import check_producers
from logwright.verify.remote import remote_faults
from logwright.verify.segments import check_segment


def verify_partition(log_dir: Place, partition: TopicPartition) -> list[Fault]:
    """Return all that is wrong with a partition. Effects: reads all its files.

    Raises:
        NotALogDir, UnreadableFile: it does not exist or cannot be read.
        UnsupportedFormatError: it has an old message format, and was not checked.
    """
    with reading(log_dir):
        return _faults(log_dir, partition)


def _faults(log_dir: Place, partition: TopicPartition) -> list[Fault]:
    remote = remote_faults(log_dir, partition)
    if remote:
        return remote
    with open_partition_dir(log_dir, partition) as opened:
        stamps = stamp_files(opened)
    directory = log_dir / partition.directory_name
    damage = look_for_damage(stamps)
    faults = [Fault(path=directory, position=None, problem=one) for one in damage.findings]
    bases = sorted(int(stem) for stem in damage.stems if stem.isdigit())
    end = bases[0] if bases else 0
    stopped = is_running(log_dir) or exists(log_dir / CLEAN_SHUTDOWN_MARKER)
    for base, following in pairwise([*bases, INT64_MAX]):
        has_space = not stopped and following == INT64_MAX
        segment_faults, end = check_segment(directory, base, following, has_space=has_space)
        faults += segment_faults
    start_offset = read_offsets(log_dir / LOG_START_OFFSET_CHECKPOINT).get(partition, Offset(0))
    start = max(bases[0] if bases else 0, start_offset)
    clean = not is_running(log_dir) and exists(log_dir / CLEAN_SHUTDOWN_MARKER)
    numbers = snapshot_offsets(stamps)
    faults += _check_snapshots(directory, numbers, end)
    if not faults:
        faults += check_producers(
            directory,
            bases,
            numbers,
            log_start_offset=start_offset,
            need_snapshot=clean and end > start,
        )
    # While a broker runs, the log continues beyond what is shown.
    known_end = INT64_MAX if is_running(log_dir) else end
    faults += _check_epochs(directory / LEADER_EPOCH_CHECKPOINT, known_end)
    faults += _check_metadata(directory / PARTITION_METADATA)
    return faults + _check_checkpoints(log_dir, partition, known_end)


def _check_snapshots(directory: Place, numbers: tuple[int, ...], end: int) -> list[Fault]:
    faults: list[Fault] = []
    for number in numbers:
        path = directory / segment_file_name(number, SNAPSHOT)
        try:
            entries = parse_snapshot(map_file(path).tobytes(), path)
        except (CorruptLogError, UnsupportedFormatError) as error:
            faults.append(_fault(error, path))
            continue
        faults += [
            Fault(path=path, position=None, problem=f"producer {entry.producer_id} {problem}")
            for entry in entries
            if (problem := _producer_problem(entry, number)) is not None
        ]
        if number > end:
            problem = f"it is beyond the log's end at {end}"
            faults.append(Fault(path=path, position=None, problem=problem))
    return faults


def _producer_problem(entry: ProducerEntry, number: int) -> str | None:
    if entry.last_offset >= number:
        return f"has its last batch at {entry.last_offset}, past the snapshot"
    if entry.current_txn_first_offset is not None and entry.current_txn_first_offset >= number:
        return f"has a transaction open from {entry.current_txn_first_offset}, past the snapshot"
    return None


def _check_epochs(path: Place, end: int) -> list[Fault]:
    if not exists(path):
        return []
    try:
        epochs = parse_leader_epochs(map_file(path).tobytes(), path)
    except (CorruptLogError, UnsupportedFormatError) as error:
        return [_fault(error, path)]
    return [
        Fault(path=path, position=None, problem=f"epoch {epoch.epoch} begins past the log's end")
        for epoch in epochs
        if epoch.start_offset > end
    ]


def _check_metadata(path: Place) -> list[Fault]:
    problem = topic_id_problem(map_file(path).tobytes()) if exists(path) else None
    return [] if problem is None else [Fault(path=path, position=None, problem=problem)]


def _check_checkpoints(log_dir: Place, partition: TopicPartition, end: int) -> list[Fault]:
    """Find the checkpoint files whose entry is past the log's end."""
    faults: list[Fault] = []
    entries: dict[str, int] = {}
    for name in CHECKPOINT_FILES:
        path = log_dir / name
        if not exists(path):
            continue
        try:
            checkpoint = parse_offset_checkpoint(map_file(path).tobytes(), path)
        except (CorruptLogError, UnsupportedFormatError) as error:
            faults.append(_fault(error, path))
            continue
        if partition in checkpoint:
            entries[name] = checkpoint[partition]
    for name in (
        RECOVERY_POINT_CHECKPOINT,
        LOG_START_OFFSET_CHECKPOINT,
        HIGH_WATERMARK_CHECKPOINT,
        CLEANER_OFFSET_CHECKPOINT,
    ):
        if entries.get(name, end) > end:
            problem = f"{partition} is at {entries[name]}, past the log's end at {end}"
            faults.append(Fault(path=log_dir / name, position=None, problem=problem))
    return faults


def _fault(error: CorruptLogError | UnsupportedFormatError, path: Place) -> Fault:
    return Fault(path=path, position=error.position, problem=error.problem.removesuffix("."))
