"""Read data of one Avro schema as another has them (Avro 1.12, "Schema resolution").

The writer's schema says what the bytes are, the reader's what the columns are. Where the two do
not fit, the values that meet it are refused, and no others. In a union a value is of the type of
the same full name, then of the only one of the same name without a namespace, then of the first
to which the writer's type can be promoted, as Java's library has it. A record of another name is
never taken for one, whatever its fields are.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn

from logwright.decode.avro_names import (
    RECORDS,
    Shape,
    aliases_of,
    branch_names,
    fits_by_name,
    is_choice,
    is_named,
    name_of,
    normal,
)
from logwright.decode.avro_read import (
    Read,
    array_of,
    boolean,
    bytes_of,
    choice_of,
    converted,
    double,
    enum_of,
    fixed_of,
    float_,
    int_,
    long,
    map_of,
    null,
    record_of,
    string,
)
from logwright.decode.avro_schema import AvroSchema, Meaning, column_of
from logwright.decode.cells import Cells
from logwright.decode.refusal import Refused
from logwright.units import INT64_MAX

_READS: Final[Mapping[str, Read]] = MappingProxyType(
    {
        "null": null,
        "boolean": boolean,
        "int": int_,
        "long": long,
        "float": float_,
        "double": double,
        "bytes": bytes_of,
        "string": string,
    }
)
_PROMOTED: Final[Mapping[tuple[str, str], Read]] = MappingProxyType(
    {
        ("int", "long"): int_,
        **{("int", kind): converted(int_, float) for kind in ("float", "double")},
        **{("long", kind): converted(long, float) for kind in ("float", "double")},
        ("float", "double"): float_,
        ("string", "bytes"): converted(string, str.encode),
        ("bytes", "string"): string,
    }
)
"""(type of the writer, of the reader) → what reads a value."""


def reading(writer: AvroSchema, reader: AvroSchema, cells: Cells) -> Read:
    """Return what reads data of a writer's schema for the column of a reader's.

    Args:
        writer: of the data.
        reader: of the column.
        cells: counts while data are read.
    """
    return _Pair(writer.named, reader.named, cells).read(writer.shape, reader.shape, "")


class _Pair:
    """Two schemas: their named types, by full names."""

    def __init__(self, writer: Mapping[str, Any], reader: Mapping[str, Any], cells: Cells) -> None:
        self._writer = writer
        self._reader = reader
        self._cells = cells

    def read(self, writer: Any, reader: Any, path: str) -> Read:
        """Return what reads a value of a type of the writer as one of the reader."""
        written, wanted = normal(writer, self._writer), normal(reader, self._reader)
        if isinstance(written, list):
            return choice_of([self._branch(each, wanted, path) for each in written])
        if isinstance(wanted, list):
            (name, read) = self._branch(written, wanted, path)
            return read if name is None else converted(read, lambda value: {name: value})
        return self._single(written, wanted, path)

    def _branch(self, writer: Any, wanted: Shape, path: str) -> tuple[str | None, Read]:
        """Return what reads a value of a type, and the name of its field if it has one."""
        if not isinstance(wanted, list):
            return None, self.read(writer, wanted, path)
        written = normal(writer, self._writer)
        shapes = [normal(each, self._reader) for each in wanted]
        index = _match(written, shapes)
        if index is None:
            return None, _refusing(path)
        shape = shapes[index]
        tagged = is_choice(shapes) and name_of(shape) != "null"
        return branch_names(shapes)[index] if tagged else None, self.read(written, shape, path)

    def _single(self, written: dict[str, Any], wanted: dict[str, Any], path: str) -> Read:
        """Return what reads a value of a type that is not a union."""
        (kind, other) = (written["type"], wanted["type"])
        if kind in RECORDS and other in RECORDS:
            return self._record(written, wanted, path)
        if kind != other:
            promoted = _PROMOTED.get((kind, other), _refusing(path))
            return _united(promoted, written, wanted, path)
        if kind in {"array", "map"}:
            return self._repeated(written, wanted, path)
        if is_named(wanted) and not fits_by_name(written, wanted):
            return _refusing(path)
        if kind == "enum":
            return enum_of(_symbols(written["symbols"], wanted, path))
        read = _READS.get(kind, _refusing(path))
        if kind == "fixed" and written["size"] == wanted["size"]:
            read = fixed_of(written["size"])
        return _united(read, written, wanted, path)

    def _repeated(self, written: dict[str, Any], wanted: dict[str, Any], path: str) -> Read:
        if written["type"] == "array":
            items = self.read(written["items"], wanted["items"], f"{path}[]")
            return array_of(items, self._cells)
        values = self.read(written["values"], wanted["values"], f"{path}.value")
        return map_of(values, self._cells)

    def _record(self, written: dict[str, Any], wanted: dict[str, Any], path: str) -> Read:
        """Return what reads a record: of fields that the reader does not have nothing is kept,
        those that the writer does not have get their defaults with the column.
        """
        if not fits_by_name(written, wanted) or _meaning(written) != _meaning(wanted):
            return _refusing(path)
        targets = _targets(written, wanted)
        fields: list[tuple[str | None, Read]] = []
        for field in written["fields"]:
            target = targets.get(field["name"])
            if target is None:
                pair = _Pair(self._writer, self._writer, self._cells)
                fields.append((None, pair.read(field["type"], field["type"], path)))
                continue
            inner = f"{path}.{target['name']}" if path else target["name"]
            fields.append((target["name"], self.read(field["type"], target["type"], inner)))
        present = {target["name"] for target in targets.values()}
        for field in wanted["fields"]:
            if field["name"] not in present and "default" not in field:
                return _without(f"{path}.{field['name']}" if path else field["name"])
        return record_of(fields, self._cells)


def _targets(written: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return name of a field of the writer → the reader's field, by its name, then its aliases."""
    names = {field["name"] for field in written["fields"]}
    targets = {field["name"]: field for field in wanted["fields"] if field["name"] in names}
    for field in wanted["fields"]:
        if field["name"] not in names:
            known = [alias for alias in field.get("aliases", ()) if alias in names - set(targets)]
            targets |= dict.fromkeys(known[:1], field)
    return targets


