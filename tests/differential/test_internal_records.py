"""Random records of Kafka's internal topics, of every type and version, are decoded as Kafka's own
converters do it.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from logwright.config.decoding import default_decoding
from logwright.decode.dumped import internal_records
from logwright.decode.make import make_decoder
from tests.differential.oracle_server import shared
from tests.unit.decode.records import batch, decode

pytestmark = pytest.mark.oracle

COUNT, NIGHTLY_COUNT = 40, 2_000
TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
TYPES_OF = {"__consumer_offsets": 22, "__share_group_state": 2}
MADE_UP = {
    "has a time that is not of the years 1970 to 9999",
    "has an unknown state of a transaction",
    "has an unknown state of a delivery",
}
"""Why random numbers are refused in rows, though not in ``dump``."""

Record = dict[str, Any]


@pytest.fixture(
    scope="module", params=[COUNT, pytest.param(NIGHTLY_COUNT, marks=pytest.mark.nightly)]
)
def records(request: pytest.FixtureRequest, seed: int, kafka_version: str) -> list[Record]:
    """What Kafka serialized."""
    count: int = request.param
    answer = shared().ask({"request": "internal", "seed": seed, "count": count})
    listed: list[Record] = answer["records"]
    assert {count} == set(Counter((one["name"], one["version"]) for one in listed).values())
    return listed


def test_dump_is_what_kafka_prints(records: list[Record]) -> None:
    """Field by field: those of the version, and the tagged ones that are set."""
    for record in records:
        shown = {"key": record["key"], "value": record["value"]}
        internal_records(record["topic"])([shown])
        assert shown.keys() == {"key", "value"}, shown
        assert record["type"] == shown["key"]["type"]
        assert record["name"].replace("CoordinatorRecordType.", "").lower() in {
            shown["key"]["name"],
            f"{shown['key']['name']}_log",
        }
        assert same(record["keyData"], shown["key"]["data"])
        assert record["version"] == shown["value"]["version"]
        assert same(record["valueData"], shown["value"]["data"])


def same(kafkas: object, ours: object) -> bool:
    return json.dumps(kafkas, sort_keys=True) == json.dumps(ours, sort_keys=True)


@pytest.mark.parametrize("topic", TOPICS)
def test_rows(topic: str, records: list[Record], tmp_path: Path) -> None:
    """All are rows, but for times and states that random numbers are not."""
    chosen = [record for record in records if record["topic"] == topic]
    pairs = [tuple(base64.b64decode(one[part]) for part in ("key", "value")) for one in chosen]
    decoder = make_decoder(default_decoding(topic), base=tmp_path, topic=topic)
    result = decode(decoder, batch(pairs, topic))
    assert {reason for _, _, reason in result.refused} <= MADE_UP
    assert result.rows
    names = {record["name"] for record in chosen}
    if topic in TYPES_OF:
        assert TYPES_OF[topic] == len(names) == len({row["type"] for row in result.rows})
