"""Tables of topics whose records get a newer schema: a table that was updated equals one that is
made again, by other readers; and what is refused leaves it as it was.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from logwright.assets.tables.report import update_metadata
from logwright.errors import LogwrightError
from logwright.tables.evolution import OtherColumns
from logwright.tables.parquet import manifest_of
from logwright.tables.topic import LocatedTable, open_store
from tests.log_builder import LogBuilder, Pair
from tests.table_rows import FORMATS, read_table, version_of
from tests.table_schemas import ID, LEVEL, NAME, Schemas, record
from tests.table_world import NOW_MS, topic_logs, update

OWN = ["partition", "offset"]


def rows(where: LocatedTable) -> list[dict[str, Any]]:
    """The rows of a table, by another reader."""
    table = read_table(where.table.format, Path(str(where.table.path)))
    columns = [name for name in table.column_names if name not in ("bucket", "timestamp", "_key")]
    rows_of_table = table.select(columns).to_pylist()
    return sorted(rows_of_table, key=lambda row: [row[name] for name in OWN])


def columns_of(where: LocatedTable) -> list[str]:
    return sorted(rows(where)[0])


@pytest.fixture
def schemas(tmp_path: Path) -> Schemas:
    """Schemas 1 and 2: of 2 the id is a long, and there are two more fields."""
    made = Schemas(tmp_path)
    made.add(1, record(ID))
    made.add(2, record({"name": "id", "type": "long"}, NAME, LEVEL))
    return made


BOTH = pytest.mark.parametrize("unique", ["partition", "topic"])


@BOTH
@pytest.mark.parametrize("form", FORMATS)
def test_a_newer_schema_makes_the_table_again(schemas: Schemas, form: str, unique: str) -> None:
    """All rows have the columns of the newest schema, as in a table that is made of all records."""
    first = [(f"k{n % 7}", schemas.value(1, id=n)) for n in range(40)]
    more = [
        *((f"k{n % 7}", schemas.value(2, id=n, name="x", level="y")) for n in range(40, 43)),
        ("k5", None),
        ("k8", schemas.value(1, id=44)),  # a producer that was rolled back
    ]
    other = [("k6", schemas.value(1, id=100)), ("p1", schemas.value(1, id=101))]
    where = schemas.table(form, unique=unique)
    assert columns_of_update(schemas, where, schemas.logs("logs-1", first, other)) == ["id", "key"]
    version = version_of(form, Path(str(where.table.path)))
    logs = schemas.logs("logs-2", [*first, *more], other)
    done = update(where, logs)
    assert {"rebuild"} == {each.step.kind for each in done.result.partitions}
    assert [("widened", "id"), ("added", "name"), ("added", "level")] == [
        (each.kind, each.name) for each in done.changes
    ]
    assert version_of(form, Path(str(where.table.path))) != version
    again = schemas.table(form, "again", unique=unique)
    update(again, logs)
    assert rows(again) == rows(where)
    assert {"basic", "y"} == {row["level"] for row in rows(where)}
    assert 0 == done.quarantined
    done = update(where, logs)
    assert not done.result.changed


def columns_of_update(schemas: Schemas, where: LocatedTable, logs: Path) -> list[str]:
    update(where, logs)
    return [name for name in columns_of(where) if name not in OWN]


@pytest.mark.parametrize("form", FORMATS)
def test_a_later_record_of_an_older_schema_keeps_the_columns(schemas: Schemas, form: str) -> None:
    first = [("a", schemas.value(2, id=1, name="x", level="y"))]
    more = [("b", schemas.value(1, id=2))]
    where = schemas.table(form)
    update(where, schemas.logs("logs-1", first))
    done = update(where, schemas.logs("logs-2", [*first, *more]))
    assert ["upsert"] == [each.step.kind for each in done.result.partitions]
    assert () == done.changes
    assert {"key": "b", "id": 2, "name": None, "level": "basic"}.items() <= rows(where)[1].items()


@pytest.mark.parametrize("form", FORMATS)
def test_a_change_that_does_not_fit_is_refused_whole(schemas: Schemas, form: str) -> None:
    """Nothing of the update is in the table; `rebuild` makes it again, with refused records."""
    schemas.add(3, record({"name": "id", "type": "string"}))
    first = [("a", schemas.value(1, id=1)), ("b", schemas.value(1, id=2))]
    logs = schemas.logs("logs-2", [*first, ("a", schemas.value(3, id="x")), ("c", None)])
    where = schemas.table(form)
    update(where, schemas.logs("logs-1", first))
    before = rows(where)
    with pytest.raises(
        OtherColumns,
        match=r"schema 3 of the values, first at offset 2 of.*"
        r"id is changed from int32 to string",
    ) as refusal:
        update(where, logs)
    assert "--rebuild" in str(refusal.value.remedy)
    assert before == rows(where)
    done = update(where, logs, rebuild=True)
    assert [("a", "x")] == [(row["key"], row["id"]) for row in rows(where)]
    assert 1 == done.quarantined


@pytest.mark.parametrize("form", FORMATS)
def test_a_column_goes_only_if_it_may(schemas: Schemas, form: str) -> None:
    schemas.add(3, record({"name": "id", "type": "long"}, LEVEL))
    first = [("a", schemas.value(2, id=1, name="x", level="y"))]
    logs = schemas.logs("logs-2", [*first, ("b", schemas.value(3, id=2, level="z"))])
    where = schemas.table(form)
    update(where, schemas.logs("logs-1", first))
    before = rows(where)
    with pytest.raises(OtherColumns, match="name is removed, string") as refusal:
        update(where, logs)
    assert "follow" in str(refusal.value.remedy)
    assert before == rows(where)
    fixed = schemas.table(form, schema_changes="fixed")
    assert [] == list(update(fixed, logs).changes)
    assert ["x", None] == [row["name"] for row in rows(where)]
    more = schemas.logs(
        "logs-3", [*first, *[("b", schemas.value(3, id=n, level="z")) for n in (2, 3)]]
    )
    done = update(schemas.table(form, schema_changes="follow"), more)
    assert [("removed", "name")] == [(each.kind, each.name) for each in done.changes]
    assert ["id", "key", "level", "offset", "partition"] == columns_of(where)
    assert [1, 3] == [row["id"] for row in rows(where)]


@pytest.mark.parametrize("form", FORMATS)
def test_another_default_is_another_value(schemas: Schemas, form: str) -> None:
    """The columns are the same, and records without the field get the newest default."""
    schemas.add(4, record({"name": "id", "type": "long"}, NAME, {**LEVEL, "default": "gold"}))
    first = [("a", schemas.value(1, id=1)), ("b", schemas.value(2, id=1, name="x", level="y"))]
    where = schemas.table(form)
    update(where, schemas.logs("logs-1", first))
    assert ["basic", "y"] == [row["level"] for row in rows(where)]
    more = [*first, ("c", schemas.value(4, id=3, name=None, level="z"))]
    done = update(where, schemas.logs("logs-2", more))
    assert ["rebuild"] == [each.step.kind for each in done.result.partitions]
    assert ["gold", "y", "z"] == [row["level"] for row in rows(where)]


@pytest.mark.parametrize("form", FORMATS)
def test_a_value_that_no_first_record_shows(schemas: Schemas, form: str) -> None:
    """The columns are the same, the first record of each schema has the same row, and a later one
    has another.
    """

    def kind(*symbols: str, **more: str) -> dict[str, Any]:
        return {
            "name": "e",
            "type": {"type": "enum", "name": "E", "symbols": list(symbols), **more},
        }

    schemas.add(4, record(ID, kind("a", "z")))
    schemas.add(5, record(ID, kind("a", "b", default="a")))
    schemas.add(6, record(ID, kind("a", "b", default="b")))
    first = [("k", schemas.value(4, id=1, e="a")), ("l", schemas.value(4, id=2, e="z"))]
    some = [*first, ("m", schemas.value(5, id=3, e="a"))]
    where = schemas.table(form)
    update(where, schemas.logs("logs-1", some))
    assert ["a", "a", "a"] == [row["e"] for row in rows(where)]
    logs = schemas.logs("logs-2", [*some, ("n", schemas.value(6, id=4, e="b"))])
    done = update(where, logs)
    assert ["rebuild"] == [each.step.kind for each in done.result.partitions]
    assert ["a", "b", "a", "b"] == [row["e"] for row in rows(where)]


@pytest.mark.parametrize("form", FORMATS)
def test_a_newer_schema_with_the_same_columns_is_an_ordinary_update(
    schemas: Schemas, form: str
) -> None:
    schemas.add(5, {**record({"name": "id", "type": "long"}, NAME, LEVEL), "doc": "the same"})
    first = [("a", schemas.value(2, id=1, name="x", level="y"))]
    more = [*first, ("c", schemas.value(5, id=3, name=None, level="z"))]
    where = schemas.table(form)
    update(where, schemas.logs("logs-1", first))
    done = update(where, schemas.logs("logs-2", more))
    assert ["upsert"] == [each.step.kind for each in done.result.partitions]
    known = open_store(where).load()
    assert known is not None
    assert '"schema_id":5' in known.form.decoding


def test_another_type_of_record_is_not_a_newer_schema(schemas: Schemas) -> None:
    """It is refused, or left out where the type is named: then a table made again is the same."""
    schemas.add(9, record(ID, name="Order"))
    first = [("a", schemas.value(1, id=1))]
    where = schemas.table("parquet")
    update(where, schemas.logs("logs-1", first))
    done = update(where, schemas.logs("logs-2", [*first, ("b", schemas.value(9, id=2))]))
    assert (() == done.changes, done.quarantined) == (True, 1)
    named = {"format": "registry", "schemas": "schemas", "records": ["shop.Customer"]}
    again = schemas.table("parquet", "again", value=named)
    logs = schemas.logs("logs-3", [*first, ("b", schemas.value(9, id=2))])
    assert 0 == update(again, logs).quarantined
    assert rows(again) == rows(where)


@BOTH
@pytest.mark.parametrize("form", FORMATS)
def test_what_was_refused_is_decoded_with_newer_columns(
    schemas: Schemas, form: str, unique: str
) -> None:
    """The quarantine table has what is refused now, as that of a table made again."""

    def kind(*symbols: str) -> dict[str, Any]:
        return {"name": "e", "type": {"type": "enum", "name": "E", "symbols": list(symbols)}}

    schemas.add(4, record(ID, kind("a", "z")))
    schemas.add(5, record(ID, kind("a")))
    schemas.add(6, record(ID, kind("z", "a", "b")))
    first = [
        ("k", schemas.value(4, id=1, e="z")),
        ("l", schemas.value(5, id=2, e="a")),
        ("m", b"not in the wire format"),
    ]
    where = schemas.table(form, unique=unique)
    assert 2 == update(where, schemas.logs("logs-1", first)).quarantined
    logs = schemas.logs("logs-2", [*first, ("n", schemas.value(6, id=3, e="b"))])
    done = update(where, logs)
    again = schemas.table(form, "again", unique=unique)
    assert (1, 1) == (done.quarantined, update(again, logs).quarantined)
    assert rows(again) == rows(where)
    assert ["z", "a", "b"] == [row["e"] for row in rows(where)]


def test_a_field_without_a_default_would_refuse_older_records(schemas: Schemas) -> None:
    """It is a column more, and the older records have nothing for it: they would lose their row."""
    schemas.add(3, record(ID, {"name": "must", "type": "string"}))
    first = [("a", schemas.value(1, id=1))]
    where = schemas.table("delta")
    update(where, schemas.logs("logs-1", first))
    before = rows(where)
    with pytest.raises(OtherColumns, match=r"a record of schema 1, at offset 0 .*must"):
        update(where, schemas.logs("logs-2", [*first, ("b", schemas.value(3, id=2, must="x"))]))
    assert before == rows(where)


def test_a_partition_without_a_log_keeps_the_table(schemas: Schemas) -> None:
    first = [("a", schemas.value(1, id=1))]
    where = schemas.table("delta")
    update(where, schemas.logs("logs-1", first, first))
    before = rows(where)
    more = [*first, ("b", schemas.value(2, id=2, name=None, level="z"))]
    with pytest.raises(LogwrightError, match="partition 1 has no log here"):
        update(where, schemas.logs("logs-2", more))
    assert before == rows(where)


def test_delta_keeps_what_it_has(schemas: Schemas) -> None:
    """Its id, name and configuration; an earlier version has the earlier columns."""
    first = [("a", schemas.value(1, id=1))]
    where = schemas.table("delta")
    update(where, schemas.logs("logs-1", first))
    path = str(where.table.path)
    DeltaTable(path).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    DeltaTable(path).alter.set_table_name("customers")
    before = DeltaTable(path)
    update(where, schemas.logs("logs-2", [*first, ("b", schemas.value(2, id=2, level="z"))]))
    after = DeltaTable(path)
    assert after.metadata().id == before.metadata().id
    assert "customers" == after.metadata().name
    assert after.metadata().configuration == before.metadata().configuration
    names = [field.name for field in before.schema().fields]
    assert names == [
        field.name for field in DeltaTable(path, version=before.version()).schema().fields
    ]
    assert "level" in [field.name for field in after.schema().fields]


def test_iceberg_keeps_the_field_ids(schemas: Schemas, tmp_path: Path) -> None:
    """A column keeps its id, the catalog's reader has the new columns, and an earlier snapshot the
    earlier ones; after a rollback the table is made again.
    """
    first = [("a", schemas.value(1, id=1))]
    where = schemas.table("iceberg")
    update(where, schemas.logs("logs-1", first))
    catalog = load_catalog("logwright", type="sql", uri=f"sqlite:///{tmp_path}/table/catalog.db")
    table = catalog.load_table("latest_state.t")
    earlier = table.current_snapshot()
    ids = {field.name: field.field_id for field in table.schema().fields}
    logs = schemas.logs("logs-2", [*first, ("b", schemas.value(2, id=2, level="z"))])
    update(where, logs)
    table.refresh()
    assert ids.items() <= {field.name: field.field_id for field in table.schema().fields}.items()
    assert [1, 2] == sorted(table.scan().to_arrow()["id"].to_pylist())
    assert pa.int64() == table.scan().to_arrow().schema.field("id").type
    assert earlier is not None
    old = table.scan(snapshot_id=earlier.snapshot_id).to_arrow()
    assert ([1], False) == (old["id"].to_pylist(), "level" in old.column_names)
    table.manage_snapshots().rollback_to_snapshot(earlier.snapshot_id).commit()
    done = update(where, logs)
    assert ["rebuild"] == [each.step.kind for each in done.result.partitions]
    assert [1, 2] == [row["id"] for row in rows(where)]


ENVELOPE = [
    {"name": "op", "type": "string"},
    {
        "name": "source",
        "type": {"type": "record", "name": "S", "fields": [{"name": "ts_ms", "type": "long"}]},
    },
]


def event(*fields: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a change event."""
    after = {"name": "after", "type": ["null", record(*fields, name="Row")], "default": None}
    return record(*ENVELOPE, after, name="Envelope")


