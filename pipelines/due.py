"""Which logs a sweep is asked for, decided from what a tick has read: pure, so that it can be
tested with tables.

1. A log's signature says whether it changed since a tick read it (names, sizes and times of its
   files, its settings).
2. If it did, or if time alone may have made it due, it is planned anew and becomes a `Reading`.
3. A log that must be recovered is due: the sweep recovers it, and then plans it.
4. Due logs are ordered: those to be recovered, of which nothing else is known; those past
   `max.compaction.lag.ms` by their deadline, then the filthiest (`logwright.sweep.order`), then
   those that only roll.
5. A log that is paused or in quarantine is left alone; who wants that and until when is said.
6. A log that a sweep was asked for and that is as it was then has to wait, so that one that cannot
   be swept is not asked for at every tick.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from logwright.compaction.model import CleanPlan
from logwright.config.policy_models import SweepLimits
from logwright.errors import UncleanLogDir
from logwright.sweep.order import urgency
from logwright.sweep.plan import POLICY_UNKNOWN

RETRY_AFTER_MS: Final = 15 * 60 * 1000
"""How long a log waits that is still as it was when a sweep was asked for."""

REFUSED_LOOK_AGAIN_MS: Final = 60 * 1000
"""How long until a log is looked at again that could not be planned: its lock or marker is outside
the signature."""

SHOWN_REASON: Final = 90
SHOWN_SKIPPED: Final = 40
"""Length of one reason, and number of reasons, in what a tick says of the logs that it leaves
alone."""

NEVER_MS: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a tick read of one log.

    Attributes:
        signature: of what was read.
        due: something is to be done.
        unclean: it must be recovered before it can be planned.
        deadline_ms: when `max.compaction.lag.ms` was or will be exceeded, -1 if no lag applies.
        ratio: cleanable ratio.
        total_bytes: what a cleaning reads.
        look_again_ms: when time alone may change the answer, -1 if it cannot.
        requested_ms: when a sweep was asked for with this signature, -1 if it was not.
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
        """It still says what a new reading would say."""
        if signature != self.signature:
            return False
        return self.look_again_ms == NEVER_MS or now_ms < self.look_again_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a tick asks for.

    Attributes:
        logs: keys, most urgent first.
        skipped: reason of each log that is left alone, by key.
    """

    logs: tuple[str, ...]
    skipped: Mapping[str, str]


def reading_of(plan: CleanPlan, signature: str) -> Reading:
    """The reading that a plan comes to."""
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
    """Why a log is due or not, in a few words; its plan has the long form."""
    if plan.roll.due:
        return f"to be rolled: {plan.roll.reason}"
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
    """The reading of a log that could not be planned."""
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
    """The reading of a log that must be recovered first.

    `total_bytes`: of its ``.log`` files, which is the most that its cleaning can read.
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
        reason=shortened(f"to be recovered: {error}"),
    )


def _look_again_ms(plan: CleanPlan) -> int:
    """The next instant at which the same files may be decided about otherwise."""
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
    """What to ask for now.

    Args:
        readings: of every log, by key.
        in_flight: keys of logs that a queued or started run works on.
        limits: how much one sweep takes; a larger log still goes, alone.
        now_ms: the time.
        held: why logs are left alone, paused or in quarantine, by key.
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
            skipped[key] = "a run works on it"
        elif reading.requested_ms != NEVER_MS and waits_ms > 0:
            skipped[key] = f"a sweep left it as it was; again in {waits_ms // 1000} s"
        elif len(chosen) >= limits.max_logs or (chosen and reading.total_bytes > bytes_left):
            skipped[key] = "due, but this sweep is full (policy: sweep)"
        else:
            chosen.append(key)
            bytes_left -= reading.total_bytes
    return Choice(logs=tuple(chosen), skipped=skipped)


def _urgency(reading: Reading, now_ms: int) -> tuple[int, float]:
    """Return the sort key: to be recovered first, then as `logwright.sweep.order.urgency`."""
    if reading.unclean:
        return -1, 0.0
    overdue = NEVER_MS < reading.deadline_ms <= now_ms
    return urgency(deadline_ms=reading.deadline_ms if overdue else None, ratio=reading.ratio)


def with_requests(
    readings: Mapping[str, Reading], keys: Iterable[str], *, now_ms: int
) -> dict[str, Reading]:
    """The readings, with the note that a sweep was asked for these keys."""
    asked = set(keys)
    return {
        key: replace(reading, requested_ms=now_ms) if key in asked else reading
        for key, reading in readings.items()
    }


def skip_message(skipped: Mapping[str, str]) -> str:
    """Why each log is left alone, one line each, with a limit; the number of the others at the
    end.
    """
    if not skipped:
        return "There are no logs in the log directories."
    lines = [f"{key}: {reason}." for key, reason in list(skipped.items())[:SHOWN_SKIPPED]]
    more = len(skipped) - len(lines)
    return "\n".join([*lines, *([f"And {more} more."] if more else [])])


def dump_cursor(readings: Mapping[str, Reading]) -> str:
    """Readings as a sensor's cursor: Dagster stores it with every tick, so it is compressed."""
    rows = {key: astuple(reading) for key, reading in readings.items()}
    packed = zlib.compress(json.dumps(rows, separators=(",", ":")).encode())
    return base64.b64encode(packed).decode()


def load_cursor(cursor: str | None) -> dict[str, Reading]:
    """Readings of a cursor; none from one of another version, so that all is read anew."""
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
    """One line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_REASON else f"{line[: SHOWN_REASON - 1]}…"
