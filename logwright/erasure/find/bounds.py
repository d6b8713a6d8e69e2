"""The bounds of a column in a manifest of Iceberg, as texts (Iceberg's specification, "Binary
single-value serialization"). Pure.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final
from uuid import UUID

_DECIMAL: Final = re.compile(r"decimal\(\d+, ?(\d+)\)")
_UUID_BYTES: Final = 16
_NUMBERS: Final = {4: ("<i", "<f"), 8: ("<q", "<d")}
_FIRST_DAY: Final = date(1970, 1, 1)
_FIRST_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)


def forms_of_bound(bound: bytes, kind: str) -> Iterator[bytes]:
    """Yield the texts that the value of a bound has; none for bytes and text, which it is itself.

    Args:
        kind: of the column; empty: not known, then whatever numbers it can be.
    """
    if kind in ("string", "binary"):
        return
    if kind == "uuid" and len(bound) == _UUID_BYTES:
        yield str(UUID(bytes=bound)).encode()
        return
    if (match := _DECIMAL.fullmatch(kind)) is not None:
        value = Decimal(int.from_bytes(bound, "big", signed=True)).scaleb(-int(match[1]))
        yield f"{value:f}".encode()
        if value == value.to_integral_value():
            yield str(int(value)).encode()
        return
    for form in _NUMBERS.get(len(bound), ()):
        (number,) = struct.unpack(form, bound)
        yield str(number).encode()
        if isinstance(number, float) and number.is_integer():
            yield str(int(number)).encode()
        elif isinstance(number, int):
            yield from _of_time(number, kind)


def _of_time(number: int, kind: str) -> Iterator[bytes]:
    """Yield the date or time of a number."""
    try:
        if kind == "date":
            yield (_FIRST_DAY + timedelta(days=number)).isoformat().encode()
        elif kind.startswith("timestamp"):
            micros = number // 1000 if "_ns" in kind else number
            time = (_FIRST_TIME + timedelta(microseconds=micros)).replace(tzinfo=None)
            yield time.isoformat().encode()
            yield time.isoformat(" ").encode()
    except OverflowError:
        return
