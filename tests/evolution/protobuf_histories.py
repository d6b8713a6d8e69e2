"""Histories of schemas of Protobuf: files as plain data, and messages that Google's library writes.

Identity is the number of a field: its name may change, and its type within those that have the same
wire format.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.evolution.avro_types import Draw
from tests.evolution.history import Sent, Version, framed
from tests.evolution.protobuf_official import compiled, message_class

_VARINT: Final = ("int32", "int64", "uint32", "uint64", "bool")
_GROUPS: Final = (
    _VARINT,
    ("sint32", "sint64"),
    ("fixed32", "sfixed32"),
    ("fixed64", "sfixed64"),
    ("string", "bytes"),
)
_SCALARS: Final = (*_VARINT, "sint32", "sint64", "fixed32", "sfixed64", "float", "double")
_TYPES: Final = (*_SCALARS, "string", "string", "bytes")
_GOOGLE: Final = {
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.StringValue": "wrappers",
    "google.protobuf.Int64Value": "wrappers",
    "google.protobuf.Duration": "duration",
}
_INTS: Final = (0, 1, 5, 300, 2**31 - 1)
_TEXTS: Final = ("", "a", "Ada", "naïve ☃", "x" * 30)
_DEEPEST: Final = 2
Change = Callable[["ProtobufSubject", dict[str, Any]], tuple[str, set[str]] | None]


def text_of(file: dict[str, Any]) -> str:
    """The ``.proto`` file."""
    lines = [f'syntax = "{file["syntax"]}";', f"package {file['package']};"]
    used = {
        each["type"]
        for message in _messages(file)
        for each in message["fields"]
        if isinstance(each["type"], str)
    }
    imports = sorted({_GOOGLE[name] for name in used & _GOOGLE.keys()})
    lines += [f'import "google/protobuf/{name}.proto";' for name in imports]
    for enum in file["enums"]:
        values = " ".join(f"{name} = {number};" for name, number in enum["values"])
        lines.append(f"enum {enum['name']} {{ {values} }}")
    for message in file["messages"]:
        lines += _message_lines(file, message)
    return "\n".join(lines) + "\n"


def _message_lines(file: dict[str, Any], message: dict[str, Any]) -> list[str]:
    lines = [f"message {message['name']} {{"]
    for inner in message["messages"]:
        lines += [f"  {line}" for line in _message_lines(file, inner)]
    groups: dict[str, list[str]] = {}
    for field in message["fields"]:
        kind = field["type"]
        if isinstance(kind, dict):
            kind = _path(file, kind["ref"]) if "ref" in kind else _map(file, kind["map"])
        line = f"{field['label']} {kind} {field['name']} = {field['number']};".strip()
        if field["oneof"]:
            groups.setdefault(field["oneof"], []).append(line)
        else:
            lines.append(f"  {line}")
    for name, inside in groups.items():
        lines.append(f"  oneof {name} {{ {' '.join(inside)} }}")
    return [*lines, "}"]


def _map(file: dict[str, Any], pair: list[Any]) -> str:
    (key, value) = pair
    return f"map<{key}, {_path(file, value['ref']) if isinstance(value, dict) else value}>"


def _path(file: dict[str, Any], name: str) -> str:
    pending = [(f".{file['package']}", each) for each in (*file["messages"], *file["enums"])]
    while pending:
        (above, each) = pending.pop()
        if each["name"] == name:
            return f"{above}.{name}"
        pending += [(f"{above}.{each['name']}", inner) for inner in each.get("messages", ())]
    raise KeyError(name)


def _messages(file: dict[str, Any]) -> Iterator[dict[str, Any]]:
    pending = list(file["messages"])
    while pending:
        message = pending.pop()
        yield message
        pending += message["messages"]


class ProtobufSubject:
    """The versions of a subject. Arguments: as `AvroSubject`."""

    def __init__(self, draw: Draw, first: int, count: int, mode: str) -> None:
        self.draw = draw
        self._mode = mode
        self._files: dict[int, dict[str, Any]] = {}
        self.more: dict[str, str] = {}
        file = self._first()
        versions = [self._version(first, file, ())]
        for number in range(first + 1, first + count):
            file, changes = self._changed(file)
            versions.append(self._version(number, file, changes))
        self.versions = tuple(versions)

    def _version(self, number: int, file: dict[str, Any], changes: tuple[str, ...]) -> Version:
        self._files[number] = copy.deepcopy(file)
        return Version(number, f"{number}.proto", text_of(file), changes)

    def _first(self) -> dict[str, Any]:
        draw = self.draw
        file: dict[str, Any] = {
            "syntax": "proto2" if draw.chance(0.15) else "proto3",
            "package": "p",
            "enums": [],
            "messages": [],
        }
        root = self.message(file, 0)
        file["root"] = root["name"]
        if draw.chance(0.2):  # the topic's message is in another one, after a map
            outer = {"name": draw.name("M"), "fields": [], "messages": [root]}
            outer["fields"] = [self._new_field(file, 9, outer)]
            outer["fields"][0] |= {"type": {"map": ["string", "int32"]}, "label": "", "oneof": ""}
            root = outer
        file["messages"].append(root)
        if draw.chance(0.3):
            other = self.message(file, 1)
            file["other"] = other["name"]
            file["messages"].insert(draw.random.randint(0, 1), other)
        return file

    def message(self, file: dict[str, Any], depth: int) -> dict[str, Any]:
        """A message with fields."""
        message: dict[str, Any] = {"name": self.draw.name("M"), "fields": [], "messages": []}
        oneof = self.draw.name("o") if self.draw.chance(0.3) else ""
        for _ in range(self.draw.random.randint(1, 5 - 2 * depth)):
            field = self._new_field(file, depth, message)
            if oneof and field["label"] == "" and self.draw.chance(0.5):
                field["oneof"] = oneof if not _is_map(field) else ""
            message["fields"].append(field)
        self._label_all(file, message)
        return message

    def _new_field(
        self, file: dict[str, Any], depth: int, message: dict[str, Any]
    ) -> dict[str, Any]:
        draw = self.draw
        used = [each["number"] for each in message["fields"]] + message.get("gone", [])
        field = {
            "number": max(used, default=0) + draw.random.choice([1, 1, 1, 15]),
            "name": draw.name("f"),
            "type": self.type(file, depth, message),
            "label": draw.random.choice(["", "", "", "optional", "repeated"]),
            "oneof": "",
        }
        if _is_map(field):
            field["label"] = ""
        return field

    def type(self, file: dict[str, Any], depth: int, message: dict[str, Any]) -> Any:
        """The type of a field; a new message is put into `message`, or next to it."""
        draw = self.draw
        chosen = draw.random.random()
        if depth < _DEEPEST and chosen < 0.2:
            inner = self.message(file, depth + 1)
            (message["messages"] if draw.chance(0.6) else file["messages"]).append(inner)
            return {"ref": inner["name"]}
        if chosen < 0.3:
            name = draw.name("E")
            count = draw.random.randint(1, 4)
            values = [(f"{name}_S{number}", number) for number in range(count)]
            file["enums"].append({"name": name, "values": values})
            return {"ref": name}
        if chosen < 0.4:
            return {
                "map": [draw.random.choice(["string", "int32", "bool"]), draw.random.choice(_TYPES)]
            }
        if chosen < 0.5:
            return draw.random.choice(list(_GOOGLE))
        return draw.random.choice(_TYPES)

    def _label_all(self, file: dict[str, Any], message: dict[str, Any]) -> None:
        """Give the labels that proto2 needs."""
        if file["syntax"] == "proto2":
            for field in message["fields"]:
                if not field["label"] and not field["oneof"] and not _is_map(field):
                    field["label"] = self.draw.random.choice(["optional"] * 4 + ["required"])

    def _changed(self, file: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        names: list[str] = []
        needs = set() if self._mode == "NONE" else {"wire"}
        for _ in range(self.draw.random.choice([1, 1, 2, 3])):
            for _ in range(20):
                trial = copy.deepcopy(file)
                done = self.draw.random.choice(_CHANGES)(self, trial)
                if done is None or not needs <= done[1]:
                    continue
                for message in _messages(trial):
                    self._label_all(trial, message)
                file = trial
                names.append(done[0])
                break
        return file, tuple(names)

    def sent(self, number: int) -> Sent:
        """A random message of a version, some of the file's other message."""
        file = self._files[number]
        name = file["root"]
        if "other" in file and self.draw.chance(0.1):
            name = file["other"]
        path = _path(file, name).lstrip(".")
        pool = compiled(text_of(file))
        message = message_class(pool, path)()
        self._fill(message, 0)
        indexes = _indexes(file, name)
        content = message.SerializePartialToString()
        return Sent(number, framed(number, content, encoded_indexes(indexes)), str(message))

    def _fill(self, message: Any, depth: int) -> None:
        for field in message.DESCRIPTOR.fields:
            if not field.is_required and self.draw.chance(0.25):
                continue
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                self._fill_map(message, field)
            elif field.is_repeated:
                for _ in range(self.draw.random.choice([0, 1, 2])):
                    self._append(getattr(message, field.name), field, depth)
            elif field.message_type is not None:
                inner = getattr(message, field.name)
                inner.SetInParent()
                self._fill(inner, depth + 1)
            else:
                setattr(message, field.name, self.value(field))

    def _append(self, items: Any, field: Any, depth: int) -> None:
        if field.message_type is not None:
            self._fill(items.add(), depth + 1)
        else:
            items.append(self.value(field))

    def _fill_map(self, message: Any, field: Any) -> None:
        entry = field.message_type
        for _ in range(self.draw.random.choice([0, 1, 2])):
            key = self.value(entry.fields_by_name["key"])
            getattr(message, field.name)[key] = self.value(entry.fields_by_name["value"])

    def value(self, field: Any) -> Any:  # noqa: PLR0911 - each type has its own
        """A single value of a field."""
        draw = self.draw.random
        kind = field.cpp_type
        if field.enum_type is not None:
            known = [each.number for each in field.enum_type.values]
            return draw.choice([*known * 4, *([] if field.enum_type.is_closed else [77])])
        if field.type == field.TYPE_BYTES:
            return draw.choice([b"", b"a", "☃".encode(), "☃".encode(), b"\xff\xfe"])
        if kind == field.CPPTYPE_STRING:
            return draw.choice(_TEXTS)
        if kind == field.CPPTYPE_BOOL:
            return draw.random() < 0.6
        if kind in {field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE}:
            return draw.choice([0.0, 1.5, -2.25, float("inf")])
        if field.containing_type.full_name.startswith("google.protobuf."):
            return draw.choice([0, 5, 123_456])
        more: tuple[int, ...] = ()
        if kind in {field.CPPTYPE_INT64, field.CPPTYPE_UINT64}:
            more = (2**40, 2**63 - 1)
        if kind in {field.CPPTYPE_INT64, field.CPPTYPE_INT32}:
            more += (-1, -(2**31))
        return draw.choice((*_INTS, *more))


