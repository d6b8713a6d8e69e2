"""The table of a log's latest state, in sequences: updated now and then, and always right."""

from __future__ import annotations

from logwright.config.topic import CleanerConfig
from logwright.log.load import observe
from logwright.log.topic_id import read_topic_id
from logwright.place.files import open_partition_dir
from logwright.tables.logs import TopicLog
from logwright.tables.topic import open_store, read_rows, update_topic
from tests.latest_rows import replayed
from tests.sequences.step import Step, pick, unchanged
from tests.sequences.world import (
    BOTH,
    COMPACTED,
    RETAINED,
    SECOND,
    TAKEN_IN,
    Difference,
    World,
    parsed,
    repair,
)
from tests.table_world import place

COLUMNS = ("key", "value", "offset")
FORMS = {COMPACTED: "delta", TAKEN_IN: "parquet", RETAINED: "iceberg", BOTH: "delta"}


def table(world: World, choice: int) -> Step:
    """Bring a topic's table up to date, and hold its rows against the model."""
    name = pick(world, choice, tuple(FORMS))
    log = world.logs[name]

    def run() -> None:
        repair(world)
        if log.content is None:
            return
        contents = {name: log.content}
        second = world.logs[SECOND].content
        if name == COMPACTED and second is not None:
            contents[SECOND] = second
        topic_logs = [_topic_log(world, each) for each in contents]
        where = place(FORMS[name], world.root / "tables" / name, buckets=2)
        done = update_topic(where, topic_logs, now_ms=world.now)
        for error in done.result.failures.values():
            raise error
        store = open_store(where)
        snapshot = store.load()
        assert snapshot is not None
        rows = sorted(
            (row["offset"], row["key"], row["value"])
            for batch in read_rows(store, snapshot, COLUMNS)
            for row in batch.to_pylist()
        )
        expected = sorted(
            (row[2], row[0], row[1]) for each in contents.values() for row in replayed(each)
        )
        if rows != expected:
            steps = [part.step for part in done.result.partitions]
            raise Difference(f"the table of {name} after {steps}: {rows}, expected {expected}")

    return Step(name, run, unchanged(world, name))


def _topic_log(world: World, name: str) -> TopicLog:
    partition = parsed(name)
    log_dir = world.logs[name].where
    with open_partition_dir(log_dir, partition) as directory:
        topic_id = read_topic_id(directory)
    return TopicLog(
        log=observe(log_dir, partition, high_watermark="end"),
        topic_id=topic_id,
        cleaner=CleanerConfig(),
    )
