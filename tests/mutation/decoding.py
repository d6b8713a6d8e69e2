"""Deliberate faults in the decoding of keys and values."""

from __future__ import annotations

from tests.mutation.fault import Fault

_AVRO = ("tests/unit/decode/test_avro.py",)
_REGISTRY = ("tests/unit/decode/test_registry.py",)
_INTERNAL = ("tests/unit/decode/test_internal.py",)
_DEBEZIUM = ("tests/unit/decode/test_debezium.py",)

DECODING = (
    Fault(
        family="decode: bytes after a datum of Avro",
        file="decode/avro_read.py",
        right="    if position != len(content):\n",
        wrong="    if position > len(content):\n",
        tests=_AVRO,
    ),
    Fault(
        family="decode: the index of a union below zero",
        file="decode/avro_read.py",
        right='            raise Refused("is not Avro: the index of a union is out of range")\n',
        wrong="            pass\n",
        tests=_AVRO,
    ),
    Fault(
        family="decode: an item's row",
        file="decode/columns.py",
        right="chosen if self.rows is None else self.rows[chosen]",
        wrong="chosen",
        tests=("tests/unit/decode/test_json.py", "tests/property/test_decoded_mutants.py"),
    ),
    Fault(
        family="decode: a missing field of an older schema",
        file="decode/conform.py",
        right="        elif child.default is not MISSING:\n",
        wrong="        elif child.default is MISSING:\n",
        tests=_REGISTRY,
    ),
    Fault(
        family="decode: the order of records of two schemas",
        file="decode/registry.py",
        right="            position += len(rows)\n",
        wrong="            position += 1\n",
        tests=_REGISTRY,
    ),
    Fault(
        family="decode: unknown schemas are asked for again",
        file="decode/registry.py",
        right="        self._schemas[schema_id] = schema\n",
        wrong="        self._schemas[-1 if isinstance(schema, str) else schema_id] = schema\n",
        tests=_REGISTRY,
    ),
    Fault(
        family="decode: a redirection of a registry is followed",
        file="decode/schema_sources.py",
        right="allow_redirects=False",
        wrong="allow_redirects=True",
        tests=_REGISTRY,
    ),
    Fault(
        family="decode: an operation d keeps its row",
        file="decode/debezium.py",
        right="mask=gone",
        wrong="mask=gone & False",
        tests=_DEBEZIUM,
    ),
    Fault(
        family="decode: a value that the source left out is taken for one",
        file="decode/debezium.py",
        right="fields, unavailable = without_placeholders(kept, self._placeholder)",
        wrong="fields, unavailable = kept.flatten(), {}",
        tests=_DEBEZIUM,
    ),
    Fault(
        family="decode: a truncation is left out",
        file="decode/debezium.py",
        right="reasons.update(dict.fromkeys(truncations, _STAYS))",
        wrong="reasons.update({})",
        tests=_DEBEZIUM,
    ),
    Fault(
        family="decode: a null struct among tagged fields",
        file="format/messages.py",
        right='self.number("int8") < 0 if field.tag is None else self.varint() == 0',
        wrong='self.number("int8") < 0',
        tests=("tests/differential/test_internal_records.py",),
    ),
    Fault(
        family="decode: bytes after a message of an internal topic",
        file="format/messages.py",
        right="    if reader.left:\n",
        wrong="    if reader.left < 0:\n",
        tests=_INTERNAL,
    ),
    Fault(
        family="decode: the number of a chunk's rows",
        file="decode/rows.py",
        right="{start + row: why for row, why in part.reasons.items()}",
        wrong="{row: why for row, why in part.reasons.items()}",
        tests=("tests/unit/decode/test_scalars.py",),
    ),
    Fault(
        family="decode: a path that leads out by a link",
        file="config/spec.py",
        right="    if not resolved.is_relative_to(base.resolve()):\n",
        wrong="    if not resolved.is_absolute():\n",
        tests=("tests/unit/config/test_decoding.py",),
    ),
)
