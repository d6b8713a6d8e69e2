"""``logwright inspect``: show a log directory's contents, also where other commands refuse to
work. Read-only.
"""

from __future__ import annotations

from collections.abc import Mapping

from logwright.cli.request import Request
from logwright.cli.run.inspect_text import InspectedLog, Listing, Problem, show, size_of
from logwright.cli.run.running import broker_of
from logwright.cli.wording import clock, counted
from logwright.config.topic import TopicConfig
from logwright.errors import (
    LogwrightError,
    UncleanLogDir,
    Unsettled,
    UnsupportedFormatError,
)
from logwright.format import names
from logwright.format.names import TopicPartition
from logwright.log.checkpoints import Checkpoints
from logwright.log.inventory import file_place
from logwright.log.load import observe
from logwright.log.log_dir import MarkedDirectory, list_marked
from logwright.log.tree import bytes_below
from logwright.metadata.find import find_metadata
from logwright.metadata.quorum import QuorumLeader, read_quorum_leader
from logwright.place.files import exists, is_directory, names_in, open_partition_dir
from logwright.place.model import Place, is_local, is_running, is_versioned
from logwright.recovery.observe import read_all_offsets
from logwright.recovery.root import look_at_root
from logwright.running.place import RunningPlace, as_it_runs
from logwright.steps.failed_output import failed_outputs
from logwright.tier.place import local_part, remote_count

_MS = 1_000_000
_OF_A_SEGMENT = ("segment", "index")
_LEFTOVERS = ("cleaned", "swap", "retired", "metadata snapshot")


def run(request: Request) -> None:
    """Run the command."""
    output = request.output
    partitions = request.partitions()
    clean = exists(request.place / names.CLEAN_SHUTDOWN_MARKER)
    lock = _lock(request.place)
    entire = not request.named
    leader = _quorum_leader(request) if entire else None
    if entire:
        output.result(
            None,
            logDir=str(request.place),
            partitions=len(partitions),
            cleanShutdown=None if is_running(request.place) else clean,
            lockedBy=lock,
            running=is_running(request.place),
            quorumLeader=None if leader is None else leader._asdict(),
        )
    output.text(f"{request.place}: {counted(len(partitions), 'partition')} shown")
    if is_running(request.place):
        output.text(f"  running: {lock}; each log is shown up to its high watermark")
    else:
        output.text(f"  clean shutdown: {'yes' if clean else 'no'}; lock: {lock or 'free'}")
    if leader is not None:
        node = "none is elected" if leader.leader is None else f"node {leader.leader}"
        output.text(f"  active controller: {node}, epoch {leader.epoch}")
    output.text(f"  {clock(request.now_ms)}")
    if entire:
        _show_root(request)
        _name_foreign(request)
    marked = _marked(request) if entire else []
    checkpoints = read_all_offsets(request.place)
    shown: list[InspectedLog] = []
    try:
        request.sources()
    except LogwrightError as error:
        output.message(f"Settings cannot be read: {error}")
    for partition in partitions:
        with request.failures.of(partition):
            log = _look(request, partition, checkpoints)
            output.result(None, **_log_object(log))
            shown.append(log)
    if not output.is_json:
        show(request, shown, marked)


def _show_root(request: Request) -> None:
    """Show what in the root would stop a broker. Effects: reads the root; output."""
    root = look_at_root(request.place)
    problems = {str(error.path): error.problem for error in root.problems}
    problems |= {str(request.place / name): problem for name, problem in root.malformed.items()}
    for path, problem in problems.items():
        request.output.result(
            f"  a broker would not start: {path}: {problem}", path=path, stopsABroker=problem
        )


def _name_foreign(request: Request) -> None:
    """Name what else is in a bucket. Effects: lists it; output."""
    if is_versioned(request.place):
        from logwright.cli.run.in_bucket import name_foreign  # noqa: PLC0415 -- of an extra

        name_foreign(request)


def _quorum_leader(request: Request) -> QuorumLeader | None:
    """Return the cluster's active controller as the directory's node has noted it, None if it has
    not. Effects: reads files; stderr.
    """
    try:
        metadata = find_metadata(request.place)
        return None if metadata is None else read_quorum_leader(metadata)
    except LogwrightError as error:
        request.output.message(f"The active controller is not known: {error}")
        return None


