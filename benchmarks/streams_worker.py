"""The measurements of ``streams`` of one log, in a process of its own; prints a JSON object.

``python -m benchmarks.streams_worker LOG BOOTSTRAP PROCESS LOG_DIR JMX WORK ROUNDS``: the log;
where the broker listens, its process, log directory and port for JMX; a directory, and how many
rounds.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from benchmarks.floor import Floor
from benchmarks.live import Served, served
from benchmarks.logs import BenchLog, read
from benchmarks.streams import FLOOR, KAFKA, OURS
from benchmarks.tables_worker import new_session, used
from logwright.spark.kafka_log_rows import SCHEMA
from logwright.spark.kafka_log_stream import StreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

_BATCH: Final = "batch.arrow"


def sources(
    session: SparkSession, log: BenchLog, bootstrap: str, log_dir: str, work: Path
) -> dict[str, DataStreamReader]:
    """The streams by their names. That which reads nothing yields the first record batch of the
    topic again and again, in as many tasks. Effects: writes it.
    """
    stream = session.readStream
    kafka = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest"}
    ours = StreamReader({"path": log_dir, "subscribe": log.name}, SCHEMA)
    start = ours.initialOffset()
    tasks = ours.partitions(start, ours.latestOffset(start, ours.getDefaultReadLimit()))
    batch = next(ours.read(tasks[0]))
    with pa.OSFile(str(work / _BATCH), "wb") as file, pa.ipc.new_file(file, batch.schema) as out:
        out.write_batch(batch)
    floor = {"batch": str(work / _BATCH), "rows": str(log.records), "tasks": str(len(tasks))}
    session.dataSource.register(Floor)
    return {
        KAFKA: stream.format("kafka").options(subscribe=log.name, **kafka),
        OURS: session.readStream.format("kafka-log").options(subscribe=log.name, path=log_dir),
        FLOOR: session.readStream.format("floor").options(**floor),
    }


def rows_of(stream: DataStreamReader, work: Path) -> int:
    """Read all that is there, to noop; returns the number of rows."""
    writer = stream.load().writeStream.format("noop").trigger(availableNow=True)
    with tempfile.TemporaryDirectory(dir=work) as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).start()
        query.awaitTermination()
        return sum(progress.numInputRows for progress in query.recentProgress)


def main(*words: str) -> None:
    """Measure in turn, after a round that does not count. Effects: see the module; prints."""
    directory, bootstrap, broker, log_dir, jmx, work, rounds = words
    log, session = read(Path(directory)), new_session()
    times: dict[str, list[tuple[float, float]]] = {}
    rows: dict[str, int] = {}
    given: dict[str, Served] = {}
    streams = sources(session, log, bootstrap, log_dir, Path(work))
    for number in range(int(rounds) + 1):
        for what, stream in streams.items():
            before = served(int(jmx))
            start, cpu = time.perf_counter(), used(broker)
            rows[what] = rows_of(stream, Path(work))
            taken = (time.perf_counter() - start, used(broker) - cpu)
            if number:
                times.setdefault(what, []).append(taken)
                sums = zip(given.get(what, Served(0, 0)), served(int(jmx)), before, strict=True)
                given[what] = Served(*(known + now - then for known, now, then in sums))
    session.stop()
    print(json.dumps({"seconds": times, "rows": rows, "served": given}))


if __name__ == "__main__":
    main(*sys.argv[1:])
