"""The profile of a log is what its staged segments amount to."""

from __future__ import annotations

import math

import numpy as np

from logwright.assets.segments.expectations import with_limits
from logwright.assets.segments.profile import log_profiles
from logwright.checks.model import OutputFacts, SegmentFacts
from logwright.config.policy_models import Expectations
from logwright.config.topic_tests import PROFILE_COLUMNS

SEGMENT = SegmentFacts(
    topic_partition="orders-0",
    base_offset=100,
    log_bytes=1_000,
    batches=2,
    records=4,
    tombstones=1,
    null_key_records=2,
    first_null_key_offset=101,
    first_offset=100,
    last_offset=110,
    max_codec=1,
    min_timestamp_ms=5,
    max_timestamp_ms=6,
    largest_batch_bytes=600,
    index_entries=1,
    timeindex_entries=1,
    misplaced_index_entries=3,
)
EMPTY = SEGMENT._replace(
    base_offset=200,
    log_bytes=0,
    batches=0,
    records=0,
    tombstones=0,
    null_key_records=0,
    last_offset=-1,
    max_codec=-1,
    max_timestamp_ms=-1,
    largest_batch_bytes=0,
    misplaced_index_entries=0,
)


def facts(*segments: SegmentFacts) -> OutputFacts:
    """An output of these segments."""
    return OutputFacts(
        topic_partition="orders-0",
        plan_id="plan",
        checks=(),
        segments=segments,
        source_records=9,
        source_bytes=5_000,
        expected_records=8,
        expected_bytes=4_000,
    )


def test_a_profile_sums_the_segments_of_a_log() -> None:
    """Sums, extremes, and the totals once."""
    larger = SEGMENT._replace(base_offset=150, log_bytes=3_000, last_offset=180, max_codec=4)
    profile = log_profiles({"orders-0": facts(larger, SEGMENT)})
    assert [
        {
            "topic_partition": "orders-0",
            "segments": 2,
            "base_offset": 100,
            "largest_segment_bytes": 3_000,
            "max_codec": 4,
            "log_bytes": 4_000,
            "batches": 4,
            "records": 8,
            "tombstones": 2,
            "null_key_records": 4,
            "misplaced_index_entries": 6,
            "last_offset": 180,
            "max_timestamp_ms": 6,
            "largest_batch_bytes": 600,
            "source_records": 9,
            "source_bytes": 5_000,
            "expected_records": 8,
            "expected_bytes": 4_000,
        }
    ] == profile.to_dict("records")
    assert {np.dtype("int64")} == set(profile.drop(columns="topic_partition").dtypes)


def test_an_empty_segment_has_no_codec() -> None:
    """It is that of the segments that hold a batch, and missing if none does."""
    profiles = log_profiles({"b": facts(EMPTY), "a": facts(EMPTY, SEGMENT)})
    some, none = profiles.to_dict("records")
    assert ("a", 1) == (some["topic_partition"], some["max_codec"])
    assert "b" == none["topic_partition"]
    assert math.isnan(none["max_codec"])


def test_a_log_without_segments_has_no_profile() -> None:
    """No row says that nothing was read back; the columns are there all the same."""
    profiles = log_profiles({"a": facts(), "b": facts(SEGMENT)})
    assert ["b"] == list(profiles["topic_partition"])
    empty = log_profiles({"a": facts()})
    assert 0 == len(empty)
    assert profiles.dtypes.equals(empty.dtypes)


def test_tests_can_name_every_number_of_a_profile() -> None:
    """The columns that a policy may name are those of the frame, but for limits and the key."""
    limits = {"topic_partition", "allowed_batch_bytes", "allowed_bytes"}
    frame = with_limits(
        log_profiles({"orders-0": facts(SEGMENT)}),
        policy=Expectations(),
        max_message_bytes={"orders-0": 1_000},
    )
    assert PROFILE_COLUMNS.keys() == set(frame.columns) - limits
    (row,) = frame.to_dict("records")
    assert (0.25, 4 / 9, 0.2) == (
        row["tombstone_share"],
        row["kept_records_share"],
        row["kept_bytes_share"],
    )
