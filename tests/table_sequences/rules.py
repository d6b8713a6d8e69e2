"""What other programs ask of the writers of a table: properties, constraints, partitions, orders.

Each act that the next update refuses notes how it is undone: half of the refusals are answered so.
"""

from __future__ import annotations

import random
from typing import Any, Final

import polars as pl
from deltalake import DeltaTable, TableFeatures
from pyiceberg.expressions import EqualTo
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import StringType

from tests.table_sequences.others import Act, delta_at, delta_rows, iceberg_at
from tests.table_sequences.world import World

_HINTS: Final = {
    "delta.logRetentionDuration": "interval 40 days",
    "delta.checkpointInterval": "3",
    "delta.deletedFileRetentionDuration": "interval 1 hour",
    "delta.dataSkippingNumIndexedCols": "1",
    "delta.appendOnly": "false",
}
_FEATURES: Final = (
    TableFeatures.AppendOnly,
    TableFeatures.ChangeDataFeed,
    TableFeatures.DomainMetadata,
    TableFeatures.ColumnMapping,
    TableFeatures.GeneratedColumns,
)
"""Without use they ask for nothing."""
_ICEBERG_HINTS: Final = {
    "write.delete.mode": "copy-on-write",
    "write.parquet.compression-codec": "gzip",
    "write.metadata.previous-versions-max": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "2",
    "owner": "shop",
}


def _set(world: World, name: str, value: str) -> None:
    delta_at(world).alter.set_table_properties({name: value})


def delta_switch(world: World, draw: random.Random) -> None:
    """A property that an update does not follow."""
    name = draw.choice(["delta.appendOnly", "delta.enableChangeDataFeed"])
    _set(world, name, "true")
    world.undo = lambda: _set(world, name, "false")


def delta_constraint(world: World, draw: random.Random) -> None:
    """A constraint that all rows meet, and perhaps not those that come."""
    name = f"c{draw.randrange(10)}"
    delta_at(world).alter.add_constraint({name: '"offset" < 1000000'})
    world.undo = lambda: delta_at(world).alter.drop_constraint(name)


def delta_hint(world: World, draw: random.Random) -> None:
    """A property that asks for nothing, or a name, or a comment."""
    kind = draw.randrange(4)
    table = delta_at(world)
    if kind == 0:
        table.alter.set_table_description("words")
    elif kind == 1:
        table.alter.set_column_metadata("key", {"comment": "words"})
    else:
        _set(world, *draw.choice(sorted(_HINTS.items())))


def delta_feature(world: World, draw: random.Random) -> None:
    """A feature without use."""
    delta_at(world).alter.add_feature(draw.choice(_FEATURES), allow_protocol_versions_increase=True)


def delta_no_vectors(world: World, draw: random.Random) -> None:
    """No deletion vectors from now on, or again."""
    _set(world, "delta.enableDeletionVectors", draw.choice(["false", "false", "true"]))


def _frame(world: World, draw: random.Random) -> pl.DataFrame:
    frame = pl.from_arrow(delta_rows(world))
    assert isinstance(frame, pl.DataFrame)
    return frame.head(draw.choice([1, 9, 1000]))


def polars_write(world: World, draw: random.Random) -> None:
    """Polars appends rows, or writes over the table."""
    _frame(world, draw).write_delta(str(world.table), mode=draw.choice(["append", "overwrite"]))


def polars_merge(world: World, draw: random.Random) -> None:
    """Polars merges rows that it has changed."""
    frame = _frame(world, draw).with_columns(timestamp=pl.col("timestamp").dt.offset_by("1h"))
    options = {
        "predicate": 't."offset" = s."offset" AND t.partition = s.partition',
        "source_alias": "s",
        "target_alias": "t",
    }
    merging = frame.write_delta(str(world.table), mode="merge", delta_merge_options=options)
    merging.when_matched_update_all().execute()


def iceberg_spec(world: World, draw: random.Random) -> None:
    """Another partition spec, with rows or without."""
    name = f"more{draw.randrange(10)}"
    with iceberg_at(world).update_spec() as change:
        change.add_field("offset", BucketTransform(4), name)
    if draw.random() < 0.3:
        table = iceberg_at(world)
        table.append(table.scan().to_arrow().slice(0, 3))

    def undo() -> None:
        with iceberg_at(world).update_spec() as change:
            change.remove_field(name)

    if draw.random() < 0.5:
        undo()
    world.undo = undo


