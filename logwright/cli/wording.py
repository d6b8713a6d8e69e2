"""Format times, names, retired files and reasons for `inspect` and `plan`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from logwright.cli.output import human_bytes
from logwright.compaction.model import ReadablePlan
from logwright.format.names import HIGH_WATERMARK_CHECKPOINT
from logwright.format.snapshot import ProducerEntry
from logwright.log.watermark import is_without_high_watermark
from logwright.times import duration

LONGEST_NAME: Final = 44
"""Maximum length of a name in a table, in characters; a longer one loses its middle."""
UNFORESEEN: Final = "no later cleaning is foreseen"
"""Of tombstones of a log that nothing cleans again by itself."""
_LAST_DATETIME_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def moment(time_ms: int | None, now_ms: int) -> str:
    """Return ``HH:MM`` in UTC, preceded by the date unless it is the date of `now_ms`."""
    when, now = _utc(time_ms), _utc(now_ms)
    if when is None:
        return "-"
    same = now is not None and when.date() == now.date()
    return f"{when:%H:%M}" if same else f"{when:%Y-%m-%d %H:%M}"


def instant(time_ms: int | None) -> str:
    """Return a time in UTC with milliseconds."""
    when = _utc(time_ms)
    if when is None:
        return "-"
    return when.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00") + "Z"


def clock(now_ms: int) -> str:
    """Return the header line about times; a time without a date is on the date it shows."""
    now = _utc(now_ms)
    return "times are UTC" + ("" if now is None else f", now is {now:%Y-%m-%d %H:%M}")


def _utc(time_ms: int | None) -> datetime | None:
    if time_ms is None or not 0 <= time_ms <= _LAST_DATETIME_MS:
        return None
    return datetime.fromtimestamp(time_ms / 1000, tz=UTC)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return name → short name: a long one loses its middle, unless two would become equal."""
    short = {name: _short(name) for name in names}
    taken = Counter(short.values())
    return {name: name if taken[cut] > 1 else cut for name, cut in short.items()}


def _short(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    half = LONGEST_NAME // 2
    return f"{name[: half - 1]}…{name[-half:]}"


def retired(files: Sequence[tuple[int, int | None]], now_ms: int) -> str:
    """Return a summary such as ``42 files, 19.9 MiB, purged from 14:03``.

    Args:
        files: (bytes, purge time in ms or None if unknown) of each file; at least one.
        now_ms: the command's clock.
    """
    size = f"{counted(len(files), 'file')}, {human_bytes(sum(size for size, _ in files))}"
    times = sorted(due_ms for _, due_ms in files if due_ms is not None)
    if not times:
        return f"{size}, retired"
    if times[-1] <= now_ms:
        return f"{size}, purge due since {moment(times[0], now_ms)}"
    first, last = moment(times[0], now_ms), moment(times[-1], now_ms)
    return f"{size}, purged from {first}" + ("" if first == last else f" to {last}")


def counted(number: int, what: str) -> str:
    """Return ``1 file``, ``2 files``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def compaction_reason(plan: ReadablePlan, since_ms: int | None) -> str:
    """Return whether a compaction is due, and the number that decides it.

    Args:
        since_ms: when the open transaction that bounds the cleaning began, if that is known.
    """
    text = _compaction_reason(plan)
    if plan.config.compact:
        text += _held(plan, since_ms) or _uncommitted(plan)
    return text


def _compaction_reason(plan: ReadablePlan) -> str:
    compaction, config = plan.compaction, plan.config
    if not config.policy_known:
        return "cleanup.policy unknown"
    if not config.compact:
        return f"not due: cleanup.policy={','.join(config.cleanup_policy) or '(empty)'}"
    if not plan.cleaner.enable and not compaction.eligible:
        return "not due: log.cleaner.enable=false"
    ratio, least = _ratios(compaction.cleanable_ratio, compaction.min_cleanable_ratio)
    if not compaction.eligible:
        lost = is_without_high_watermark(plan.log)
        absent = f"no high watermark in {HIGH_WATERMARK_CHECKPOINT}"
        why = absent if lost else f"dirty ratio {ratio} of {least}"
        return f"not due: {why}{_later(plan)}"
    if compaction.cleanable_ratio > compaction.min_cleanable_ratio:
        return f"due: dirty ratio {ratio} > {least}"
    late = duration(compaction.compaction_delay_ms)
    return f"due: max.compaction.lag.ms exceeded by {late}, dirty ratio {ratio} of {least}"


def _later(plan: ReadablePlan) -> str:
    due_at_ms = plan.compaction.due_at_ms
    if due_at_ms is None or due_at_ms <= plan.now_ms:
        return ""
    return f", by max.compaction.lag.ms from {moment(due_at_ms, plan.now_ms)}"


def open_transaction(plan: ReadablePlan) -> ProducerEntry | None:
    """Return the producer whose open transaction is the first that may not be cleaned; None if
    something else, or nothing, limits the cleaning.
    """
    log, bound = plan.log, plan.compaction.first_uncleanable_dirty_offset
    begun = [each for each in log.producers if each.current_txn_first_offset is not None]
    first = min(begun, key=lambda each: each.current_txn_first_offset or 0, default=None)
    return first if bound == log.last_stable_offset else None


def _held(plan: ReadablePlan, since_ms: int | None) -> str:
    producer = open_transaction(plan)
    if producer is None:
        return ""
    last = moment(producer.timestamp_ms, plan.now_ms)
    since = "" if since_ms is None else f" since {moment(since_ms, plan.now_ms)}"
    return (
        f"; open transaction of producer {producer.producer_id}{since}, last written {last}: not"
        f" cleaned from offset {producer.current_txn_first_offset} on"
    )


def _uncommitted(plan: ReadablePlan) -> str:
    log, bound = plan.log, plan.compaction.first_uncleanable_dirty_offset
    by_watermark = bound == log.high_watermark < log.active.base_offset
    if not by_watermark or is_without_high_watermark(log):
        return ""
    return (
        f"; not cleaned from offset {bound} on: the high watermark of {HIGH_WATERMARK_CHECKPOINT}"
    )


def _ratios(ratio: float, least: float) -> tuple[str, str]:
    """Format both with two decimals, or with as many as it takes to tell them apart."""
    digits = next((n for n in (2, 4, 6) if f"{ratio:.{n}f}" != f"{least:.{n}f}"), 2)
    return f"{ratio:.{digits}f}", f"{least:.{digits}f}"
