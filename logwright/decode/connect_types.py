"""The logical types of Kafka Connect and of Debezium: what a stored number or text stands for.

A logical type is a name on a plain type: ``io.debezium.time.MicroTimestamp`` on int64 is a number
of microseconds. It decides the unit, so that no number is taken for one of another unit. Source:
the classes of org.apache.kafka.connect.data (4.3.0) and of debezium-core (3.3.1).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import orjson
import pyarrow as pa

from logwright.config.json_fields import LARGEST_PRECISION, decimal_digits
from logwright.decode import leaves
from logwright.decode.columns import Leaf
from logwright.decode.connect_decimals import decimal, scale_of, shown, variable
from logwright.decode.refusal import Refused

Convert = Callable[[Any], Any]

_KAFKA: Final = "org.apache.kafka.connect.data."
_TIME: Final = "io.debezium.time."
_DATA: Final = "io.debezium.data."
_SECOND: Final = 1_000_000_000
_MILLI: Final = 1_000_000
_MICRO: Final = 1000
_NANO: Final = 1
_FRACTION: Final[Mapping[int, int]] = MappingProxyType({_MILLI: 3, _MICRO: 6, _NANO: 9})
"""Nanoseconds of a unit → digits of a second's fraction."""

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_MICROSECONDS: Final = 86_400_000_000
_INSTANT: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2})?)(?:\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2}(?::\d{2})?)",
    re.ASCII,
)
_ISO_DATE: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:Z|[+-]\d{2}:\d{2})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logical:
    """A logical type.

    Attributes:
        base: the plain type that it is stored as, by Connect's name.
        column: the type of its column, as `JsonField` has it.
        value: stored → what a column of this type is built of: microseconds of a timestamp, days
            of a date; raises Refused.
        text: stored → its exact text; raises Refused.
    """

    base: str
    column: str
    value: Convert
    text: Convert


class UnknownUnit(Exception):
    """A logical type is unknown, or on another plain type than its own: its unit is not known."""


def logical_of(
    name: object, base: str, *, scale: object = None, precision: object = None
) -> Logical | None:
    """Return the logical type of a name, None if its values are as the plain type has them.

    Args:
        name: of the schema; None: it has none.
        base: the plain type, by Connect's name: int32, int64, string, bytes, struct.
        scale, precision: parameters of a decimal, as texts or numbers; None: not given.

    Raises:
        UnknownUnit: it is unknown among Connect's and Debezium's units, or on another type.
    """
    if not isinstance(name, str):
        return None
    logical = _decimal(scale, precision) if name == f"{_KAFKA}Decimal" else _TYPES.get(name)
    if logical is None and not name.startswith((_KAFKA, _TIME)):
        return None
    if logical is None or logical.base != base:
        raise UnknownUnit
    return logical


def _days(stored: Any) -> int:
    """Return days since the epoch, of the years 1 to 9999."""
    days = leaves.integer(32)(stored)
    leaves.in_years(days * _DAY_MICROSECONDS)
    return days


def _day(stored: Any) -> str:
    return (_EPOCH + dt.timedelta(days=_days(stored))).date().isoformat()


def _iso_days(stored: Any) -> int:
    """Return days since the epoch, of a date in ISO 8601, with or without a zone."""
    matched = _ISO_DATE.fullmatch(leaves.string(stored))
    try:
        if matched is not None:
            return (dt.date.fromisoformat(matched[1]) - _EPOCH.date()).days
    except ValueError:
        pass
    raise Refused("is not a date of the years 1 to 9999 (ISO 8601)")


