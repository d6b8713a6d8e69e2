"""A topic of a real broker copied into offline logs: the same records under the same offsets."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from logwright.config.kept import read_kept
from tests.comparison import dump
from tests.e2e.command import call, free_port
from tests.ingested import read_batches
from tests.log_builder import LogBuilder
from tests.oracle_runner import oracle_jvm, run_oracle

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

TIME = 1_760_020_000_000


@contextmanager
def broker(work: Path) -> Iterator[str]:
    """A running broker; its address. Effects: ends it."""
    stop = work / "stop"
    words = ["broker", "--dir", work / "broker", "--port", free_port(), "--until-file", stop]
    command = [*oracle_jvm(), "oracle.Main", *map(str, words)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            ready = next(line for line in process.stdout if line.startswith("{"))
            yield json.loads(ready)["bootstrap"]
        finally:
            stop.touch()
            process.wait(timeout=120)


def text(content: str | None) -> str | None:
    return None if content is None else base64.b64encode(content.encode()).decode()


def row(number: int, value: str | None, partition: int = 0) -> dict[str, Any]:
    headers = [{"key": "h", "value": text(str(number))}] if number % 3 == 0 else []
    return {
        "key": text(f"k{number}"),
        "value": text(value),
        "timestamp": TIME + number,
        "partition": partition,
        "headers": headers,
    }


def produce(
    bootstrap: str, path: Path, lines: list[dict[str, Any]], *options: str, topic: str = "t"
) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_oracle("produce", "--bootstrap", bootstrap, "--topic", topic, "--in", path, *options)


def consumed(bootstrap: str, out: Path, partition: int) -> list[tuple[object, ...]]:
    words = ("--topic-partition", f"t-{partition}", "--isolation", "read_committed")
    run_oracle("consume", "--bootstrap", bootstrap, *words, "--out", out)
    return [
        (
            line["offset"],
            line["timestamp"],
            line["key"],
            line["value"],
            [(header["key"], header["value"]) for header in line.get("headers", [])],
        )
        for line in map(json.loads, out.read_text().splitlines())
    ]


def copied(log_dir: Path, partition: int) -> list[tuple[object, ...]]:
    def encoded(content: bytes | None) -> str | None:
        return None if content is None else base64.b64encode(content).decode()

    return [
        (
            record.offset,
            record.timestamp_ms,
            encoded(record.key),
            encoded(record.value),
            [(header.key.decode(), encoded(header.value)) for header in record.headers],
        )
        for batch in read_batches(log_dir, partition=f"t-{partition}")
        for record in batch.records
    ]


@pytest.mark.rotates(6)
def test_a_topic_is_copied_and_the_copy_goes_on(tmp_path: Path) -> None:
    """Transactions leave holes, aborted data stays out; a second run takes only what is new."""
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    with broker(tmp_path) as bootstrap:
        first: list[dict[str, Any]] = [{"txn": "begin"}]
        first += [row(n, f"v{n}", n % 2) for n in range(200)]
        first += [{"txn": "commit"}, {"txn": "begin"}]
        first += [row(n, "gone", 0) for n in range(200, 220)]
        first += [{"txn": "abort"}, {"txn": "begin"}, row(220, None), {"txn": "commit"}]
        create = ("--create-partitions", "3", "--config", "retention.ms=-1")
        transactional = ("--producer-config", "transactional.id=x")
        produce(bootstrap, tmp_path / "1.jsonl", first, *create, *transactional)
        words = ("archive", log_dir, "--bootstrap", bootstrap, "--topic", "t", "--yes")
        small = ("--config", "segment.bytes=1000", "--output", "json")
        answer = call(*words, *small)
        assert 0 == answer.status, answer.err
        assert [101, 100, 0] == [line["records"] for line in answer.lines]
        for partition in (0, 1):
            source = consumed(bootstrap, tmp_path / f"c{partition}.jsonl", partition)
            assert source == copied(log_dir, partition)
        assert len(list((log_dir / "t-0").glob("*.log"))) > 1

        again = call(*words, *small)
        assert [0, 0, 0] == [line["records"] for line in again.lines]
        produce(bootstrap, tmp_path / "2.jsonl", [row(n, "new") for n in range(300, 320)])
        third = call(*words, *small)
        assert [20, 0, 0] == [line["records"] for line in third.lines]
        source = consumed(bootstrap, tmp_path / "d.jsonl", 0)
        assert source == copied(log_dir, 0)
    by_kafka = [line for line in dump(log_dir, "t-0") if line["type"] == "batch"]
    assert 121 == sum(len(line["records"]) for line in by_kafka)


@pytest.mark.rotates(6)
def test_a_topic_is_copied_into_a_bucket(tmp_path: Path) -> None:
    """The same as into a log directory, batch by batch and segment by segment; a later run
    downloads the active segment alone, sends what is new, and keeps the topic's new settings.
    """
    url, log_dir = f"file://{tmp_path}/bucket", tmp_path / "logs"
    log_dir.mkdir()
    small = ("--config", "segment.bytes=2000", "--output", "json", "--yes")

    def both(bootstrap: str) -> list[int]:
        records = []
        for place, more in ((log_dir, ()), (url, ("--scratch", tmp_path / "scratch"))):
            words = ("--bootstrap", bootstrap, "--topic", "t", *small, *more)
            answer = call("archive", place, *words)
            assert 0 == answer.status, answer.err
            records.append([line["records"] for line in answer.lines])
        assert records[0] == records[1]
        here, there = (call("dump", place, "--output", "json").lines for place in (log_dir, url))
        assert here
        assert here == there
        return records[0]

    with broker(tmp_path) as bootstrap:
        lines: list[dict[str, Any]] = [{"txn": "begin"}]
        lines += [row(n, f"v{n}", n % 2) for n in range(200)]
        lines += [{"txn": "commit"}, {"txn": "begin"}, row(200, "gone"), {"txn": "abort"}]
        create = ("--create-partitions", "3", "--config", "retention.ms=-1")
        produce(
            bootstrap,
            tmp_path / "1.jsonl",
            lines,
            *create,
            "--producer-config",
            "transactional.id=x",
        )
        assert [100, 100] == both(bootstrap)[:2]
        produce(bootstrap, tmp_path / "2.jsonl", [row(n, "new", n % 2) for n in range(300, 340)])
        before = set((tmp_path / "bucket").rglob("*"))
        assert [20, 20] == both(bootstrap)[:2]
        sent = {path.name for path in set((tmp_path / "bucket/t-0/data").iterdir()) - before}
        assert 1 <= len([name for name in sent if name.endswith(".log")]) <= 3
    assert 0 == call("verify", url).status
    restored = tmp_path / "restored"
    assert 0 == call("download", url, "--to", restored).status
    assert copied(log_dir, 0) == copied(restored, 0)
    assert [] == list((tmp_path / "scratch").glob("logwright-copy-*"))


@pytest.mark.rotates(6)
def test_a_topic_that_was_made_again_is_refused(tmp_path: Path) -> None:
    """Its records do not follow those of the earlier topic, here or in a bucket, whichever log is
    longer.
    """
    url, log_dir = f"file://{tmp_path}/bucket", tmp_path / "logs"
    log_dir.mkdir()
    create = ("--create-partitions", "1", "--config", "retention.ms=-1")
    with broker(tmp_path) as bootstrap:
        words = ("--bootstrap", bootstrap, "--topic", "t", "--yes")
        produce(bootstrap, tmp_path / "1.jsonl", [row(n, "v") for n in range(10)], *create)
        for place in (log_dir, url):
            assert 0 == call("archive", place, *words).status
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.delete_topics(["t"])["t"].result()
        produce(bootstrap, tmp_path / "2.jsonl", [row(n, "w") for n in range(20)], *create)
        before = {place: call("dump", place, "--output", "json").out for place in (log_dir, url)}
        for place in (log_dir, url):
            answer = call("archive", place, *words)
            assert 5 == answer.status, answer.err
            assert "it was made again" in answer.err
            assert before[place] == call("dump", place, "--output", "json").out


@pytest.mark.rotates(6)
def test_all_topics_are_copied_by_one_command(tmp_path: Path) -> None:
    """Kafka's own are left out; a topic that cannot be copied is named and gives the status, the
    others are copied.
    """
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    foreign = LogBuilder(log_dir, "u-0")
    foreign.segment(0).batch(0, [("k", "v")] * 10)
    foreign.write()
    create = ("--create-partitions", "1", "--config", "retention.ms=-1")
    transactional = ("--producer-config", "transactional.id=x")
    with broker(tmp_path) as bootstrap:
        none = call("archive", log_dir, "--bootstrap", bootstrap, "--all-topics", "--yes")
        assert (5, True) == (none.status, "shows no topic" in none.err)
        for topic in ("t", "u", "v"):
            lines = [{"txn": "begin"}, row(1, topic), {"txn": "commit"}]
            produce(bootstrap, tmp_path / topic, lines, *create, *transactional, topic=topic)
        words = ("archive", log_dir, "--bootstrap", bootstrap, "--output", "json", "--yes")
        answer = call(*words, "--all-topics")
        (failed,) = [line for line in answer.lines if "error" in line]
        copies = [(each["topicPartition"], each["records"]) for each in answer.lines[0::2]]
        assert 5 == answer.status, answer.err
        assert [("t-0", 1), ("v-0", 1)] == copies
        assert ("u", 5) == (failed["topic"], failed["exitStatus"])
        assert 0 == call(*words, "--topic", "t", "--topic", "v").status
        assert 2 == call(*words).status
        assert 2 == call(*words, "--topic", "t", "--all-topics").status
        gone = call(*words, "--topic", "gone", "--topic", "v")
        assert (5, "gone", "v-0") == (
            gone.status,
            gone.lines[0]["topic"],
            gone.lines[1]["topicPartition"],
        )
    assert ["t-0", "u-0", "v-0"] == sorted(path.name for path in log_dir.glob("*-0"))


def test_no_broker_is_an_error_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log directory is left as it was."""
    monkeypatch.setattr("logwright.ingest.broker.WAIT_SECONDS", 1.0)
    words = ("archive", tmp_path, "--topic", "t", "--yes", "--bootstrap")
    slow = ("--consumer-config", "socket.timeout.ms=200")
    answer = call(*words, f"127.0.0.1:{free_port()}", *slow)
    assert 5 == answer.status
    assert "Fix the cause and retry" in answer.err
    assert [] == list(tmp_path.glob("t-*"))


