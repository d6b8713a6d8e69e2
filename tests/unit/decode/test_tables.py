"""Kafka's internal topics as tables: the newest record of each key."""

from __future__ import annotations

import base64
from pathlib import Path

import pandas as pd
import pytest

from logwright.config.table import TopicTable
from logwright.config.topic import CleanerConfig
from logwright.log.load import list_partitions, observe
from logwright.tables.logs import TopicLog
from logwright.tables.topic import Place, update_topic
from tests.e2e.command import call
from tests.fixtures import copy_before

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topic(topic: str, tmp_path: Path) -> None:
    """One row for each key that is not deleted, by its raw bytes, none in quarantine."""
    log_dir = copy_before("real-broker", tmp_path)
    names = [one for one in list_partitions(log_dir) if one.topic == topic]
    logs = [
        TopicLog(
            log=observe(log_dir, one, high_watermark="end"),
            topic_id=None,
            delete_retention_ms=86_400_000,
            cleaner=CleanerConfig(),
        )
        for one in names
    ]
    internal = {"format": "kafka-internal"}
    table = TopicTable.model_validate(
        {"format": "parquet", "path": str(tmp_path / "table"), "key": internal, "value": internal}
    )
    place = Place(topic=topic, table=table, catalog={}, base=tmp_path)
    assert 0 == update_topic(place, logs, now_ms=NOW_MS).quarantined
    last = {}
    for name in names:
        for line in call("dump", log_dir, name).lines:
            if line["type"] == "batch" and not line["control"]:
                last.update({one["key"]: one for one in line["records"]})
    rows = pd.read_parquet(tmp_path / "table")
    keys = [base64.b64encode(key).decode() for key in rows["_key"]]
    offsets = {key: one["offset"] for key, one in last.items() if one["value"] is not None}
    assert offsets == dict(zip(keys, rows["offset"].tolist(), strict=True))
    assert len(offsets) == len(keys)
