"""Histories of JSON Schemas, with documents that are valid for them, and few that are not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.evolution.avro_changes import NEEDS
from tests.evolution.avro_types import Draw
from tests.evolution.history import Sent, Version, framed

_SINGLE: Final = ("integer", "integer", "number", "string", "string", "boolean")
_DEEPEST: Final = 2
_INTS: Final = (0, 1, -1, 5, 2**31, 2**53 + 1, -(2**63))
_NUMBERS: Final = (0, 1, 1.5, -2.25, 7, 100000.0)
_TEXTS: Final = ("", "a", "Ada", "naïve ☃", "x" * 30, "5")
_ANY: Final = (5, "x", None, [1], {"a": 1}, True)
Change = Callable[[Draw, dict[str, Any]], tuple[str, set[str]] | None]


class JsonSubject:
    """The versions of a subject. Arguments: as `AvroSubject`."""

    def __init__(self, draw: Draw, first: int, count: int, mode: str) -> None:
        self.draw = draw
        self._mode = mode
        self._schemas: dict[int, dict[str, Any]] = {}
        self.more: dict[str, str] = {}
        schema = root(draw)
        versions = [self._version(first, schema, ())]
        for number in range(first + 1, first + count):
            if mode == "NONE" and draw.chance(0.15):
                schema, changes = root(draw), ("another type",)
            else:
                schema, changes = self._changed(schema)
            versions.append(self._version(number, schema, changes))
        self.versions = tuple(versions)

    def _version(self, number: int, schema: dict[str, Any], changes: tuple[str, ...]) -> Version:
        self._schemas[number] = copy.deepcopy(schema)
        return Version(number, f"{number}.json", json.dumps(schema), changes)

    def _changed(self, schema: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        needs = NEEDS[self._mode.removesuffix("_TRANSITIVE")]
        names: list[str] = []
        for _ in range(self.draw.random.choice([1, 1, 2, 3])):
            for _ in range(30):
                trial = copy.deepcopy(schema)
                done = self.draw.random.choice(_CHANGES)(self.draw, trial)
                if done is not None and needs <= done[1]:
                    schema = trial
                    names.append(done[0])
                    break
        return schema, tuple(names)

    def sent(self, number: int) -> Sent:
        """A random document of a version."""
        schema = self._schemas[number]
        document = value_of(self.draw, schema, schema)
        if self.draw.chance(0.03):
            document[self.draw.random.choice([*schema["properties"]])] = self.draw.random.choice(
                _ANY
            )
        content = json.dumps(document, ensure_ascii=self.draw.chance(0.5)).encode()
        return Sent(number, framed(number, content), document)


def root(draw: Draw) -> dict[str, Any]:
    """A schema of an object with properties."""
    schema: dict[str, Any] = {}
    if draw.chance(0.6):
        schema["title"] = draw.name("T")
    schema |= _object(draw, 0, schema)
    return schema


def _object(draw: Draw, depth: int, whole: dict[str, Any]) -> dict[str, Any]:
    properties = {
        draw.name("f"): _type(draw, depth + 1, whole)
        for _ in range(draw.random.randint(1, 5 - depth))
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    required = [name for name in properties if draw.chance(0.4)]
    if required:
        schema["required"] = required
    open_ = draw.random.choice([None, None, True, False, {"type": "string"}])
    if open_ is not None:
        schema["additionalProperties"] = open_
    return schema


def _type(draw: Draw, depth: int, whole: dict[str, Any]) -> dict[str, Any]:
    chosen = draw.random.random()
    if chosen < 0.4 or depth > _DEEPEST:
        return {"type": draw.random.choice(_SINGLE)}
    if chosen < 0.55:
        return _with_null(draw, _type(draw, depth + 1, whole))
    if chosen < 0.62:
        return {"type": "array", "items": _type(draw, depth + 1, whole)}
    if chosen < 0.72:
        return _object(draw, depth, whole)
    if chosen < 0.78:
        name = draw.name("D")
        definition = _type(draw, depth + 1, whole)
        whole.setdefault("definitions", {})[name] = definition
        return {"$ref": f"#/definitions/{name}"}
    return copy.deepcopy(draw.random.choice(_OTHERS))


_OTHERS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "string", "enum": ["A", "B"]},
    {"enum": ["A", 5, None]},
    {"const": "A"},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": ["string", "integer"]},
    {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    {"oneOf": [{"type": "boolean"}, {"type": "string"}, {"type": "null"}]},
    {"allOf": [{"type": "integer"}, {"minimum": -5}]},
    {
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": kind}, kind: {"type": "integer"}}}
            for kind in ("cat", "dog")
        ],
        "discriminator": {"propertyName": "kind"},
    },
)


def _with_null(draw: Draw, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema or null, if it is of one type."""
    if not isinstance(schema.get("type"), str):
        return schema
    if "enum" not in schema and draw.chance(0.5):
        return {**schema, "type": [schema["type"], "null"]}
    return {draw.random.choice(["oneOf", "anyOf"]): [{"type": "null"}, schema]}


