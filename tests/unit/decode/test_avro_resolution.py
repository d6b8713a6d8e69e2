"""Data of one Avro schema as another has them, compared with fastavro, which resolves them too."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from logwright.decode.avro import AvroDecoder
from logwright.decode.avro_schema import parse_avro

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def record(*fields: dict[str, Any], name: str = "A", **more: Any) -> dict[str, Any]:
    """A schema of a record."""
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    """A field of a record."""
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    """A schema of an enum."""
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def written(schema: Any, value: Any) -> bytes:
    """A datum."""
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), value)
    return content.getvalue()


def official(writer: Any, reader: Any, content: bytes) -> Any:
    """What fastavro reads."""
    return fastavro.schemaless_reader(
        io.BytesIO(content), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    )


def decoded(writer: Any, reader: Any, *values: Any) -> tuple[list[Any], dict[int, str]]:
    """The rows of some values, and why others are refused."""
    (theirs, ours) = (parse_avro(json.dumps(each)) for each in (writer, reader))
    part = AvroDecoder(theirs, ours).decode_values([written(writer, value) for value in values])
    part.values.validate(full=True)
    return part.values.to_pylist(), part.reasons


P = record(field("p", ["null", "string"]), name="P")
SAME = [
    (field("x", "int"), field("x", "long"), 5),
    (field("x", "int"), field("x", "double"), 5),
    (field("x", "long"), field("x", "float"), 5),
    (field("x", "float"), field("x", "double"), 0.5),
    (field("x", "string"), field("x", "bytes"), "é"),
    (field("x", "bytes"), field("x", "string"), "é".encode()),
    (field("x", ["null", "int"]), field("x", ["null", "double"]), 5),
    (field("x", ["null", "int"]), field("x", ["null", "double"]), None),
    (field("x", "string"), field("x", ["null", "string"]), "v"),
    (field("x", ["null", "string"]), field("x", "string"), "v"),
    (field("x", {"type": "array", "items": "int"}), field("x", {"type": "array", "items": "long"}),
     [1, 2]),
    (field("x", ["null", P]), field("x", ["null", record(field("q", "int", default=3), name="P")]),
     {"p": "v"}),
    (field("x", enum("a", "b")), field("x", enum("b", "a", "c")), "a"),
    (field("x", enum("a", "z")), field("x", enum("a", "b", default="b")), "z"),
    (field("x", enum("a")), field("x", {**enum("a"), "name": "F", "aliases": ["E"]}), "a"),
    (field("x", enum("a")), field("x", {**enum("a"), "name": "com.a.F", "aliases": ["E"]}), "a"),
    (field("x", P), field("x", P | {"name": "com.a.Q", "aliases": ["P"]}), {"p": "v"}),
    (field("x", {"type": "fixed", "name": "F", "size": 2}),
     field("x", {"type": "fixed", "name": "F", "size": 2}), b"ab"),
    (field("old", "string"), field("new", "string", aliases=["old"], default="?"), "v"),
]  # fmt: skip


@pytest.mark.parametrize(("theirs", "ours", "value"), SAME)
def test_as_fastavro(theirs: Any, ours: Any, value: Any) -> None:
    """Promotions, nullability, items, nested records, enums with defaults, aliases."""
    (writer, reader) = (record(theirs), record(ours))
    row = {theirs["name"]: value}
    expected = official(writer, reader, written(writer, row))
    assert ([expected], {}) == decoded(writer, reader, row)


def test_defaults() -> None:
    """A field that the writer does not have gets its default, of any type."""
    choice = ["string", "int", "null"]
    reader = record(
        field("i", "int"),
        field("ts", [MILLIS, "null"], default=0),
        field("by", ["bytes", "null"], default="\u00ff"),
        field("fixed", {"type": "fixed", "name": "F", "size": 1}, default="\u0001"),
        field("list", [{"type": "array", "items": "int"}, "null"], default=[1, 2]),
        field("map", {"type": "map", "values": "long"}, default={"a": 1}),
        field("rec", [record(field("p", "string", default="q"), name="P"), "null"], default={}),
        field("either", choice, default="d"),
        field("price", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
              default="\u0001\u0000"),
        field("number", "double", default=1),
        field("enum", enum("a", "b"), default="b"),
        field("nothing", ["null", "string"], default=None),
    )  # fmt: skip
    (rows, refused) = decoded(record(field("i", "int")), reader, {"i": 1})
    assert {} == refused
    row = rows[0]
    assert 0 == row.pop("ts").timestamp()
    assert {
        "i": 1,
        "by": b"\xff",
        "fixed": b"\x01",
        "list": [1, 2],
        "map": [("a", 1)],
        "rec": {"p": "q"},
        "either": {"string": "d", "int": None},
        "price": Decimal("2.56"),
        "number": 1.0,
        "enum": "b",
        "nothing": None,
    } == row


@pytest.mark.parametrize(
    ("theirs", "ours", "good", "bad"),
    [
        (["null", "string"], "string", "v", None),
        (["null", "int", "string"], ["null", "long"], 5, "v"),
        (["null", P, record(name="Q")], ["null", P, record(name="S")],
         ("P", {"p": "v"}), ("Q", {})),
        (enum("a", "z"), enum("a", "b"), "a", "z"),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "int"}, [], ["v"]),
        ({"type": "map", "values": ["null", "int"]}, {"type": "map", "values": "int"},
         {"k": 1}, {"k": None}),
        ({"type": "array", "items": ["null", record(name="Q")]},
         {"type": "array", "items": ["null", record(field("n", "int"), name="Q")]},
         [None], [{}]),
    ],
)  # fmt: skip
def test_only_what_does_not_fit_is_refused(theirs: Any, ours: Any, good: Any, bad: Any) -> None:
    """A value is refused, and not its neighbours of the same schema."""
    (writer, reader) = (record(field("x", theirs)), record(field("x", ours)))
    (rows, refused) = decoded(writer, reader, {"x": good}, {"x": bad}, {"x": good})
    assert [1] == list(refused)
    assert "x" in refused[1]
    assert rows[0] == rows[2] != rows[1] is None
    if not isinstance(bad, tuple):
        with pytest.raises(Exception):  # noqa: B017, PT011 - of several kinds
            official(writer, reader, written(writer, {"x": bad}))


def test_types_of_a_union() -> None:
    """A value keeps its type, by the full name, also if the types are others or ordered
    otherwise; a number is promoted.
    """
    writer = record(field("x", ["null", "int", "string"]))
    reader = record(field("x", ["null", "string", "double", "long"]))
    null = {"string": None, "double": None, "long": None}
    assert (
        [{"x": {**null, "double": 5.0}}, {"x": {**null, "string": "v"}}, {"x": None}],
        {},
    ) == decoded(writer, reader, {"x": 5}, {"x": "v"}, {"x": None})
    exact = record(field("x", ["null", "long", "int"]))
    assert [{"x": {"long": None, "int": 5}}] == decoded(writer, exact, {"x": 5})[0]


def test_names_with_namespaces() -> None:
    """Two records of a union with the same short name have columns of their full names."""

    def space(name: str) -> dict[str, Any]:
        return record(field("v", ["null", "string"]), name="E", namespace=name)

    first = record(field("x", ["null", space("com.a"), space("com.b")]))
    second = record(field("x", ["null", space("com.b"), space("com.a")]))
    value = {"x": ("com.a.E", {"v": "of a"})}
    expected = {"x": {"com_a_E": {"v": "of a"}, "com_b_E": None}}
    for writer in (first, second):
        assert ([expected], {}) == decoded(writer, second, value)


def test_units() -> None:
    """A time keeps its value where only its unit is another; a number without a unit is never a
    time, nor a decimal one of another scale.
    """
    at = 1_700_000_000_000
    (writer, reader) = (record(field("x", MILLIS)), record(field("x", MICROS)))
    same = decoded(writer, writer, {"x": at})
    assert ({}, same[0]) == (same[1], decoded(writer, reader, {"x": at})[0])
    assert same == decoded(reader, writer, {"x": at * 1000})
    finer = decoded(reader, writer, {"x": at * 1000 + 1})
    assert ([None], [0]) == (finer[0], list(finer[1]))
    plain = record(field("x", "long"))
    for theirs, ours in ((plain, reader), (reader, plain)):
        assert {0: "has a schema whose field x does not fit the columns"} == decoded(
            theirs, ours, {"x": at}
        )[1]
    scaled = [
        record(field("x", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": s}))
        for s in (2, 3)
    ]
    assert [0] == list(decoded(scaled[0], scaled[1], {"x": Decimal("1.25")})[1])
    day = [
        record(field("x", {"type": kind, "logicalType": f"time-{unit}"}))
        for kind, unit in (("int", "millis"), ("long", "micros"))
    ]
    assert [{"x": 5000}] == decoded(day[0], day[1], {"x": 5})[0]


def test_a_field_without_a_default() -> None:
    """A record that lacks it is refused, also where it could be null: nothing is guessed."""
    reader = record(field("i", "int"), field("n", ["null", "string"]))
    writer = record(field("i", "int"))
    assert {0: "has a schema without field n, which has no default"} == decoded(
        writer, reader, {"i": 1}
    )[1]
    with pytest.raises(fastavro._read_common.SchemaResolutionError):
        official(writer, reader, written(writer, {"i": 1}))


def test_uuid_of_bytes() -> None:
    """A UUID of 16 bytes is the text that one of text is."""
    kind = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    plain = {"type": "fixed", "name": "U", "size": 16}
    schema = record(field("x", kind))
    part = AvroDecoder(parse_avro(json.dumps(schema))).decode_values(
        [written(record(field("x", plain)), {"x": bytes(range(16))})]
    )
    assert [{"x": "00010203-0405-0607-0809-0a0b0c0d0e0f"}] == part.values.to_pylist()
