"""Spark's own discovery of the format ``kafka-log``.

Spark 4 imports all top-level modules named ``pyspark_*`` when a session first looks for a data
source that is not built in, and takes their `DefaultSource`.
"""

from logwright.spark.kafka_log import KafkaLog as DefaultSource

__all__ = ["DefaultSource"]
