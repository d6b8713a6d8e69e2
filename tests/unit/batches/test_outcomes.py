"""A transaction index is believed only as far as the markers in the log bear it out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Literal

import pytest

from logwright.batches.source import Source
from logwright.checks.model import OutputFacts
from logwright.compaction import survivors, transactions
from logwright.compaction.model import CleanPlan
from logwright.compaction.transactions import TransactionIndexes
from logwright.config.topic import parse_settings
from logwright.errors import CorruptIndex, CorruptProducerSnapshot, UnsupportedFormatError
from logwright.format.index import (
    AbortedTransaction,
    parse_offset_index,
    parse_txn_index,
    serialize_offset_index,
    serialize_txn_index,
)
from logwright.format.names import segment_file_name
from logwright.format.snapshot import parse_snapshot, serialize_snapshot
from logwright.sweep.build import build, examine
from logwright.sweep.commit import commit
from logwright.units import INT64_MAX, Offset, TimestampMs
from tests.ingested import read_batches
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan
from tests.property.hinted_logs import run

CONFIG = parse_settings({"cleanup.policy": "compact", "segment.ms": str(1 << 60)})
NOW_MS = TimestampMs(START_MS + 1_000_000)
Checks = Literal["quick", "thorough"]


def a_plan(builder: LogBuilder, *, checks: Checks = "quick", like_kafka: bool = False) -> CleanPlan:
    return forced_plan(
        builder.log_dir,
        builder.partition,
        CONFIG,
        now_ms=NOW_MS,
        checks=checks,
        like_kafka=like_kafka,
    )


def broken(facts: OutputFacts) -> set[str]:
    """The checks that fail."""
    return {check.name for check in facts.failed}


def values(log_dir: Path) -> list[tuple[int, bytes | None]]:
    """Offset and value of all data records."""
    return [
        (record.offset, record.value)
        for batch in read_batches(log_dir)
        if not batch.header.is_control
        for record in batch.records
    ]


def dirty_inside(log_dir: Path) -> LogBuilder:
    """The first dirty offset, 2, lies inside a segment; the transaction there is aborted."""
    builder = LogBuilder(log_dir)
    first = builder.segment(0)
    first.batch(0, [("a", "committed")]).batch(1, [("z", "1")])
    first.batch(2, [("a", "aborted")], producer_id=7, transactional=True, sequence=0)
    first.marker(3, 7, "abort").batch(4, [("d", "1")])
    builder.segment(5).batch(5, [("e", "1")])
    return builder.write(producers=True, cleaner_checkpoint=2, index_interval=0)


def point(builder: LogBuilder, number: int, position: int) -> None:
    """Effects: gives an entry of the first offset index another position."""
    path = builder.directory / segment_file_name(0, ".index")
    entries = parse_offset_index(path.read_bytes(), 0)
    entries[number, 1] = position
    path.write_bytes(serialize_offset_index(entries, 0))


@pytest.mark.parametrize("like_kafka", [False, True])
@pytest.mark.parametrize("checks", ["quick", "thorough"])
@pytest.mark.parametrize("position", [0, 78, 148, 224, 302, 10_000])
def test_a_wrong_offset_index_entry_loses_no_committed_value(
    tmp_path: Path, position: int, checks: Checks, *, like_kafka: bool
) -> None:
    """Whatever position the first dirty offset is said to have, its batch is looked at."""
    builder = dirty_inside(tmp_path / "logs")
    point(builder, 1, position)
    plan = a_plan(builder, checks=checks, like_kafka=like_kafka)
    staged = build(plan)
    assert set() == broken(examine(plan, staged))
    commit(plan, staged)
    expected = [(0, b"committed"), (1, b"1"), (4, b"1"), (5, b"1")]
    assert expected == values(builder.log_dir)


def test_what_is_committed_behind_an_aborted_transaction_supersedes(tmp_path: Path) -> None:
    """Its producer had aborted one in the clean part of the segment. Kafka, which begins at the
    first dirty batch, does not map it, and keeps the old value too.
    """
    left = {}
    for like_kafka in (False, True):
        builder = LogBuilder(tmp_path / str(like_kafka))
        first = builder.segment(0)
        first.batch(0, [("x", "gone")], producer_id=7, transactional=True, sequence=0)
        first.marker(1, 7, "abort").batch(2, [("a", "old")])
        first.batch(3, [("a", "new")], producer_id=7, transactional=True, sequence=1)
        first.marker(4, 7, "commit")
        builder.segment(5).batch(5, [("e", "1")])
        builder.write(producers=True, cleaner_checkpoint=2, index_interval=0)
        plan = a_plan(builder, like_kafka=like_kafka)
        staged = build(plan)
        assert set() == broken(examine(plan, staged))
        commit(plan, staged)
        left[like_kafka] = [offset for offset, _ in values(builder.log_dir)]
    assert {False: [3, 5], True: [2, 3, 5]} == left


@pytest.mark.parametrize("checks", ["quick", "thorough"])
def test_aborted_data_in_the_map_breaks_the_check_of_latest_values(
    tmp_path: Path, checks: Checks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It supersedes a committed value and goes itself; its sum is not taken for an expected one."""
    builder = dirty_inside(tmp_path / "logs")
    plan = a_plan(builder, checks=checks)

    def begin_too_late(
        sources: Sequence[Source], _: CleanPlan, indexes: TransactionIndexes
    ) -> None:
        del indexes
        for source in sources:
            source.batches["unmapped"] = source.batches["control_type"] >= 0

    monkeypatch.setattr(survivors, "mark_unmapped", begin_too_late)
    staged = build(plan)
    assert "latest_value_per_key" in broken(examine(plan, staged))


