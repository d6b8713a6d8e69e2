"""What other programs ask of the writers of a table, by protocol, properties and columns: the next
update does it, or refuses the table by name, and the table stays as it was.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType

from logwright.errors import PreconditionError
from logwright.tables.delta_log import commit_path
from logwright.tables.delta_rules import same_types
from logwright.tables.model import InDoubt, OtherForm, UnknownTable
from tests.table_rows import expected_rows, table_rows
from tests.table_world import place, update, write_logs
from tests.unit.tables.test_others import PAIRS, Other, delta_rows, iceberg, two_updates

MORE = [*PAIRS, ("k1", None), ("k2", "w")]


def act_of(
    path: Path,
    *,
    readers: tuple[str, ...] = (),
    writers: tuple[str, ...] = (),
    properties: Mapping[str, str] | None = None,
    marks: Mapping[str, str] | None = None,
    ids: bool = False,
    version: tuple[int, int] = (3, 7),
) -> None:
    """A commit as a program writes it that has these features.

    Args:
        marks: metadata of the column value.
        ids: the columns are mapped.
    """
    table = DeltaTable(str(path))
    known, protocol = table.metadata(), table.protocol()
    schema = json.loads(table.schema().to_json())
    for number, field in enumerate(schema["fields"]):
        if ids:
            field["metadata"]["delta.columnMapping.id"] = number + 1
            field["metadata"]["delta.columnMapping.physicalName"] = field["name"]
        if field["name"] == "value":
            field["metadata"] |= marks or {}
    asks: dict[str, Any] = {"minReaderVersion": version[0], "minWriterVersion": version[1]}
    if version == (3, 7):
        had = {*(protocol.reader_features or ())}
        asks["readerFeatures"] = sorted({*had, *readers})
        asks["writerFeatures"] = sorted(
            {*(protocol.writer_features or ()), *had, *readers, *writers}
        )
    metadata = {
        "id": str(known.id),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": known.partition_columns,
        "configuration": {**known.configuration, **(properties or {})},
        "createdTime": known.created_time,
    }
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": 1, "operation": "SET TBLPROPERTIES"}}
    ]
    actions += [{"protocol": asks}, {"metaData": metadata}]
    content = "\n".join(json.dumps(one) for one in actions)
    (path / commit_path(table.version() + 1)).write_text(content)


def altered(**properties: str) -> Other:
    """Deltalake sets properties."""
    given = {f"delta.{name}": value for name, value in properties.items()}
    return lambda path: DeltaTable(str(path)).alter.set_table_properties(given)


def of_features(*names: str, reads: bool = False, **properties: str) -> Other:
    """A program has these features, and sets properties."""
    given = {f"delta.{name.replace('_', '.')}": value for name, value in properties.items()}
    readers = names if reads else ()
    return lambda path: act_of(path, readers=readers, writers=names, properties=given)


def constraint(path: Path) -> None:
    DeltaTable(str(path)).alter.add_constraint({"early": '"offset" < 5000'})


def other_types(path: Path) -> None:
    """Deltalake writes the same columns, one with another type."""
    rows = delta_rows(path)
    at = rows.schema.get_field_index("value")
    text = pa.array(["w"] * len(rows), pa.string())
    write_deltalake(
        str(path), rows.set_column(at, "value", text), mode="overwrite", schema_mode="overwrite"
    )


def other_partitions(path: Path) -> None:
    write_deltalake(
        str(path),
        delta_rows(path),
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=["partition"],
    )


REFUSED: dict[str, tuple[Other, str]] = {
    "constraint": (constraint, "the constraint early, which logwright does not check"),
    "append only": (altered(appendOnly="true"), "its property delta.appendOnly is set"),
    "in other case": (
        lambda path: act_of(path, properties={"delta.APPENDONLY": "True"}),
        "its property delta.APPENDONLY is set",
    ),
    "change feed": (altered(enableChangeDataFeed="true"), "its property delta.enableChangeData"),
    "row tracking": (
        of_features("rowTracking", "domainMetadata", enableRowTracking="true"),
        "features of Delta that logwright does not write: rowTracking",
    ),
    "timestamps in commits": (
        of_features("inCommitTimestamp", enableInCommitTimestamps="true"),
        "does not write: inCommitTimestamp",
    ),
    "checkpoints": (of_features("v2Checkpoint", reads=True), "does not write: v2Checkpoint"),
    "clustering": (of_features("clustering", "domainMetadata"), "does not write: clustering"),
    "widening": (
        of_features("typeWidening", reads=True, enableTypeWidening="true"),
        "its property delta.enableTypeWidening is set",
    ),
    "widened": (
        lambda path: act_of(
            path, readers=("typeWidening",), marks={"delta.typeChanges": '[{"fromType":"short"}]'}
        ),
        "its column value has delta.typeChanges",
    ),
    "mapping": (
        lambda path: act_of(
            path,
            readers=("columnMapping",),
            ids=True,
            properties={
                "delta.columnMapping.mode": "name",
                "delta.columnMapping.maxColumnId": "6",
            },
        ),
        "its property delta.columnMapping.mode is set",
    ),
    "Iceberg": (of_features("icebergCompatV2"), "does not write: icebergCompatV2"),
    "a feature of tomorrow": (of_features("tomorrow"), "does not write: tomorrow"),
    "one for readers": (of_features("tomorrow", reads=True), "does not write: tomorrow"),
    "a property of tomorrow": (
        lambda path: act_of(path, properties={"delta.tomorrow": "1"}),
        "logwright does not know its property delta.tomorrow",
    ),
    "manifests": (
        lambda path: act_of(
            path, properties={"delta.compatibility.symlinkFormatManifest.enabled": "true"}
        ),
        "symlinkFormatManifest.enabled is set",
    ),
    "invariant": (
        lambda path: act_of(path, marks={"delta.invariants": '{"expression":{"expression":"1"}}'}),
        "its column value has delta.invariants",
    ),
    "generated": (
        lambda path: act_of(path, marks={"delta.generationExpression": "key"}),
        "its column value has delta.generationExpression",
    ),
    "identity": (
        lambda path: act_of(path, marks={"delta.identity.start": "1"}),
        "its column value has delta.identity.start",
    ),
    "types": (other_types, "has changed the types of columns"),
    "partitions": (other_partitions, "partitioned the table in another way"),
}


def files_of(path: Path) -> dict[str, bytes]:
    """All files of a table."""
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


@pytest.mark.parametrize("name", REFUSED)
def test_a_delta_table_that_asks_for_more_is_refused(tmp_path: Path, name: str) -> None:
    """By name, before anything is written; the way out works."""
    other, problem = REFUSED[name]
    where, _ = two_updates(tmp_path, "delta")
    path = tmp_path / "table"
    other(path)
    before = files_of(path)
    grown = write_logs(tmp_path / "3", {0: MORE, 1: PAIRS})
    with pytest.raises((UnknownTable, OtherForm)) as caught:
        update(where, grown)
    assert problem in str(caught.value)
    assert before == files_of(path)
    assert "remove the table" in str(caught.value).lower()
    shutil.rmtree(path)
    update(where, grown)
    assert expected_rows(grown, "t") == table_rows("delta", path)


KEPT: dict[str, Other] = {
    "retention": altered(
        logRetentionDuration="interval 40 days", deletedFileRetentionDuration="interval 9 days"
    ),
    "switched off": altered(appendOnly="false", enableChangeDataFeed="false"),
    "of an engine": lambda path: act_of(path, properties={"owner": "shop", "spark.any": "1"}),
    "name and comment": lambda path: DeltaTable(str(path)).alter.set_table_description("words"),
    "comment of a column": lambda path: DeltaTable(str(path)).alter.set_column_metadata(
        "value", {"comment": "words"}
    ),
    "a constraint that is gone": lambda path: (
        constraint(path),
        DeltaTable(str(path)).alter.drop_constraint("early"),
    ),
    "features without use": lambda path: DeltaTable(str(path)).alter.add_feature(
        [TableFeatures.AppendOnly, TableFeatures.ChangeDataFeed, TableFeatures.DomainMetadata],
        allow_protocol_versions_increase=True,
    ),
    "variants": of_features("variantType", reads=True),
    "mapping that is off": of_features("columnMapping", reads=True, columnMapping_mode="none"),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_asks_for_nothing_stays(tmp_path: Path, name: str) -> None:
    """The table is continued, and has it afterwards."""
    where, _ = two_updates(tmp_path, "delta")
    path = tmp_path / "table"
    KEPT[name](path)
    before = DeltaTable(str(path))
    grown = write_logs(tmp_path / "3", {0: MORE, 1: PAIRS})
    (done, _) = update(where, grown).result.partitions
    assert "upsert" == done.step.kind
    assert expected_rows(grown, "t") == table_rows("delta", path)
    after = DeltaTable(str(path))
    assert before.metadata().configuration.items() <= after.metadata().configuration.items()
    assert before.metadata().description == after.metadata().description
    assert before.schema().to_json() == after.schema().to_json()


def vectors_added(path: Path, version: int) -> int:
    """How many files get a deletion vector in a commit."""
    actions = [json.loads(one) for one in (path / commit_path(version)).read_text().splitlines()]
    return sum("deletionVector" in one.get("add", {}) for one in actions)


@pytest.mark.parametrize("value", ["false", None])
def test_no_vectors_where_a_table_wants_none(tmp_path: Path, value: str | None) -> None:
    """Files are written again; vectors that are there go with them, or stay."""
    many = [(f"k{number}", "v") for number in range(400)]
    path = tmp_path / "table"
    where = place("delta", path, buckets=1)
    update(where, write_logs(tmp_path / "1", {0: many}))
    update(where, write_logs(tmp_path / "2", {0: [*many, *[("k1", "w")] * 10]}))
    grown = write_logs(tmp_path / "3", {0: [*many, *[("k1", "w")] * 10, ("k2", None)]})
    assert vectors_added(path, 1)
    table = DeltaTable(str(path))
    configuration = {} if value is None else {"delta.enableDeletionVectors": value}
    act_of(path, properties=configuration)
    if value is None:
        commit = path / commit_path(table.version() + 1)
        commit.write_text(commit.read_text().replace('"delta.enableDeletionVectors": "true"', ""))
    (done,) = update(where, grown).result.partitions
    assert "upsert" == done.step.kind
    assert expected_rows(grown, "t") == table_rows("delta", path)
    assert not vectors_added(path, DeltaTable(str(path)).version())
    properties = DeltaTable(str(path)).metadata().configuration
    assert value == properties.get("delta.enableDeletionVectors")


def test_the_quarantine_table_is_asked_first(tmp_path: Path) -> None:
    """If it is refused, the other table stays as it was."""
    where, _ = two_updates(tmp_path, "delta", value={"format": "string"})
    broken = write_logs(tmp_path / "3", {0: [*PAIRS, ("k1", b"\xff")], 1: PAIRS})
    assert 1 == update(where, broken).quarantined
    DeltaTable(str(tmp_path / "table_quarantine")).alter.set_table_properties(
        {"delta.appendOnly": "true"}
    )
    before = files_of(tmp_path / "table")
    grown = write_logs(tmp_path / "4", {0: [*PAIRS, ("k1", b"\xff"), ("k2", b"\xff")], 1: PAIRS})
    with pytest.raises(UnknownTable, match=r"table_quarantine.*appendOnly is set"):
        update(where, grown)
    assert before == files_of(tmp_path / "table")


def test_types_of_schemas_within_columns() -> None:
    """Order and comments do not count, null may be allowed, and not be forbidden."""

    def struct(kind: object, *, nullable: bool, **metadata: str) -> str:
        inner = {"name": "a", "type": kind, "nullable": nullable, "metadata": metadata}
        array = {"type": "array", "elementType": {"type": "struct", "fields": [inner]}}
        array["containsNull"] = True
        column = {"name": "c", "type": array, "nullable": True, "metadata": {}}
        return json.dumps({"type": "struct", "fields": [column]})

    required = struct("long", nullable=False)
    assert same_types(required, struct("long", nullable=True, comment="words"))
    assert not same_types(struct("long", nullable=True), required)
    assert not same_types(required, struct("string", nullable=False))
    assert not same_types(required, struct({"type": "map"}, nullable=False))


def spec(*, back: bool) -> Other:
    """PyIceberg partitions by one column more, and perhaps not any more."""

    def act(path: Path) -> None:
        with iceberg(path).update_spec() as change:
            change.add_field("offset", BucketTransform(4), "more")
        if back:
            with iceberg(path).update_spec() as change:
                change.remove_field("more")

    return act


def without_partitions(path: Path) -> None:
    """PyIceberg writes rows without partitions, and partitions it again."""
    with iceberg(path).update_spec() as change:
        change.remove_field("partition")
        change.remove_field("bucket")
    iceberg(path).append(iceberg(path).scan().to_arrow().slice(0, 2))
    with iceberg(path).update_spec() as change:
        change.add_identity("partition")
        change.add_identity("bucket")


def ordered(path: Path) -> None:
    with iceberg(path).update_sort_order() as change:
        change.asc("key", IdentityTransform(), NullOrder.NULLS_FIRST)


def swapped(path: Path) -> None:
    """Two columns change their names."""
    for old, new in (("key", "other"), ("value", "key"), ("other", "value")):
        with iceberg(path).update_schema() as change:
            change.rename_column(old, new)


def other_column(path: Path) -> None:
    """A column goes, and another one with its name comes."""
    with iceberg(path).update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("value")
    with iceberg(path).update_schema() as change:
        change.add_column("value", LongType())


def has_set(**properties: str) -> Other:
    """PyIceberg sets properties."""
    given: dict[str, Any] = {name.replace("_", "."): value for name, value in properties.items()}
    return lambda path: iceberg(path).transaction().set_properties(**given).commit_transaction()


def unset(name: str) -> Other:
    """PyIceberg removes a property."""
    return lambda path: iceberg(path).transaction().remove_properties(name).commit_transaction()


def upgraded(path: Path) -> None:
    """As Spark does; PyIceberg cannot."""
    metadata = Path(iceberg(path).metadata_location.removeprefix("file://"))
    content = json.loads(metadata.read_text()) | {"format-version": 3, "next-row-id": 0}
    metadata.write_text(json.dumps(content))


ICEBERG_REFUSED: dict[str, tuple[Other, str]] = {
    "spec": (spec(back=False), "partitioned it in another way"),
    "rows of another spec": (without_partitions, "partitioned it in another way"),
    "version": (upgraded, "it has version 3 of the format"),
    "names": (swapped, "has changed the column"),
    "column": (other_column, "has changed the column value"),
    "mapping": (unset("schema.name-mapping.default"), "schema.name-mapping.default"),
    "data path": (
        lambda path: has_set(write_data_path=f"file://{path}/elsewhere")(path),
        "its property write.data.path is set",
    ),
    "metadata path": (
        lambda path: has_set(write_metadata_path=f"file://{path}/elsewhere")(path),
        "its property write.metadata.path is set",
    ),
    "keys of encryption": (
        has_set(**{"encryption.key-id": "k"}),
        "its property encryption.key-id is set",
    ),
    "no removal": (has_set(gc_enabled="false"), "its property gc.enabled is set"),
    "of tomorrow": (has_set(write_tomorrow="1"), "its property write.tomorrow is set"),
}


@pytest.mark.parametrize("name", ICEBERG_REFUSED)
def test_an_iceberg_table_that_asks_for_more_is_refused(tmp_path: Path, name: str) -> None:
    """By name, and the table stays; the way out works."""
    other, problem = ICEBERG_REFUSED[name]
    where, _ = two_updates(tmp_path, "iceberg")
    path = tmp_path / "table"
    other(path)
    before = iceberg(path).metadata_location
    grown = write_logs(tmp_path / "3", {0: MORE, 1: PAIRS})
    with pytest.raises(PreconditionError) as caught:
        update(where, grown)
    assert problem in str(caught.value)
    assert before == iceberg(path).metadata_location
    assert "remove the table" in str(caught.value).lower()
    shutil.rmtree(path)
    update(where, grown)
    assert expected_rows(grown, "t") == table_rows("iceberg", path)


def branched(path: Path) -> None:
    table = iceberg(path)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.manage_snapshots().create_branch(snapshot.snapshot_id, "audit").commit()
    table.manage_snapshots().create_tag(snapshot.snapshot_id, "kept").commit()


def test_a_tag_keeps_what_is_to_be_gone(tmp_path: Path) -> None:
    """Nothing may be kept, and a tag keeps a version: it is named until it is gone."""
    where, _ = two_updates(tmp_path, "iceberg", keep_versions_ms=0)
    path = tmp_path / "table"
    branched(path)
    grown = write_logs(tmp_path / "3", {0: MORE, 1: PAIRS})
    for _ in range(2):
        with pytest.raises(InDoubt, match=r"the branch or tag audit .* keeps an earlier version"):
            update(where, grown)
        assert expected_rows(grown, "t") == table_rows("iceberg", path)
    iceberg(path).manage_snapshots().remove_branch("audit").remove_tag("kept").commit()
    files = len(list(path.rglob("*.parquet")))
    update(where, grown)
    assert expected_rows(grown, "t") == table_rows("iceberg", path)
    assert files > len(list(path.rglob("*.parquet")))


def documented(path: Path) -> None:
    with iceberg(path).update_schema() as change:
        change.update_column("value", doc="words")


def moved(path: Path) -> None:
    """The columns have another order."""
    with iceberg(path).update_schema() as change:
        change.move_first("value")


ICEBERG_KEPT: dict[str, Other] = {
    "spec as it was": spec(back=True),
    "order": ordered,
    "refs": branched,
    "docs": documented,
    "moved": moved,
    "hints": has_set(
        **{
            "write.delete.mode": "copy-on-write",
            "write.format.default": "orc",
            "write.parquet.compression-codec": "gzip",
            "write.metadata.delete-after-commit.enabled": "true",
            "commit.manifest.min-count-to-merge": "1",
            "commit.manifest-merge.enabled": "true",
            "history.expire.max-snapshot-age-ms": "1",
            "owner": "shop",
        }
    ),
}


@pytest.mark.parametrize("name", ICEBERG_KEPT)
def test_what_asks_for_nothing_stays_in_iceberg(tmp_path: Path, name: str) -> None:
    """The table is continued, and has it afterwards."""
    where, _ = two_updates(tmp_path, "iceberg")
    path = tmp_path / "table"
    ICEBERG_KEPT[name](path)
    before = iceberg(path)
    grown = write_logs(tmp_path / "3", {0: MORE, 1: PAIRS})
    (done, _) = update(where, grown).result.partitions
    assert ("rebuild" if name == "moved" else "upsert") == done.step.kind
    assert expected_rows(grown, "t") == table_rows("iceberg", path)
    after = iceberg(path)
    assert before.properties.items() <= after.properties.items()
    assert before.sort_order() == after.sort_order()
    assert before.schema() == after.schema()
    assert {*before.refs()} == {*after.refs()}