@pytest.mark.parametrize("form", FORMATS)
def test_keys_and_change_events(schemas: Schemas, form: str) -> None:
    """The key is a struct that gets a field, and the row of a change event a column."""
    schemas.add(11, record(ID, name="Key"))
    schemas.add(12, record(ID, {**NAME, "name": "of"}, name="Key"))
    schemas.add(21, event(ID))
    schemas.add(22, event(ID, NAME))
    registry = {"format": "registry", "schemas": "schemas"}
    change = {"op": "c", "source": {"ts_ms": 1}}
    settings = {"key": registry, "value": {"format": "debezium", "of": registry}}
    first = [
        (schemas.value(11, id=1), schemas.value(21, **change, after={"id": 1})),
        (schemas.value(11, id=2), schemas.value(21, **change, after={"id": 2})),
        (schemas.value(11, id=2), None),
    ]
    more = [
        (schemas.value(12, id=3, of="x"), schemas.value(22, **change, after={"id": 3})),
        (schemas.value(11, id=4), schemas.value(21, **change, after={"id": 4})),
    ]
    where = schemas.table(form, **settings)
    update(where, schemas.logs("logs-1", first))
    logs = schemas.logs("logs-2", [*first, *more])
    done = update(where, logs)
    assert [("added", "key.of"), ("added", "name")] == [
        (each.kind, each.name) for each in done.changes
    ]
    keys = [{"id": 1, "of": None}, {"id": 3, "of": "x"}, {"id": 4, "of": None}]
    assert keys == [row["key"] for row in rows(where)]
    again = schemas.table(form, "again", **settings)
    update(again, logs)
    assert rows(again) == rows(where)


