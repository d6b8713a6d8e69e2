"""Schemas of Avro as parsed JSON: drawn at random, with values and defaults of them.

A datum is as fastavro has it without logical types: a date is an int. A value of a union is a
`Choice`.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from typing import Any, Final

from tests.evolution.history import Choice

PRIMITIVES: Final = ("boolean", "int", "long", "float", "double", "string", "bytes")
NAMED: Final = ("record", "enum", "fixed")
LOGICAL: Final = {
    "int": ("date", "time-millis"),
    "long": (
        "timestamp-millis",
        "timestamp-micros",
        "timestamp-nanos",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "time-micros",
    ),
    "string": ("uuid",),
    "bytes": ("decimal",),
    "fixed": ("decimal",),
}
_INTS: Final = (0, 1, -1, 5, 2**31 - 1, -(2**31), 16_777_217, 1_700_000)
_LONGS: Final = (*_INTS, 2**63 - 1, -(2**63), 2**53 + 1, 1_760_000_000_000)
_FLOATS: Final = (0.0, -0.0, 1.5, -3.25, float("inf"), float("nan"), 16_777_216.0)
_TEXTS: Final = ("", "a", "Ada", "naïve ☃", "x" * 40, "5", "null")
_BYTES: Final = (b"", b"a", b"\xff\xfe", "☃".encode(), bytes(range(20)))
_SPACES: Final = ("com.a", "com.b")
_DEEPEST: Final = 3


class Draw:
    """Draws schemas: names are numbered, so that none is used twice by chance."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_
        self._count = 0

    def name(self, prefix: str) -> str:
        """A name that was not used before."""
        self._count += 1
        return f"{prefix}{self._count}"

    def chance(self, share: float) -> bool:
        """Whether it happens."""
        return self.random.random() < share

    def record(self, depth: int = 0, *, fields: int | None = None) -> dict[str, Any]:
        """A record."""
        count = fields or self.random.randint(1, 3 if depth else 5)
        name: dict[str, Any] = {"name": self.name("R")}
        if self.chance(0.2):
            name["namespace"] = self.random.choice(_SPACES)
        return {
            "type": "record",
            **name,
            "fields": [self.field(depth, default=self.chance(0.3)) for _ in range(count)],
        }

    def field(self, depth: int, *, default: bool) -> dict[str, Any]:
        """A field with a new name."""
        field: dict[str, Any] = {"name": self.name("f"), "type": self.type(depth + 1)}
        if default:
            field["default"] = self.default(field["type"])
        return field

    def type(self, depth: int, *, union: bool = True) -> Any:
        """A type."""
        if depth >= _DEEPEST or self.chance(0.4):
            return self.random.choice(PRIMITIVES)
        kinds = ["logical"] * 3 + ["enum", "fixed", "record", "array", "map"]
        kinds += ["nullable"] * 4 + ["union"] * 3 if union else []
        kind = self.random.choice(kinds)
        return getattr(self, f"_{kind}")(depth)

    def default(self, schema: Any) -> Any:
        """A default of a type, as JSON."""
        return to_json(schema, self.value(schema, is_default=True))

    def _logical(self, depth: int) -> Any:
        kind = self.random.choice(list(LOGICAL))
        schema = self._fixed(depth) if kind == "fixed" else {"type": kind}
        return self.with_logical(schema)

    def with_logical(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The type with a logical type."""
        logical = self.random.choice(LOGICAL[schema["type"]])
        more: dict[str, Any] = {}
        if logical == "decimal":
            digits = self.random.choice([2, 4]) if schema["type"] == "fixed" else 6
            more = {"precision": digits, "scale": self.random.randint(0, 2)}
            if schema["type"] == "fixed":
                schema = schema | {"size": 4}
        return {**schema, "logicalType": logical, **more}

    def _enum(self, depth: int) -> Any:
        symbols = [f"S{n}" for n in range(self.random.randint(1, 4))]
        more = {"default": symbols[0]} if self.chance(0.4) else {}
        return {"type": "enum", "name": self.name("E"), "symbols": symbols, **more}

    def _fixed(self, depth: int) -> Any:
        return {"type": "fixed", "name": self.name("X"), "size": self.random.randint(1, 4)}

    def _record(self, depth: int) -> Any:
        return self.record(depth)

    def _array(self, depth: int) -> Any:
        return {"type": "array", "items": self.type(depth + 1)}

    def _map(self, depth: int) -> Any:
        return {"type": "map", "values": self.type(depth + 1)}

    def _nullable(self, depth: int) -> Any:
        both = ["null", self.type(depth + 1, union=False)]
        return both[::-1] if self.chance(0.25) else both

    def _union(self, depth: int) -> Any:
        if self.chance(0.25):
            name = self.name("R")
            return [
                *(["null"] if self.chance(0.5) else []),
                *(
                    {**self.record(depth + 1, fields=1), "name": name, "namespace": space}
                    for space in _SPACES
                ),
            ]
        branches: list[Any] = ["null"] if self.chance(0.6) else []
        for _ in range(self.random.randint(2, 4)):
            branch = self.type(depth + 1, union=False)
            if identity(branch) not in {identity(each) for each in branches}:
                branches.append(branch)
        if self.chance(0.2):
            self.random.shuffle(branches)
        return branches

    def value(self, schema: Any, *, is_default: bool = False) -> Any:
        """A datum; `is_default`: one that can be a default."""
        if isinstance(schema, list):
            index = 0 if is_default else self.random.randrange(len(schema))
            return Choice(index, self.value(schema[index], is_default=is_default))
        kind = type_of(schema)
        if kind in {"record", "array", "map"}:
            return self._container(schema, kind, is_default=is_default)
        if kind == "enum":
            return self.random.choice(schema["symbols"])
        logical = schema.get("logicalType") if isinstance(schema, dict) else None
        if logical is not None:
            return self._logical_value(schema, logical)
        if kind == "fixed":
            return self.random.randbytes(schema["size"])
        return self._single(kind, is_default=is_default)

    def _container(self, schema: Any, kind: str, *, is_default: bool) -> Any:
        if kind == "record":
            return {
                each["name"]: self.value(each["type"], is_default=is_default)
                for each in schema["fields"]
            }
        count = self.random.choice([0, 0, 1, 2])
        if kind == "array":
            return [self.value(schema["items"], is_default=is_default) for _ in range(count)]
        return {f"k{n}": self.value(schema["values"], is_default=is_default) for n in range(count)}

    def _single(self, kind: str, *, is_default: bool) -> Any:
        draw = self.random
        if kind == "null":
            return None
        if kind == "boolean":
            return self.chance(0.5)
        if kind in {"float", "double"}:
            return draw.choice([1.5, -3.25, 0.0] if is_default else _FLOATS)
        values: Any = {"int": _INTS, "long": _LONGS, "string": _TEXTS, "bytes": _BYTES}[kind]
        return draw.choice(values)

    def _logical_value(self, schema: dict[str, Any], logical: str) -> Any:
        draw = self.random
        if logical == "uuid":
            text = str(uuid.UUID(int=draw.getrandbits(128)))
            return draw.choice([text] * 20 + [text.upper(), "not a UUID"])
        if logical == "decimal":
            most = 10 ** schema["precision"]
            number = draw.choice([0, 1, -1, most] + [draw.randrange(-most + 1, most)] * 20)
            size = schema.get("size") or (number.bit_length() + 8) // 8
            return number.to_bytes(size, "big", signed=True)
        if schema["type"] == "int":
            return draw.choice([0, 1, -1, *[19_000] * 20, 2**31 - 1])
        most = 2**62 if self.chance(0.05) else 86_399_999
        return draw.choice([0, -1, 1_760_000_000_123, most])


def type_of(schema: Any) -> str:
    """The name of a type that is not a union."""
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


def full_name(schema: dict[str, Any]) -> str:
    """The name of a named type with its namespace."""
    space = schema.get("namespace")
    return f"{space}.{schema['name']}" if space else str(schema["name"])


def identity(schema: Any) -> str:
    """What must differ between the types of a union."""
    kind = type_of(schema)
    return full_name(schema) if kind in NAMED else kind


def is_valid(schema: Any) -> bool:
    """Whether a schema keeps to the rules that fastavro does not look at: no union directly in a
    union, none with the same type twice, no name of a type twice.
    """
    unions = [each for each, _ in walk(schema) if isinstance(each, list)]
    whole = walk(qualified(schema))
    names = [full_name(each) for each, _ in whole if type_of_any(each) in NAMED]
    return len(set(names)) == len(names) and all(
        each
        and not any(isinstance(branch, list) for branch in each)
        and len({identity(branch) for branch in each}) == len(each)
        and each != ["null"]
        for each in unions
    )


def type_of_any(schema: Any) -> str:
    """As `type_of`; of a union ``union``."""
    return "union" if isinstance(schema, list) else type_of(schema)


def walk(schema: Any, slot: tuple[Any, Any] | None = None) -> Iterator[tuple[Any, Any]]:
    """Yield all types in a schema, each with its place: what contains it, and the key in that."""
    yield schema, slot
    if isinstance(schema, list):
        for index, each in enumerate(schema):
            yield from walk(each, (schema, index))
    elif isinstance(schema, dict):
        for field in schema.get("fields", ()):
            yield from walk(field["type"], (field, "type"))
        for name in ("items", "values"):
            if name in schema:
                yield from walk(schema[name], (schema, name))


def to_json(schema: Any, value: Any) -> Any:
    """A datum as a default in JSON."""
    if isinstance(schema, list):
        return to_json(schema[value.index], value.value)
    kind = type_of(schema)
    if kind in {"bytes", "fixed"}:
        return value.decode("latin-1")
    if kind == "record":
        return {
            each["name"]: to_json(each["type"], value[each["name"]]) for each in schema["fields"]
        }
    if kind == "array":
        return [to_json(schema["items"], each) for each in value]
    if kind == "map":
        return {name: to_json(schema["values"], each) for name, each in value.items()}
    return value


_FITS: Final = {
    "null": lambda value: value is None,
    "boolean": lambda value: type(value) is bool,
    "int": lambda value: type(value) is int and -(2**31) <= value < 2**31,
    "long": lambda value: type(value) is int,
    "float": lambda value: type(value) in {int, float},
    "double": lambda value: type(value) in {int, float},
    "string": lambda value: type(value) is str,
}


def from_json(schema: Any, value: Any) -> Any:
    """A default as a datum: that of a union is of its first type.

    Raises:
        ValueError: it is not a default of the type.
    """
    if isinstance(schema, list):
        return Choice(0, from_json(schema[0], value))
    kind = type_of(schema)
    if kind in _FITS:
        if not _FITS[kind](value):
            raise ValueError(kind)
        return float(value) if kind in {"float", "double"} else value
    expected = {"record": dict, "map": dict, "array": list}.get(kind, str)
    if type(value) is not expected:
        raise ValueError(kind)
    return _compound_from_json(schema, kind, value)


def _compound_from_json(schema: Any, kind: str, value: Any) -> Any:
    if kind == "enum":
        if value not in schema["symbols"]:
            raise ValueError(kind)
        return value
    if kind in {"bytes", "fixed"}:
        content = value.encode("latin-1")
        if kind == "fixed" and len(content) != schema["size"]:
            raise ValueError(kind)
        return content
    if kind == "array":
        return [from_json(schema["items"], each) for each in value]
    if kind == "map":
        return {name: from_json(schema["values"], each) for name, each in value.items()}
    return {
        each["name"]: from_json(
            each["type"], value[each["name"]] if each["name"] in value else each.get("default", ())
        )
        for each in schema["fields"]
    }


def qualified(schema: Any, space: str | None = None) -> Any:
    """The schema with the namespace of each named type, which is that around it by default."""
    if isinstance(schema, list):
        return [qualified(each, space) for each in schema]
    if not isinstance(schema, dict):
        return schema
    named = dict(schema)
    if type_of(schema) in NAMED:
        space = schema.get("namespace", space)
        named |= {"namespace": space} if space else {}
    for name in ("items", "values"):
        if name in named:
            named[name] = qualified(named[name], space)
    if "fields" in named:
        named["fields"] = [
            each | {"type": qualified(each["type"], space)} for each in named["fields"]
        ]
    return named


def without_logical(schema: Any) -> Any:
    """The schema of the same bytes without logical types."""
    if isinstance(schema, list):
        return [without_logical(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        name: value
        for name, value in schema.items()
        if name not in {"logicalType", "precision", "scale"}
    }
    for name in ("items", "values"):
        if name in plain:
            plain[name] = without_logical(plain[name])
    if "fields" in plain:
        plain["fields"] = [
            each | {"type": without_logical(each["type"])} for each in plain["fields"]
        ]
    return plain
