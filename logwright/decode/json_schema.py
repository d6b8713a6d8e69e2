"""JSON Schema as columns, for data of a schema registry.

Used are ``type``, ``properties``, ``required``, ``items``, ``const``, ``enum``, ``$ref``,
``allOf``, ``oneOf`` and ``anyOf``, and the types that Kafka Connect's converter has in ``title``
and ``connect.type``. Other constraints are not checked: what a value is, it says itself, but for
the unit of a number and the encoding of bytes, which its own schema has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, NoReturn
from urllib.parse import urljoin

from logwright.decode import leaves
from logwright.decode.columns import Items, Leaf, Node, Pairs, Struct, required
from logwright.decode.connect_types import UnknownUnit, leaf_of, logical_of
from logwright.decode.json_fields import DEEPEST, MOST_FIELDS, UnusableSchema
from logwright.decode.refusal import Refused

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_ANY: Final = "json"
_OBJECT: Final = "object"
_ARRAY: Final = "array"
_MAP: Final = "map"
_DIGITS: Final = 20
"""More than a whole number of 64 bits has."""


def _whole(value: Any) -> int:
    """Return a whole number; JSON Schema has 1.0 as one."""
    if type(value) is Decimal and (not value or abs(value.adjusted()) <= _DIGITS):
        value = int(value) if value == value.to_integral_value() else value
    elif type(value) is float and value.is_integer():
        value = int(value)
    return _LONG(value)


_LONG: Final = leaves.integer(64)
_LEAVES: Final[Mapping[str, Leaf]] = MappingProxyType(
    {
        _ANY: leaves.JSON,
        "integer": replace(leaves.LONG, convert=_whole),
        "number": leaves.DOUBLE,
        "string": leaves.STRING,
        "boolean": leaves.BOOLEAN,
        "bytes": leaves.BASE64,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """What a schema says of a value.

    Attributes:
        kind: of `_LEAVES`, ``object``, ``array`` or ``map``; or the name of a logical type.
        nullable: null, or a property that is missing, is allowed.
        leaf: of a logical type, what reads its values.
        properties: of an object.
        items: of an array, or the values of a map.
    """

    kind: str
    nullable: bool = True
    leaf: Leaf | None = None
    properties: Mapping[str, _Value] = field(default_factory=dict)
    items: _Value | None = None


class JsonSchema:
    """A JSON Schema.

    Attributes:
        title: None without one.

    Args:
        text: the schema.
        references: name → schema, of those that it refers to.

    Raises:
        UnusableSchema: it is not JSON, has too many properties, or a unit that is not known.
    """

    def __init__(self, text: bytes, references: Mapping[str, bytes] = _NOTHING) -> None:
        root = _parsed(text)
        others = {name: _parsed(content) for name, content in references.items()}
        value = _Reader(root, others).root()
        title = root.get("title") if isinstance(root, dict) else None
        self.title = title if isinstance(title, str) else None
        self._value = value

    def written_by(self, writer: JsonSchema) -> Node:
        """Return what reads objects of another schema for the column of this one.

        Raises:
            UnusableSchema: this one does not describe an object with properties.
        """
        if self._value.kind != _OBJECT:
            raise UnusableSchema("does not describe an object with properties")
        return _node(self._value, writer._value)


def _parsed(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UnusableSchema("is not JSON") from None


def _node(value: _Value, written: _Value | None) -> Node:
    """Return the column of a value.

    Args:
        value: for the column.
        written: of the schema that the value was written with; None: it does not have it.
    """
    if value.kind == _OBJECT:
        theirs = written.properties if written is not None else _NOTHING
        return Struct(
            fields={name: _node(each, theirs.get(name)) for name, each in value.properties.items()},
            nullable=value.nullable,
        )
    if value.items is not None:
        items = _node(value.items, written.items if written is not None else None)
        if value.kind == _ARRAY:
            return Items(item=items, nullable=value.nullable)
        return Pairs(key=required(leaves.STRING), value=items, nullable=value.nullable)
    leaf = value.leaf or _LEAVES[value.kind]
    if _unit(value) != (_unit(written) if written is not None else None):
        leaf = replace(leaf, accepts=frozenset(), convert=_of_another_unit)
    return replace(leaf, nullable=value.nullable)


def _unit(value: _Value) -> str | None:
    """Return what a value's schema says of it that it does not say itself."""
    return value.kind if value.leaf is not None or value.kind == "bytes" else None


