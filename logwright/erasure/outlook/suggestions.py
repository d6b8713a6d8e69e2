"""When the requested keys of a log are gone once all have a tombstone, and which setting would make
a deadline. Pure.

A key whose newest record has a value is gone only after a tombstone: the forecast is as if one were
appended now. Of each setting the largest value is searched with which all requested keys of the log
are gone by the deadline, the other settings being as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.config.topic import TopicConfig
from logwright.erasure.find.kinds import LIVE, Judged, judge
from logwright.erasure.find.result import LiveHits
from logwright.erasure.outlook.cleanings import MAX_LAG, NO_TIME
from logwright.erasure.outlook.removals import DELETE_RETENTION, Records, removals
from logwright.erasure.outlook.upkeep import Upkeep
from logwright.format.batch import HEADER_BYTES
from logwright.format.record import SMALLEST_RECORD_BYTES
from logwright.format.scan import BATCH
from logwright.log.inventory import DELETE_DELAY
from logwright.log.model import PartitionLog
from logwright.units import INT64_MAX, ByteCount, Offset, TimestampMs

SEGMENT_MS: Final = "segment.ms"
RUN_INTERVAL: Final = "run interval"
SETTINGS: Final = (MAX_LAG, DELETE_RETENTION, DELETE_DELAY, SEGMENT_MS, RUN_INTERVAL)
"""What can be lowered to make a deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A setting that would make the deadline.

    Attributes:
        setting: one of `SETTINGS`.
        value_ms: the largest value that does.
    """

    setting: str
    value_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogForecast:
    """The forecast of one log.

    Attributes:
        gone_ms: request → when all of its records in the log are gone, None: never, or not known.
        tombstones: the requests that need a tombstone, which is taken to be appended now.
        suggestions: empty if the deadline is made, or no setting alone makes it.
        earliest_ms: when all are gone with all settings at their smallest; None: never.
    """

    gone_ms: dict[int, int | None]
    tombstones: frozenset[int]
    suggestions: tuple[Suggestion, ...] = ()
    earliest_ms: int | None = None

    @property
    def latest_ms(self) -> int | None:
        """When the last of them is gone; None: never, or not known."""
        times = list(self.gone_ms.values())
        return (
            None
            if None in times
            else max((at_ms for at_ms in times if at_ms is not None), default=0)
        )


def forecast_log(
    live: LiveHits,
    config: TopicConfig,
    upkeep: Upkeep,
    *,
    now_ms: int,
    deadline_ms: int | None = None,
) -> LogForecast:
    """Return when the requested keys that were found in a log are gone from its live segments.

    Args:
        deadline_ms: of the latest of them; None: no suggestions are wanted.
    """
    grown, needing = _with_tombstones(live, now_ms)
    records = Records.of(grown, _judged(grown))
    requests = grown.hits["request"]

    def gone(config: TopicConfig, upkeep: Upkeep) -> dict[int, int | None]:
        removed = removals(records, grown.log, config, now_ms=now_ms, upkeep=upkeep)
        return _latest(requests, removed.times)

    result = LogForecast(gone_ms=gone(config, upkeep), tombstones=needing)
    if deadline_ms is None or (result.latest_ms is not None and result.latest_ms <= deadline_ms):
        return result

    def latest(config: TopicConfig, upkeep: Upkeep) -> int | None:
        return LogForecast(gone_ms=gone(config, upkeep), tombstones=needing).latest_ms

    all_small = config, upkeep
    for setting in SETTINGS:
        all_small = _with(*all_small, setting, _least(config, setting))
    return replace(
        result,
        suggestions=tuple(_suggestions(latest, config, upkeep, deadline_ms)),
        earliest_ms=latest(*all_small),
    )


def _with_tombstones(live: LiveHits, now_ms: int) -> tuple[LiveHits, frozenset[int]]:
    """Return the records as if a tombstone had been appended of each key whose newest record has a
    value, and the requests of these keys.
    """
    judged = _judged(live)
    live_ones = (judged.kinds == LIVE) & (live.hits["request"] >= 0)
    requests = np.unique(live.hits["request"][live_ones])
    if not len(requests):
        return live, frozenset()
    batch = np.zeros(1, dtype=BATCH)
    batch["position"], batch["producer_id"], batch["base_timestamp"] = -1, -1, now_ms
    new = np.zeros(len(requests), dtype=live.hits.dtype)
    new["request"], new["pattern"], new["is_tombstone"] = requests, -1, True
    new["offset"] = live.log.log_end_offset + np.arange(len(requests))
    new["row"] = len(live.batches)
    deadline_of = dict(zip(live.hits["request"].tolist(), live.deadlines.tolist(), strict=True))
    deadlines = np.array([deadline_of[each] for each in requests.tolist()], dtype=np.int64)
    grown = replace(
        live,
        log=with_tombstones(live.log, len(requests), now_ms=now_ms),
        hits=np.concatenate([live.hits, new]),
        batches=np.concatenate([live.batches, batch]),
        deadlines=np.concatenate([live.deadlines, deadlines]),
    )
    return grown, frozenset(requests.tolist())


def with_tombstones(log: PartitionLog, count: int, *, now_ms: int) -> PartitionLog:
    """Return the log as if tombstones had just been appended, in one batch of the active segment,
    and committed.
    """
    active = log.active
    first = active.first_batch_max_timestamp_ms
    end = Offset(log.log_end_offset + count)
    whole = log.last_stable_offset == log.log_end_offset
    grown = active._replace(
        log_bytes=ByteCount(active.log_bytes + HEADER_BYTES + count * SMALLEST_RECORD_BYTES),
        largest_timestamp_ms=TimestampMs(
            now_ms if active.log_bytes == 0 else max(active.largest_timestamp_ms, now_ms)
        ),
        first_batch_max_timestamp_ms=TimestampMs(now_ms) if first is None else first,
    )
    return log._replace(
        segments=(*log.sealed, grown),
        log_end_offset=end,
        high_watermark=end,
        last_stable_offset=end if whole else log.last_stable_offset,
    )


def _judged(live: LiveHits) -> Judged:
    start = int(live.log.log_start_offset)
    return judge(live.hits, live.batches, live.markers, log_start_offset=start)


def _latest(requests: NDArray[np.int64], times: NDArray[np.int64]) -> dict[int, int | None]:
    """Return the latest time of each request; None if one of its records has none."""
    chosen = requests >= 0
    names, rows = np.unique(requests[chosen], return_inverse=True)
    latest = np.zeros(len(names), dtype=np.int64)
    np.maximum.at(latest, rows, np.where(times[chosen] == NO_TIME, INT64_MAX, times[chosen]))
    return {
        name: None if time == INT64_MAX else time
        for name, time in zip(names.tolist(), latest.tolist(), strict=True)
    }


def _suggestions(
    latest: Callable[[TopicConfig, Upkeep], int | None],
    config: TopicConfig,
    upkeep: Upkeep,
    deadline_ms: int,
) -> Iterator[Suggestion]:
    """Yield the settings that make the deadline alone. Lower values never make it later."""

    def makes_it(setting: str, value_ms: int) -> bool:
        time = latest(*_with(config, upkeep, setting, value_ms))
        return time is not None and time <= deadline_ms

    for setting in SETTINGS:
        low, high = _least(config, setting), _current(config, upkeep, setting)
        if low >= high or not makes_it(setting, low):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if makes_it(setting, middle) else (low, middle)
        yield Suggestion(setting=setting, value_ms=low)


def _least(config: TopicConfig, setting: str) -> int:
    """Return the smallest value that Kafka accepts."""
    if setting == MAX_LAG:
        return max(1, config.min_compaction_lag_ms)
    return 1 if setting == SEGMENT_MS else 0


def _current(config: TopicConfig, upkeep: Upkeep, setting: str) -> int:
    if setting == RUN_INTERVAL:
        return upkeep.run_interval_ms
    return int(getattr(config, setting.replace(".", "_")))


def _with(
    config: TopicConfig, upkeep: Upkeep, setting: str, value_ms: int
) -> tuple[TopicConfig, Upkeep]:
    if setting == RUN_INTERVAL:
        return config, replace(upkeep, run_interval_ms=value_ms)
    return config.model_copy(update={setting.replace(".", "_"): value_ms}), upkeep
