"""``logwright inspect``: show a log directory's contents, also where other commands refuse to
work. Read-only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from logwright.cli.failures import FailureLog
from logwright.cli.request import Request
from logwright.cli.run.inspect_text import InspectedLog, Listing, show, size_of
from logwright.cli.run.wording import clock, counted
from logwright.cli.selection import stray
from logwright.config.topic import TopicConfig
from logwright.errors import LogDirLocked, LogwrightError, UncleanLogDir, UnsupportedFormatError
from logwright.format import names
from logwright.format.names import TopicPartition
from logwright.locks import lock_log_dir
from logwright.log.checkpoints import Checkpoints
from logwright.log.load import observe
from logwright.log.log_dir import MarkedDirectory, bytes_below, list_marked
from logwright.place.files import open_partition_dir
from logwright.recovery.observe import read_all_offsets
from logwright.recovery.root import look_at_root
from logwright.steps.failed_output import failed_outputs

_MS = 1_000_000


_LEFTOVERS = (names.CLEANED, names.SWAP, names.DELETED)


_EXPECTED = frozenset((names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA))


def run(request: Request) -> None:
    """Run the command."""
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
    output.text(f"{request.log_dir}: {counted(len(partitions), 'partition')} shown")
    output.text(f"  clean shutdown: {'yes' if clean else 'no'}; lock: {lock or 'free'}")
    output.text(f"  {clock(request.now_ms)}")
    if entire:
        _say_root(request)
    marked = _marked(request) if entire else []
    checkpoints = read_all_offsets(request.log_dir)
    failures = FailureLog(output=output)
    shown: list[InspectedLog] = []
    try:
        request.sources()
    except LogwrightError as error:
        output.message(f"Settings cannot be read: {error}")
    for partition in partitions:
        try:
            log = _look(request, partition, checkpoints)
        except LogwrightError as error:
            failures.add(partition, error)
        else:
            output.json_object(_log_object(log))
            shown.append(log)
    if not output.is_json:
        show(request, shown, marked)
    click.get_current_context().exit(failures.exit_status)


def _say_root(request: Request) -> None:
    """Show what in the root would stop a broker. Effects: reads the root; output."""
    root = look_at_root(request.log_dir)
    found = {str(one.path): one.problem for one in root.problems}
    found |= {str(request.log_dir / name): problem for name, problem in root.malformed.items()}
    for path, problem in found.items():
        request.output.text(f"  a broker would not start: {path}: {problem}")
        request.output.json_object({"path": path, "stopsABroker": problem})


def _marked(request: Request) -> list[tuple[MarkedDirectory, int]]:
    """Return the directories of deleted, future and stray logs with their sizes in bytes. Effects:
    reads them; writes JSON to stdout.
    """
    found: list[tuple[MarkedDirectory, int]] = []
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
        found.append((one, size))
    return found


def _lock(log_dir: Path) -> str | None:
    """Return who holds the lock of the log directory, None if it is free. Effects: tries the
    lock.
    """
    if not (log_dir / names.BROKER_LOCK).exists():
        return None
    try:
        with lock_log_dir(log_dir):
            return None
    except LogDirLocked as error:
        return error.problem
    except LogwrightError as error:
        return f"unknown: {error.problem}"


def _look(request: Request, partition: TopicPartition, checkpoints: Checkpoints) -> InspectedLog:
    """Inspect one partition. Effects: reads it."""
    listing = _list(request.log_dir, partition)
    offsets, problem = _offsets(request, partition, checkpoints)
    recorded = {
        "cleanerOffset": checkpoints.cleaner_offset.get(partition),
        "recoveryPoint": checkpoints.recovery_point.get(partition),
        "logStartOffset": checkpoints.log_start_offset.get(partition),
        "highWatermark": checkpoints.high_watermark.get(partition),
    }
    config, stray_reason = _standing(request, partition)
    return InspectedLog(
        partition=partition,
        listing=listing,
        offsets=offsets,
        recorded=recorded,
        problem=problem,
        config=config,
        stray=stray_reason,
    )


def _log_object(log: InspectedLog) -> dict[str, object]:
    listing = log.listing
    return {
        "topicPartition": str(log.partition),
        "bytes": log.bytes,
        **log.offsets,
        "checkpoints": log.recorded,
        "segments": [_segment_object(base, files) for base, files in listing.segments.items()],
        "snapshots": list(listing.snapshots),
        "leftovers": list(listing.leftovers),
        "staging": list(listing.staging),
        "failedOutputs": [
            {"plan": one.plan_id, "bytes": size, "dueAtMs": one.due_at_ms}
            for one, size in listing.failed_outputs.items()
        ],
        "others": list(listing.others),
        "problem": None if log.problem is None else str(log.problem),
        "cleanupPolicy": log.policy,
        "stray": log.stray,
    }


def _standing(request: Request, partition: TopicPartition) -> tuple[TopicConfig | None, str | None]:
    """Return a partition's settings, None if they cannot be read, and why it is stray, None if it
    is not. Effects: reads the settings and the topic id.
    """
    try:
        config, _ = request.settings(partition.topic)
        return config, stray(request, partition)
    except LogwrightError:
        return None, None


def _offsets(
    request: Request, partition: TopicPartition, checkpoints: Checkpoints
) -> tuple[dict[str, int], UncleanLogDir | UnsupportedFormatError | None]:
    """Return the log's offsets, or why it needs recovery first or is not handled. Effects: reads
    the first and last segments.
    """
    try:
        log = observe(
            request.log_dir,
            partition,
            high_watermark=request.high_watermark,
            checkpoints=checkpoints,
        )
    except (UncleanLogDir, UnsupportedFormatError) as error:
        return {}, error
    return {
        "logStartOffset": log.log_start_offset,
        "logEndOffset": log.log_end_offset,
        "highWatermark": log.high_watermark,
        "lastStableOffset": log.last_stable_offset,
        "activeSegmentBaseOffset": log.active.base_offset,
    }, None


def _list(log_dir: Path, partition: TopicPartition) -> Listing:
    """List the partition's directory, without following links. Effects: reads the directory."""
    segments: dict[int, dict[str, tuple[int, int]]] = {}
    snapshots: list[int] = []
    leftovers: list[str] = []
    others: list[str] = []
    with open_partition_dir(log_dir, partition) as directory:
        for kind, (name, size, modified_ns, _) in directory.entries():
            parsed = names.parse_segment_file_name(name)
            if kind != "file":
                if name != names.WORK_DIRECTORY:
                    others.append(f"{name}/" if kind == "directory" else name)
            elif name.endswith(_LEFTOVERS):
                leftovers.append(name)
            elif parsed is None:
                if name not in _EXPECTED:
                    others.append(name)
            elif parsed[1] == names.SNAPSHOT:
                snapshots.append(parsed[0])
            else:
                facts = (size, modified_ns // _MS)
                segments.setdefault(parsed[0], {})[parsed[1]] = facts
    work = log_dir / partition.directory_name / names.WORK_DIRECTORY
    staging = work / "staging"
    plans = sorted(path.name for path in staging.iterdir()) if staging.is_dir() else []
    return Listing(
        segments=dict(sorted(segments.items())),
        snapshots=tuple(sorted(snapshots)),
        leftovers=tuple(leftovers),
        staging=tuple(plans),
        failed_outputs=failed_outputs(work),
        others=tuple(others),
    )


def _segment_object(base: int, files: Mapping[str, tuple[int, int]]) -> dict[str, object]:
    return {
        "baseOffset": base,
        "logBytes": size_of(files, names.LOG),
        "indexBytes": size_of(files, names.INDEX),
        "timeindexBytes": size_of(files, names.TIMEINDEX),
        "txnindexBytes": size_of(files, names.TXNINDEX),
        "modifiedMs": files[names.LOG][1] if names.LOG in files else None,
    }
