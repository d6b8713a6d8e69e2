"""The clock: read once for all decisions of a run."""

import os
import time
from typing import Final

import dagster as dg

from logwright.errors import PolicyError
from logwright.units import TimestampMs

NOW_VARIABLE: Final = "LOGWRIGHT_NOW_MS"


class Clock(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The system's clock, or a fixed one for demonstrations and tests.

    Attributes:
        fixed_now_ms: ms since the epoch; if not given, LOGWRIGHT_NOW_MS, else the system's time.
    """

    fixed_now_ms: int | None = None

    def now_ms(self) -> TimestampMs:
        """Return the time. Effects: reads the environment and the clock."""
        if self.fixed_now_ms is not None:
            return TimestampMs(self.fixed_now_ms)
        text = os.environ.get(NOW_VARIABLE)
        if not text:
            return TimestampMs(time.time_ns() // 1_000_000)
        if not text.isdecimal():
            raise PolicyError(f"{NOW_VARIABLE}={text!r} is not a number of milliseconds.")
        return TimestampMs(int(text))