def test_columns_of_an_earlier_version_of_logwright(schemas: Schemas) -> None:
    """A table whose columns were made by other rules is made again if they grow."""
    first = [("a", schemas.value(2, id=1, name="x", level="y"))]
    where = schemas.table("parquet")
    logs = schemas.logs("logs-1", first)
    update(where, logs)
    path = Path(str(where.table.path))
    manifest = manifest_of(path)
    files = sorted(path.rglob("*.parquet"))
    for file in files:
        narrow = pq.read_table(file, partitioning=None)
        ids = narrow["id"].cast("int32")
        pq.write_table(narrow.set_column(narrow.schema.get_field_index("id"), "id", ids), file)
    content = json.loads(manifest.read_text())
    content["form"] = content["form"].replace('["id", "int64"]', '["id", "int32"]')
    for entry, file in zip(sorted(content["files"]), files, strict=True):
        entry[3:] = [file.stat().st_size, None]
    manifest.write_text(json.dumps(content))
    done = update(where, logs)
    assert [("widened", "id")] == [(each.kind, each.name) for each in done.changes]
    assert {"int64"} == {str(pq.read_schema(file).field("id").type) for file in files}


@pytest.mark.parametrize("form", FORMATS)
def test_a_renamed_field_keeps_its_values(schemas: Schemas, form: str) -> None:
    """The records of the older schema have theirs by the alias."""
    schemas.add(3, record({"name": "number", "type": "long", "aliases": ["id"]}))
    first = [("a", schemas.value(1, id=1))]
    where = schemas.table(form)
    update(where, schemas.logs("logs-1", first))
    done = update(where, schemas.logs("logs-2", [*first, ("b", schemas.value(3, number=2))]))
    assert [("renamed", "number", "id"), ("widened", "number", "int32")] == [
        (each.kind, each.name, each.before) for each in done.changes
    ]
    assert [("a", 1), ("b", 2)] == [(row["key"], row["number"]) for row in rows(where)]
    assert "id" not in columns_of(where)


