"""Columns of headers: the last header of a name, as text, or the record is refused alone."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logwright.config.decoding import (
    DebeziumSpec,
    Decoding,
    InternalSpec,
    JsonSpec,
    RegistrySpec,
    ScalarSpec,
    decoding_of,
)
from logwright.config.json_fields import JsonField
from logwright.config.policies import check_policies
from logwright.config.table import tables_of
from logwright.decode.dumped import decoded_records
from logwright.decode.headers import of_headers
from logwright.decode.make import make_decoder
from logwright.decode.model import Decoder
from logwright.errors import PolicyError
from logwright.records.schema import HEADERS_TYPE
from tests.unit.decode.records import Pair, batch, columns, decode

Header = tuple[str, bytes | None]
STRING = ScalarSpec(format="string")
BROKEN = b"\xff\xfe"
POLICIES = "version: 1\ntopics:\n  - name: t\n    table:\n      format: delta\n      path: p\n"


def records(*given: tuple[Pair, list[Header] | None]) -> pa.RecordBatch:
    """Records with headers; None: the list of them is null, as a reader has it if there is none."""
    lists = [
        None if headers is None else [{"key": name, "value": value} for name, value in headers]
        for _, headers in given
    ]
    whole = batch(pair for pair, _ in given)
    return whole.append_column("headers", pa.array(lists, HEADERS_TYPE))


def decoder(*names: str, value: Any = STRING) -> Decoder:
    """Return a decoder of these headers."""
    decoding = Decoding(key=STRING, value=value, headers=names)
    return make_decoder(decoding, base=Path("/"), topic="t")


def test_the_last_header_of_a_name() -> None:
    """Missing ones and null ones are null; names are compared with their case."""
    given = records(
        ((b"a", b"1"), [("id", b"x"), ("Id", b"other"), ("id", b"y"), ("n", b"7")]),
        ((b"b", b"2"), None),
        ((b"c", b"3"), []),
        ((b"d", b"4"), [("id", b"x"), ("id", None)]),
        ((b"e", b"5"), [("n", b""), ("id", "é".encode())]),
    )
    result = decode(decoder("id", "n"), given)
    assert ([], []) == (result.refused, result.deleted)
    assert ["y", None, None, None, "é"] == columns(result, "header_id")
    assert ["7", None, None, None, ""] == columns(result, "header_n")
    assert ["1", "2", "3", "4", "5"] == columns(result)
    part = decoder("id").decode(given.slice(3)).rows
    assert [("d", None), ("e", "é")] == [(row["key"], row["header_id"]) for row in part.to_pylist()]


def test_a_header_that_is_not_text() -> None:
    """Its record is refused alone, for the first of them, and next to its value."""
    given = records(
        ((b"a", b"1"), [("id", b"x"), ("n", b"x")]),
        ((b"b", b"2"), [("id", BROKEN), ("n", BROKEN)]),
        ((b"c", b"3"), [("id", BROKEN), ("id", b"y")]),
        ((b"d", BROKEN), [("n", BROKEN)]),
        ((b"e", b"5"), [("unasked", BROKEN)]),
    )
    result = decode(decoder("id", "n"), given)
    assert [
        (1, "headers", "id is not UTF-8"),
        (3, "headers", "n is not UTF-8"),
        (3, "value", "is not UTF-8"),
    ] == result.refused
    assert ["x", "y", None] == columns(result, "header_id")


def test_of_what_has_no_row() -> None:
    """A deletion counts whatever its headers are: else the row would stay."""
    fields = (JsonField(name="id", type="long"),)
    event = b'{"op": "%s", "before": null, "after": {"id": 1}}'
    given = records(
        ((b"a", None), [("h", BROKEN)]),
        ((b"b", None), [("h", b"x")]),
        ((b"c", event % b"d"), [("h", BROKEN)]),
        ((b"d", event % b"m"), [("h", BROKEN)]),
        ((b"e", event % b"c"), [("h", BROKEN)]),
    )
    result = decode(decoder("h", value=DebeziumSpec(of=JsonSpec(fields=fields))), given)
    assert [(4, "headers", "h is not UTF-8")] == result.refused
    assert [0, 1, 2, 3] == result.deleted
    assert [None, "x", None, None] == columns(result, "header_h")


def test_names_of_columns() -> None:
    """They are distinct without case, and a field of the value makes room for them."""
    names = ("ce-id", "ce_id", "CE.id", "content-type", "größe")
    expected = ("header_ce_id", "header_ce_id_2", "header_CE_id_3", "header_content_type")
    assert (*expected, "header_größe") == Decoding(headers=names).header_columns
    value = JsonSpec(
        fields=(JsonField(name="Header_CE_ID", type="long"), JsonField(name="headers", type="long"))
    )
    schema = decoder("ce-id", value=value).schema
    assert ["key", "value_Header_CE_ID", "value_headers", "header_ce_id"] == schema.names[4:]
    given = records(((b"a", b'{"Header_CE_ID": 7}'), [("ce-id", b"x"), ("ce_id", b"y")]))
    (row,) = decode(decoder("ce-id", value=value), given).rows
    assert (7, "x") == (row["value_Header_CE_ID"], row["header_ce_id"])


def test_records_without_a_column_of_headers() -> None:
    """They are not records without headers."""
    with pytest.raises(KeyError):
        decoder("id").decode(batch([(b"a", b"1")]))
    assert [] == of_headers(batch([(b"a", b"1")]), (), pa.array([True]))


def test_the_decoding_as_it_is_stored() -> None:
    """Without headers it is as it always was: tables know theirs by this text."""
    plain = '{"key":{"format":"binary"},"value":{"format":"string"}}'
    assert plain == Decoding(value=STRING).model_dump_json()
    named = Decoding(value=STRING, headers=("a", "b"))
    assert plain[:-1] + ',"headers":["a","b"]}' == named.model_dump_json()
    for decoding in (named, Decoding(value=RegistrySpec(schemas="s"))):
        assert decoding == Decoding.model_validate_json(decoding.model_dump_json())
    assert named == decoder_again(named)


def decoder_again(decoding: Decoding) -> Decoding:
    """Return what makes the decoder again."""
    return make_decoder(decoding, base=Path("/"), topic="t").decoding


def test_of_the_policies(tmp_path: Path) -> None:
    """The table has them, next to its other settings."""
    (tmp_path / "p.yml").write_text(POLICIES + "      headers: [ce_id, content-type]\n")
    policies = check_policies(tmp_path).policies
    assert policies is not None
    table = tables_of(policies)["t"]
    assert ("ce_id", "content-type") == table.headers == table.decoding.headers


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ce_id", "headers: must be a list (got 'ce_id')"),
        ("[a, b, a]", "headers: must be different names"),
        ("['']", "headers[0]: must have at least 1 character"),
        ("[{a: b}]", "headers[0]: must be text (got a mapping)"),
    ],
)
def test_wrong_names(text: str, problem: str, tmp_path: Path) -> None:
    """They are reported with their place."""
    (tmp_path / "p.yml").write_text(POLICIES + f"      headers: {text}\n")
    (reported,) = check_policies(tmp_path).problems
    assert str(reported).split("topics[t].table.")[1].startswith(problem)
    with pytest.raises(PolicyError, match="--decode is invalid"):
        decoding_of(f"{{value: string, headers: {text}}}", tmp_path)


def test_internal_topics() -> None:
    """Their records have no headers."""
    spec = InternalSpec()
    with pytest.raises(ValueError, match="headers are not for the format kafka-internal"):
        Decoding(key=spec, value=spec, headers=("a",))
    with pytest.raises(PolicyError, match="headers are not for the format kafka-internal"):
        decoding_of("{key: kafka-internal, value: kafka-internal, headers: [a]}", Path("/"))


def test_in_the_lines_of_dump(tmp_path: Path) -> None:
    """Next to key and value, of a deletion too; one that is not text has why."""
    decoding = decoding_of("{key: string, value: string, headers: [ce_id]}", tmp_path)

    def line(offset: int, value: bytes | None, header: bytes) -> dict[str, Any]:
        text = base64.b64encode
        return {
            "offset": offset,
            "key": text(b"k").decode(),
            "value": None if value is None else text(value).decode(),
            "headers": [{"key": "ce_id", "value": text(header).decode()}],
        }

    given = [line(5, b"v", b"x"), line(6, None, b"y"), line(7, b"v", BROKEN)]
    decoded_records("t", decoding, tmp_path, [])(given)
    assert [("k", "v", "x"), ("k", None, "y")] == [
        (each["key"], each["value"], each["header_ce_id"]) for each in given[:2]
    ]
    assert ("ce_id is not UTF-8", False) == (
        given[2]["headersRefused"],
        "header_ce_id" in given[2],
    )


def test_an_event_in_structured_mode() -> None:
    """A CloudEvent that is a JSON object is decoded by its fields, as the page has it. Debezium's
    with the operation d is a row: no field of JSON deletes.
    """
    spec = decoding_of(
        "{key: string, value: {format: json, schema: {id: string not null, type: string,"
        " time: timestamp, iodebeziumop: string, data: {name: string}}}}",
        Path("/"),
    )
    event = {
        "specversion": "1.0",
        "id": "e-1",
        "source": "/shop",
        "type": "customer.created",
        "time": "2026-11-17T00:00:00Z",
        "datacontenttype": "application/json",
        "data": {"name": "Ada"},
    }
    values = [event, event | {"id": "e-2", "iodebeziumop": "d", "data": None}]
    pairs: list[Pair] = [(b"k", json.dumps(value).encode()) for value in values]
    result = decode(make_decoder(spec, base=Path("/"), topic="t"), batch(pairs))
    assert ([], []) == (result.refused, result.deleted)
    assert ["e-1", "e-2"] == columns(result, "id")
    assert [{"name": "Ada"}, None] == columns(result, "data")