def _of_another_unit(_: Any) -> NoReturn:
    raise Refused("has another unit or encoding in the schema of its record")


class _Reader:
    """A schema while it is read."""

    def __init__(self, root: object, others: Mapping[str, object]) -> None:
        self._root = root
        self._others = others
        self._count = 0

    def root(self) -> _Value:
        """Return what the schema says of its objects: with several alternatives all that one of
        them has.
        """
        return self._value(self._root, self._root, (), is_root=True)

    def _value(
        self, schema: object, document: object, path: tuple[str, ...], *, is_root: bool = False
    ) -> _Value:
        """Return what a schema says. `document`: it is in; `path`: the references to it."""
        self._count += 1
        if self._count > MOST_FIELDS:
            raise UnusableSchema(f"has more than {MOST_FIELDS} fields")
        if not isinstance(schema, dict) or len(path) > DEEPEST:
            return _Value(kind=_ANY)
        nullable = _allows_null(schema)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            step = f"{self._name_of(document)} {reference}"
            if step in path:
                return _Value(kind=_ANY)
            (target, within) = self._target(reference, document)
            value = self._value(target, within, (*path, step), is_root=is_root)
            return replace(value, nullable=value.nullable and nullable)
        logical = _logical(schema)
        if logical is not None:
            return replace(logical, nullable=nullable)
        value = self._type(schema, document, path)
        for part in _listed(schema, "allOf"):
            value = _both(value, self._value(part, document, (*path, ""), is_root=is_root))
            nullable = nullable and value.nullable
        choices = _listed(schema, "oneOf") or _listed(schema, "anyOf")
        if choices:
            choice = self._choice(choices, document, path, is_root=is_root)
            value = choice if value.kind == _ANY or is_root else _Value(kind=_ANY)
            nullable = nullable and choice.nullable
        return replace(value, nullable=nullable)

    def _choice(
        self, choices: list[Any], document: object, path: tuple[str, ...], *, is_root: bool
    ) -> _Value:
        """Return what alternatives say of a value: JSON, if there are several besides null."""
        inside = (*path, "")
        values = [self._value(each, document, inside, is_root=is_root) for each in choices]
        has_null = any(value.nullable for value in values)
        others = [
            value for value, each in zip(values, choices, strict=True) if each != {"type": "null"}
        ]
        value = _Value(kind=_ANY)
        if len(others) == 1:
            value = others[0]
        elif is_root:
            value = _any_of(others)
        return replace(value, nullable=has_null)

    def _type(self, schema: Mapping[str, Any], document: object, path: tuple[str, ...]) -> _Value:
        kind, properties = _type_of(schema), schema.get("properties")
        inside = (*path, "")
        if kind in {_OBJECT, None} and isinstance(properties, dict) and properties:
            names = schema.get("required")
            needed = names if isinstance(names, list) else []
            return _Value(
                kind=_OBJECT,
                properties={
                    name: self._property(content, document, inside, needed=name in needed)
                    for name, content in properties.items()
                },
            )
        if kind == _OBJECT and schema.get("connect.type") == _MAP:
            return _Value(
                kind=_MAP, items=self._value(schema.get("additionalProperties"), document, inside)
            )
        if kind == _ARRAY:
            item = self._value(schema.get("items"), document, inside)
            return _Value(kind=_ARRAY, items=replace(item, nullable=True))
        if (kind, schema.get("connect.type")) == ("string", "bytes"):
            return _Value(kind="bytes")
        return _Value(kind=kind if kind is not None and kind in _LEAVES else _ANY)

    def _property(
        self, schema: object, document: object, path: tuple[str, ...], *, needed: bool
    ) -> _Value:
        value = self._value(schema, document, path)
        return value if needed else replace(value, nullable=True)

    def _name_of(self, document: object) -> str:
        """Return the name of a reference's document; empty: the schema itself."""
        return next((name for name, each in self._others.items() if each is document), "")

    def _target(self, reference: str, document: object) -> tuple[object, object]:
        """Return what a reference refers to, and the document that it is in; None if it is not
        known.
        """
        (name, _, fragment) = reference.partition("#")
        node = within = self._document(name, document) if name else document
        for part in fragment.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            node = _member(node, key)
        return node, within

    def _document(self, name: str, document: object) -> object:
        """Return the document of a reference, by the name of one that the registry gave: as it is,
        relative, or as an address below that of the document that refers to it.
        """
        base = document.get("$id") if isinstance(document, dict) else None
        address = name
        with suppress(ValueError):  # not addresses
            address = urljoin(base, name) if isinstance(base, str) else name
        for known in (name, name.removeprefix("./"), f"./{name}", address):
            if known in self._others:
                return self._others[known]
        return None


