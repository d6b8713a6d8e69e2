"""``schedule``: thirty days of simulated logs under a budget, by three orders of cleaning.

A deadline counts as missed if a log's cleaning begins after its ``max.compaction.lag.ms``. The
order by deadline alone (EDF, of all dirty logs, due or not) shows what the budget allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.table import table
from logwright.config.policy_models import SweepLimits
from logwright.sweep.schedule import HOUR_MS, Candidate, Occasion, Spent, schedule

LOGS: Final = 10_000
DAYS: Final = 30
BUDGETS: Final = (1.15, 1.3, 2.0)
"""Budgets as multiples of what cleaning each log once in its lag would read."""
RATIO: Final = 0.5
_LAGS_H: Final = (12, 24, 48, 168)
_SEED: Final = 1

Floats = NDArray[np.float64]
Order = Callable[["Fleet", Spent, int], Iterator[int]]


@dataclass(slots=True)
class Fleet:
    """Simulated logs, one element each.

    Attributes:
        rate: bytes written in an hour. kept: bytes that a cleaning leaves at most.
        lag_ms: ``max.compaction.lag.ms``.
        clean, dirty: bytes. since_ms: of the first dirty record. due_ms: since when it is due,
            -1 if it is not.
    """

    rate: Floats
    kept: Floats
    lag_ms: NDArray[np.int64]
    clean: Floats
    dirty: Floats
    since_ms: NDArray[np.int64]
    due_ms: NDArray[np.int64]

    @classmethod
    def new(cls, logs: int, *, bursts: bool) -> Fleet:
        """Return random logs; with `bursts` all deadlines of a lag are close together."""
        made = np.random.default_rng(_SEED)
        rate = made.lognormal(17, 1.5, logs).clip(1e5, 2e9)
        lag_ms = made.choice(_LAGS_H, logs).astype(np.int64) * HOUR_MS
        kept = rate * made.uniform(2, 100, logs)
        age = made.uniform(0, 0.1 if bursts else 1, logs) * lag_ms
        return cls(
            rate=rate,
            kept=kept,
            lag_ms=lag_ms,
            clean=kept.copy(),
            dirty=rate * age / HOUR_MS,
            since_ms=-age.astype(np.int64),
            due_ms=np.full(logs, -1, dtype=np.int64),
        )

    @property
    def demand(self) -> float:
        """Bytes to read in an hour if each log is cleaned once in its lag."""
        hours = self.lag_ms / HOUR_MS
        return float(((self.kept + self.rate * hours) / hours).sum())

    @property
    def deadline_ms(self) -> NDArray[np.int64]:
        """When the lag is exceeded."""
        result: NDArray[np.int64] = self.since_ms + self.lag_ms
        return result

    def look(self, now_ms: int) -> None:
        """Note which logs are due."""
        due = (self.dirty > RATIO * (self.clean + self.dirty)) | (self.deadline_ms <= now_ms)
        self.due_ms = np.where(due, np.where(self.due_ms < 0, now_ms, self.due_ms), -1)

    def sweep(self, log: int, now_ms: int) -> float:
        """Clean a log; return the bytes that this frees."""
        whole = self.clean[log] + self.dirty[log]
        self.clean[log], self.dirty[log] = min(whole, self.kept[log]), 0.0
        self.since_ms[log], self.due_ms[log] = now_ms, -1
        return float(whole - self.clean[log])


def _by_deadline(fleet: Fleet, spent: Spent, hourly: int) -> Iterator[int]:
    del spent, hourly
    yield from np.argsort(fleet.deadline_ms, kind="stable").tolist()


def _dirtiest(fleet: Fleet, spent: Spent, hourly: int) -> Iterator[int]:
    del spent, hourly
    ratio = fleet.dirty / (fleet.clean + fleet.dirty)
    order = np.argsort(-ratio, kind="stable")
    yield from order[fleet.due_ms[order] >= 0].tolist()


def _scheduled(fleet: Fleet, spent: Spent, hourly: int) -> Iterator[int]:
    read = (fleet.clean + fleet.dirty).astype(np.int64)
    freed = np.maximum(read - fleet.kept.astype(np.int64), 0)
    columns = (read, freed, fleet.deadline_ms, fleet.lag_ms, fleet.due_ms)
    candidates = [
        Candidate(
            key=str(log),
            read_bytes=read_bytes,
            reclaim_bytes=reclaim_bytes,
            deadline_ms=deadline_ms,
            lag_ms=lag_ms,
            since_ms=None if since_ms < 0 else since_ms,
        )
        for log, (read_bytes, reclaim_bytes, deadline_ms, lag_ms, since_ms) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        )
    ]
    limits = SweepLimits(max_logs=2**31 - 1, max_bytes=2**62, max_gb_per_hour=hourly / 1e9)
    occasion = Occasion(now_ms=spent.hour_ms, limits=limits, spent=spent)
    yield from (int(key) for key in schedule(candidates, occasion).chosen)


ORDERS: Final[dict[str, Order]] = {
    "by deadline (EDF)": _by_deadline,
    "schedule": _scheduled,
    "dirtiest first": _dirtiest,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an order did: deadlines missed, bytes freed and read."""

    missed: int
    deadlines: int
    freed: float
    read: float


def simulate(
    order: Order, *, hourly: int, logs: int = LOGS, days: int = DAYS, bursts: bool = False
) -> Outcome:
    """Run one order over all days."""
    fleet = Fleet.new(logs, bursts=bursts)
    missed = np.zeros(logs, dtype=np.bool_)
    total_missed = met = 0
    freed = read = 0.0
    spent = Spent()
    for hour in range(24 * days):
        now_ms = hour * HOUR_MS
        fleet.look(now_ms)
        late = (fleet.deadline_ms < now_ms) & ~missed
        total_missed += int(late.sum())
        missed |= late
        spent = spent.at(now_ms, hourly)
        for log in order(fleet, spent, hourly):
            size = int(fleet.clean[log] + fleet.dirty[log])
            if spent.bytes and spent.bytes + size > hourly:
                continue
            spent = Spent(hour_ms=now_ms, bytes=spent.bytes + size)
            read += size
            freed += fleet.sweep(log, now_ms)
            met += not missed[log]
            missed[log] = False
        fleet.dirty += fleet.rate
    return Outcome(missed=total_missed, deadlines=met + total_missed, freed=freed, read=read)


def schedules(*, logs: int = LOGS, days: int = DAYS) -> str:
    """Return a table of all orders at all budgets."""
    rows = []
    for bursts in (False, True):
        demand = Fleet.new(logs, bursts=bursts).demand
        for multiple in BUDGETS:
            hourly = int(multiple * demand)
            outcomes = {
                name: simulate(order, hourly=hourly, logs=logs, days=days, bursts=bursts)
                for name, order in ORDERS.items()
            }
            rows.append(
                [
                    "close together" if bursts else "spread",
                    f"{multiple:g} = {hourly / 1e9:,.0f} GB/h",
                    *(f"{one.missed:,}" for one in outcomes.values()),
                    *(f"{one.freed / one.read:.2f}" for one in outcomes.values()),
                ]
            )
    missed = [f"missed: {name}" for name in ORDERS]
    freed = [f"freed/read: {name}" for name in ORDERS]
    return table(["deadlines", "budget", *missed, *freed], rows)
