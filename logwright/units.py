"""Types for the units of the engine's numbers.

Ranges are half open, ``[start, end)``; an inclusive bound is called ``last_…``.
"""

from typing import NewType

Offset = NewType("Offset", int)
"""A record's offset in its partition, int64."""

TimestampMs = NewType("TimestampMs", int)
"""Milliseconds since the epoch, int64; -1 = none."""

DurationMs = NewType("DurationMs", int)
"""A length of time in milliseconds, int64."""

ByteCount = NewType("ByteCount", int)
"""A size or a position in bytes."""

INT32_MAX = 2_147_483_647
INT64_MAX = 9_223_372_036_854_775_807