def test_a_copy_explains_itself(tmp_path: Path) -> None:
    """The topic's settings and id are next to the copy as the broker said them: without options,
    retention keeps what the source would.
    """
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    with broker(tmp_path) as bootstrap:
        create = ("--create-partitions", "2", "--config", "cleanup.policy=compact")
        more = ("--config", "segment.ms=86400000", "--config", "delete.retention.ms=5")
        produce(bootstrap, tmp_path / "1.jsonl", [row(1, "v", 0)], *create, *more)
        words = ("archive", log_dir, "--bootstrap", bootstrap, "--topic", "t", "--yes")
        answer = call(*words)
        assert 0 == answer.status, answer.err
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        described = admin.describe_topics(TopicCollection(["t"]))["t"].result()
    (kept,) = read_kept(log_dir).values()
    wanted = {"cleanup.policy": "compact", "segment.ms": "86400000", "delete.retention.ms": "5"}
    assert wanted.items() <= kept.configs.items()
    bits = described.topic_id.get_most_significant_bits().to_bytes(8, "big", signed=True)
    bits += described.topic_id.get_least_significant_bits().to_bytes(8, "big", signed=True)
    assert base64.urlsafe_b64encode(bits).decode().rstrip("=") == kept.topic_id
    text = (log_dir / "t-0" / "partition.metadata").read_text()
    assert f"version: 0\ntopic_id: {kept.topic_id}" == text
    shown = call("config", log_dir, "--output", "json").lines[0]["configs"]
    assert ("compact", "topic") == tuple(
        shown["cleanup.policy"][key] for key in ("value", "origin")
    )
    assert 0 == call("retain", log_dir, "--yes", "--now", str(TIME * 2)).status
    assert 1 == len(copied(log_dir, 0))


