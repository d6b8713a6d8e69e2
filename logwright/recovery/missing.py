"""What is missing from a log: the traces of it that other files keep (`logwright.log.absence`).

A recovery knows the log from its own loading. A search reads files, whatever they are part of, and
looks at the logs besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from logwright.errors import CorruptCheckpoint, LogwrightError, UnsupportedFormatError
from logwright.format.checkpoints import parse_leader_epochs, parse_offset_checkpoint
from logwright.format.names import (
    CLEAN_SHUTDOWN_MARKER,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    TopicPartition,
    parse_segment_file_name,
    segment_file_name,
)
from logwright.format.valid import valid_batches
from logwright.log.absence import Absence, Traces, absences
from logwright.log.checkpoints import NO_ENTRIES, Checkpoints
from logwright.log.kinds import file_kinds
from logwright.log.listing import snapshot_offsets, stamp_files
from logwright.log.missing import reached_by, snapshots_beyond
from logwright.log.recovered import is_recovered
from logwright.place.files import is_regular, open_log_dir
from logwright.place.mapped import map_file
from logwright.recovery.load import Loading
from logwright.recovery.model import Leftovers
from logwright.recovery.observe import read_all_offsets

_STEM = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """A log whose traces are looked at.

    Attributes:
        directory: of the partition.
        files: final name to name on disk.
        replaced: names of files that are retired or about to replace others.
        epochs: where the leader epochs begin, ascending.
        next_offset: of the segment with a base offset; reads its headers.
    """

    directory: Path
    partition: TopicPartition
    checkpoints: Checkpoints
    clean: bool
    files: Mapping[str, str]
    replaced: Iterable[str]
    epochs: tuple[int, ...]
    next_offset: Callable[[int], int]


def missing_of(loading: Loading, leftovers: Leftovers) -> tuple[Absence, ...]:
    """Return the offsets that a log had, and has not when it is loaded. Effects: reads indexes
    without a log, snapshots beyond the end, and the headers of segments before such indexes.
    """
    observed = loading.observed
    segments = {segment.base_offset: segment for segment in loading.segments}
    log = _Log(
        directory=observed.directory,
        partition=observed.partition,
        checkpoints=observed.checkpoints,
        clean=observed.clean_shutdown,
        files=leftovers.files,
        replaced=leftovers.deleted,
        epochs=tuple(epoch.start_offset for epoch in observed.epochs or ()),
        next_offset=lambda base: segments[base].next_offset(),
    )
    return _missing(log, sorted(segments), loading.log_start_offset, loading.end_offset)


def missing_logs(
    log_dir: Path, logs: Iterable[TopicPartition]
) -> Iterator[tuple[TopicPartition, Absence]]:
    """Yield what is missing from the logs of a stopped broker's directory. A malformed checkpoint
    proves nothing. Of a log whose newest segment or directory cannot be read nothing is yielded:
    who searches reads these, too, and says so. Effects: reads checkpoints, names, leader epochs,
    indexes without a log, and the headers of the newest segments.

    Raises:
        NotALogDir, UnreadableFile: the directory cannot be opened.
    """
    checkpoints = NO_ENTRIES
    with suppress(LogwrightError):  # it is not a file
        checkpoints = read_all_offsets(log_dir)
    with open_log_dir(log_dir) as parent:
        clean = parent.exists(CLEAN_SHUTDOWN_MARKER)
        for partition in logs:
            with suppress(LogwrightError), parent.open_dir(partition.directory_name) as directory:
                stamps = stamp_files(directory)
                path = log_dir / partition.directory_name
                log = _Log(
                    directory=path,
                    partition=partition,
                    checkpoints=checkpoints,
                    clean=clean or is_recovered(directory, stamps),
                    files={name: name for name in stamps},
                    replaced=stamps,
                    epochs=_epochs(path) if LEADER_EPOCH_CHECKPOINT in stamps else (),
                    next_offset=lambda base, path=path: _next_offset(path, base),  # type: ignore[misc]
                )
                bases = [int(stem) for stem in file_kinds(stamps).stems]
                start = max(checkpoints.log_start_offset.get(partition, 0), *bases[:1], 0)
                end = max(start, log.next_offset(bases[-1])) if bases else start
                yield from ((partition, one) for one in _missing(log, bases, start, end))


def _missing(log: _Log, bases: Sequence[int], start: int, end: int) -> tuple[Absence, ...]:
    replaced = {
        name[:_STEM]
        for name in log.replaced
        if name[_STEM:].startswith(f"{LOG}.") and parse_segment_file_name(name[: _STEM + len(LOG)])
    }
    orphans = {
        name: reached
        for name in file_kinds(log.files).orphans
        if name[:_STEM] not in replaced
        and (reached := reached_by(name, log.directory / log.files[name])) is not None
    }
    in_question = {int(name[:_STEM]) for name in orphans}
    before = {max((one for one in bases if one < base), default=-1) for base in in_question}
    points, partition = log.checkpoints, log.partition
    return absences(
        Traces(
            segments={base: log.next_offset(base) if base in before else base for base in bases},
            log_start_offset=start,
            log_end_offset=end,
            is_tiered=points.log_start_offset.get(partition, start) < start,
            orphans=orphans,
            snapshots=snapshots_beyond(log.directory, snapshot_offsets(log.files), end),
            epochs=log.epochs,
            recovery_point=points.recovery_point.get(partition),
            high_watermark=points.high_watermark.get(partition),
            clean=log.clean,
            is_young=_is_young(log),
            deleted_to=max(map(int, replaced), default=-1),
        )
    )


def _is_young(log: _Log) -> bool:
    """Return whether the checkpoint of the high watermarks can be read, and has no entry of the
    log. Effects: reads it, if there is none.
    """
    if log.partition in log.checkpoints.high_watermark:
        return False
    path = log.directory.parent / HIGH_WATERMARK_CHECKPOINT
    if not is_regular(path):
        return False
    try:
        parse_offset_checkpoint(map_file(path).tobytes(), path)
    except (CorruptCheckpoint, UnsupportedFormatError):
        return False
    return True


def _next_offset(directory: Path, base: int) -> int:
    """Return the offset after a segment's last batch. Effects: reads its headers."""
    data = map_file(directory / segment_file_name(base, LOG))
    batches = valid_batches(data, base_offset=base, check_crcs=False).batches
    return int(batches[-1]["last_offset"]) + 1 if len(batches) else base


def _epochs(directory: Path) -> tuple[int, ...]:
    path = directory / LEADER_EPOCH_CHECKPOINT
    try:
        epochs = parse_leader_epochs(map_file(path).tobytes(), path)
    except LogwrightError:
        return ()
    return tuple(epoch.start_offset for epoch in epochs)
