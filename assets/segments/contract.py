"""The contract of the segment facts that workers return: a frame with one row per staged segment.

It uses pandas instead of pandera.pyspark: the few rows are already on the driver, pandera.pyspark
starts a Spark job per rule (3 s for 20 rules on four rows, 0.01 s here) and does not report which
rows failed, which is what an operator needs first. See docs/adr/0004.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaErrors

from logwright.assets.lib.verdict import SEGMENT_CONTRACT, Verdict
from logwright.format.codec import CODEC_NAMES
from logwright.units import INT32_MAX

Row = Mapping[str, object]

_MAX_CODEC: Final = len(CODEC_NAMES) - 1


def _count(name: str, *, least: int = 0, most: int | None = None) -> tuple[str, pa.Column]:
    limits = [pa.Check.ge(least, error=f"{name} at least {least}")]
    if most is not None:
        limits.append(pa.Check.le(most, error=f"{name} at most {most}"))
    return name, pa.Column("int64", limits)


def _null_keys_are_above_the_map(frame: pd.DataFrame) -> pd.Series[bool]:
    """Require that records without a key are above the last mapped offset
    (Cleaner.shouldRetainRecord, 4.3.0).
    """
    above = frame["first_null_key_offset"] > frame["last_mapped_offset"]
    return (frame["null_key_records"] == 0) | above


def _offsets_are_ordered(frame: pd.DataFrame) -> pd.Series[bool]:
    """Require that each segment starts above the end of the one before it."""
    before = frame.groupby("topic_partition")["last_offset"].transform(
        lambda last: last.cummax().shift(fill_value=-1)
    )
    return (frame["first_offset"] < 0) | (frame["first_offset"] > before)


def _offsets_are_inside(frame: pd.DataFrame) -> pd.Series[bool]:
    empty = frame["batches"] == 0
    inside = (frame["first_offset"] >= frame["base_offset"]) & (
        frame["last_offset"] >= frame["first_offset"]
    )
    return empty | inside


SEGMENT_FACTS: Final = pa.DataFrameSchema(
    dict(
        [
            ("topic_partition", pa.Column("object")),
            _count("base_offset"),
            _count("log_bytes", most=INT32_MAX),
            _count("batches"),
            _count("records"),
            _count("tombstones"),
            _count("null_key_records"),
            _count("first_null_key_offset", least=-1),
            _count("first_offset", least=-1),
            _count("last_offset", least=-1),
            _count("max_codec", least=-1, most=_MAX_CODEC),
            _count("min_timestamp_ms", least=-1),
            _count("max_timestamp_ms", least=-1),
            _count("largest_batch_bytes"),
            _count("index_entries"),
            _count("timeindex_entries"),
            _count("misplaced_index_entries", most=0),
            _count("last_mapped_offset", least=-1),
        ]
    ),
    checks=[
        pa.Check(_null_keys_are_above_the_map, name="no record without a key in the cleaned part"),
        pa.Check(_offsets_are_ordered, name="segments do not overlap"),
        pa.Check(_offsets_are_inside, name="offsets are at or above the base offset"),
        pa.Check(
            lambda frame: frame["tombstones"] <= frame["records"],
            name="tombstones are records",
        ),
        pa.Check(
            lambda frame: frame["largest_batch_bytes"] <= frame["log_bytes"],
            name="no batch is larger than its segment",
        ),
    ],
    unique=["topic_partition", "base_offset"],
    strict=True,
    name="segment_facts",
)


def contract_verdicts(rows: Iterable[Row], keys: Iterable[str]) -> dict[str, Verdict]:
    """Validate the rows of all logs together.

    Args:
        rows: SegmentFacts' fields and `last_mapped_offset`; `topic_partition` is the log's key.
        keys: keys of the logs to return verdicts for.

    Returns:
        key → verdict. A wrong column or type fails every log.
    """
    frame = pd.DataFrame(list(rows))
    broken: dict[str, dict[str, set[int]]] = {key: {} for key in keys}
    if not frame.empty:
        for rule, index in _failure_cases(frame):
            touched = frame if index is None else frame.loc[[index]]
            for key, base_offset in touched[["topic_partition", "base_offset"]].itertuples(
                index=False
            ):
                broken[str(key)].setdefault(rule, set()).add(int(base_offset))
    return {key: _verdict(rules) for key, rules in broken.items()}


def _failure_cases(frame: pd.DataFrame) -> list[tuple[str, int | None]]:
    """Return (rule, row) of each failure; row is None for a failure of the frame's shape."""
    try:
        SEGMENT_FACTS.validate(frame, lazy=True)
    except SchemaErrors as errors:
        cases = errors.failure_cases[["check", "column", "index"]]
        return [
            (str(check), None if pd.isna(index) else int(index))
            for check, _column, index in cases.itertuples(index=False)
        ]
    return []


def _verdict(rules: Mapping[str, set[int]]) -> Verdict:
    segments = set().union(*rules.values()) if rules else set()
    return Verdict(
        check=SEGMENT_CONTRACT,
        violations=sum(len(found) for found in rules.values()),
        first_offset=min(segments, default=None),
        broken=tuple(sorted(rules)),
    )
