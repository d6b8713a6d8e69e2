"""The exported metrics, and Kafka's metrics of the log cleaner and the log manager that are not.

A metric of Kafka has the name that the JMX exporter's usual rule gives its MBean: that of
``kafka.log:type=LogCleaner,name=max-clean-time-secs`` is
``kafka_log_logcleaner_max_clean_time_secs`` (``lowercaseOutputName: true``; ``-`` becomes ``_``).
docs/metrics.md has this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

DIRECTORY: Final = ("logDirectory",)
LOG: Final = ("logDirectory", "partition", "topic")


@dataclass(frozen=True, slots=True)
class MetricName:
    """One exported metric; all are gauges.

    Attributes:
        name: in Prometheus.
        mbean: Kafka's, empty for a metric that Kafka does not have.
        help: one sentence, with the unit.
        labels: their names.
        from_history: computed from the newest sweep in the maintenance history; not exported
            without one.
    """

    name: str
    mbean: str
    help: str
    labels: tuple[str, ...] = ()
    from_history: bool = False


_CLEANER: Final = "kafka.log:type=LogCleaner,name="
_MANAGER: Final = "kafka.log:type=LogCleanerManager,name="
_LOG: Final = "kafka.log:type=Log,name="
_LOG_MANAGER: Final = "kafka.log:type=LogManager,name="

METRICS: Final = (
    MetricName(
        "kafka_log_logcleanermanager_max_dirty_percent",
        f"{_MANAGER}max-dirty-percent",
        "100 * the largest dirty ratio of the compacted logs that can be cleaned",
    ),
    MetricName(
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
        f"{_MANAGER}uncleanable-partitions-count",
        "partitions in quarantine",
        DIRECTORY,
    ),
    MetricName(
        "kafka_log_logcleanermanager_uncleanable_bytes",
        f"{_MANAGER}uncleanable-bytes",
        "their bytes that cannot be cleaned",
        DIRECTORY,
    ),
    MetricName(
        "kafka_log_logcleanermanager_time_since_last_run_ms",
        f"{_MANAGER}time-since-last-run-ms",
        "ms since the end of the last sweep that cleaned a log",
        from_history=True,
    ),
    MetricName(
        "kafka_log_logcleaner_max_compaction_delay_secs",
        f"{_CLEANER}max-compaction-delay-secs",
        "largest time by which max.compaction.lag.ms is exceeded now, s",
    ),
    MetricName(
        "kafka_log_logcleaner_max_clean_time_secs",
        f"{_CLEANER}max-clean-time-secs",
        "longest cleaning of a log in the last sweep, s",
        from_history=True,
    ),
    MetricName(
        "kafka_log_logcleaner_cleaner_recopy_percent",
        f"{_CLEANER}cleaner-recopy-percent",
        "100 * bytes written / bytes read by the last sweep",
        from_history=True,
    ),
    MetricName(
        "kafka_log_logcleaner_num_logs_compacted_by_max_compaction_lag",
        f"{_CLEANER}num-logs-compacted-by-max-compaction-lag",
        "logs that the last sweep cleaned after max.compaction.lag.ms (KIP-354)",
        from_history=True,
    ),
    MetricName(
        "kafka_log_logcleaner_max_compaction_delay",
        f"{_CLEANER}max-compaction-delay",
        "largest time by which the last sweep exceeded max.compaction.lag.ms (KIP-354), ms",
        from_history=True,
    ),
    MetricName("kafka_log_log_size", f"{_LOG}Size", "bytes of the segments", LOG),
    MetricName("kafka_log_log_numlogsegments", f"{_LOG}NumLogSegments", "segments", LOG),
    MetricName("kafka_log_log_logstartoffset", f"{_LOG}LogStartOffset", "log start offset", LOG),
    MetricName("kafka_log_log_logendoffset", f"{_LOG}LogEndOffset", "log end offset", LOG),
    MetricName(
        "kafka_log_log_retentionsizeinpercent",
        f"{_LOG}RetentionSizeInPercent",
        "100 * size / retention.bytes; 0 without retention.bytes",
        LOG,
    ),
    MetricName(
        "kafka_log_logmanager_offlinelogdirectorycount",
        f"{_LOG_MANAGER}OfflineLogDirectoryCount",
        "log directories that cannot be listed",
    ),
    MetricName(
        "kafka_log_logmanager_logdirectoryoffline",
        f"{_LOG_MANAGER}LogDirectoryOffline",
        "1 if the log directory cannot be listed",
        DIRECTORY,
    ),
    MetricName(
        "logwright_broker_running",
        "",
        "1 if a broker has the log directory open: its logs are shown up to their high watermarks",
        DIRECTORY,
    ),
    MetricName(
        "logwright_high_watermark_timestamp_seconds",
        "",
        "when a running broker last recorded its high watermarks, s since the epoch",
        DIRECTORY,
    ),
    MetricName("logwright_logs", "", "logs", DIRECTORY),
    MetricName(
        "logwright_due_logs",
        "",
        "logs that a sweep would clean or roll, once no broker runs there",
        DIRECTORY,
    ),
    MetricName("logwright_refused_logs", "", "logs that cannot be planned", DIRECTORY),
    MetricName("logwright_paused_logs", "", "logs whose maintenance is paused", DIRECTORY),
    MetricName(
        "logwright_next_compaction_due_timestamp_seconds",
        "",
        "when max.compaction.lag.ms makes the next log due, s since the epoch",
        DIRECTORY,
    ),
    MetricName("logwright_log_directory_bytes", "", "bytes of its file system", DIRECTORY),
    MetricName(
        "logwright_log_directory_free_bytes", "", "bytes that are free for users", DIRECTORY
    ),
    MetricName(
        "logwright_retired_bytes",
        "",
        "bytes that a purge will free; 0 while a broker runs",
        DIRECTORY,
    ),
    MetricName("logwright_retired_due_bytes", "", "bytes that a purge would free now", DIRECTORY),
)

LEFT_OUT: Final = MappingProxyType(
    {
        f"{_CLEANER}max-buffer-utilization-percent": "a sweep's offset map has the size that its"
        " log needs",
        f"{_CLEANER}DeadThreadCount": "threads do not outlive a sweep; failed runs are in Dagster",
        f"{_LOG_MANAGER}CordonedLogDirectoryCount": "a state of a running broker",
        f"{_LOG_MANAGER}remainingLogsToRecover": "a recovery is shown by its run",
        f"{_LOG_MANAGER}remainingSegmentsToRecover": "a recovery is shown by its run",
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs": "a rate of a running broker",
        "kafka.utils:type=Throttler,name=cleaner-io": "a rate of a running cleaner",
    }
)
"""Kafka's metrics of the same MBeans that are not exported → why."""
