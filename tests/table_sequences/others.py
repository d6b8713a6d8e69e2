"""What other programs do to the table: by `deltalake`, `pyiceberg`, Spark, pyarrow, and a disk that
loses files.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from tests.table_sequences.world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Act = Callable[[World, random.Random], None]


def delta_at(world: World) -> DeltaTable:
    return DeltaTable(str(world.table))


def delta_rows(world: World) -> pa.Table:
    query = QueryBuilder().register("t", delta_at(world)).execute("SELECT * FROM t")
    return pa.table(query.read_all())


def iceberg_at(world: World) -> Table:
    uri = f"sqlite:///{world.table}/catalog.db"
    return load_catalog("logwright", type="sql", uri=uri).load_table("latest_state.t")


def _offset(draw: random.Random) -> int:
    return draw.randrange(100)


def delta_restore(world: World, draw: random.Random) -> None:
    """To some version, forgiving files that are gone or not."""
    table = delta_at(world)
    table.restore(draw.randint(0, table.version()), ignore_missing_files=draw.random() < 0.5)


def delta_delete(world: World, draw: random.Random) -> None:
    """Some rows, or all."""
    table = delta_at(world)
    table.delete(draw.choice([None, f'"offset" < {_offset(draw)}', "bucket = 0"]))


def delta_update(world: World, draw: random.Random) -> None:
    """Values of some rows; as many rows as before."""
    delta_at(world).update(updates={"value": "'hacked'"}, predicate=f'"offset" > {_offset(draw)}')


def delta_merge(world: World, draw: random.Random) -> None:
    """Rows of another table, with other values."""
    rows = delta_rows(world).slice(0, draw.randint(1, 9))
    merging = delta_at(world).merge(
        source=rows,
        predicate='t."offset" = s."offset" AND t.partition = s.partition',
        source_alias="s",
        target_alias="t",
    )
    merging.when_matched_update({"value": "'merged'"}).execute()


def delta_append(world: World, draw: random.Random) -> None:
    """Rows that are there already."""
    rows = delta_rows(world)
    write_deltalake(str(world.table), rows.slice(0, draw.randint(1, 9)), mode="append")


def delta_overwrite(world: World, draw: random.Random) -> None:
    """With nothing, or with some or all of its rows."""
    rows = delta_rows(world)
    rows = rows.slice(0, draw.choice([0, len(rows) // 2, len(rows)]))
    write_deltalake(str(world.table), rows, mode="overwrite")


def delta_column(world: World, draw: random.Random) -> None:
    """A column more."""
    rows = delta_rows(world).slice(0, draw.randint(0, 2))
    rows = rows.append_column("more", pa.array([None] * len(rows), pa.string()))
    write_deltalake(str(world.table), rows, mode="append", schema_mode="merge")


def delta_compact(world: World, draw: random.Random) -> None:
    """The same rows in other files."""
    optimizer = delta_at(world).optimize
    if draw.random() < 0.5:
        optimizer.compact()
    else:
        optimizer.z_order(["key"])


def delta_vacuum(world: World, draw: random.Random) -> None:
    """Files without use; in full also deletion vectors, which the library takes for such."""
    delta_at(world).vacuum(
        0, dry_run=False, enforce_retention_duration=False, full=draw.random() < 0.3
    )


def delta_checkpoint(world: World, draw: random.Random) -> None:
    """A checkpoint; rarely the log below it is removed at once."""
    table = delta_at(world)
    if draw.random() < 0.2:
        table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
        time.sleep(0.01)
        table = delta_at(world)
    table.create_checkpoint()
    table.cleanup_metadata()


def delta_lost_commit(world: World, draw: random.Random) -> None:
    """A file of the log is gone."""
    (draw.choice(sorted((world.table / "_delta_log").glob("*.json")))).unlink()


def iceberg_delete(world: World, draw: random.Random) -> None:
    """Some rows, or all."""
    iceberg_at(world).delete(
        draw.choice([f"offset < {_offset(draw)}", "offset >= 0", "bucket = 0"])
    )


def iceberg_append(world: World, draw: random.Random) -> None:
    """Rows that are there already."""
    table = iceberg_at(world)
    table.append(table.scan().to_arrow().slice(0, draw.randint(1, 9)))


def iceberg_overwrite(world: World, draw: random.Random) -> None:
    """With nothing, or with some or all of its rows."""
    table = iceberg_at(world)
    rows = table.scan().to_arrow()
    table.overwrite(rows.slice(0, draw.choice([0, len(rows) // 2, len(rows)])))


def iceberg_rollback(world: World, draw: random.Random) -> None:
    """To some snapshot."""
    table = iceberg_at(world)
    snapshot = draw.choice(table.snapshots()).snapshot_id
    table.manage_snapshots().set_current_snapshot(snapshot).commit()


def iceberg_expire(world: World, draw: random.Random) -> None:
    """Some old snapshots, or all that may be."""
    table = iceberg_at(world)
    current = table.current_snapshot()
    old = [one.snapshot_id for one in table.snapshots() if one != current]
    chosen = [one for one in old if draw.random() < 0.7]
    if chosen:
        table.maintenance.expire_snapshots().by_ids(chosen).commit()


def iceberg_column(world: World, draw: random.Random) -> None:
    """A column more."""
    from pyiceberg.types import StringType  # noqa: PLC0415 -- here only

    del draw
    with iceberg_at(world).update_schema() as change:
        change.add_column("more", StringType())


def iceberg_lost_metadata(world: World, draw: random.Random) -> None:
    """A file of the metadata is gone."""
    draw.choice(sorted((world.table / "metadata").iterdir())).unlink()


def parquet_replace(world: World, draw: random.Random) -> None:
    """A bucket's file, by one with other values, fewer rows, or the same rows."""
    path = draw.choice(_files(world))
    with pq.ParquetFile(path) as file:
        rows = file.read()
    kind = draw.randrange(3)
    if kind == 0:
        at = rows.schema.get_field_index("value")
        rows = rows.set_column(at, "value", pa.array([b"hacked"] * len(rows), pa.binary()))
    elif kind == 1:
        rows = rows.slice(0, len(rows) // 2)
    pq.write_table(rows, path)


def parquet_append(world: World, draw: random.Random) -> None:
    """A file next to one of the table."""
    path = draw.choice(_files(world))
    shutil.copyfile(path, path.with_name("part-0.parquet"))


def parquet_by_spark(spark: SparkSession) -> Act:
    """What Spark appends to the table, or writes over it."""

    def act(world: World, draw: random.Random) -> None:
        rows = spark.read.parquet(str(world.table)).limit(5).collect()
        frame = (
            spark.createDataFrame(
                rows or [],
                "offset long, timestamp timestamp, key binary,"
                " value binary, partition int, bucket int",
            )
            if rows
            else None
        )
        if frame is not None:
            writer = frame.coalesce(1).write.partitionBy("partition", "bucket")
            writer.mode(draw.choice(["append", "append", "overwrite"])).parquet(str(world.table))

    return act


def lost_file(world: World, draw: random.Random) -> None:
    """The disk loses a file of the table, or a part of it."""
    path = draw.choice(_files(world) + sorted(world.table.glob("*.bin")))
    if draw.random() < 0.7:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])