def _indexes(file: dict[str, Any], name: str) -> tuple[int, ...]:
    """The place of a message in its file, as Confluent's serializers count: by the text."""
    pending: list[tuple[tuple[int, ...], list[dict[str, Any]]]] = [((), file["messages"])]
    while pending:
        (above, messages) = pending.pop()
        for index, message in enumerate(messages):
            if message["name"] == name:
                return (*above, index)
            pending.append(((*above, index), message["messages"]))
    raise KeyError(name)


def encoded_indexes(indexes: tuple[int, ...]) -> bytes:
    """The indexes as zigzag varints; those of the first message are one zero."""
    if indexes == (0,):
        return b"\0"
    return bytes(2 * each for each in (len(indexes), *indexes))


def _is_map(field: dict[str, Any]) -> bool:
    return isinstance(field["type"], dict) and "map" in field["type"]


def _some_field(subject: ProtobufSubject, file: dict[str, Any]) -> tuple[Any, Any] | None:
    message = subject.draw.random.choice(list(_messages(file)))
    if not message["fields"]:
        return None
    return message, subject.draw.random.choice(message["fields"])


def _rename(subject: ProtobufSubject, file: dict[str, Any]) -> tuple[str, set[str]] | None:
    picked = _some_field(subject, file)
    if picked is None:
        return None
    picked[1]["name"] = subject.draw.name("f")
    return "field renamed", {"wire"}


