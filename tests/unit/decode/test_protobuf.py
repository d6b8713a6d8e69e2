"""Messages of Protobuf."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import message_factory
from google.protobuf.json_format import ParseDict

from logwright.config.decoding import ProtobufSpec
from logwright.decode.protobuf import ProtobufDecoder, message_at
from logwright.decode.protoc import compile_file
from logwright.decode.refusal import Refused
from logwright.errors import PolicyError
from tests.unit.decode.records import Result, by_value, columns, reasons

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "other/part.proto";
enum Kind { NONE = 0; GOLD = 1; }
message Customer {
  message Address { string city = 1; repeated string lines = 2; }
  int32 i32 = 1; sint64 s64 = 2; uint32 u32 = 3; uint64 u64 = 4; fixed32 f32 = 5;
  float f = 6; double d = 7; bool b = 8; string s = 9; bytes raw = 10; Kind kind = 11;
  optional int64 maybe = 12; Address address = 13; repeated Address old = 14;
  map<string, int32> counts = 15; map<int64, Address> places = 16; repeated Kind kinds = 17;
  oneof contact { string mail = 18; int64 phone = 19; }
  google.protobuf.Timestamp since = 20; google.protobuf.Int64Value wrapped = 21;
  other.Part part = 22; google.protobuf.UInt64Value big = 23;
}
message Order { int64 id = 1; }
"""
PART = 'syntax = "proto3"; package other; message Part { sint32 n = 1; }'
OLD = """
syntax = "proto2";
message Old { required int64 id = 1; optional string s = 2 [default = "x"]; optional In in = 3;
  message In { required int32 n = 1; } }
"""
UTC = dt.UTC


