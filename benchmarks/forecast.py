"""``forecast``: what a forecast costs next to a cleaning of the same log, and how far it is off."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.logs import fresh_copy, plan, prepare
from benchmarks.table import table
from logwright.forecast.exact import forecast_exactly
from logwright.forecast.model import forecast_error
from logwright.forecast.sampled import forecast_by_sample
from logwright.sweep.build import build, examine
from logwright.sweep.commit import commit

if TYPE_CHECKING:
    from benchmarks.logs import BenchLog
    from logwright.compaction.model import CleanPlan
    from logwright.forecast.model import Forecast

CASES: Final = ("u100", "u1k", "zstd", "lz4", "unique")


def forecasts(cases: tuple[str, ...], *, scale: float, work: Path) -> str:
    """Return a table of CPU seconds and errors, warm. Effects: works below `work`."""
    rows = [_row(prepare(case, scale=scale, work=work), work / "forecast") for case in cases]
    shutil.rmtree(work / "forecast", ignore_errors=True)
    head = ["log", "removed", "cleaning, CPU s", "all keys", "1 of 64"]
    head += ["error, all keys", "error, 1 of 64", "its standard error", "sampled keys"]
    return table(head, rows)


def _row(log: BenchLog, copy: Path) -> list[str]:
    fresh_copy(log, copy)
    planned = plan(log, copy)
    made: list[Forecast] = []
    seconds: list[float] = []
    for method in (forecast_exactly, forecast_by_sample):
        method(planned)  # compiles
        began = time.process_time()
        made.append(method(planned))
        seconds.append(time.process_time() - began)
    _clean(planned)
    fresh_copy(log, copy)
    planned = plan(log, copy)
    began = time.process_time()
    removed = _clean(planned)
    whole = time.process_time() - began
    errors = [forecast_error(one.cleaned_bytes, removed) or 0.0 for one in made]
    return [
        f"`{log.name}`",
        f"{removed / log.log_bytes:.1%}",
        f"{whole:.2f}",
        *(f"{one:.2f} ({one / whole:.0%})" for one in seconds),
        *(f"{one:+.2%}" for one in errors),
        f"{made[1].error_bytes / max(removed, 1):.2%}",
        f"{made[1].sampled_keys:,}",
    ]


def _clean(planned: CleanPlan) -> int:
    """Clean and return the removed bytes."""
    staged = build(planned)
    examine(planned, staged)
    commit(planned, staged)
    return staged.stats.bytes_removed
