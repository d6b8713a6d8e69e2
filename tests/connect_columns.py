"""Random columns of a table, of every logical type of Kafka Connect and Debezium."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

from logwright.config.json_fields import JsonField
from tests.connect_values import (
    NULL,
    Made,
    Make,
    chosen,
    clock,
    date,
    digits,
    double,
    duration,
    interval,
    iso_time,
    octets,
    single,
    text,
    timestamp,
    truth,
    variable,
    whole,
    wide_clock,
    zoned,
    zoned_time,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column.

    Attributes:
        kind: its type, by the name that the converter's process knows.
        schema: for that process.
        field: as it is configured.
        make: a value that is not null.
        default: if it has one.
        may_be: scalar types that it may be configured with.
    """

    name: str
    kind: str
    schema: dict[str, Any]
    field: JsonField
    make: Make
    default: Made | None
    may_be: frozenset[str]

    def value(self, draw: Random) -> Made:
        """A value, null now and then if it may be."""
        return NULL if self.schema["optional"] and draw.random() < 0.2 else self.make(draw)

    def in_another_unit(self, draw: Random) -> Column:
        """The same column in a later schema: a timestamp in another unit or as text."""
        if self.kind not in TIMESTAMPS:
            return self
        kind = draw.choice(TIMESTAMPS)
        schema = {"name": self.name, "type": kind, "optional": True}
        return replace(self, kind=kind, schema=schema, make=MAKE[kind].make, default=None)


class Kind(NamedTuple):
    """A type without parameters: of its column, and what makes its values."""

    column: str
    make: Make
    may_be: frozenset[str] = frozenset()


TIMESTAMPS = (
    "Timestamp",
    "MicroTimestamp",
    "NanoTimestamp",
    "ZonedTimestamp",
    "IsoTimestamp",
    "connect.Timestamp",
)
INTEGERS = frozenset({"int", "long", "float", "double"})
TEXT = frozenset({"date", "timestamp", "binary"})
MAKE = {
    "int8": Kind("int", whole(8), INTEGERS),
    "int16": Kind("int", whole(16), INTEGERS),
    "int32": Kind("int", whole(32), INTEGERS),
    "int64": Kind("long", whole(64), INTEGERS),
    "float": Kind("float", single, frozenset({"double"})),
    "double": Kind("double", double),
    "boolean": Kind("boolean", truth),
    "string": Kind("string", text, TEXT),
    "bytes": Kind("binary", octets),
    "connect.Date": Kind("date", date),
    "connect.Time": Kind("string", clock(3)),
    "connect.Timestamp": Kind("timestamp", timestamp(3)),
    "Date": Kind("date", date),
    "Time": Kind("string", clock(3)),
    "MicroTime": Kind("string", wide_clock),
    "NanoTime": Kind("string", clock(9)),
    "Timestamp": Kind("timestamp", timestamp(3)),
    "MicroTimestamp": Kind("timestamp", timestamp(6)),
    "NanoTimestamp": Kind("timestamp", timestamp(9)),
    "ZonedTimestamp": Kind("timestamp", zoned),
    "ZonedTime": Kind("string", zoned_time),
    "Year": Kind("int", whole(32), frozenset({"long"})),
    "Interval": Kind("string", interval),
    "MicroDuration": Kind("string", duration(6)),
    "NanoDuration": Kind("string", duration(9)),
    "IsoDate": Kind("date", date),
    "IsoTime": Kind("string", iso_time),
    "IsoTimestamp": Kind("timestamp", timestamp(9)),
    "Json": Kind("json", text),
    "Enum": Kind("string", chosen("a", "b c", "ß"), TEXT),
    "EnumSet": Kind("string", chosen("a", "a,b", "", "b,c"), TEXT),
    "Uuid": Kind("string", chosen("123e4567-e89b-12d3-a456-426614174000"), TEXT),
    "Xml": Kind("string", chosen("<a>ß</a>", "<b/>"), TEXT),
    "Tsvector": Kind("string", chosen("'a':1 'b':2"), TEXT),
    "Ltree": Kind("string", chosen("top.middle.low"), TEXT),
    "VariableScaleDecimal": Kind("string", variable),
}
"""Types without parameters. Year has 32 bits, whatever a calendar says."""
SHAPES = {
    "Point": (("x", "double"), ("y", "double"), ("wkb", "binary"), ("srid", "int")),
    "Geometry": (("wkb", "binary"), ("srid", "int")),
    "Geography": (("wkb", "binary"), ("srid", "int")),
}


def is_time(described: Column) -> bool:
    """Whether its values are timestamps."""
    return described.field.type == "timestamp"


