"""A log directory is written into a bucket, and read there as it is here."""

from __future__ import annotations

import pickle
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from logwright.batches.runtime import Throttle, silent
from logwright.bucket.agreement import agree
from logwright.bucket.commit import TooLate, newest
from logwright.bucket.driver import drive
from logwright.bucket.store import Bucket
from logwright.config.kept import read_kept
from logwright.erasure.certificate.search import search
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.keys import KeySet
from logwright.errors import PolicyError, PreconditionError, StalePlan, UnreadableFile
from logwright.format.kept_topics import KeptTopic
from logwright.format.names import TopicPartition
from logwright.latest.plan import plan_latest
from logwright.latest.read import read_latest
from logwright.log.checkpoints import read_checkpoints
from logwright.log.dump import dump_partition
from logwright.log.load import list_partitions, observe
from logwright.metadata.read import read_directory_ids
from logwright.place.bucket import BucketPlace
from logwright.place.files import open_partition_dir
from logwright.place.model import Place, reading
from logwright.place.named import place_of
from logwright.records.model import ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.records.schema import RECORDS
from logwright.running.place import as_it_runs
from logwright.spark.kafka_log import KafkaLogReader
from logwright.spark.kafka_log_options import read_options
from logwright.spark.kafka_log_rows import SCHEMA
from logwright.upload.upload import Upload, Uploaded
from logwright.verify.partition import verify_partition
from tests.bucket.servers import NAME, environment, served
from tests.found import SECRET
from tests.log_builder import START_MS, LogBuilder
from tests.plain_consumer import arrow_rows
from tests.running_dirs import record, running

T0 = TopicPartition("t", 0)
COLUMNS = tuple(RECORDS.names)
TOPIC_ID = "AbCdEfGhIjKlMnOpQrStUv"


@pytest.fixture(scope="module", name="port")
def _port() -> Iterator[int]:
    with served() as port:
        yield port


@dataclass(frozen=True)
class Buckets:
    """Where a test writes."""

    url: str

    @property
    def bucket(self) -> Bucket:
        """To write to."""
        return Bucket.of(self.url)

    @property
    def place(self) -> Place:
        """To read from, as nobody has looked at it yet."""
        return place_of(self.url)