def _marked(request: Request) -> list[tuple[MarkedDirectory, int]]:
    """Return the directories of deleted, future and stray logs with their sizes in bytes. Effects:
    reads them; writes JSON to stdout.
    """
    sizes: list[tuple[MarkedDirectory, int]] = []
    for marked in list_marked(request.place):
        size = bytes_below(request.place / marked.name)
        request.output.result(
            None,
            directory=marked.name,
            mark=marked.mark,
            topicPartition=str(marked.partition),
            bytes=size,
        )
        sizes.append((marked, size))
    return sizes


def _lock(log_dir: Place) -> str | None:
    """Return who holds the lock of the log directory, None if it is free. Effects: asks for it."""
    log_dir = local_part(log_dir)
    if isinstance(log_dir, RunningPlace):
        return broker_of(log_dir)
    if not is_local(log_dir):
        return "not known of another place"
    try:
        now = as_it_runs(log_dir)
    except LogwrightError as error:
        return f"unknown: {error.problem}"
    return broker_of(now) if isinstance(now, RunningPlace) else None


def _look(request: Request, partition: TopicPartition, checkpoints: Checkpoints) -> InspectedLog:
    """Inspect one partition. Effects: reads it."""
    try:
        listing = _list(request.place, partition)
    except Unsettled:  # `_offsets` says why: as the files are now
        listing = _list(_as_it_is(request.place), partition)
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
        remote=remote_count(request.place, partition.directory_name),
    )


def _as_it_is(place: Place) -> Place:
    """Return a log directory whose files are shown as they are, whatever a broker does. Pure."""
    local = local_part(place)
    return local.session.log_dir if isinstance(local, RunningPlace) else place


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
            {"plan": failed.plan_id, "bytes": size, "dueAtMs": failed.due_at_ms}
            for failed, size in listing.failed_outputs.items()
        ],
        "others": list(listing.others),
        "problem": None if log.problem is None else str(log.problem),
        "cleanupPolicy": log.policy,
        "stray": log.stray,
        "remoteSegments": log.remote,
    }


def _standing(request: Request, partition: TopicPartition) -> tuple[TopicConfig | None, str | None]:
    """Return a partition's settings, None if they cannot be read, and why it is stray, None if it
    is not. Effects: reads the settings and the topic id.
    """
    try:
        config, _ = request.settings(partition.topic)
        return config, request.stray(partition)
    except LogwrightError:
        return None, None


def _offsets(
    request: Request, partition: TopicPartition, checkpoints: Checkpoints
) -> tuple[dict[str, int], Problem | None]:
    """Return the log's offsets, or why it needs recovery first or is not handled. Effects: reads
    the first and last segments.
    """
    try:
        log = observe(
            request.place,
            partition,
            high_watermark=request.high_watermark,
            checkpoints=checkpoints,
        )
    except (UncleanLogDir, UnsupportedFormatError, Unsettled) as error:
        return {}, error
    return {
        "logStartOffset": log.log_start_offset,
        "logEndOffset": log.log_end_offset,
        "highWatermark": log.high_watermark,
        "lastStableOffset": log.last_stable_offset,
        "activeSegmentBaseOffset": log.active.base_offset,
    }, None


def _list(log_dir: Place, partition: TopicPartition) -> Listing:
    """List the partition's directory, without following links. Effects: reads the directory."""
    segments: dict[int, dict[str, tuple[int, int]]] = {}
    snapshots: list[int] = []
    leftovers: list[str] = []
    others: list[str] = []
    with open_partition_dir(log_dir, partition) as directory:
        for what, (name, size, modified_ns, _), *_ in directory.entries():
            kind = file_place("log", name).kind
            if what != "file":
                if name != names.WORK_DIRECTORY:
                    others.append(f"{name}/" if what == "directory" else name)
            elif kind in _LEFTOVERS:
                leftovers.append(name)
            elif kind == "snapshot":
                snapshots.append(int(name.removesuffix(names.SNAPSHOT)))
            elif kind in _OF_A_SEGMENT:
                base, dot, suffix = name.partition(".")
                segments.setdefault(int(base), {})[dot + suffix] = (size, modified_ns // _MS)
            elif kind != "fact":
                others.append(name)
    work = log_dir / partition.directory_name / names.WORK_DIRECTORY
    staging = work / names.STAGING
    plans = names_in(staging) if is_directory(staging) else []
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
