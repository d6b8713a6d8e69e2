"""Deliberate faults in the data source: rows that a query does not get, or gets twice."""

from __future__ import annotations

from tests.mutation.fault import Fault

_FILTERS = ("tests/unit/spark/test_kafka_log_filters.py",)
_OPTIONS = ("tests/unit/spark/test_kafka_log_options.py",)
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
        family="kafka-log: a broker may run while logs are planned",
        file="spark/kafka_log_plan.py",
        right="            locks.enter_context(broker_kept_out(log_dir))\n",
        wrong="            broker_kept_out(log_dir)\n",
        tests=_PLAN,
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