@pytest.mark.nightly
def test_a_copy_stays_small(tmp_path: Path) -> None:
    """Where the producers chose the codec, a copy takes about as much as the broker does, or as the
    given codec does.
    """
    rows = [
        row(n, json.dumps({"id": n, "city": "Reykjavik", "text": "a b c d " * 4}))
        for n in range(3000)
    ]
    zstd = ("--producer-config", "compression.type=zstd", "--producer-config", "linger.ms=50")
    with broker(tmp_path) as bootstrap:
        create = ("--create-partitions", "1", "--config", "retention.ms=-1")
        produce(bootstrap, tmp_path / "1.jsonl", rows, *create, *zstd)
        words = ("--bootstrap", bootstrap, "--topic", "t", "--yes")
        for name, options in (("same", ()), ("plain", ("--compression", "none"))):
            (tmp_path / name).mkdir()
            answer = call("archive", tmp_path / name, *words, *options)
            assert 0 == answer.status, answer.err
        (source,) = tmp_path.glob("broker/**/t-0/*.log")
        size = source.stat().st_size
    (same,), (plain,) = (
        list((tmp_path / name / "t-0").glob("*.log")) for name in ("same", "plain")
    )
    assert 0 < same.stat().st_size < 1.3 * size
    assert plain.stat().st_size > 3 * size
    codecs = {
        line["compression"] for line in dump(tmp_path / "same", "t-0") if line["type"] == "batch"
    }
    assert {"zstd"} == codecs