def value_of(draw: Draw, schema: dict[str, Any], whole: dict[str, Any]) -> Any:
    """A value that is valid."""
    if "$ref" in schema:
        return value_of(draw, whole["definitions"][schema["$ref"].rpartition("/")[2]], whole)
    for word in ("oneOf", "anyOf"):
        if word in schema:
            return value_of(draw, draw.random.choice(schema[word]), whole)
    return _plain_value(draw, schema, whole)


def _plain_value(draw: Draw, schema: dict[str, Any], whole: dict[str, Any]) -> Any:  # noqa: PLR0911 - each type has its own
    if "enum" in schema:
        return draw.random.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    if "allOf" in schema:
        return draw.random.choice([0, 3])
    kind = schema["type"]
    if isinstance(kind, list):
        kind = draw.random.choice(kind)
    if kind == "object":
        return _object_value(draw, schema, whole)
    if kind == "array":
        items = schema["items"]
        return [value_of(draw, items, whole) for _ in range(draw.random.choice([0, 1, 2]))]
    if kind == "integer" and draw.chance(0.02):
        return draw.random.choice([2**63, 5.0])
    singles: dict[str, tuple[Any, ...]] = {
        "integer": _INTS,
        "number": _NUMBERS,
        "string": _TEXTS,
        "boolean": (True, False),
        "null": (None,),
    }
    return draw.random.choice(singles[kind])


def _object_value(draw: Draw, schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, inner in schema.get("properties", {}).items():
        if name in schema.get("required", ()) or draw.chance(0.75):
            document[name] = value_of(draw, inner, whole)
    more = schema.get("additionalProperties", "properties" in schema)
    if isinstance(more, dict):
        if draw.chance(0.3):
            document[draw.name("u")] = value_of(draw, more, whole)
    elif more and draw.chance(0.1):
        document[draw.name("u")] = draw.random.choice(_ANY)
    items = list(document.items())
    if draw.chance(0.2):
        draw.random.shuffle(items)
    return dict(items)


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict) and "discriminator" not in schema:
            yield schema
            for inner in schema["properties"].values():
                yield from _objects(inner)
        for inner in schema.get("definitions", {}).values():
            yield from _objects(inner)


def _some(draw: Draw, whole: dict[str, Any]) -> tuple[dict[str, Any], str]:
    owner = draw.random.choice(list(_objects(whole)))
    return owner, draw.random.choice(list(owner["properties"]))


def _is_open(schema: dict[str, Any]) -> bool:
    return schema.get("additionalProperties", True) is not False


def _add(draw: Draw, whole: dict[str, Any]) -> tuple[str, set[str]] | None:
    (owner, _) = _some(draw, whole)
    name = draw.name("f")
    owner["properties"][name] = _type(draw, 2, whole)
    if draw.chance(0.25):
        owner.setdefault("required", []).append(name)
        return "required property added", {"f"}
    return "property added", {"f"} if _is_open(owner) else {"b"}


def _remove(draw: Draw, whole: dict[str, Any]) -> tuple[str, set[str]] | None:
    (owner, name) = _some(draw, whole)
    if len(owner["properties"]) < 2:
        return None
    del owner["properties"][name]
    if name in owner.get("required", ()):
        owner["required"].remove(name)
    return "property removed", {"b"} if _is_open(owner) else {"f"}


def _rename(draw: Draw, whole: dict[str, Any]) -> tuple[str, set[str]] | None:
    (owner, name) = _some(draw, whole)
    new = draw.name("f")
    owner["properties"][new] = owner["properties"].pop(name)
    if name in owner.get("required", ()):
        owner["required"] = [new if each == name else each for each in owner["required"]]
    return "property renamed", set()


