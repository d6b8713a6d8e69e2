"""Each rule of the audit, as a table: what healthy replicas look like, and what they do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from logwright.audit.model import (
    HIDDEN,
    KEYED,
    NONE,
    NOWHERE,
    ROW,
    TOMBSTONE,
    TRANSACTED,
    Difference,
    Span,
    Transactions,
)
from logwright.audit.rules import (
    Sums,
    diverged,
    frozen_offsets,
    judge_keys,
    lost_markers,
    next_markers,
)
from logwright.format.scan import ABORT, COMMIT

A, B = "a", "b"
ALL = Span(0, 100)


def pairs(*rows: tuple[int, int]) -> NDArray[np.int64]:
    return np.array(sorted(rows), dtype=np.int64).reshape(-1, 2)


def transactions(
    *data: tuple[int, int],
    markers: Sequence[tuple[int, int, int]] = (),
    opened: Sequence[tuple[int, int]] = (),
    emptied: Sequence[tuple[int, int]] = (),
) -> Transactions:
    """Data, markers, open transactions and emptied batches, each with its producer first."""
    return Transactions(
        data=pairs(*data),
        emptied=pairs(*emptied),
        markers=np.array(sorted(markers), dtype=np.int64).reshape(-1, 3),
        open=pairs(*opened),
    )


def rows(*records: tuple[int, str, int]) -> NDArray[np.void]:
    """Records of (offset, key, flags)."""
    made = np.zeros(len(records), dtype=ROW)
    for row, (offset, key, flags) in zip(made, records, strict=True):
        row["offset"], row["hash1"], row["hash2"] = offset, ord(key), 7
        row["flags"] = flags | KEYED
    return made


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ((5, 3), (10, COMMIT)),
        ((5, 11), (20, ABORT)),
        ((5, 30), (NOWHERE, -1)),
        ((6, 1), (12, ABORT)),
        ((7, 1), (NOWHERE, -1)),
    ],
)
def test_the_next_marker_of_a_producer(data: tuple[int, int], expected: tuple[int, int]) -> None:
    """A marker ends what its producer wrote before it."""
    markers = transactions(markers=[(5, 10, COMMIT), (5, 20, ABORT), (6, 12, ABORT)]).markers
    ends = next_markers(pairs(data), markers)
    assert expected == (int(ends.offset[0]), int(ends.kind[0]))


DATA = (5, 3)
OWN = {
    "none": transactions(DATA),
    "same": transactions(DATA, markers=[(5, 10, COMMIT)]),
    "later": transactions(DATA, markers=[(5, 20, COMMIT)]),
    "later abort": transactions(DATA, markers=[(5, 20, ABORT)]),
    "earlier": transactions(DATA, markers=[(5, 5, COMMIT)]),
    "of another": transactions(DATA, markers=[(6, 10, COMMIT)]),
    "no data": transactions(),
}


@pytest.mark.parametrize(
    ("own", "kind", "end", "expected"),
    [
        ("none", COMMIT, 100, "lost marker"),
        ("none", COMMIT, 11, "lost marker"),
        ("none", COMMIT, 10, None),
        ("none", ABORT, 100, "lost marker"),
        ("of another", COMMIT, 100, "lost marker"),
        ("same", COMMIT, 100, None),
        ("earlier", COMMIT, 100, None),
        ("later", COMMIT, 100, "lost marker"),
        ("later", ABORT, 100, "aborted record shown"),
        ("later abort", COMMIT, 100, "committed record hidden"),
        ("no data", COMMIT, 100, None),
    ],
)
def test_markers_stay_with_their_data(own: str, kind: int, end: int, expected: str | None) -> None:
    """A replica with data has the marker that another one has for it, unless it ends before; it
    does not matter whether the other one still has the data.
    """
    for other in (
        transactions(DATA, markers=[(5, 10, kind)]),
        transactions(markers=[(5, 10, kind)]),
    ):
        differences = lost_markers((0, 1), OWN[own], other, (Span(0, end), ALL))
        wanted = [] if expected is None else [Difference(expected, 0, 3, 1, 10, 5)]  # type: ignore[arg-type]
        assert wanted == differences


def test_data_below_the_log_start_offset_needs_no_marker() -> None:
    """Retention deletes markers, and nobody sees the data."""
    other = transactions(markers=[(5, 10, COMMIT)])
    assert [] == lost_markers((0, 1), OWN["none"], other, (Span(4, 100), ALL))


def test_a_lost_marker_counts_once() -> None:
    """Whatever data it had."""
    own = transactions((5, 1), (5, 2), (5, 3))
    other = transactions(markers=[(5, 10, COMMIT)])
    assert [Difference("lost marker", 0, 1, 1, 10, 5)] == lost_markers(
        (0, 1), own, other, (ALL, ALL)
    )


OPEN = transactions(DATA, opened=[DATA])


@pytest.mark.parametrize(
    ("other", "spans", "expected"),
    [
        (transactions(markers=[(5, 10, COMMIT)]), (ALL, ALL), [10]),
        (transactions(markers=[(5, 10, ABORT)]), (Span(0, 11), ALL), [10]),
        (transactions(markers=[(5, 10, COMMIT)]), (Span(0, 10), ALL), []),
        (transactions(markers=[(6, 10, COMMIT)]), (ALL, ALL), [NONE]),
        (transactions(), (ALL, ALL), [NONE]),
        (transactions(), (Span(0, 5), ALL), [NONE]),
        (transactions(), (ALL, Span(0, 3)), []),
        (transactions(), (ALL, Span(4, 100)), []),
        (transactions(DATA), (ALL, ALL), []),
        (transactions(emptied=[DATA]), (ALL, ALL), []),
        (OPEN, (ALL, ALL), []),
        (transactions(opened=[(5, 2)]), (ALL, ALL), []),
    ],
    ids=[
        "ended there",
        "this replica ends after the marker",
        "this replica ends before the marker",
        "another producer",
        "removed there",
        "removed there, and this replica ends before",
        "not reached there",
        "deleted by retention there",
        "there without marker",
        "emptied there",
        "open there",
        "open from another offset on there",
    ],
)
def test_open_transactions(
    other: Transactions, spans: tuple[Span, Span], expected: list[int]
) -> None:
    """A transaction that is open here ends, unless its marker has been removed or lost."""
    differences = frozen_offsets((0, 1), OPEN, other, spans, ALL.end)
    assert [
        Difference("frozen last stable offset", 0, 3, 1, offset, 5) for offset in expected
    ] == differences


def test_removed_data_of_a_replica_that_lags() -> None:
    """Proves nothing: its leader, which has gone further, may have the marker above its end."""
    assert frozen_offsets((0, 1), OPEN, transactions(), (ALL, ALL), ALL.end)
    assert not frozen_offsets((0, 1), OPEN, transactions(), (ALL, ALL), ALL.end + 1)


VALUE = rows((10, A, 0))
DELETED = TOMBSTONE
IN_TXN = TRANSACTED
OPEN_TXN = TRANSACTED | HIDDEN


@pytest.mark.parametrize(
    ("own", "other", "spans", "expected"),
    [
        (VALUE, VALUE, (ALL, ALL), []),
        (VALUE, rows((20, A, DELETED)), (ALL, ALL), [("resurrected key", 0, 10, 20)]),
        (VALUE, rows((20, A, DELETED)), (Span(0, 21), ALL), [("resurrected key", 0, 10, 20)]),
        (VALUE, rows((20, A, DELETED)), (Span(0, 20), ALL), []),
        (VALUE, rows((20, A, 0)), (Span(0, 20), ALL), []),
        (VALUE, rows((20, A, 0)), (ALL, ALL), [("lost record", 0, 20, 20)]),
        (VALUE, rows(), (ALL, ALL), [("resurrected key", 0, 10, NONE)]),
        (VALUE, rows(), (Span(0, 11), ALL), [("resurrected key", 0, 10, NONE)]),
        (VALUE, rows(), (ALL, Span(0, 10)), []),
        (VALUE, rows(), (ALL, Span(11, 100)), []),
        (VALUE, rows((5, A, 0)), (ALL, Span(0, 10)), []),
        (VALUE, rows((5, A, 0)), (ALL, ALL), [("lost record", 1, 10, 10)]),
        (
            VALUE,
            rows((5, B, 0), (10, A, 0)),
            (ALL, ALL),
            [("resurrected key", 1, 5, NONE)],
        ),
        (rows((10, A, DELETED)), rows(), (ALL, ALL), []),
        (rows((10, A, DELETED)), rows((10, A, DELETED)), (ALL, ALL), []),
        (rows((5, A, 0), (10, A, 0)), VALUE, (ALL, ALL), []),
        (rows((5, A, 0), (10, A, DELETED)), rows(), (ALL, ALL), []),
        (rows((10, A, OPEN_TXN)), rows(), (ALL, ALL), []),
        (rows((5, A, 0), (10, A, OPEN_TXN)), rows((10, A, IN_TXN)), (Span(0, 11), ALL), []),
        (rows((5, A, 0), (10, A, OPEN_TXN)), rows((5, A, 0)), (ALL, ALL), []),
        (rows((10, A, IN_TXN)), rows((5, A, 0)), (ALL, ALL), [("aborted record shown", 0, 10, 5)]),
        (rows((10, A, IN_TXN)), rows(), (ALL, ALL), [("resurrected key", 0, 10, NONE)]),
        (rows((20, A, 0)), rows((10, A, DELETED)), (ALL, ALL), [("lost record", 1, 20, 20)]),
    ],
)
def test_the_latest_records_of_a_key(
    own: NDArray[np.void],
    other: NDArray[np.void],
    spans: tuple[Span, Span],
    expected: list[tuple[str, int, int, int]],
) -> None:
    """Replicas that have passed the same offsets agree on the latest record of a key, unless it is
    a tombstone that one of them has removed. The order of the replicas does not matter.
    """
    differences = list(judge_keys([own, other], spans, {}))
    assert expected == [(*each[:3], each.other_offset) for each in differences]
    swapped = list(judge_keys([other, own], spans[::-1], {}))
    assert [(kind, 1 - at, *rest) for kind, at, *rest in expected] == [
        (*each[:3], each.other_offset) for each in swapped
    ]


def test_keys_above_a_diverged_offset_are_not_judged() -> None:
    """What was written from there on is another log."""
    assert [] == list(judge_keys([VALUE, rows()], [ALL, ALL], {(0, 1): 10}))
    assert [] != list(judge_keys([VALUE, rows()], [ALL, ALL], {(0, 1): 11}))
    assert [] != list(judge_keys([VALUE, rows(), rows()], [ALL, ALL, ALL], {(0, 1): 10}))


def stream(*parts: Sequence[tuple[int, int]]) -> Iterator[Sums]:
    """Records of (offset, sum), in parts."""
    for part in parts:
        table = np.array(part, dtype=np.int64).reshape(-1, 2)
        yield table[:, 0], table[:, 1].astype(np.uint64)


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        ([[[(1, 7), (2, 8)]], [[(1, 7)], [(2, 8)]]], []),
        ([[[(1, 7), (2, 8)]], [[(2, 8), (3, 9)]]], []),
        ([[[(1, 7), (2, 8)]], [[(1, 7), (2, 9)]]], [(2, (0, 1))]),
        ([[[(1, 7)], [(5, 8)]], [[(2, 1), (5, 9)]]], [(5, (0, 1))]),
        ([[[(1, 7)]], [], [[(1, 8)]]], [(1, (0, 2))]),
        ([[[(1, 7)]], [[(1, 7)]], [[(1, 8)]]], [(1, (0, 2)), (1, (1, 2))]),
        ([[], []], []),
    ],
)
def test_records_at_one_offset(
    streams: list[list[list[tuple[int, int]]]], expected: list[tuple[int, tuple[int, int]]]
) -> None:
    """They are the same, in however many parts they are read."""
    assert expected == list(diverged([stream(*parts) for parts in streams]))


@pytest.mark.parametrize(
    ("third", "span", "expected"),
    [
        (rows((60, A, 0)), Span(0, 100), []),
        (rows((60, A, DELETED)), Span(0, 100), []),
        (rows((10, A, 0), (60, A, 0)), Span(0, 100), []),
        (rows((60, A, OPEN_TXN)), Span(0, 100), [("resurrected key", 0, 2)]),
        (rows(), Span(0, 100), [("resurrected key", 0, 2)]),
        (rows(), Span(0, 50), [("resurrected key", 0, 1), ("resurrected key", 0, 2)]),
        (rows(), Span(11, 100), [("resurrected key", 0, 1)]),
    ],
)
def test_what_a_leader_had_superseded_is_not_lost(
    third: NDArray[np.void], span: Span, expected: list[tuple[str, int, int]]
) -> None:
    """A lagging replica does not have what its leader had removed already: the one that has
    gone further is judged instead.
    """
    spans = [Span(0, 50), Span(0, 50), span]
    differences = list(judge_keys([VALUE, rows(), third], spans, {}))
    assert expected == [(each.kind, each.replica, each.other) for each in differences]


def test_a_tombstone_that_a_leader_had_superseded_is_not_lost() -> None:
    """A later record of the key comes."""
    deleted = rows((20, A, DELETED))
    spans = [Span(0, 50), Span(0, 50), ALL]
    assert [] == list(judge_keys([VALUE, deleted, rows((60, A, 0))], spans, {}))
    assert [(0, 2)] == [
        (each.replica, each.other) for each in judge_keys([VALUE, deleted, rows()], spans, {})
    ]
