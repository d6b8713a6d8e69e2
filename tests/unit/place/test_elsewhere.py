"""Readers on a place that is not on this machine: the same results, and clear errors."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql.datasource import InputPartition

from logwright.audit.run import audit_partition
from logwright.batches import segment_file
from logwright.batches.runtime import silent
from logwright.erasure.certificate.make import Searched
from logwright.erasure.certificate.search import search
from logwright.erasure.find.result import SearchResult
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.keys import KeySet
from logwright.errors import NotALogDir, StalePlan, UncleanLogDir, UnreadableFile
from logwright.format.names import TopicPartition
from logwright.latest.plan import plan_latest
from logwright.latest.read import read_latest
from logwright.log.checkpoints import read_checkpoints
from logwright.log.dump import dump_partition
from logwright.log.load import list_partitions, observe
from logwright.metadata.read import read_directory_ids
from logwright.place.mapped import MOST_READ, MappedFiles
from logwright.place.model import Place
from logwright.place.named import ELSEWHERE, place_of
from logwright.records.model import ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.records.schema import RECORDS
from logwright.spark.kafka_log import KafkaLogReader
from logwright.spark.kafka_log_options import read_options
from logwright.spark.kafka_log_rows import SCHEMA
from logwright.verify.partition import verify_partition
from tests.found import SECRET, settings
from tests.log_builder import START_MS, LogBuilder
from tests.other_place import SCHEME, Elsewhere, elsewhere, in_memory, text_of
from tests.plain_consumer import Row, arrow_rows
from tests.unit.audit.histories import HISTORIES, Pair

T0 = TopicPartition("t", 0)
COLUMNS = tuple(RECORDS.names)
SECOND = f"{27:020d}.log"


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ELSEWHERE, SCHEME, in_memory)


def a_log(log_dir: Path) -> Path:
    """Three segments: compressed and plain batches, tombstones, an aborted and an open transaction
    after the newest snapshot.
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
    builder.write(index_interval=1, producers=True, cleaner_checkpoint=10)
    (log_dir / ".kafka_cleanshutdown").touch()
    partition = log_dir / "t-0"
    partition.joinpath(f"{0:020d}.log.deleted").write_bytes((partition / SECOND).read_bytes())
    stray = log_dir / "t-0.0123abcd-stray"
    shutil.copytree(partition, stray)
    log_dir.joinpath("notes").write_bytes(b"nothing of a log")
    return log_dir


def records(log_dir: Place, **request: object) -> list[Row]:
    log = observe(log_dir, T0, high_watermark="end")
    ranges = plan_records(log, ReadRequest(**request))
    sent = pickle.loads(pickle.dumps(ranges))  # noqa: S301, TID251 -- our own, as Spark sends it
    return [row for one in sent for row in arrow_rows([*read_range(one, columns=COLUMNS)])]


def latest(log_dir: Place, **as_of: object) -> list[Row]:
    plan = plan_latest(observe(log_dir, T0, high_watermark="end"), **as_of)
    return arrow_rows([*read_latest(plan, columns=COLUMNS, tombstones=True)])


def spark_rows(log_dir: Place, **more: str) -> list[Any]:
    """What the tasks of the data source give, without Spark."""
    reader = KafkaLogReader(
        read_options({"path": text_of(log_dir), "subscribe": "t"} | more), SCHEMA
    )
    tasks = [InputPartition(task.value) for task in reader.partitions()]
    return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


def observed(log_dir: Place) -> object:
    return observe(log_dir, T0, high_watermark="checkpoint")[1:]


def found(log_dir: Place) -> SearchResult:
    """A search for two keys and a pattern, of an archive."""
    keys = KeySet.of(SECRET, clear=[b"k1", b"k6"])
    return search_log_dir(log_dir, keys, None, patterns=(b"open",), progress=silent)


def certified(log_dir: Place) -> Searched:
    """What a certificate is made from."""
    return search(log_dir, found, requests=2, sources=None, report=lambda *_: None)


def facts_of_search(log_dir: Place) -> object:
    seen = found(log_dir)
    return seen.findings, seen.unsearched, seen.looked, seen.topics, seen.files, seen.bytes


def facts_of_certificate(log_dir: Place) -> object:
    seen = certified(log_dir)
    stamps = {path: stamp[1:4] for path, stamp in seen.tree.files.items()}
    return seen.path, stamps, seen.files, seen.findings, seen.looked, seen.unsearched, seen.topics