def _require(draw: Draw, whole: dict[str, Any]) -> tuple[str, set[str]] | None:
    (owner, name) = _some(draw, whole)
    if name in owner.get("required", ()):
        owner["required"].remove(name)
        return "made optional", {"b"}
    owner.setdefault("required", []).append(name)
    return "made required", {"f"}


def _number(draw: Draw, whole: dict[str, Any]) -> tuple[str, set[str]] | None:
    (owner, name) = _some(draw, whole)
    kinds = {"integer": ("number", {"b"}), "number": ("integer", {"f"})}
    kind = owner["properties"][name].get("type")
    if not isinstance(kind, str) or kind not in kinds:
        return None
    (new, safe) = kinds[kind]
    owner["properties"][name]["type"] = new
    return f"{kind} made {new}", safe


def _null(draw: Draw, whole: dict[str, Any]) -> tuple[str, set[str]] | None:
    (owner, name) = _some(draw, whole)
    schema = owner["properties"][name]
    for word in ("oneOf", "anyOf"):
        if schema.get(word, [0])[0] == {"type": "null"}:
            owner["properties"][name] = schema[word][1]
            return "null removed", {"f"}
    if isinstance(schema.get("type"), list) and "null" in schema["type"]:
        owner["properties"][name] = {**schema, "type": schema["type"][0]}
        return "null removed", {"f"}
    owner["properties"][name] = _with_null(draw, schema)
    return None if owner["properties"][name] is schema else ("null added", {"b"})


def _replace(draw: Draw, whole: dict[str, Any]) -> tuple[str, set[str]] | None:
    (owner, name) = _some(draw, whole)
    owner["properties"][name] = _type(draw, 2, whole)
    return "type replaced", set()


def _widen(draw: Draw, whole: dict[str, Any]) -> tuple[str, set[str]] | None:
    (owner, name) = _some(draw, whole)
    schema = owner["properties"][name]
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices and len(choices) > 2 and draw.chance(0.5):
        choices.pop()
        return "type removed from a union", {"f"}
    if choices:
        choices.append({"type": "array", "items": {"type": "integer"}})
    else:
        owner["properties"][name] = {"anyOf": [schema, {"type": "array", "items": {}}]}
        owner["properties"][name]["anyOf"][1]["items"] = {"type": "string"}
    return "type added to a union", {"b"}


def _symbol(draw: Draw, whole: dict[str, Any]) -> tuple[str, set[str]] | None:
    (owner, name) = _some(draw, whole)
    schema = owner["properties"][name]
    if "enum" not in schema:
        return None
    schema["enum"].append(draw.name("S"))
    return "symbol added", {"b"}


def _content(draw: Draw, whole: dict[str, Any]) -> tuple[str, set[str]] | None:
    (owner, _) = _some(draw, whole)
    was = _is_open(owner)
    owner["additionalProperties"] = not was
    return ("content closed", {"f"}) if was else ("content opened", {"b"})


def _title(draw: Draw, whole: dict[str, Any]) -> tuple[str, set[str]] | None:
    if "title" in whole and draw.chance(0.85):
        return None
    whole["title"] = draw.name("T")
    return "title changed", {"b", "f"}


def _reorder(draw: Draw, whole: dict[str, Any]) -> tuple[str, set[str]] | None:
    (owner, _) = _some(draw, whole)
    items = list(owner["properties"].items())
    draw.random.shuffle(items)
    owner["properties"] = dict(items)
    return "properties reordered", {"b", "f"}


def _define(draw: Draw, whole: dict[str, Any]) -> tuple[str, set[str]] | None:
    (owner, name) = _some(draw, whole)
    if "$ref" in owner["properties"][name]:
        return None
    defined = draw.name("D")
    whole.setdefault("definitions", {})[defined] = owner["properties"][name]
    owner["properties"][name] = {"$ref": f"#/definitions/{defined}"}
    return "moved into a definition", {"b", "f"}


_CHANGES: Final[tuple[Change, ...]] = (
    _add,
    _add,
    _remove,
    _rename,
    _require,
    _number,
    _null,
    _replace,
    _widen,
    _symbol,
    _content,
    _title,
    _reorder,
    _define,
)
