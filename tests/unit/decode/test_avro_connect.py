"""Avro as Kafka Connect's converter writes it: with the names of logical types next to types."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from logwright.decode.avro import AvroDecoder
from logwright.decode.avro_schema import parse_avro
from logwright.decode.json_fields import UnusableSchema

UTC = dt.UTC
TIME, KAFKA = "io.debezium.time.", "org.apache.kafka.connect.data."
VARIABLE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "connect.name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}


@pytest.mark.parametrize(
    ("schema", "stored", "expected"),
    [
        (
            {"type": "long", "connect.name": f"{TIME}MicroTimestamp"},
            5_097_600_000_000,
            dt.datetime(1970, 3, 1, tzinfo=UTC),
        ),
        (
            ["null", {"type": "long", "connect.name": f"{TIME}Timestamp"}],
            5_097_600_000,
            dt.datetime(1970, 3, 1, tzinfo=UTC),
        ),
        ({"type": "int", "connect.name": f"{TIME}Date"}, 1, dt.date(1970, 1, 2)),
        ({"type": "long", "connect.name": f"{TIME}MicroTime"}, 1, "00:00:00.000001"),
        ({"type": "string", "connect.name": f"{TIME}IsoDate"}, "1970-01-02Z", dt.date(1970, 1, 2)),
        ({"type": "string", "connect.name": "io.debezium.data.Json"}, "[1]", "[1]"),
        (
            {
                "type": "bytes",
                "connect.name": f"{KAFKA}Decimal",
                "connect.parameters": {"scale": "2"},
                "logicalType": "decimal",
                "precision": 64,
                "scale": 2,
            },
            b"\x01",
            Decimal("0.01"),
        ),
        (VARIABLE, {"scale": 3, "value": b"\xff"}, "-0.001"),
    ],
)
def test_names_of_kafka_connect(schema: Any, stored: object, expected: object) -> None:
    """What its Avro converter writes next to a type decides the unit."""
    content = io.BytesIO()
    plain = json.loads(json.dumps(schema).replace("logicalType", "was"))
    fastavro.schemaless_writer(content, fastavro.parse_schema(plain), stored)
    decoder = AvroDecoder(parse_avro(json.dumps(schema)))
    part = decoder.decode(pa.array([content.getvalue()], pa.binary()))
    assert ([expected], {}) == (part.values.to_pylist(), part.reasons)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "long", "connect.name": f"{TIME}PicoTimestamp"},
        {"type": "int", "connect.name": f"{TIME}MicroTimestamp"},
        {
            "type": "long",
            "connect.name": f"{TIME}MicroTimestamp",
            "logicalType": "timestamp-millis",
        },
    ],
)
def test_a_unit_that_is_not_known(schema: Any) -> None:
    """It is refused, and not taken for the number that it is stored as."""
    with pytest.raises(UnusableSchema, match=r"unit is not known|contradict"):
        parse_avro(json.dumps(schema))