def column(draw: Random, name: str, depth: int) -> Column:
    """A random column."""
    kinds = [*MAKE, "Decimal", "Decimal", "Bits", *SHAPES]
    nested = ["array", "map", "struct"] if depth < 2 else []
    kind = draw.choice(draw.choice([kinds, kinds, kinds, list(TIMESTAMPS), nested or kinds]))
    schema: dict[str, Any] = {"name": name, "type": kind, "optional": draw.random() < 0.6}
    (field, make, may_be) = BUILD.get(kind, plain)(draw, schema, depth)
    default = None
    if kind in MAKE and kind != "VariableScaleDecimal" and draw.random() < 0.2:
        default = make(draw)
        schema["default"] = default.given
    return Column(
        name=name,
        kind=kind,
        schema=schema,
        field=field.model_copy(update={"name": name}),
        make=make,
        default=default,
        may_be=may_be | {field.type},
    )


Built = tuple[JsonField, Make, frozenset[str]]


def plain(draw: Random, schema: dict[str, Any], depth: int) -> Built:
    """A type without parameters."""
    maker = MAKE[schema["type"]]
    return JsonField(name="", type=maker.column), maker.make, maker.may_be


def decimal(draw: Random, schema: dict[str, Any], depth: int) -> Built:
    """Connect's decimal, with or without its precision."""
    scale = draw.randrange(20)
    most = draw.randint(max(scale, 1), 38)
    schema["scale"] = scale
    if draw.random() < 0.5:
        schema["precision"] = most
    field = JsonField(name="", type=f"decimal({schema.get('precision', 38)},{scale})")

    def make(draw: Random) -> Made:
        number = digits(draw, most, scale)
        return Made(f"{number:f}", number)

    return field, make, frozenset()


def bits(draw: Random, schema: dict[str, Any], depth: int) -> Built:
    """Bits, as the bytes that Debezium makes of them."""
    schema["length"] = draw.randint(1, 64)
    return JsonField(name="", type="binary"), octets, frozenset()


def shape(draw: Random, schema: dict[str, Any], depth: int) -> Built:
    """A geometry: a struct."""
    kind = schema["type"]
    fields = tuple(JsonField(name=name, type=one) for name, one in SHAPES[kind])

    def make(draw: Random) -> Made:
        if kind == "Point":
            x, y = draw.uniform(-180, 180), draw.uniform(-90, 90)
            wkb = struct.pack("<BIdd", 1, 1, x, y)
            return Made([x, y], {"x": x, "y": y, "wkb": wkb, "srid": None})
        made = octets(draw)
        srid = 4326 if kind == "Geometry" else None
        return Made(made.given, {"wkb": made.expected, "srid": srid})

    return JsonField(name="", type="struct", fields=fields), make, frozenset()


def array(draw: Random, schema: dict[str, Any], depth: int) -> Built:
    """A list."""
    item = column(draw, "element", depth + 1)
    schema["items"] = without_default(item)

    def make(draw: Random) -> Made:
        made = [item.value(draw) for _ in range(draw.randrange(4))]
        return Made([one.given for one in made], [one.expected for one in made])

    return JsonField(name="", type="array", fields=(item.field,)), make, frozenset()


def pairs(draw: Random, schema: dict[str, Any], depth: int) -> Built:
    """A map, with keys of texts or of others."""
    name = draw.choice(["string", "int32", "int64", "Date", "MicroTimestamp", "Uuid", "boolean"])
    key, item = MAKE[name], column(draw, "value", depth + 1)
    schema["keys"] = {"type": name, "optional": False}
    schema["values"] = without_default(item)

    def make(draw: Random) -> Made:
        keys = {str(one.given): one for one in (key.make(draw) for _ in range(draw.randrange(4)))}
        made = [(one, item.value(draw)) for one in keys.values()]
        return Made(
            [[one.given, two.given] for one, two in made],
            [(one.expected, two.expected) for one, two in made],
        )

    fields = (JsonField(name="key", type=key.column), item.field)
    return JsonField(name="", type="map", fields=fields), make, frozenset()


def record(draw: Random, schema: dict[str, Any], depth: int) -> Built:
    """A struct in a struct."""
    inner = [column(draw, f"f{number}", depth + 1) for number in range(draw.randint(1, 4))]
    schema["fields"] = [without_default(one) for one in inner]
    schema["record"] = f"shop.R{draw.getrandbits(64)}"

    def make(draw: Random) -> Made:
        made = [(one.name, one.value(draw)) for one in inner]
        return Made([one.given for _, one in made], {name: one.expected for name, one in made})

    fields = tuple(one.field for one in inner)
    return JsonField(name="", type="struct", fields=fields), make, frozenset()


def without_default(described: Column) -> dict[str, Any]:
    """A schema inside another one."""
    return {name: value for name, value in described.schema.items() if name != "default"}


BUILD = {
    "Decimal": decimal,
    "Bits": bits,
    **dict.fromkeys(SHAPES, shape),
    "array": array,
    "map": pairs,
    "struct": record,
}
