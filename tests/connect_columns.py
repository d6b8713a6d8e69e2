"""Random columns of a table, of every logical type of Kafka Connect and Debezium, and their values:
what is put in, and what it must be decoded to.
"""

from __future__ import annotations

import base64
import datetime as dt
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

from logwright.config.json_fields import JsonField

UTC = dt.UTC
TEXTS = ("", "a", "größe€", "x" * 40, '{"a": [1, "b"]}', "\u2028")
FIRST, LAST = dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(9999, 12, 31, tzinfo=UTC)
NANO_FIRST, NANO_LAST = dt.datetime(1678, 1, 1, tzinfo=UTC), dt.datetime(2262, 1, 1, tzinfo=UTC)
"""The years that 64 bits of nanoseconds have."""


class Made(NamedTuple):
    """A value.

    Attributes:
        given: what is put in, for the converter's process; None: null.
        expected: what the column has.
    """

    given: Any
    expected: Any


NULL = Made(None, None)
Make = Callable[[Random], Made]


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


def moment(draw: Random, first: dt.datetime, last: dt.datetime) -> dt.datetime:
    """A moment; near 1970 as often as anywhere, where units are taken for each other."""
    if draw.random() < 0.4:
        first, last = dt.datetime(1969, 1, 1, tzinfo=UTC), dt.datetime(1972, 1, 1, tzinfo=UTC)
    span = (last - first) // dt.timedelta(microseconds=1)
    return first + dt.timedelta(microseconds=draw.randrange(span))


