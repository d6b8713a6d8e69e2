"""A log directory and its tier are one log."""

from __future__ import annotations

import pickle
import random
import shutil
from pathlib import Path

import pytest

from logwright.errors import CorruptObject, PolicyError, PreconditionError
from logwright.format.batch import HEADER_BYTES, parse_batch, walk_batches
from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import TopicPartition
from logwright.log.load import list_partitions, observe
from logwright.place.named import place_of
from logwright.records.model import ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.running.place import as_it_runs
from logwright.tier import chunks
from logwright.tier.place import TieredPlace, with_tier, without_local
from logwright.tier.tier import TierOptions
from logwright.verify.partition import verify_partition
from tests.log_builder import LogBuilder
from tests.running_dirs import running
from tests.tiers import (
    COLUMNS,
    PARTITIONS,
    TIERS,
    TOPIC_ID,
    Tiered,
    drop_local,
    rows_of,
    to_local_storage,
    unpacked,
)

T0 = TopicPartition("t", 0)


@pytest.fixture(name="tiered", params=TIERS)
def _tiered(request: pytest.FixtureRequest, tmp_path: Path) -> Tiered:
    return unpacked(request.param, tmp_path)


def test_the_rows_are_those_of_a_consumer(tiered: Tiered) -> None:
    """Of all partitions of both tiers, also with aborted transactions, and where the log starts
    inside a remote segment.
    """
    place = tiered.place
    for partition in PARTITIONS:
        expected = tiered.consumed("read_uncommitted", partition)
        assert expected == rows_of(place, partition), partition
        assert len(expected) > 100
        committed = [row[0] for row in rows_of(place, partition, "read_committed")]
        assert [row[0] for row in tiered.consumed("read_committed", partition)] == committed
    assert 192 == rows_of(place, "shortened-0")[0][0]


def test_ranges_are_read_by_other_processes(tiered: Tiered) -> None:
    """A range that is sent to a task has no key of a segment with it, and gives the same rows."""
    log = observe(tiered.place, TopicPartition("tx", 0), high_watermark="end")
    ranges = plan_records(log, ReadRequest(range_bytes=8192))
    sent = pickle.dumps(ranges)
    assert len(ranges) > 3
    assert b"PrivateKey" not in sent
    offsets = [
        offset
        for each in pickle.loads(sent)  # noqa: S301, TID251 -- our own, as Spark sends it
        for batch in read_range(each, columns=COLUMNS)
        for offset in batch.column("offset").to_pylist()
    ]
    assert [row[0] for row in tiered.consumed("read_committed", "tx-0")] == offsets


def test_a_deleted_topic_has_no_log(tiered: Tiered) -> None:
    """Its events are left, and nothing else."""
    partitions = map(str, list_partitions(tiered.place))
    assert set(PARTITIONS) == {each for each in partitions if not each.startswith("__")}


def test_a_tier_alone_has_no_local_tail(tiered: Tiered) -> None:
    """Its rows are the first ones, without what DeleteRecords removed; and that is noted."""
    place = tiered.alone
    assert list(PARTITIONS) == [str(each) for each in list_partitions(place)]
    for partition in PARTITIONS:
        everything = tiered.consumed("read_uncommitted", partition)
        rows = rows_of(place, partition)
        seen = [row for row in rows if row[0] >= everything[0][0]]
        assert everything[: len(seen)] == seen
        assert 50 < len(seen) < len(everything)
    assert 141 == rows_of(place, "shortened-0")[0][0]
    assert list(PARTITIONS) == without_local(place)
    assert [] == without_local(tiered.place)
    assert place == place_of(f"tier:{tiered.remote}")


