"""Decide which logs to sweep, from the readings of a sensor's tick. Pure.

1. A log's signature (names, sizes and times of its files, its settings) shows whether it changed
   since its last reading.
2. If it changed, or if it may have become due by time, it is planned again and gets a new
   `Reading`.
3. A log that needs recovery is due: the sweep recovers it, then plans it.
4. The order of due logs: those that need recovery; those past `max.compaction.lag.ms` by deadline,
   then the filthiest (`logwright.sweep.order`); those that only roll.
5. A log that is paused or in quarantine is skipped, with the reason and the expiry.
6. A log that has not changed since a sweep of it was requested must wait, so that a log that cannot
   be swept is not requested at every tick.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from logwright.compaction.model import CleanPlan
from logwright.config.policy_models import SweepLimits
from logwright.errors import UncleanLogDir
from logwright.sweep.order import urgency
from logwright.sweep.plan import POLICY_UNKNOWN

RETRY_AFTER_MS: Final = 15 * 60 * 1000
"""Waiting time of a log that has not changed since a sweep of it was requested."""

REFUSED_LOOK_AGAIN_MS: Final = 60 * 1000
"""Time until a log that could not be planned is read again: lock and marker are not part of the
signature."""

SHOWN_REASON: Final = 90
SHOWN_SKIPPED: Final = 40
"""Maximum length of a reason, and number of reasons, in a tick's message about skipped logs."""

NEVER_MS: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A tick's reading of one log.

    Attributes:
        signature: signature of the log when it was read.
        due: whether a sweep would change the log.
        unclean: it needs recovery before it can be planned.
        deadline_ms: when `max.compaction.lag.ms` was or will be exceeded, -1 if no lag applies.
        ratio: cleanable ratio.
        total_bytes: bytes that a cleaning reads.
        look_again_ms: when the passing of time may change the result, -1 if never.
        requested_ms: when a sweep was requested with this signature, -1 if never.
        reason: why it is due or not, short.
    """

    signature: str
    due: bool
    unclean: bool
    deadline_ms: int
    ratio: float
    total_bytes: int
    look_again_ms: int
    requested_ms: int
    reason: str

    def is_fresh(self, signature: str, now_ms: int) -> bool:
        """Return whether a new reading would have the same result."""
        if signature != self.signature:
            return False
        return self.look_again_ms == NEVER_MS or now_ms < self.look_again_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The logs that a tick requests a sweep of.

    Attributes:
        logs: keys, most urgent first.
        skipped: key → reason of each skipped log.
    """

    logs: tuple[str, ...]
    skipped: Mapping[str, str]


def reading_of(plan: CleanPlan, signature: str) -> Reading:
    """Return the reading of a planned log."""
    compaction = plan.compaction
    due = plan.clean or plan.roll.due
    return Reading(
        signature=signature,
        due=due,
        unclean=False,
        deadline_ms=NEVER_MS if compaction.due_at_ms is None else compaction.due_at_ms,
        ratio=round(compaction.cleanable_ratio, 4),
        total_bytes=compaction.total_bytes,
        look_again_ms=_look_again_ms(plan),
        requested_ms=NEVER_MS,
        reason=shortened(_reason(plan)),
    )


def _reason(plan: CleanPlan) -> str:
    """Return briefly why a log is due or not; its plan has the long form."""
    if plan.roll.due:
        return f"due to roll: {plan.roll.reason}"
    if not plan.config.policy_known:
        return POLICY_UNKNOWN
    if not plan.config.compact:
        return f"cleanup.policy is {','.join(plan.config.cleanup_policy)}"
    compaction = plan.compaction
    needed = f"dirty ratio {compaction.cleanable_ratio:.2f} of {compaction.min_cleanable_ratio:.2f}"
    if compaction.due_at_ms is None:
        return needed
    due_at = datetime.fromtimestamp(compaction.due_at_ms / 1000, tz=UTC)
    return f"{needed}, max.compaction.lag.ms at {due_at:%F %T}Z"


def refused_reading(error: Exception, signature: str, *, now_ms: int) -> Reading:
    """Return the reading of a log that could not be planned."""
    return Reading(
        signature=signature,
        due=False,
        unclean=False,
        deadline_ms=NEVER_MS,
        ratio=0.0,
        total_bytes=0,
        look_again_ms=now_ms + REFUSED_LOOK_AGAIN_MS,
        requested_ms=NEVER_MS,
        reason=shortened(f"refused: {type(error).__name__}: {error}"),
    )


