"""The faults that Kafka's own cleaner had, and their kin: producers, transactions, markers.

As test_fix_history.py: the ticket, the rule, the fault, and Kafka 4.3.0 as the judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from logwright.format.index import AbortedTransaction, parse_txn_index
from logwright.format.names import segment_file_name
from tests.differential.kafka_cleaner import NOW_MS, KafkaCleaner, Round, batches, offsets
from tests.log_builder import START_MS, LogBuilder, SegmentBuilder

pytestmark = pytest.mark.oracle
PID = 7
OTHER = 8


@pytest.fixture(scope="module")
def kafka(kafka_version: str) -> Iterator[KafkaCleaner]:
    """One JVM for all cases."""
    with KafkaCleaner() as cleaner:
        yield cleaner


def a_log(directory: Path) -> LogBuilder:
    return LogBuilder(directory / "logs")


def seal(builder: LogBuilder, base_offset: int) -> LogBuilder:
    """An active segment, of a later producer than those that are looked at."""
    builder.segment(base_offset).batch(base_offset, [("active", "1")])
    return builder.write(producers=True)


def in_txn(segment: SegmentBuilder, offset: int, key: str, *, producer: int = PID) -> None:
    segment.batch(offset, [(key, f"{offset}")], producer_id=producer, transactional=True)


def shape(builder: LogBuilder) -> list[tuple[int, int]]:
    """(last offset, records) of each batch below the active segment."""
    active = max(int(path.stem) for path in builder.directory.glob("*.log"))
    return [
        (batch.last_offset, batch.records_count)
        for batch, _ in batches(builder)
        if batch.last_offset < active
    ]


def aborted(builder: LogBuilder, base_offset: int) -> tuple[AbortedTransaction, ...] | None:
    """The entries of a segment's transaction index, None without one."""
    path = builder.directory / segment_file_name(base_offset, ".txnindex")
    return parse_txn_index(path.read_bytes()) if path.exists() else None


FORGETTING = {"producer.id.expiration.ms": "1000"}
"""By the tests' clock every producer is idle for longer."""