def _iso_microseconds(stored: Any) -> int:
    """Return microseconds since the epoch, of a time in ISO 8601 with a zone."""
    matched = _INSTANT.fullmatch(leaves.string(stored))
    try:
        if matched is not None:
            whole = dt.datetime.fromisoformat(matched[1] + matched[3]) - _EPOCH
            fraction = int((matched[2] or "").ljust(9, "0")) // _MICRO
            return leaves.in_years(whole // dt.timedelta(microseconds=1) + fraction)
    except (ValueError, OverflowError):
        pass
    raise Refused("is not a time of the years 1 to 9999 (ISO 8601 with a zone)")


def _timestamp(unit: int, zone: str = "") -> Logical:
    """Return the type of a number of units since the epoch.

    Args:
        unit: in nanoseconds. What is smaller than a microsecond is cut off from the value, not
            from the text.
        zone: after the text; empty if the time has none.
    """

    def value(stored: Any) -> int:
        return leaves.in_years(leaves.integer(64)(stored) * unit // _MICRO)

    def text(stored: Any) -> str:
        value(stored)
        seconds, rest = divmod(stored * unit, _SECOND)
        time = (_EPOCH + dt.timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
        return f"{time}.{rest // unit:0{_FRACTION[unit]}}{zone}"

    return Logical(base="int64", column="timestamp", value=value, text=text)


def _time_of_day(bits: int, unit: int) -> Logical:
    """Return the type of a number of units since midnight. Below zero and above a day it is a
    span, as MySQL's TIME has them.
    """

    def text(stored: Any) -> str:
        count = leaves.integer(bits)(stored)
        seconds, rest = divmod(abs(count) * unit, _SECOND)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{'-' * (count < 0)}{clock}.{rest // unit:0{_FRACTION[unit]}}"

    return Logical(base=f"int{bits}", column="string", value=text, text=text)


def _duration(unit: int) -> Logical:
    """Return the type of a span of a number of units; its text is seconds in ISO 8601."""

    def text(stored: Any) -> str:
        count = leaves.integer(64)(stored)
        seconds, rest = divmod(abs(count) * unit, _SECOND)
        return f"PT{'-' * (count < 0)}{seconds}.{rest // unit:0{_FRACTION[unit]}}S"

    return Logical(base="int64", column="string", value=text, text=text)


def _text(column: str, value: Convert = leaves.string) -> Logical:
    """Return a type of texts."""
    return Logical(base="string", column=column, value=value, text=leaves.string)


def _decimal(scale: object, precision: object) -> Logical:
    """Return Connect's decimal of a scale: the unscaled number in bytes, or a number. With a
    precision that columns of decimals do not have, as MySQL's DECIMAL(65,30), it is a text.

    Raises:
        UnknownUnit: it has no scale.
    """
    digits = scale_of(scale)
    if digits is None:
        raise UnknownUnit
    most = scale_of(precision) or 0
    choices = [f"decimal({size},{digits})" for size in (most, max(most, LARGEST_PRECISION))]
    column = next((one for one in choices if decimal_digits(one) is not None), "string")
    return Logical(
        base="bytes",
        column=column,
        value=lambda stored: decimal(stored, digits),
        text=lambda stored: shown(decimal(stored, digits)),
    )


_TYPES: Final[Mapping[str, Logical]] = MappingProxyType(
    {
        f"{_KAFKA}Date": Logical(base="int32", column="date", value=_days, text=_day),
        f"{_KAFKA}Time": _time_of_day(32, _MILLI),
        f"{_KAFKA}Timestamp": _timestamp(_MILLI, "Z"),
        f"{_TIME}Date": Logical(base="int32", column="date", value=_days, text=_day),
        f"{_TIME}Time": _time_of_day(32, _MILLI),
        f"{_TIME}MicroTime": _time_of_day(64, _MICRO),
        f"{_TIME}NanoTime": _time_of_day(64, _NANO),
        f"{_TIME}Timestamp": _timestamp(_MILLI),
        f"{_TIME}MicroTimestamp": _timestamp(_MICRO),
        f"{_TIME}NanoTimestamp": _timestamp(_NANO),
        f"{_TIME}ZonedTimestamp": _text("timestamp", _iso_microseconds),
        f"{_TIME}ZonedTime": _text("string"),
        f"{_TIME}Year": Logical(base="int32", column="int", value=leaves.integer(32), text=str),
        f"{_TIME}Interval": _text("string"),
        f"{_TIME}MicroDuration": _duration(_MICRO),
        f"{_TIME}NanoDuration": _duration(_NANO),
        f"{_TIME}IsoDate": _text("date", _iso_days),
        f"{_TIME}IsoTime": _text("string"),
        f"{_TIME}IsoTimestamp": _text("timestamp", _iso_microseconds),
        f"{_DATA}Json": _text("json"),
        f"{_DATA}VariableScaleDecimal": Logical(
            base="struct",
            column="string",
            value=variable,
            text=lambda stored: shown(variable(stored)),
        ),
    }
)
"""All other types of Debezium (Enum, EnumSet, Uuid, Xml, Tsvector, Ltree, Bits, geometry, vectors)
are as the plain type that they are stored as: there is nothing to convert.
"""


def leaf_of(logical: Logical, column: str) -> Leaf | None:
    """Return what reads stored values for a column, None if the type is not that of the column.
    Each type can be a text, which is exact; a decimal any decimal that it fits into.

    Args:
        logical: the type of the values.
        column: the type of the column, as `JsonField` has it.
    """
    if column == "string":
        return replace(leaves.STRING, accepts=frozenset(), convert=logical.text)
    if column == "json":
        as_text = logical.column == column
        convert = logical.text if as_text else lambda stored: _quoted(logical.text(stored))
        return replace(leaves.JSON, convert=convert)
    digits = decimal_digits(column)
    if digits is not None and logical.base in {"bytes", "struct"}:
        return Leaf(
            type=pa.decimal128(*digits),
            accepts=frozenset(),
            convert=lambda stored: leaves.fitting(logical.value(stored), *digits),
        )
    if column == logical.column or (logical.column, column) == ("int", "long"):
        return replace(_COLUMNS[column], convert=logical.value)
    return None


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


_COLUMNS: Final[Mapping[str, Leaf]] = MappingProxyType(
    {
        "date": Leaf(type=pa.date32(), storage=pa.int32(), accepts=frozenset(), convert=_days),
        "timestamp": leaves.ISO_TIMESTAMP,
        "int": leaves.INT,
        "long": leaves.LONG,
    }
)