def _member(node: object, key: str) -> object:
    """Return a member of an object; of definitions under either of their two names."""
    if not isinstance(node, dict):
        return None
    return node.get(key, node.get(_OTHER_NAMES.get(key, key)))


_OTHER_NAMES: Final = MappingProxyType({"definitions": "$defs", "$defs": "definitions"})


def _listed(schema: Mapping[str, Any], word: str) -> list[Any]:
    parts = schema.get(word)
    return parts if isinstance(parts, list) else []


def _any_of(values: list[_Value]) -> _Value:
    """Return what objects of any of several kinds have: each property, required where all do."""
    if not values or any(value.kind != _OBJECT for value in values):
        return _Value(kind=_ANY)
    properties: dict[str, _Value] = {}
    for value in values:
        for name, each in value.properties.items():
            known = properties.get(name, each)
            properties[name] = each if _same(known, each) else _Value(kind=_ANY)
    return _Value(
        kind=_OBJECT,
        properties={
            name: replace(each, nullable=any(_is_optional(value, name) for value in values))
            for name, each in properties.items()
        },
    )


def _both(first: _Value, second: _Value) -> _Value:
    """Return what two schemas say of the same value, which is null only if both allow it."""
    nullable = first.nullable and second.nullable
    if first.kind == _ANY:
        return replace(second, nullable=nullable)
    if second.kind == _ANY or first.kind != _OBJECT:
        return replace(first, nullable=nullable)
    properties = dict(first.properties)
    for name, each in second.properties.items():
        known = properties.get(name)
        properties[name] = (
            each
            if known is None
            else replace(_both(known, each), nullable=known.nullable and each.nullable)
        )
    return replace(first, properties=properties, nullable=nullable)


def _same(first: _Value, second: _Value) -> bool:
    return replace(first, nullable=True) == replace(second, nullable=True)


def _is_optional(value: _Value, name: str) -> bool:
    known = value.properties.get(name)
    return known is None or known.nullable


def _type_of(schema: Mapping[str, Any]) -> str | None:
    """Return the type of a schema, or that of its constants, without null; None if it has several
    or none.
    """
    kind = schema.get("type")
    if isinstance(kind, list):
        others = {each for each in kind if each != "null" and isinstance(each, str)}
        kind = "number" if others == {"integer", "number"} else _ANY
        return next(iter(others)) if len(others) == 1 else kind
    if isinstance(kind, str):
        return kind
    constants = [schema["const"]] if "const" in schema else _listed(schema, "enum")
    kinds = {type(each) for each in constants if each is not None}
    return _CONSTANTS.get(next(iter(kinds))) if len(kinds) == 1 else None


def _allows_null(schema: Mapping[str, Any]) -> bool:
    """Return whether the types and constants of a schema let a value be null."""
    kinds = schema.get("type")
    if isinstance(kinds, str | list) and "null" not in (
        kinds if isinstance(kinds, list) else [kinds]
    ):
        return False
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        return False
    return schema.get("const") is None


_CONSTANTS: Final[Mapping[type, str]] = MappingProxyType(
    {str: "string", bool: "boolean", int: "integer", float: "number"}
)


def _logical(schema: Mapping[str, Any]) -> _Value | None:
    """Return what a schema with a logical type of Kafka Connect says, None if it has none."""
    bases = {"object": "struct", "string": "string"}
    base = schema.get("connect.type", bases.get(str(schema.get("type")), ""))
    parameters = schema.get("connect.parameters")
    given = parameters if isinstance(parameters, dict) else {}
    title, scale = schema.get("title"), given.get("scale")
    try:
        logical = logical_of(title, base, scale=scale)
    except UnknownUnit:
        raise UnusableSchema("has a field of a type whose unit is not known") from None
    if logical is None:
        return None
    return _Value(kind=f"{title} {scale}", leaf=leaf_of(logical, logical.column))
