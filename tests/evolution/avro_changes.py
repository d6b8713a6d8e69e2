"""Changes of a schema of Avro, each with the directions in which it is compatible.

``b``: the new schema reads data of the old one; ``f``: the old one reads data of the new one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

from tests.evolution.avro_types import (
    LOGICAL,
    NAMED,
    PRIMITIVES,
    Draw,
    from_json,
    is_valid,
    type_of,
    type_of_any,
    walk,
)

_WIDER: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
}
_NARROWER: Final = {"long": ("int",), "double": ("float", "long", "int"), "float": ("int", "long")}
NEEDS: Final = {"BACKWARD": {"b"}, "FORWARD": {"f"}, "FULL": {"b", "f"}, "NONE": set[str]()}
Done = tuple[str, set[str]] | None
"""What was changed, and how it is compatible; None: it could not be done here."""


def changed(schema: Any, draw: Draw, mode: str) -> tuple[Any, tuple[str, ...]]:
    """The next version of a schema, and what was changed."""
    needs = NEEDS[mode.removesuffix("_TRANSITIVE")]
    names: list[str] = []
    for _ in range(draw.random.choice([1, 1, 2, 3])):
        for _ in range(30):
            trial = copy.deepcopy(schema)
            done = _change(trial, draw, transitive=mode.endswith("_TRANSITIVE"))
            if done is None or not needs <= done[1] or not is_valid(trial):
                continue
            _repair_defaults(trial, draw)
            schema = trial
            names.append(done[0])
            break
    return schema, tuple(names)


def _change(schema: Any, draw: Draw, *, transitive: bool) -> Done:
    places = list(walk(schema))
    if draw.chance(0.45):
        records = [each for each, _ in places if type_of_any(each) == "record"]
        if not records:
            return None
        act: Callable[..., Done] = draw.random.choice(_OF_RECORDS)
        if act is _drop_default and transitive:
            return None
        return act(draw.random.choice(records), draw)
    (each, slot) = draw.random.choice(places)
    acts = _OF_TYPES.get(type_of_any(each), _OF_PRIMITIVES)
    act = draw.random.choice(acts)
    return act(each, slot, draw)


def _repair_defaults(schema: Any, draw: Draw) -> None:
    for each, _ in walk(schema):
        for field in each.get("fields", ()) if isinstance(each, dict) else ():
            if "default" in field:
                try:
                    from_json(field["type"], field["default"])
                except (ValueError, UnicodeEncodeError):
                    field["default"] = draw.default(field["type"])


def _add_field(record: Any, draw: Draw) -> Done:
    default = draw.chance(0.75)
    at = draw.random.randint(0, len(record["fields"]))
    record["fields"].insert(at, draw.field(1, default=default))
    return ("field added", {"b", "f"}) if default else ("field added without default", {"f"})


def _remove_field(record: Any, draw: Draw) -> Done:
    if len(record["fields"]) < 2:
        return None
    gone = record["fields"].pop(draw.random.randrange(len(record["fields"])))
    return "field removed", {"b", "f"} if "default" in gone else {"b"}


def _rename_field(record: Any, draw: Draw) -> Done:
    field = draw.random.choice(record["fields"])
    old, field["name"] = field["name"], draw.name("f")
    safe = {"f"} if "default" in field else set()
    if draw.chance(0.8):
        field["aliases"] = [*field.get("aliases", ()), old]
        if draw.chance(0.4):
            field["default"] = draw.default(field["type"])
        return "field renamed with alias", {"b"} | safe
    field.pop("aliases", None)
    return "field renamed", set()


def _reorder_fields(record: Any, draw: Draw) -> Done:
    draw.random.shuffle(record["fields"])
    return "fields reordered", {"b", "f"}


def _other_default(record: Any, draw: Draw) -> Done:
    field = draw.random.choice(record["fields"])
    field["default"] = draw.default(field["type"])
    return "default changed", {"b", "f"}


def _drop_default(record: Any, draw: Draw) -> Done:
    field = draw.random.choice(record["fields"])
    return ("default dropped", {"b", "f"}) if field.pop("default", ()) != () else None


_OF_RECORDS: Final = (
    _add_field,
    _add_field,
    _remove_field,
    _rename_field,
    _rename_field,
    _reorder_fields,
    _other_default,
    _drop_default,
)


def _place(slot: Any, new: Any) -> None:
    (container, key) = slot
    container[key] = new


def _is_branch(slot: Any) -> bool:
    return isinstance(slot[0], list)


def _in_union(slot: Any, name: str) -> str:
    return f"{name} in a union" if _is_branch(slot) else name


def _promote(each: Any, slot: Any, draw: Draw) -> Done:
    if slot is None:
        return None
    kind = type_of(each)
    if kind in {"string", "bytes"}:
        _place(slot, "bytes" if kind == "string" else "string")
        return _in_union(slot, f"{kind} as the other"), {"b", "f"}
    table, safe, name = (_WIDER, "b", "widened") if draw.chance(0.8) else (_NARROWER, "f", "narrow")
    if kind not in table:
        return None
    _place(slot, draw.random.choice(table[kind]))
    return _in_union(slot, f"number {name}"), {safe}


def _replace(each: Any, slot: Any, draw: Draw) -> Done:
    if slot is None:
        return None
    _place(slot, draw.type(2, union=not _is_branch(slot)))
    return _in_union(slot, "type replaced"), set()


def _wrap(each: Any, slot: Any, draw: Draw) -> Done:
    if slot is None or _is_branch(slot):
        return None
    other = "null" if draw.chance(0.7) else draw.type(2, union=False)
    both = [other, each] if draw.chance(0.7) else [each, other]
    if "default" in slot[0] and slot[1] == "type":
        both = [each, other]
    _place(slot, both)
    return "made a union", {"b"}


def _logical(each: Any, slot: Any, draw: Draw) -> Done:
    kind = type_of(each)
    if slot is None or kind not in LOGICAL or kind == "fixed":
        return None
    if isinstance(each, dict) and draw.chance(0.4):
        _place(slot, kind)
        return "logical type dropped", {"b", "f"}
    _place(slot, draw.with_logical({"type": kind}))
    return "logical type changed", {"b", "f"}


_OF_PRIMITIVES: Final = (_promote, _promote, _replace, _wrap, _logical)


def _add_branch(each: Any, slot: Any, draw: Draw) -> Done:
    each.insert(draw.random.randint(0, len(each)), draw.type(2, union=False))
    return "type added to a union", {"b"}


def _remove_branch(each: Any, slot: Any, draw: Draw) -> Done:
    if len(each) < 2:
        return None
    each.pop(draw.random.randrange(len(each)))
    return "type removed from a union", {"f"}


def _reorder_branches(each: Any, slot: Any, draw: Draw) -> Done:
    draw.random.shuffle(each)
    return "union reordered", {"b", "f"}


def _unwrap(each: Any, slot: Any, draw: Draw) -> Done:
    if slot is None:
        return None
    others = [branch for branch in each if branch != "null"]
    _place(slot, draw.random.choice(others))
    return "union made one of its types", {"f"}


def _rename_type(each: Any, slot: Any, draw: Draw) -> Done:
    if draw.chance(0.3):
        each["namespace"] = draw.random.choice(["com.a", "com.b", "com.c"])
        return "namespace of a type changed", set()
    old, each["name"] = each["name"], draw.name("N")
    if draw.chance(0.7):
        each["aliases"] = [*each.get("aliases", ()), old]
        return "type renamed with alias", {"b"}
    each.pop("aliases", None)
    return "type renamed", set()


def _symbols(each: Any, slot: Any, draw: Draw) -> Done:
    symbols = each["symbols"]
    what = draw.random.choice(["add", "remove", "reorder", "default"])
    if what == "add":
        symbols.insert(draw.random.randint(0, len(symbols)), draw.name("X"))
        return "symbol added", {"b", "f"} if "default" in each else {"b"}
    if what == "remove":
        others = [symbol for symbol in symbols if symbol != each.get("default")]
        if len(symbols) < 2 or not others:
            return None
        symbols.remove(draw.random.choice(others))
        return "symbol removed", {"b", "f"} if "default" in each else {"f"}
    if what == "reorder":
        draw.random.shuffle(symbols)
        return "symbols reordered", {"b", "f"}
    if each.pop("default", None) is None:
        each["default"] = draw.random.choice(symbols)
    return "default of an enum changed", {"b", "f"}


def _size(each: Any, slot: Any, draw: Draw) -> Done:
    if "logicalType" in each:
        return None
    each["size"] = each["size"] % 4 + 1
    return "size of a fixed changed", set()


def _digits(each: Any, slot: Any, draw: Draw) -> Done:
    if each.get("logicalType") != "decimal":
        return None
    each["precision"] += draw.random.choice([0, 1])
    each["scale"] = draw.random.choice([each["scale"], 1])
    return "digits of a decimal changed", {"b", "f"}


_OF_TYPES: Final = {
    "union": (
        _add_branch,
        _add_branch,
        _remove_branch,
        _reorder_branches,
        _reorder_branches,
        _unwrap,
    ),
    "enum": (_symbols, _symbols, _symbols, _rename_type, _wrap, _replace),
    "fixed": (_size, _digits, _rename_type, _wrap, _replace),
    "record": (_rename_type, _wrap, _wrap, _replace),
    "array": (_wrap, _replace),
    "map": (_wrap, _replace),
}
assert set(_OF_TYPES) >= set(NAMED)
assert not set(_OF_TYPES) & set(PRIMITIVES)
