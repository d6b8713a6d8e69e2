"""What a record of Avro must become: by fastavro, and by the resolution with which it is compared,
laid into columns as docs/decoding.md has them.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import fastavro
from fastavro.read import SchemaResolutionError

from tests.evolution.avro_resolution import Otherwise, Resolution, single
from tests.evolution.avro_types import NAMED, full_name, qualified, type_of, without_logical
from tests.evolution.history import Choice, Expected, MustRefuse, Sent, canonical
from tests.evolution.java_avro import JavaAvro, in_json, same

_DAY: Final = 86_400_000_000
_FIRST: Final = -62_135_596_800_000_000
_LAST: Final = 253_402_300_799_999_000
_SCALES: Final = {"millis": (1000, 1), "micros": (1, 1), "nanos": (1, 1000)}
AMBIGUOUS: Final = "several types of a union have the name"
UNITS_DIFFER: Final = "logical types of writer and reader differ"
_RAISES: Final = (SchemaResolutionError, UnicodeDecodeError, EOFError, KeyError, ValueError)


class AvroOfficial:
    """Of one reader's schema.

    Args:
        files: the directory of schemas.
        number: the id of the reader's schema.
        counts: by kind, where fastavro or Java has another value than the resolution.
    """

    java: JavaAvro | None = None
    """If it takes part."""

    def __init__(
        self, files: Mapping[str, str], number: int, message: str | None, counts: Counter[str]
    ) -> None:
        self._schemas = {
            int(name.removesuffix(".avsc")): qualified(json.loads(text))
            for name, text in files.items()
        }
        self._plain = {number: without_logical(each) for number, each in self._schemas.items()}
        self._number = number
        self._counts = counts
        self.doubts: list[tuple[int, str, Any, Any]] = []

    def expect(self, sent: Sent) -> Expected:
        """What a key or value may become."""
        reader = self._schemas[self._number]
        values: list[Any] = []
        refusals: list[str] = []
        for exact in (True, False):
            resolution = Resolution(exact=exact)
            try:
                datum = resolution.resolve(self._schemas[sent.number], reader, sent.datum)
                value = canonical(columns_of(reader, datum))
                values += [value] if value not in values else []
            except MustRefuse as refused:
                refusals += [refused.kind] if refused.kind not in refusals else []
            if "logical types differ" in resolution.seen:
                refusals.append(UNITS_DIFFER)
            if AMBIGUOUS in resolution.seen:
                refusals.append(AMBIGUOUS)
            if "several types of a union match" in resolution.seen and not exact:
                self._counts["a choice of a union is free"] += len(values) > 1
        self._compare(sent)
        return Expected(tuple(values), tuple(refusals))

    def _compare(self, sent: Sent) -> None:
        """Count where fastavro and the resolution differ."""
        reader, writer = self._plain[self._number], self._plain[sent.number]
        mine: list[Any] = []
        for exact in (True, False):
            try:
                datum = Resolution(exact=exact, raw=True).resolve(writer, reader, sent.datum)
                mine.append(canonical(_untagged(datum)))
            except MustRefuse:
                mine.append("refused")
        try:
            content = io.BytesIO(sent.content[5:])
            parsed = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
            theirs = canonical(fastavro.schemaless_reader(content, *parsed))
        except _RAISES:
            theirs = "refused"
        verdict = _verdict(theirs in mine, theirs, mine[0])
        self._counts[f"fastavro {verdict}"] += 1
        if verdict != "agrees":
            self.doubts.append((sent.number, f"fastavro {verdict}", mine[0], theirs))
        if self.java is not None:
            self._ask(self.java, writer, reader, sent)

    def _ask(self, java: JavaAvro, writer: Any, reader: Any, sent: Sent) -> None:
        mine: list[Any] = []
        for exact in (True, False):
            try:
                datum = Resolution(exact=exact).resolve(writer, reader, sent.datum)
                mine.append(in_json(reader, datum))
            except MustRefuse as refused:
                mine.append("refused")
                kind = refused.kind
        theirs = java.read(writer, reader, sent.content[5:])
        verdict = _verdict(any(same(each, theirs) for each in mine), theirs, mine[0])
        more = f" ({kind})" if verdict == "reads, the resolution raises" else ""
        self._counts[f"Java {verdict}{more}"] += 1
        if verdict != "agrees":
            self.doubts.append((sent.number, verdict + more, mine[0], theirs))


def _verdict(agrees: bool, theirs: Any, mine: Any) -> str:
    if agrees:
        return "agrees"
    (first, second) = ("raises" if each == "refused" else "reads" for each in (theirs, mine))
    return f"{first}, the resolution {second}"


def encoded(schema: Any, datum: Any) -> bytes:
    """A datum in Avro's binary encoding, by fastavro."""
    plain = without_logical(schema)
    content = io.BytesIO()
    parsed = fastavro.parse_schema(plain)
    fastavro.schemaless_writer(content, parsed, _for_writer(parsed, datum))
    return content.getvalue()


