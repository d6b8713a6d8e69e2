"""The rules by which a table is continued or made again, as a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from logwright.errors import PreconditionError
from logwright.tables.batches import Batches
from logwright.tables.model import (
    Form,
    Progress,
    Tail,
    UnknownTable,
    dump_form,
    dump_progress,
    load_form,
    load_progress,
)
from logwright.tables.plan import (
    Observed,
    differences,
    gone_partitions,
    plan_partition,
)

READ_AT = 1_000_000
RECORDED = Progress(
    end_offset=100,
    topic_id="A",
    log_start_offset=10,
    tail=Tail(95, 7, 3),
)
SEEN = Observed(
    topic_id="A",
    log_start_offset=10,
    end_offset=150,
    high_watermark=150,
    log_end_offset=150,
    now_ms=READ_AT,
    tail=Tail(95, 7, 3),
)

CASES = {
    # name: (what differs in the log, kind, from, reason has)
    "new records": ({}, "upsert", 100, ""),
    "no new records": ({"end_offset": 100}, "nothing", 100, ""),
    "no new records, after years": (
        {"end_offset": 100, "now_ms": READ_AT + 10**12},
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
        {"tail": Tail(95, 8, 4)},
        *("rebuild", None, "the batch of offset 95 is another one"),
    ),
    "cut off and grown to the same end": (
        {"tail": Tail(95, 8, 4), "end_offset": 100},
        *("rebuild", None, "the batch of offset 95 is another one"),
    ),
    "the last batch was cleaned": ({"tail": Tail(95, 8, 3)}, "upsert", 100, ""),
    "of the last batch only the record is not known": (
        {"tail": Tail(95, 7, None)},
        *("upsert", 100, ""),
    ),
    "the last batch was removed": (
        {"tail": None},
        *("rebuild", None, "the batch of offset 95 is another one"),
    ),
    "a gap": ({"missing_offset": 120}, "upsert", 100, "offset 120 is missing"),
    "a gap, whatever the clock says": (
        {"missing_offset": 120, "now_ms": READ_AT - 10},
        *("upsert", 100, "offset 120 is missing"),
    ),
    "no gap, after years": ({"now_ms": READ_AT + 10**12}, "upsert", 100, ""),
    "the high watermark is lower, and the log too": (
        {"high_watermark": 90, "end_offset": 90, "log_end_offset": 99},
        *("rebuild", None, "the last stable offset 90 is below offset 100"),
    ),
    "the high watermark is lower, of another topic": (
        {"high_watermark": 90, "end_offset": 90, "topic_id": "B"},
        *("rebuild", None, "the topic id was A and is B"),
    ),
    "the high watermark is lower, and the log was cut off": (
        {"high_watermark": 90, "end_offset": 90, "tail": None},
        *("rebuild", None, "the last stable offset 90 is below offset 100"),
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


def test_a_gap_is_compared() -> None:
    """Rows whose record is gone are looked for, and only then."""
    assert plan_partition(RECORDED, replace(SEEN, missing_offset=120)).compares
    assert not plan_partition(RECORDED, SEEN).compares


@pytest.mark.parametrize("erasure", [None, "x done"])
def test_the_high_watermark_alone_takes_no_row_away(erasure: str | None) -> None:
    """It is refused, with what can be done, also after an erasure."""
    lower = replace(SEEN, high_watermark=90, end_offset=90, erasure=erasure)
    with pytest.raises(PreconditionError, match="the high watermark is 90, below offset 100"):
        plan_partition(RECORDED, lower)


@pytest.mark.parametrize("end", [100, 150])
@pytest.mark.parametrize(("age_ms", "purges"), [(4999, False), (5000, True)])
def test_deleted_rows_leave_their_files_by_age(end: int, age_ms: int, *, purges: bool) -> None:
    """Also if nothing is new."""
    recorded = replace(RECORDED, deleted_since_ms=READ_AT)
    seen = replace(SEEN, end_offset=end, now_ms=READ_AT + age_ms)
    step = plan_partition(recorded, seen, keep_ms=5000)
    expected = "upsert" if purges or end > RECORDED.end_offset else "nothing"
    assert (expected, purges) == (step.kind, step.purges)


@pytest.mark.parametrize("end", [100, 150])
def test_what_another_program_has_changed_is_made_again(end: int) -> None:
    """With what it was; also if nothing is new."""
    recorded = replace(RECORDED, in_doubt="DELETE in version 7")
    step = plan_partition(recorded, replace(SEEN, end_offset=end))
    assert ("rebuild", None) == (step.kind, step.start_offset)
    assert "another program has changed the table: DELETE in version 7" == step.reason


def test_only_an_erasure_lets_earlier_versions_go() -> None:
    """At once, by the step that takes the records out."""
    assert plan_partition(RECORDED, replace(SEEN, erasure="x done")).erased
    assert not plan_partition(RECORDED, replace(SEEN, log_start_offset=11)).erased


def test_a_copy_with_other_batches_lets_earlier_versions_go() -> None:
    """Records may have been erased from it, whose mark did not come with the copy."""
    held = Batches(files="a", total="0", cleaned_to=None)
    recorded, other = replace(RECORDED, batches=held), replace(held, files="b", total="1")
    assert plan_partition(recorded, replace(SEEN, batches=other)).erased
    assert not plan_partition(recorded, replace(SEEN, batches=replace(held, files="b"))).erased


def test_a_tail_of_an_earlier_version() -> None:
    """It has no record: only the same batch is the same."""
    known = Tail(95, 7)
    assert known.is_of(Tail(95, 7, 3))
    assert not known.is_of(Tail(95, 8))
    assert not known.is_of(None)


def test_the_first_time() -> None:
    """All of it, with the reason."""
    step = plan_partition(None, SEEN)
    assert ("rebuild", None, 150) == (step.kind, step.start_offset, step.end_offset)
    assert step.reason
    assert not step.forgets


@pytest.mark.parametrize(
    ("changes", "forgets"),
    [
        ({"topic_id": "B"}, True),
        ({"end_offset": 99}, True),
        ({"tail": None}, True),
        ({"log_start_offset": 11}, False),
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
    noted = replace(RECORDED, rows=7, deleted_since_ms=3, in_doubt="x", erased=True)
    progress = {0: RECORDED, 5: noted, 11: replace(RECORDED, topic_id=None, tail=None)}
    assert load_progress(dump_progress(progress), table="x") == progress
    assert load_progress(None, table="x") == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 2}', '{"version": 1}'])
def test_what_others_stored_is_refused(text: str) -> None:
    """By name, with the table."""
    with pytest.raises(UnknownTable, match="the table x was not made by this version"):
        load_form(text, table="x")
    with pytest.raises(UnknownTable):
        load_progress(text, table="x")


def test_what_is_not_known_may_have_erased_records() -> None:
    """A table that does not say what it holds may be of before the erasure."""
    assert not plan_partition(None, SEEN).erased
    assert plan_partition(None, replace(SEEN, erasure="a mark")).erased
