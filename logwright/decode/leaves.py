"""The single values of columns: which Python values fit into which type."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import struct
import uuid
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import orjson
import pyarrow as pa

from logwright.decode.columns import Leaf
from logwright.decode.model import TIMESTAMP
from logwright.decode.refusal import Refused
from logwright.units import INT32_MAX, INT64_MAX

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECONDS: Final = 1000
FIRST_MS: Final = -62_135_596_800_000
LAST_MS: Final = 253_402_300_799_999
"""The years 1 to 9999, in milliseconds since the epoch."""

NOT_IN_YEARS: Final = "is not a time of the years 1 to 9999"
_LONGEST_DECIMAL: Final = 100
_DATE_CHARACTERS: Final = 10


def integer(bits: int) -> Callable[[Any], int]:
    """Return a conversion to a whole number of 32 or 64 bits."""
    largest = INT32_MAX if bits == 32 else INT64_MAX  # noqa: PLR2004 - bits
    name = "an int" if bits == 32 else "a long"  # noqa: PLR2004 - bits

    def convert(value: Any) -> int:
        if type(value) is not int:
            raise Refused(f"is not {name}")
        if not -largest - 1 <= value <= largest:
            raise Refused(f"is out of the range of {name}")
        return value

    return convert


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise Refused("is not a boolean")
    return value


def double(value: Any) -> float:
    """Return a number as a double."""
    if type(value) not in {int, float, Decimal}:
        raise Refused("is not a number")
    try:
        return float(value)
    except OverflowError:
        raise Refused("is out of the range of a double") from None


def single(value: Any) -> float:
    """Return a number that a float can have."""
    number = double(value)
    try:
        struct.pack("<f", number)
    except OverflowError:
        raise Refused("is out of the range of a float") from None
    return number


def string(value: Any) -> str:
    """Return a text of Unicode."""
    if type(value) is not str:
        raise Refused("is not a string")
    if not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value):
        raise Refused("is not Unicode")
    return value


def _bytes(value: Any) -> bytes:
    if type(value) is not bytes:
        raise Refused("is not of bytes")
    return value


def _base64(value: Any) -> bytes:
    try:
        return base64.b64decode(string(value), validate=True)
    except (binascii.Error, ValueError):
        raise Refused("is not base64") from None


def _date(value: Any) -> dt.date:
    text = string(value)
    try:
        if len(text) == _DATE_CHARACTERS:
            return dt.date.fromisoformat(text)
    except ValueError:
        pass
    raise Refused("is not a date (YYYY-MM-DD)")


def in_years(microseconds: int) -> int:
    """Return a time since the epoch that is within the years 1 to 9999: others are unknown to
    Python and to most tables.

    Raises:
        Refused: it is not.
    """
    if not FIRST_MS * _MICROSECONDS <= microseconds <= LAST_MS * _MICROSECONDS:
        raise Refused(NOT_IN_YEARS)
    return microseconds


def _timestamp(value: Any) -> int:
    """Return microseconds since the epoch, of ISO 8601 with a zone or of milliseconds."""
    if type(value) is int:
        return in_years(value * _MICROSECONDS)
    try:
        time = dt.datetime.fromisoformat(string(value))
        if time.tzinfo is not None:
            return in_years((time - _EPOCH) // dt.timedelta(microseconds=1))
    except (ValueError, OverflowError):
        pass
    raise Refused("is not a timestamp (ISO 8601 with a zone, or milliseconds)")


def _text_timestamp(value: Any) -> int:
    """Return microseconds since the epoch, of ISO 8601 with a zone."""
    if type(value) is int:
        raise Refused("is a number whose unit is not known: its record has no schema")
    return _timestamp(value)


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value, default=float).decode()
    except orjson.JSONEncodeError:  # it does not write all depths that it reads
        raise Refused("is nested too deep") from None


def uuid_text(value: Any) -> str:
    """Return a UUID's text in lower case."""
    text = string(value)
    try:
        identifier = str(uuid.UUID(text))
    except ValueError:
        raise Refused("is not a UUID") from None
    if identifier != text.lower():
        raise Refused("is not a UUID")
    return identifier


def decimal_of(precision: int, scale: int) -> Callable[[Any], Decimal]:
    """Return a conversion of numbers and their text to a decimal, without rounding."""

    def convert(value: Any) -> Decimal:
        if type(value) not in {int, float, str, Decimal}:
            raise Refused("is not a decimal")
        text = str(value)
        try:
            number = Decimal(text) if len(text) <= _LONGEST_DECIMAL else None
        except InvalidOperation:
            number = None
        if number is None or not number.is_finite():
            raise Refused("is not a decimal")
        return fitting(number, precision, scale)

    return convert


def fitting(number: Decimal, precision: int, scale: int) -> Decimal:
    """Return a finite decimal with exactly this scale.

    Raises:
        Refused: it has more digits.
    """
    (sign, digits, exponent) = number.as_tuple()
    shift = scale + int(exponent)
    if not number:
        return Decimal((0, (0,), -scale))
    if shift + len(digits) <= precision and not any(digits[shift:] if shift < 0 else ()):
        kept = digits[:shift] if shift < 0 else digits + (0,) * shift
        return Decimal((sign, kept, -scale))
    raise Refused(f"does not fit into decimal({precision},{scale})")


BOOLEAN: Final = Leaf(type=pa.bool_(), accepts=frozenset({bool}), convert=_boolean)
INT: Final = Leaf(type=pa.int32(), accepts=frozenset({int}), convert=integer(32))
LONG: Final = Leaf(type=pa.int64(), accepts=frozenset({int}), convert=integer(64))
FLOAT: Final = Leaf(type=pa.float32(), accepts=frozenset(), convert=single)
DOUBLE: Final = Leaf(type=pa.float64(), accepts=frozenset({int, float}), convert=double)
STRING: Final = Leaf(type=pa.string(), accepts=frozenset({str}), convert=string)
BINARY: Final = Leaf(type=pa.binary(), accepts=frozenset({bytes}), convert=_bytes)
JSON: Final = Leaf(type=pa.string(), accepts=frozenset(), convert=_json)
BASE64: Final = Leaf(type=pa.binary(), accepts=frozenset(), convert=_base64)
DATE: Final = Leaf(type=pa.date32(), accepts=frozenset(), convert=_date)
ISO_TIMESTAMP: Final = Leaf(
    type=TIMESTAMP, storage=pa.int64(), accepts=frozenset(), convert=_timestamp
)
TEXT_TIMESTAMP: Final = replace(ISO_TIMESTAMP, convert=_text_timestamp)
UUID: Final = Leaf(type=pa.string(), accepts=frozenset(), convert=uuid_text)
