"""Decide what makes a log of an internal topic grow, and what to do about it. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final

from logwright.decode.internal_messages import CONSUMER_OFFSETS, TRANSACTION_STATE
from logwright.format.names import CLEANER_OFFSET_CHECKPOINT
from logwright.format.snapshot import ProducerEntry
from logwright.log.model import log_bytes_of
from logwright.offsets.model import (
    Coordinated,
    Damage,
    Examined,
    Finding,
    Limits,
    Owner,
    Transaction,
)
from logwright.place.model import is_running
from logwright.times import duration, instant
from logwright.units import TimestampMs

ENDED: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})
"""States of a transactional id without a transaction."""
_base_offset: Final = attrgetter("base_offset")


def due_since(examined: Examined) -> TimestampMs | None:
    """Return when the log became due for Kafka's cleaner by what is cleanable now; None if it is
    not due.

    By the ratio that is when the segment with which it was exceeded was sealed: the timestamp of
    the batch with which the next one begins.
    """
    log, cleanable = examined.log, examined.cleanable
    if not cleanable.eligible:
        return None
    times = [] if cleanable.due_at_ms is None else [cleanable.due_at_ms]
    dirty_bytes = 0
    for number, segment in enumerate(log.sealed):
        following = log.segments[number + 1]
        if following.base_offset <= cleanable.first_dirty:
            continue
        if segment.base_offset >= cleanable.first_uncleanable:
            break
        dirty_bytes += segment.log_bytes
        if dirty_bytes > cleanable.min_ratio * (cleanable.clean_bytes + dirty_bytes):
            sealed_ms = following.first_batch_max_timestamp_ms or -1
            times.append(max(TimestampMs(sealed_ms), segment.largest_timestamp_ms))
            break
    return TimestampMs(min(times)) if times else None


def newest_states(examined: Iterable[Examined]) -> dict[int, Coordinated]:
    """Return the newest state of each producer, by its id: of two replicas of a log one may have
    less.
    """
    newest: dict[int, Coordinated] = {}
    for each in examined:
        for state in each.contents.states:
            other = newest.get(state.producer_id)
            if other is None or _age(state) > _age(other):
                newest[state.producer_id] = state
    return newest


def _age(state: Coordinated) -> tuple[int, int]:
    return state.producer_epoch, -1 if state.update_ms is None else state.update_ms


def transactions_of(
    examined: Examined, states: Mapping[int, Coordinated], limits: Limits
) -> tuple[Transaction, ...]:
    """Return the open transactions of a log, the one that begins first first.

    Args:
        states: by producer id, of all logs of ``__transaction_state`` that were read.
    """
    opened = [each for each in examined.log.producers if each.current_txn_first_offset is not None]
    made = [_transaction(examined, each, states, limits) for each in opened]
    return tuple(sorted(made, key=lambda each: each.first_offset))


def _transaction(
    examined: Examined,
    producer: ProducerEntry,
    states: Mapping[int, Coordinated],
    limits: Limits,
) -> Transaction:
    state = states.get(producer.producer_id)
    hangs: bool | None
    if state is None or state.producer_epoch < producer.producer_epoch:
        hangs, why = _by_age(examined, producer, limits)
    else:
        hangs, why = _by_state(examined, producer, state, limits)
    return Transaction(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        first_offset=producer.current_txn_first_offset or 0,
        began_ms=examined.contents.began_ms.get(producer.producer_id, TimestampMs(-1)),
        last_ms=producer.timestamp_ms,
        coordinated=state,
        hangs=hangs,
        why=why,
    )


def _by_age(examined: Examined, producer: ProducerEntry, limits: Limits) -> tuple[bool, str]:
    """Return whether a transaction hangs whose coordinator's state was not read, and why."""
    age_ms = examined.as_of_ms - producer.timestamp_ms
    longest = f"transaction.max.timeout.ms, {duration(limits.transaction_ms)}"
    if age_ms <= limits.transaction_ms + limits.late_ms:
        return False, f"it may be within {longest}"
    return True, (
        f"last written {duration(age_ms)} before, longer than {longest}; its state is in no log of"
        f" {TRANSACTION_STATE} that was read"
    )


