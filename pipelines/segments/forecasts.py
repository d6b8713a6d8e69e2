"""Forecasts in a sensor's tick: of the logs that are chosen, or will be next, within a limit of
bytes (docs/adr/0021).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from logwright.assets.lib.holds import state_of
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError
from logwright.pipelines.segments.due import REFUSED, UNKNOWN, Reading
from logwright.place.model import Place, is_local
from logwright.resources.log_dirs import MaintainedLog
from logwright.sweep.prepare import plan_by_policies
from logwright.units import TimestampMs

FORECAST_BYTES: Final = 256 * 1024 * 1024
"""``.log`` bytes that one tick reads for forecasts, so that it ends in seconds."""
FORECAST_LOGS: Final = 100


def to_forecast(readings: Mapping[str, Reading], keys: Iterable[str]) -> list[str]:
    """Return the logs of these, most urgent first, that this tick forecasts. Pure."""
    return list(_within_limits(readings, keys))


def _within_limits(readings: Mapping[str, Reading], keys: Iterable[str]) -> Iterator[str]:
    left, count = FORECAST_BYTES, 0
    for key in keys:
        reading = readings[key]
        wanted = reading.cleanable and not reading.unclean and reading.forecast_bytes == UNKNOWN
        if wanted and reading.total_bytes <= left and count < FORECAST_LOGS:
            left -= reading.total_bytes
            count += 1
            yield key


def with_forecasts(
    readings: Mapping[str, Reading],
    keys: Iterable[str],
    logs: Mapping[str, MaintainedLog],
    settings: DirectorySettings,
    *,
    now_ms: TimestampMs,
) -> dict[str, Reading]:
    """Return the readings, with forecasts of those of these logs that have none, within the limit.
    Effects: reads these logs.
    """
    from logwright.forecast.method import forecast_cheaply  # noqa: PLC0415 -- compiled kernels

    forecast = dict(readings)
    chosen = to_forecast(readings, keys)
    if not chosen:
        return forecast
    state = plan_by_policies(state_of([logs[key] for key in chosen], now_ms), settings)
    for work in state.works:
        forecast_bytes = REFUSED
        if work.plan is not None:
            with suppress(LogwrightError):
                forecast_bytes = max(forecast_cheaply(work.plan).cleaned_bytes, 0)
        forecast[work.key] = replace(forecast[work.key], forecast_bytes=forecast_bytes)
    return forecast


def free_space(logs: Mapping[str, MaintainedLog]) -> tuple[dict[str, str], dict[str, int]]:
    """Return key → file system of each log, and the free bytes of each file system. Effects: asks
    the system. A log directory that cannot be read, or is in a bucket, has none.
    """
    volumes: dict[str, str] = {}
    free: dict[str, int] = {}
    by_directory: dict[Place, str] = {}
    for directory in filter(is_local, dict.fromkeys(log.log_dir for log in logs.values())):
        with suppress(OSError):
            volume = str(os.stat(directory).st_dev)  # noqa: PTH116 -- with statvfs below
            status = os.statvfs(directory)
            by_directory[directory] = volume
            free[volume] = status.f_bavail * status.f_frsize
    for key, log in logs.items():
        if log.log_dir in by_directory:
            volumes[key] = by_directory[log.log_dir]
    return volumes, free