def test_a_message_of_protobuf_grows_by_numbers(schemas: Schemas, tmp_path: Path) -> None:
    messages = {
        31: "message C { string customer_name = 1; int32 n = 2; }",
        32: "message C { string customer = 1; int64 n = 2; optional string more = 3; }",
    }
    for schema_id, message in messages.items():
        text = f'syntax = "proto3"; package shop; message A {{ int32 x = 1; }} {message}'
        (tmp_path / "schemas" / f"{schema_id}.proto").write_text(text)

    def value(schema_id: int, content: bytes) -> bytes:
        return b"\0" + struct.pack(">i", schema_id) + b"\x02\x02" + content  # the second message

    first = [("a", value(31, b"\x0a\x03Ada\x10\x05"))]
    where = schemas.table("delta")
    update(where, schemas.logs("logs-1", first))
    more = [*first, ("b", value(32, b"\x0a\x03Bob\x1a\x01z"))]
    done = update(where, schemas.logs("logs-2", more))
    assert ["renamed", "widened", "added"] == [each.kind for each in done.changes]
    values = [(row["customer"], row["n"], row["more"]) for row in rows(where)]
    assert [("Ada", 5, None), ("Bob", 0, "z")] == values


@pytest.mark.parametrize("form", FORMATS)
def test_unions_enums_and_nullable_records(schemas: Schemas, form: str) -> None:
    """A further branch is a field, a further symbol a value; a record may be null now."""
    color = {"type": "enum", "name": "Color", "symbols": ["RED"]}
    more_colors = {**color, "symbols": ["RED", "BLUE"]}
    place = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
    schemas.add(
        3,
        record(
            {"name": "color", "type": color},
            {"name": "x", "type": ["null", "int", "string"]},
            {"name": "place", "type": place},
        ),
    )
    schemas.add(
        4,
        record(
            {"name": "color", "type": more_colors},
            {"name": "x", "type": ["null", "int", "string", "boolean"]},
            {"name": "place", "type": ["null", place]},
        ),
    )
    first = [("a", schemas.value(3, color="RED", x=5, place={"city": "c"}))]
    more = [*first, ("b", schemas.value(4, color="BLUE", x=True, place=None))]
    where = schemas.table(form)
    update(where, schemas.logs("logs-1", first))
    done = update(where, schemas.logs("logs-2", more))
    assert [("added", "x.boolean")] == [(each.kind, each.name) for each in done.changes]
    expected = [
        ("RED", {"int": 5, "string": None, "boolean": None}, {"city": "c"}),
        ("BLUE", {"int": None, "string": None, "boolean": True}, None),
    ]
    assert expected == [(row["color"], row["x"], row["place"]) for row in rows(where)]
    again = schemas.table(form, "again")
    update(again, schemas.logs("logs-3", more))
    assert rows(again) == rows(where)


