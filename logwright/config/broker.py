"""A broker's server properties about logs: types, ranges, synonyms and precedence (Kafka 4.3.0)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from logwright.config.values import (
    Boolean,
    CompressionType,
    Double,
    Int32,
    Int64,
    PolicyList,
    Text,
    TextList,
    TimestampType,
    contradiction,
)

Synonyms = tuple[tuple[str, int], ...]
"""Broker names of one topic config, highest precedence first, each with the factor that converts to
the topic config's unit."""

SYNONYMS: Final[MappingProxyType[str, Synonyms]] = MappingProxyType(
    {
        "cleanup.policy": (("log.cleanup.policy", 1),),
        "segment.bytes": (("log.segment.bytes", 1),),
        "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
        "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
        "segment.index.bytes": (("log.index.size.max.bytes", 1),),
        "index.interval.bytes": (("log.index.interval.bytes", 1),),
        "preallocate": (("log.preallocate", 1),),
        "flush.messages": (("log.flush.interval.messages", 1),),
        "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
        "retention.bytes": (("log.retention.bytes", 1),),
        "retention.ms": (
            ("log.retention.ms", 1),
            ("log.retention.minutes", 60_000),
            ("log.retention.hours", 3_600_000),
        ),
        "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
        "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
        "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
        "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
        "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
        "max.message.bytes": (("message.max.bytes", 1),),
        "message.timestamp.type": (("log.message.timestamp.type", 1),),
        "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
        "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
        "local.retention.ms": (("log.local.retention.ms", 1),),
        "local.retention.bytes": (("log.local.retention.bytes", 1),),
        "remote.copy.lag.ms": (("log.remote.copy.lag.ms", 1),),
        "remote.copy.lag.bytes": (("log.remote.copy.lag.bytes", 1),),
    }
)
"""Topic config name → its broker names. ``compression.*`` and some others have the same name."""

_MIN_BUFFER_PER_THREAD: Final = 1_048_576
_DEFAULT_DELETE_DELAY_MS: Final = 60_000
_DEFAULT_RETENTION_CHECK_MS: Final = 300_000