def unclean_reading(error: UncleanLogDir, signature: str, *, total_bytes: int) -> Reading:
    """Return the reading of a log that needs recovery first.

    `total_bytes`: size of its ``.log`` files, the maximum that its cleaning can read.
    """
    return Reading(
        signature=signature,
        due=True,
        unclean=True,
        deadline_ms=NEVER_MS,
        ratio=0.0,
        total_bytes=total_bytes,
        look_again_ms=NEVER_MS,
        requested_ms=NEVER_MS,
        reason=shortened(f"needs recovery: {error}"),
    )


def _look_again_ms(plan: CleanPlan) -> int:
    """Return when the decision may change although the files do not, in ms."""
    lag_ms = plan.config.min_compaction_lag_ms
    instants: list[int | None] = [plan.compaction.due_at_ms, plan.roll.due_at_ms]
    instants += [segment.largest_timestamp_ms + lag_ms + 1 for segment in plan.log.segments]
    coming = [instant for instant in instants if instant is not None and instant > plan.now_ms]
    return min(coming, default=NEVER_MS)


def choose(
    readings: Mapping[str, Reading],
    *,
    in_flight: frozenset[str],
    limits: SweepLimits,
    now_ms: int,
    held: Mapping[str, str] = MappingProxyType({}),
) -> Choice:
    """Return the logs to sweep now.

    Args:
        readings: key → reading of every log.
        in_flight: keys of logs that a queued or started run works on.
        limits: limits of one sweep; a larger log is swept alone.
        now_ms: the time.
        held: key → why a log is paused or in quarantine.
    """
    chosen: list[str] = []
    skipped: dict[str, str] = {}
    bytes_left = limits.max_bytes
    for key, reading in sorted(
        readings.items(), key=lambda item: (*_urgency(item[1], now_ms), item[0])
    ):
        waits_ms = reading.requested_ms + RETRY_AFTER_MS - now_ms
        if key in held:
            skipped[key] = held[key]
        elif not reading.due:
            skipped[key] = reading.reason
        elif key in in_flight:
            skipped[key] = "a run is working on it"
        elif reading.requested_ms != NEVER_MS and waits_ms > 0:
            skipped[key] = f"unchanged since its last sweep; retry in {waits_ms // 1000} s"
        elif len(chosen) >= limits.max_logs or (chosen and reading.total_bytes > bytes_left):
            skipped[key] = "due, but this sweep is full (policy: sweep)"
        else:
            chosen.append(key)
            bytes_left -= reading.total_bytes
    return Choice(logs=tuple(chosen), skipped=skipped)


def _urgency(reading: Reading, now_ms: int) -> tuple[int, float]:
    """Return a sort key: needs recovery, overdue by deadline, descending ratio."""
    if reading.unclean:
        return -1, 0.0
    overdue = NEVER_MS < reading.deadline_ms <= now_ms
    return urgency(deadline_ms=reading.deadline_ms if overdue else None, ratio=reading.ratio)


def with_requests(
    readings: Mapping[str, Reading], keys: Iterable[str], *, now_ms: int
) -> dict[str, Reading]:
    """Return the readings, with the time of the request for these keys."""
    asked = set(keys)
    return {
        key: replace(reading, requested_ms=now_ms) if key in asked else reading
        for key, reading in readings.items()
    }


def skip_message(skipped: Mapping[str, str]) -> str:
    """Return one line per skipped log, up to a limit, and the number of the others."""
    if not skipped:
        return "There are no logs in the log directories."
    lines = [f"{key}: {reason}." for key, reason in list(skipped.items())[:SHOWN_SKIPPED]]
    more = len(skipped) - len(lines)
    return "\n".join([*lines, *([f"And {more} more."] if more else [])])


def dump_cursor(readings: Mapping[str, Reading]) -> str:
    """Serialize readings as a sensor's cursor; compressed, because Dagster stores it every tick."""
    fields = attrgetter(*Reading.__dataclass_fields__)
    rows = {key: fields(reading) for key, reading in readings.items()}
    packed = zlib.compress(json.dumps(rows, separators=(",", ":")).encode())
    return base64.b64encode(packed).decode()


def load_cursor(cursor: str | None) -> dict[str, Reading]:
    """Parse a cursor; a cursor of another version has no readings, so all logs are read again."""
    if not cursor:
        return {}
    names = tuple(Reading.__dataclass_fields__)
    try:
        rows = json.loads(zlib.decompress(base64.b64decode(cursor)))
    except (ValueError, zlib.error):
        return {}
    return {
        key: Reading(**dict(zip(names, row, strict=True)))
        for key, row in rows.items()
        if len(row) == len(names)
    }


def shortened(text: str) -> str:
    """Return a text as one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_REASON else f"{line[: SHOWN_REASON - 1]}…"