def _add(subject: ProtobufSubject, file: dict[str, Any]) -> tuple[str, set[str]] | None:
    message = subject.draw.random.choice(list(_messages(file)))
    message["fields"].append(subject._new_field(file, 1, message))
    return "field added", {"wire"}


def _remove(subject: ProtobufSubject, file: dict[str, Any]) -> tuple[str, set[str]] | None:
    picked = _some_field(subject, file)
    if picked is None or len(picked[0]["fields"]) < 2:
        return None
    picked[0]["fields"].remove(picked[1])
    picked[0].setdefault("gone", []).append(picked[1]["number"])
    return "field removed", {"wire"}


def _same_wire(subject: ProtobufSubject, file: dict[str, Any]) -> tuple[str, set[str]] | None:
    picked = _some_field(subject, file)
    if picked is None or not isinstance(picked[1]["type"], str):
        return None
    for group in _GROUPS:
        if picked[1]["type"] in group:
            picked[1]["type"] = subject.draw.random.choice(group)
            if group is _VARINT and subject.draw.chance(0.3):
                enums = [each["name"] for each in file["enums"]]
                picked[1]["type"] = {"ref": enums[0]} if enums else "int32"
            return "type of the same wire format", {"wire"}
    return None


def _other_type(subject: ProtobufSubject, file: dict[str, Any]) -> tuple[str, set[str]] | None:
    picked = _some_field(subject, file)
    if picked is None or picked[1]["oneof"]:
        return None
    picked[1]["type"] = subject.type(file, 1, picked[0])
    if _is_map(picked[1]):
        picked[1]["label"] = ""
    return "another type", set()


