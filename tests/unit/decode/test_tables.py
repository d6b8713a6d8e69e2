"""Kafka's internal topics as tables: the newest record of each key."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from logwright.config.table import TopicTable
from logwright.config.topic import CleanerConfig
from logwright.format.names import TopicPartition
from logwright.log.load import list_partitions, observe
from logwright.tables.logs import TopicLog
from logwright.tables.topic import LocatedTable, update_topic
from tests.fixtures import copy_before
from tests.plain_consumer import consume

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topic(topic: str, tmp_path: Path) -> None:
    """One row for each key that is not deleted, by its raw bytes, none in quarantine."""
    log_dir = copy_before("real-broker", tmp_path)
    names = [one for one in list_partitions(log_dir) if one.topic == topic]
    logs = [
        TopicLog(
            log=observe(log_dir, name, high_watermark="end"),
            topic_id=None,
            cleaner=CleanerConfig(),
        )
        for name in names
    ]
    internal = {"format": "kafka-internal"}
    table = TopicTable.model_validate(
        {"format": "parquet", "path": str(tmp_path / "table"), "key": internal, "value": internal}
    )
    place = LocatedTable(topic=topic, table=table, catalog={}, base=tmp_path)
    assert 0 == update_topic(place, logs, now_ms=NOW_MS).quarantined
    last = {}
    for topic_log in logs:
        for row in consume(topic_log.log, "read_committed"):
            last[topic_log.log.partition, row[0]] = row
    rows = pd.read_parquet(tmp_path / "table")
    rows_of_logs = {
        (TopicPartition(topic, int(partition)), key): offset
        for partition, key, offset in zip(
            rows["partition"], rows["_key"], rows["offset"], strict=True
        )
    }
    assert {place: row[2] for place, row in last.items() if row[1] is not None} == rows_of_logs
    assert len(rows_of_logs) == len(rows)
