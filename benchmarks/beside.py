"""What reading next to a running broker costs it. Clients write and read a topic as
fast as they can, without and with a process that reads the same log from its files, over and over.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.table import table
from logwright.format.names import TopicPartition as LogOf
from logwright.log.load import observe
from logwright.reading import reading
from logwright.records.model import ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.running.place import as_it_runs
from tests import oracle_runner
from tests.live.broker import Broker, Topics

TOPIC: Final = "load"
LOG: Final = LogOf(TOPIC, 0)
VALUE: Final = bytes(1000)
MB: Final = 1_000_000
THROTTLED: Final = 20.0 * MB
"""Bytes in a second, as ``--throttle`` says; what is in the cache does not count."""
READINGS: Final = {
    "nobody reads": 0.0,
    "reads": inf,
    "reads at most 20 MB/s from the disk": THROTTLED,
}
_SETTINGS: Final = {"replica.high.watermark.checkpoint.interval.ms": "1000"}


class _Read(NamedTuple):
    """What the reading process did: bytes of values, and connections that it made."""

    read: int = 0
    connections: int = 0


class _Taken(NamedTuple):
    """Seconds of the clients, and what was read meanwhile."""

    produced: float
    consumed: float
    reader: _Read


def beside(*, records: int, rounds: int, work: Path) -> str:
    """Return a table of MB/s; medians of the rounds, in which the readings take turns. Effects:
    a broker and a reading process, files below `work`.
    """
    taken: dict[str, list[_Taken]] = {name: [] for name in READINGS}
    with (
        oracle_runner.using(oracle_runner.NEWEST),
        Broker(work / "beside", settings=_SETTINGS) as broker,
    ):
        Topics(broker.bootstrap).create(TOPIC, {"segment.bytes": str(64 * MB)})
        _clients(broker.bootstrap, records)  # the JVM has compiled what it needs
        for _ in range(rounds):
            for name, rate in READINGS.items():
                with _reading(broker.log_dir, rate) as reader:
                    produced, consumed = _clients(broker.bootstrap, records)
                    taken[name].append(_Taken(produced, consumed, reader()))
    size = records * len(VALUE) / MB
    alone = taken["nobody reads"]
    head = (
        "",
        "producer MB/s",
        "of alone",
        "consumer MB/s",
        "of alone",
        "read MB/s",
        "connections",
    )
    rows = [
        (
            name,
            f"{size / median(one.produced for one in each):.0f}",
            f"{median(one.produced for one in alone) / median(one.produced for one in each):.2f}",
            f"{size / median(one.consumed for one in each):.0f}",
            f"{median(one.consumed for one in alone) / median(one.consumed for one in each):.2f}",
            f"{median(one.reader.read / MB / one.consumed for one in each):.0f}",
            str(sum(one.reader.connections for one in each)),
        )
        for name, each in taken.items()
    ]
    return table(head, rows)


def _clients(bootstrap: str, records: int) -> tuple[float, float]:
    """Seconds until all was written, and until a consumer had it. Effects: requests."""
    config = {"bootstrap.servers": bootstrap, "log_level": 0}
    consumer = Consumer({**config, "group.id": "none", "enable.auto.commit": False})
    _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)
    consumer.assign([TopicPartition(TOPIC, 0, end)])
    began = time.perf_counter()
    thread = threading.Thread(target=_produce, args=(config, records))
    thread.start()
    left, produced = records, 0.0
    while left:
        left -= len(consumer.consume(10_000, 0.1))
        if not produced and not thread.is_alive():
            produced = time.perf_counter() - began
    consumed = time.perf_counter() - began
    thread.join()
    consumer.close()
    return produced or consumed, consumed


def _produce(config: dict[str, str | int | float | bool], records: int) -> None:
    producer = Producer({**config, "linger.ms": 5, "queue.buffering.max.messages": records})
    for _ in range(records):
        producer.produce(TOPIC, value=VALUE, partition=0)
        producer.poll(0)
    producer.flush()


@contextmanager
def _reading(log_dir: Path, rate: float) -> Iterator[Callable[[], _Read]]:
    """Read meanwhile; a function that ends it and returns what was done. Effects: a process."""
    if not rate:
        yield _Read
        return
    context = multiprocessing.get_context("spawn")
    stop, (mine, theirs) = context.Event(), context.Pipe()
    process = context.Process(target=_read_on, args=(log_dir, rate, stop, theirs), daemon=True)
    process.start()
    mine.recv()

    def end() -> _Read:
        stop.set()
        done: _Read = mine.recv()
        return done

    try:
        yield end
    finally:
        process.kill()
        process.join()


def _read_on(log_dir: Path, rate: float, stop: Event, out: Connection) -> None:
    """Read all records again and again, and say that it began and what was done."""
    connections: list[str] = []
    sys.addaudithook(
        lambda event, _: connections.append(event) if event == "socket.connect" else None
    )
    _read_once(log_dir, inf, stop)  # with it come kernels and imports
    out.send("began")
    read = 0
    while not stop.is_set():
        read += _read_once(log_dir, rate, stop)
    out.send(_Read(read, len(connections)))


def _read_once(log_dir: Path, rate: float, stop: Event) -> int:
    place = as_it_runs(log_dir, bytes_per_second=rate)
    read = 0
    with reading(place):
        log = observe(place, LOG, high_watermark="end")
        for part in plan_records(log, ReadRequest()):
            for batch in read_range(part, columns=("offset", "value")):
                read += int(batch.column("value").nbytes)
                if stop.is_set():
                    return read
    return read
