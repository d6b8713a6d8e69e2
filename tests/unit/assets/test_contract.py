"""The contract of the segment facts: every rule breaks on its own breach, and says where."""

from __future__ import annotations

import pytest

from logwright.assets.contract import contract_verdicts


def row(**changed: object) -> dict[str, object]:
    """A good segment of four records."""
    return {
        "topic_partition": "orders-0",
        "base_offset": 100,
        "log_bytes": 1_000,
        "batches": 2,
        "records": 4,
        "tombstones": 1,
        "null_key_records": 0,
        "first_null_key_offset": -1,
        "first_offset": 100,
        "last_offset": 110,
        "max_codec": 1,
        "min_timestamp_ms": 5,
        "max_timestamp_ms": 6,
        "largest_batch_bytes": 600,
        "index_entries": 1,
        "timeindex_entries": 1,
        "misplaced_index_entries": 0,
        "last_mapped_offset": 400,
    } | changed


EMPTY = {
    "log_bytes": 0,
    "batches": 0,
    "records": 0,
    "tombstones": 0,
    "first_offset": -1,
    "last_offset": -1,
    "max_codec": -1,
    "min_timestamp_ms": -1,
    "max_timestamp_ms": -1,
    "largest_batch_bytes": 0,
}


@pytest.mark.parametrize("changed", [{}, EMPTY])
def test_good_segments_pass(changed: dict[str, object]) -> None:
    """Full ones and empty ones."""
    rows = [row(**changed), row(base_offset=200, first_offset=200, last_offset=210)]
    assert contract_verdicts(rows, ["orders-0"])["orders-0"].passed


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"base_offset": -1}, "base_offset at least 0"),
        ({"log_bytes": 2**31}, "log_bytes at most 2147483647"),
        ({"index_entries": -1}, "index_entries at least 0"),
        ({"max_codec": 5}, "max_codec at most 4"),
        ({"misplaced_index_entries": 1}, "misplaced_index_entries at most 0"),
        ({"largest_batch_bytes": 1_001}, "no batch is larger than its segment"),
        ({"tombstones": 5}, "tombstones are records"),
        ({"first_offset": 99}, "offsets are at or above the base offset"),
        ({"first_offset": 120}, "offsets are at or above the base offset"),
        (
            {"null_key_records": 1, "first_null_key_offset": 400},
            "no record without a key in the cleaned part",
        ),
        ({"first_offset": 300, "last_offset": 310, "base_offset": 250}, None),
    ],
)
def test_breach_is_named_with_its_segment(changed: dict[str, object], rule: str | None) -> None:
    """The rule, and the base offset of the first segment that breaks it."""
    rows = [row(base_offset=0, first_offset=0, last_offset=10), row(**changed)]
    verdict = contract_verdicts(rows, ["orders-0"])["orders-0"]
    assert (() if rule is None else (rule,)) == verdict.broken
    assert (None if rule is None else changed.get("base_offset", 100)) == verdict.first_offset


def test_record_without_a_key_may_stay_above_the_map() -> None:
    """Cleaner.shouldRetainRecord keeps everything above the map's latest offset."""
    rows = [row(null_key_records=1, first_null_key_offset=401)]
    assert contract_verdicts(rows, ["orders-0"])["orders-0"].passed


def test_segments_must_not_overlap() -> None:
    """The second begins where the first has not ended."""
    rows = [row(), row(base_offset=105, first_offset=105, last_offset=120)]
    verdict = contract_verdicts(rows, ["orders-0"])["orders-0"]
    assert ("segments do not overlap",) == verdict.broken
    assert 105 == verdict.first_offset


def test_breach_of_one_log_is_not_the_others() -> None:
    """Rows of all logs are validated together."""
    rows = [row(), row(topic_partition="users-0", max_codec=9)]
    verdicts = contract_verdicts(rows, ["orders-0", "users-0"])
    assert verdicts["orders-0"].passed
    assert not verdicts["users-0"].passed


@pytest.mark.parametrize(
    "rows",
    [
        [row() | {"unknown": 1}],
        [{name: value for name, value in row().items() if name != "max_codec"}],
        [row(records="4")],
        [row(records=4.5)],
    ],
)
def test_other_columns_or_types_pass_for_nobody(rows: list[dict[str, object]]) -> None:
    """The shape of the frame is part of the contract."""
    assert not contract_verdicts(rows, ["orders-0"])["orders-0"].passed


def test_log_without_segments_passes() -> None:
    """Nothing to say against nothing; the profile asks whether something should be there."""
    assert contract_verdicts([], ["orders-0"])["orders-0"].passed