def _files(world: World) -> list[Path]:
    files = sorted(
        path
        for path in world.table.rglob("*.parquet")
        if not any(part.startswith((".", "_")) for part in path.relative_to(world.table).parts)
    )
    if not files:
        raise OSError("no file")
    return files


OTHERS: Final[dict[str, dict[str, tuple[int, Act]]]] = {
    "delta": {
        "restore": (6, delta_restore),
        "delete": (4, delta_delete),
        "update": (3, delta_update),
        "merge": (2, delta_merge),
        "append": (3, delta_append),
        "overwrite": (3, delta_overwrite),
        "column": (1, delta_column),
        "compact": (6, delta_compact),
        "vacuum": (4, delta_vacuum),
        "checkpoint": (3, delta_checkpoint),
        "lost commit": (1, delta_lost_commit),
        "lost file": (2, lost_file),
    },
    "iceberg": {
        "delete": (4, iceberg_delete),
        "append": (4, iceberg_append),
        "overwrite": (4, iceberg_overwrite),
        "rollback": (6, iceberg_rollback),
        "expire": (4, iceberg_expire),
        "column": (1, iceberg_column),
        "lost metadata": (1, iceberg_lost_metadata),
        "lost file": (2, lost_file),
    },
    "parquet": {
        "replace": (6, parquet_replace),
        "append": (2, parquet_append),
        "lost file": (3, lost_file),
    },
}
"""By format: name → weight and act."""
