"""JSON objects: types, what is refused, inference, JSON Schema."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logwright.config.decoding import JsonSpec, read_decoding
from logwright.config.json_fields import JsonField
from logwright.config.marked import read_marked_text
from logwright.config.policy_checks import Checker
from logwright.decode.infer import infer
from logwright.decode.json_fields import struct_of
from logwright.errors import PolicyError
from tests.unit.decode.records import by_value, columns, reasons, values

UTC = dt.UTC


def spec(fields: str) -> JsonSpec:
    """A spec whose schema is this YAML mapping."""
    text = f"value: {{format: json, schema: {fields}}}"
    document, problems = read_marked_text(text, Path("p.yml"))
    checker = Checker()
    decoding = read_decoding(checker, document)
    assert ([], []) == (problems, checker.problems)
    assert decoding is not None
    assert isinstance(decoding.value, JsonSpec)
    return decoding.value


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("long", "9223372036854775807", 2**63 - 1),
        ("long", "-9223372036854775808", -(2**63)),
        ("int", "2147483647", 2**31 - 1),
        ("double", "1", 1.0),
        ("double", "9007199254740993", 9007199254740992.0),
        ("double", "1e-400", 0.0),
        ("float", "1.5", 1.5),
        ("boolean", "true", True),
        ("string", '"\\ud83d\\ude00 \\u0000"', "😀 \x00"),
        ("binary", '"AP8="', b"\x00\xff"),
        ("date", '"2024-02-29"', dt.date(2024, 2, 29)),
        ("timestamp", "1500", dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        ("timestamp", '"1970-01-01T00:00:01.000002Z"', dt.datetime(1970, 1, 1, 0, 0, 1, 2, UTC)),
        ("timestamp", '"1969-12-31T23:59:59-01:00"', dt.datetime(1970, 1, 1, 0, 59, 59, 0, UTC)),
        ("decimal(10,2)", "12.3", Decimal("12.30")),
        ("decimal(10,2)", '"99999999.99"', Decimal("99999999.99")),
        ("decimal(38,0)", '"99999999999999999999999999999999999999"', Decimal(10**38 - 1)),
        ("decimal(4,2)", "0", Decimal("0.00")),
        ("decimal(38,20)", "0.1000000000000000055", Decimal("0.10000000000000000550")),
        ("decimal(38,0)", "100000000000000000001", Decimal(10**20 + 1)),
        ("decimal(38,0)", "-9223372036854775809", Decimal(-(2**63) - 1)),
        ("decimal(38,0)", "9223372036854775807", Decimal(2**63 - 1)),
        ("decimal(38,10)", "12345678.123456789", Decimal("12345678.1234567890")),
        ("decimal(38,0)", "1.2345678901234567e16", Decimal(12345678901234567)),
        ("float", "3.4028235e38", 3.4028234663852886e38),
        ("json", '{"a": [1, null]}', '{"a":[1,null]}'),
        ("json", "false", "false"),
        ("long", "null", None),
    ],
)
def test_type(kind: str, text: str, expected: object) -> None:
    """Each type takes what is exactly one of its values; null and a missing field are null."""
    result = by_value(spec(f'{{f: "{kind}"}}'), f'{{"f": {text}}}'.encode(), b"{}")
    assert ([expected, None], []) == (columns(result, "f"), result.refused)


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("long", "9223372036854775808", "is out of the range of a long"),
        ("long", "1.0", "is not a long"),
        ("long", "true", "is not a long"),
        ("long", '"1"', "is not a long"),
        ("long", "18446744073709551616", "is not a long"),
        ("int", "2147483648", "is out of the range of an int"),
        ("double", '"1"', "is not a number"),
        ("double", "true", "is not a number"),
        ("float", "1e39", "is out of the range of a float"),
        ("boolean", "1", "is not a boolean"),
        ("string", "1", "is not a string"),
        ("binary", '"A"', "is not base64"),
        ("binary", '"ß"', "is not base64"),
        ("date", '"2023-02-29"', "is not a date (YYYY-MM-DD)"),
        ("date", '"20240229"', "is not a date (YYYY-MM-DD)"),
        (
            "timestamp",
            '"2024-01-01T00:00:00"',
            "is not a timestamp (ISO 8601 with a zone, or milliseconds)",
        ),
        ("timestamp", "9223372036854775807", "is not a time of the years 1 to 9999"),
        ("decimal(4,2)", "123", "does not fit into decimal(4,2)"),
        ("decimal(4,2)", "1.234", "does not fit into decimal(4,2)"),
        ("decimal(4,2)", '"NaN"', "is not a decimal"),
        ("decimal(4,2)", '"1e999999999"', "does not fit into decimal(4,2)"),
        ("decimal(38,20)", "0.123456789012345678901", "does not fit into decimal(38,20)"),
        ("[long]", "[1, 2.5]", ".element is not a long"),
        ("[long]", '{"0": 1}', "is not a list"),
        ("{g: long}", "[1]", "is not an object"),
        ("{g: long}", '{"g": "x"}', ".g is not a long"),
        ("{g: long not null}", "{}", ".g is missing or null"),
        ("long not null", "null", "is missing or null"),
    ],
)
def test_refused_field(kind: str, text: str, reason: str) -> None:
    """A reason names the field; the records before and after are decoded."""
    quoted = kind if kind[0] in "[{" else f'"{kind}"'
    good = b'{"f": null, "g": 1}' if "not null" not in kind or kind[0] == "{" else b'{"f": 1}'
    result = by_value(spec(f"{{f: {quoted}}}"), good, f'{{"f": {text}}}'.encode(), good)
    path = "field f" if reason.startswith(".") else "field f "
    assert [(1, "value", f"{path}{reason}")] == result.refused


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b'{"f": 1} x', "is not JSON"),
        (b'{"f": NaN}', "is not JSON"),
        (b'{"f": 1e400}', "is not JSON"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        (b'{"f": "\xff"}', "is not JSON"),
        (b'{"f": "\\ud800"}', "is not JSON"),
        pytest.param(b'{"f": ' + b"[" * 100_000, "is not JSON", id="never closed"),
        (b"null", "is not a JSON object"),
        (b"[1]", "is not a JSON object"),
        (b"1", "is not a JSON object"),
    ],
)
def test_refused_value(content: bytes, reason: str) -> None:
    """What is not one JSON object in UTF-8 is refused."""
    assert [reason] == reasons(by_value(spec("{f: json}"), b"{}", content))


def test_too_deep() -> None:
    """Some versions of orjson read deeper than they write."""
    content = b'{"f": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    (reason,) = reasons(by_value(spec("{f: json}"), b"{}", content))
    assert reason in {"is not JSON", "field f is nested too deep"}


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value above the limit is not parsed."""
    monkeypatch.setattr("logwright.decode.json_values.MAX_VALUE_BYTES", 10)
    assert ["is larger than 16 MiB"] == reasons(by_value(spec("{f: json}"), b"{}", b" " * 11))


