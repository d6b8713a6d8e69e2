"""What became of a request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from logwright.erasure.account import Look
from logwright.erasure.outlook.verdict import next_deadline_ms, verdict

NOW = 1_000


ALL = Look(topics=1, unsearched=0, erased=True)
PART = replace(ALL, unsearched=1)
NOTHING = replace(ALL, erased=False)
NOWHERE = replace(NOTHING, topics=0)
OTHERS = replace(ALL, others=frozenset({"ab"}))


@pytest.mark.parametrize(
    ("gone_by", "deadline", "look", "state", "last"),
    [
        ([], None, ALL, "gone", None),
        ([], 2_000, ALL, "gone", None),
        ([], 500, ALL, "gone", None),
        ([], 2_000, NOTHING, "not found", None),
        ([], 500, NOTHING, "not found", None),
        ([], 2_000, NOWHERE, "not proved", None),
        ([], 2_000, replace(NOWHERE, erased=True), "not proved", None),
        ([], 2_000, PART, "not proved", None),
        ([], 500, PART, "not proved", None),
        ([1_500, 1_200], 1_500, ALL, "in time", 1_500),
        ([1_500, 1_200], 1_500, NOTHING, "in time", 1_500),
        ([1_500, 1_200], 1_500, PART, "not proved", 1_500),
        ([1_500], 1_499, ALL, "will be late", 1_500),
        ([1_500], 1_499, PART, "not proved", 1_500),
        ([1_500, None], 9_000, ALL, "will be late", None),
        ([900], 9_000, ALL, "in time", 900),
        ([900], NOW, ALL, "missed", 900),
        ([900], NOW + 1, ALL, "in time", 900),
        ([None], 500, PART, "missed", None),
        ([None], 500, NOWHERE, "missed", None),
        ([5_000], None, ALL, "in time", 5_000),
        ([5_000], None, PART, "not proved", 5_000),
        ([5_000, None], None, ALL, "remains", None),
        ([5_000, None], None, PART, "not proved", None),
        ([], None, OTHERS, "gone as bytes", None),
        ([], 500, replace(OTHERS, erased=False), "gone as bytes", None),
        ([], 500, replace(OTHERS, unsearched=1), "not proved", None),
        ([1_500], 1_500, OTHERS, "gone as bytes", 1_500),
        ([1_500], 1_499, OTHERS, "will be late", 1_500),
        ([None], None, OTHERS, "remains", None),
        ([], 500, replace(ALL, unformed=True), "gone as bytes", None),
        ([], 500, replace(NOTHING, unformed=True), "gone as bytes", None),
        ([1_500], 1_500, replace(ALL, unformed=True), "in time", 1_500),
    ],
)
def test_verdict(
    gone_by: list[int | None], deadline: int | None, look: Look, state: str, last: int | None
) -> None:
    """The table of the module, at the edges of its ms."""
    became = verdict(gone_by, deadline, now_ms=NOW, look=look)
    assert (state, len(gone_by), last) == (became.state, became.found, became.gone_by_ms)


@pytest.mark.parametrize("unsearched", [0, 1])
@pytest.mark.parametrize("topics", [0, 1])
@pytest.mark.parametrize("erased", [True, False])
@pytest.mark.parametrize("gone_by", [[], [None], [1_500]])
@pytest.mark.parametrize("deadline", [None, 500, 1_200, 9_000])
def test_nothing_good_without_a_whole_search(
    unsearched: int, topics: int, erased: bool, gone_by: list[int | None], deadline: int | None
) -> None:
    """Whatever else is known: with a place that was not searched, or no topic, a request is not
    gone, not found, nor in time; and it is gone only by what is on record.
    """
    look = Look(topics=topics, unsearched=unsearched, erased=erased)
    state = verdict(gone_by, deadline, now_ms=NOW, look=look).state
    assert not (unsearched and state in ("gone", "not found", "in time", "will be late"))
    assert not (state in ("gone", "not found") and (gone_by or not topics))
    assert not (state == "gone" and not erased)


def test_next_deadline() -> None:
    """The first to come of what is not gone."""
    rows = [
        ("gone", 1_100),
        ("not found", 1_200),
        ("missed", 900),
        ("in time", 3_000),
        ("will be late", 2_000),
    ]
    assert 2_000 == next_deadline_ms(rows, NOW)  # type: ignore[arg-type]  # of State
    assert next_deadline_ms([("in time", None)], NOW) is None
