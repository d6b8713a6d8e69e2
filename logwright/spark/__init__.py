"""Spark: the engine's functions on many partitions at once, and logs as a data source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.extras import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

require("spark", by="Spark as an engine")


def register(spark: SparkSession) -> None:
    """Make the format ``kafka-log`` known to a session. Where `pyspark_logwright` is on the
    workers' Python path, as with ``pip install``, Spark finds it without this.
    """
    from logwright.spark.kafka_log import KafkaLog  # noqa: PLC0415 -- sweeps need none of it
    from logwright.spark.session import use_this_python  # noqa: PLC0415 -- as above

    use_this_python(spark)
    spark.dataSource.register(KafkaLog)
