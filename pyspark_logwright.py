"""Spark's own discovery of the format ``kafka-log``.

Spark 4 imports all top-level modules named ``pyspark_*`` when a session first looks for a data
source that is not built in, and takes their `DefaultSource`. An import that fails would break every
such look-up, so without the extra ``spark`` there is none here.
"""

from contextlib import suppress

from logwright.extras import MissingExtra

with suppress(MissingExtra):
    from logwright.spark.kafka_log import KafkaLog as DefaultSource  # noqa: F401 -- for Spark
