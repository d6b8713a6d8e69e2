"""A real broker's log directories, on each log of which we did something else: it starts, finds
nothing to repair, and has what we say is there.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Assigned
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from logwright.format.checkpoints import parse_offset_checkpoint, serialize_offset_checkpoint
from logwright.format.names import TopicPartition
from logwright.ingest.commit import commit_append, stage_append
from logwright.ingest.model import AppendOptions, AppendPlan
from logwright.log.checkpoints import CHECKPOINT_FILES
from logwright.log.load import observe
from logwright.log.model import PartitionLog
from logwright.move.commit import move_partition
from logwright.units import TimestampMs
from tests import fixtures
from tests.crash.filesystems import Crash
from tests.crash.moves import DyingFileSystem
from tests.e2e.broker_life import broker
from tests.e2e.command import call
from tests.ingested import arrow, planned, random_rows
from tests.oracle_runner import oracle_jvm

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

NOW = 1_780_000_000_000
WAIT_SECONDS = 60.0
UNTOUCHED = ("log.retention.ms=-1", "log.cleaner.enable=false")
"""The broker itself deletes and cleans nothing."""
WRONG = ("ecovering", "orrupt", "stray", "rebuilding index", "offline", "ERROR", "runcat")

Record = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp, key, value."""


@dataclass(frozen=True, slots=True)
class Place:
    """The log directories of one broker: two that are formatted, and one that was just added to
    ``log.dirs``, and is empty.
    """

    log_dir: Path
    other: Path
    new: Path

    def run(self, command: str, name: str, *words: str | Path | int) -> None:
        """A command line on one log."""
        answer = call(command, self.log_dir, name, *words, "--yes")
        assert 0 == answer.status, f"{command} {name}: {answer.err}"

    def at(self, command: str, name: str, *words: str | Path | int) -> None:
        """The same with the settings and the clock of the log's case."""
        case = LOGS[name][0]
        now = fixtures.description(case)["now"]
        self.run(command, name, *fixtures.settings(case), "--now", now, *words)


def clean(place: Place, name: str) -> None:
    place.run("clean", name, *fixtures.clean_arguments(LOGS[name][0]))


def roll(place: Place, name: str) -> None:
    place.at("roll", name, "--force")


def retain(place: Place, name: str) -> None:
    place.at("retain", name)


def raise_start(place: Place, name: str) -> None:
    second = sorted((place.log_dir / name).glob("*.log"))[1]
    settings = ("--config", "cleanup.policy=compact,delete", "--config", "retention.ms=-1")
    place.at("retain", name, *settings, "--delete-records-before", int(second.stem) + 5)


def undo_clean(place: Place, name: str) -> None:
    clean(place, name)
    place.run("undo", name)


def undo_retain(place: Place, name: str) -> None:
    retain(place, name)
    place.run("undo", name)


def delete(place: Place, name: str) -> None:
    place.at("delete", name)


def restore(place: Place, name: str) -> None:
    delete(place, name)
    place.run("undo", name)


def purge(place: Place, name: str) -> None:
    clean(place, name)
    place.run("purge", name, "--now", NOW)


def recover(place: Place, name: str) -> None:
    log = max((place.log_dir / name).glob("*.log"))
    log.write_bytes(log.read_bytes() + bytes(100))
    (place.log_dir / ".kafka_cleanshutdown").unlink()
    answer = call("recover", place.log_dir, "--yes")  # the marker counts for all logs
    assert 0 == answer.status, answer.err


def move(place: Place, name: str) -> None:
    clean(place, name)
    place.run("move", name, "--to", place.other)


def move_anew(place: Place, name: str) -> None:
    """The process dies while it copies; the next one finishes, and a recovery marks the directory
    clean, as no broker has stopped on it. It is formatted last, as `move` says.
    """
    place.new.mkdir()
    with pytest.raises(Crash):
        move_partition(
            place.log_dir,
            TopicPartition("anew", 0),
            place.new,
            now_ms=TimestampMs(NOW),
            progress=lambda _what, _done, _total: None,
            wrap=lambda disk: DyingFileSystem(disk, crash_at=30),
        )
    assert (place.log_dir / name).is_dir()
    assert [True] == [path.name.endswith("-future") for path in place.new.glob("anew-0*")]
    place.run("move", name, "--to", place.new)
    answer = call("recover", place.new, "--yes")
    assert 0 == answer.status, answer.err
    format_new(place)


