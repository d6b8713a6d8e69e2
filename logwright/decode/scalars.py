"""Keys and values without fields: what Kafka's own serializers write, whole columns at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logwright.config.decoding import ScalarSpec
from logwright.decode.make import Made, Making
from logwright.decode.model import Part

_UUID_BYTES: Final = 16
_UUID_CHARACTERS: Final = 36
_HYPHENS: Final = (8, 13, 18, 23)
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_UUID_TEXT: Final = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_NUMBERS: Final[Mapping[str, tuple[str, pa.DataType]]] = MappingProxyType(
    {"int": (">i4", pa.int32()), "long": (">i8", pa.int64()), "double": (">f8", pa.float64())}
)


def make(spec: ScalarSpec, making: Making) -> Made:  # noqa: ARG001 - as every decoder's
    """Return the decoder of a spec."""
    return Made(ScalarDecoder(spec.format), spec)


class ScalarDecoder:
    """Decodes one of the formats of `ScalarSpec`."""

    def __init__(self, form: str) -> None:
        self._decode: Callable[[pa.Array], Part]
        if form in _NUMBERS:
            (wire, self.type) = _NUMBERS[form]
            self._decode = lambda column: _numbers(column, form, wire, self.type)
        else:
            self.type = pa.binary() if form == "binary" else pa.string()
            self._decode = {"binary": _binary, "string": _strings, "uuid": _uuids}[form]

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""
        return self._decode(column)


def _binary(column: pa.Array) -> Part:
    return Part(column, {})


def _strings(column: pa.Array) -> Part:
    reasons: dict[int, str] = {}
    try:
        return Part(pc.cast(column, pa.string()), reasons)
    except pa.ArrowInvalid:
        values = column.to_pylist()
    for row, value in enumerate(values):
        try:
            values[row] = None if value is None else value.decode()
        except UnicodeDecodeError:
            values[row] = None
            reasons[row] = "is not UTF-8"
    return Part(pa.array(values, pa.string()), reasons)


def _numbers(column: pa.Array, form: str, wire: str, kind: pa.DataType) -> Part:
    width = kind.bit_width // 8
    fits = _of_length(column, width)
    rows = np.flatnonzero(fits)
    numbers = np.zeros(len(column), np.dtype(wire).newbyteorder("="))
    numbers[rows] = _contents(column, fits).view(wire)
    article = "an" if form == "int" else "a"
    reason = f"is not {article} {form}: not {width} bytes"
    return Part(pa.array(numbers, kind, mask=~fits), _others(column, fits, reason))


def _uuids(column: pa.Array) -> Part:
    binary = _of_length(column, _UUID_BYTES)
    textual = _of_length(column, _UUID_CHARACTERS)
    texts = np.full((len(column), _UUID_CHARACTERS), ord("-"), np.uint8)
    octets = _contents(column, binary).reshape(-1, _UUID_BYTES)
    places = [place for place in range(_UUID_CHARACTERS) if place not in _HYPHENS]
    digits = np.stack([octets >> 4, octets & 15], axis=-1).reshape(len(octets), 2 * _UUID_BYTES)
    texts[np.ix_(np.flatnonzero(binary), np.array(places))] = _HEX[digits]
    texts[textual] = _contents(column, textual).reshape(-1, _UUID_CHARACTERS)
    known = binary | textual
    content = pa.Array.from_buffers(
        pa.binary(_UUID_CHARACTERS), len(column), [None, pa.py_buffer(texts.tobytes())]
    ).cast(pa.binary())
    matches = pc.match_substring_regex(content, _UUID_TEXT).to_numpy(zero_copy_only=False)
    fits = known & matches
    chosen = pc.if_else(pa.array(fits), content, pa.scalar(None, pa.binary()))
    values = pc.ascii_lower(pc.cast(chosen, pa.string()))
    return Part(values, _others(column, fits, "is not a UUID"))


def _of_length(column: pa.Array, length: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which values have this length; not those that are null."""
    equal = pc.fill_null(pc.equal(pc.binary_length(column), length), False)  # noqa: FBT003 - a value
    fits: np.ndarray[Any, np.dtype[np.bool_]] = equal.to_numpy(zero_copy_only=False)
    return fits


def _contents(
    column: pa.Array, chosen: np.ndarray[Any, np.dtype[np.bool_]]
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of the chosen values, one after the other."""
    chosen_rows = column.filter(pa.array(chosen))
    (_, offsets, content) = chosen_rows.buffers()
    if not len(chosen_rows) or content is None:
        return np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)[
        chosen_rows.offset : chosen_rows.offset + len(chosen_rows) + 1
    ]
    return np.frombuffer(content, np.uint8)[ends[0] : ends[-1]].copy()


def _others(
    column: pa.Array, fits: np.ndarray[Any, np.dtype[np.bool_]], reason: str
) -> dict[int, str]:
    """Return the reason for each value that is neither null nor fits."""
    present = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return dict.fromkeys(np.flatnonzero(present & ~fits).tolist(), reason)