READERS: dict[str, Callable[[Place], object]] = {
    "observe": observed,
    "listing": list_partitions,
    "checkpoints": read_checkpoints,
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
    "find": facts_of_search,
    "certificate": facts_of_certificate,
}


def moved(log_dir: Path) -> Elsewhere:
    """The directory in the other place, and nothing of it left in this one."""
    place = elsewhere(log_dir)
    shutil.rmtree(log_dir)
    return place


@pytest.mark.parametrize("name", READERS)
def test_a_reader_gives_the_same(name: str, tmp_path: Path) -> None:
    """Wherever the bytes are."""
    read = READERS[name]
    log_dir = a_log(tmp_path / "logs")
    expected = read(log_dir)
    assert expected == read(moved(log_dir))


@pytest.mark.parametrize("name", READERS)
def test_short_reads_are_read_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read may give fewer bytes than it was asked for, at any time; pieces may be small."""
    read = READERS[name]
    log_dir = a_log(tmp_path / "logs")
    expected = read(log_dir)
    place = moved(log_dir)
    place.store.watch = lambda _, __: 37
    monkeypatch.setattr(segment_file, "PIECE_BYTES", 400)
    assert expected == read(place)


SEARCHES = {"find", "certificate"}
CLAIMS = [name for name in READERS if name not in {"listing", "ids", "checkpoints", *SEARCHES}]


@pytest.mark.parametrize("name", CLAIMS)
def test_a_read_that_fails_is_named(name: str, tmp_path: Path) -> None:
    """With file and position; nothing is said of what was not read."""
    place = moved(a_log(tmp_path / "logs"))
    READERS[name](place)
    opened = {path for path in place.store.opened if path.endswith(".log")}
    assert opened

    for file in opened:

        def fail(path: str, position: int, file: str = file) -> None:
            if path == file:
                raise OSError(5, f"no answer at {position}")

        place.store.watch = fail
        with pytest.raises(UnreadableFile, match=r"at byte \d+: cannot be read .EIO") as caught:
            READERS[name](place)
        assert (Path(file), True) == (caught.value.path, caught.value.position is not None)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_file_that_vanishes_after_the_listing_is_named(name: str, tmp_path: Path) -> None:
    """It was listed, and cannot be opened."""
    place = moved(a_log(tmp_path / "logs"))
    READERS[name](place)
    for file in {path for path in place.store.opened if path.endswith(".log")}:
        place.store.gone = {file}
        with pytest.raises(UnreadableFile, match="vanished") as caught:
            READERS[name](place)
        assert Path(file) == caught.value.path


def test_a_search_claims_nothing_of_what_it_could_not_read(tmp_path: Path) -> None:
    """A file that fails, or that is away, is named as not searched, with what is wrong; the others
    are searched.
    """
    place = moved(a_log(tmp_path / "logs"))
    every = found(place)
    assert {f"t-0/{SECOND}", f"t-0.0123abcd-stray/{SECOND}"} <= {one.path for one in every.findings}
    relative = f"t-0/{SECOND}"

    def fail(path: str, _: int) -> None:
        if path.endswith(f"logs/{relative}"):
            raise OSError(5, "no answer")

    place.store.watch = fail
    seen = found(place)
    expected = [(one.path, one.offset) for one in every.findings if one.path != relative]
    assert expected == [(one.path, one.offset) for one in seen.findings]
    assert "not searched" == seen.looked[relative]
    (more,) = [one for one in seen.unsearched if one not in every.unsearched]
    assert (relative, -1) == (more.path, more.bytes)
    assert "EIO: no answer" in more.problem
    place.store.watch = lambda _, __: None
    place.store.gone = {str(place / relative)}
    assert seen.looked == found(place).looked


@pytest.mark.parametrize("fault", ["fails", "vanishes", "changes"])
def test_no_certificate_of_what_was_not_read(fault: str, tmp_path: Path) -> None:
    """It is about one state of all files: an error names the file that was not read, or is another
    one when it is read.
    """
    place = moved(a_log(tmp_path / "logs"))
    path = place.pure / "t-0" / SECOND
    seen = []

    def watch(read: str, _: int) -> None:
        if read != str(path):
            return
        seen.append(read)
        if fault == "fails":
            raise OSError(5, "no answer")
        if fault == "changes":
            entry = place.store.entries[path]
            place.store.entries[path] = entry._replace(changed_ns=entry.changed_ns + len(seen))

    place.store.watch = watch
    place.store.gone = {str(path)} if fault == "vanishes" else set()
    expected = UnreadableFile if fault == "fails" else StalePlan
    with pytest.raises(expected) as caught:
        certified(place)
    assert Path(path) == caught.value.path


def test_what_removes_records_elsewhere_is_not_claimed(tmp_path: Path) -> None:
    """No plan of this machine removes them: nothing is said of when they are gone."""
    place = moved(a_log(tmp_path / "logs"))
    keys = KeySet.of(SECRET, clear=[b"k1"])
    seen = search_log_dir(place, keys, settings({}), progress=silent)
    live = [one for one in seen.findings if one.path.startswith("t-0/") and one.place == "segment"]
    assert live
    assert {(None, "")} == {(one.gone_by_ms, one.rule) for one in live}
    assert {T0: "what removes its records is not known of another place"} == seen.undecided


@pytest.mark.parametrize("change", ["replaced", "shorter"])
def test_another_file_than_the_planned_one_is_refused(change: str, tmp_path: Path) -> None:
    """By its size, its time and what the place has for an inode; or when it ends too early."""
    place = moved(a_log(tmp_path / "logs"))
    ranges = plan_records(observe(place, T0, high_watermark="end"), ReadRequest())
    path = place.pure / "t-0" / SECOND
    entry = place.store.entries[path]
    if change == "replaced":
        place.store.entries[path] = entry._replace(stamp=entry.stamp._replace(inode=1))
    else:
        place.store.contents[path] = place.store.contents[path][:-1]
    with pytest.raises(StalePlan) as caught:
        [*read_range(ranges[0], columns=COLUMNS)]
    assert Path(path) == caught.value.path


def test_damage_is_found(tmp_path: Path) -> None:
    """A verification says the same of it; a file that cannot be read is an error, not a fault."""
    log_dir = a_log(tmp_path / "logs")
    path = log_dir / "t-0" / SECOND
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    (log_dir / "t-0" / f"{0:020d}.timeindex").unlink()
    expected = [str(fault) for fault in verify_partition(log_dir, T0)]
    assert len(expected) > 1
    assert expected == [str(fault) for fault in verify_partition(moved(log_dir), T0)]


@pytest.mark.parametrize("name", HISTORIES)
def test_an_audit_compares_replicas_in_several_places(name: str, tmp_path: Path) -> None:
    """One replica here and one elsewhere: the finding is the same."""
    history, kind = HISTORIES[name]
    pair = Pair.new(tmp_path, "logwright")
    history(pair)
    pair.fetch()
    partition = pair.leader.log().partition
    place = moved(pair.follower.log_dir)
    audit = audit_partition(partition, [pair.leader.log_dir, place], high_watermark="end")
    assert {kind: 1} == audit.counts
    assert [place] == [finding.log_dir for finding in audit.findings]


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    """A missing log directory, a missing partition, a file in its place, an unclean one."""
    log_dir = a_log(tmp_path / "logs")
    (log_dir / "t-1").touch()
    place = elsewhere(log_dir)
    with pytest.raises(NotALogDir, match="the log directory does not exist"):
        observed(place / "other")
    with pytest.raises(NotALogDir, match="the log directory is not a directory"):
        observed(place / "t-1")
    with pytest.raises(NotALogDir, match="no such partition directory"):
        observe(place, TopicPartition("t", 2), high_watermark="end")
    with pytest.raises(UnreadableFile, match="no directory"):
        observe(place, TopicPartition("t", 1), high_watermark="end")
    del place.store.entries[place.pure / ".kafka_cleanshutdown"]
    with pytest.raises(UncleanLogDir):
        observed(place)


def test_a_text_names_a_place(tmp_path: Path) -> None:
    """By its scheme, if there is such a place; else it is a path, whatever is in it."""
    place = elsewhere(a_log(tmp_path / "logs"))
    assert place == place_of(text_of(place))
    for text in ("a:b", "memory", "./memory:0/x", ":", "", "/x"):
        assert Path(text) == place_of(text)


def test_few_files_stay_in_memory(tmp_path: Path) -> None:
    """What cannot be mapped is read again when it is wanted again, and is as read-only as a map."""
    place = elsewhere(a_log(tmp_path / "logs"))
    files = MappedFiles()
    logs = [files.open(place / "t-0" / f"{base:020d}.log") for base in (0, 27, 54)]
    assert MOST_READ == sum(files.find(log.path) is not None for log in logs)
    for log in logs:
        assert not log.data.flags.writeable
        content = place.store.contents[place.pure / "t-0" / Path(str(log.path)).name]
        assert np.array_equal(np.frombuffer(content, dtype=np.uint8), log.data)