def test_an_unknown_schema_is_of_its_records_alone(schemas: Schemas) -> None:
    first = [("a", schemas.value(1, id=1))]
    where = schemas.table("parquet")
    update(where, schemas.logs("logs-1", first))
    unknown = [("b", b"\0" + struct.pack(">i", 77) + b"\x02"), ("c", schemas.value(1, id=3))]
    done = update(where, schemas.logs("logs-2", [*first, *unknown]))
    assert (1, "upsert") == (done.quarantined, done.result.partitions[0].step.kind)
    assert ["a", "c"] == [row["key"] for row in rows(where)]


def test_the_metadata_have_the_columns_as_they_are_then(schemas: Schemas) -> None:
    first = [("a", schemas.value(1, id=1))]
    where = schemas.table("delta")
    update(where, schemas.logs("logs-1", first))
    logs = schemas.logs("logs-2", [*first, ("b", schemas.value(2, id=2, level="z"))])
    done = update(where, logs)
    by_number = {each.partition: each for each in topic_logs(logs)}
    shown = update_metadata(where, done, by_number, now_ms=NOW_MS)
    changes = "id is widened from int32 to int64; name is added, string; level is added, string"
    assert changes == shown["column changes"] == shown["why rebuilt"]
    columns = {column.name: column.type for column in shown["dagster/column_schema"].columns}
    assert ("string", "int64") == (columns["level"], columns["id"])


