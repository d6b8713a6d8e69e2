"""The contract of the segment facts: every rule breaks on its own breach, and says where."""

from __future__ import annotations

import pytest

from logwright.assets.segments.contract import SEGMENT_FACTS, contract_verdicts


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


NUMBERS = {name: value for name, value in row().items() if name != "topic_partition"}
MISSING = [name for name in NUMBERS if name != "base_offset"]
"""By key and base offset a failure finds its log."""
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


BREACHES: dict[str, tuple[dict[str, object], tuple[str, ...]]] = {
    "base_offset at least 0": ({"base_offset": -1}, ()),
    "log_bytes at least 0": ({"log_bytes": -1}, ("no batch is larger than its segment",)),
    "log_bytes at most 2147483647": ({"log_bytes": 2**31}, ()),
    "batches at least 0": ({"batches": -1}, ()),
    "records at least 0": ({"records": -1}, ("tombstones are records",)),
    "tombstones at least 0": ({"tombstones": -1}, ()),
    "null_key_records at least 0": (
        {"null_key_records": -1},
        ("no record without a key in the cleaned part",),
    ),
    "first_null_key_offset at least -1": ({"first_null_key_offset": -2}, ()),
    "first_offset at least -1": (
        {"first_offset": -2},
        ("offsets are at or above the base offset",),
    ),
    "last_offset at least -1": (
        {"last_offset": -2},
        ("offsets are at or above the base offset",),
    ),
    "max_codec at least -1": ({"max_codec": -2}, ()),
    "max_codec at most 4": ({"max_codec": 5}, ()),
    "min_timestamp_ms at least -1": ({"min_timestamp_ms": -2}, ()),
    "max_timestamp_ms at least -1": ({"max_timestamp_ms": -2}, ()),
    "largest_batch_bytes at least 0": ({"largest_batch_bytes": -1}, ()),
    "index_entries at least 0": ({"index_entries": -1}, ()),
    "timeindex_entries at least 0": ({"timeindex_entries": -1}, ()),
    "misplaced_index_entries at least 0": ({"misplaced_index_entries": -1}, ()),
    "misplaced_index_entries at most 0": ({"misplaced_index_entries": 1}, ()),
    "last_mapped_offset at least -1": ({"last_mapped_offset": -2}, ()),
    "no record without a key in the cleaned part": (
        {"null_key_records": 1, "first_null_key_offset": 400},
        (),
    ),
    "segments do not overlap": ({"base_offset": 5, "first_offset": 10}, ()),
    "offsets are at or above the base offset": ({"first_offset": 99}, ()),
    "tombstones are records": ({"tombstones": 5}, ()),
    "no batch is larger than its segment": ({"largest_batch_bytes": 1_001}, ()),
}
"""Rule → what breaks it, as little as possible, and the rules that cannot hold then either."""


def test_every_rule_has_a_breach() -> None:
    """There are no other rules."""
    columns = SEGMENT_FACTS.columns.values()
    rules = [str(check.error) for column in columns for check in column.checks]
    assert sorted(BREACHES) == sorted(
        [*rules, *(str(check.name) for check in SEGMENT_FACTS.checks)]
    )


@pytest.mark.parametrize("rule", BREACHES)
def test_breach_is_named_with_its_segment(rule: str) -> None:
    """The rule, and the base offset of the first segment that breaks it."""
    changed, others = BREACHES[rule]
    rows = [row(base_offset=0, first_offset=0, last_offset=10), row(**changed)]
    verdict = contract_verdicts(rows, ["orders-0"])["orders-0"]
    assert tuple(sorted([rule, *others])) == verdict.broken
    assert changed.get("base_offset", 100) == verdict.first_offset


def test_offsets_end_at_or_above_their_begin() -> None:
    """The second half of the rule about the base offset."""
    rows = [row(first_offset=111, last_offset=110)]
    verdict = contract_verdicts(rows, ["orders-0"])["orders-0"]
    assert ("offsets are at or above the base offset",) == verdict.broken


def test_a_gap_between_segments_is_no_breach() -> None:
    """A cleaning may leave one."""
    rows = [
        row(base_offset=0, first_offset=0, last_offset=10),
        row(base_offset=250, first_offset=300, last_offset=310),
    ]
    assert contract_verdicts(rows, ["orders-0"])["orders-0"].passed


def test_a_base_offset_is_that_of_one_segment() -> None:
    """Two empty segments of one name break no rule but this."""
    rows = [row(**EMPTY), row(**EMPTY)]
    verdict = contract_verdicts(rows, ["orders-0"])["orders-0"]
    assert ("multiple_fields_uniqueness",) == verdict.broken


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
        *([{name: value for name, value in row().items() if name != gone}] for gone in MISSING),
        [row(records="4")],
        *([row(**{name: float(str(value))})] for name, value in NUMBERS.items()),
    ],
)
def test_other_columns_or_types_pass_for_nobody(rows: list[dict[str, object]]) -> None:
    """The shape of the frame is part of the contract."""
    assert not contract_verdicts(rows, ["orders-0"])["orders-0"].passed


def test_the_key_of_a_log_is_a_text() -> None:
    """As it is of all other columns, the type is part of the contract."""
    assert not contract_verdicts([row(topic_partition=0)], ["0"])["0"].passed


def test_log_without_segments_passes() -> None:
    """Nothing to say against nothing; the profile asks whether something should be there."""
    assert contract_verdicts([], ["orders-0"])["orders-0"].passed
