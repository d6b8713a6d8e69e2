"""Decide what a recovery does to one partition.

`load` simulates Kafka's loading; here its outcome is compared with the files on disk. The
difference is the plan, and `steps` makes file steps of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from logwright.errors import CorruptLogError, LossNotAccepted
from logwright.format.checkpoints import LeaderEpoch
from logwright.format.deletions import parse_ledger
from logwright.format.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from logwright.format.names import (
    INDEX,
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    TIMEINDEX,
    TXNINDEX,
    segment_file_name,
    segment_files,
)
from logwright.format.valid import valid_batches
from logwright.log.absence import BRING_BACK, Absence
from logwright.log.kinds import file_kinds
from logwright.place.mapped import map_file
from logwright.recovery.epochs import trim
from logwright.recovery.leftovers import find_leftovers
from logwright.recovery.load import Loading
from logwright.recovery.missing import missing_of
from logwright.recovery.model import (
    Action,
    Finding,
    Leftovers,
    Observed,
    RecoveryOptions,
    RecoveryPlan,
    SegmentRepair,
    SegmentSplit,
    SplitPart,
)
from logwright.recovery.segments import LoadedSegment
from logwright.units import ByteCount, Offset, TimestampMs


def plan_recovery(
    observed: Observed,
    *,
    ledger: bytes,
    now_ms: TimestampMs,
    expiration_ms: int,
    index_interval_bytes: int,
    options: RecoveryOptions,
    topic_id: str | None = None,
) -> RecoveryPlan:
    """Plan the recovery of one partition. Effects: reads what has to be recovered, changes nothing.

    Args:
        observed: the partition.
        ledger: content of its ledger of retired files, empty if there is none.
        now_ms: the command's clock.
        expiration_ms: ``producer.id.expiration.ms``.
        index_interval_bytes: ``index.interval.bytes``.
        options: of the command.
        topic_id: that the cluster's metadata has of the topic, for a log whose own record of it is
            malformed; None if it is not known.

    Raises:
        LossNotAccepted: segments with data would be dropped.
        CorruptLogError: ``partition.metadata`` is malformed, and the id is not known.
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: see `Loading.run`.
    """
    leftovers = find_leftovers(
        observed.stamps, _next_offsets(observed), like_kafka=options.like_kafka
    )
    loading = Loading(
        observed=observed,
        files=leftovers.files,
        like_kafka=options.like_kafka,
        now_ms=now_ms,
        expiration_ms=expiration_ms,
        index_interval_bytes=index_interval_bytes,
    )
    loading.run()
    plan = _plan(loading, leftovers, ledger, options)
    _refuse_loss(plan)
    return _with_topic_id(plan, topic_id)


def _with_topic_id(plan: RecoveryPlan, topic_id: str | None) -> RecoveryPlan:
    """Add the topic id to the plan if the log's own record of it is malformed."""
    problem = plan.observed.topic_id_problem
    if problem is None:
        return plan
    if topic_id is None:
        raise CorruptLogError(
            f"a broker does not start: {problem}",
            path=plan.observed.directory / PARTITION_METADATA,
            remedy="The log was not changed. Give the cluster's metadata (--metadata DIR), copy the"
            " file from another partition of the topic, or remove it: a broker then renames the log"
            " to -stray.",
        )
    finding = Finding(
        action="topic id written",
        files=(PARTITION_METADATA,),
        reason=f"{problem.removesuffix('.')}; the cluster's metadata has {topic_id}",
    )
    return replace(plan, topic_id=topic_id, findings=(*plan.findings, finding))


def _plan(
    loading: Loading, leftovers: Leftovers, ledger: bytes, options: RecoveryOptions
) -> RecoveryPlan:
    """Compare the outcome of a loading with the files on disk."""
    observed = loading.observed
    foreign = _foreign(leftovers, ledger, options)
    end, start = Offset(loading.end_offset), Offset(loading.log_start_offset)
    missing = missing_of(loading, leftovers)
    epochs = _changed_epochs(
        observed, loading, begins_late=any(one.end_offset <= start for one in missing)
    )
    splits = _splits(loading, leftovers.files)
    files = _files_when_split(leftovers.files, splits)
    trimmed = _trimmed(loading, leftovers.files)
    return RecoveryPlan(
        observed=observed,
        now_ms=loading.now_ms,
        options=options,
        index_interval_bytes=loading.index_interval_bytes,
        findings=(
            *_leftover_findings(observed, leftovers, foreign, options),
            *loading.findings,
            *(
                _trim_finding(observed, leftovers.files, name, size)
                for name, size in trimmed.items()
            ),
            *_state_findings(loading, epochs_change=epochs is not None),
            *map(_missing_finding, missing),
        ),
        leftovers=leftovers,
        files=files,
        splits=splits,
        repairs=_repairs(loading),
        trimmed=trimmed,
        dropped=tuple(Offset(segment.base_offset) for segment in loading.dropped),
        dropped_files=_dropped_files(loading, files),
        created=None if loading.created is None else Offset(loading.created),
        orphans=loading.orphans,
        snapshots=loading.snapshots.written(),
        removed_snapshots=_removed_snapshots(loading),
        epochs=epochs,
        topic_id=None,
        log_start_offset=start,
        log_end_offset=end,
        high_watermark=_high_watermark(observed, start, end),
        first_base_offset=Offset(loading.segments[0].base_offset if loading.segments else end),
        kept_deleted=foreign,
        ledger=ledger,
        missing=missing,
    )


