"""The Python of docs/tables.md runs as it is written, on a log directory of a test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from tests.spark.kafka_logs import PUSH_DOWN, frame
from tests.spark_session import Observed
from tests.tidy.trees import ROOT

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:::pyspark.*"),
]

PAGE = ROOT / "docs" / "tables.md"
LOG_DIR = "/var/lib/kafka/data"
OUTPUT = "/var/lib"
"""Where the page puts what is not a log: below it are checkpoints and tables."""


def blocks(*sections: str) -> list[str]:
    """The Python of these sections of the page, in order."""
    parts = []
    for part in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE):
        if part.partition("\n")[0] in sections:
            parts += re.findall(r"^```python\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    return parts


def test_reading_and_appending(observed: Observed, tmp_path: Path) -> None:
    """Each snippet works after those before it, and reads or appends what the page says."""
    spark = observed.spark
    number = F.col("id").cast("string")
    rows = spark.range(90).select(
        number.alias("key"), number.alias("value"), (F.col("id") % 3).cast("int").alias("partition")
    )
    frame(spark, tmp_path)  # registers the format
    for topic in ("orders", "customers"):
        given = {"topic": topic, "partitions": "3"}
        rows.write.format("kafka-log").options(**given).mode("append").save(str(tmp_path))
    names: dict[str, Any] = {"spark": spark}
    written = tmp_path.with_name(f"{tmp_path.name}-written")
    shown = blocks("Read a topic with Spark", "Append rows with Spark")
    assert 9 == len(shown)
    try:
        for block in shown:
            text = block.replace(LOG_DIR, str(tmp_path)).replace(OUTPUT, str(written))
            exec(text, names)  # noqa: S102 -- the page's own text
    finally:
        spark.conf.set(PUSH_DOWN, "false")
        spark.catalog.dropTempView("orders")
    counted = [names[one].count() for one in ("orders", "offsets", "some")]
    assert [90, 90, 10 + 30] == counted
    assert {15 + n for n in range(15)} == {row.offset for row in names["recent"].collect()}
    latest = frame(spark, tmp_path, subscribe="customers", view="latest")
    assert 91 == latest.count()
    assert 90 == spark.read.parquet(f"{written}/tables/orders").count()
