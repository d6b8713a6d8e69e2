"""Two requests for one key."""

from __future__ import annotations

import pytest

from logwright.erasure.concerned import Concerned

REQUESTS = [(b"k", "orders"), (b"k", "regex:o.*"), (b"k", "users"), (b"other", "orders")]


@pytest.mark.parametrize(
    ("named", "topic", "all_of_them"),
    [
        (0, "orders", (0, 1)),
        (1, "orders", (0, 1)),
        (1, "other", (1,)),
        (2, "users", (2,)),
        (3, "orders", (3,)),
        (0, "elsewhere", (0,)),
        (0, "", (0, 1, 2)),
        (3, "", (3,)),
    ],
)
def test_all_requests_of_a_key(named: int, topic: str, all_of_them: tuple[int, ...]) -> None:
    """A record counts for each whose topics it is one of, or whose topic is not known; a search
    names only one of them.
    """
    assert all_of_them == Concerned(REQUESTS).by(named, topic)