def test_nested() -> None:
    """Dots and mappings are the same; lists and objects nest; unknown fields are ignored."""
    nested = spec("{a.b: long, a: {c: [{d: string}]}, e: [[boolean]]}")
    other = spec("{a: {b: long, c: [{d: string}]}, e: [[boolean]]}")
    assert nested == other
    value = {"a": {"b": 1, "c": [{"d": "x", "z": 0}, None, {}]}, "e": [[True], []], "y": 0}
    result = by_value(nested, json.dumps(value).encode(), b'{"a": null}')
    assert [] == result.refused
    assert [
        {"key": b"k", "a": {"b": 1, "c": [{"d": "x"}, None, {"d": None}]}, "e": [[True], []]},
        {"key": b"k", "a": None, "e": None},
    ] == result.rows


def test_an_item_of_an_item_is_refused_with_its_row() -> None:
    """Of lists in lists each has its own positions; the good rows around it stay."""
    lists = spec("{e: [[long]]}")
    good, bad = b'{"e": [[1], [2], [3, 4]]}', b'{"e": [[5], ["x"]]}'
    result = by_value(lists, good, bad, good)
    assert [1] == [number for number, _, _ in result.refused]
    assert [[[1], [2], [3, 4]]] * 2 == [row["e"] for row in result.rows]