def _missing_finding(absence: Absence) -> Finding:
    return Finding(
        action="missing",
        files=tuple(proof.name for proof in absence.proofs),
        reason=absence.reason,
        first_offset=absence.first_offset,
        end_offset=absence.end_offset,
    )


def _refuse_loss(plan: RecoveryPlan) -> None:
    if plan.options.like_kafka or plan.options.accept_loss:
        return
    _refuse_cut(plan)
    if plan.gone:
        offsets = sum(absence.offsets for absence in plan.gone)
        raise LossNotAccepted(
            f"{offsets} offsets are missing: {plan.gone[0].reason}.",
            path=plan.observed.directory,
            remedy=f"Nothing was changed. {BRING_BACK} --accept-loss takes the log for what is"
            " there; the proof is kept in .logwright/cut/.",
        )


def _refuse_cut(plan: RecoveryPlan) -> None:
    lost = plan.loses
    if not lost:
        return
    files = ", ".join(name for finding in lost[:3] for name in finding.files)
    more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""  # noqa: PLR2004 - as sliced above
    raise LossNotAccepted(
        f"{sum(finding.bytes for finding in lost)} bytes would be cut out or dropped with whole"
        f" segments ({files}{more}): {lost[0].reason}.",
        path=plan.observed.directory,
        position=lost[0].position,
        remedy="Nothing was changed. --accept-loss allows it; removed data is kept in"
        " .logwright/cut/.",
    )


def _next_offsets(observed: Observed) -> dict[str, int]:
    """Return where each committed ``.log.swap`` ends. Effects: reads their headers."""
    next_offsets: dict[str, int] = {}
    for name in file_kinds(observed.stamps).committed_swaps:
        if name.endswith(LOG + SWAP):
            base = int(name[:20])
            data = map_file(observed.directory / name, expected_bytes=observed.stamps[name].bytes)
            rows = valid_batches(data, base_offset=base, check_crcs=False).batches
            next_offsets[name] = int(rows[-1]["last_offset"]) + 1 if len(rows) else base
    return next_offsets


def _foreign(leftovers: Leftovers, ledger: bytes, options: RecoveryOptions) -> tuple[str, ...]:
    """Return the retired files that no ledger records. A broker would remove them, and so does
    ``--like-kafka``.
    """
    if options.like_kafka:
        return ()
    ours = parse_ledger(ledger)
    return tuple(name for name in leftovers.deleted if name not in ours)


def _leftover_findings(
    observed: Observed,
    leftovers: Leftovers,
    foreign: tuple[str, ...],
    options: RecoveryOptions,
) -> list[Finding]:
    """Return one finding for each kind of leftover."""
    swapped = f"the swap of {', '.join(leftovers.swaps)} was committed" if leftovers.swaps else ""
    kinds: list[tuple[Action, tuple[str, ...], str]] = [
        ("rolled back", leftovers.rolled_back, "a swap that was not committed"),
        ("removed", leftovers.cleaned, "output that was being built"),
        ("removed", leftovers.covered, f"replaced: {swapped}"),
        ("swapped in", leftovers.swaps, "a swap that was committed and not finished"),
    ]
    if options.like_kafka:
        kinds.append(("removed", leftovers.deleted, "retired: a broker removes it immediately"))
    else:
        kinds.append(("kept", foreign, "retired by others: `logwright purge` removes it"))
    return [
        Finding(
            action=action,
            files=files,
            reason=reason,
            bytes=sum(observed.stamps[name].bytes for name in files),
        )
        for action, files, reason in kinds
        if files
    ]


def _state_findings(loading: Loading, *, epochs_change: bool) -> list[Finding]:
    written, removed = loading.snapshots.written(), _removed_snapshots(loading)
    findings = []
    if written:
        names = tuple(segment_file_name(number, SNAPSHOT) for number in written)
        findings.append(
            Finding(action="snapshot written", files=names, reason="the producers as replayed")
        )
    if removed:
        findings.append(
            Finding(action="snapshot removed", files=removed, reason="a broker does not use it")
        )
    if epochs_change:
        findings.append(
            Finding(
                action="epochs trimmed",
                files=(LEADER_EPOCH_CHECKPOINT,),
                reason="as the log's batches and bounds say",
            )
        )
    return findings


