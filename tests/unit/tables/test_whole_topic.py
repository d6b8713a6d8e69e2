"""Tables with one row of a key in the whole topic, after its number of partitions has grown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from logwright.config.table import hidden_of
from logwright.erasure.find.tables import search_table_files
from logwright.erasure.keys import KeySet
from logwright.errors import StalePlan
from logwright.tables.compare import compare_topic, keys_in_several
from logwright.tables.files import hidden_in
from logwright.tables.model import OtherForm
from logwright.tables.quarantine import Quarantine
from logwright.tables.topic import LocatedTable, open_store, update_topic
from tests.found import SECRET
from tests.log_builder import LogBuilder, Pair
from tests.table_rows import FORMATS, table_rows, version_of
from tests.table_world import DAY_MS, NOW_MS, place, topic_logs, update

Batch = tuple[int, Sequence[Pair]]
"""Timestamp and records."""
OLD: tuple[Batch, ...] = ((1_000, [("a", "a0"), ("b", "b0"), ("c", "c0")]),)
"""Of partition 0, before the topic had another one."""


def logs(log_dir: Path, partitions: Mapping[int, Sequence[Batch]], start: int = 0) -> Path:
    """Logs of the topic t; partition 1 begins at an offset."""
    for number, batches in partitions.items():
        log = LogBuilder(log_dir, f"t-{number}")
        offset = start if number else 0
        segment = log.segment(offset)
        for time, pairs in batches:
            segment.batch(offset, list(pairs), timestamps=[time] * len(pairs))
            offset += len(pairs)
        log.write()
    return log_dir


def table(tmp_path: Path, form: str, **settings: object) -> LocatedTable:
    return place(form, tmp_path / "tables" / "t", unique="topic", **settings)


def values(where: LocatedTable) -> list[bytes]:
    assert where.directory is not None
    return sorted(row[3] for row in table_rows(where.table.format, where.directory))


def require_equal(where: LocatedTable, log_dir: Path) -> None:
    """Compare the table as its daily check does, partition by partition."""
    store = open_store(where)
    snapshot = store.load()
    assert snapshot is not None
    assert where.directory is not None
    refused = open_store(where, quarantine=True)
    quarantine = Quarantine(store=refused, topic="t", work=where.base)
    compared = compare_topic(
        store, snapshot, quarantine, topic_logs(log_dir), hidden_in(where.files)
    )
    assert sorted(snapshot.progress) == [one.partition for one in compared]
    assert all(one.equal for one in compared), compared


@pytest.mark.parametrize("form", FORMATS)
def test_a_key_that_moved_has_one_row(tmp_path: Path, form: str) -> None:
    """Its newest, in whichever partition; a deleted key has none, and an older tombstone or value
    that comes later changes nothing.
    """
    where = table(tmp_path, form)
    update(where, logs(tmp_path / "1", {0: OLD}))
    assert [b"a0", b"b0", b"c0"] == values(where)
    new: tuple[Batch, ...] = ((2_000, [("a", "a1"), ("b", None)]),)
    done = update(where, logs(tmp_path / "2", {0: OLD, 1: new}))
    assert [b"a1", b"c0"] == values(where)
    assert ["nothing", "rebuild"] == [one.step.kind for one in done.result.partitions]
    old = (*OLD, (1_500, [("a", None), ("b", "late")]))
    new = (*new, (3_000, [("c", "c1")]))
    done = update(where, logs(tmp_path / "3", {0: old, 1: new}))
    assert [b"a1", b"c1"] == values(where)
    assert ["upsert", "upsert"] == [one.step.kind for one in done.result.partitions]
    assert [3, 2] == [one.step.start_offset for one in done.result.partitions]
    require_equal(where, tmp_path / "3")
    before = version_of(form, tmp_path / "tables" / "t")
    assert not update(where, tmp_path / "3").result.changed
    assert before == version_of(form, tmp_path / "tables" / "t")


@pytest.mark.parametrize("form", FORMATS)
def test_a_tombstone_is_remembered(tmp_path: Path, form: str) -> None:
    """When its log does not have it any more, and another partition still has the old value: also
    if everything is made again.
    """
    where = table(tmp_path, form, keep_versions_ms=1)
    first: Batch = (2_000, [("b", None), ("x", "x0"), ("y", "y0")])
    update(where, logs(tmp_path / "1", {0: OLD, 1: [first]}))
    rows = [b"a0", b"c0", b"x0", b"y0"]
    assert rows == values(where)
    # The tombstone and the last record are gone: the log of partition 1 is read from its start.
    cleaned = logs(tmp_path / "2", {0: OLD})
    log = LogBuilder(cleaned, "t-1")
    log.segment(0).batch(1, [("x", "x0")], timestamps=[2_000])
    log.segment(3).batch(3, [("y", "y1")], timestamps=[3_000])
    log.write(cleaner_checkpoint=3)
    for time in range(3):
        done = update(where, cleaned, now_ms=NOW_MS + time * DAY_MS)
        assert [b"a0", b"c0", b"x0", b"y1"] == values(where)
        kinds = {one.step.kind for one in done.result.partitions}
        assert ({"nothing"} if time else {"rebuild"}) == kinds
    require_equal(where, cleaned)


def test_a_tombstone_that_was_not_read_is_not_known(tmp_path: Path) -> None:
    """Of a key whose record of the same partition the table has: it is deleted. Another key has its
    old row.
    """
    where = table(tmp_path, "parquet")
    first: Batch = (2_000, [("a", "a1"), ("x", "x0")])
    update(where, logs(tmp_path / "1", {0: OLD, 1: [first]}))
    assert [b"a1", b"b0", b"c0", b"x0"] == values(where)
    cleaned = logs(tmp_path / "2", {0: OLD})
    log = LogBuilder(cleaned, "t-1")
    log.segment(0).batch(1, [("x", "x0")], timestamps=[2_000])
    log.segment(4).batch(4, [("z", "z0")], timestamps=[3_000])  # 2, 3: tombstones of a, b
    log.write(cleaner_checkpoint=4)
    update(where, cleaned)
    assert [b"b0", b"c0", b"x0", b"z0"] == values(where)


def test_an_older_record_of_a_log_makes_the_table_again(tmp_path: Path) -> None:
    """If that of another partition becomes the newest of its key: only the logs have its value."""
    where = table(tmp_path, "delta")
    new: tuple[Batch, ...] = ((2_000, [("a", "a1")]),)
    update(where, logs(tmp_path / "1", {0: OLD, 1: new}))
    new = (*new, (500, [("a", "oldest")]))
    done = update(where, logs(tmp_path / "2", {0: OLD, 1: new}))
    assert [b"a0", b"b0", b"c0"] == values(where)
    assert {"rebuild"} == {one.step.kind for one in done.result.partitions}


def test_a_log_that_cannot_be_read_keeps_its_rows(tmp_path: Path) -> None:
    """And the others are updated."""
    where = table(tmp_path, "iceberg")
    new: tuple[Batch, ...] = ((2_000, [("a", "a1")]),)
    update(where, logs(tmp_path / "1", {0: OLD, 1: new}))
    old = (*OLD, (2_500, [("d", "d0")]))
    broken = logs(tmp_path / "2", {0: old, 1: (*new, (3_000, [("b", None)]))})
    observed = topic_logs(broken)
    path = broken / "t-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-1])
    done = update_topic(where, observed, now_ms=NOW_MS)
    assert {0: StalePlan} == {number: type(one) for number, one in done.result.failures.items()}
    assert [b"a1", b"c0"] == values(where)


def test_without_what_it_knew_the_table_is_made_again(tmp_path: Path) -> None:
    """If the file next to it is gone."""
    where = table(tmp_path, "parquet")
    log_dir = logs(tmp_path / "1", {0: OLD, 1: ((2_000, [("b", None)]),)})
    update(where, log_dir)
    (file,) = hidden_of(tmp_path / "tables" / "t").iterdir()
    file.unlink()
    done = update(where, log_dir)
    assert {"what the table knew of keys in several partitions is gone"} == {
        each.step.reason for each in done.result.partitions
    }
    assert [b"a0", b"c0"] == values(where)
    require_equal(where, log_dir)


def test_deleted_keys_are_forgotten(tmp_path: Path) -> None:
    """After ``keep_versions_ms``, if no partition has another record of the key, without one new
    record; until then a search of the table finds them.
    """
    where = table(tmp_path, "parquet", keep_versions_ms=DAY_MS)
    log_dir = logs(tmp_path / "1", {0: ((1_000, [("person-1", "v"), ("person-1", None)]),)})

    def searched() -> int:
        keys = KeySet.of(SECRET, clear=[b"person-1"])
        return len(search_table_files(tmp_path / "tables" / "t", keys).findings)

    update(where, log_dir)
    assert 1 == searched()
    update(where, log_dir, now_ms=NOW_MS + DAY_MS - 1)
    assert 1 == searched()
    assert update(where, log_dir, now_ms=NOW_MS + DAY_MS).result.changed
    assert not update(where, log_dir, now_ms=NOW_MS + DAY_MS).result.changed


@pytest.mark.parametrize("gone", [False, True])
def test_after_an_erasure_deleted_keys_of_the_logs_are_known(tmp_path: Path, *, gone: bool) -> None:
    """An older record of another partition gives a deleted key no row, if its log still has the
    tombstone. If not, it cannot be distinguished from the erased keys, and is forgotten.
    """
    where = table(tmp_path, "parquet", keep_versions_ms=DAY_MS)
    update(where, logs(tmp_path / "1", {0: [(2_000, [("b", None), ("e", "e0"), ("x", "x0")])]}))
    erased = tmp_path / "2"
    log = LogBuilder(erased, "t-0")
    segment = log.segment(0)
    if not gone:
        segment.batch(0, [("b", None)], timestamps=[2_000])
    segment.batch(2, [("x", "x0")], timestamps=[2_000])
    log.write(cleaner_checkpoint=2)
    mark = erased / "t-0/.logwright/erased.json"
    mark.parent.mkdir(exist_ok=True)
    mark.write_text("a mark")
    update(where, erased, now_ms=NOW_MS + 1)
    assert [b"x0"] == values(where)
    logs(erased, {1: [(1_000, [("b", "b0")])]})
    update(where, erased, now_ms=NOW_MS + 2)
    assert ([b"b0", b"x0"] if gone else [b"x0"]) == values(where)


def test_another_rule_needs_another_table(tmp_path: Path) -> None:
    """A table has one rule for its life."""
    log_dir = logs(tmp_path / "1", {0: OLD})
    update(place("parquet", tmp_path / "tables" / "t"), log_dir)
    with pytest.raises(OtherForm, match="it was made with unique: partition"):
        update(table(tmp_path, "parquet"), log_dir)


def test_keys_in_several_partitions_are_counted(tmp_path: Path) -> None:
    """With those that were deleted, whose tombstones are there."""
    log_dir = logs(tmp_path / "1", {0: OLD, 1: ((2_000, [("a", "a1"), ("b", None), ("z", "z")]),)})
    assert (4, 2) == keys_in_several(topic_logs(log_dir), tmp_path / "work")
    assert (3, 0) == keys_in_several(topic_logs(log_dir)[:1], tmp_path / "work")
