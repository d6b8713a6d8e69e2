"""Logs and tables without Dagster: a topic's logs by hand, its table by `update_topic`."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from logwright.config.table import TopicTable
from logwright.config.topic import CleanerConfig
from logwright.format.names import TopicPartition
from logwright.log.load import list_partitions, observe
from logwright.tables.logs import TopicLog
from logwright.tables.merge import MergeLimits
from logwright.tables.topic import LocatedTable, TopicUpdate, update_topic
from tests.log_builder import LogBuilder, Pair

DAY_MS = 86_400_000
NOW_MS = 1_760_000_000_000
RECORDS = 150
LIMITS = MergeLimits(small_bytes=0, files=3)
"""Also small tables delete rows of files, where the format can."""


def write_logs(
    log_dir: Path, partitions: Mapping[int, Sequence[Pair]], *, size: int = 10, **options: int
) -> Path:
    """A log directory with the topic t; each log in batches of some records, 5 for each segment. Of
    two logs of which one is the beginning of the other, the shorter one must have whole batches.
    """
    for number, pairs in partitions.items():
        log = LogBuilder(log_dir, f"t-{number}")
        for start in range(0, len(pairs), size):
            if start % (5 * size) == 0:
                segment = log.segment(start)
            segment.batch(start, list(pairs[start : start + size]))
        log.write(**options)  # type: ignore[arg-type]  # all but the flags
    return log_dir


def random_pairs(draw: random.Random, count: int, *, keys: int = 40) -> list[Pair]:
    """Records over few keys; some are tombstones, few have no key."""
    return [
        (
            None if draw.random() < 0.02 else f"k{draw.randrange(keys)}",
            None if draw.random() < 0.2 else f"v{draw.randrange(1000)}" * draw.randrange(1, 4),
        )
        for _ in range(count)
    ]


def three_logs(tmp_path: Path, draw: random.Random) -> list[Path]:
    """The same two partitions at three times."""
    whole = {number: random_pairs(draw, 3 * RECORDS) for number in range(2)}
    return [
        write_logs(
            tmp_path / f"logs-{time}",
            {number: pairs[: time * RECORDS] for number, pairs in whole.items()},
        )
        for time in (1, 2, 3)
    ]


def topic_logs(log_dir: Path, *, topic_id: str | None = None) -> list[TopicLog]:
    """The logs of the topic t, as they are now."""
    return [
        TopicLog(
            log=observe(log_dir, partition, high_watermark="end"),
            topic_id=topic_id,
            cleaner=CleanerConfig(),
        )
        for partition in list_partitions(log_dir)
        if partition.topic == TopicPartition("t", 0).topic
    ]


def place(form: str, path: Path | str, **settings: object) -> LocatedTable:
    """A table of the topic t."""
    table = TopicTable.model_validate({"format": form, "path": str(path), **settings})
    return LocatedTable(
        topic="t", table=table, catalog=table.catalog, base=Path(path).parent, limits=LIMITS
    )


def catalog_place(catalog: Mapping[str, str], base: Path, **settings: object) -> LocatedTable:
    """A table of Iceberg of the topic t, in a catalog; it decides on the place without a path."""
    given = {"format": "iceberg", "catalog": catalog, **settings}
    table = TopicTable.model_validate(given)
    return LocatedTable(topic="t", table=table, catalog=catalog, base=base, limits=LIMITS)


def update(
    where: LocatedTable,
    log_dir: Path,
    *,
    now_ms: int = NOW_MS,
    topic_id: str | None = None,
    rebuild: bool = False,
) -> TopicUpdate:
    """Update the table from the logs as they are."""
    logs = topic_logs(log_dir, topic_id=topic_id)
    return update_topic(where, logs, now_ms=now_ms, rebuild=rebuild)
