"""A stream of a log directory that a broker has open, and of one that it opens and leaves."""

from __future__ import annotations

import logging
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from logwright.errors import DataLoss, PreconditionError, Unsettled
from logwright.locks import release, try_lock
from logwright.running import watermark
from logwright.spark import kafka_log_stream
from logwright.spark.kafka_log import KafkaLog
from logwright.spark.kafka_log_rows import SCHEMA
from tests.log_builder import LogBuilder
from tests.metadata_builder import MetadataBuilder, config, partition, topic
from tests.running_dirs import record, running
from tests.unit.spark.streams import (
    ID,
    OTHER_ID,
    Query,
    all_available,
    reader,
    rows_between,
    swapped,
    write_log,
)

pytestmark = pytest.mark.usefixtures("impatient")


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a broker gives up soon."""
    monkeypatch.setattr(kafka_log_stream, "LOOK_SECONDS", 0)
    monkeypatch.setattr(watermark, "PATIENCE_SECONDS", 0.3)


def test_rows_of_a_running_broker_come_up_to_its_watermark(tmp_path: Path) -> None:
    """As far as it has recorded it, and the rest later; then of the stopped log."""
    write_log(tmp_path)
    query = Query()
    with running(tmp_path, {"t-0": 25}):
        stream = reader(tmp_path, maxOffsetsPerTrigger="20")
        assert [20, 5, 0] == [query.advance(stream) for _ in range(3)]
        record(tmp_path, {"t-0": 30})
        assert 5 == query.advance(stream)
        assert {"t": {"0": 30}, f"t#{ID}#0:0": {}} == query.end
    write_log(tmp_path)
    query.drain(reader(tmp_path))
    assert {"t": [*range(40)]} == query.offsets


def test_segments_that_retention_deleted_are_not_lost(tmp_path: Path) -> None:
    """The log start offset is recorded each minute: it may be of before. Without the metadata, or
    of a topic with remote storage, the records in between can be elsewhere.
    """
    log_dir = write_log(tmp_path / "logs", offsets=(20, 40))
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    options = {"path": str(log_dir), "subscribe": "t"}

    def read() -> None:
        """As a batch and as a stream."""
        stream = reader(log_dir)
        assert {"t": [*range(20, 35)]} == Query().drain(stream).offsets
        frame = KafkaLog(options).reader(SCHEMA)
        batches = [batch for task in frame.partitions() for batch in frame.read(task)]
        assert [*range(20, 35)] == [one for batch in batches for one in batch["offset"].to_pylist()]

    with running(log_dir, {"t-0": 35}):
        with pytest.raises(PreconditionError, match="in remote storage, or lost"):
            read()
        metadata = MetadataBuilder(log_dir)
        metadata.segment(0, [topic("t", 1), partition(1, 0, [1])])
        read()
        metadata.segment(2, [config(2, "t", "remote.storage.enable", "true")])
        with pytest.raises(PreconditionError, match="in remote storage, or lost"):
            read()


def test_a_watermark_that_went_back_is_no_loss(tmp_path: Path) -> None:
    """A new leader's can be lower for a while: there is nothing to read until it is not."""
    write_log(tmp_path)
    with running(tmp_path, {"t-0": 30}):
        query = Query()
        query.advance(reader(tmp_path))
        record(tmp_path, {"t-0": 20})
        assert 0 == query.advance(reader(tmp_path))
        record(tmp_path, {"t-0": 35})
        query.advance(reader(tmp_path))
    assert {"t": [*range(35)]} == query.offsets


def test_a_planned_micro_batch_of_a_running_log(tmp_path: Path) -> None:
    """Has the same rows after passes of the cleaner, rolls, and when the broker is away."""
    write_log(tmp_path)
    with running(tmp_path, {"t-0": 35}):
        stream = reader(tmp_path)
        start = stream.initialOffset()
        end = all_available(stream, start)
        tasks = stream.partitions(start, end)
        first = [row for task in tasks for batch in stream.read(task) for row in batch.to_pylist()]
        swapped(tmp_path)
        record(tmp_path, {"t-0": 40})
        again = [row for task in tasks for batch in stream.read(task) for row in batch.to_pylist()]
    write_log(tmp_path, offsets=(0, 60))
    assert first == again
    last = rows_between(reader(tmp_path), start, end)
    assert [*range(35)] == [row["offset"] for row in first] == [row[2] for _, row in last]