def _splits(loading: Loading, files: Mapping[str, str]) -> tuple[SegmentSplit, ...]:
    return tuple(
        SegmentSplit(
            base_offset=Offset(segment.base_offset),
            parts=tuple(
                SplitPart(
                    base_offset=Offset(part.base_offset),
                    begin=part.begin,
                    end=part.begin + part.log_bytes,
                    aborted=part.aborted,
                )
                for part in sorted([*loading.segments, *loading.dropped], key=_base_offset)
                if part.split_from == segment.base_offset
            ),
            files=segment_files(segment.base_offset, files),
            modified_ns=segment.stamp.modified_ns,
        )
        for segment in loading.split
    )


def _files_when_split(files: Iterable[str], splits: Iterable[SegmentSplit]) -> frozenset[str]:
    names = set(files)
    for split in splits:
        names.difference_update(split.files)
        names.update(
            segment_file_name(part.base_offset, suffix)
            for part in split.parts
            for suffix in SEGMENT_SUFFIXES
            if suffix != TXNINDEX or part.aborted
        )
    return frozenset(names)


def _repairs(loading: Loading) -> tuple[SegmentRepair, ...]:
    """Return the remaining segments of which a file is written."""
    return tuple(
        SegmentRepair(
            base_offset=Offset(segment.base_offset),
            log_bytes=ByteCount(segment.log_bytes),
            valid_bytes=ByteCount(segment.size),
            rebuild=segment.recovered,
            aborted=segment.aborted,
            has_txnindex=segment.has_txnindex,
            txnindex_last=segment.txnindex_wrong,
            modified_ns=segment.stamp.modified_ns,
        )
        for segment in loading.segments
        if segment.recovered or not segment.has_timeindex
    )


def _trimmed(loading: Loading, files: Mapping[str, str]) -> dict[str, ByteCount]:
    """Return the sizes that indexes are trimmed to. A broker that closes its active segment leaves
    whole entries in its indexes (trimToValidSize), and other segments' indexes as they are. Without
    --like-kafka such an index was rebuilt.
    """
    last = loading.segments[-1] if loading.segments else None
    if not loading.like_kafka or last is None or last.recovered:
        return {}
    sizes = {}
    for suffix, entry_bytes in ((INDEX, OFFSET_ENTRY_BYTES), (TIMEINDEX, TIME_ENTRY_BYTES)):
        name = segment_file_name(last.base_offset, suffix)
        size = loading.observed.stamps[files[name]].bytes if name in files else 0
        if size % entry_bytes:
            sizes[name] = ByteCount(size - size % entry_bytes)
    return sizes


def _trim_finding(
    observed: Observed, files: Mapping[str, str], name: str, size: ByteCount
) -> Finding:
    return Finding(
        action="trimmed",
        files=(name,),
        reason="its size is not a multiple of the entry size",
        position=size,
        bytes=observed.stamps[files[name]].bytes - size,
    )


def _dropped_files(loading: Loading, files: Collection[str]) -> tuple[str, ...]:
    """Return the files of dropped segments, the last segment first and its log first, so that what
    remains is a prefix of the log.
    """
    return tuple(
        name
        for segment in sorted(loading.dropped, key=_base_offset, reverse=True)
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT)
        if (name := segment_file_name(segment.base_offset, suffix)) in files
        and not (suffix == SNAPSHOT and segment.base_offset in loading.snapshots.numbers())
    )


def _base_offset(segment: LoadedSegment) -> int:
    return segment.base_offset


def _removed_snapshots(loading: Loading) -> tuple[str, ...]:
    """Return the removed snapshots, without those of dropped segments."""
    dropped = {segment_file_name(one.base_offset, SNAPSHOT) for one in loading.dropped}
    return tuple(name for name in loading.snapshots.removed() if name not in dropped)


def _changed_epochs(
    observed: Observed, loading: Loading, *, begins_late: bool
) -> tuple[LeaderEpoch, ...] | None:
    """Return the epochs that are written. A broker keeps those from before the first segment if the
    log's beginning is missing; they would prove that again.
    """
    epochs = loading.epochs
    if begins_late and not loading.like_kafka:
        epochs = trim(
            epochs,
            log_start_offset=Offset(loading.log_start_offset),
            log_end_offset=Offset(loading.end_offset),
        )
    same = epochs == (observed.epochs or ()) and not observed.epochs_malformed
    return None if same else epochs


def _high_watermark(observed: Observed, start: Offset, end: Offset) -> Offset | None:
    recorded = observed.checkpoints.high_watermark.get(observed.partition)
    return None if recorded is None else min(max(recorded, start), end)
