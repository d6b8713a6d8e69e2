"""Tables with columns of headers, as CloudEvents in Kafka's binary mode have them, read by other
engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from logwright.config.decoding import JsonSpec, ScalarSpec
from logwright.config.json_fields import JsonField
from logwright.erasure.find.tables import search_table_files
from logwright.erasure.keys import KeySet
from logwright.format.record import RecordHeader
from logwright.tables.model import OtherForm
from logwright.tables.topic import LocatedTable
from tests.found import SECRET
from tests.log_builder import LogBuilder
from tests.table_rows import FORMATS, read_table
from tests.table_world import place, update

NAMES = ("ce_id", "ce_type", "content-type")
BROKEN = b"\xff"
Record = tuple[str, str | None, Sequence[tuple[str, bytes | None]]]


def logs(log_dir: Path, records: Sequence[Record]) -> Path:
    """Records of a key, a value and headers, in a batch each: those of a later time stay."""
    log = LogBuilder(log_dir, "t-0")
    segment = log.segment(0)
    for offset, (key, value, given) in enumerate(records):
        headers = tuple(RecordHeader(key=name.encode(), value=text) for name, text in given)
        segment.batch(offset, [(key, value)], headers=headers)
    log.write()
    return log_dir


def event(key: str, number: int, value: str | None = "{}") -> Record:
    """A CloudEvent in binary mode."""
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", f"e-{number}".encode()),
        ("ce_type", b"customer.created"),
        ("content-type", b"application/json"),
    ]
    return key, value, headers


def table(base: Path, form: str, **settings: object) -> LocatedTable:
    string = ScalarSpec(format="string")
    given = {"key": string, "value": string, "headers": NAMES, **settings}
    return place(form, base / "tables" / "t", **given)


def rows_of(form: str, base: Path) -> dict[str, tuple[Any, ...]]:
    """Key → its offset, and the columns of headers."""
    columns = ("offset", "header_ce_id", "header_ce_type", "header_content_type")
    rows = read_table(form, base / "tables" / "t").to_pylist()
    return {row["key"]: tuple(row[name] for name in columns) for row in rows}


@pytest.mark.parametrize("form", FORMATS)
def test_updates(form: str, tmp_path: Path) -> None:
    """The columns are those of the newest record of each key; a record whose header is not text is
    refused alone, and a tombstone deletes whatever its headers are.
    """
    where = table(tmp_path, form)
    records = [event("a", 0), event("b", 1), ("c", "v", []), event("d", 3), event("e", 4)]
    update(where, logs(tmp_path / "logs-1", records))
    kind = ("customer.created", "application/json")
    first = {"a": (0, "e-0", *kind), "b": (1, "e-1", *kind), "c": (2, None, None, None)}
    assert {**first, "d": (3, "e-3", *kind), "e": (4, "e-4", *kind)} == rows_of(form, tmp_path)
    records += [
        ("a", "v", [("ce_id", b"old"), ("ce_id", b"new"), ("ce_type", None)]),
        ("d", None, [("ce_id", BROKEN)]),
        ("e", "v", [("ce_id", BROKEN)]),
        event("f", 8),
    ]
    log_dir = logs(tmp_path / "logs-2", records)
    update(where, log_dir)
    newer = {**first, "a": (5, "new", None, None), "f": (8, "e-8", *kind)}
    assert newer == rows_of(form, tmp_path)
    (refused,) = read_table(form, tmp_path / "tables" / "t_quarantine").to_pylist()
    assert (7, "headers", "ce_id is not UTF-8") == (
        refused["offset"],
        refused["part"],
        refused["reason"],
    )
    update(where, log_dir, rebuild=True)
    assert newer == rows_of(form, tmp_path)


def test_other_headers(tmp_path: Path) -> None:
    """They are other columns: the table is made again if that is asked for."""
    log_dir = logs(tmp_path / "logs", [event("a", 0)])
    update(table(tmp_path, "delta"), log_dir)
    fewer = table(tmp_path, "delta", headers=("ce_id",))
    with pytest.raises(OtherForm):
        update(fewer, log_dir)
    update(fewer, log_dir, rebuild=True)
    names = read_table("delta", tmp_path / "tables" / "t").column_names
    assert ["header_ce_id"] == [name for name in names if name.startswith("header_")]


def test_keys_that_are_compared_by_their_values(tmp_path: Path) -> None:
    """A refused record still is of its key, however that is written; so is a deleted one."""
    key = JsonSpec(fields=(JsonField(name="id", type="long"),))
    where = place(
        "parquet",
        tmp_path / "tables" / "t",
        key=key,
        value=ScalarSpec(format="string"),
        headers=NAMES,
        unique_by="decoded",
    )
    records: list[Record] = [event('{"id":1}', 0), event('{"id":2}', 1), event('{"id":3}', 2)]
    update(where, logs(tmp_path / "logs-1", records))
    records += [
        ('{"id": 1}', "v", [("ce_id", BROKEN)]),
        ('{"id": 2}', None, [("ce_id", BROKEN)]),
    ]
    update(where, logs(tmp_path / "logs-2", records))
    rows = read_table("parquet", tmp_path / "tables" / "t").to_pylist()
    assert [({"id": 3}, "e-2")] == [(row["key"], row["header_ce_id"]) for row in rows]


@pytest.mark.parametrize("form", FORMATS)
def test_a_person_in_a_header_is_found(form: str, tmp_path: Path) -> None:
    """A search of the table looks at these columns as at all others."""
    person = b"alice@example.org"
    records = [
        event("a", 0),
        ("b", "v", [("ce_id", person)]),
        ("c", "v", [("other", b"bob@x.org")]),
    ]
    update(table(tmp_path, form), logs(tmp_path / "logs", records))
    keys = KeySet.of(SECRET, clear=[person])
    result = search_table_files(tmp_path / "tables" / "t", keys, patterns=(b"bob@",))
    assert [] == result.unsearched
    assert {(0, "live")} == {(each.request, each.kind) for each in result.findings}
    nobody = search_table_files(
        tmp_path / "tables" / "t", KeySet.of(SECRET, clear=[b"x"]), patterns=(b"alice@",)
    )
    assert {"value"} == {each.kind for each in nobody.findings}