@pytest.mark.parametrize("checks", ["quick", "thorough"])
def test_committed_data_taken_for_aborted_breaks_a_check(
    tmp_path: Path, checks: Checks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks ask the markers, not the transaction indexes; that the counts agree is not
    enough.
    """
    builder = two_producers(tmp_path / "logs")
    change_entry(builder, 0, 0, producer_id=8, last_offset=Offset(4))
    monkeypatch.setattr(transactions, "require_agreement", lambda *_, **__: None)
    plan = a_plan(builder, checks=checks)
    staged = build(plan)
    assert "latest_value_per_key" in broken(examine(plan, staged))


def two_producers(log_dir: Path) -> LogBuilder:
    """7 aborts, 8 commits, one record each; 7 then commits, and aborts again over two segments,
    while 8 aborts too. The log ends at 16.
    """
    builder = LogBuilder(log_dir)
    first = builder.segment(0)
    first.batch(0, [("a", "old")])
    first.batch(1, [("b", "aborted")], producer_id=7, transactional=True, sequence=0)
    first.batch(2, [("c", "committed")], producer_id=8, transactional=True, sequence=0)
    first.marker(3, 7, "abort").marker(4, 8, "commit")
    first.batch(5, [("d", "committed")], producer_id=7, transactional=True, sequence=1)
    first.marker(6, 7, "commit")
    first.batch(7, [("a", "aborted")], producer_id=7, transactional=True, sequence=2)
    second = builder.segment(8)
    second.batch(8, [("f", "aborted")], producer_id=8, transactional=True, sequence=1)
    second.marker(9, 7, "abort").batch(10, [("g", "1")])
    third = builder.segment(11)
    third.marker(11, 8, "abort").batch(12, [("h", "1")])
    third.batch(13, [("h", "aborted")], producer_id=7, transactional=True, sequence=3)
    third.marker(14, 7, "abort").batch(15, [("i", "1")])
    return builder.write(producers=True, index_interval=0)


def entries_path(builder: LogBuilder, base: int) -> Path:
    return builder.directory / segment_file_name(base, ".txnindex")


def change_entry(builder: LogBuilder, base: int, number: int, **changes: object) -> None:
    """Effects: changes fields of an entry of a segment's transaction index."""
    path = entries_path(builder, base)
    entries = list(parse_txn_index(path.read_bytes()))
    entries[number] = dataclasses.replace(entries[number], **changes)  # type: ignore[arg-type]
    path.write_bytes(serialize_txn_index(entries))


def test_sound_transaction_indexes_agree_with_the_markers(tmp_path: Path) -> None:
    """Entries over segments, last stable offsets held back by other producers."""
    builder = two_producers(tmp_path / "logs")
    plan = a_plan(builder)
    staged = build(plan)
    assert set() == broken(examine(plan, staged))
    commit(plan, staged)
    offsets = [offset for offset, _ in values(builder.log_dir)]
    assert [0, 2, 5, 10, 12, 13, 15] == offsets


Change = Callable[[LogBuilder], None]


def another(base: int, number: int, **changes: object) -> Change:
    return lambda builder: change_entry(builder, base, number, **changes)


def without(base: int) -> Change:
    return lambda builder: entries_path(builder, base).unlink()


def twice(builder: LogBuilder) -> None:
    path = entries_path(builder, 0)
    path.write_bytes(2 * path.read_bytes())


def cut(builder: LogBuilder) -> None:
    path = entries_path(builder, 0)
    path.write_bytes(path.read_bytes()[:-1])


def zeros(builder: LogBuilder) -> None:
    entries_path(builder, 0).write_bytes(bytes(34))


def in_another_segment(builder: LogBuilder) -> None:
    """The entry of the second segment lies in the first."""
    source, target = entries_path(builder, 8), entries_path(builder, 0)
    target.write_bytes(target.read_bytes() + source.read_bytes())
    source.unlink()


def also_in_another_segment(builder: LogBuilder) -> None:
    """The entry of the second segment lies in the first too: a reader of the entries that concern
    the first would stop there.
    """
    source, target = entries_path(builder, 8), entries_path(builder, 0)
    target.write_bytes(target.read_bytes() + source.read_bytes())


def behind_the_cleaned_range(builder: LogBuilder) -> None:
    """An entry of the active segment claims committed data of the first."""
    path = entries_path(builder, 11)
    entry = AbortedTransaction(
        version=0,
        producer_id=7,
        first_offset=Offset(4),
        last_offset=Offset(14),
        last_stable_offset=Offset(15),
    )
    first = list(takewhile(lambda each: each.last_offset < 14, parse_txn_index(path.read_bytes())))
    path.write_bytes(serialize_txn_index([*first, entry]))


@pytest.mark.parametrize(
    "change",
    [
        another(0, 0, producer_id=8),
        another(0, 0, producer_id=8, last_offset=Offset(4)),
        another(0, 0, last_offset=Offset(4)),
        another(0, 0, last_offset=Offset(6), first_offset=Offset(5)),
        another(0, 0, first_offset=Offset(2)),
        another(8, 0, first_offset=Offset(5)),
        another(8, 0, first_offset=Offset(8)),
        another(11, 0, producer_id=9),
        another(11, 0, first_offset=Offset(1)),
        without(0),
        without(8),
        without(11),
        twice,
        cut,
        zeros,
        in_another_segment,
        also_in_another_segment,
        behind_the_cleaned_range,
    ],
)
@pytest.mark.parametrize("like_kafka", [False, True])
def test_a_transaction_index_that_contradicts_the_markers_is_refused(
    tmp_path: Path, change: Change, *, like_kafka: bool
) -> None:
    """Before anything is changed. The remedy of the error works: without that segment's indexes
    a recovery builds the right ones.
    """
    builder = two_producers(tmp_path / "logs")
    change(builder)
    before = {path: path.read_bytes() for path in builder.directory.iterdir()}
    plan = a_plan(builder, like_kafka=like_kafka)
    with pytest.raises(CorruptIndex) as refused:
        build(plan)
    assert refused.value.path is not None
    assert ".txnindex" == refused.value.path.suffix
    assert before == {path: path.read_bytes() for path in builder.directory.iterdir()}
    for path in builder.directory.glob("*.txnindex"):
        path.unlink()
    for path in builder.directory.glob("*.index"):
        path.unlink()
    assert 0 == run("recover", builder.log_dir, "--yes")
    entries = {path.name: path.read_bytes() for path in builder.directory.glob("*.txnindex")}
    sound = two_producers(tmp_path / "sound").directory.glob("*.txnindex")
    assert {path.name: path.read_bytes() for path in sound} == entries
    build(a_plan(builder, like_kafka=like_kafka))


@pytest.mark.parametrize("base", [0, 8])
@pytest.mark.parametrize("offset", [0, 10, INT64_MAX])
def test_a_last_stable_offset_says_nothing(tmp_path: Path, base: int, offset: int) -> None:
    """That of a follower can be above what was open when the transaction ended: Kafka's cleaner
    does not look at what follows then. All that is aborted is removed here.
    """
    sound, other = (two_producers(tmp_path / name) for name in ("sound", "other"))
    change_entry(other, base, 0, last_stable_offset=Offset(offset))
    built = [build(a_plan(builder)) for builder in (sound, other)]
    logs = [
        {path.name: path.read_bytes() for path in each.directory.glob("*.log")} for each in built
    ]
    assert logs[0]
    assert logs[0] == logs[1]
    assert built[0].stats.removed_aborted == built[1].stats.removed_aborted > 0


def test_an_entry_of_another_version_is_refused(tmp_path: Path) -> None:
    """Nobody knows what it says."""
    builder = two_producers(tmp_path / "logs")
    change_entry(builder, 0, 0, version=1)
    with pytest.raises(UnsupportedFormatError):
        build(a_plan(builder))


def test_a_first_offset_before_the_data_is_no_contradiction(tmp_path: Path) -> None:
    """A cleaning may have removed the transaction's first batches."""
    builder = two_producers(tmp_path / "logs")
    change_entry(builder, 0, 0, first_offset=Offset(0))
    build(a_plan(builder))


def test_an_entry_begins_after_the_marker_before(tmp_path: Path) -> None:
    """One that begins at its producer's marker before is refused, as one that begins earlier."""
    builder = two_producers(tmp_path / "logs")
    change_entry(builder, 8, 0, first_offset=Offset(6))
    with pytest.raises(CorruptIndex, match="begins before the producer's marker at 6"):
        build(a_plan(builder))


def test_a_snapshot_that_forgets_an_open_transaction_is_refused(tmp_path: Path) -> None:
    """Else its data would be mapped as committed, and be aborted later."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", "committed")])
    builder.segment(1).batch(1, [("a", "open")], producer_id=7, transactional=True, sequence=0)
    builder.segment(2).batch(2, [("b", "1")])
    builder.write(producers=True)
    change_snapshots(builder, current_txn_first_offset=None)
    with pytest.raises(CorruptProducerSnapshot, match="producer 7 has open from offset 1"):
        build(a_plan(builder))


def change_snapshots(builder: LogBuilder, **changes: object) -> None:
    """Effects: changes fields of every producer in every snapshot."""
    for path in builder.directory.glob("*.snapshot"):
        entries = parse_snapshot(path.read_bytes(), path)
        changed = [replace(one, **changes) for one in entries]  # type: ignore[arg-type]
        path.write_bytes(serialize_snapshot(changed))


def test_a_snapshot_that_lags_behind_the_log_is_refused(tmp_path: Path) -> None:
    """Else the producer's last batch would go, and its sequence number with it."""
    builder = LogBuilder(tmp_path / "logs")
    first = builder.segment(0).batch(0, [("a", "1")], producer_id=9, sequence=0)
    first.batch(1, [("a", "2")], producer_id=9, sequence=1)
    builder.segment(2).batch(2, [("a", "3")])
    builder.segment(3)
    builder.write(producers=True)
    change_snapshots(builder, last_offset=0)
    with pytest.raises(CorruptProducerSnapshot, match="9 has its last batch at 0, the log at 1"):
        build(a_plan(builder))