def test_polars_and_earlier_snapshots(schemas: Schemas, monkeypatch: pytest.MonkeyPatch) -> None:
    """A type that Iceberg does not let evolve is a column of another id: an earlier snapshot shows
    null for it, and the newest one its values. Polars reads both formats with versions.
    """
    schemas.add(3, record({"name": "id", "type": "double"}, LEVEL))
    first = [("a", schemas.value(1, id=1))]
    logs = [
        schemas.logs("logs-1", first),
        schemas.logs("logs-2", [*first, ("b", schemas.value(3, id=2.5, level="z"))]),
    ]
    places = {form: schemas.table(form, form) for form in ("delta", "iceberg")}
    for where in places.values():
        for log_dir in logs:
            update(where, log_dir)
    uri = f"sqlite:///{places['iceberg'].table.path}/catalog.db"
    table = load_catalog("logwright", type="sql", uri=uri).load_table("latest_state.t")
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    frames = [pl.scan_delta(str(places["delta"].table.path)), pl.scan_iceberg(table)]
    for frame in frames:
        rows_of_frame = frame.select("id", "level").sort("id").collect().rows()
        assert [(1.0, "basic"), (2.5, "z")] == rows_of_frame
    earlier = table.scan(snapshot_id=table.snapshots()[0].snapshot_id).to_arrow()
    assert [None] == earlier["id"].to_pylist()