def iceberg_order(world: World, draw: random.Random) -> None:
    """A sort order, or none."""
    with iceberg_at(world).update_sort_order() as change:
        if draw.random() < 0.8:
            change.asc("key", IdentityTransform(), NullOrder.NULLS_FIRST)


def _set_iceberg(world: World, pairs: dict[str, Any]) -> None:
    iceberg_at(world).transaction().set_properties(**pairs).commit_transaction()


def iceberg_hint(world: World, draw: random.Random) -> None:
    """A property that asks for nothing, or a comment."""
    if draw.random() < 0.2:
        with iceberg_at(world).update_schema() as change:
            change.update_column("key", doc="words")
    else:
        name, value = draw.choice(sorted(_ICEBERG_HINTS.items()))
        _set_iceberg(world, {name: value})


def iceberg_switch(world: World, draw: random.Random) -> None:
    """A property that an update does not follow."""
    name = draw.choice(["write.data.path", "gc.enabled", "write.object-storage.enabled"])
    values = {"write.data.path": f"file://{world.table}/data2", "gc.enabled": "false"}
    _set_iceberg(world, {name: values.get(name, "true")})
    world.undo = lambda: (
        iceberg_at(world).transaction().remove_properties(name).commit_transaction()
    )


def iceberg_refs(world: World, draw: random.Random) -> None:
    """A branch or a tag; perhaps a branch gets rows."""
    table = iceberg_at(world)
    world.has_refs = True
    snapshot = draw.choice(table.snapshots()).snapshot_id
    name = f"r{draw.randrange(5)}"
    if draw.random() < 0.5:
        table.manage_snapshots().create_tag(snapshot, f"t{name}").commit()
        return
    table.manage_snapshots().create_branch(snapshot, name).commit()
    table = iceberg_at(world)
    table.append(table.scan().to_arrow().slice(0, 2), branch=name)


def iceberg_names(world: World, draw: random.Random) -> None:
    """A column has another name, and it has its own again, or another column has it."""
    table = iceberg_at(world)
    with table.update_schema() as change:
        change.rename_column("timestamp", "other")
    with iceberg_at(world).update_schema(allow_incompatible_changes=True) as change:
        if draw.random() < 0.5:
            change.rename_column("other", "timestamp")
        else:
            change.delete_column("other")
            change.add_column("timestamp", StringType())


def iceberg_upsert(world: World, draw: random.Random) -> None:
    """PyIceberg deletes and writes in one snapshot."""
    table = iceberg_at(world)
    rows = table.scan().to_arrow()
    at = draw.randrange(1 << 20) % max(len(rows), 1)
    change = table.transaction()
    change.delete(EqualTo("offset", rows["offset"][at].as_py()))
    change.append(rows.slice(at, 1))
    change.commit_transaction()


def iceberg_polars(world: World, draw: random.Random) -> None:
    """Polars appends rows, or writes over the table."""
    table = iceberg_at(world)
    frame = pl.from_arrow(table.scan().to_arrow())
    assert isinstance(frame, pl.DataFrame)
    frame.head(draw.choice([1, 9, 1000])).write_iceberg(
        table, mode=draw.choice(["append", "overwrite"])
    )


def restored_metadata(world: World, draw: random.Random) -> None:
    """Deltalake restores a version, and compacts at once."""
    table = delta_at(world)
    table.restore(draw.randint(0, table.version()), ignore_missing_files=True)
    DeltaTable(str(world.table)).optimize.compact()


RULES: Final[dict[str, dict[str, tuple[int, Act]]]] = {
    "delta": {
        "switch": (2, delta_switch),
        "constraint": (2, delta_constraint),
        "hint": (4, delta_hint),
        "feature": (3, delta_feature),
        "no vectors": (3, delta_no_vectors),
        "Polars write": (3, polars_write),
        "Polars merge": (3, polars_merge),
        "restore and compact": (2, restored_metadata),
    },
    "iceberg": {
        "spec": (3, iceberg_spec),
        "order": (3, iceberg_order),
        "hint": (5, iceberg_hint),
        "switch": (2, iceberg_switch),
        "refs": (3, iceberg_refs),
        "names": (1, iceberg_names),
        "upsert": (3, iceberg_upsert),
        "Polars write": (3, iceberg_polars),
    },
    "parquet": {},
}
"""By format: name → weight and act."""
