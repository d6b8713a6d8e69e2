"""The faults that Kafka's own cleaner had, and their kin: segments, offsets, indexes.

Each test names the ticket, the rule that stands since, and what the fault was. Kafka 4.3.0 cleans
a copy of the log: the outcome is compared byte for byte. Those about transactions and producers are
in test_fix_history_producers.py, about tombstones and keys in test_fix_history_records.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from logwright.format.index import parse_offset_index, parse_time_index
from logwright.format.names import segment_file_name
from logwright.log.load import observe
from tests import oracle_runner
from tests.comparison import modified_ms
from tests.differential.kafka_cleaner import (
    NOW_MS,
    KafkaCleaner,
    Round,
    batches,
    first_dirty_offset,
    offsets,
)
from tests.log_builder import START_MS, LogBuilder

pytestmark = pytest.mark.oracle
INT32_MAX = 2**31 - 1


@pytest.fixture(scope="module")
def kafka(kafka_version: str) -> Iterator[KafkaCleaner]:
    """One JVM for all cases."""
    with KafkaCleaner() as cleaner:
        yield cleaner


def a_log(directory: Path) -> LogBuilder:
    return LogBuilder(directory / "logs")


def bases(builder: LogBuilder) -> list[int]:
    return sorted(int(path.stem) for path in builder.directory.glob("*.log"))


def time_index(builder: LogBuilder, base_offset: int) -> list[list[int]]:
    path = builder.directory / segment_file_name(base_offset, ".timeindex")
    entries: list[list[int]] = parse_time_index(path.read_bytes(), base_offset).tolist()
    return entries


@pytest.mark.parametrize(
    ("active", "left"), [(INT32_MAX + 1, [0, INT32_MAX + 1]), (2**31 + 1, [0, 10, 2**31 + 1])]
)
def test_kafka_2024_a_group_fits_its_indexes(
    active: int, left: list[int], tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-2024: a cleaned segment spans at most 2**31 - 1 offsets. Segments were merged whatever
    they spanned, and no index could hold the last offsets.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1")])
    builder.segment(10).batch(active - 1, [("b", "1")])
    builder.segment(active).batch(active, [("c", "1")])
    Round(kafka=kafka).clean(builder.write(producers=True))
    assert left == bases(builder)


def test_kafka_5413_a_segments_last_offset_is_not_guessed_from_its_base(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-5413, KAFKA-6264: the next segment's base shows where a segment ends. The base
    offsets alone were compared, and the cleaner died at an offset too far from the group's base.
    """
    far = 2**31 + 3
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1")])
    builder.segment(5).batch(5, [("a", "2")]).batch(far, [("b", "1")])
    builder.segment(far + 1).batch(far + 1, [("c", "1")])
    Round(kafka=kafka, settings={"index.interval.bytes": "0"}).clean(builder.write(producers=True))
    assert [0, 5, far + 1] == bases(builder)
    index = (builder.directory / segment_file_name(5, ".index")).read_bytes()
    assert [far] == parse_offset_index(index, 5)[:, 0].tolist()


def test_kafka_3894_a_map_that_ends_inside_a_segment_cleans_a_part(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-3894, KAFKA-2235: a full map ends the cleaning where it is, and the next one continues
    there. The cleaner thread died for all partitions.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [(key, "1") for key in "abcdef"])
    builder.segments[-1].batch(6, [(key, "2") for key in "abcdef"])
    builder.segment(12).batch(12, [("z", "1")])
    builder.write(producers=True)
    small = Round(kafka=kafka, buffer=96)
    assert [3] == [one.end_offset for one in small.clean(builder)]
    assert list(range(13)) == offsets(builder)
    small.passes = 3
    assert [6, 9, 12] == [one.end_offset for one in small.clean(builder)]
    assert [*range(6, 13)] == offsets(builder)