@pytest.fixture(name="buckets")
def _buckets(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Buckets:
    """A directory of its own in a bucket: of a file system, or, if the test wants it, of S3."""
    if getattr(request, "param", "file") == "file":
        return Buckets(f"file://{tmp_path}/bucket/logs")
    for name, value in environment(request.getfixturevalue("port")).items():
        monkeypatch.setenv(name, value)
    return Buckets(f"s3://{NAME}/{tmp_path.name}")


PLAIN = {"cleanup.policy": "delete"}


def a_log(log_dir: Path, *, cleaned: bool = True) -> Path:
    """Three segments: compressed and plain batches, tombstones, an aborted and an open transaction
    after the newest snapshot; a topic id.
    """
    builder = LogBuilder(log_dir)
    for base in (0, 27):
        segment = builder.segment(base)
        for offset in range(base, base + 24, 2):
            pairs = [(f"k{offset % 7}", "v" * 300), (f"k{offset % 5}", None)]
            segment.batch(offset, pairs, codec=offset % 5)
        segment.batch(base + 24, [("k1", "x")] * 2, producer_id=7, transactional=True)
        segment.marker(base + 26, 7, "abort" if base else "commit")
    builder.segment(54).batch(54, [("k2", "open")], producer_id=8, transactional=True)
    dirty = 10 if cleaned else None
    builder.write(index_interval=1, producers=True, cleaner_checkpoint=dirty, high_watermark=54)
    (log_dir / ".kafka_cleanshutdown").touch()
    (log_dir / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    return log_dir


def upload(log_dir: Place, buckets: Buckets, **more: Any) -> Uploaded:  # noqa: ANN401 -- of Upload
    """Write the log there."""
    bucket = buckets.bucket
    configs = {"cleanup.policy": "compact"}
    wanted = {"place": log_dir, "partition": T0, "configs": configs, "now_ms": START_MS} | more
    return Upload(bucket=bucket, limits=agree(bucket), **wanted).run()


def records(log_dir: Place, **request: Any) -> list[Any]:  # noqa: ANN401 -- of ReadRequest
    log = observe(log_dir, T0, high_watermark="end")
    ranges = plan_records(log, ReadRequest(**request))
    sent = pickle.loads(pickle.dumps(ranges))  # noqa: S301, TID251 -- our own, as Spark sends it
    return [row for part in sent for row in arrow_rows([*read_range(part, columns=COLUMNS)])]


def latest(log_dir: Place, **as_of: Any) -> object:  # noqa: ANN401 -- of plan_latest
    plan = plan_latest(observe(log_dir, T0, high_watermark="end"), **as_of)
    return arrow_rows([*read_latest(plan, columns=COLUMNS, tombstones=True)])


def spark_rows(log_dir: Place, **more: str) -> object:
    """What the tasks of the data source give, without Spark."""
    options = {"path": str(log_dir), "subscribe": "t"} | more
    reader = KafkaLogReader(read_options(options), SCHEMA)
    tasks = [InputPartition(task.value) for task in reader.partitions()]
    return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


def observed(log_dir: Place) -> object:
    """All but the place and the inodes."""
    log = observe(log_dir, T0, high_watermark="checkpoint")
    stamps = [(each.name, each.bytes) for each in log.fingerprint.files]
    return log._replace(log_dir=None, fingerprint=None), stamps  # type: ignore[arg-type]  # to compare


def keys_found(log_dir: Place) -> object:
    keys = KeySet.of(SECRET, clear=[b"k1", b"k6"])
    seen = search_log_dir(log_dir, keys, None, patterns=(b"open",), progress=silent)
    findings = [(each.path, each.offset, each.place) for each in seen.findings]
    return findings, seen.unsearched, seen.topics


def certified(log_dir: Place) -> object:
    """What a certificate is made from: every file of a log, its size, what is in it."""

    def look(place: Place) -> object:
        keys = KeySet.of(SECRET, clear=[b"k1", b"k6"])
        return search_log_dir(place, keys, None, patterns=(b"open",), progress=silent)

    seen = search(log_dir, look, requests=2, sources=None, report=lambda *_: None)  # type: ignore[arg-type]  # as it is
    sizes = {path: stamp[2] for path, stamp in seen.tree.files.items() if path.startswith("t-0/")}
    return sizes, [(each.path, each.offset) for each in seen.findings], seen.topics


READERS: dict[str, Callable[[Place], object]] = {
    "observe": observed,
    "listing": list_partitions,
    "ids": read_directory_ids,
    "dump": lambda log_dir: [*dump_partition(log_dir, T0)],
    "records": records,
    "records in ranges": lambda log_dir: records(log_dir, range_bytes=512),
    "records by time": lambda log_dir: records(log_dir, start_timestamp_ms=START_MS + 33),
    "uncommitted records": lambda log_dir: records(log_dir, isolation="read_uncommitted"),
    "latest": latest,
    "latest in the past": lambda log_dir: latest(log_dir, end_offset=50),
    "kafka-log": spark_rows,
    "kafka-log in tasks": lambda log_dir: spark_rows(log_dir, minPartitions="4"),
    "kafka-log, latest": lambda log_dir: spark_rows(log_dir, view="latest"),
    "verify": lambda log_dir: verify_partition(log_dir, T0),
    "find": keys_found,
    "certificate": certified,
}


@pytest.mark.parametrize("buckets", ["file", "s3"], indirect=True)
def test_every_reader_gives_the_same(buckets: Buckets, tmp_path: Path) -> None:
    """Of a log in a bucket as of the same log in a directory, which is not there any more."""
    log_dir = a_log(tmp_path / "logs")
    expected = {name: read(log_dir) for name, read in READERS.items()}
    upload(log_dir, buckets)
    shutil.rmtree(log_dir)
    for name, read in READERS.items():
        assert expected[name] == read(place_of(buckets.url)), name


def test_what_the_root_has(buckets: Buckets, tmp_path: Path) -> None:
    """The checkpoints of a stopped broker, and the settings and the id of the topic."""
    log_dir = a_log(tmp_path / "logs")
    upload(log_dir, buckets)
    here, there = read_checkpoints(log_dir), read_checkpoints(buckets.place)
    assert here.high_watermark == there.high_watermark
    assert here.cleaner_offset == there.cleaner_offset
    assert {} == there.log_start_offset
    assert {T0: 55} == there.recovery_point
    kept = KeptTopic(topic_id=TOPIC_ID, configs={"cleanup.policy": "compact"})
    assert {"t": kept} == read_kept(buckets.place)


def bytes_of(log_dir: Path, place: Place) -> None:
    """Require that every file of the log is the same."""
    partition = place / "t-0"
    assert isinstance(partition, BucketPlace)
    names = {entry.stamp.name for entry in partition.entries()}
    assert {path.name for path in (log_dir / "t-0").iterdir() if path.is_file()} == names
    for name in names:
        with (partition / name).open() as file:
            assert (log_dir / "t-0" / name).read_bytes() == file.whole().tobytes()


def test_the_ends_of_files_are_known(buckets: Buckets, tmp_path: Path) -> None:
    """To plan, sealed segments are not asked for: the manifest has what is read of them. What it
    has is what the files have, wherever a part begins and ends.
    """
    log_dir = a_log(tmp_path / "logs")
    upload(log_dir, buckets)
    place = buckets.place / "t-0"
    assert isinstance(place, BucketPlace)
    known = 0
    with open_partition_dir(buckets.place, T0) as directory:
        for name, kind in directory.kinds().items():
            content = (log_dir / "t-0" / name).read_bytes()
            assert "file" == kind
            ends = {*range(0, 70, 6), *range(max(len(content) - 30, 0), len(content) + 2, 2)}
            for position, size in product(ends, (1, 8, 61)):
                expected = content[position : position + size]
                assert expected == directory.read_part(name, position, size)
                known += place.known_part(name, position, size) is not None
        with pytest.raises(UnreadableFile, match="ENOENT"):
            directory.read_part("missing", 0, 1)
    assert known > 300


@pytest.mark.parametrize("buckets", ["file", "s3"], indirect=True)
def test_only_what_is_new_is_sent(buckets: Buckets, tmp_path: Path) -> None:
    """Again nothing; after an append the active segment; and it is as long as the log."""
    log_dir = a_log(tmp_path / "logs")
    first = upload(log_dir, buckets)
    assert (0, 1, 3, 55) == (first.version, first.commits, first.segments, first.end_offset)
    again = upload(log_dir, buckets)
    assert (0, 0, 0) == (again.version, again.commits, again.sent_files)
    log = log_dir / "t-0" / f"{54:020d}.log"
    more = LogBuilder(tmp_path / "more")
    more.segment(54).batch(55, [("k3", "new")])
    log.write_bytes(log.read_bytes() + more.segments[0].content)
    third = upload(log_dir, buckets)
    assert (1, 1, 1, 56) == (third.version, third.commits, third.sent_files, third.end_offset)
    assert log.stat().st_size == third.sent_bytes
    bytes_of(log_dir, place_of(buckets.url))
    files = [path for path in (log_dir / "t-0").iterdir() if path.name[0] == "0"]
    assert sum(path.stat().st_size for path in files) == third.bytes


def test_what_retention_deletes_here_stays_there(buckets: Buckets, tmp_path: Path) -> None:
    """The log in the bucket begins where it began."""
    log_dir = a_log(tmp_path / "logs", cleaned=False)
    upload(log_dir, buckets, configs=PLAIN)
    for path in (log_dir / "t-0").glob(f"{0:020d}.*"):
        path.unlink()
    result = upload(log_dir, buckets, configs=PLAIN)
    assert (3, 0) == (result.segments, result.sent_files)
    assert 0 == observe(buckets.place, T0, high_watermark="end").log_start_offset


def test_offsets_that_retention_deleted_before_an_upload_are_said(
    buckets: Buckets, tmp_path: Path
) -> None:
    """They are in no version; a log that continues where the bucket's ends lacks nothing."""
    log_dir = a_log(tmp_path / "logs", cleaned=False)
    for path in (log_dir / "t-0").glob(f"{5:019d}[45].*"):
        path.rename(tmp_path / path.name)
    first = upload(log_dir, buckets, configs=PLAIN)
    assert (54, None) == (first.end_offset, first.missing)
    for path in tmp_path.glob(f"{5:019d}[45].*"):
        path.rename(log_dir / "t-0" / path.name)
    for base in (0, 27):
        for path in (log_dir / "t-0").glob(f"{base:020d}.*"):
            path.unlink()
    again = upload(log_dir, buckets, configs=PLAIN)
    assert (55, None) == (again.end_offset, again.missing)
    later = LogBuilder(tmp_path / "later")
    later.segment(60).batch(60, [("k", "v")])
    later.write(high_watermark=61)
    (tmp_path / "later/.kafka_cleanshutdown").touch()
    assert (55, 59) == upload(tmp_path / "later", buckets, configs=PLAIN).missing


@pytest.mark.parametrize("known_by", ["checkpoint", "settings"])
def test_a_deleted_key_does_not_come_back(buckets: Buckets, tmp_path: Path, known_by: str) -> None:
    """A log with compact,delete: the cleaner has removed a tombstone, retention the segment with
    the value before it. So of a compacted log nothing older stays than the log directory has.
    """
    log_dir = tmp_path / "logs"
    configs = {"cleanup.policy": "compact,delete"} if known_by == "settings" else {}
    dirty = 20 if known_by == "checkpoint" else None
    old = LogBuilder(log_dir)
    old.segment(0).batch(0, [("gone", "secret"), ("kept", "1")])
    old.segment(10).batch(10, [("gone", None), ("kept", "2")])
    old.segment(20).batch(20, [("kept", "3")])
    old.write(producers=True, high_watermark=21, cleaner_checkpoint=dirty)
    (log_dir / ".kafka_cleanshutdown").touch()
    upload(log_dir, buckets, configs=configs)
    shutil.rmtree(log_dir)
    new = LogBuilder(log_dir)
    new.segment(10).batch(11, [("kept", "2")])
    new.segment(20).batch(20, [("kept", "3")])
    new.write(producers=True, high_watermark=21, cleaner_checkpoint=dirty)
    (log_dir / ".kafka_cleanshutdown").touch()
    upload(log_dir, buckets, configs=configs)
    assert [b"kept"] == [row[0] for row in latest(buckets.place)]  # type: ignore[attr-defined]  # rows
    assert latest(log_dir) == latest(buckets.place)


def quarters() -> Iterator[int]:
    """A clock that is a quarter of an hour later whenever it is read, ms. It begins at what the
    driver's clock shows: deadlines are counted from the one to the other.
    """
    return count(int(time.monotonic() * 1000), 900_000)


def test_a_compacted_log_is_committed_as_a_whole(buckets: Buckets, tmp_path: Path) -> None:
    """What is newer than a part of it may be why a key is not in that part. It has half of the age
    for it, and no longer.
    """
    log_dir = a_log(tmp_path / "logs")
    clock = quarters()
    assert 1 == upload(log_dir, buckets, elapsed_ms=lambda: next(clock)).commits
    now_ms = next(quarters())
    days = 86_400_000
    for number, (begun_ms, configs) in enumerate(((-4 * days, {}), (-3 * days, PLAIN))):
        other = Buckets(f"file://{tmp_path}/other{number}")
        log_dir = a_log(tmp_path / f"logs{number}", cleaned=not configs)
        with pytest.raises(TooLate):
            upload(log_dir, other, elapsed_ms=lambda ms=now_ms + begun_ms: ms, configs=configs)
    third = Buckets(f"file://{tmp_path}/third")
    assert 1 == upload(tmp_path / "logs0", third, elapsed_ms=lambda: now_ms - 3 * days).commits


def test_the_high_watermark_does_not_go_back(buckets: Buckets, tmp_path: Path) -> None:
    """A replica that is uploaded later may have an older checkpoint."""
    log_dir = a_log(tmp_path / "logs", cleaned=False)
    upload(log_dir, buckets, configs=PLAIN)
    (log_dir / "replication-offset-checkpoint").write_text("0\n1\nt 0 30\n")
    upload(log_dir, buckets, configs=PLAIN)
    assert 54 == read_checkpoints(buckets.place).high_watermark[T0]


def test_what_would_lose_records_is_refused(buckets: Buckets, tmp_path: Path) -> None:
    """A shorter log, and another topic of the same name; the bucket stays as it is."""
    log_dir = a_log(tmp_path / "logs")
    upload(log_dir, buckets)
    before = observed(buckets.place)
    (log_dir / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {'B' * 22}")
    with pytest.raises(PreconditionError, match=r"another one than B{22}"):
        upload(log_dir, buckets)
    for path in (log_dir / "t-0").glob(f"{5:019d}[45].*"):
        path.unlink()
    (log_dir / "t-0" / "partition.metadata").unlink()
    with pytest.raises(PreconditionError, match="records would be lost"):
        upload(log_dir, buckets)
    assert before == observed(buckets.place)


def test_a_log_of_which_the_bucket_needs_nothing_is_looked_at_too(
    buckets: Buckets, tmp_path: Path
) -> None:
    """It ends where the bucket's log begins, since another topic took the name, or it lost all."""
    log_dir = a_log(tmp_path / "logs", cleaned=False)
    for path in (log_dir / "t-0").glob(f"{0:020d}.*"):
        path.unlink()
    upload(log_dir, buckets, configs=PLAIN)
    before = observed(buckets.place)
    other = LogBuilder(tmp_path / "other")
    other.segment(0).batch(0, [("k", "v")])
    other.write(producers=True, high_watermark=1)
    for identity, problem in (("", "records would be lost"), ("B" * 22, "another one than B{22}")):
        if identity:
            metadata = f"version: 0\ntopic_id: {identity}"
            (other.directory / "partition.metadata").write_text(metadata)
        with pytest.raises(PreconditionError, match=problem):
            upload(other.log_dir, buckets, configs=PLAIN)
    assert before == observed(buckets.place)


def test_a_long_upload_is_committed_in_parts(buckets: Buckets, tmp_path: Path) -> None:
    """Each part is a log that can be read; the last is all of it."""
    log_dir = a_log(tmp_path / "logs", cleaned=False)
    clock = quarters()
    result = upload(log_dir, buckets, elapsed_ms=lambda: next(clock), configs=PLAIN)
    assert 3 == result.commits
    directory = buckets.bucket.below("t-0")
    ends = []
    for version in range(3):
        place = BucketPlace(buckets.place.pure, "x", _session(buckets, version))  # type: ignore[union-attr]  # of a bucket
        log = observe(place, T0, high_watermark="end")
        assert [] == list(verify_partition(place, T0))
        ends.append(log.log_end_offset)
    assert [27, 54, 55] == ends
    assert 2 == drive(directory, newest()).version  # type: ignore[union-attr]  # there is one


def _session(buckets: Buckets, version: int) -> Any:  # noqa: ANN401 -- a session
    place = buckets.place
    assert isinstance(place, BucketPlace)
    return type(place.session)(buckets.bucket, {"t-0": version})


@pytest.mark.parametrize("buckets", ["file", "s3"], indirect=True)
def test_tasks_read_the_version_that_was_planned(buckets: Buckets, tmp_path: Path) -> None:
    """Also when there is a newer one; and say so if it is gone."""
    log_dir = a_log(tmp_path / "logs")
    upload(log_dir, buckets)
    expected = records(log_dir)
    ranges = plan_records(observe(buckets.place, T0, high_watermark="end"), ReadRequest())
    sent = pickle.dumps(ranges)
    LogBuilder(tmp_path / "x")
    shutil.rmtree(log_dir)
    grown = LogBuilder(log_dir)
    grown.segment(0).batch(0, [("k", "v")] * 100)
    grown.write(producers=True)
    upload(log_dir, buckets)
    again = pickle.loads(sent)  # noqa: S301, TID251 -- our own, as Spark sends it
    assert expected == [
        r for part in again for r in arrow_rows([*read_range(part, columns=COLUMNS)])
    ]
    buckets.bucket.below("t-0").delete(f"manifest/{0:020d}")
    gone = pickle.loads(sent)  # noqa: S301, TID251 -- our own, as Spark sends it
    with pytest.raises(StalePlan, match="its version 0 is gone"):
        list(read_range(gone[0], columns=COLUMNS))


@pytest.mark.parametrize("buckets", ["file", "s3"], indirect=True)
def test_an_object_that_is_gone_is_named(buckets: Buckets, tmp_path: Path) -> None:
    """With the file that it is."""
    log_dir = a_log(tmp_path / "logs")
    upload(log_dir, buckets)
    place = buckets.place
    ranges = plan_records(observe(place, T0, high_watermark="end"), ReadRequest())
    directory = buckets.bucket.below("t-0")
    for stored in list(directory.listing("data/")):
        if stored.key.endswith(".log"):
            directory.delete(stored.key)
    with pytest.raises(StalePlan, match=r"\.log: its object data/upload-.* is gone"):
        list(read_range(ranges[0], columns=COLUMNS))


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:secret@bucket/x",
        "s3://bucket/x?token=secret",
        "s3:bucket",
        "s3://bucket/../secret",
        "file://secret/x",
        "az://container/%2e%2e/secret",
    ],
)
def test_a_url_with_more_than_a_path_is_refused(url: str) -> None:
    """And what it has is not repeated."""
    with pytest.raises(PolicyError) as caught:
        place_of(url)
    assert "secret" not in str(caught.value)


def test_the_throttle_sees_what_is_read(tmp_path: Path) -> None:
    """Every byte of the log directory's files, once where they are new."""
    log_dir = a_log(tmp_path / "logs")
    waits: list[float] = []
    throttle = Throttle(1e6, clock=lambda: 0.0, sleep=waits.append)
    result = upload(log_dir, Buckets(f"file://{tmp_path}/bucket"), throttle=throttle)
    assert pytest.approx(result.sent_bytes / 1e6) == max(waits)


class Killed(BaseException):
    """The process ended."""


def test_killed_at_every_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before or after what it writes: the log in the bucket is whole, and the next upload completes
    it, without a record lost.
    """
    log_dir = a_log(tmp_path / "logs")
    expected = {name: READERS[name](log_dir) for name in ("records", "dump", "verify")}
    left = 0

    def dying(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:  # noqa: ANN401 -- of a method of Bucket
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            answer = method(*arguments)
            left -= 1
            if left == 0:
                raise Killed
            return answer

        return call

    for name in ("create", "put_unique", "content", "listing"):
        monkeypatch.setattr(Bucket, name, dying(getattr(Bucket, name)))
    agree(Bucket.of(f"file://{tmp_path}/done"))
    killed = 0
    while True:
        buckets = Buckets(f"file://{tmp_path}/bucket{killed}")
        (tmp_path / f"bucket{killed}").mkdir()
        shutil.copy(tmp_path / "done/format.json", tmp_path / f"bucket{killed}")
        left = killed + 1
        try:
            upload(log_dir, buckets)
        except Killed:
            killed += 1
        else:
            break
        left = 0
        upload(log_dir, buckets)
        bytes_of(log_dir, place_of(buckets.url))
        for name, rows in expected.items():
            assert rows == READERS[name](place_of(buckets.url)), (name, killed)
    assert killed > 30


def test_a_log_that_a_broker_has_open(tmp_path: Path) -> None:
    """It is written up to the high watermark, and the rest once that is recorded; the sealed
    segment once. What is not decided there is not in the bucket either.
    """
    log_dir, buckets = tmp_path / "logs", Buckets(f"file://{tmp_path}/bucket")
    log = LogBuilder(log_dir)
    log.segment(0).batch(0, [("a", "1")] * 10)
    active = log.segment(10).batch(10, [("b", "2")] * 2)
    active.batch(12, [("c", "3")] * 2, producer_id=7, transactional=True)
    active.batch(14, [("d", "4")] * 5).marker(19, 7, "abort")
    log.write(producers=True)
    for path in (log_dir / "t-0").glob("*.snapshot"):
        path.unlink()
    with running(log_dir, {"t-0": 14}):
        place = as_it_runs(log_dir)
        with reading(place):
            first = upload(place, buckets)
            assert (14, 2) == (first.end_offset, first.segments)
            assert 12 == len(rows := records(place)), rows
            assert rows == records(buckets.place)
            assert 0 == upload(place, buckets).sent_files
        record(log_dir, {"t-0": 20})
        place = as_it_runs(log_dir)
        again = upload(place, buckets)
        assert records(place) == records(buckets.place)
    assert (20, 1) == (again.end_offset, again.commits)
    assert [] == list(verify_partition(buckets.place, T0))
    assert again.sent_files < first.sent_files


def test_a_part_without_its_producers_is_not_committed(tmp_path: Path) -> None:
    """A transaction that is open in it would seem to be decided."""
    buckets = Buckets(f"file://{tmp_path}/bucket")
    log_dir = a_log(tmp_path / "logs", cleaned=False)
    (log_dir / "t-0" / f"{27:020d}.snapshot").unlink()
    clock = quarters()
    more = {"elapsed_ms": lambda: next(clock), "configs": PLAIN}
    assert 2 == upload(log_dir, buckets, **more).commits
    first = _session(buckets, 0).place
    assert 54 == observe(first, T0, high_watermark="end").log_end_offset
