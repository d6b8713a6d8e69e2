"""Deliberate faults in the decoding of keys and values."""

from __future__ import annotations

from tests.mutation.fault import Fault

_AVRO = ("tests/unit/decode/test_avro.py",)
_REGISTRY = ("tests/unit/decode/test_registry.py",)
_RESOLUTION = ("tests/unit/decode/test_avro_resolution.py",)
_NUMBERS = ("tests/unit/decode/test_protobuf_numbers.py",)
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
        file="decode/avro_resolve.py",
        right='if field["name"] not in present and "default" not in field:',
        wrong='if False and field["name"] not in present:',
        tests=_RESOLUTION,
    ),
    Fault(
        family="decode: a field is known by its alias",
        file="decode/avro_resolve.py",
        right='field.get("aliases", ())',
        wrong='field.get("alias", ())',
        tests=_RESOLUTION,
    ),
    Fault(
        family="decode: the type of a union by its name without namespace",
        file="decode/avro_resolve.py",
        right="for fitting in (exact, aliased, similar)",
        wrong="for fitting in (similar,)",
        tests=_RESOLUTION,
    ),
    Fault(
        family="decode: a time of another unit",
        file="decode/avro_resolve.py",
        right="divmod(value * more, less)",
        wrong="divmod(value, 1)",
        tests=_RESOLUTION,
    ),
    Fault(
        family="decode: what a parser of Protobuf loses",
        file="decode/protobuf_resolve.py",
        right="        if written.type != columns.type:\n            return _equal\n",
        wrong="",
        tests=_NUMBERS,
    ),
    Fault(
        family="decode: fields of which only one can be set",
        file="decode/protobuf_resolve.py",
        right="    return is_repeated(field), others\n",
        wrong="    return is_repeated(field), frozenset()\n",
        tests=_NUMBERS,
    ),
    Fault(
        family="decode: an object that has none of the fields",
        file="decode/json_values.py",
        right="is_object and value and names.isdisjoint(value)",
        wrong="is_object and value and False",
        tests=("tests/unit/decode/test_json_schema.py",),
    ),
    Fault(
        family="decode: another JSON Schema by its title",
        file="decode/registry.py",
        right="return None in {self.name, written.name} or self.name == written.name",
        wrong="return True",
        tests=("tests/unit/tables/test_rows_as_written.py",),
    ),
    Fault(
        family="decode: the unit of a number of another JSON Schema",
        file="decode/json_schema.py",
        right="    if _unit(value) != (",
        wrong="    if False and _unit(value) != (",
        tests=("tests/unit/decode/test_json_schema.py",),
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
        right="                        start + row: why\n",
        wrong="                        row: why\n",
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
