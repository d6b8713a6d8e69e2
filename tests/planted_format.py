"""A format of values that the product does not have, as a new one is added: `REVERSED` text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pyarrow as pa

from logwright.config.spec import FORMATS, Spec, decoded_by
from logwright.decode.make import Made, Making
from logwright.decode.model import Part

REVERSED = "reversed"


class ReversedSpec(Spec):
    """Text whose letters are in reverse.

    Attributes:
        most: the longest text.
    """

    use = "value"
    format: Literal["reversed"] = "reversed"
    most: int = 10


class ReversedDecoder:
    """Decodes texts."""

    type = pa.string()

    def __init__(self, most: int) -> None:
        self._most = most

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""
        texts = [None if value is None else value.decode()[::-1] for value in column.to_pylist()]
        long = [row for row, text in enumerate(texts) if text and len(text) > self._most]
        values = [None if row in long else text for row, text in enumerate(texts)]
        return Part(pa.array(values, pa.string()), dict.fromkeys(long, "is too long"))


def make(spec: ReversedSpec, making: Making) -> Made:
    """The decoder of a spec."""
    assert making.part == "value"
    return Made(ReversedDecoder(spec.most), spec)


@contextmanager
def planted() -> Iterator[type[ReversedSpec]]:
    """Have the format: this module, and its one registration."""
    decoded_by(__name__)(ReversedSpec)
    try:
        yield ReversedSpec
    finally:
        del FORMATS[REVERSED]
