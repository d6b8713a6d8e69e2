"""Plans of cleanings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from logwright.compaction.model import CleaningOptions, CleanPlan
from logwright.config.topic import parse_settings
from logwright.format.names import TopicPartition
from logwright.log.committed import HighWatermark
from logwright.sweep.plan import Settings, plan_cleaning
from logwright.units import TimestampMs
from tests.log_builder import START_MS


def forced_plan(
    log_dir: Path,
    partition: TopicPartition,
    settings: Settings | Mapping[str, str],
    *,
    now_ms: int = START_MS + 10_000,
    high_watermark: HighWatermark = "end",
    **options: Any,  # noqa: ANN401 -- those of `CleaningOptions`
) -> CleanPlan:
    """Plan a cleaning with ``--force``, by default up to the log end offset.

    Args:
        log_dir: the log directory.
        partition: the log.
        settings: parsed, or as in Kafka's files.
        now_ms: the clock.
        high_watermark: what counts as committed.
        options: of the cleaning, besides `force`.
    """
    return plan_cleaning(
        log_dir,
        partition,
        parse_settings(settings) if isinstance(settings, Mapping) else settings,
        now_ms=TimestampMs(now_ms),
        options=CleaningOptions(force=True, **options),
        high_watermark=high_watermark,
    )
