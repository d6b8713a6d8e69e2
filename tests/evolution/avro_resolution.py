"""Schema resolution of Avro 1.12 ("Schema Resolution"), on a datum instead of its bytes.

fastavro does not say which type of a union a value is of; here a `Choice` does. Both are compared
for each record (`tests.evolution.avro_official`).

Where several types of a reader's union match, Java's library prefers one of the same type and full
name, and the specification the first one. Both are allowed for types without names; for named ones
the full name decides.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tests.evolution.avro_types import NAMED, from_json, full_name, type_of
from tests.evolution.history import Choice, MustRefuse

PROMOTED: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


class Otherwise(NamedTuple):
    """A value whose logical types differ between writer and reader.

    Attributes:
        writer, reader: the schemas.
        value: as the writer's schema has it.
    """

    writer: Any
    reader: Any
    value: Any


@dataclass(slots=True)
class Resolution:
    """Resolves data of a writer's schema to a reader's.

    Attributes:
        exact: prefer a type of a union that needs no promotion, and look at the items of an array
            only when there is one, as Java's library does.
        raw: leave defaults as JSON, as fastavro does, and logical types out.
        seen: what was used, in words.
    """

    exact: bool = True
    raw: bool = False
    seen: set[str] = field(default_factory=set)

    def resolve(self, writer: Any, reader: Any, datum: Any) -> Any:  # noqa: PLR0911 - each type has its own
        """Return the datum by the reader's schema.

        Raises:
            MustRefuse: they do not match.
        """
        if isinstance(writer, list):
            return self.resolve(writer[datum.index], reader, datum.value)
        if isinstance(reader, list):
            index = self._branch(writer, reader)
            return Choice(index, self.resolve(writer, reader[index], datum))
        if not self.matches(writer, reader):
            raise MustRefuse("types do not match")
        kind = type_of(reader)
        if kind == "record":
            return self._record(writer, reader, datum)
        if kind == "array":
            return [self.resolve(writer["items"], reader["items"], each) for each in datum]
        if kind == "map":
            inner = writer["values"], reader["values"]
            return {name: self.resolve(*inner, each) for name, each in datum.items()}
        if kind == "enum":
            return self._symbol(reader, datum)
        value = self._single(type_of(writer), kind, datum)
        if self.raw or _meaning(writer) == _meaning(reader):
            return value
        self.seen.add("logical types differ")
        return Otherwise(writer, reader, value)

    def matches(self, writer: Any, reader: Any) -> bool:
        """Whether a type of a reader's union is for a writer's type."""
        if isinstance(writer, list) or isinstance(reader, list):
            return True
        of_writer, of_reader = type_of(writer), type_of(reader)
        if of_writer != of_reader:
            return (of_writer, of_reader) in PROMOTED
        if of_writer == "array":
            return self.exact or self.matches(writer["items"], reader["items"])
        if of_writer == "map":
            return self.exact or self.matches(writer["values"], reader["values"])
        if of_writer in NAMED:
            sizes = of_writer != "fixed" or writer["size"] == reader["size"]
            names = {reader["name"], *reader.get("aliases", ())}
            return sizes and writer["name"] in names
        return True

    def _branch(self, writer: Any, reader: list[Any]) -> int:
        matching = [index for index, each in enumerate(reader) if self.matches(writer, each)]
        if not matching:
            raise MustRefuse("not a type of the union")
        kind = type_of(writer)
        for index in matching:
            if kind in NAMED and full_name(writer) in _full_names(reader[index]):
                return index
        if kind in NAMED and len(matching) > 1:
            self.seen.add("several types of a union have the name")
        same = [index for index in matching if type_of(reader[index]) == kind]
        if same and same[0] != matching[0]:
            self.seen.add("several types of a union match")
        return same[0] if same and self.exact else matching[0]

    def _record(self, writer: Any, reader: Any, datum: Any) -> dict[str, Any]:
        written = {each["name"]: each for each in writer["fields"]}
        names = {each["name"] for each in reader["fields"]}
        record = {}
        for each in reader["fields"]:
            sources = [each["name"], *(old for old in each.get("aliases", ()) if old not in names)]
            name = next((source for source in sources if source in written), None)
            if name is not None:
                if name != each["name"]:
                    self.seen.add("alias of a field")
                record[each["name"]] = self.resolve(
                    written[name]["type"], each["type"], datum[name]
                )
            elif "default" in each:
                self.seen.add("default")
                default = each["default"]
                record[each["name"]] = default if self.raw else from_json(each["type"], default)
            else:
                raise MustRefuse("a field without default is missing")
        return record

    def _symbol(self, reader: Any, symbol: str) -> str:
        if symbol in reader["symbols"]:
            return symbol
        if "default" in reader:
            self.seen.add("default of an enum")
            return str(reader["default"])
        raise MustRefuse("unknown symbol")

    def _single(self, writer: str, reader: str, value: Any) -> Any:
        if writer == reader:
            return value
        self.seen.add("promotion")
        if reader in {"float", "double"}:
            return float(value)
        if reader == "bytes":
            return value.encode()
        if reader == "string":
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise MustRefuse("bytes that are not UTF-8 as a string") from None
        return value


def _full_names(schema: Any) -> set[str]:
    """The name of a type and its aliases, each with its namespace."""
    space = schema.get("namespace")
    aliases = [f"{space}.{each}" if space else each for each in schema.get("aliases", ())]
    return {full_name(schema), *aliases}


def _meaning(schema: Any) -> Any:
    """What a logical type says besides its plain type."""
    if not isinstance(schema, dict) or "logicalType" not in schema:
        return None
    return schema["logicalType"], schema.get("precision"), schema.get("scale")


def single(number: float) -> float:
    """The number as a float of 32 bits."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
