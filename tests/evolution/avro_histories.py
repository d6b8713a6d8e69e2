"""Histories of schemas of Avro."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.evolution.avro_changes import changed
from tests.evolution.avro_official import encoded
from tests.evolution.avro_types import Draw
from tests.evolution.history import Sent, Version, framed


class AvroSubject:
    """The versions of a subject.

    Args:
        draw: of everything.
        first: the first id; the others are after it.
        count: of versions.
        mode: the registry's.
    """

    def __init__(self, draw: Draw, first: int, count: int, mode: str) -> None:
        self._draw = draw
        self._schemas: dict[int, Any] = {}
        schema = _first(draw)
        versions = [self._version(first, schema, ())]
        for number in range(first + 1, first + count):
            if mode == "NONE" and draw.chance(0.1):
                schema, changes = draw.record(), ("another type",)
            else:
                schema, changes = changed(schema, draw, mode)
            versions.append(self._version(number, schema, changes))
        self.versions = tuple(versions)
        self.more: dict[str, str] = {}

    def _version(self, number: int, schema: Any, changes: tuple[str, ...]) -> Version:
        self._schemas[number] = copy.deepcopy(schema)
        return Version(number, f"{number}.avsc", json.dumps(schema), changes)

    def sent(self, number: int) -> Sent:
        """A random datum of a version."""
        schema = self._schemas[number]
        datum = self._draw.value(schema)
        return Sent(number, framed(number, encoded(schema, datum)), datum)


def _first(draw: Draw) -> Any:
    kind = draw.random.random()
    if kind < 0.9:
        return draw.record()
    if kind < 0.96:
        return [draw.record(), draw.record()]
    return draw.random.choice(["string", "long", {"type": "array", "items": "int"}])