def test_a_swap_within_a_task_of_a_running_log(tmp_path: Path) -> None:
    """The task reads the files that it has open: one state."""
    builder = LogBuilder(tmp_path, "t-0")
    for base in (0, 20, 40):
        segment = builder.segment(base)
        for offset in range(base, base + 20):
            segment.batch(offset, [("k", b"v" * 200_000)])
    builder.write(index_interval=4096)
    offsets = []
    with running(tmp_path, {"t-0": 60}):
        stream = reader(tmp_path)
        start = stream.initialOffset()
        (task,) = stream.partitions(start, all_available(stream, start))
        for batch in stream.read(task):
            offsets += batch["offset"].to_pylist()
            swapped(tmp_path)
            for path in builder.directory.glob("*.log"):
                if path.stem != f"{40:020d}":
                    path.rename(path.with_suffix(".log.deleted"))
    assert [*range(60)] == offsets


def test_a_broker_that_has_no_watermark_yet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The stream waits, with a warning; one that has to reach an end fails."""
    write_log(tmp_path)
    query = Query().drain(reader(tmp_path))
    write_log(tmp_path, offsets=(0, 50))
    with running(tmp_path):
        stream = reader(tmp_path)
        with caplog.at_level(logging.WARNING):
            assert 0 == query.advance(stream)
        assert "nothing can be read yet" in caplog.text
        with pytest.raises(Unsettled, match="does not write its high watermarks"):
            query.drain(reader(tmp_path))
        record(tmp_path, {"t-0": 50})
        assert 10 == query.advance(stream)


def test_what_is_gone_of_a_running_log(tmp_path: Path) -> None:
    """A topic that was made again, or a log whose start is beyond the stream, is named."""
    for log, problem in (
        ({"topic_id": OTHER_ID}, "was deleted and made again"),
        ({"offsets": (35, 60)}, "begins at offset 35"),
    ):
        write_log(tmp_path)
        query = Query()
        query.advance(reader(tmp_path, maxOffsetsPerTrigger="30"))
        write_log(tmp_path, **log)  # type: ignore[arg-type]  # one of its arguments each
        with (
            running(tmp_path, {"t-0": 40}),
            pytest.raises(DataLoss, match=f"t-0 {problem}"),
        ):
            query.advance(reader(tmp_path))


def test_an_idle_stream_does_not_keep_a_broker_from_starting(tmp_path: Path) -> None:
    """A stopped directory is locked to look at it, and not again before something in it changed."""
    write_log(tmp_path)
    (tmp_path / ".lock").touch()
    long_ago = time.time_ns() - 10**9
    os.utime(tmp_path, ns=(long_ago, long_ago))
    stream, query = reader(tmp_path), Query()
    assert [40, 0] == [query.advance(stream) for _ in range(2)]
    end = query.end or {}
    shutil.rmtree(tmp_path / "t-0")
    os.utime(tmp_path, ns=(long_ago, long_ago))
    assert end == all_available(stream, end)
    os.utime(tmp_path, ns=(long_ago + 1, long_ago + 1))
    with pytest.raises(DataLoss, match="t-0 is gone"):
        all_available(stream, end)


def test_a_batch_of_a_running_broker(tmp_path: Path) -> None:
    """Ends at the watermark of its plan, whatever the cleaner and the broker do until it is read;
    records that are gone by then are a failure.
    """
    write_log(tmp_path)
    with running(tmp_path, {"t-0": 35}):
        batch = KafkaLog({"path": str(tmp_path), "subscribe": "t"}).reader(SCHEMA)
        tasks = batch.partitions()
        swapped(tmp_path)
        record(tmp_path, {"t-0": 40})
        rows = [each for task in tasks for part in batch.read(task) for each in offsets_of(part)]
        assert [*range(35)] == rows
        write_log(tmp_path, topic_id=OTHER_ID)
        record(tmp_path, {"t-0": 40})
        with pytest.raises(DataLoss, match="was deleted and made again"):
            [*batch.read(tasks[0])]


def offsets_of(batch: Any) -> list[int]:  # noqa: ANN401 -- Spark also takes tuples
    """Of a record batch."""
    column: list[int] = batch["offset"].to_pylist()
    return column


def test_no_lock_is_taken_beside_a_broker(tmp_path: Path) -> None:
    """Not even a shared one: a broker that starts again meanwhile would fail."""
    write_log(tmp_path)
    with running(tmp_path, {"t-0": 40}):
        stream = reader(tmp_path)
        start = stream.initialOffset()
        (task,) = stream.partitions(start, all_available(stream, start))
        batches = stream.read(task)
        next(batches)
    with (tmp_path / ".lock").open("r+b") as file:
        assert try_lock(file.fileno(), "exclusive")
        release(file.fileno())
        batches.close()  # type: ignore[attr-defined]  # a generator
