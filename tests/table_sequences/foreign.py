"""A program of another environment that changes tables: DuckDB, or Spark with the jars of Delta and
Iceberg. Run by that environment's Python, which has none of this project.

``python foreign.py duckdb EXTENSION...`` or ``python foreign.py spark JAR...`` reads a line for
each task, JSON with ``form``, ``path`` and ``statements`` (``{t}`` is the table), and answers with
a line: how many statements were done, and the error of the first that was not.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


class DuckDb:
    """DuckDB with its extension delta: it inserts rows."""

    def __init__(self, extensions: list[str]) -> None:
        self._extensions = extensions

    def run(self, form: str, path: str, statement: str) -> None:
        """Run a statement."""
        import duckdb  # noqa: PLC0415 -- of that environment

        del form
        connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        for extension in self._extensions:
            connection.execute(f"LOAD '{extension}'")
        connection.execute(f"ATTACH '{path}' AS t (TYPE delta)")
        connection.execute(statement.replace("{t}", "t"))
        connection.close()


class Spark:
    """Spark, with a session for each table."""

    def __init__(self, jars: list[str]) -> None:
        from pyspark.sql import SparkSession  # noqa: PLC0415 -- of that environment

        extensions = [
            "io.delta.sql.DeltaSparkSessionExtension",
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        ]
        builder = SparkSession.builder.master("local[1]")
        for name, value in {
            "spark.jars": ",".join(jars),
            "spark.ui.enabled": "false",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",  # of a vacuum
            "spark.sql.extensions": ",".join(extensions),
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.retentionDurationCheck.enabled": "false",
            "spark.databricks.delta.snapshotPartitions": "1",
        }.items():
            builder = builder.config(name, value)
        self._first = builder.getOrCreate()
        self._first.sparkContext.setLogLevel("OFF")

    def run(self, form: str, path: str, statement: str) -> None:
        """Run a statement."""
        session = self._first.newSession()
        name = f"delta.`{path}`"
        if form == "iceberg":
            name = "logwright.latest_state.t"
            prefix = "spark.sql.catalog.logwright"
            for key, value in {
                prefix: "org.apache.iceberg.spark.SparkCatalog",
                f"{prefix}.type": "jdbc",
                f"{prefix}.uri": f"jdbc:sqlite:{path}/catalog.db",
                f"{prefix}.warehouse": f"file://{path}",
                f"{prefix}.jdbc.schema-version": "V1",
                f"{prefix}.cache-enabled": "false",
            }.items():
                session.conf.set(key, value)
        try:
            session.sql(statement.replace("{t}", name)).collect()
        finally:
            if form == "iceberg":  # its connection would lock the catalog
                manager = session._jsparkSession.sessionState().catalogManager()
                manager.catalog("logwright").icebergCatalog().close()


def main(arguments: list[str]) -> None:
    """Do tasks until the input ends."""
    (kind, *files) = arguments
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the program, or its JVM, says
    engine: Any = {"duckdb": DuckDb, "spark": Spark}[kind](files)
    for line in sys.stdin:
        task = json.loads(line)
        done, error = 0, ""
        for statement in task["statements"]:
            try:
                engine.run(task["form"], task["path"], statement)
            except Exception as raised:  # noqa: BLE001 -- of another program, of any kind
                error = f"{type(raised).__name__}: {str(raised)[:300]}"
                break
            done += 1
        answers.write(json.dumps({"done": done, "error": error}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
