"""What became of a request."""

from __future__ import annotations

import pytest

from logwright.erasure.certificate.deadlines import next_deadline_ms, verdict

NOW = 1_000


@pytest.mark.parametrize(
    ("gone_by", "deadline", "all_read", "state", "last"),
    [
        ([], None, True, "gone", None),
        ([], 2_000, True, "gone", None),
        ([], 500, True, "gone", None),
        ([], 2_000, False, "not proved", None),
        ([1_500, 1_200], 1_500, True, "in time", 1_500),
        ([1_500], 1_499, True, "will be late", 1_500),
        ([1_500, None], 9_000, True, "will be late", None),
        ([900], 9_000, True, "in time", 900),
        ([900], NOW, True, "missed", 900),
        ([900], NOW + 1, True, "in time", 900),
        ([None], 500, False, "missed", None),
        ([5_000], None, True, "in time", 5_000),
        ([5_000, None], None, True, "remains", None),
    ],
)
def test_verdict(
    gone_by: list[int | None], deadline: int | None, all_read: bool, state: str, last: int | None
) -> None:
    """The table of the module, at the edges of its ms."""
    became = verdict(gone_by, deadline, now_ms=NOW, all_read=all_read)
    assert (state, len(gone_by), last) == (became.state, became.found, became.gone_by_ms)


def test_next_deadline() -> None:
    """The first to come of what is not gone."""
    rows = [("gone", 1_100), ("missed", 900), ("in time", 3_000), ("will be late", 2_000)]
    assert 2_000 == next_deadline_ms(rows, NOW)  # type: ignore[arg-type]  # of State
    assert next_deadline_ms([("in time", None)], NOW) is None