def _by_state(
    examined: Examined, producer: ProducerEntry, state: Coordinated, limits: Limits
) -> tuple[bool | None, str]:
    """Return whether a transaction hangs by its coordinator's state, and why; None if that is not
    known. The two logs are not read at the same moment, so a state that changed lately proves
    nothing, unless its transaction began after the last batch of the open one.
    """
    has = f"its transactional id is in state {state.state}"
    ended = state.state in ENDED
    if ended or examined.log.partition.directory_name not in state.partitions:
        started_ms, updated_ms = state.start_ms or -1, state.update_ms
        is_earlier = producer.timestamp_ms + limits.late_ms < started_ms
        is_settled = updated_ms is not None and examined.as_of_ms - updated_ms > limits.late_ms
        if not (is_earlier or is_settled):
            return None, f"{has}, which changed within {duration(limits.late_ms)}"
        return True, f"{has}{'' if ended else ', without this partition'}"
    start_ms = state.update_ms if state.start_ms is None else state.start_ms
    if start_ms is None:
        return None, f"{has}, without a time"
    over_ms = examined.as_of_ms - start_ms - state.timeout_ms
    if over_ms <= limits.late_ms:
        return False, has
    return True, f"{has}, {duration(over_ms)} after its timeout"


def findings_of(
    examined: Examined, transactions: tuple[Transaction, ...], limits: Limits
) -> Iterator[Finding]:
    """Yield what makes a log grow, and what to do."""
    yield from _damages(examined)
    yield from _hanging(examined, transactions)
    if not examined.config.compact:
        policy = ",".join(examined.config.cleanup_policy) or "(empty)"
        yield Finding(
            kind="not compacted",
            problem=f"cleanup.policy is {policy}: the log is never compacted.",
            fix=(
                "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics"
                f" --entity-name {examined.log.partition.topic}"
                " --add-config cleanup.policy=compact"
            ),
            bytes=examined.log.log_bytes,
        )
    else:
        yield from _late(examined, limits)
    yield from _expired(examined, limits)


def _damages(examined: Examined) -> Iterator[Finding]:
    for damage in examined.contents.damages:
        yield Finding(
            kind="corrupt batch",
            problem=(
                f"{damage.path} at byte {damage.position}, offset {damage.offset}:"
                f" {damage.problem} {_effect(examined, damage)}"
            ),
            fix=(
                f"`logwright verify {examined.log.log_dir} {examined.log.partition}` shows all that"
                " is damaged. Restore the segment from a copy or from another replica."
            ),
            bytes=damage.unread_bytes,
        )


def _effect(examined: Examined, damage: Damage) -> str:
    """Return what a damage is to Kafka's cleaner."""
    if damage.stops is None:
        return "Whether the cleaner stops at it is not known."
    if not damage.stops:
        return "The cleaner compares no CRC: that alone does not stop it. `logwright clean` stops."
    if _stops_now(examined, damage):
        return "The cleaner cannot read it, and cleans nothing of this log."
    return "The cleaner will stop at it when its segment may be cleaned."


def _stops_now(examined: Examined, damage: Damage) -> bool:
    return bool(damage.stops) and damage.offset < examined.cleanable.first_uncleanable


def _hanging(examined: Examined, transactions: tuple[Transaction, ...]) -> Iterator[Finding]:
    log = examined.log
    for transaction in transactions:
        if transaction.hangs is False:
            continue
        from_here = log.segments[_containing(examined, transaction.first_offset) :]
        held = log_bytes_of(from_here[:-1])
        known = transaction.began_ms if transaction.began_ms >= 0 else transaction.last_ms
        hangs = bool(transaction.hangs)
        yield Finding(
            kind="hanging transaction" if hangs else "transaction not judged",
            problem=(
                f"producer {transaction.producer_id} has an open transaction from offset"
                f" {transaction.first_offset} on, begun {instant(known)},"
                f" {duration(max(examined.as_of_ms - known, 0))} before: {transaction.why}."
                " Nothing from there on is cleaned."
            ),
            fix=(
                "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic"
                f" {log.partition.topic} --partition {log.partition.partition}"
                f" --start-offset {transaction.first_offset}"
            ),
            since_ms=TimestampMs(known),
            bytes=held,
            transaction=transaction,
        )


