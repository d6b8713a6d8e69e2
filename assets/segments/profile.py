"""One row for each log: what its staged segments amount to, for the expectations of the policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pandas as pd

from logwright.checks.model import OutputFacts

_SUMS: Final = (
    "log_bytes",
    "batches",
    "records",
    "tombstones",
    "null_key_records",
    "misplaced_index_entries",
)
_LARGEST: Final = ("last_offset", "max_timestamp_ms", "largest_batch_bytes")
_TOTALS: Final = ("source_records", "source_bytes", "expected_records", "expected_bytes")
_COLUMNS: Final = [
    *("topic_partition", "segments", "base_offset", "largest_segment_bytes"),
    *("max_codec", *_SUMS, *_LARGEST, *_TOTALS),
]


def log_profiles(facts: Mapping[str, OutputFacts]) -> pd.DataFrame:
    """Return one row for each log that has staged segments, ascending by `topic_partition`.

    Args:
        facts: by log key, which becomes `topic_partition`.
    """
    rows = [_profile(key, facts[key]) for key in sorted(facts) if facts[key].segments]
    if not rows:
        return pd.DataFrame(columns=_COLUMNS, dtype="int64").astype({"topic_partition": "object"})
    return pd.DataFrame(rows, columns=_COLUMNS)


def _profile(key: str, facts: OutputFacts) -> dict[str, object]:
    segments = facts.segments

    def column(name: str) -> Iterator[int]:
        return (getattr(segment, name) for segment in segments)

    # An empty segment has no batch, so no codec either.
    filled = [segment for segment in segments if segment.batches > 0]
    return {
        "topic_partition": key,
        "segments": len(segments),
        "base_offset": min(column("base_offset")),
        "largest_segment_bytes": max(column("log_bytes")),
        "max_codec": max((segment.max_codec for segment in filled), default=float("nan")),
        **{name: sum(column(name)) for name in _SUMS},
        **{name: max(column(name)) for name in _LARGEST},
        **{name: getattr(facts, name) for name in _TOTALS},
    }
