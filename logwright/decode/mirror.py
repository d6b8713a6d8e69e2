"""The records of MirrorMaker's own topics.

Numbers are big end first, a string has its length as int16 before it. Values of checkpoints and
heartbeats begin with a version, int16, of which only 0 is known. Source: OffsetSync, Checkpoint and
Heartbeat of org.apache.kafka.connect.mirror (4.3.0), and their topics' names by
DefaultReplicationPolicy, whose separator is a setting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from logwright.config.decoding import MirrorSpec
from logwright.decode.leaves import FIRST_MS, LAST_MS, NOT_IN_YEARS
from logwright.decode.make import Made, Making
from logwright.decode.model import TIMESTAMP, Part
from logwright.decode.refusal import Refused
from logwright.errors import PolicyError

_MICROSECONDS: Final = 1000
_VERSION: Final = "version"
_TIME: Final = "time"
_WIDTHS: Final[Mapping[str, int]] = MappingProxyType({"int16": 2, "int32": 4, "int64": 8, _TIME: 8})
_TYPES: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    {"string": pa.string(), "int32": pa.int32(), "int64": pa.int64(), _TIME: TIMESTAMP}
)
_LENGTH: Final = 2

Fields = tuple[tuple[str, str], ...]
"""Name and type of each field, in order."""

_TOPICS: Final[tuple[tuple[re.Pattern[str], Fields, Fields], ...]] = (
    (
        re.compile(r"mm2-offset-syncs.+internal"),
        (("topic", "string"), ("partition", "int32")),
        (("upstream_offset", "int64"), ("downstream_offset", "int64")),
    ),
    (
        re.compile(r".+checkpoints.internal"),
        (("group_id", "string"), ("topic", "string"), ("partition", "int32")),
        (
            (_VERSION, "int16"),
            ("upstream_offset", "int64"),
            ("downstream_offset", "int64"),
            ("metadata", "string"),
        ),
    ),
    (
        re.compile(r"(?:.+\W)?heartbeats"),
        (("source_cluster", "string"), ("target_cluster", "string")),
        ((_VERSION, "int16"), ("heartbeat_time", _TIME)),
    ),
)
"""Topics, by their names, with the fields of keys and values."""


def make(spec: MirrorSpec, making: Making) -> Made:
    """Return the decoder of keys or values.

    Raises:
        PolicyError: the topic is not one of MirrorMaker's, or not known.
    """
    topic = making.topic()
    for pattern, key, value in _TOPICS:
        if topic is not None and pattern.fullmatch(topic):
            return Made(MirrorDecoder(key if making.part == "key" else value), spec)
    raise PolicyError(
        "The format mirror-maker is for mm2-offset-syncs.*.internal, *.checkpoints.internal and"
        f" heartbeats, not for {topic or 'a topic without a name'}."
    )


class MirrorDecoder:
    """Decodes keys or values to a struct of their fields.

    Args:
        fields: as they are in the bytes; a version is not a column.
    """

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        shown = [(name, _TYPES[kind]) for name, kind in fields if name != _VERSION]
        self.type = pa.struct(shown)

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""
        reasons: dict[int, str] = {}
        rows: list[dict[str, Any] | None] = []
        for row, content in enumerate(column.to_pylist()):
            read = None
            if content is not None:
                try:
                    read = self._read(content)
                except Refused as refused:
                    reasons[row] = refused.reason
            rows.append(read)
        return Part(pa.array(rows, self.type), reasons)

    def _read(self, content: bytes) -> dict[str, Any]:
        """Return the fields of one key or value.

        Raises:
            Refused: it does not have this form.
        """
        values: dict[str, Any] = {}
        position = 0
        for name, kind in self._fields:
            width = _WIDTHS.get(kind, _LENGTH)
            number = int.from_bytes(_taken(content, position, width, name), signed=True)
            position += width
            if kind == "string":
                values[name] = _text(_taken(content, position, number, name), name)
                position += number
            else:
                values[name] = number if kind != _TIME else _time(number, name)
        if values.pop(_VERSION, 0) != 0:
            raise Refused("has an unknown version")
        if position != len(content):
            raise Refused("has bytes after its end")
        return values


def _taken(content: bytes, position: int, length: int, name: str) -> bytes:
    taken = content[position : position + max(length, 0)]
    if len(taken) != length:
        raise Refused(f"field {name} has another length than bytes are left")
    return taken


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Refused(f"field {name} is not UTF-8") from None


def _time(milliseconds: int, name: str) -> int:
    if not FIRST_MS <= milliseconds <= LAST_MS:
        raise Refused(f"field {name} {NOT_IN_YEARS}")
    return milliseconds * _MICROSECONDS
