"""Each format: the table is what a plain dictionary over the log's records holds."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from logwright.errors import LogDirLocked, StepFailed
from logwright.tables.local_files import lock_table
from logwright.tables.model import OtherForm, UnknownTable
from tests.table_rows import FORMATS, expected_rows, table_rows, version_of
from tests.table_world import (
    RECORDS,
    place,
    random_pairs,
    three_logs,
    update,
    write_logs,
)

BUCKETS = 3


@pytest.mark.parametrize("form", FORMATS)
def test_first_load_upsert_and_rerun(tmp_path: Path, form: str, seed: int) -> None:
    """Only new offsets are read; a rerun has no new version; a bucket without changes stays."""
    logs = three_logs(tmp_path, random.Random(seed))
    where = place(form, tmp_path / "table", buckets=BUCKETS)
    done = update(where, logs[0])
    assert expected_rows(logs[0], "t") == table_rows(form, tmp_path / "table")
    assert {"rebuild"} == {one.step.kind for one in done.result.partitions}
    version = version_of(form, tmp_path / "table")
    again = update(where, logs[0])
    assert (version, False) == (version_of(form, tmp_path / "table"), again.result.changed)
    for log_dir in logs[1:]:
        done = update(where, log_dir)
        assert expected_rows(log_dir, "t") == table_rows(form, tmp_path / "table")
        for partition in done.result.partitions:
            assert ("upsert", RECORDS) == (
                partition.step.kind,
                partition.step.end_offset - (partition.step.start_offset or 0),
            )
            assert 0 < partition.records <= RECORDS
        assert done.result.snapshot is not None
        assert len(expected_rows(log_dir, "t")) == done.result.snapshot.rows


@pytest.mark.parametrize(
    "journal",
    [
        b"{",
        b"[]",
        b'{"manifest": {}, "renames": [], "removals": ["../victim"]}',
        b'{"manifest": {}, "renames": [["../../../victim", "x"]], "removals": []}',
        b'{"manifest": {}, "renames": [["0-0.new", "../victim"]], "removals": []}',
    ],
)
def test_a_journal_of_others_changes_nothing(tmp_path: Path, journal: bytes) -> None:
    """It is refused by name, and no file outside the table is touched."""
    logs = write_logs(tmp_path / "logs", {0: [("a", "1")]})
    where = place("parquet", tmp_path / "table", buckets=1)
    update(where, logs)
    (tmp_path / "victim").write_text("stays")
    (tmp_path / "table/.logwright/commit.json").write_bytes(journal)
    with pytest.raises(UnknownTable, match="the journal"):
        update(where, logs)
    assert "stays" == (tmp_path / "victim").read_text()
    assert expected_rows(logs, "t") == table_rows("parquet", tmp_path / "table")


@pytest.mark.parametrize("form", FORMATS)
def test_one_key_rewrites_one_bucket(tmp_path: Path, form: str) -> None:
    """The files of the others stay as they are; and that one too, if it only loses a row."""
    pairs = [(f"k{number}", "v") for number in range(100)]
    first = write_logs(tmp_path / "a", {0: pairs})
    second = write_logs(tmp_path / "b", {0: [*pairs, ("k7", "w")]})
    where = place(form, tmp_path / "table", buckets=8)
    before = update(where, first).result.snapshot
    done = update(where, second).result
    assert before is not None
    assert done.snapshot is not None
    assert (1, 1, 1) == tuple(
        getattr(done.partitions[0], name) for name in ("records", "written", "buckets")
    )
    kept = {file.path for file in before.files} & {file.path for file in done.snapshot.files}
    assert len(kept) == 8
    assert len(done.snapshot.files) == (8 if form == "parquet" else 9)
    assert (0 if form == "parquet" else 1) == sum(done.snapshot.deleted.values())
    assert expected_rows(second, "t") == table_rows(form, tmp_path / "table")


@pytest.mark.parametrize("form", FORMATS)
def test_tombstones(tmp_path: Path, form: str) -> None:
    """They take rows away, and what has no row changes nothing; a table can become empty."""
    pairs = [("a", "1"), ("b", "2")]
    where = place(form, tmp_path / "table", buckets=2)
    update(where, write_logs(tmp_path / "1", {0: pairs}, size=1))
    gone = [*pairs, ("a", None), ("x", None)]
    done = update(where, write_logs(tmp_path / "2", {0: gone}, size=1)).result
    assert (1, 2) == (done.partitions[0].deleted, done.partitions[0].records)
    assert [(0, 1, b"b", b"2")] == table_rows(form, tmp_path / "table")
    empty = [*gone, ("b", None)]
    assert update(where, write_logs(tmp_path / "3", {0: empty}, size=1)).result.snapshot is not None
    assert [] == table_rows(form, tmp_path / "table")
    back = [*empty, ("a", "3")]
    update(where, write_logs(tmp_path / "4", {0: back}, size=1))
    assert [(0, 5, b"a", b"3")] == table_rows(form, tmp_path / "table")


@pytest.mark.parametrize("form", FORMATS)
def test_rebuilds(tmp_path: Path, form: str, seed: int) -> None:
    """A partition is made again when its log is another one, and the reason is in the result."""
    draw = random.Random(seed)
    where = place(form, tmp_path / "table", buckets=BUCKETS)
    update(where, write_logs(tmp_path / "a", {0: random_pairs(draw, RECORDS)}))
    pairs = random_pairs(draw, RECORDS)
    begun = write_logs(tmp_path / "b", {0: pairs}, log_start=20)
    another = write_logs(tmp_path / "c", {0: random_pairs(draw, RECORDS)}, log_start=20)
    for log_dir, topic_id, reason in (
        (begun, None, "the log start offset was 0 and is 20"),
        (another, "B" * 22, "the topic id was None and is BBB"),
    ):
        (partition,) = update(where, log_dir, topic_id=topic_id).result.partitions
        assert "rebuild" == partition.step.kind
        assert reason in partition.step.reason
        assert expected_rows(log_dir, "t") == table_rows(form, tmp_path / "table")


@pytest.mark.parametrize("form", FORMATS)
def test_a_log_that_was_cut_off(tmp_path: Path, form: str, seed: int) -> None:
    """Its table is made again: rows of records that are gone go too."""
    logs = three_logs(tmp_path, random.Random(seed))
    where = place(form, tmp_path / "table", buckets=BUCKETS)
    update(where, logs[1])
    done = update(where, logs[0])
    assert all("is below offset" in one.step.reason for one in done.result.partitions)
    assert expected_rows(logs[0], "t") == table_rows(form, tmp_path / "table")


@pytest.mark.parametrize("cleaned", [False, True])
@pytest.mark.parametrize("end", [60, 80, 100])
def test_a_log_that_was_cut_off_and_grew_again(
    tmp_path: Path, end: int, *, cleaned: bool, seed: int
) -> None:
    """To less, as much or more: the table notices by the last batch that it holds; also where a
    cleaning since, by its checkpoint, would explain other batches.
    """
    draw = random.Random(seed)
    same, first, other = (random_pairs(draw, 40) for _ in range(3))
    where = place("parquet", tmp_path / "table", buckets=BUCKETS)
    update(where, write_logs(tmp_path / "a", {0: [*same, *first]}))
    log_dir = write_logs(tmp_path / "b", {0: [*same, *other, *first][:end]})
    if cleaned:
        (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 40\n")
    (step,) = [part.step for part in update(where, log_dir).result.partitions]
    assert "rebuild" == step.kind
    assert expected_rows(log_dir, "t") == table_rows("parquet", tmp_path / "table")


@pytest.mark.parametrize("form", FORMATS)
def test_other_files_are_not_touched(tmp_path: Path, form: str) -> None:
    """A directory with something else is refused by name."""
    log_dir = write_logs(tmp_path / "logs", {0: [("a", "1")]})
    table = tmp_path / "table"
    table.mkdir()
    (table / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(UnknownTable, match="has 1 entries, but no table of logwright"):
        update(place(form, table), log_dir)
    assert b"x" == (table / "holiday.jpg").read_bytes()


@pytest.mark.parametrize("form", FORMATS)
def test_other_settings_are_refused(tmp_path: Path, form: str) -> None:
    """Another number of buckets, another decoding: by name, and the table stays as it is."""
    log_dir = write_logs(tmp_path / "logs", {0: [("a", "1")]})
    update(place(form, tmp_path / "table", buckets=2), log_dir)
    version = version_of(form, tmp_path / "table")
    for settings in ({"buckets": 3}, {"key": {"format": "string"}}):
        with pytest.raises(OtherForm, match="cannot be continued"):
            update(place(form, tmp_path / "table", **settings), log_dir)
    assert version == version_of(form, tmp_path / "table")
    assert not update(place(form, tmp_path / "table"), log_dir).result.changed


@pytest.mark.parametrize("form", FORMATS)
def test_one_process_at_a_time(tmp_path: Path, form: str) -> None:
    """The second is refused, and nothing is changed."""
    log_dir = write_logs(tmp_path / "logs", {0: [("a", "1")]})
    with lock_table(tmp_path / "table"), pytest.raises(LogDirLocked, match="another process"):
        update(place(form, tmp_path / "table"), log_dir)
    assert update(place(form, tmp_path / "table"), log_dir).result.changed


@pytest.mark.parametrize("form", FORMATS)
def test_a_corrupt_log_stops_only_its_partition(tmp_path: Path, form: str) -> None:
    """The other partition is updated; the next run has it too."""
    many = [(f"k{number}", "v") for number in range(100)]
    log_dir = write_logs(tmp_path / "logs", {0: [("a", "1")], 1: many})
    segment = log_dir / "t-1" / f"{0:020d}.log"
    good = segment.read_bytes()
    segment.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    done = update(place(form, tmp_path / "table"), log_dir)
    assert {1} == done.result.failures.keys()
    assert [(0, 0, b"a", b"1")] == table_rows(form, tmp_path / "table")
    segment.write_bytes(good)
    done = update(place(form, tmp_path / "table"), log_dir)
    assert {} == done.result.failures
    assert expected_rows(log_dir, "t") == table_rows(form, tmp_path / "table")


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the kind of the error, and none of its text."""

    def full(_: int) -> None:
        raise OSError(5, "s3cret")

    log_dir = write_logs(tmp_path / "logs", {0: [("a", "1")]})
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StepFailed, match="OSError EIO") as caught:
        update(place("parquet", tmp_path / "table"), log_dir)
    assert "s3cret" not in str(caught.value)