def format_new(place: Place) -> None:
    """Kafka's storage tool formats those of ``log.dirs`` that are not."""
    text = (place.log_dir.parent / "server.properties").read_text()
    dirs = f"log.dirs={place.log_dir},{place.other},{place.new}"
    lines = [dirs if line.startswith("log.dirs=") else line for line in text.splitlines()]
    settings = place.log_dir.parent / "three.properties"
    settings.write_text("\n".join(lines))
    meta = (place.log_dir / "meta.properties").read_text()
    cluster = meta.partition("cluster.id=")[2].partition("\n")[0]
    words = ("format", "--ignore-formatted", "-t", cluster, "-c", str(settings))
    tool = [*oracle_jvm(), "kafka.tools.StorageTool", *words]
    done = subprocess.run(tool, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr


def append(place: Place, name: str, *, keep_offsets: bool = False) -> None:
    rows = random_rows(Random(name), 120, around_ms=NOW, spread_ms=5000)
    partition = TopicPartition.parse(name)
    assert partition is not None
    plan = planned(
        place.log_dir,
        {"segment.bytes": "9000", "index.interval.bytes": "300"},
        now_ms=NOW,
        options=AppendOptions(batch_bytes=1500, keep_offsets=keep_offsets),
        partition=partition,
    )
    assert isinstance(plan, AppendPlan)
    offsets = [7 + 2 * number for number in range(len(rows))] if keep_offsets else None
    commit_append(plan, stage_append(plan, [arrow(rows, offsets)]))


def archive(place: Place, name: str) -> None:
    append(place, name, keep_offsets=True)


LOGS: dict[str, tuple[str, Callable[[Place, str], None]]] = {
    "recovered-0": ("torn-tail", recover),
    "cleaned-0": ("txn-1-mixed", clean),
    "rolled-0": ("basic-mixed", roll),
    "retained-0": ("delete-size", retain),
    "raised-0": ("txn-1-mixed", raise_start),
    "emptied-0": ("delete-time-all", retain),
    "unclean-0": ("recleaned-2", undo_clean),
    "regrown-0": ("delete-size", undo_retain),
    "deleted-0": ("basic-none", delete),
    "restored-0": ("basic-zstd", restore),
    "purged-0": ("recleaned-3", purge),
    "appended-0": ("idempotent-1-retained", append),
    "moved-0": ("leader-epochs", move),
    "anew-0": ("leader-epochs", move_anew),
}
GROWN = {"grown-1": append, "grown-2": archive}
"""Partitions that the broker knows, that are not there, and that we make next to one that is."""


def place_logs(place: Place) -> None:
    """Put the cases' logs where the broker's own are, whose topics have no records yet."""
    entries = {name: {} for name in CHECKPOINT_FILES}  # type: dict[str, dict[TopicPartition, int]]
    for name, (case, _) in LOGS.items():
        source = fixtures.case_dir(case) / "before"
        target = place.log_dir / name
        for path in target.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        shutil.copytree(source / "t-0", target, copy_function=shutil.copy2, dirs_exist_ok=True)
        partition = TopicPartition.parse(name)
        assert partition is not None
        for file in CHECKPOINT_FILES:
            if (source / file).exists():
                offsets = parse_offset_checkpoint((source / file).read_bytes(), source / file)
                if TopicPartition("t", 0) in offsets:
                    entries[file][partition] = offsets[TopicPartition("t", 0)]
    for file, offset in entries.items():
        (place.log_dir / file).write_bytes(serialize_offset_checkpoint(offset))
    for name in GROWN:
        shutil.rmtree(place.log_dir / name)


def second_directory(place: Place) -> None:
    """One that belongs to the same broker, as the storage tool would format it."""
    shutil.copytree(place.log_dir, place.other, ignore=lambda _, names: names)
    lines = (place.log_dir / "meta.properties").read_text().splitlines()
    kept = [line for line in lines if not line.startswith("directory.id")]
    identity = base64.urlsafe_b64encode(b"another-director").decode()[:22]
    text = "\n".join([*kept, f"directory.id={identity}", ""])
    (place.other / "meta.properties").write_text(text)
    (place.other / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')


def logs_of(place: Place) -> dict[str, tuple[PartitionLog, list[Record]]]:
    """What our own loader and dump say is there, by name."""
    logs = {}
    for log_dir in (place.log_dir, place.other, place.new):
        for path in log_dir.glob("*-[0-9]"):
            partition = TopicPartition.parse(path.name)
            assert partition is not None
            log = observe(log_dir, partition, high_watermark="end")
            answer = call("dump", log_dir, path.name)
            assert 0 == answer.status, answer.err
            logs[path.name] = (log, live(answer.lines, log.log_start_offset))
    return logs


def live(lines: list[dict[str, object]], start: int) -> list[Record]:
    """The records of a dump that a consumer gets."""
    return [
        (record["offset"], record["timestamp"], decoded(record["key"]), decoded(record["value"]))
        for line in lines
        if line["type"] == "batch" and not line["control"]
        for record in line["records"]  # type: ignore[attr-defined]
        if record["offset"] >= start
    ]


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def watermarks(consumer: Consumer, assigned: Assigned) -> tuple[int, int]:
    """Of a log whose broker may just have started: until it leads all its logs, it refuses."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            watermarks_of: tuple[int, int] = consumer.get_watermark_offsets(
                assigned, timeout=WAIT_SECONDS
            )
        except KafkaException as refused:
            is_leader = refused.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION
            if is_leader or time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return watermarks_of


def consumed(consumer: Consumer, name: str) -> tuple[int, int, list[Record]]:
    """The first offset and the end that the broker says, and all that it holds."""
    topic, _, number = name.rpartition("-")
    assigned = Assigned(topic, int(number))
    start, end = watermarks(consumer, assigned)
    consumer.assign([Assigned(topic, int(number), start)])
    records: list[Record] = []
    while consumer.position([assigned])[0].offset < end and start < end:
        message = consumer.poll(WAIT_SECONDS)
        assert message is not None, f"{name}: nothing after {records[-1:]} of {end}"
        if message.error() is None:
            _, time = message.timestamp()
            records.append((message.offset(), time, message.key(), message.value()))
        else:  # the end, after markers
            assert message.error().name() == "_PARTITION_EOF"
            break
    return start, end, records


def appended(producer: Producer, name: str) -> int:
    """The offset that the next record gets."""
    topic, _, number = name.rpartition("-")
    offsets: list[int] = []
    producer.produce(
        topic,
        key=b"next",
        value=b"record",
        partition=int(number),
        on_delivery=lambda error, message: offsets.append(-1 if error else message.offset()),
    )
    assert 0 == producer.flush(WAIT_SECONDS)
    return offsets[0]


def make_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [name.rpartition("-")[0] for name in LOGS]
    made = admin.create_topics([NewTopic(one, 1, 1) for one in (*topics, "grown")])
    for future in made.values():
        future.result(WAIT_SECONDS)
    for future in admin.create_partitions([NewPartitions("grown", 1 + len(GROWN))]).values():
        future.result(WAIT_SECONDS)


@pytest.mark.rotates(6)
def test_a_broker_finds_nothing_to_mend_in_what_we_leave(tmp_path: Path) -> None:
    """After each operation: no recovery, no directory offline, the records and the offsets that we
    say, and the next record goes after them.
    """
    root = tmp_path / "broker"
    place = Place(root / "logs", root / "other", root / "new")
    with broker(tmp_path, "first", "--server-config", *UNTOUCHED) as (process, bootstrap):
        make_topics(bootstrap)
        (tmp_path / "first.stop").touch()
        process.wait(WAIT_SECONDS)
    second_directory(place)
    place_logs(place)
    for name, (_, act) in LOGS.items():
        act(place, name)
    for name, grow in GROWN.items():
        grow(place, name)
    ours = logs_of(place)
    assert {*LOGS, *GROWN, "grown-0"} - {"deleted-0"} == ours.keys()
    assert (place.other / "moved-0").is_dir()
    assert (place.new / "anew-0").is_dir()
    loaded = {  # deleted logs too, and what a move left: the broker opens and deletes them
        log_dir: sum(path.is_dir() for path in log_dir.iterdir())
        for log_dir in (place.log_dir, place.other, place.new)
    }
    all_three = f"log.dirs={place.log_dir},{place.other},{place.new}"
    with broker(tmp_path, "second", "--server-config", *UNTOUCHED, all_three) as (
        process,
        bootstrap,
    ):
        client = {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
        }
        consumer = Consumer(client | {"isolation.level": "read_uncommitted"})
        producer = Producer({"bootstrap.servers": bootstrap})
        for name, (log, records) in ours.items():
            start, end, read = consumed(consumer, name)
            assert (log.log_start_offset, log.log_end_offset) == (start, end), name
            assert records == read, name
            assert end == appended(producer, name), name
        assert (0, 0, []) == consumed(consumer, "deleted-0")
        consumer.close()
        (tmp_path / "second.stop").touch()
        process.wait(WAIT_SECONDS)
    lines = (tmp_path / "second.txt").read_text().splitlines()
    for log_dir, count in loaded.items():
        wanted = f"Skipping recovery of {count} logs from {log_dir} since clean shutdown file"
        assert [line for line in lines if wanted in line], log_dir
    told = [line for line in lines if "__cluster_metadata" not in line]
    assert [] == [line for line in told if any(word in line for word in WRONG)]
    assert (place.new / "meta.properties").is_file()
    for log_dir in loaded:
        verified = call("verify", log_dir)
        assert 0 == verified.status, verified.out + verified.err
