"""Messages of another type than that of the columns: fields are known by their numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format, message_factory

from logwright.decode.protobuf import ProtobufDecoder
from logwright.decode.protoc import compile_file

LOST = "has a value in field {} that does not fit the columns"


def type_of(directory: Path, name: str, text: str, syntax: str = "proto3") -> Any:
    """The message M of a file."""
    (directory / name).mkdir()
    place = directory / name / "m.proto"
    imported = 'import "google/protobuf/struct.proto"; ' if "google" in text else ""
    place.write_text(f'syntax = "{syntax}"; {imported}{text}')
    return compile_file(place).message("M")


@pytest.mark.parametrize(
    ("written", "columns", "value"),
    [
        (
            "message M { int64 id = 1; string a = 2; }",
            "message M { int64 id = 1; string b = 2; }",
            {"id": 1, "a": "x"},
        ),
        ("message M { int64 a = 1; }", "message M { int32 a = 1; }", {"a": 7}),
        ("message M { int32 a = 1; }", "message M { int64 a = 1; }", {"a": -7}),
        ("message M { uint32 a = 1; }", "message M { uint64 a = 1; }", {"a": 2**32 - 1}),
        ("message M { bool a = 1; }", "message M { int32 a = 1; }", {"a": True}),
        ("message M { string a = 1; }", "message M { bytes a = 1; }", {"a": "é"}),
        ("message M { optional int32 a = 1; }", "message M { int64 a = 1; }", {"a": 0}),
        ("message M { int32 a = 1; }", "message M { optional int64 a = 1; }", {"a": 0}),
        ("message M { string a = 1; }", "message M { repeated string a = 1; }", {"a": "x"}),
        ("message M { repeated string a = 1; }", "message M { string a = 1; }", {"a": ["x"]}),
        (
            "message M { int32 a = 1; int32 b = 2; }",
            "message M { oneof c { int32 a = 1; int32 b = 2; } }",
            {"b": 2},
        ),
        (
            "message N { int64 x = 1; } message M { repeated N n = 1; }",
            "message N { int32 y = 1; } message M { repeated N m = 1; }",
            {"n": [{"x": 1}, {}]},
        ),
        (
            "message N { int64 x = 1; } message M { repeated N n = 1; }",
            "message N { int64 x = 1; } message M { oneof c { N n = 1; } }",
            {"n": [{"x": 1}]},
        ),
        (
            "message M { map<string, int64> m = 1; }",
            "message M { map<string, int32> m = 1; }",
            {"m": {"k": 5}},
        ),
        (
            "message N { int64 x = 1; int32 y = 2; } message M { repeated N n = 1; }",
            "message M { map<int32, int32> m = 1; }",
            {"n": [{"x": 9, "y": 5}]},
        ),
        (
            "message M { map<int32, string> m = 1; }",
            "message N { int64 x = 1; string y = 2; } message M { repeated N n = 1; }",
            {"m": {"9": "a", "1": "b"}},
        ),
        (
            "message M { int32 a = 1; string gone = 9; }",
            "message M { int32 a = 1; }",
            {"a": 1, "gone": "x"},
        ),
    ],
)
def test_as_googles_parser(written: str, columns: str, value: Any, tmp_path: Path) -> None:
    """What the newer type has without a loss is what Google's parser makes of the same bytes."""
    (theirs, ours) = (type_of(tmp_path, "w", written), type_of(tmp_path, "c", columns))
    message = json_format.ParseDict(value, message_factory.GetMessageClass(theirs)())
    content = message.SerializeToString()
    official = message_factory.GetMessageClass(ours).FromString(content)
    (expected,) = ProtobufDecoder(ours).decode_values([official.SerializeToString()]).values
    part = ProtobufDecoder(ours, theirs).decode_values([content])
    assert {} == part.reasons
    assert expected.as_py() == part.values[0].as_py()
    for field, shown in json_format.MessageToDict(
        official, preserving_proto_field_name=True
    ).items():
        assert shown, field
        assert part.values[0].as_py()[field] is not None


def test_entries_have_no_order(tmp_path: Path) -> None:
    """Messages that are read as the entries of a map are the same in the order of their keys."""
    theirs = "message N { int64 x = 1; int32 y = 2; } message M { repeated N n = 1; }"
    written = type_of(tmp_path, "w", theirs)
    columns = type_of(tmp_path, "c", "message M { map<int32, int32> m = 1; }")
    value = {"n": [{"x": 9, "y": 5}, {"x": 1}]}
    message = json_format.ParseDict(value, message_factory.GetMessageClass(written)())
    part = ProtobufDecoder(columns, written).decode_values([message.SerializeToString()])
    assert ({}, {9: 5, 1: 0}) == (part.reasons, dict(part.values[0].as_py()["m"]))