def _repeat(subject: ProtobufSubject, file: dict[str, Any]) -> tuple[str, set[str]] | None:
    picked = _some_field(subject, file)
    if picked is None or _is_map(picked[1]) or picked[1]["oneof"]:
        return None
    is_repeated = picked[1]["label"] == "repeated"
    picked[1]["label"] = "" if is_repeated else "repeated"
    return ("repeated made singular" if is_repeated else "singular made repeated"), {"wire"}


def _presence(subject: ProtobufSubject, file: dict[str, Any]) -> tuple[str, set[str]] | None:
    picked = _some_field(subject, file)
    labels = {"": "optional", "optional": ""}
    if (
        picked is None
        or picked[1]["label"] not in labels
        or _is_map(picked[1])
        or picked[1]["oneof"]
    ):
        return None
    picked[1]["label"] = labels[picked[1]["label"]]
    return "presence changed", {"wire"}


def _into_oneof(subject: ProtobufSubject, file: dict[str, Any]) -> tuple[str, set[str]] | None:
    picked = _some_field(subject, file)
    if picked is None or _is_map(picked[1]) or picked[1]["label"] in {"repeated", "required"}:
        return None
    if picked[1]["oneof"]:
        picked[1]["oneof"] = ""
        return "moved out of a oneof", {"wire"}
    others = [each["oneof"] for each in picked[0]["fields"] if each["oneof"]]
    picked[1]["oneof"] = others[0] if others else subject.draw.name("o")
    picked[1]["label"] = ""
    return "moved into a oneof", {"wire"}


def _move(subject: ProtobufSubject, file: dict[str, Any]) -> tuple[str, set[str]] | None:
    """Move a message that is not the topic's out of another one."""
    for message in _messages(file):
        inner = [each for each in message["messages"] if each["name"] != file["root"]]
        if inner:
            message["messages"].remove(inner[0])
            file["messages"].append(inner[0])
            return "message moved", {"wire"}
    return None


def _reorder(subject: ProtobufSubject, file: dict[str, Any]) -> tuple[str, set[str]] | None:
    if len(file["messages"]) < 2:
        return None
    subject.draw.random.shuffle(file["messages"])
    return "messages reordered", {"wire"}


def _shuffle(subject: ProtobufSubject, file: dict[str, Any]) -> tuple[str, set[str]] | None:
    message = subject.draw.random.choice(list(_messages(file)))
    subject.draw.random.shuffle(message["fields"])
    return "fields reordered", {"wire"}


def _enum(subject: ProtobufSubject, file: dict[str, Any]) -> tuple[str, set[str]] | None:
    if not file["enums"]:
        return None
    enum = subject.draw.random.choice(file["enums"])
    if len(enum["values"]) > 1 and subject.draw.chance(0.5):
        enum["values"].pop()
        return "value of an enum removed", {"wire"}
    number = enum["values"][-1][1] + 1
    enum["values"].append((f"{enum['name']}_{subject.draw.name('T')}", number))
    return "value of an enum added", {"wire"}


def _rename_root(subject: ProtobufSubject, file: dict[str, Any]) -> tuple[str, set[str]] | None:
    for message in _messages(file):
        if message["name"] == file["root"]:
            file["root"] = message["name"] = subject.draw.name("M")
            return "message renamed", set()
    return None


_CHANGES: Final[tuple[Change, ...]] = (
    _rename,
    _rename,
    _add,
    _add,
    _remove,
    _same_wire,
    _same_wire,
    _other_type,
    _repeat,
    _presence,
    _into_oneof,
    _move,
    _reorder,
    _shuffle,
    _enum,
    _rename_root,
)
