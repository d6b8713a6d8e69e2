"""Which record of a key is the newest of a whole topic."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyroaring import BitMap64

from logwright.tables.heads import (
    HEADS,
    Decision,
    Known,
    Vanishing,
    as_dead,
    decide,
    expired,
    forgettable,
    remembered,
    vanished,
)

Head = tuple[bytes, int, int, int, bool]
"""Key, partition, offset, time, whether it is dead."""


def heads(*some: Head, seen: int = 0) -> pa.Table:
    rows = [dict(zip(HEADS.names, (*one, seen, None), strict=True)) for one in some]
    return pa.Table.from_pylist(rows, HEADS)


def places(table: pa.Table) -> list[tuple[int, int]]:
    """Partition and offset of some heads."""
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def decided(*, hidden: pa.Table = None, rows: pa.Table = None, new: pa.Table = None) -> Decision:
    parts = {"hidden": hidden, "rows": rows, "new": new}
    return decide(Known(**{name: heads() if one is None else one for name, one in parts.items()}))


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ((b"k", 0, 9, 100, False), (b"k", 1, 0, 101, False), [(1, 0)]),  # later
        ((b"k", 0, 9, 100, False), (b"k", 1, 0, 99, False), []),  # earlier: the row stays
        ((b"k", 0, 9, 100, False), (b"k", 1, 10, 100, False), [(1, 10)]),  # the same time
        ((b"k", 0, 9, 100, False), (b"k", 1, 8, 100, False), []),
        ((b"k", 0, 9, 100, False), (b"k", 1, 9, 100, False), [(1, 9)]),  # and the same offset
        ((b"k", 1, 9, 100, False), (b"k", 0, 9, 100, False), []),
        ((b"k", 0, 9, 100, False), (b"k", 0, 10, 1, False), [(0, 10)]),  # of one log: the offset
    ],
)
def test_the_newest_by_time_then_offset_then_partition(
    old: Head, new: Head, shown: list[tuple[int, int]]
) -> None:
    """Of several partitions; of one partition the offset decides, as for compaction."""
    done = decided(rows=heads(old), new=heads(new))
    assert shown == places(done.written)
    assert ([old[1:3]] if shown else []) == places(done.replaced)


def test_a_newer_tombstone_takes_the_row_of_another_partition_away() -> None:
    """And an older one does not; both are kept as hidden heads."""
    done = decided(
        rows=heads((b"a", 0, 1, 100, False), (b"b", 0, 2, 100, False)),
        new=heads((b"a", 1, 1, 101, True), (b"b", 1, 2, 99, True)),
    )
    assert [] == places(done.written)
    assert [(0, 1)] == places(done.replaced)
    assert [(0, 1), (1, 1), (1, 2)] == places(done.hidden)


def test_a_key_in_one_partition_has_its_row() -> None:
    """Keys are compared as a whole, and nothing of them is hidden."""
    done = decided(new=heads((b"a", 0, 1, 5, False), (b"ab", 1, 1, 6, False)))
    assert [(0, 1), (1, 1)] == places(done.written)
    assert 0 == len(done.hidden) == len(done.lacking) == len(done.replaced)


def test_a_hidden_head_that_is_the_newest_again_lacks_its_value() -> None:
    """If the row of its key is replaced by an older record of the same partition."""
    known = {"hidden": heads((b"k", 0, 5, 100, False)), "rows": heads((b"k", 1, 1, 101, False))}
    done = decided(**known, new=heads((b"k", 1, 2, 99, False)))
    assert [(0, 5)] == places(done.lacking)
    assert ([], [(1, 1)], [(1, 2)]) == tuple(
        places(each) for each in (done.written, done.replaced, done.hidden)
    )


def test_what_is_forgotten() -> None:
    """Tombstones of keys without a record elsewhere, once they were seen long enough ago."""
    hidden = pa.concat_tables(
        [
            heads((b"moved", 0, 1, 1, False), (b"moved", 1, 1, 2, True)),
            heads((b"deleted", 0, 2, 1, True), (b"deleted", 1, 2, 2, True)),
            heads((b"late", 0, 3, 1, True), seen=11),
        ]
    )
    assert [(0, 2), (0, 3), (1, 2)] == places(forgettable(hidden))
    assert [(0, 2), (1, 2)] == places(expired(hidden, 10))
    assert [(0, 2), (0, 3), (1, 2)] == places(expired(hidden, 11))
    nothing = pa.chunked_array([pa.array([], pa.binary())])
    for seen_until_ms, left in ((10, [(0, 1), (0, 3), (1, 1)]), (11, [(0, 1), (1, 1)])):
        kept = remembered(hidden, seen_until_ms, shown=nothing, now_ms=20)
        assert left == places(kept)
    # A key that has a row is in another partition, too: for another period.
    shown = pa.chunked_array([pa.array([b"deleted", b"late"])])
    kept = remembered(hidden, 10, shown=shown, now_ms=20)
    seen = {(row["partition"], row["offset"]): row["seen"] for row in kept.to_pylist()}
    before = hidden["seen"][0].as_py()
    assert {(0, 1): before, (0, 2): 20, (0, 3): 11, (1, 1): before, (1, 2): 20} == seen
    # After an erasure only what the logs have: when the others were seen does not matter.
    late = hidden.filter(pc.equal(hidden["key"], b"late"))
    for in_log, left in ((None, [(0, 3)]), (late, [(0, 3)]), (late[:0], [])):
        assert left == places(remembered(late, 10, shown=nothing, now_ms=20, in_log=in_log))
        assert len(left) == 1 - len(expired(late, 10, in_log=in_log))
    assert [] == places(remembered(late, 11, shown=nothing, now_ms=20, in_log=late))


LIVE, DEAD = (b"live", 0, 5, 1, False), (b"dead", 0, 6, 1, True)


@pytest.mark.parametrize(
    ("log", "left"),
    [
        (Vanishing(log_start_offset=0, cleaned_to=10, now_ms=7), [(0, 5), (0, 6)]),
        (Vanishing(log_start_offset=0, cleaned_to=6, now_ms=7), [(0, 5)]),  # not cleaned: cut off
        (Vanishing(log_start_offset=0, cleaned_to=0, now_ms=7), []),
        (Vanishing(log_start_offset=9, cleaned_to=10, now_ms=7), [(0, 6)]),  # by retention
        (Vanishing(log_start_offset=0, cleaned_to=10, now_ms=7, erased=True), [(0, 6)]),
        (Vanishing(log_start_offset=0, cleaned_to=10, now_ms=7, another=True), []),
    ],
)
def test_a_record_that_is_gone_was_deleted(log: Vanishing, left: list[tuple[int, int]]) -> None:
    """Where the log was cleaned; not if it was cut off, its start moved, or records were erased."""
    gone = log.left(heads(LIVE, DEAD))
    assert left == places(gone)
    assert all(gone["dead"].to_pylist())


def test_when_a_deletion_was_seen() -> None:
    """A row that is gone is seen as deleted now, a tombstone when it was read."""
    assert [7, 0] == as_dead(heads(LIVE, DEAD), 7)["seen"].to_pylist()


def test_vanished_are_records_that_the_log_has_not() -> None:
    """Of those with a value."""
    assert [True, False, False] == vanished(
        heads(LIVE, DEAD, (b"held", 0, 7, 1, False)), BitMap64([7, 8])
    ).tolist()
