"""``logwright offsets``: why Kafka's internal topics grow, and what to do. Read-only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Unpack

from logwright.cli.options.offsets import Given
from logwright.cli.output import human_bytes, size_cell
from logwright.cli.request import Request
from logwright.cli.wording import clock, counted
from logwright.compaction.plan import plan_compaction
from logwright.config.topic import TopicConfig
from logwright.errors import (
    CorruptLogError,
    PolicyError,
    PreconditionError,
    UnsupportedFormatError,
)
from logwright.format.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    TopicPartition,
)
from logwright.log.load import list_partitions, observe
from logwright.log.model import ReadableLog
from logwright.offsets.judge import findings_of, newest_states, transactions_of
from logwright.offsets.model import (
    Cleanable,
    Coordinated,
    Examined,
    Finding,
    Limits,
    Owner,
    Transaction,
)
from logwright.offsets.read import TOPICS, read_contents
from logwright.place.files import entry_at
from logwright.place.model import Place, is_running
from logwright.reading import reading
from logwright.units import TimestampMs

_NS_PER_MS: Final = 1_000_000
_MS_PER_MINUTE: Final = 60_000
_DEFAULTS: Final = {"offsets.retention.minutes": 10_080, "transaction.max.timeout.ms": 900_000}
"""Settings of a broker (GroupCoordinatorConfig, TransactionStateManagerConfig)."""


def run(request: Request, **given: Unpack[Given]) -> int:
    """Run the command; its exit status."""
    places = (request.place, *given["more_dirs"])
    examined: list[Examined] = []
    limits: dict[Place, Limits] = {}
    for place in places:
        of_place = request.of(place)
        limits[place] = _limits(of_place, given["late_ms"])
        examined += _examine(of_place)
    if not examined and not request.failures.failures:
        raise PreconditionError(
            f"has no partition of {' or '.join(TOPICS)}.",
            path=request.place,
            remedy="Give log directories that have them.",
        )
    states = newest_states(examined)
    request.output.text(clock(request.now_ms))
    findings: list[tuple[Examined, Finding]] = []
    for each in examined:
        of_log = limits[each.log.log_dir]
        transactions = transactions_of(each, states, of_log)
        findings += [(each, one) for one in findings_of(each, transactions, of_log)]
        _show_object(request, each, transactions)
    _show_logs(request, examined)
    for each, finding in findings:
        _show_finding(request, each, finding, names=given["names"])
    _show_owners(request, examined, given["top"], names=given["names"])
    _show_total(request, examined, [finding for _, finding in findings])
    undecoded = any(each.contents.undecoded for each in examined)
    return _status([finding for _, finding in findings], undecoded=undecoded)


def _status(findings: Sequence[Finding], *, undecoded: bool) -> int:
    kinds = {finding.kind for finding in findings}
    if "corrupt batch" in kinds:
        return CorruptLogError.exit_status
    if kinds - {"transaction not judged"}:
        return PreconditionError.exit_status
    return UnsupportedFormatError.exit_status if kinds or undecoded else 0


def _limits(request: Request, late_ms: int) -> Limits:
    """Return how long is too long on a broker. Effects: reads its settings.

    Raises:
        PolicyError: server.properties has a value that is not a number.
    """
    properties = request.sources().properties
    values = dict(_DEFAULTS)
    for name in values:
        text = properties.pairs.get(name)
        if text is None:
            continue
        if not text.strip().isdecimal():
            raise PolicyError(f"{name}={text!r} is not a number.", path=properties.path)
        values[name] = int(text)
    return Limits(
        late_ms=late_ms,
        retention_ms=values["offsets.retention.minutes"] * _MS_PER_MINUTE,
        transaction_ms=values["transaction.max.timeout.ms"],
    )


def _examine(request: Request) -> list[Examined]:
    """Examine the logs of a directory that can be read. Effects: reads them; output."""
    partitions = [each for each in list_partitions(request.place) if each.topic in TOPICS]
    examined: list[Examined] = []
    with reading(request.place):
        for partition in partitions:
            with request.failures.of(partition):
                examined.append(_examine_log(request, partition))
    return examined


def _examine_log(request: Request, partition: TopicPartition) -> Examined:
    place = request.place
    log = observe(place, partition, high_watermark=request.high_watermark)
    config, cleaner = request.settings(partition.topic)
    as_of_ms = _as_of_ms(log, request.now_ms)
    with request.output.progress(str(partition)) as progress:
        contents = read_contents(log, progress)
    return Examined(
        log=log,
        config=config,
        cleaner=cleaner,
        cleanable=_cleanable(log, config, as_of_ms),
        contents=contents,
        as_of_ms=as_of_ms,
        cleaned_ms=_written_ms(place / CLEANER_OFFSET_CHECKPOINT),
    )


def _cleanable(log: ReadableLog, config: TopicConfig, as_of_ms: TimestampMs) -> Cleanable:
    """Return what Kafka's cleaner may clean of a log. Pure."""
    plan = plan_compaction(log, config, now_ms=as_of_ms, like_kafka=True)
    return Cleanable(
        first_dirty=plan.first_dirty_offset,
        first_uncleanable=plan.first_uncleanable_offset,
        clean_bytes=plan.clean_bytes,
        bytes=plan.cleanable_bytes,
        ratio=plan.cleanable_ratio,
        min_ratio=plan.min_cleanable_ratio,
        due_at_ms=plan.due_at_ms,
        eligible=plan.eligible,
    )


