"""Data in Avro's binary encoding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from logwright.config.decoding import AvroSpec
from logwright.decode.avro_read import read_datum
from logwright.decode.avro_resolve import reading
from logwright.decode.avro_schema import AvroSchema, parse_avro
from logwright.decode.cells import Cells
from logwright.decode.columns import Node, build, is_empty
from logwright.decode.json_fields import UnusableSchema
from logwright.decode.make import Made, Making
from logwright.decode.model import MAX_VALUE_BYTES, TOO_LARGE, Part
from logwright.decode.refusal import Refused


def make(spec: AvroSpec, making: Making) -> Made:
    """Return the decoder of a spec. Effects, errors: as `Making.of_file`."""

    def decoder(_place: Path, content: bytes) -> AvroDecoder:
        return AvroDecoder(parse_avro(content))

    return Made(making.of_file(spec.schema_file, decoder), spec)


class AvroDecoder:
    """Decodes data of one schema.

    Args:
        schema: of the data.
        columns: the schema whose columns they get; None: the same.

    Raises:
        UnusableSchema: there are no columns.
    """

    def __init__(self, schema: AvroSchema, columns: AvroSchema | None = None) -> None:
        reader = schema if columns is None else columns
        if is_empty(reader.node):
            raise UnusableSchema("has no fields that can be columns")
        self._cells = Cells()
        self._read = reading(schema, reader, self._cells)
        self.node: Node = reader.node

    @property
    def type(self) -> pa.DataType:
        """The type of the decoded values."""
        return self.node.type

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""
        return self.decode_values(column.to_pylist())

    def decode_values(self, values: list[Any]) -> Part:
        """Decode values; the list is used for what they are parsed to."""
        reasons: dict[int, str] = {}
        present = set()
        read = self._read
        for row, content in enumerate(values):
            if content is None:
                continue
            try:
                if len(content) > MAX_VALUE_BYTES:
                    raise Refused(TOO_LARGE)
                self._cells.start()
                values[row] = read_datum(read, content)
                present.add(row)
            except Refused as refused:
                values[row] = None
                reasons[row] = refused.reason
        return Part(build(self.node, values, reasons), reasons)
