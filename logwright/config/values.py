"""Types that parse Kafka's config values as strictly as Kafka's ConfigDef does (4.3.0).

Pydantic's own types would also accept ``1_000``, ``4.0`` for an int or ``yes`` for a boolean.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from logwright.units import INT32_MAX, INT64_MAX

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")

_MOST_PROBLEMS: Final = 3
_LONGEST_PLACE: Final = 100

CleanupPolicy = Literal["compact", "delete"]
CompressionType = Literal["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]
TimestampType = Literal["CreateTime", "LogAppendTime"]


def _integer(value: object) -> object:
    """Parse a whole number; Kafka strips blanks around numbers."""
    if isinstance(value, bool):
        # Pydantic collects only ValueErrors.
        raise ValueError("not a whole number")  # noqa: TRY004
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value.strip()):
            raise ValueError("not a whole number")
        return int(value)
    return value


def _decimal(value: object) -> object:
    """Parse a finite decimal number."""
    if isinstance(value, str):
        if not _DECIMAL.fullmatch(value.strip()):
            raise ValueError("not a number")
        return float(value)
    return value


def _boolean(value: object) -> object:
    """Parse ``true`` or ``false``, in any case."""
    if isinstance(value, str):
        word = value.strip().lower()
        if word not in {"true", "false"}:
            raise ValueError("not true or false")
        return word == "true"
    return value


def _items(value: object) -> object:
    """Split a comma-separated list like Kafka: strip blanks around items; "" is the empty list."""
    if isinstance(value, str):
        return tuple(item.strip() for item in value.split(",")) if value.strip() else ()
    return value


def _no_duplicates(items: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(items)) != len(items):
        raise ValueError("duplicate item")
    return items


def _known_policies(value: object) -> object:
    items = _items(value)
    if isinstance(items, (tuple, list)):
        for item in items:
            if item == "dedupe":
                raise ValueError("dedupe is an old name, Kafka 4.3 calls it compact")
            if item not in CLEANUP_POLICIES:
                raise ValueError("must be compact, delete, both separated by a comma, or empty")
    return items


CLEANUP_POLICIES: Final = get_args(CleanupPolicy)

Int32 = Annotated[int, BeforeValidator(_integer), Field(ge=-INT32_MAX - 1, le=INT32_MAX)]
"""Kafka's INT."""

Int64 = Annotated[int, BeforeValidator(_integer), Field(ge=-INT64_MAX - 1, le=INT64_MAX)]
"""Kafka's LONG."""

Double = Annotated[float, BeforeValidator(_decimal), Field(allow_inf_nan=False)]
"""Kafka's DOUBLE, finite."""

Boolean = Annotated[bool, BeforeValidator(_boolean)]
"""Kafka's BOOLEAN."""

Text = Annotated[str, Field(max_length=65_536)]
"""Kafka's STRING."""

TextList = Annotated[tuple[str, ...], BeforeValidator(_items), AfterValidator(_no_duplicates)]
"""Kafka's LIST without duplicates (KIP-1161)."""

PolicyList = Annotated[
    tuple[CleanupPolicy, ...], BeforeValidator(_known_policies), AfterValidator(_no_duplicates)
]
"""Values of ``cleanup.policy`` (KIP-71; empty: KIP-1161)."""


def problems(error: ValidationError) -> str:
    """Return where a file is not of its form, and why; none of its values."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{_place(one['loc'])} {one['msg']}".strip() for one in found[:_MOST_PROBLEMS])


def _place(parts: tuple[int | str, ...]) -> str:
    place = ".".join(map(str, parts))[:_LONGEST_PLACE]
    return "".join(one if one.isprintable() else "?" for one in place)
