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
        (
            {
                "type": "bytes",
                "connect.name": f"{KAFKA}Decimal",
                "connect.parameters": {"scale": "2", "connect.decimal.precision": "65"},
                "logicalType": "decimal",
                "precision": 65,
                "scale": 2,
            },
            (10**60).to_bytes(26, "big"),
            f"1{'0' * 58}.00",
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


@pytest.mark.parametrize(
    ("parameters", "later", "scale", "later_scale", "refused"),
    [
        ({"scale": "2"}, {"scale": "2", "connect.decimal.precision": "65"}, 2, 2, {}),
        ({"__debezium.source.column.length": "10"}, {}, 2, 2, {}),
        ({"scale": "2"}, {"scale": "3"}, 2, 3, {0: "field n is not of the columns' type"}),
    ],
)
def test_parameters_of_a_later_schema(
    parameters: dict[str, str],
    later: dict[str, str],
    scale: int,
    later_scale: int,
    refused: dict[int, str],
) -> None:
    """Those of the source's column say nothing of a value: only the scale of a decimal does."""

    def schema(given: dict[str, str], scale: int) -> str:
        kind = {
            "type": "bytes",
            "connect.name": f"{KAFKA}Decimal",
            "connect.parameters": given,
            "logicalType": "decimal",
            "precision": 64,
            "scale": scale,
        }
        fields = [{"name": "n", "type": kind}]
        return json.dumps({"type": "record", "name": "R", "fields": fields})

    (before, after) = schema(parameters, scale), schema(later, later_scale)
    decoder = AvroDecoder(parse_avro(after), parse_avro(before))
    part = decoder.decode(pa.array([b"\x04\x01\x02"], pa.binary()))
    assert refused.keys() == part.reasons.keys()
    if not refused:
        assert "2.58" == str(part.values.to_pylist()[0]["n"])