def _containing(examined: Examined, offset: int) -> int:
    """Return the number of the segment with an offset."""
    segments = examined.log.segments
    at = bisect_left(segments, offset + 1, key=_base_offset)
    return max(at - 1, 0)


def _late(examined: Examined, limits: Limits) -> Iterator[Finding]:
    log, cleanable = examined.log, examined.cleanable
    since_ms = due_since(examined)
    if since_ms is None or examined.as_of_ms - since_ms <= limits.late_ms:
        return
    late = duration(examined.as_of_ms - since_ms)
    clean = f"`logwright clean {log.log_dir} {log.partition} --yes`"
    first = "Stop it; then " if is_running(log.log_dir) else ""
    if any(each.offset < cleanable.first_uncleanable for each in examined.contents.damages):
        first = f"Restore what is corrupt. {first}"
    at = "no offset" if log.cleaner_checkpoint is None else f"offset {log.cleaner_checkpoint}"
    yield Finding(
        kind="cleaner late",
        problem=(
            f"due since {instant(since_ms)}, {late}, and not cleaned: {CLEANER_OFFSET_CHECKPOINT}"
            f" has {at}, the log ends at {log.log_end_offset}; dirty ratio"
            f" {cleanable.ratio:.2f}, min.cleanable.dirty.ratio"
            f" {cleanable.min_ratio:.2f}. {_why_late(examined, since_ms)}"
        ),
        fix=f"{first}{clean}",
        since_ms=since_ms,
        bytes=cleanable.bytes,
    )


def _why_late(examined: Examined, since_ms: int) -> str:
    """Return what the files say of the cause."""
    off = examined.cleaner.off
    if off is not None:
        return f"The cleaner is off: {off}."
    if any(_stops_now(examined, each) for each in examined.contents.damages):
        return "The log has a batch that the cleaner cannot read."
    if examined.cleaned_ms is None:
        return f"There is not a {CLEANER_OFFSET_CHECKPOINT}: no log here was ever cleaned."
    written = f"{CLEANER_OFFSET_CHECKPOINT} was last written {instant(examined.cleaned_ms)}"
    if examined.cleaned_ms > since_ms:
        return (
            f"{written}, so other logs were cleaned since: this one is marked uncleanable, or"
            " waits. The log of the cleaner, log-cleaner.log, has the reason."
        )
    return (
        f"{written}: no log of this directory was cleaned since. The cleaner's threads have died,"
        " or hang; log-cleaner.log has the reason."
    )


def is_expired(owner: Owner, as_of_ms: int, limits: Limits) -> bool:
    """Return whether the committed offsets of a group should have expired: it has no member, and
    neither committed nor changed its state within ``offsets.retention.minutes``.
    """
    if not owner.commits or owner.members or owner.active_ms is None:
        return False
    return as_of_ms - owner.active_ms > limits.retention_ms + limits.late_ms


def _expired(examined: Examined, limits: Limits) -> Iterator[Finding]:
    contents = examined.contents
    if examined.log.partition.topic != CONSUMER_OFFSETS or contents.damages or contents.undecoded:
        return  # a record that was not read can be of a member, or a newer commit
    expired = [owner for owner in contents.owners if is_expired(owner, examined.as_of_ms, limits)]
    if not expired:
        return
    pending = sum(owner.pending for owner in expired)
    without = sum(not owner.metadata for owner in expired)
    times = [owner.active_ms for owner in expired if owner.active_ms is not None]
    held = (
        f" {pending} of them have offsets in an open transaction, which keeps them."
        if pending
        else ""
    )
    yield Finding(
        kind="expired offsets",
        problem=(
            f"{sum(owner.commits for owner in expired)} committed offsets of {len(expired)} groups"
            " without members are older than offsets.retention.minutes,"
            f" {duration(limits.retention_ms)}; {without} of these groups have no metadata any"
            f" more.{held}"
        ),
        fix=(
            "kafka-consumer-groups.sh --bootstrap-server HOST:PORT --delete --group NAME; the"
            " names: --names"
        ),
        since_ms=TimestampMs(min(times)),
        bytes=sum(owner.live_bytes for owner in expired),
    )
