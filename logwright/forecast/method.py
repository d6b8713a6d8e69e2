"""Which forecast suits a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from logwright.forecast.exact import forecast_exactly
from logwright.forecast.sampled import forecast_by_sample

if TYPE_CHECKING:
    from logwright.compaction.model import ReadablePlan
    from logwright.forecast.model import Forecast

ALL_KEYS_BYTES: Final = 16 * 1024 * 1024
"""Up to this size all keys are read: a sample would have too few."""


def forecast_cheaply(plan: ReadablePlan) -> Forecast:
    """Forecast a small log from all keys, a larger one from a sample. Effects: reads the segments.

    Raises:
        LogwrightError: the log cannot be cleaned.
    """
    if plan.compaction.total_bytes <= ALL_KEYS_BYTES:
        return forecast_exactly(plan)
    return forecast_by_sample(plan)