VALUES: dict[str, Any] = {
    "i32": -(2**31),
    "s64": -(2**63),
    "u32": 2**32 - 1,
    "u64": 2**64 - 1,
    "f32": 2**32 - 1,
    "f": 0.5,
    "d": -0.1,
    "b": True,
    "s": "é",
    "kind": 1,
    "maybe": 0,
    "address": {"city": "x", "lines": ["a", "b"]},
    "old": [{"city": "y"}],
    "counts": {"k": 1},
    "kinds": [1, 0],
    "phone": 5,
    "since": "2024-01-01T00:00:00.000005999Z",
    "wrapped": "0",
    "part": {"n": -1},
    "big": str(2**64 - 1),
}
"""A value of every field, but for bytes and the map of messages."""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A directory with schemas."""
    (tmp_path / "other").mkdir()
    (tmp_path / "shop.proto").write_text(PROTO)
    (tmp_path / "other/part.proto").write_text(PART)
    (tmp_path / "old.proto").write_text(OLD)
    return tmp_path


def message(base: Path, file: str, name: str) -> Any:
    """The class of a message."""
    return message_factory.GetMessageClass(compile_file(base / file).message(name))


def decoded(base: Path, *content: bytes | None, name: str = "shop.Customer") -> Result:
    """Values of a message of the shop."""
    return by_value(ProtobufSpec(schema_file="shop.proto", message=name), *content, base=base)


def test_all_types(base: Path) -> None:
    """Numbers with their ranges, presence, lists, maps, well-known types."""
    made = message(base, "shop.proto", "shop.Customer")
    full = ParseDict(VALUES, made(raw=b"\xff"))
    full.places[-1].city = "z"
    result = decoded(base, full.SerializeToString(), b"", None)
    first, second, tombstone = result.rows
    address = {"city": "x", "lines": ["a", "b"]}
    assert {
        "key": b"k",
        "i32": -(2**31),
        "s64": -(2**63),
        "u32": 2**32 - 1,
        "u64": Decimal(2**64 - 1),
        "f32": 2**32 - 1,
        "f": 0.5,
        "d": -0.1,
        "b": True,
        "s": "é",
        "raw": b"\xff",
        "kind": "GOLD",
        "maybe": 0,
        "address": address,
        "old": [{"city": "y", "lines": []}],
        "counts": [("k", 1)],
        "places": [(-1, {"city": "z", "lines": []})],
        "kinds": ["GOLD", "NONE"],
        "mail": None,
        "phone": 5,
        "since": dt.datetime(2024, 1, 1, 0, 0, 0, 5, UTC),
        "wrapped": 0,
        "part": {"n": -1},
        "big": Decimal(2**64 - 1),
    } == first
    present = {name: value for name, value in second.items() if value is not None}
    assert {
        "key": b"k",
        **dict.fromkeys(("i32", "s64", "u32", "u64", "f32"), 0),
        "f": 0.0,
        "d": 0.0,
        "b": False,
        "s": "",
        "raw": b"",
        "kind": "NONE",
        "old": [],
        "counts": [],
        "places": [],
        "kinds": [],
    } == present
    assert {b"k", None} == set(tombstone.values())
    assert [2] == result.deleted


def test_evolution(base: Path) -> None:
    """Fields that the schema does not have are ignored, values of an enum without a name are
    their number: both are Protobuf's rules.
    """
    made = message(base, "shop.proto", "shop.Customer")
    content = made(s="x", kind=7).SerializeToString() + b"\xa2\x06\x03abc"
    (row,) = decoded(base, content).rows
    assert ("x", "7") == (row["s"], row["kind"])


@pytest.mark.parametrize(
    "content",
    [
        b"\x08",
        b"\x08" + b"\x80" * 11,
        b"\x4a\x05abc",
        b"\x4a\xff\xff\xff\xff\x07abc",
        b"\x4a\x02\xff\xfe",
        b"\x07",
        b"\x00\x00",
        b"\x6b" * 10_000,
        b"plain text",
    ],
)
def test_refused(content: bytes, base: Path) -> None:
    """Truncated fields, huge lengths, invalid UTF-8, wrong wire types, deep groups."""
    result = decoded(base, b"", content, b"")
    assert [(1, "value", "is not a message shop.Customer")] == result.refused


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [(-62_135_596_801, 0), (253_402_300_800, 0), (2**63 - 1, 0), (0, -1), (0, 1_000_000_000)],
)
def test_timestamp_out_of_range(seconds: int, nanos: int, base: Path) -> None:
    """A timestamp is a moment of the years 1 to 9999."""
    made = message(base, "shop.proto", "shop.Customer")
    wrong = made()
    wrong.since.seconds, wrong.since.nanos = seconds, nanos
    assert ["has a timestamp that is not of the years 1 to 9999"] == reasons(
        decoded(base, b"", wrong.SerializeToString())
    )


def test_required_fields(base: Path) -> None:
    """A field that proto2 requires must be there, nested too; a default is not a value."""
    made = message(base, "old.proto", "Old")
    inner = made(id=1)
    getattr(inner, "in").SetInParent()
    contents = (made(id=1).SerializeToString(), b"", inner.SerializePartialToString())
    spec = ProtobufSpec(schema_file="old.proto", message="Old")
    result = by_value(spec, *contents, base=base)
    assert [{"key": b"k", "id": 1, "s": None, "in": None}] == result.rows
    assert [(1, "value", "misses a required field"), (2, "value", "misses a required field")] == (
        result.refused
    )


@pytest.mark.parametrize(
    ("text", "name", "problem"),
    [
        ("message", "M", r"s.proto: the schema is not accepted by protoc: s.proto:1:"),
        ('syntax = "proto3"; import "no.proto"; message M {}', "M", "no.proto"),
        ('syntax = "proto3"; message N {}', "M", "has no message M"),
        ('syntax = "proto3"; message M {}', "M", "has no fields that can be columns"),
        (
            'syntax = "proto3"; message M { N n = 1; } message N {}',
            "M",
            "has no fields that can be columns",
        ),
        ('syntax = "proto3"; message M { M m = 1; }', "M", "is recursive: M contains itself"),
        (
            'syntax = "proto3"; message M { N n = 1; } message N { repeated M m = 1; }',
            "M",
            "is recursive: M contains itself",
        ),
    ],
)
def test_unusable_schema(text: str, name: str, problem: str, tmp_path: Path) -> None:
    """A schema that cannot be columns is an error of the policies, with its file."""
    (tmp_path / "s.proto").write_text(text)
    with pytest.raises(PolicyError, match=problem):
        by_value(ProtobufSpec(schema_file="s.proto", message=name), base=tmp_path)


def test_places_of_messages(base: Path) -> None:
    """Indexes lead to a message of the file, and to none that it does not have."""
    compiled = compile_file(base / "shop.proto")
    for indexes, name in (
        ((0,), "shop.Customer"),
        ((0, 0), "shop.Customer.Address"),
        ((1,), "shop.Order"),
    ):
        assert name == message_at(compiled, indexes).full_name
    for wrong in ((5,), (-1,), (0, 9), ()):
        with pytest.raises(Refused):
            message_at(compiled, wrong)


def test_places_after_a_map(tmp_path: Path) -> None:
    """Readers of Confluent's count the messages of the text; some writers count the entries of
    maps, too. A place that is another message by the other count is refused, unless the message is
    named.
    """
    text = (
        'syntax = "proto3"; message Out { map<string, string> m = 1; message A { string a = 1; }'
        " message B { string b = 1; } }"
    )
    (tmp_path / "m.proto").write_text(text)
    compiled = compile_file(tmp_path / "m.proto")
    assert "Out.A" == message_at(compiled, (0, 0)).full_name
    for indexes, names in (((0, 1), ("Out.A", "Out.B")), ((0, 2), ("Out.B",))):
        for name in (None, "Out"):
            with pytest.raises(Refused, match="in two ways"):
                message_at(compiled, indexes, name)
        for name in names:
            assert name == message_at(compiled, indexes, name).full_name
    with pytest.raises(Refused, match="unknown message"):
        message_at(compiled, (0, 3), "Out.B")


def test_messages_of_an_import(tmp_path: Path) -> None:
    """A file that only hands on another one stands for that."""
    (tmp_path / "part.proto").write_text('syntax = "proto3"; message P { int32 n = 1; }')
    (tmp_path / "m.proto").write_text('syntax = "proto3"; import public "part.proto";')
    assert "P" == message_at(compile_file(tmp_path / "m.proto"), (0,)).full_name


def test_too_large(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value above the limit is not parsed."""
    made = message(base, "shop.proto", "shop.Order")
    decoder = ProtobufDecoder(made.DESCRIPTOR)
    monkeypatch.setattr("logwright.decode.protobuf.MAX_VALUE_BYTES", 1)
    result = decoded(base, b"", made(id=1).SerializeToString(), name="shop.Order")
    assert ["is larger than 16 MiB"] == reasons(result)
    assert [0] == columns(result, "id")
    assert "shop.Order" == decoder.name