def test_a_read_keeps_one_chunk(tiered: Tiered, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more is in memory of a segment that is read piece by piece, and each chunk is read once
    by a scan.
    """
    read: list[int] = []
    chunk = chunks.ChunkedObject.chunk

    def counted(self: chunks.ChunkedObject, number: int) -> bytes:
        read.append(number)
        return chunk(self, number)

    monkeypatch.setattr(chunks.ChunkedObject, "chunk", counted)
    name = f"{0:020d}.log"
    with (tiered.place / "plain-0" / name).open() as file:
        whole = file.whole()
    assert sorted(set(read)) == read
    assert len(read) == -(-len(whole) // 10_240) > 2


def test_what_is_in_both_is_read_from_the_log_directory(tiered: Tiered) -> None:
    """As long as a broker has both: here all of a log is in the directory again, with one byte
    that only it has.
    """
    place = tiered.place
    directory = tiered.logs / "plain-0"
    for entry in list((place / "plain-0").entries()):
        path = directory / entry.stamp.name
        if not path.exists():
            with (place / "plain-0" / entry.stamp.name).open() as file:
                path.write_bytes(file.span(0, file.seen[0]))
    (directory / "note").write_text("here")
    again = tiered.place
    assert rows_of(tiered.logs, "plain-0") == rows_of(again, "plain-0")
    assert rows_of(place, "plain-1") == rows_of(again, "plain-1")
    for entry in (again / "plain-0").entries():
        stamp = (directory / entry.stamp.name).stat()
        assert (stamp.st_size, stamp.st_ino) == (entry.stamp.bytes, entry.stamp.inode)


def a_log(log_dir: Path, seed: int, *, edges: list[int]) -> list[int]:
    """A log with transactions whose segments begin at these offsets or later; their bases."""
    draw = random.Random(seed)
    builder, offset, bases = LogBuilder(log_dir), 0, []
    while offset < edges[-1] + 20:
        if not bases or (edges and offset >= edges[0]):
            segment, edges = builder.segment(offset), [each for each in edges if each > offset]
            bases.append(offset)
            if not edges:
                edges = [1 << 30]
        if draw.random() < 0.2:
            segment.batch(offset, [("k", "x" * 90)] * 2, producer_id=7, transactional=True)
            segment.marker(offset + 2, 7, draw.choice(["commit", "abort"]))
            offset += 3
        else:
            count = draw.randint(1, 4)
            segment.batch(offset, [(f"k{offset % 9}", "v" * draw.randint(1, 300))] * count)
            offset += count
        if offset > 400:
            break
    builder.write(index_interval=300, producers=True, log_start=0)
    (log_dir / ".kafka_cleanshutdown").touch()
    return bases


@pytest.mark.parametrize("seed", range(20))
def test_segments_that_overlap(tmp_path: Path, seed: int) -> None:
    """Each leader has segments of its own: where one continues, the other is cut, batches and index
    entries; what is local counts.
    """
    draw = random.Random(seed)
    edges = [sorted(draw.sample(range(20, 300), 5)) for _ in range(2)]
    mine, other = tmp_path / "mine", tmp_path / "other"
    bases = a_log(mine, seed, edges=edges[0])
    others = a_log(other, seed, edges=edges[1])
    expected = {how: rows_of(mine, "t-0", how) for how in ("read_committed", "read_uncommitted")}
    assert expected["read_uncommitted"] == rows_of(other, "t-0")
    bucket = tmp_path / "bucket"
    split = draw.randint(1, len(bases) - 1)
    to_local_storage(other, bucket, "t-0", [each for each in others if each <= bases[split]])
    to_local_storage(mine, bucket, "t-0", draw.sample(bases[:split], draw.randint(0, split)))
    drop_local(mine, "t-0", bases[:split])
    (place,) = with_tier([mine], TierOptions.of(str(bucket)))
    for how, rows in expected.items():
        assert rows == rows_of(place, "t-0", how)
    assert [] == verify_partition(place, T0)


def test_a_damaged_batch_of_a_segment_that_is_cut(tmp_path: Path) -> None:
    """The records before the next segment are not left out in silence: the error names object and
    position.
    """
    mine, other, bucket = tmp_path / "mine", tmp_path / "other", tmp_path / "bucket"
    bases = a_log(mine, 3, edges=[40, 80, 120, 160])
    others = a_log(other, 3, edges=[60, 100])
    to_local_storage(other, bucket, "t-0", others[:1])
    to_local_storage(mine, bucket, "t-0", bases[1:2])
    drop_local(mine, "t-0", bases[:2])
    options = TierOptions.of(str(bucket))
    assert rows_of(with_tier([mine], options)[0], "t-0") == rows_of(other, "t-0")
    (log,) = bucket.rglob("0-*.log")
    content = bytearray(log.read_bytes())
    spans = [span.position for span in walk_batches(content)]
    position = [each for each in spans if parse_batch(content, each).last_offset < bases[1]][-1]
    content[position + HEADER_BYTES] ^= 0x55
    log.write_bytes(content)
    with pytest.raises(CorruptObject, match=rf"{log.name} at byte {position}: the batch at offset"):
        rows_of(with_tier([mine], options)[0], "t-0")


def test_offsets_that_are_nowhere(tmp_path: Path) -> None:
    """Between two segments, or before the first one, nothing is left out in silence."""
    logs = tmp_path / "logs"
    bases = a_log(logs, 3, edges=[40, 80, 120, 160])
    to_local_storage(logs, tmp_path / "bucket", "t-0", bases[:3])
    drop_local(logs, "t-0", bases[:3])
    options = TierOptions.of(str(tmp_path / "bucket"))
    assert rows_of(with_tier([logs], options)[0], "t-0")
    for path in (tmp_path / "bucket").rglob("0-*"):
        path.unlink()
    with pytest.raises(PreconditionError, match=f"offsets 0 to {bases[1] - 1} are in no remote"):
        rows_of(with_tier([logs], options)[0], "t-0")
    shutil.rmtree(tmp_path / "bucket")
    (tmp_path / "bucket").mkdir()
    with pytest.raises(PreconditionError, match=f"offsets 0 to {bases[3] - 1} are in no remote"):
        rows_of(with_tier([logs], options)[0], "t-0")
    (logs / "log-start-offset-checkpoint").write_bytes(serialize_offset_checkpoint({}))
    other = with_tier([logs], options)[0]
    assert rows_of(logs, "t-0") == rows_of(other, "t-0")


def test_a_running_log_begins_with_its_first_segment(tmp_path: Path) -> None:
    """A broker records a log's start once a minute: after a retention the one on record is too low,
    and what is below the first segment is not missing.
    """
    logs = tmp_path / "logs"
    bases = a_log(logs, 3, edges=[40, 80, 120, 160])
    rows = rows_of(logs, "t-0")
    to_local_storage(logs, tmp_path / "bucket", "t-0", bases[1:3])
    drop_local(logs, "t-0", bases[:3])
    with running(logs, {"t-0": rows[-1][0] + 1}):
        (place,) = with_tier([as_it_runs(logs)], TierOptions.of(str(tmp_path / "bucket")))
        assert [row for row in rows if row[0] >= bases[1]] == rows_of(place, "t-0")


def test_segments_of_another_topic_of_the_name(tmp_path: Path) -> None:
    """The topic was deleted and made again: by its id its old segments are not the log's."""
    logs, old = tmp_path / "logs", tmp_path / "old"
    bases = a_log(logs, 4, edges=[40, 80])
    expected = rows_of(logs, "t-0")
    to_local_storage(logs, tmp_path / "bucket", "t-0", bases[:1])
    drop_local(logs, "t-0", bases[:1])
    a_log(old, 5, edges=[40, 80])
    to_local_storage(old, tmp_path / "bucket", "t-0", [0], topic_id=TOPIC_ID[::-1])
    (place,) = with_tier([logs], TierOptions.of(str(tmp_path / "bucket")))
    assert expected == rows_of(place, "t-0")
    with pytest.raises(PreconditionError, match="segments of several topics of this name"):
        rows_of(place_of(f"tier:{tmp_path / 'bucket'}"), "t-0")


def test_logs_of_other_brokers_are_shown_once(tmp_path: Path) -> None:
    """Of several log directories the first has the logs that are in none."""
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    for number, log_dir in enumerate((first, second, third)):
        builder = LogBuilder(log_dir, f"t-{number}")
        builder.segment(0).batch(0, [("a", "x")])
        builder.segment(1).batch(1, [("b", "y")])
        builder.write(producers=True)
        (log_dir / ".kafka_cleanshutdown").touch()
        to_local_storage(log_dir, tmp_path / "bucket", f"t-{number}", [0])
    places = with_tier([first, second], TierOptions.of(str(tmp_path / "bucket")))
    names = [[str(each) for each in list_partitions(place)] for place in places]
    assert [["t-0", "t-2"], ["t-1"]] == names
    assert ([0, 1], [0]) == tuple([row[0] for row in rows_of(places[0], n)] for n in ("t-0", "t-2"))


def test_a_key_that_is_missing_or_wrong(tmp_path: Path) -> None:
    """The segment is named, and how to give the key."""
    tiered = unpacked("zstd-encrypted", tmp_path)
    (place,) = with_tier([tiered.logs], TierOptions.of(str(tiered.remote)))
    with pytest.raises(PolicyError, match=r"the segment is encrypted\. Give the private key"):
        rows_of(place, "plain-0")
    public = TierOptions.of(str(tiered.remote), tiered.root / "pub.pem")
    with pytest.raises(PolicyError, match="is not an RSA private key"):
        rows_of(with_tier([tiered.logs], public)[0], "plain-0")


def test_what_is_not_there(tiered: Tiered) -> None:
    """As in a directory of this machine."""
    place = tiered.place
    assert isinstance(place, TieredPlace)
    for path in ("nothing", "plain-0/nothing", "plain-0/nothing/more", "nothing-0/x"):
        with pytest.raises(FileNotFoundError):
            (place / path).entry()
        with pytest.raises(FileNotFoundError):
            (place / path).open()
    with pytest.raises(IsADirectoryError):
        (tiered.alone / "plain-0").open()


def test_a_url_of_another_kind(tmp_path: Path) -> None:
    """A bucket that cannot be read is refused by its scheme; a file's URL is a directory."""
    for text in ("http://host/tier", "file://host/tier"):
        with pytest.raises(PolicyError, match=r"not a (kind|URL) of (a )?bucket"):
            list_partitions(with_tier([tmp_path], TierOptions.of(text))[0])
    tiered = unpacked("plain", tmp_path)
    (place,) = with_tier([tiered.logs], TierOptions.of(f"file://{tiered.remote}"))
    assert tiered.consumed("read_uncommitted", "plain-0") == rows_of(place, "plain-0")


def test_a_segment_whose_objects_are_gone(tiered: Tiered) -> None:
    """The events have it, the bucket does not."""
    for path in (tiered.remote).rglob(f"{141:020d}-*"):
        if "plain-" in str(path):
            path.unlink()
    with pytest.raises(CorruptObject, match="all objects of the segment are missing"):
        rows_of(tiered.place, "plain-0")
    assert rows_of(tiered.place, "plain-1")