def _for_writer(schema: Any, datum: Any) -> Any:
    """The datum with the types of unions as fastavro's writer has them."""
    if isinstance(schema, list):
        branch = schema[datum.index]
        value = _for_writer(branch, datum.value)
        name = branch["name"] if type_of(branch) in NAMED else type_of(branch)
        return (name, value)
    kind = type_of(schema)
    if kind == "record":
        return {
            each["name"]: _for_writer(each["type"], datum[each["name"]])
            for each in schema["fields"]
        }
    if kind == "array":
        return [_for_writer(schema["items"], each) for each in datum]
    if kind == "map":
        return {name: _for_writer(schema["values"], each) for name, each in datum.items()}
    return datum


def _untagged(datum: Any) -> Any:
    if isinstance(datum, Choice):
        return _untagged(datum.value)
    if isinstance(datum, dict):
        return {name: _untagged(each) for name, each in datum.items()}
    if isinstance(datum, list):
        return [_untagged(each) for each in datum]
    return datum


def columns_of(schema: Any, datum: Any) -> Any:  # noqa: PLR0911 - each type has its own
    """A datum as its column has it.

    Raises:
        MustRefuse: the column cannot have it.
    """
    if isinstance(schema, list):
        return _union(schema, datum)
    kind = type_of(schema)
    if kind == "record":
        return {
            each["name"]: columns_of(each["type"], datum[each["name"]]) for each in schema["fields"]
        }
    if kind == "array":
        return [columns_of(schema["items"], each) for each in datum]
    if kind == "map":
        return {name: columns_of(schema["values"], each) for name, each in datum.items()}
    if isinstance(datum, Otherwise):
        datum = _otherwise(datum)
        return single(datum) if kind == "float" else datum
    if kind == "float":
        return single(datum)
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    return datum if logical is None else _logical(schema, logical, datum)


def _union(schema: list[Any], datum: Choice) -> Any:
    others = [each for each in schema if each != "null"]
    branch = schema[datum.index]
    if len(others) == 1:
        return None if branch == "null" else columns_of(branch, datum.value)
    if branch == "null":
        return None
    names = _names(schema)
    laid = dict.fromkeys(name for name, each in zip(names, schema, strict=True) if each != "null")
    return laid | {names[datum.index]: columns_of(branch, datum.value)}


def _names(schema: list[Any]) -> list[str]:
    """The names of a union's types, with namespaces where two have the same."""
    short = [each["name"] if type_of(each) in NAMED else type_of(each) for each in schema]
    return [
        full_name(each).replace(".", "_") if short.count(name) > 1 else name
        for name, each in zip(short, schema, strict=True)
    ]


def _logical(schema: Any, logical: str, value: Any) -> Any:
    if logical == "uuid":
        if len(value) != 36:
            raise MustRefuse("text that is not a UUID")
        return value.lower()
    if logical == "decimal":
        if isinstance(value, str):
            raise MustRefuse("types do not match")
        number = int.from_bytes(value, "big", signed=True)
        if abs(number) >= 10 ** schema["precision"]:
            raise MustRefuse("more digits than the decimal has")
        return Decimal(number).scaleb(-schema["scale"])
    if logical == "date":
        _in_years(value * _DAY)
        return f"date {value}"
    if logical.startswith("time-"):
        return value
    (multiplied, divided) = _SCALES[logical.rpartition("-")[2]]
    return f"time {_in_years(value * multiplied // divided)}"


def _in_years(microseconds: int) -> int:
    if not _FIRST <= microseconds <= _LAST:
        raise MustRefuse("a time that is not of the years 1 to 9999")
    return microseconds


def _otherwise(datum: Otherwise) -> Any:
    """A value of two logical types: what the writer meant, if it is a time or a decimal of both."""
    (writer, reader, value) = datum
    of_writer = writer.get("logicalType", "") if isinstance(writer, dict) else ""
    of_reader = reader.get("logicalType", "") if isinstance(reader, dict) else ""
    if not of_reader:
        return value
    if not of_writer:
        return _logical(reader, of_reader, value)
    if (of_writer, of_reader) == ("decimal", "decimal"):
        number = Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-writer["scale"])
        shifted = number.scaleb(reader["scale"])
        if shifted != int(shifted) or abs(shifted) >= 10 ** reader["precision"]:
            raise MustRefuse("more digits than the decimal has")
        return Decimal(int(shifted)).scaleb(-reader["scale"])
    if (of_writer, of_reader) == ("time-millis", "time-micros"):
        return value * 1000
    kinds = [each.rpartition("-")[0] for each in (of_writer, of_reader)]
    if kinds[0] == kinds[1] != "time":
        return _logical(writer, of_writer, value)
    raise MustRefuse(UNITS_DIFFER)
