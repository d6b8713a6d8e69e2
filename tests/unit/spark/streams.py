"""What tests of a stream share: logs that change between micro-batches, and a query by hand."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql.streaming.datasource import ReadAllAvailable

from logwright.spark.kafka_log_offsets import Json
from logwright.spark.kafka_log_rows import WITH_HEADERS
from logwright.spark.kafka_log_stream import StreamReader
from tests.log_builder import LogBuilder
from tests.plain_consumer import Row, arrow_rows

ID = "AbCdEfGhIjKlMnOpQrStU1"
OTHER_ID = "AbCdEfGhIjKlMnOpQrStU2"


def write_log(
    log_dir: Path,
    name: str = "t-0",
    *,
    offsets: tuple[int, int] = (0, 40),
    topic_id: str | None = ID,
    epochs: tuple[tuple[int, int], ...] = ((0, 0),),
    high_watermark: int | None = None,
) -> Path:
    """A log with a record at each offset, 20 in a segment, in place of one that there was."""
    shutil.rmtree(log_dir / name, ignore_errors=True)
    log_dir.mkdir(parents=True, exist_ok=True)
    builder = LogBuilder(log_dir, name)
    start, end = offsets
    for base in range(start, end, 20):
        segment = builder.segment(base)
        for offset in range(base, min(base + 20, end)):
            segment.batch(offset, [(f"k{offset}", f"{name} {offset}" + "." * 300)])
    builder.write(index_interval=1, high_watermark=high_watermark)
    if topic_id is not None:
        content = f"version: 0\ntopic_id: {topic_id}\n"
        (builder.directory / "partition.metadata").write_text(content)
    lines = ["0", str(len(epochs)), *(f"{epoch} {offset}" for epoch, offset in epochs)]
    (builder.directory / "leader-epoch-checkpoint").write_text("\n".join(lines) + "\n")
    return log_dir


def reader(log_dir: Path, **options: str) -> StreamReader:
    """What Spark makes for one run of a query."""
    if not {"subscribe", "assign", "subscribePattern"} & options.keys():
        options["subscribePattern"] = ".*"
    return StreamReader({"path": str(log_dir), **options}, WITH_HEADERS)


def rows_between(of: StreamReader, start: Json, end: Json) -> list[tuple[str, Row]]:
    """The rows of one micro-batch, with their topics."""
    return [
        pair
        for task in of.partitions(start, end)
        for batch in of.read(task)
        for pair in zip(batch["topic"].to_pylist(), arrow_rows([batch]), strict=True)
    ]


@dataclass(slots=True)
class Query:
    """What a checkpoint has: the end of the last micro-batch; and all rows."""

    end: Json | None = None
    rows: list[tuple[str, Row]] = field(default_factory=list)
    batches: int = 0

    def advance(self, of: StreamReader) -> int:
        """One micro-batch, as Spark does it; returns its rows."""
        if self.end is None:
            self.end = of.initialOffset()
        end = of.latestOffset(self.end, of.getDefaultReadLimit())
        rows = rows_between(of, self.end, end)
        self.rows += rows
        self.batches += end != self.end
        self.end = end
        return len(rows)

    def drain(self, of: StreamReader) -> Query:
        """Micro-batches until nothing is left, as Trigger.AvailableNow does it."""
        of.prepareForTriggerAvailableNow()
        batches = -1
        while batches != self.batches:
            batches = self.batches
            self.advance(of)
        return self

    @property
    def offsets(self) -> dict[str, list[int]]:
        """Of the rows, by topic and in their order."""
        by_topic: dict[str, list[int]] = {}
        for topic, row in self.rows:
            by_topic.setdefault(topic, []).append(row[2])
        return by_topic


def swapped(log_dir: Path, name: str = "t-0") -> None:
    """Give the segments other inodes and times, as a pass of a cleaner does."""
    for path in sorted((log_dir / name).glob("*.log")):
        copy = path.with_suffix(".copy")
        copy.write_bytes(path.read_bytes())
        os.utime(copy, (1, 1))
        copy.replace(path)


def all_available(of: StreamReader, start: Json) -> Json:
    """The end that Spark gets with Trigger.Once, which allows no limit."""
    return of.latestOffset(start, ReadAllAvailable())


def columns_of(of: StreamReader, start: Json, end: Json) -> Iterator[tuple[str, ...]]:
    """The columns of each record batch of a micro-batch."""
    for task in of.partitions(start, end):
        for batch in of.read(task):
            yield tuple(batch.schema.names)
