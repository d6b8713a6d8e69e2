"""``logwright inspect``: what is there, also where other commands would refuse to work. Reads
only.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from logwright.cli.leaving import stray
from logwright.cli.planning import FailureLog, instant
from logwright.cli.request import Request, request_options
from logwright.errors import LogDirLocked, LogwrightError, UncleanLogDir
from logwright.format import names

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.format.names import TopicPartition
    from logwright.log.checkpoints import Checkpoints

_MS = 1_000_000
_LEFTOVERS = (names.CLEANED, names.SWAP, names.DELETED)
_EXPECTED = frozenset((names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """The plain files of a partition directory, sorted by what they are.

    Attributes:
        segments: base offset → suffix → (bytes, modification time in ms).
        leftovers: names that end in .cleaned, .swap or .deleted, or are a live name with such an
        end.
        staging: plans whose staging directories are there.
        others: every other name, directories with a slash.
    """

    segments: Mapping[int, Mapping[str, tuple[int, int]]]
    snapshots: tuple[int, ...]
    leftovers: tuple[str, ...]
    staging: tuple[str, ...]
    others: tuple[str, ...]


@click.command(name="inspect")
@request_options
def command(request: Request) -> None:
    """Show segments, sizes, offsets, checkpoints, leftovers and the lock."""
    from logwright.log.checkpoints import read_checkpoints  # noqa: PLC0415 -- numpy: not for --help

    output = request.output
    partitions = request.partitions()
    clean = (request.log_dir / names.CLEAN_SHUTDOWN_MARKER).is_file()
    lock = _lock(request.log_dir)
    entire = not request.named
    if entire:
        output.json_object(
            {
                "logDir": str(request.log_dir),
                "partitions": len(partitions),
                "cleanShutdown": clean,
                "lockedBy": lock,
            }
        )
    output.text(f"{request.log_dir}: {len(partitions)} partitions shown")
    output.text(f"  clean shutdown: {'yes' if clean else 'no'}; lock: {lock or 'free'}")
    if entire:
        _show_marked(request)
    checkpoints = read_checkpoints(request.log_dir)
    failures = FailureLog(output=output)
    try:
        request.sources()
    except LogwrightError as error:
        output.message(f"Settings are not known: {error}")
    for partition in partitions:
        try:
            _show(request, partition, checkpoints)
        except LogwrightError as error:
            failures.add(partition, error)
    click.get_current_context().exit(failures.exit_status)


def _show_marked(request: Request) -> None:
    """The directories of deleted, future and stray logs. Effects: reads them; stdout."""
    from logwright.log.marked import bytes_below, list_marked  # noqa: PLC0415 -- not for --help

    for one in list_marked(request.log_dir):
        size = bytes_below(request.log_dir / one.name)
        request.output.json_object(
            {
                "directory": one.name,
                "mark": one.mark,
                "topicPartition": str(one.partition),
                "bytes": size,
            }
        )
        request.output.text(f"  {one.mark} log: {one.name}, {size} bytes")


def _lock(log_dir: Path) -> str | None:
    """Who keeps us out of the log directory; None if nobody does. Effects: tries the lock."""
    from logwright.locks import lock_log_dir  # noqa: PLC0415

    if not (log_dir / names.BROKER_LOCK).exists():
        return None
    try:
        with lock_log_dir(log_dir):
            return None
    except LogDirLocked as error:
        return error.problem
    except LogwrightError as error:
        return f"unknown: {error.problem}"


def _show(request: Request, partition: TopicPartition, checkpoints: Checkpoints) -> None:
    """One partition. Effects: reads it; stdout."""
    listing = _list(request.log_dir, partition)
    offsets, problem = _offsets(request, partition, checkpoints)
    recorded = {
        "cleanerOffset": checkpoints.cleaner_offset.get(partition),
        "recoveryPoint": checkpoints.recovery_point.get(partition),
        "logStartOffset": checkpoints.log_start_offset.get(partition),
        "highWatermark": checkpoints.high_watermark.get(partition),
    }
    policy, stray_reason = _standing(request, partition)
    total = sum(files[names.LOG][0] for files in listing.segments.values() if names.LOG in files)
    output = request.output
    output.json_object(
        {
            "topicPartition": str(partition),
            "bytes": total,
            **offsets,
            "checkpoints": recorded,
            "segments": [_segment_object(base, files) for base, files in listing.segments.items()],
            "snapshots": list(listing.snapshots),
            "leftovers": list(listing.leftovers),
            "staging": list(listing.staging),
            "others": list(listing.others),
            "problem": problem,
            "cleanupPolicy": policy,
            "stray": stray_reason,
        }
    )
    output.text()
    output.text(f"{partition}: {len(listing.segments)} segments, {total} bytes")
    output.text(f"  cleanup.policy: {'not known' if policy is None else policy or '(empty)'}")
    if stray_reason is not None:
        output.text(f"  stray: {stray_reason}")
    for title, facts in (("offsets", offsets), ("checkpoints", recorded)):
        if facts:
            words = (f"{name} {'-' if value is None else value}" for name, value in facts.items())
            output.text(f"  {title}: {', '.join(words)}")
    for title, found in (
        ("snapshots", listing.snapshots),
        ("leftovers", listing.leftovers),
        ("staged by plans", listing.staging),
        ("others", listing.others),
    ):
        if found:
            output.text(f"  {title}: {', '.join(map(str, found))}")
    if problem is not None:
        output.text(f"  problem: {problem}")
    header = ("base offset", "log", "index", "timeindex", "txnindex", "modified")
    output.table(header, [_segment_row(base, files) for base, files in listing.segments.items()])


def _standing(request: Request, partition: TopicPartition) -> tuple[str | None, str | None]:
    """A partition's ``cleanup.policy``, ``unknown`` if nothing says it, None if its settings cannot
    be read; and why a broker would not serve it from here. Effects: reads them and its topic id.
    """
    try:
        config, _ = request.settings(partition.topic)
        return ",".join(config.cleanup_policy), stray(request, partition)
    except LogwrightError:
        return None, None


def _offsets(
    request: Request, partition: TopicPartition, checkpoints: Checkpoints
) -> tuple[dict[str, int], str | None]:
    """The log's offsets; or, where recovery is needed first, why. Effects: reads the log's ends."""
    from logwright.log.load import observe  # noqa: PLC0415

    try:
        log = observe(
            request.log_dir,
            partition,
            high_watermark=request.high_watermark,
            checkpoints=checkpoints,
        )
    except UncleanLogDir as error:
        return {}, str(error)
    return {
        "logStartOffset": log.log_start_offset,
        "logEndOffset": log.log_end_offset,
        "highWatermark": log.high_watermark,
        "lastStableOffset": log.last_stable_offset,
        "activeSegmentBaseOffset": log.active.base_offset,
    }, None


def _list(log_dir: Path, partition: TopicPartition) -> _Listing:
    """Effects: lists the partition's directory, without following links."""
    from logwright.log.files import list_directory, open_partition_dir  # noqa: PLC0415

    segments: dict[int, dict[str, tuple[int, int]]] = {}
    snapshots: list[int] = []
    leftovers: list[str] = []
    others: list[str] = []
    with open_partition_dir(log_dir, partition) as directory:
        entries = sorted(list_directory(directory), key=lambda entry: entry.name)
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            parsed = names.parse_segment_file_name(entry.name)
            if not stat.S_ISREG(found.st_mode):
                if entry.name != names.WORK_DIRECTORY:
                    others.append(f"{entry.name}/" if stat.S_ISDIR(found.st_mode) else entry.name)
            elif entry.name.endswith(_LEFTOVERS):
                leftovers.append(entry.name)
            elif parsed is None:
                if entry.name not in _EXPECTED:
                    others.append(entry.name)
            elif parsed[1] == names.SNAPSHOT:
                snapshots.append(parsed[0])
            else:
                facts = (found.st_size, found.st_mtime_ns // _MS)
                segments.setdefault(parsed[0], {})[parsed[1]] = facts
    staging = log_dir / partition.directory_name / names.WORK_DIRECTORY / "staging"
    plans = sorted(path.name for path in staging.iterdir()) if staging.is_dir() else []
    return _Listing(
        segments=dict(sorted(segments.items())),
        snapshots=tuple(sorted(snapshots)),
        leftovers=tuple(leftovers),
        staging=tuple(plans),
        others=tuple(others),
    )


def _segment_object(base: int, files: Mapping[str, tuple[int, int]]) -> dict[str, object]:
    return {
        "baseOffset": base,
        "logBytes": _size(files, names.LOG),
        "indexBytes": _size(files, names.INDEX),
        "timeindexBytes": _size(files, names.TIMEINDEX),
        "txnindexBytes": _size(files, names.TXNINDEX),
        "modifiedMs": files[names.LOG][1] if names.LOG in files else None,
    }


def _segment_row(base: int, files: Mapping[str, tuple[int, int]]) -> tuple[object, ...]:
    sizes = (_size(files, suffix) for suffix in names.SEGMENT_SUFFIXES)
    return base, *sizes, instant(files[names.LOG][1] if names.LOG in files else None)


def _size(files: Mapping[str, tuple[int, int]], suffix: str) -> int | None:
    return files[suffix][0] if suffix in files else None
