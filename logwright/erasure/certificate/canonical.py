"""JSON with exactly one form for each value (RFC 8785), so that a signature of bytes is a signature
of the value.

Keys are sorted by UTF-16 code units, there are no blanks, and strings have no escape that is not
needed. Two differences from RFC 8785: numbers are integers of at most 64 bits in full, since
offsets do not fit into a double; there are no fractions, whose form depends on the writer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from logwright.errors import CorruptLogError
from logwright.units import INT64_MAX

Json = Mapping[str, "Json"] | Sequence["Json"] | str | int | bool | None


class CorruptCertificate(CorruptLogError):
    """A certificate is not what was signed, or not a certificate at all."""


def canonical(value: Json) -> bytes:
    """Return the one form of a value, UTF-8 without a line feed at the end.

    Raises:
        ValueError: it has a fraction, a number beyond 64 bits, a text with half of a surrogate
            pair, or a key that is not a text.
    """
    try:
        return _ENCODER.encode(_sorted(value)).encode()
    except UnicodeEncodeError as error:
        raise ValueError("a text has half of a surrogate pair") from error


def parse_canonical(content: bytes) -> Json:
    """Return the value of its one form.

    Raises:
        CorruptCertificate: this is not JSON, or not the one form of its value.
    """
    try:
        value = json.loads(content.decode(), parse_float=_refuse, parse_constant=_refuse)
        again = canonical(value)
    except (ValueError, RecursionError) as error:
        raise CorruptCertificate("is not JSON of the form that certificates have.") from error
    if again != content:
        at = next(
            (
                at
                for at, (byte, other) in enumerate(zip(again, content, strict=False))
                if byte != other
            ),
            min(len(again), len(content)),
        )
        raise CorruptCertificate(
            "is not in canonical form: bytes were changed, added or removed.", position=at
        )
    checked: Json = value
    return checked


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _sorted(value: Json) -> Any:  # noqa: ANN401 -- what json takes
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        if not -INT64_MAX - 1 <= value <= INT64_MAX:
            raise ValueError("a number has more than 64 bits")
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("a key is not a text")
        return {key: _sorted(value[key]) for key in sorted(value, key=_code_units)}
    if isinstance(value, list | tuple):
        return [_sorted(one) for one in value]
    raise ValueError(f"a value is of type {type(value).__name__}")


def _code_units(key: str) -> bytes:
    return key.encode("utf-16-be")


def _refuse(text: str) -> Any:  # noqa: ANN401 -- never returns
    raise ValueError(f"a number of {len(text)} characters is not an integer")