def test_names_that_are_taken() -> None:
    """A field with the name of another column gets a prefix, also if only its case differs."""
    result = by_value(
        spec("{offset: long, KEY: long, id: long, Id: long, value_offset: long}"),
        b'{"offset": 1, "KEY": 2, "id": 3, "Id": 4, "value_offset": 5}',
    )
    (row,) = result.rows
    assert {
        "key": b"k",
        "value_offset": 1,
        "value_KEY": 2,
        "id": 3,
        "value_Id": 4,
        "value_value_offset": 5,
    } == row


def test_the_last_of_equal_names_counts() -> None:
    """As for most parsers; the value contracts do so too."""
    assert [2] == columns(by_value(spec("{f: long}"), b'{"f": 1, "f": 2}'), "f")


@pytest.mark.parametrize(
    ("objects", "kind"),
    [
        ([1, 2], "long"),
        ([1, 2.5], "double"),
        ([1, None], "long"),
        ([True], "boolean"),
        (["x", None], "string"),
        ([1, "x"], "json"),
        ([True, 1], "json"),
        ([None], "json"),
        ([2**63], "double"),
        ([{}], "json"),
        ([[1], [2.5]], "array(double)"),
        ([[], [None]], "array(json)"),
        ([[1], {"a": 1}], "json"),
        ([{"a": 1}, {"b": "x"}], "struct(a long, b string)"),
        ([{"a": 1}, {"a": 1.5}], "struct(a double)"),
    ],
)
def test_inference(objects: list[object], kind: str) -> None:
    """The widest type of a field's values."""
    (field,) = infer({"f": one} for one in objects)
    assert kind == shown(field)


def shown(field: JsonField) -> str:
    """A field's type."""
    if field.type == "struct":
        return f"struct({', '.join(f'{one.name} {shown(one)}' for one in field.fields)})"
    return f"array({shown(field.fields[0])})" if field.type == "array" else field.type


def test_inferred_from_the_first_records() -> None:
    """All that the sample has fits; a later value that does not is refused."""
    sample = [values(b'{"a": 1}', None, b"no"), values(b'{"b": {"c": "x"}, "a": 2}')]
    result = by_value(JsonSpec(), b'{"a": 3, "d": 1}', b'{"a": "x"}', sample=sample)
    assert [{"key": b"k", "a": 3, "b": None}] == result.rows
    assert ["field a is not a long"] == reasons(result)


def test_nothing_to_infer() -> None:
    """Without an object among the first records, a schema must be given."""
    with pytest.raises(PolicyError, match="cannot be inferred"):
        by_value(JsonSpec(), b"{}", sample=[values(b"[]", None, b"{}")])


def test_too_many_fields_to_infer() -> None:
    """Fields of nested objects become JSON, and there are at most 2000."""
    wide = infer([{"o": {f"f{number}": 1 for number in range(3000)}, "x": 1}])
    assert [("o", "json"), ("x", "long")] == [(one.name, one.type) for one in wide]
    assert 2000 == len(infer([{f"f{number}": 1 for number in range(3000)}]))


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_names_that_are_no_columns(name: str) -> None:
    """An inferred field needs a name of bounded length."""
    assert ["a"] == [one.name for one in infer([{name: 1, "a": 1, "o": {name: 1}}])][:1]
    assert "json" == infer([{"o": {name: 1}}])[0].type


def test_too_deep_to_infer() -> None:
    """What is nested deeper than 20 is JSON."""
    value: Any = 1
    for _ in range(100):
        value = {"a": value}
    kind = struct_of(infer([value])).type
    depth = 0
    while pa.types.is_struct(kind):
        kind, depth = kind.field("a").type, depth + 1
    assert (pa.string(), True) == (kind, depth <= 20)
