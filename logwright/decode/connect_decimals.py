"""Decimals as Kafka Connect has them: the unscaled number in bytes, or a number of JSON."""

from __future__ import annotations

import base64
import binascii
from decimal import Decimal
from typing import Any, Final

from logwright.decode.refusal import Refused

LARGEST_SCALE: Final = 20_000
"""Digits after or before the point; PostgreSQL has 16,383 at most."""

_MOST_BYTES: Final = 1700
"""Of an unscaled number: Python writes at most 4,300 digits."""

_TOO_MANY: Final = "is a decimal of too many digits"
_NOT_ONE: Final = "is not a decimal"


def scale_of(parameter: object) -> int | None:
    """Return a scale or precision, of a schema's number or text; None if it is none."""
    try:
        scale = int(parameter) if isinstance(parameter, int | str) else None
    except ValueError:
        return None
    return scale if scale is not None and abs(scale) <= LARGEST_SCALE else None


def decimal(stored: Any, scale: int) -> Decimal:
    """Return a decimal without rounding.

    Args:
        stored: bytes, or their base64: the unscaled number, big end first; or the number itself.
        scale: digits after the point, of an unscaled number.

    Raises:
        Refused: it is none of these, or has too many digits.
    """
    if type(stored) in {int, float, Decimal}:
        number = stored if type(stored) is Decimal else Decimal(repr(stored))
        if not number.is_finite() or abs(number.adjusted()) > LARGEST_SCALE:
            raise Refused(_NOT_ONE)
        return number
    content = _bytes(stored)
    if len(content) > _MOST_BYTES:
        raise Refused(_TOO_MANY)
    return of_unscaled(content, scale)


def of_unscaled(content: bytes, scale: int) -> Decimal:
    """Return the decimal of an unscaled number, big end first, with its sign."""
    number = int.from_bytes(content, "big", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return Decimal((int(number < 0), digits, -scale))


def variable(stored: Any) -> Decimal:
    """Return the decimal of Debezium's record with its own scale.

    Raises:
        Refused: it is not one.
    """
    if type(stored) is not dict:
        raise Refused("is not an object")
    scale = stored.get("scale")
    if type(scale) is not int or abs(scale) > LARGEST_SCALE:
        raise Refused(_NOT_ONE)
    return decimal(_bytes(stored.get("value")), scale)


def shown(number: Decimal) -> str:
    """Return all digits of a decimal, without an exponent."""
    return f"{number:f}"


def _bytes(stored: Any) -> bytes:
    if type(stored) is bytes:
        return stored
    try:
        if type(stored) is str:
            return base64.b64decode(stored, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise Refused("is not a decimal in base64")
