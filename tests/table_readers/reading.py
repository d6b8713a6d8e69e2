"""Reads a table by one engine: ``python reading.py READER TABLE OUT [JARS]``. It runs in the
engine's own environment, so it imports nothing of this repository.

OUT gets a list of (partition, offset, key, value) as JSON, keys and values in hexadecimal digits.
If the engine raises, OUT gets the class and the first line of its message.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

NAMES = ["partition", "offset", "key", "value"]
LONGEST = 300


def _hex(value: Any) -> str | None:
    """Bytes, or text that stands for them as the engine has no type of bytes."""
    if value is None:
        return None
    return (value.encode() if isinstance(value, str) else bytes(value)).hex()


def _rows(columns: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    return [
        (partition, offset, _hex(key), _hex(value))
        for partition, offset, key, value in zip(*columns, strict=True)
    ]


def _of_arrow(table: Any) -> list[tuple[Any, ...]]:
    return _rows(table[name].to_pylist() for name in NAMES)


def _of_polars(frame: Any) -> list[tuple[Any, ...]]:
    return _rows(frame[name].to_list() for name in NAMES)


def _of_pandas(frame: Any) -> list[tuple[Any, ...]]:
    return _rows(frame[name].tolist() for name in NAMES)


def _metadata_of(path: str) -> str:
    """The newest metadata file of a table of Iceberg, by its catalog."""
    with sqlite3.connect(f"{path}/catalog.db") as catalog:
        ((location,),) = catalog.execute("SELECT metadata_location FROM iceberg_tables")
    return str(location)


def _by_pyiceberg(path: str) -> Any:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("logwright", type="sql", uri=f"sqlite:///{path}/catalog.db")
    return catalog.load_table("latest_state.t")


def pyiceberg_scan(path: str, _: str) -> list[tuple[Any, ...]]:
    return _of_arrow(_by_pyiceberg(path).scan().to_arrow())


def deltalake_query(path: str, _: str) -> list[tuple[Any, ...]]:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    query = QueryBuilder().register("t", DeltaTable(path)).execute("SELECT * FROM t")
    batches = query.read_all() if hasattr(query, "read_all") else query.fetchall()
    if isinstance(batches, list):
        return _of_arrow(pa.Table.from_batches([pa.record_batch(one) for one in batches]))
    return _of_arrow(pa.table(batches))


def deltalake_arrow(path: str, _: str) -> list[tuple[Any, ...]]:
    from deltalake import DeltaTable

    return _of_arrow(DeltaTable(path).to_pyarrow_table())


def polars_delta(path: str, _: str) -> list[tuple[Any, ...]]:
    import polars as pl

    return _of_polars(pl.scan_delta(path).collect())


def polars_parquet(path: str, _: str) -> list[tuple[Any, ...]]:
    import polars as pl

    return _of_polars(pl.scan_parquet(path).collect())


def polars_iceberg(path: str, _: str) -> list[tuple[Any, ...]]:
    import polars as pl

    return _of_polars(pl.scan_iceberg(_by_pyiceberg(path)).collect())


def polars_plugin(path: str, _: str) -> list[tuple[Any, ...]]:
    from polars_deltalake import scan_delta

    return _of_polars(scan_delta(path).collect())


def duckdb_parquet(path: str, _: str) -> list[tuple[Any, ...]]:
    import duckdb

    content = duckdb.read_parquet(f"{path}/*/*/*.parquet", hive_partitioning=True)
    return _rows(
        zip(*content.project(", ".join(f'"{name}"' for name in NAMES)).fetchall(), strict=True)
    )


def _by_duckdb(source: str, path: str, *extensions: str) -> list[tuple[Any, ...]]:
    import duckdb
    import duckdb_ext

    directory = Path(next(iter(duckdb_ext.__path__)))
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        for extension in extensions:
            (file,) = directory.rglob(f"{extension}.duckdb_extension")
            connection.execute(f"LOAD '{file}'")
        names = ", ".join(f'"{name}"' for name in NAMES)
        rows = connection.execute(f"SELECT {names} FROM {source}(?)", [path]).fetchall()  # noqa: S608 - names of this file
    return _rows(zip(*rows, strict=True))


def duckdb_delta(path: str, _: str) -> list[tuple[Any, ...]]:
    return _by_duckdb("delta_scan", path, "delta")


def duckdb_iceberg(path: str, _: str) -> list[tuple[Any, ...]]:
    return _by_duckdb("iceberg_scan", _metadata_of(path), "avro", "iceberg")


def pandas_parquet(path: str, _: str) -> list[tuple[Any, ...]]:
    import pandas as pd

    return _of_pandas(pd.read_parquet(path))


def pyarrow_parquet(path: str, _: str) -> list[tuple[Any, ...]]:
    import pyarrow.dataset as ds

    content = ds.dataset(path, format="parquet", partitioning="hive")
    return _of_arrow(content.to_table())


def datafusion_parquet(path: str, _: str) -> list[tuple[Any, ...]]:
    import pyarrow as pa
    from datafusion import SessionContext

    context = SessionContext()
    places = [("partition", pa.int32()), ("bucket", pa.int32())]
    context.register_parquet("t", path, table_partition_cols=places)
    return _of_arrow(context.sql("SELECT * FROM t").to_arrow_table())


def datafusion_delta(path: str, _: str) -> list[tuple[Any, ...]]:
    from datafusion import SessionContext
    from deltalake import DeltaTable

    context = SessionContext()
    context.register_table("t", DeltaTable(path))
    return _of_arrow(context.sql("SELECT * FROM t").to_arrow_table())


def daft_parquet(path: str, _: str) -> list[tuple[Any, ...]]:
    import daft

    content = daft.read_parquet(f"{path}/*/*/*.parquet", hive_partitioning=True)
    return _of_arrow(content.to_arrow())


def daft_delta(path: str, _: str) -> list[tuple[Any, ...]]:
    import daft

    return _of_arrow(daft.read_deltalake(path).to_arrow())


def daft_iceberg(path: str, _: str) -> list[tuple[Any, ...]]:
    import daft

    return _of_arrow(daft.read_iceberg(_by_pyiceberg(path)).to_arrow())


def _by_chdb(source: str) -> list[tuple[Any, ...]]:
    import chdb

    keys = 'partition, "offset", hex(key) AS key, hex(value) AS value'
    text = str(chdb.query(f"SELECT {keys} FROM {source}", "JSONCompactEachRow"))  # noqa: S608 - a path of the test
    rows = [json.loads(line) for line in text.splitlines()]
    return [(int(row[0]), int(row[1]), row[2].lower(), row[3].lower()) for row in rows]


def chdb_parquet(path: str, _: str) -> list[tuple[Any, ...]]:
    return _by_chdb(f"file('{path}/*/*/*.parquet') SETTINGS use_hive_partitioning=1")


def chdb_delta(path: str, _: str) -> list[tuple[Any, ...]]:
    return _by_chdb(f"deltaLakeLocal('{path}')")


def chdb_iceberg(path: str, _: str) -> list[tuple[Any, ...]]:
    return _by_chdb(f"icebergLocal('{path}')")


def _by_spark(path: str, form: str, jars: str, **settings: str) -> list[tuple[Any, ...]]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    settings = {"spark.jars": jars, "spark.driver.memory": "1g", **settings}
    for name, value in settings.items():
        builder = builder.config(name, value)
    rows = builder.getOrCreate().read.format(form).load(path).select(*NAMES).collect()
    return _rows(zip(*rows, strict=True))


def spark_parquet(path: str, jars: str) -> list[tuple[Any, ...]]:
    return _by_spark(path, "parquet", jars)


def spark_delta(path: str, jars: str) -> list[tuple[Any, ...]]:
    delta = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    return _by_spark(path, "delta", jars, **delta)


def spark_iceberg(path: str, jars: str) -> list[tuple[Any, ...]]:
    return _by_spark(_metadata_of(path), "iceberg", jars)


def main(reader: str, path: str, out: str, jars: str = "") -> None:
    """Read the table, and write what came of it. Effects: as said."""
    read: Callable[[str, str], list[tuple[Any, ...]]] = globals()[reader]
    try:
        content: Any = {"rows": read(path, jars)}
    except BaseException as error:  # noqa: BLE001 -- engines of Rust panic with one that is not an Exception
        lines = str(error).replace(path, "PATH").strip().splitlines() or [""]
        content = {"raised": type(error).__name__, "message": lines[0][:LONGEST]}
    Path(out).write_text(json.dumps(content))


if __name__ == "__main__":
    main(*sys.argv[1:])