def _match(written: Shape, shapes: list[Shape]) -> int | None:
    """Return the place of the type of a union that a type of the writer is read as."""
    (kind, name) = (_kind(written), name_of(written))
    same = [index for index, shape in enumerate(shapes) if _kind(shape) == kind]
    if not is_named(written):
        numbers = [
            *same,
            *(at for at, shape in enumerate(shapes) if (kind, _kind(shape)) in _PROMOTED),
        ]
        return numbers[0] if numbers else None
    exact = [at for at in same if name_of(shapes[at]) == name]
    aliased = [at for at in same if name in aliases_of(shapes[at])]
    similar = [at for at in same if fits_by_name(written, shapes[at])]
    return next((fitting[0] for fitting in (exact, aliased, similar) if len(fitting) == 1), None)


def _kind(shape: Shape) -> str:
    kind = "union" if isinstance(shape, list) else str(shape["type"])
    return "record" if kind in RECORDS else kind


def _meaning(schema: dict[str, Any]) -> Meaning | None:
    return column_of(schema)[1]


def _united(read: Read, written: dict[str, Any], wanted: dict[str, Any], path: str) -> Read:
    """Return what reads a value with the writer's unit as one of the reader's."""
    (theirs, ours) = (_meaning(written), _meaning(wanted))
    if theirs == ours:
        return read
    if theirs is None or ours is None:
        known = theirs or ours
        as_stored = known is not None and known.family == "time"  # the column has no unit either
        return read if as_stored else _refusing(path)
    if theirs.family != ours.family or not theirs.unit:
        return _refusing(path)
    (more, less) = (theirs.unit, ours.unit)

    def scaled(value: int) -> int:
        (whole, rest) = divmod(value * more, less)
        if rest or not -INT64_MAX - 1 <= whole <= INT64_MAX:
            raise Refused(f"has a time in field {path} that does not fit the unit of the columns")
        return whole

    return converted(read, scaled)


def _symbols(symbols: list[str], wanted: Mapping[str, Any], path: str) -> list[str | Read]:
    """Return what the writer's symbols are for the reader: the same, its default, or refused."""
    known = set(wanted["symbols"])
    default = wanted.get("default")
    other: str | Read = _refusing(path)
    if isinstance(default, str) and default in known:
        other = default
    return [symbol if symbol in known else other for symbol in symbols]


def _refusing(path: str) -> Read:
    """Return what refuses a value that does not fit the type of a field."""
    field = f"whose field {path} does not fit" if path else "that does not fit"
    return _raising(f"has a schema {field} the columns")


def _without(path: str) -> Read:
    """Return what refuses a record without a field that has no default."""
    return _raising(f"has a schema without field {path}, which has no default")


def _raising(reason: str) -> Read:
    def read(_content: bytes, _position: int) -> NoReturn:
        raise Refused(reason)

    return read
