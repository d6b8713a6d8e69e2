"""The tags of a requested sweep: what it is about, why, and until when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from logwright.pipelines.segments.due import NEVER_MS, Reading
from logwright.pipelines.segments.tags import SHOWN_TOPICS, run_tags

NOW_MS = 1_700_000_000_000
DUE = Reading(
    signature="s",
    due=True,
    unclean=False,
    deadline_ms=NEVER_MS,
    ratio=0.9,
    total_bytes=1,
    look_again_ms=NEVER_MS,
    requested_ms=NEVER_MS,
    reason="dirty ratio 0.90 of 0.50",
)


@pytest.mark.parametrize(
    ("reading", "reason"),
    [
        (DUE, "min.cleanable.dirty.ratio"),
        (replace(DUE, unclean=True), "recovery"),
        (replace(DUE, deadline_ms=NOW_MS), "max.compaction.lag.ms"),
        (replace(DUE, deadline_ms=NOW_MS + 1), "min.cleanable.dirty.ratio"),
        (replace(DUE, reason="due to roll: it is old"), "roll"),
        (replace(DUE, due=False, deadline_ms=NOW_MS + 1), "deadline ahead"),
    ],
)
def test_reason(reading: Reading, reason: str) -> None:
    """Of the most urgent log."""
    tags = run_tags(["orders-0", "users-1"], {"orders-0": reading, "users-1": DUE}, now_ms=NOW_MS)
    assert reason == tags["logwright/reason"]
    assert ("2", "orders-0") == (tags["logwright/logs"], tags["logwright/most_urgent"])


def test_topics_and_the_first_deadline() -> None:
    """Each topic once, without directory and partition; the earliest deadline."""
    logs = ["disk1:my-orders-0", "my-orders-1", "a-0"]
    readings = dict.fromkeys(logs, DUE) | {
        "my-orders-1": replace(DUE, deadline_ms=NOW_MS + 1_000),
        "a-0": replace(DUE, deadline_ms=NOW_MS),
    }
    tags = run_tags(logs, readings, now_ms=NOW_MS)
    assert "my-orders,a" == tags["logwright/topics"]
    assert "2023-11-14T22:13:20Z" == tags["logwright/deadline"]


def test_without_a_deadline_and_with_many_topics() -> None:
    """A tag stays short."""
    logs = [f"t{number}-0" for number in range(SHOWN_TOPICS + 1)]
    tags = run_tags(logs, dict.fromkeys(logs, DUE), now_ms=NOW_MS)
    assert "logwright/deadline" not in tags
    assert tags["logwright/topics"].endswith(f",t{SHOWN_TOPICS - 1},…")
