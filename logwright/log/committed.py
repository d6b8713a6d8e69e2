"""What counts as committed of a stopped log."""

from __future__ import annotations

from typing import Literal

HighWatermark = Literal["end", "checkpoint", "recorded"]
"""All of it; what its broker recorded last (``replication-offset-checkpoint``), and nothing of a
log without an entry; what is recorded, but all of a log without an entry."""