def timestamp(digits: int, zone: str = "") -> Make:
    """A timestamp with this many digits of a second; what is below a microsecond is cut off."""

    def make(draw: Random) -> Made:
        time = moment(draw, *((NANO_FIRST, NANO_LAST) if digits == 9 else (FIRST, LAST)))
        if digits == 3:
            time = time.replace(microsecond=time.microsecond // 1000 * 1000)
        text = f"{time.replace(tzinfo=None, microsecond=0).isoformat()}.{time.microsecond:06}"
        rest = f"{draw.randrange(1000):03}" if digits == 9 else ""
        return Made(f"{text}{rest}{zone}", time)

    return make


def zoned(draw: Random) -> Made:
    """A timestamp with an offset."""
    made = timestamp(9)(draw)
    offset = dt.timedelta(minutes=draw.randrange(-18 * 60, 18 * 60 + 1))
    local = (made.expected + offset).replace(tzinfo=None)
    minutes = offset // dt.timedelta(minutes=1)
    sign, minutes = "-" if minutes < 0 else "+", abs(minutes)
    text = f"{local.replace(microsecond=0).isoformat()}{made.given[19:]}"
    return Made(f"{text}{sign}{minutes // 60:02}:{minutes % 60:02}", made.expected)


def date(draw: Random) -> Made:
    """A day."""
    day = moment(draw, FIRST, LAST).date()
    return Made(day.isoformat(), day)


def clock(digits: int) -> Make:
    """A time of day with this many digits."""

    def make(draw: Random) -> Made:
        count = draw.randrange(86_400 * 10**digits)
        seconds, rest = divmod(count, 10**digits)
        hours, minutes = seconds // 3600, seconds // 60 % 60
        text = f"{hours:02}:{minutes:02}:{seconds % 60:02}.{rest:0{digits}}"
        return Made(text, text)

    return make


def wide_clock(draw: Random) -> Made:
    """A time as MySQL has it: below zero, and of many days."""
    if draw.random() < 0.5:
        return clock(6)(draw)
    hours, minutes, micros = draw.randrange(839), draw.randrange(60), draw.randrange(60_000_000)
    sign = draw.choice(["", "-"])
    seconds = f"{micros // 1_000_000:02}.{micros % 1_000_000:06}"
    if not hours and not minutes and not micros:
        sign = ""
    return Made(f"{sign}PT{hours}H{minutes}M{seconds}S", f"{sign}{hours:02}:{minutes:02}:{seconds}")


def iso_time(draw: Random) -> Made:
    """A time as Debezium's ISO text: without a fraction that is zero."""
    seconds = draw.randrange(86_400)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return Made(text, f"{text}Z")


def zoned_time(draw: Random) -> Made:
    """A time with an offset."""
    text = f"{iso_time(draw).given}.{draw.randrange(100):02}{draw.randint(1, 9)}+02:00"
    return Made(text, text)


def duration(digits: int) -> Make:
    """A span of seconds."""

    def make(draw: Random) -> Made:
        count = draw.randrange(10 ** (digits + 8)) * draw.choice([1, -1])
        seconds, rest = divmod(abs(count), 10**digits)
        text = f"PT{'-' if count < 0 else ''}{seconds}.{rest:0{digits}}S"
        return Made(text, text)

    return make


def interval(draw: Random) -> Made:
    """A span with months, which no number has."""
    (years, months, days, hours, minutes) = (draw.randrange(1, 12) for _ in range(5))
    seconds = f"{draw.randrange(60)}.{draw.randrange(10**5):05}{draw.randint(1, 9)}"
    text = f"P{years}Y{months}M{days}DT{hours}H{minutes}M{seconds}S"
    return Made([years, months, days, hours, minutes, seconds], text)


def whole(bits: int) -> Make:
    """A whole number; the ends are drawn now and then."""

    def make(draw: Random) -> Made:
        most = 2 ** (bits - 1)
        number = draw.choice([-most, most - 1, 0, draw.randrange(-most, most)])
        return Made(str(number), number)

    return make


def double(draw: Random) -> Made:
    """A double, also those that JSON does not have."""
    text = draw.choice(["NaN", "Infinity", "-Infinity", "0.1", "-0.0", "1e300", "123456789.125"])
    text = text if draw.random() < 0.5 else repr(draw.uniform(-1e6, 1e6))
    return Made(text, float(text))


def single(draw: Random) -> Made:
    """A float."""
    text = draw.choice(["NaN", "Infinity", "0.1", "3.4028235E38", "16777217", "1e-45"])
    return Made(text, struct.unpack(">f", struct.pack(">f", float(text)))[0])


def text(draw: Random) -> Made:
    """Any text."""
    one = draw.choice(TEXTS)
    return Made(one, one)


def chosen(*choices: str) -> Make:
    """One of some texts."""

    def make(draw: Random) -> Made:
        one = draw.choice(choices)
        return Made(one, one)

    return make


def octets(draw: Random) -> Made:
    """Bytes."""
    content = draw.randbytes(draw.randrange(20))
    return Made(base64.b64encode(content).decode(), content)


def truth(draw: Random) -> Made:
    """A boolean."""
    one = draw.random() < 0.5
    return Made(one, one)


def digits(draw: Random, most: int, scale: int) -> Decimal:
    """A decimal of at most so many digits."""
    number = draw.randrange(10 ** draw.randint(0, most))
    sign = draw.randrange(2) if number else 0
    return Decimal((sign, tuple(map(int, str(number))), -scale))


def variable(draw: Random) -> Made:
    """A decimal with its own scale, of more digits than columns of decimals have."""
    one = digits(draw, 60, draw.randrange(30))
    return Made(f"{one:f}", f"{one:f}")


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


def is_time(one: Column) -> bool:
    """Whether its values are timestamps."""
    return one.field.type == "timestamp"


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
    one = MAKE[schema["type"]]
    return JsonField(name="", type=one.column), one.make, one.may_be


def decimal(draw: Random, schema: dict[str, Any], depth: int) -> Built:
    """Connect's decimal, with or without its precision."""
    scale = draw.randrange(20)
    most = draw.randint(max(scale, 1), 38)
    schema["scale"] = scale
    if draw.random() < 0.5:
        schema["precision"] = most
    field = JsonField(name="", type=f"decimal({schema.get('precision', 38)},{scale})")

    def make(draw: Random) -> Made:
        one = digits(draw, most, scale)
        return Made(f"{one:f}", one)

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

    def make(draw: Random) -> Made:
        made = [(one.name, one.value(draw)) for one in inner]
        return Made([one.given for _, one in made], {name: one.expected for name, one in made})

    fields = tuple(one.field for one in inner)
    return JsonField(name="", type="struct", fields=fields), make, frozenset()


def without_default(one: Column) -> dict[str, Any]:
    """A schema inside another one."""
    return {name: value for name, value in one.schema.items() if name != "default"}


BUILD = {
    "Decimal": decimal,
    "Bits": bits,
    **dict.fromkeys(SHAPES, shape),
    "array": array,
    "map": pairs,
    "struct": record,
}