@pytest.mark.parametrize(
    ("written", "columns", "value", "field"),
    [
        ("message M { int64 a = 1; }", "message M { int32 a = 1; }", {"a": 2**40}, "a"),
        ("message M { uint32 a = 1; }", "message M { int32 a = 1; }", {"a": 2**32 - 1}, "a"),
        ("message M { sint32 a = 1; }", "message M { int32 a = 1; }", {"a": -1}, "a"),
        ("message M { int32 a = 1; }", "message M { string b = 1; }", {"a": 1}, "b"),
        ("message M { double a = 1; }", "message M { float a = 1; }", {"a": 0.5}, "a"),
        ("message M { fixed32 a = 1; }", "message M { float a = 1; }", {"a": 5}, "a"),
        (
            "message M { int32 a = 1; int32 b = 2; }",
            "message M { oneof c { int32 a = 1; int32 b = 2; } }",
            {"a": 1, "b": 2},
            "a",
        ),
        (
            "message M { repeated string a = 1; }",
            "message M { string a = 1; }",
            {"a": ["x", "y"]},
            "a",
        ),
        ("message M { repeated int32 a = 1; }", "message M { int32 a = 1; }", {"a": [5]}, "a"),
        (
            "message N { int64 x = 1; } message M { repeated N n = 1; }",
            "message N { int32 x = 1; } message M { repeated N n = 1; }",
            {"n": [{"x": 1}, {"x": 2**40}]},
            "n.x",
        ),
        (
            "message M { map<string, int64> m = 1; }",
            "message M { map<string, int32> m = 1; }",
            {"m": {"k": 2**40}},
            "m.value",
        ),
        (
            "message N { int32 x = 1; } message M { repeated N n = 1; }",
            "message M { map<int32, int32> m = 1; }",
            {"n": [{"x": 1}, {"x": 1}]},
            "m",
        ),
        (
            "message N { P p = 1; } message P { int32 x = 1; } message M { repeated N n = 1; }",
            "message M { map<int32, int32> m = 1; }",
            {"n": [{"p": {"x": 1}}]},
            "m",
        ),
        (
            "message N { int32 x = 1; } message M { N n = 1; }",
            "message M { map<string, string> m = 1; }",
            {"n": {}},
            "m",
        ),
    ],
)
def test_what_the_parser_loses_is_refused(
    written: str, columns: str, value: Any, field: str, tmp_path: Path
) -> None:
    """Google's parser ignores it, or cuts it, without a word; a message without it is a row."""
    (theirs, ours) = (type_of(tmp_path, "w", written), type_of(tmp_path, "c", columns))
    made = message_factory.GetMessageClass(theirs)
    content = json_format.ParseDict(value, made()).SerializeToString()
    part = ProtobufDecoder(ours, theirs).decode_values([content, made().SerializeToString()])
    assert {0: LOST.format(field)} == part.reasons
    assert part.values[1].is_valid


def test_unknown_number_of_a_closed_enum(tmp_path: Path) -> None:
    """proto2 takes a number that its enum does not have for an unknown field."""
    text = "enum E {{ A = 0; B = 1; {} }} message M {{ optional E e = 1; }}"
    theirs = type_of(tmp_path, "w", text.format("C = 2;"), "proto2")
    ours = type_of(tmp_path, "c", text.format(""), "proto2")
    made = message_factory.GetMessageClass(theirs)
    part = ProtobufDecoder(ours, theirs).decode_values(
        [made(e=2).SerializeToString(), made(e=1).SerializeToString()]
    )
    assert ({0: LOST.format("e")}, {"e": "B"}) == (part.reasons, part.values[1].as_py())


def test_a_message_of_another_type(tmp_path: Path) -> None:
    """Bytes of which nothing is known are not a row of defaults; no bytes are."""
    ours = type_of(tmp_path, "c", "message M { int32 a = 1; }")
    part = ProtobufDecoder(ours).decode_values([b"\x3a\x01x", b""])
    assert {0: "has none of the fields of the columns"} == part.reasons
    assert {"a": 0} == part.values[1].as_py()


def test_json_of_google(tmp_path: Path) -> None:
    """Struct, Value and ListValue contain themselves, and are JSON."""
    ours = type_of(
        tmp_path,
        "c",
        "message M { google.protobuf.Struct s = 1; google.protobuf.Value v = 2; }",
    )
    value = {"s": {"a": [1.5, None, {"b": "x"}]}, "v": "text"}
    message = json_format.ParseDict(value, message_factory.GetMessageClass(ours)())
    part = ProtobufDecoder(ours).decode_values([message.SerializeToString()])
    assert ({}, value) == (
        part.reasons,
        {name: json.loads(each) for name, each in part.values[0].as_py().items()},
    )


def test_types_of_the_same_names_are_compared_each_time(tmp_path: Path) -> None:
    """What was found of some types is never taken for others, as of a collected object's number."""
    for number in range(20):
        theirs = type_of(
            tmp_path, f"w{number}", "message N { double d = 1; } message M { N n = 1; }"
        )
        ours = type_of(tmp_path, f"c{number}", "message M { int64 n = 1; }")
        made = message_factory.GetMessageClass(theirs)
        for _ in range(3):
            part = ProtobufDecoder(ours, theirs).decode_values(
                [made(n={"d": 1.5}).SerializeToString()]
            )
            assert {0: LOST.format("n")} == part.reasons