def _as_of_ms(log: ReadableLog, now_ms: TimestampMs) -> TimestampMs:
    """Return up to when a cleaner could have worked on a log: now, or when its broker was stopped,
    by its last segment and the high watermark checkpoint, which a broker writes as it stops.
    Effects: looks.
    """
    if is_running(log.log_dir):
        return now_ms
    written_ms = _written_ms(log.log_dir / HIGH_WATERMARK_CHECKPOINT)
    return TimestampMs(min(now_ms, max(log.active.modified_ns // _NS_PER_MS, written_ms or 0)))


def _written_ms(path: Place) -> TimestampMs | None:
    """Return when a file was written; None if it is not there. Effects: looks."""
    entry = entry_at(path)
    return None if entry is None else TimestampMs(entry.stamp.modified_ns // _NS_PER_MS)


def _show_object(request: Request, each: Examined, transactions: Sequence[Transaction]) -> None:
    """Show a log as JSON. Effects: stdout."""
    log, cleanable, contents = each.log, each.cleanable, each.contents
    request.output.result(
        None,
        topicPartition=str(log.partition),
        logDir=str(log.log_dir),
        running=is_running(log.log_dir),
        asOfMs=each.as_of_ms,
        bytes=log.log_bytes,
        bytesRead=contents.bytes_read,
        liveBytes=sum(owner.live_bytes for owner in contents.owners),
        oldFormatBytes=contents.old_format_bytes,
        undecodedRecords=contents.undecoded,
        segments=len(log.segments),
        logStartOffset=log.log_start_offset,
        logEndOffset=log.log_end_offset,
        lastStableOffset=log.last_stable_offset,
        checkpointedOffset=log.cleaner_checkpoint,
        checkpointWrittenMs=each.cleaned_ms,
        firstDirtyOffset=cleanable.first_dirty,
        firstUncleanableOffset=cleanable.first_uncleanable,
        cleanableBytes=cleanable.bytes,
        cleanableRatio=cleanable.ratio,
        minCleanableRatio=cleanable.min_ratio,
        eligible=cleanable.eligible,
        openTransactions=[
            {
                "producerId": opened.producer_id,
                "firstOffset": opened.first_offset,
                "hangs": opened.hangs,
                "why": opened.why,
            }
            for opened in transactions
        ],
    )


def _show_logs(request: Request, examined: Iterable[Examined]) -> None:
    """Show a line for each log. Effects: stdout, text only."""
    header = (
        "partition",
        "size",
        "live",
        "segments",
        "offsets",
        "cleaned to",
        "dirty",
        "cleanable",
    )
    rows = [
        (
            str(each.log.partition),
            size_cell(each.log.log_bytes),
            size_cell(sum(owner.live_bytes for owner in each.contents.owners)),
            len(each.log.segments),
            f"{each.log.log_start_offset}..{each.log.log_end_offset}",
            "-" if each.log.cleaner_checkpoint is None else int(each.log.cleaner_checkpoint),
            f"{each.cleanable.ratio:.2f}",
            size_cell(each.cleanable.bytes),
        )
        for each in examined
    ]
    request.output.table(header, rows)


def _show_finding(request: Request, each: Examined, finding: Finding, *, names: bool) -> None:
    """Show something that makes a log grow. Effects: stdout."""
    transaction = finding.transaction
    state = None if transaction is None else transaction.coordinated
    name = f" Its transactional id: {state.transactional_id}." if names and state else ""
    held = f" It holds {human_bytes(finding.bytes)}." if transaction is not None else ""
    request.output.result(
        [
            f"{finding.kind}: {each.log.partition}: {finding.problem}{held}{name}",
            f"  {finding.fix}",
        ],
        kind=finding.kind,
        topicPartition=str(each.log.partition),
        logDir=str(each.log.log_dir),
        problem=finding.problem,
        remedy=finding.fix,
        sinceMs=finding.since_ms,
        bytes=finding.bytes,
        transaction=None if transaction is None else _transaction(transaction, state, names=names),
    )


def _transaction(
    transaction: Transaction, state: Coordinated | None, *, names: bool
) -> Mapping[str, object]:
    return {
        "producerId": transaction.producer_id,
        "producerEpoch": transaction.producer_epoch,
        "firstOffset": transaction.first_offset,
        "beganMs": transaction.began_ms,
        "lastMs": transaction.last_ms,
        "state": None if state is None else state.state,
        "transactionalId": state.transactional_id if names and state is not None else None,
    }


def _show_owners(request: Request, examined: Iterable[Examined], top: int, *, names: bool) -> None:
    """Show the groups and transactional ids with the most bytes. Effects: stdout."""
    owners = [(each, owner) for each in examined for owner in each.contents.owners]
    owners.sort(key=lambda pair: -pair[1].bytes)
    rows = [
        _owner(each, owner, number, names=names)
        for number, (each, owner) in enumerate(owners[:top], 1)
    ]
    columns = {
        "group or id": "name" if names else "rank",
        "partition": "topicPartition",
        "size": lambda row: size_cell(row["bytes"]),
        "records": "records",
        "live": lambda row: size_cell(row["liveBytes"]),
        "commits": "commits",
        "members": lambda row: "yes" if row["members"] else "no",
    }
    if rows:
        request.output.show(rows, columns)


def _owner(each: Examined, owner: Owner, number: int, *, names: bool) -> dict[str, object]:
    return {
        "rank": number,
        "name": owner.name if names else None,
        "topicPartition": str(each.log.partition),
        "logDir": str(each.log.log_dir),
        "bytes": owner.bytes,
        "records": owner.records,
        "liveBytes": owner.live_bytes,
        "liveRecords": owner.live_records,
        "commits": owner.commits,
        "members": owner.members,
        "metadata": owner.metadata,
        "activeMs": owner.active_ms,
        "pending": owner.pending,
    }


def _show_total(
    request: Request, examined: Sequence[Examined], findings: Sequence[Finding]
) -> None:
    """Show what all logs are together, and what was not read. Effects: stdout."""
    size = sum(each.log.log_bytes for each in examined)
    read = sum(each.contents.bytes_read for each in examined)
    live = sum(owner.live_bytes for each in examined for owner in each.contents.owners)
    old = sum(each.contents.old_format_bytes for each in examined)
    undecoded = sum(each.contents.undecoded for each in examined)
    more = f" {human_bytes(size - read)} were not read." if read < size else ""
    more += f" {counted(undecoded, 'record')} could not be decoded." if undecoded else ""
    more += f" {human_bytes(old)} are of formats v0 and v1." if old else ""
    failed = len(request.failures.failures)
    more += f" {counted(failed, 'log')} could not be examined." if failed else ""
    what = counted(len(findings), "finding") if findings else "nothing was found"
    request.output.result(
        f"{counted(len(examined), 'log')}, {human_bytes(size)}, of which {human_bytes(live)} are"
        f" the newest record of a key: {what}.{more}",
        logs=len(examined),
        bytes=size,
        bytesRead=read,
        liveBytes=live,
        oldFormatBytes=old,
        undecodedRecords=undecoded,
        findings=len(findings),
        failedLogs=failed,
    )