@BOTH
@pytest.mark.parametrize("form", FORMATS)
def test_a_newer_schema_of_decoded_keys(tmp_path: Path, form: str, unique: str) -> None:
    """What the table knows of deleted keys is found again with the columns of the newer schema:
    also of a key whose tombstone the cleaner has removed, and an older way to write it has stayed.
    """
    schemas = Schemas(tmp_path)
    for number in (1, 2):
        schemas.add(number, record(ID))
    schemas.add(3, record({"name": "id", "type": "long"}, LEVEL))
    key = schemas.value
    settings = {
        "key": {"format": "registry", "schemas": "schemas"},
        "value": {"format": "string"},
        "unique": unique,
        "unique_by": "decoded",
        "buckets": 4,
    }
    where = schemas.table(form, **settings)
    old: list[Pair] = [(key(1, id=n), f"old {n}") for n in range(8)]
    gone: list[Pair] = [(key(2, id=n), None) for n in range(4)]
    new: list[Pair] = [(key(2, id=n), f"new {n}") for n in range(4, 6)]
    update(where, schemas.logs("logs-1", [*old, *gone, *new]))
    before = {4: "new 4", 5: "new 5", 6: "old 6", 7: "old 7"}
    assert before == {row["key"]["id"]: row["value"] for row in rows(where)}
    more: list[Pair] = [(key(3, id=5, level="basic"), None), (key(3, id=6, level="high"), "high 6")]
    more += [(key(1, id=7), "newest 7")]
    done = update(where, without_tombstones(tmp_path / "logs-2", old, new, more))
    assert {"rebuild"} == {each.step.kind for each in done.result.partitions}
    assert [("widened", "key.id"), ("added", "key.level")] == [
        (each.kind, each.name) for each in done.changes
    ]
    now = {(4, "basic"): "new 4", (6, "basic"): "old 6", (7, "basic"): "newest 7"}
    now[6, "high"] = "high 6"
    assert now == by_key(where)
    assert not update(where, tmp_path / "logs-2").result.changed
    last = [*more, (key(2, id=6), None), (key(3, id=0, level="basic"), "back")]
    done = update(where, without_tombstones(tmp_path / "logs-3", old, new, last))
    assert {"upsert"} == {each.step.kind for each in done.result.partitions}
    del now[6, "basic"]
    assert {**now, (0, "basic"): "back"} == by_key(where)


def by_key(where: LocatedTable) -> dict[tuple[int, str], str]:
    """Key → value, of a table whose keys have a level."""
    return {(row["key"]["id"], row["key"]["level"]): row["value"] for row in rows(where)}


def without_tombstones(log_dir: Path, old: list[Pair], new: list[Pair], more: list[Pair]) -> Path:
    """A log that the cleaner has taken the tombstones of the offsets 8 to 11 from."""
    log = LogBuilder(log_dir, "t-0")
    log.segment(0).batch(0, old)
    log.segment(12).batch(12, new)
    segment = log.segment(14)
    for offset, pair in enumerate(more, 14):
        segment.batch(offset, [pair])
    log.write(cleaner_checkpoint=12)
    return log_dir
