"""The rules by which a table is continued or made again, as a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from logwright.tables.model import (
    Form,
    Progress,
    UnknownTable,
    dump_form,
    dump_progress,
    load_form,
    load_progress,
)
from logwright.tables.plan import (
    Observed,
    asks_for_missing,
    differences,
    gone_partitions,
    plan_partition,
)

READ_AT = 1_000_000
RECORDED = Progress(
    end_offset=100,
    topic_id="A",
    log_start_offset=10,
    read_at_ms=READ_AT,
    delete_retention_ms=5000,
    tail=(95, 7),
)
SEEN = Observed(
    topic_id="A",
    log_start_offset=10,
    end_offset=150,
    delete_retention_ms=5000,
    now_ms=READ_AT,
    tail=(95, 7),
)

CASES = {
    # name: (what differs in the log, kind, from, reason has)
    "new records": ({}, "upsert", 100, ""),
    "no new records": ({"end_offset": 100}, "nothing", 100, ""),
    "no new records, after years": (
        {"end_offset": 100, "now_ms": READ_AT + 10**12, "missing_offset": 100},
        *("nothing", 100, ""),
    ),
    "another topic id": ({"topic_id": "B"}, "rebuild", None, "the topic id was A and is B"),
    "no topic id any more": ({"topic_id": None}, "rebuild", None, "the topic id was A and is None"),
    "log start offset raised": (
        {"log_start_offset": 11},
        *("rebuild", None, "the log start offset was 10 and is 11"),
    ),
    "log start offset lowered by an undo": (
        {"log_start_offset": 9},
        *("rebuild", None, "the log start offset was 10 and is 9"),
    ),
    "cut off": (
        {"end_offset": 99},
        "rebuild",
        None,
        "the last stable offset 99 is below offset 100",
    ),
    "cut off and grown again": (
        {"tail": (95, 8)},
        *("rebuild", None, "the batch of offset 95 is another one"),
    ),
    "cut off and grown again, above the checkpoint": (
        {"tail": None, "cleaned_to": 95},
        *("rebuild", None, "the batch of offset 95 is another one"),
    ),
    "cut off and grown to the same end": (
        {"tail": (95, 8), "end_offset": 100},
        *("rebuild", None, "the batch of offset 95 is another one"),
    ),
    "the last batch was cleaned": ({"tail": (95, 8), "cleaned_to": 96}, "upsert", 100, ""),
    "the last batch was removed": ({"tail": None, "cleaned_to": 150}, "upsert", 100, ""),
    "a gap, in time": (
        {"missing_offset": 120, "now_ms": READ_AT + 4999},
        *("upsert", 100, ""),
    ),
    "a gap, too late": (
        {"missing_offset": 120, "now_ms": READ_AT + 5000},
        *("rebuild", None, "offset 120 is missing and the log was last read 5000 ms ago"),
    ),
    "too late without a gap": ({"now_ms": READ_AT + 10**9}, "upsert", 100, ""),
    "a gap, and the retention was shortened": (
        {"missing_offset": 120, "now_ms": READ_AT + 1000, "delete_retention_ms": 1000},
        *("rebuild", None, "delete.retention.ms=1000"),
    ),
    "a gap, and the retention was prolonged": (
        {"missing_offset": 120, "now_ms": READ_AT + 5000, "delete_retention_ms": 10**9},
        *("rebuild", None, "delete.retention.ms=5000"),
    ),
    "a clock that went back": (
        {"missing_offset": 120, "now_ms": READ_AT - 10},
        *("upsert", 100, ""),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_step(name: str) -> None:
    """Each rule by itself; the end is the log's last stable offset."""
    changes, kind, start, reason = CASES[name]
    observed = replace(SEEN, **changes)  # type: ignore[arg-type]  # names of the table's columns
    step = plan_partition(RECORDED, observed)
    assert (kind, start) == (step.kind, step.start_offset)
    assert observed.end_offset == step.end_offset
    assert reason in step.reason
    assert bool(reason) == bool(step.reason)


@pytest.mark.parametrize("name", CASES)
def test_headers_are_read_only_if_the_plan_depends_on_them(name: str) -> None:
    """If it is not asked for, a missing offset changes nothing; else it makes a rebuild."""
    changes, *_ = CASES[name]
    observed = replace(SEEN, **{**changes, "missing_offset": None})  # type: ignore[arg-type]  # as above
    missing = replace(observed, missing_offset=120)
    without, with_gap = (plan_partition(RECORDED, one) for one in (observed, missing))
    assert asks_for_missing(RECORDED, observed) == (without != with_gap)


def test_the_first_time() -> None:
    """All of it, with the reason."""
    step = plan_partition(None, SEEN)
    assert ("rebuild", None, 150) == (step.kind, step.start_offset, step.end_offset)
    assert step.reason
    assert not asks_for_missing(None, SEEN)
    assert not step.forgets


@pytest.mark.parametrize(
    ("changes", "forgets"),
    [
        ({"topic_id": "B"}, True),
        ({"end_offset": 99}, True),
        ({"tail": None}, True),
        ({"log_start_offset": 11}, False),
        ({"missing_offset": 120, "now_ms": READ_AT + 5000}, False),
    ],
)
def test_what_was_refused_before_is_forgotten_with_its_log(
    changes: dict[str, object], *, forgets: bool
) -> None:
    """Offsets that are of other records now say nothing of these."""
    step = plan_partition(RECORDED, replace(SEEN, **changes))  # type: ignore[arg-type]  # as above
    assert ("rebuild", forgets) == (step.kind, step.forgets)


@pytest.mark.parametrize(
    ("topic_ids", "present", "gone"),
    [
        ({"A"}, {0, 1}, ()),
        ({"A"}, {0}, ()),  # the disk of partition 1 may be unmounted
        ({"B"}, {0}, (1,)),  # a new topic of that name has one partition
        (set(), set(), ()),
    ],
)
def test_partitions_that_are_gone(
    topic_ids: set[str | None], present: set[int], gone: tuple[int, ...]
) -> None:
    """Their rows go only if the topic is another one."""
    recorded = {0: RECORDED, 1: RECORDED}
    assert gone == gone_partitions(recorded, frozenset(topic_ids), frozenset(present))


FORM = Form(topic="t", buckets=4, columns=(("a", "int64"), ("b", "string")), asked="x")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"decoding": "with what was inferred"}, None),
        ({"topic": "u"}, "it is of topic t"),
        ({"buckets": 8}, "it has 4 buckets, not 8"),
        ({"asked": "y"}, "its keys or values were decoded with other settings"),
        ({"columns": (("a", "int32"), ("b", "string"))}, "its columns are others: a"),
        ({"columns": (("a", "int64"), ("c", "string"))}, "its columns are others: b, c"),
    ],
)
def test_tables_of_another_form(changes: dict[str, object], why: str | None) -> None:
    """They are not continued, and it is said why."""
    assert why == differences(FORM, replace(FORM, **changes))  # type: ignore[arg-type]  # as above


def test_what_is_stored_comes_back() -> None:
    """Form and progress as JSON."""
    assert load_form(dump_form(FORM), table="x") == FORM
    progress = {0: RECORDED, 11: replace(RECORDED, topic_id=None, tail=None)}
    assert load_progress(dump_progress(progress), table="x") == progress
    assert load_progress(None, table="x") == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 2}', '{"version": 1}'])
def test_what_others_stored_is_refused(text: str) -> None:
    """By name, with the table."""
    with pytest.raises(UnknownTable, match="the table x was not made by this version"):
        load_form(text, table="x")
    with pytest.raises(UnknownTable):
        load_progress(text, table="x")