def test_kafka_3894_past_the_maps_end_everything_is_kept(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-3894: of the segment in which the map ends, the rest stays as it is, null keys and due
    tombstones too. What was not mapped was judged all the same.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1"), ("b", "1"), ("c", "1"), (None, "x"), ("a", "2")])
    builder.segments[-1].batch(5, [("d", None), ("e", "1")], horizon_ms=NOW_MS - 1)
    builder.segment(7).batch(7, [("z", "1")])
    Round(kafka=kafka, buffer=72).clean(builder.write(producers=True))
    assert [0, 1, 2, 3, 4, 5, 6, 7] == offsets(builder)


def test_kafka_4497_the_time_index_knows_only_what_was_kept(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-4497: a cleaned segment's time index has the largest timestamp of the kept records.
    It had that of the records read, with an offset that was not there, and appends to it failed.
    """
    builder = a_log(tmp_path)
    times = [START_MS + 900, START_MS + 5]
    builder.segment(0).batch(0, [("a", "1"), ("b", "1")], timestamps=times)
    builder.segment(2).batch(2, [("a", "2")], timestamps=[START_MS + 7])
    builder.segment(3).batch(3, [("z", "1")])
    Round(kafka=kafka).clean(builder.write(producers=True))
    assert [[START_MS + 7, 2]] == time_index(builder, 0)
    assert START_MS + 5 == batches(builder)[0][0].max_timestamp


def test_kafka_16310_the_largest_timestamp_is_that_of_the_first_batch_that_has_it(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-16310: the offset next to the largest timestamp is the last one of the first batch that
    has it. It came to be that of any batch appended together with it.
    """
    builder = a_log(tmp_path)
    times = [START_MS + 900, START_MS + 5, START_MS + 6]
    builder.segment(0).batch(0, [("a", "1"), ("b", "1"), ("c", "1")], timestamps=times)
    builder.segment(3).batch(3, [("c", "2"), ("d", "1")], timestamps=[START_MS + 900, START_MS])
    builder.segment(5).batch(5, [("z", "1")])
    Round(kafka=kafka).clean(builder.write(producers=True))
    assert [[START_MS + 900, 2]] == time_index(builder, 0)


def test_kafka_5431_a_cleaned_segment_has_the_size_of_its_batches(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-5431: with `preallocate` too nothing follows the last batch. Zeros did, and the next
    cleaning took them for a corrupt record.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1"), ("b", "1")]).batch(2, [("a", "2")])
    builder.segment(3).batch(3, [("z", "1")])
    settings = {"preallocate": "true", "segment.bytes": "2097152"}
    Round(kafka=kafka, settings=settings).clean(builder.write(producers=True))
    size = (builder.directory / segment_file_name(0, ".log")).stat().st_size
    assert size == sum(batch.size_bytes for batch, _ in batches(builder, 0))


def test_a_cleaned_segment_is_as_old_as_its_last_source(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """No ticket: files take the modification time of the group's last source, so that what goes by
    the time of a segment without timestamps does not begin again with each cleaning.
    """
    builder = a_log(tmp_path)
    builder.segment(0, modified_ms=START_MS + 5).batch(0, [("a", "1"), ("b", "1")])
    builder.segment(2, modified_ms=START_MS + 9).batch(2, [("a", "2")])
    builder.segment(3, modified_ms=START_MS + 7).batch(3, [("c", "1")])
    builder.segment(4).batch(4, [("z", "1")])
    Round(kafka=kafka).clean(builder.write(producers=True))
    for suffix in (".log", ".index", ".timeindex"):
        assert START_MS + 7 == modified_ms(builder.directory / segment_file_name(0, suffix))


def test_kafka_6834_a_batch_above_the_message_limit_is_cleaned(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-6834: what is on disk is read whatever `max.message.bytes` says now. The cleaner's
    buffer did not grow beyond it, and the thread died.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "v" * 1_300_000), ("b", "v" * 100)]).batch(2, [("b", "2")])
    builder.segment(3).batch(3, [("z", "1")])
    Round(kafka=kafka, settings={"max.message.bytes": "100"}).clean(builder.write(producers=True))
    assert [0, 2, 3] == offsets(builder)


def test_kafka_20036_an_output_that_grows_stays_one_segment(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-20036: delete horizons make batches longer, so that a group can outgrow
    `segment.bytes`. A limit on the output would end the cleaning in the middle.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [(f"k{n}", None) for n in range(20)])
    builder.segment(20).batch(20, [(f"l{n}", None) for n in range(20)])
    builder.segment(40).batch(40, [("z", "1")])
    limit = sum(len(each.content) for each in builder.segments[:2])
    settings = {"segment.bytes": str(limit)}
    (staged,) = Round(kafka=kafka, settings=settings).clean(builder.write(producers=True))
    assert [0, 40] == bases(builder)
    assert staged.segments[0].log_bytes > limit


def test_kafka_12889_empty_segments_are_merged_away(tmp_path: Path, kafka: KafkaCleaner) -> None:
    """KAFKA-12889: an empty segment joins a group however far away its offsets are. One stayed for
    every 2**31 offsets, and was rewritten in every cleaning.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1")])
    builder.segment(2**31 + 10)
    builder.segment(2**32 + 20)
    builder.segment(2**32 + 30).batch(2**32 + 30, [("z", "1")])
    Round(kafka=kafka).clean(builder.write(producers=True))
    assert [0, 2**32 + 30] == bases(builder)


def test_kafka_8764_a_hole_at_the_dirty_offset_is_passed(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-8764: the map's end covers a gap up to the next segment. It stopped at the last record,
    so the first dirty offset never moved and the log was cleaned for ever.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1"), ("b", "1")])
    builder.segment(10).batch(10, [("z", "1")])
    builder.write(producers=True, cleaner_checkpoint=2)
    again = Round(kafka=kafka)
    assert [10] == [one.end_offset for one in again.clean(builder)]
    assert not again.plan(builder).clean


def test_kafka_9826_a_dirty_offset_inside_the_active_segment_leaves_nothing_to_do(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-9826: past the active segment's base nothing is cleanable. The active segment itself
    was picked, again and again.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1"), ("a", "2")])
    builder.segment(2).batch(2, [("b", "1"), ("b", "2"), ("c", "1")])
    builder.write(producers=True, cleaner_checkpoint=4)
    once = Round(kafka=kafka)
    assert (0, False) == (once.plan(builder).compaction.cleanable_bytes, once.plan(builder).clean)
    assert [] == once.clean(builder)
    assert 4 == first_dirty_offset(builder)


@pytest.mark.parametrize(("checkpoint", "recorded"), [(1, 4), (99, 4), (4, 4)])
def test_kafka_8724_a_log_that_starts_inside_its_active_segment_is_no_error(
    checkpoint: int, recorded: int, tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-8724, KAFKA-9133: with the log start, or a checkpoint, beyond the active segment's base
    there is nothing to clean, and a wrong checkpoint is put right. The cleaner thread died.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1"), ("a", "2")])
    builder.segment(2).batch(2, [("b", "1"), ("b", "2"), ("c", "1")])
    builder.write(producers=True, cleaner_checkpoint=checkpoint, log_start=4)
    # A broker removes it when it loads the log.
    (builder.directory / segment_file_name(2, ".snapshot")).unlink()
    assert [] == Round(kafka=kafka).clean(builder)
    assert recorded == first_dirty_offset(builder)


def test_kafka_13194_nothing_is_cleaned_by_what_is_not_committed(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-13194: the high watermark bounds the cleaning, down to a segment's base. A record above
    it removed one below it, and could then be truncated itself.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1"), ("b", "1"), ("b", "2")])
    builder.segment(3).batch(3, [("c", "1")]).batch(4, [("a", "2")])
    builder.segment(5).batch(5, [("z", "1")])
    builder.write(producers=True, high_watermark=4)
    (staged,) = Round(kafka=kafka, high_watermark="checkpoint").clean(builder)
    assert 3 == staged.end_offset
    assert [0, 2, 3, 4, 5] == offsets(builder)


def test_kafka_17076_the_last_batch_of_a_round_is_kept_empty(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-17076: a round's last batch stays, be it without records. With it went the end offset,
    and a replica that came back below the leader's could diverge.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1")]).batch(1, [(None, "x"), (None, "y")])
    builder.segment(3)
    Round(kafka=kafka).clean(builder.write(producers=True))
    assert [(0, 1), (2, 0)] == [(one.last_offset, one.records_count) for one, _ in batches(builder)]


def test_kafka_20452_empty_last_batches_do_not_pile_up(tmp_path: Path, kafka: KafkaCleaner) -> None:
    """KAFKA-20452: what one round kept empty at its bound goes in the next one, whose bound is
    higher. Such batches stayed needlessly below the high watermark; Kafka 4.4 keeps only that which
    ends at the high watermark.
    """
    kept = [[1], [3]] if oracle_runner.kafka() == "4.3" else [[], []]
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1")]).batch(1, [(None, "x")])
    builder.segment(2).batch(2, [("b", "1")], timestamps=[NOW_MS]).batch(3, [(None, "x")])
    builder.segment(4).batch(4, [("z", "1")])
    builder.write(producers=True)
    lagging = {"min.compaction.lag.ms": "1000"}
    Round(kafka=kafka, settings=lagging).clean(builder)
    assert kept[0] == [one.last_offset for one, _ in batches(builder) if not one.records_count]
    Round(kafka=kafka, settings=lagging, now_ms=NOW_MS + 1000).clean(builder)
    assert kept[1] == [one.last_offset for one, _ in batches(builder) if not one.records_count]


@pytest.mark.parametrize(("later_ms", "end"), [(999, 2), (1000, 3)])
def test_kafka_1981_a_young_segment_holds_back_the_round(
    later_ms: int, end: int, tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-1981 (KIP-58): a record younger than `min.compaction.lag.ms` is neither removed nor
    removes another; at exactly the lag it is. There was no such bound.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", "1"), ("b", "1")])
    builder.segment(2).batch(2, [("a", "2")], timestamps=[NOW_MS])
    builder.segment(3).batch(3, [("z", "1")])
    settings = {"min.compaction.lag.ms": "1000"}
    once = Round(kafka=kafka, settings=settings, now_ms=NOW_MS + later_ms)
    (staged,) = once.clean(builder.write(producers=True))
    assert end == staged.end_offset
    assert (0 in offsets(builder)) == (end == 2)


def test_kafka_12520_what_is_known_of_producers_survives_the_swap(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-12520: snapshots go only with segments whose base offset goes, and the state at the end
    is what it was. They were removed with every swap, and the log read again at the next start.
    """
    builder = a_log(tmp_path)
    for number in range(3):
        segment = builder.segment(number * 2)
        segment.batch(number * 2, [("a", "1"), ("b", "2")], producer_id=number % 2)
    builder.segment(6).batch(6, [("z", "1")], producer_id=1, sequence=2)
    builder.write(producers=True)
    before = observe(builder.log_dir, builder.partition, high_watermark="end").producers
    Round(kafka=kafka).clean(builder)
    after = observe(builder.log_dir, builder.partition, high_watermark="end")
    assert [6, 7] == list(after.snapshot_offsets)
    assert before == after.producers
    assert 2 == len(before)