def test_kafka_5490_a_producers_last_batch_stays_without_records(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-5490: the last batch of an active producer stays, empty if necessary, with its
    sequence. With it went the sequence, and the producer's next append was refused as out of order.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1"), ("b", "1")], producer_id=PID, sequence=5)
    builder.segments[-1].batch(2, [("a", "2"), ("b", "2")])
    Round(kafka=kafka).clean(seal(builder, 4))
    assert [(1, 0), (3, 2)] == shape(builder)
    empty, _ = batches(builder)[0]
    assert (PID, 0, 5, 6) == (
        empty.producer_id,
        empty.producer_epoch,
        empty.base_sequence,
        empty.last_sequence,
    )
    assert (-1, START_MS + 1) == (empty.base_timestamp, empty.max_timestamp)


def test_kafka_5490_a_forgotten_producers_empty_batch_goes(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-5490: who was idle for `producer.id.expiration.ms` needs no batch any more. Empty
    batches of producers that never come back would stay for ever.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [], producer_id=PID, sequence=5).batch(1, [("a", "2")])
    Round(kafka=kafka, settings=FORGETTING).clean(seal(builder, 2))
    assert [(1, 1)] == shape(builder)


def test_kafka_7385_an_empty_batch_is_cleaned_again(tmp_path: Path, kafka: KafkaCleaner) -> None:
    """KAFKA-7385: a batch without records, even a segment of nothing else, is read like any other.
    The cleaner died of a maximum timestamp that no record gave.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [], producer_id=PID, last_offset=3)
    builder.segment(4).batch(4, [], producer_id=OTHER, last_offset=4)
    Round(kafka=kafka).clean(seal(builder, 5))
    assert [(3, 0), (4, 0)] == shape(builder)


def test_kafka_7467_a_control_batch_without_a_record_is_no_error(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-7467: an empty control batch ends nothing, and goes unless its producer needs it. The
    cleaner asked it for its record's type and died.
    """
    builder = a_log(tmp_path)
    segment = builder.segment(0)
    segment.marker(0, PID, "commit", epoch=1, empty=True).marker(1, OTHER, "abort", empty=True)
    segment.batch(2, [("a", "1")], producer_id=OTHER).batch(3, [("b", "1")])
    # An empty marker alone makes no producer known, so the log forgets both of them.
    Round(kafka=kafka).clean(seal(builder, 4))
    assert [(2, 1), (3, 1)] == shape(builder)


def test_kafka_8335_of_equal_sequences_only_the_last_batch_stays(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-8335: a producer's last batch is known by its offset. It was known by its sequence,
    which group coordinators begin at 0 each time, so that all their batches stayed, empty.
    """
    builder = a_log(tmp_path)
    segment = builder.segment(0)
    for offset in range(3):
        segment.batch(offset, [("a", f"{offset}")], producer_id=PID)
    segment.batch(3, [("a", "3")])
    Round(kafka=kafka).clean(seal(builder, 4))
    assert [(2, 0), (3, 1)] == shape(builder)


def test_kafka_8335_a_marker_is_no_producers_last_batch(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-8335: a marker has no sequence to be kept for; it goes after its horizon though its
    producer is active. Markers stayed, and __consumer_offsets grew without bounds.
    """
    builder = a_log(tmp_path)
    builder.segment(0).marker(1, PID, "commit", horizon_ms=NOW_MS)
    builder.segments[-1].batch(2, [("a", "1")], producer_id=PID)
    Round(kafka=kafka).clean(seal(builder, 3))
    assert [(2, 1)] == shape(builder)


def test_kafka_8335_the_epoch_of_a_lone_marker_is_kept(tmp_path: Path, kafka: KafkaCleaner) -> None:
    """KAFKA-8335: where only a marker of a new epoch is known of a producer, it stays, empty. With
    it went the epoch, and a fenced producer could write again.
    """
    builder = a_log(tmp_path)
    builder.segment(0).marker(1, PID, "abort", epoch=3, horizon_ms=NOW_MS).batch(2, [("a", "1")])
    Round(kafka=kafka).clean(seal(builder, 3))
    assert [(1, 0), (2, 1)] == shape(builder)
    assert (3, None) == (
        batches(builder)[0][0].producer_epoch,
        batches(builder)[0][0].delete_horizon_ms,
    )


def test_kafka_8351_a_transaction_reaches_over_groups(tmp_path: Path, kafka: KafkaCleaner) -> None:
    """KAFKA-8351: data in one group, the marker in another: marker and index entry stay while the
    data were there. The marker was judged without them, and went at once.
    """
    builder = a_log(tmp_path)
    in_txn(builder.segment(0), 0, "a")
    in_txn(builder.segments[0], 1, "b", producer=OTHER)
    builder.segment(2).marker(2, PID, "abort").marker(3, OTHER, "commit")
    small = Round(kafka=kafka, settings={"segment.bytes": "200"})
    (staged,) = small.clean(seal(builder, 4))
    assert 2 == len(staged.segments) + len(staged.unchanged)
    assert [(0, 0), (1, 1), (2, 1), (3, 1)] == shape(builder)
    assert [(PID, 0, 2, 1)] == [
        (
            transaction.producer_id,
            transaction.first_offset,
            transaction.last_offset,
            transaction.last_stable_offset,
        )
        for transaction in aborted(builder, 2) or ()
    ]
    assert None is batches(builder, 2)[0][0].delete_horizon_ms


def test_kafka_13727_past_the_maps_end_aborted_transactions_are_known_too(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-13727: the aborted transactions of the whole segment count where the map ends inside
    it. Those past the end were missed: their data became committed, their marker went.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("k0", "1"), ("k1", "1"), ("k2", "1"), ("k3", "1")])
    in_txn(builder.segments[0], 4, "k0")
    builder.segments[0].marker(5, PID, "abort")
    (staged,) = Round(kafka=kafka, buffer=72).clean(seal(builder, 6))
    assert 2 == staged.end_offset
    assert [(3, 4), (4, 0), (5, 1)] == shape(builder)
    assert 1 == len(aborted(builder, 0) or ())


@pytest.mark.parametrize("dirty", [0, 2])
@pytest.mark.parametrize("kind", ["abort", "commit"])
def test_kafka_14055_a_record_with_a_markers_key_does_not_remove_it(
    kind: Literal["abort", "commit"], dirty: int, tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-14055: control batches are not part of the offset map. A record with a marker's key
    after it took the marker away, and the transaction hung.
    """
    builder = a_log(tmp_path)
    in_txn(builder.segment(0), 0, "a")
    builder.segments[0].marker(1, PID, kind)
    keys = [b"\x00\x00\x00\x00", b"\x00\x00\x00\x01"]
    builder.segments[0].batch(2, [(key, "x") for key in keys])
    builder.segment(4)
    Round(kafka=kafka).clean(builder.write(producers=True, cleaner_checkpoint=dirty))
    assert {1, 2, 3} <= set(offsets(builder))


def test_markers_of_one_kind_do_not_replace_each_other(tmp_path: Path, kafka: KafkaCleaner) -> None:
    """As KAFKA-14055, found in another implementation: all COMMIT markers have one key, and each
    stays while its transaction has data. Deduplicated by key all but the last were lost.
    """
    builder = a_log(tmp_path)
    segment = builder.segment(0)
    for number in range(3):
        in_txn(segment, number * 2, f"k{number}", producer=PID + number)
        segment.marker(number * 2 + 1, PID + number, "commit")
    Round(kafka=kafka).clean(seal(builder, 6))
    assert [(n, 1) for n in range(6)] == shape(builder)


def test_interleaved_transactions_each_keep_their_marker(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """As KAFKA-8351: what is known of one producer's transaction, another one's marker leaves as it
    is. A marker that found nothing known of its own would go too early.
    """
    builder = a_log(tmp_path)
    segment = builder.segment(0)
    for number in range(4):
        in_txn(segment, number, f"k{number}", producer=PID + number)
    for number in range(4):
        segment.marker(4 + number, PID + number, "abort" if number % 2 else "commit")
    Round(kafka=kafka).clean(seal(builder, 8))
    assert [(0, 1), (1, 0), (2, 1), (3, 0), *((n, 1) for n in range(4, 8))] == shape(builder)
    assert all(one.delete_horizon_ms is None for one, _ in batches(builder))
    assert [(PID + 1, 5), (PID + 3, 7)] == [
        (transaction.producer_id, transaction.last_offset)
        for transaction in aborted(builder, 0) or ()
    ]


def test_kafka_5196_aborted_data_removes_nothing_and_goes_at_once(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-5196: records of an aborted transaction are not mapped, and are dropped whatever their
    keys. An aborted value took the place of a committed one.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "committed")])
    in_txn(builder.segments[0], 1, "a")
    in_txn(builder.segments[0], 2, "never committed")
    builder.segments[0].marker(3, PID, "abort").batch(4, [("b", "1")], producer_id=PID)
    (staged,) = Round(kafka=kafka).clean(seal(builder, 5))
    assert [(0, 1), (3, 1), (4, 1)] == shape(builder)
    assert 2 == staged.stats.removed_aborted


def test_kafka_5196_the_cleaning_that_empties_a_transaction_keeps_its_marker(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-5196: a marker outlives its data by one cleaning at least, and gets its horizon only
    then. A reader of old data must still come to see how the transaction ended.
    """
    builder = a_log(tmp_path)
    in_txn(builder.segment(0), 0, "a")
    builder.segments[0].marker(1, PID, "commit").batch(2, [("a", "2")])
    builder.segment(3).batch(3, [("b", "1")], producer_id=PID, timestamps=[NOW_MS])
    builder.segment(4).batch(4, [("c", "1")], timestamps=[NOW_MS])
    builder.write(producers=True)
    lagging = {"min.compaction.lag.ms": "100"}
    Round(kafka=kafka, settings=lagging).clean(builder)
    assert [(1, 1), (2, 1), (3, 1)] == shape(builder)
    assert None is batches(builder)[0][0].delete_horizon_ms
    Round(kafka=kafka, settings=lagging, now_ms=NOW_MS + 200).clean(builder)
    assert NOW_MS + 200 + 5000 == batches(builder)[0][0].delete_horizon_ms


def test_kafka_8522_the_index_entry_goes_with_the_aborted_data(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-8522: a cleaning that finds no data of an aborted transaction gives its marker a
    horizon and drops its entry. Entries that never go make every fetch and cleaning slower.
    """
    builder = a_log(tmp_path)
    in_txn(builder.segment(0), 0, "a")
    builder.segments[0].marker(1, PID, "abort").batch(2, [("b", "1")], producer_id=PID)
    builder.segment(3).batch(3, [("b", "2")], producer_id=PID, timestamps=[NOW_MS])
    builder.segment(4).batch(4, [("c", "1")], timestamps=[NOW_MS])
    builder.write(producers=True)
    lagging = {"min.compaction.lag.ms": "100"}
    Round(kafka=kafka, settings=lagging).clean(builder)
    assert [(1, 1), (2, 1), (3, 1)] == shape(builder)
    assert 1 == len(aborted(builder, 0) or ())
    Round(kafka=kafka, settings=lagging, now_ms=NOW_MS + 200).clean(builder)
    assert None is aborted(builder, 0)
    assert [(1, 1), (3, 1)] == shape(builder)
    assert NOW_MS + 200 + 5000 == batches(builder)[0][0].delete_horizon_ms


@pytest.mark.parametrize("kind", ["abort", "commit"])
@pytest.mark.parametrize(("horizon_ms", "kept"), [(NOW_MS + 1, True), (NOW_MS, False)])
def test_kafka_8522_a_marker_goes_at_its_horizon(
    horizon_ms: int,
    kept: bool,
    kind: Literal["abort", "commit"],
    tmp_path: Path,
    kafka: KafkaCleaner,
) -> None:
    """KAFKA-8522: like a tombstone, to the millisecond, and the horizon never moves. Markers went
    by the segment's age, so some stayed for ever.
    """
    builder = a_log(tmp_path)
    builder.segment(0).marker(1, PID, kind, horizon_ms=horizon_ms)
    builder.segments[-1].batch(2, [("a", "1")], producer_id=PID)
    Round(kafka=kafka).clean(seal(builder, 3))
    assert kept == ((1, 1) in shape(builder))
    assert (horizon_ms if kept else None) == batches(builder)[0][0].delete_horizon_ms


def test_a_marker_whose_data_came_back_is_not_removed(tmp_path: Path, kafka: KafkaCleaner) -> None:
    """KAFKA-8522: a horizon alone does not remove a marker: a transaction with data keeps it, past
    its horizon too. A consumer would see the transaction continue for ever.
    """
    builder = a_log(tmp_path)
    in_txn(builder.segment(0), 0, "a")
    builder.segments[0].marker(1, PID, "commit", horizon_ms=NOW_MS - 1)
    Round(kafka=kafka).clean(seal(builder, 2))
    assert [(0, 1), (1, 1)] == shape(builder)


def test_kafka_5196_an_open_transaction_bounds_the_cleaning(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-5196: nothing at or above the last stable offset is cleaned, nor removes anything below
    it. Whether it counts is not decided.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1"), ("b", "1"), ("b", "2")])
    in_txn(builder.segment(3), 3, "a")
    builder.segments[-1].batch(4, [("b", "3")])
    (staged,) = Round(kafka=kafka).clean(seal(builder, 5))
    assert 3 == staged.end_offset
    assert [0, 2, 3, 4, 5] == offsets(builder)


def test_kafka_17076_the_last_batch_of_a_round_stays_even_if_it_was_aborted(
    tmp_path: Path, kafka: KafkaCleaner, kafka_version: str
) -> None:
    """KAFKA-17076: of a forgotten producer's aborted batch at the bound the header stays, and none
    of its records. Kept for its header, its records must not come back. Kafka 4.4 keeps
    it only at the high watermark (KAFKA-20452).
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1")])
    in_txn(builder.segments[0], 1, "a")
    builder.segment(2).marker(2, PID, "abort")
    builder.segment(3).batch(3, [("z", "1")], timestamps=[NOW_MS])
    builder.write(producers=True, cleaner_checkpoint=0, high_watermark=3)
    aged = FORGETTING | {"min.compaction.lag.ms": str(NOW_MS - START_MS - 1)}
    Round(kafka=kafka, settings=aged).clean(builder)
    header = [(1, 0)] if kafka_version == "4.3" else []
    assert [(0, 1), *header, (2, 1)] == shape(builder)


@pytest.mark.parametrize("interval", [0, 100, 1 << 20])
def test_kafka_9826_a_dirty_offset_inside_a_transaction(
    interval: int, tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-9826: the map is read from where the offset index points, the log is copied from its
    start, and each knows its own aborted transactions. Less may be mapped, nothing wrongly dropped.
    """
    builder = a_log(tmp_path)
    segment = builder.segment(0)
    segment.batch(0, [("a", "1"), ("c", "1")])
    in_txn(segment, 2, "a")
    segment.marker(3, PID, "abort")
    in_txn(segment, 4, "a")
    segment.marker(5, PID, "commit")
    in_txn(segment, 6, "c")
    segment.marker(7, PID, "abort").batch(8, [("a", "9")])
    builder.segment(9).batch(9, [("z", "1")])
    settings = {"index.interval.bytes": str(interval)}
    for dirty in (3, 4, 5):
        again = LogBuilder(tmp_path / f"{dirty}" / "logs")
        again.segments = builder.segments
        again.write(producers=True, cleaner_checkpoint=dirty, index_interval=interval)
        Round(kafka=kafka, settings=settings).clean(again)
        assert {1, 8} <= set(offsets(again))
        assert not {2, 6} & set(offsets(again))