class BrokerConfig(BaseModel):
    """Server properties; None if not set, except for fields that a validation rule needs.

    Field names are Kafka's, with underscores for dots.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "."),
    )

    # Defaults of topic configs.
    log_cleanup_policy: PolicyList | None = Field(None, description="KIP-71")
    log_segment_bytes: Int32 | None = Field(None, ge=1_048_576, description="bytes: KIP-1030")
    log_roll_ms: Int64 | None = Field(None, ge=1, description="ms; overrides hours")
    log_roll_hours: Int32 | None = Field(None, ge=1, description="hours")
    log_roll_jitter_ms: Int64 | None = Field(None, ge=0, description="ms; overrides hours")
    log_roll_jitter_hours: Int32 | None = Field(None, ge=0, description="hours")
    log_index_size_max_bytes: Int32 | None = Field(None, ge=4, description="bytes")
    log_index_interval_bytes: Int32 | None = Field(None, ge=0, description="bytes")
    log_preallocate: Boolean | None = Field(None, description="KIP-20")
    log_flush_interval_messages: Int64 | None = Field(None, ge=1, description="messages")
    log_flush_interval_ms: Int64 | None = Field(
        None, ge=0, description="ms; overrides the scheduler's interval"
    )
    log_flush_scheduler_interval_ms: Int64 | None = Field(None, ge=0, description="ms")
    log_retention_bytes: Int64 | None = Field(
        None, description="bytes of a partition, below 0 = unlimited"
    )
    log_retention_ms: Int64 | None = Field(None, description="ms; overrides minutes and hours")
    log_retention_minutes: Int32 | None = Field(None, description="minutes; overrides hours")
    log_retention_hours: Int32 | None = Field(None, description="hours")
    log_segment_delete_delay_ms: Int64 | None = Field(None, ge=0, description="ms")
    log_cleaner_delete_retention_ms: Int64 | None = Field(None, ge=0, description="ms: KIP-534")
    log_cleaner_min_compaction_lag_ms: Int64 | None = Field(None, ge=0, description="ms: KIP-58")
    log_cleaner_max_compaction_lag_ms: Int64 | None = Field(None, ge=1, description="ms: KIP-354")
    log_cleaner_min_cleanable_ratio: Double | None = Field(
        None, ge=0, le=1, description="share of bytes"
    )
    message_max_bytes: Int32 | None = Field(None, ge=0, description="bytes of a batch")
    log_message_timestamp_type: TimestampType | None = Field(None, description="KIP-32")
    log_message_timestamp_before_max_ms: Int64 | None = Field(None, ge=0, description="ms: KIP-937")
    log_message_timestamp_after_max_ms: Int64 | None = Field(None, ge=0, description="ms: KIP-937")
    log_local_retention_ms: Int64 | None = Field(None, ge=-2, description="ms: KIP-405")
    log_local_retention_bytes: Int64 | None = Field(None, ge=-2, description="bytes: KIP-405")
    log_remote_copy_lag_ms: Int64 | None = Field(None, ge=-1, description="ms: KIP-1241")
    log_remote_copy_lag_bytes: Int64 | None = Field(None, ge=-1, description="bytes: KIP-1241")
    compression_type: CompressionType | None = Field(None, description="KIP-110")
    # The cleaner.
    log_cleaner_enable: Boolean = Field(default=True, description="deprecated since 4.1")
    log_cleaner_threads: Int32 = Field(1, ge=0, description="logs cleaned at once")
    log_cleaner_dedupe_buffer_size: Int64 = Field(134_217_728, description="bytes of all threads")
    log_cleaner_io_buffer_size: Int32 = Field(524_288, ge=0, description="bytes of all threads")
    log_cleaner_io_buffer_load_factor: Double = Field(
        0.9, gt=0, le=1, description="fill limit of the dedupe buffer"
    )
    log_cleaner_io_max_bytes_per_second: Double = Field(
        1.7976931348623157e308, gt=0, description="read + write"
    )
    log_cleaner_backoff_ms: Int64 = Field(15_000, ge=0, description="ms")
    # The rest has no effect offline, except for the expiry of producers.
    log_dirs: TextList | None = Field(None, description="over log.dir")
    log_dir: Text | None = Field(None, min_length=1, description="one directory")
    cordoned_log_dirs: TextList | None = Field(
        None, description="no new partitions there: KIP-1066"
    )
    log_retention_check_interval_ms: Int64 | None = Field(None, ge=1, description="ms")
    log_flush_offset_checkpoint_interval_ms: Int32 | None = Field(None, ge=0, description="ms")
    log_flush_start_offset_checkpoint_interval_ms: Int32 | None = Field(
        None, ge=0, description="ms"
    )
    replica_high_watermark_checkpoint_interval_ms: Int64 | None = Field(None, description="ms")
    num_recovery_threads_per_data_dir: Int32 | None = Field(None, ge=1, description="threads")
    log_initial_task_delay_ms: Int64 | None = Field(None, ge=0, description="ms, internal")
    log_dir_failure_timeout_ms: Int64 | None = Field(None, ge=1, description="ms: KIP-858")
    producer_id_expiration_ms: Int32 | None = Field(None, ge=1, description="ms: KIP-854")
    producer_id_expiration_check_interval_ms: Int32 | None = Field(
        None, ge=1, description="ms, internal"
    )
    transaction_max_timeout_ms: Int32 | None = Field(None, ge=1, description="ms: KIP-98")
    offsets_topic_segment_bytes: Int32 | None = Field(None, ge=1, description="bytes")
    transaction_state_log_segment_bytes: Int32 | None = Field(None, ge=1, description="bytes")
    errors_deadletterqueue_auto_create_topics_enable: Boolean | None = Field(
        None, description="dead-letter queues of share groups"
    )
    errors_deadletterqueue_topic_name_prefix: Text | None = Field(
        None, description="dead-letter queues of share groups"
    )

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        """Validate like a broker's start-up (KafkaConfig.validateValues, CleanerConfig)."""
        row = SYNONYMS["retention.ms"]
        if self.first_of(row) == 0:
            name = next(name for name, _ in row if self.value(name) is not None)
            raise contradiction(f"{name}=0 is invalid: must be -1 or at least 1", name)
        threads = max(self.log_cleaner_threads, 1)
        if self.log_cleaner_dedupe_buffer_size // threads <= _MIN_BUFFER_PER_THREAD:
            raise contradiction(
                f"log.cleaner.dedupe.buffer.size={self.log_cleaner_dedupe_buffer_size} is "
                f"invalid: must be more than {_MIN_BUFFER_PER_THREAD} bytes for each of "
                f"{threads} threads",
                "log.cleaner.dedupe.buffer.size",
                "log.cleaner.threads",
            )
        return self

    @property
    def file_delete_delay_ms(self) -> int:
        """``log.segment.delete.delay.ms``, after which a deleted log is removed: a topic's own
        setting is not used for that (LogManager.deleteLogs).
        """
        given = self.log_segment_delete_delay_ms
        return _DEFAULT_DELETE_DELAY_MS if given is None else given

    @property
    def retention_check_interval_ms(self) -> int:
        """``log.retention.check.interval.ms``: interval between retention runs."""
        given = self.log_retention_check_interval_ms
        return _DEFAULT_RETENTION_CHECK_MS if given is None else given

    def value(self, name: str) -> object:
        """Return a property by its Kafka name, None if it is not set."""
        value: object = getattr(self, name.replace(".", "_"))
        return value

    def first_of(self, row: Synonyms) -> object:
        """Return the value that broker names give a topic config, in its unit; None if not set."""
        for name, factor in row:
            value = self.value(name)
            if name in _RETENTION_TIME and isinstance(value, int):
                # A negative time means unlimited in every unit (logRetentionTimeMillis, 4.3.0).
                return value * factor if value >= 0 else -1
            if isinstance(value, int) and factor != 1:
                return value * factor
            if value is not None:
                return value
        return None


_RETENTION_TIME: Final = frozenset(name for name, _ in SYNONYMS["retention.ms"])
