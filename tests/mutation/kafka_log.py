"""Deliberate faults in the data source: rows that a query does not get, or gets twice."""

from __future__ import annotations

from tests.mutation.fault import Fault

_FILTERS = ("tests/unit/spark/test_kafka_log_filters.py",)
_OPTIONS = ("tests/unit/spark/test_kafka_log_options.py",)
_RUNNING = ("tests/unit/spark/test_kafka_log_stream_running.py",)
_STREAM = ("tests/unit/spark/test_kafka_log_stream.py",)
_PLAN = ("tests/unit/spark/test_kafka_log_plan.py",)
_WRITE = ("tests/unit/spark/test_kafka_log_write.py", "tests/spark/test_kafka_log_write.py")

KAFKA_LOG = (
    Fault(
        family="kafka-log: an offset above a filter's is one too high",
        file="spark/kafka_log_filters.py",
        right="{GreaterThan: 1, GreaterThanOrEqual: 0}",
        wrong="{GreaterThan: 1, GreaterThanOrEqual: 1}",
        tests=_FILTERS,
    ),
    Fault(
        family="kafka-log: a list of offsets with gaps is exact",
        file="spark/kafka_log_filters.py",
        right="end - first == len(chosen)",
        wrong="True",
        tests=_FILTERS,
    ),
    Fault(
        family="kafka-log: Spark does not evaluate filters of times",
        file="spark/kafka_log_filters.py",
        right="    return limited, False\n",
        wrong="    return limited, True\n",
        tests=_FILTERS,
    ),
    Fault(
        family="kafka-log: a later filter replaces an earlier one",
        file="spark/kafka_log_filters.py",
        right="    return other if chosen is None else chosen & other\n",
        wrong="    return other\n",
        tests=_FILTERS,
    ),
    Fault(
        family="kafka-log: filters of offsets choose before the latest is known",
        file="spark/kafka_log_filters.py",
        right='    "latest": _OF_LATEST,\n',
        wrong='    "latest": {**_OF_LATEST, "offset": _offsets},\n',
        tests=_FILTERS,
    ),
    Fault(
        family="kafka-log: two ends of a read are accepted",
        file="spark/kafka_log_options.py",
        right="        for names in (_STARTS, _ENDS, _AS_OF):\n",
        wrong="        for names in (_STARTS, _AS_OF):\n",
        tests=_OPTIONS,
    ),
    Fault(
        family="kafka-log: a pattern finds internal topics",
        file="spark/kafka_log_plan.py",
        right=" - INTERNAL_TOPICS.keys()\n",
        wrong="\n",
        tests=_PLAN,
    ),
    Fault(
        family="kafka-log: offsets of some partitions are forgotten",
        file="spark/kafka_log_plan.py",
        right='("has no value for", chosen - given),',
        wrong='("has no value for", set[TopicPartition]()),',
        tests=_PLAN,
    ),
    Fault(
        family="kafka-log: offsets may be above the last stable offset",
        file="spark/kafka_log_plan.py",
        right="log.last_stable_offset if committed else log.high_watermark",
        wrong="log.high_watermark",
        tests=_PLAN,
    ),
    Fault(
        family="kafka-log: the last range of a task is dropped",
        file="spark/kafka_log_plan.py",
        right="        groups[-1].append(records_range)\n        size += cost\n",
        wrong="        groups[-1][:] = [records_range]\n        size += cost\n",
        tests=_PLAN,
    ),
    Fault(
        family="kafka-log: too late a time reads nothing",
        file="spark/kafka_log_plan.py",
        right='options.starting_offsets_by_timestamp_strategy == "error"',
        wrong='options.starting_offsets_by_timestamp_strategy == "none"',
        tests=_PLAN,
    ),
    Fault(
        family="kafka-log: a broker that starts while logs are planned is not noticed",
        file="spark/kafka_log_plan.py",
        right="            locks.enter_context(reading(log_dir))\n",
        wrong="            reading(log_dir)\n",
        tests=_PLAN,
    ),
    Fault(
        family="kafka-log: a truncated log is not noticed",
        file="spark/kafka_log_seen.py",
        right="if later and epoch != UNKNOWN else",
        wrong="if later and epoch == UNKNOWN else",
        tests=_STREAM,
    ),
    Fault(
        family="kafka-log: a topic that was made again is the same one",
        file="spark/kafka_log_seen.py",
        right="seen.topic_id not in {None, topic_id}",
        wrong="seen.topic_id is None",
        tests=_STREAM,
    ),
    Fault(
        family="kafka-log: a planned end is cut",
        file="spark/kafka_log_seen.py",
        right="        elif seen.end < each.end_offset:\n",
        wrong="        elif seen.end < 0:\n",
        tests=_STREAM,
    ),
    Fault(
        family="kafka-log: a task that reads again gives rows twice",
        file="spark/kafka_log_seen.py",
        right="batch.column(OFFSET)[-1].as_py() + 1",
        wrong="batch.column(OFFSET)[0].as_py()",
        tests=_STREAM,
    ),
    Fault(
        family="kafka-log: a stream that was stopped by its target reads more",
        file="spark/kafka_log_stream.py",
        right="min(log_seen.end, target.get(at, 0))",
        wrong="log_seen.end",
        tests=_STREAM,
    ),
    Fault(
        family="kafka-log: a stream locks a stopped directory each second",
        file="spark/kafka_log_stream.py",
        right="self.stamps is not None and self.stamps == _stamps(options)",
        wrong="False",
        tests=_RUNNING,
    ),
    Fault(
        family="kafka-log: a watermark that went back is a loss",
        file="spark/kafka_log_seen.py",
        right="INT64_MAX if is_running(log.log_dir) else int(log.log_end_offset)",
        wrong="int(log.log_end_offset)",
        tests=_RUNNING,
    ),
    Fault(
        family="kafka-log: written times are rounded up",
        file="spark/kafka_log_spool.py",
        right="to_numpy(zero_copy_only=False) // 1000",
        wrong="to_numpy(zero_copy_only=False) // 1000 + 1",
        tests=_WRITE,
    ),
    Fault(
        family="kafka-log: rows of a partition lose their order",
        file="spark/kafka_log_spool.py",
        right='np.argsort(slots, kind="stable")',
        wrong='np.argsort(slots, kind="stable")[::-1]',
        tests=_WRITE[1:],
    ),
    Fault(
        family="kafka-log: files of uncounted attempts stay",
        file="spark/kafka_log_write.py",
        right="            if name.startswith(self._prefix):\n",
        wrong="            if name.startswith(self._prefix) and False:\n",
        tests=_WRITE[1:],
    ),
)
