"""The settings of topics and of the cleaner: every config name of Kafka 4.4.0 with type, unit,
default and range; `logwright.config.kafka_version` has the names that older versions do not know.

1. The input is pairs of name and text, from the command line or from policies.
2. Broker server properties are the defaults of topic configs, with Kafka's precedence
   (`logwright.config.broker`).
3. Pydantic checks types and ranges; rules between fields are checked on the effective values.

Sources: LogConfig, TopicConfig, ServerLogConfigs, CleanerConfig, TransactionLogConfig (4.4.0); the
KIP is with the field.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from logwright.config.broker import SYNONYMS, BrokerConfig
from logwright.config.kafka_version import NEWEST, KafkaVersion, unknown_configs
from logwright.config.names import unknown_name
from logwright.config.values import (
    Boolean,
    CompressionType,
    Double,
    Int32,
    Int64,
    PolicyList,
    ReplicaList,
    TimestampType,
    contradiction,
    findings,
)
from logwright.errors import PolicyError
from logwright.units import INT32_MAX, INT64_MAX

_LOG = logging.getLogger(__name__)

MIN_SEGMENT_BYTES: Final = 1_048_576
"""Smallest ``segment.bytes`` that a broker accepts (KIP-1030)."""

MAP_SLOT_BYTES: Final = 24
"""One entry of Kafka's offset map: an MD5 and an offset (SkimpyOffsetMap)."""

UNKNOWN_POLICY: Final = ("unknown",)
"""Value of a ``cleanup.policy`` that is not set anywhere: such a log is neither compacted nor are
its segments deleted.
"""

INERT: Final = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "errors.deadletterqueue.group.enable",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "unclean.leader.election.enable",
    }
)
"""Topic configs without effect on offline maintenance."""


class TopicConfig(BaseModel):
    """The effective settings of one topic; field names are Kafka's, with underscores for dots.

    `segment_bytes` is ``internal.segment.bytes`` if that is set. `producer_id_expiration_ms` is a
    broker setting that affects the maintenance of a log.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "."),
    )

    cleanup_policy: PolicyList = Field(
        ("delete",), description="KIP-71; empty keeps everything: KIP-1161"
    )
    segment_bytes: Int32 = Field(
        1_073_741_824, ge=1, description="bytes; at least 1 MiB on a broker: KIP-1030"
    )
    internal_segment_bytes: Int32 | None = Field(
        None, ge=1, description="bytes; overrides segment.bytes, for tests"
    )
    segment_ms: Int64 = Field(
        604_800_000, ge=1, description="ms; rolls by record timestamps: KIP-33"
    )
    segment_jitter_ms: Int64 = Field(0, ge=0, description="ms, random reduction of segment.ms")
    segment_index_bytes: Int32 = Field(10_485_760, ge=4, description="bytes, of each index file")
    index_interval_bytes: Int32 = Field(4096, ge=0, description="bytes between two index entries")
    preallocate: Boolean = Field(default=False, description="KIP-20")
    flush_messages: Int64 = Field(INT64_MAX, ge=1, description="messages between two flushes")
    flush_ms: Int64 = Field(INT64_MAX, ge=0, description="ms between two flushes")
    retention_bytes: Int64 = Field(-1, description="bytes of a partition, below 0 = unlimited")
    retention_ms: Int64 = Field(
        604_800_000, ge=-1, description="ms, -1 = unlimited; by record timestamps: KIP-33"
    )
    file_delete_delay_ms: Int64 = Field(60_000, ge=0, description="ms between rename and unlink")
    delete_retention_ms: Int64 = Field(
        86_400_000, ge=0, description="ms that tombstones are kept: KIP-534"
    )
    min_compaction_lag_ms: Int64 = Field(0, ge=0, description="ms: KIP-58")
    max_compaction_lag_ms: Int64 = Field(INT64_MAX, ge=1, description="ms: KIP-354")
    min_cleanable_dirty_ratio: Double = Field(
        0.5, ge=0, le=1, description="share of bytes not yet compacted"
    )
    max_message_bytes: Int32 = Field(1_048_588, ge=0, description="bytes of a batch: KIP-98")
    compression_type: CompressionType = Field(
        "producer", description="KIP-110; the cleaner keeps a batch's codec"
    )
    compression_gzip_level: Int32 = Field(-1, ge=-1, le=9, description="KIP-390")
    compression_lz4_level: Int32 = Field(9, ge=1, le=17, description="KIP-390")
    compression_zstd_level: Int32 = Field(3, ge=-131_072, le=22, description="KIP-390")
    max_decompressed_message_bytes: Int32 = Field(
        2_147_483_639, ge=1, le=2_147_483_639, description="bytes of a compressed record: Kafka 4.4"
    )
    message_timestamp_type: TimestampType = Field("CreateTime", description="KIP-32")
    message_timestamp_before_max_ms: Int64 = Field(INT64_MAX, ge=0, description="ms: KIP-937")
    message_timestamp_after_max_ms: Int64 = Field(3_600_000, ge=0, description="ms: KIP-937")
    local_retention_ms: Int64 = Field(-2, ge=-2, description="ms, tiered storage only: KIP-405")
    local_retention_bytes: Int64 = Field(
        -2, ge=-2, description="bytes, tiered storage only: KIP-405"
    )
    remote_storage_enable: Boolean = Field(
        default=False, description="KIP-405; not maintained offline"
    )
    remote_log_copy_disable: Boolean = Field(default=False, description="KIP-950")
    remote_log_delete_on_disable: Boolean = Field(default=False, description="KIP-950")
    remote_copy_lag_ms: Int64 = Field(0, ge=-1, description="ms: KIP-1241, Kafka 4.4")
    remote_copy_lag_bytes: Int64 = Field(-1, ge=-1, description="bytes: KIP-1241, Kafka 4.4")
    errors_deadletterqueue_group_enable: Boolean = Field(default=False, description="Kafka 4.4")
    leader_replication_throttled_replicas: ReplicaList = Field((), description="KIP-73")
    follower_replication_throttled_replicas: ReplicaList = Field((), description="KIP-73")
    min_insync_replicas: Int32 = Field(1, ge=1, description="replicas")
    unclean_leader_election_enable: Boolean = Field(
        default=False, description="no effect on files at rest"
    )
    producer_id_expiration_ms: Int32 = Field(
        86_400_000, ge=1, description="ms; broker config: KIP-854"
    )

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        """Check the rules between fields (LogConfig.validateValues)."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise contradiction(
                f"min.compaction.lag.ms={self.min_compaction_lag_ms} is above "
                f"max.compaction.lag.ms={self.max_compaction_lag_ms}",
                "min.compaction.lag.ms",
                "max.compaction.lag.ms",
            )
        if self.compression_gzip_level == 0:
            raise contradiction(
                "compression.gzip.level=0 is invalid: must be 1 to 9, or -1",
                "compression.gzip.level",
            )
        if self.remote_storage_enable:
            raise contradiction(
                "remote.storage.enable=true: a topic with tiered storage is not maintained offline",
                "remote.storage.enable",
            )
        return self

    @property
    def max_segment_ms(self) -> int:
        """Maximum time that a segment is active: `segment.ms`, for a compacted topic at most
        `max.compaction.lag.ms` (LogConfig.maxSegmentMs; KIP-354).
        """
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def policy_known(self) -> bool:
        """Whether the topic's ``cleanup.policy`` is known."""
        return self.cleanup_policy != UNKNOWN_POLICY

    @property
    def compact(self) -> bool:
        """Whether ``cleanup.policy`` has ``compact``."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether ``cleanup.policy`` has ``delete``."""
        return "delete" in self.cleanup_policy


class CleanerConfig(BaseModel):
    """The cleaner's settings (CleanerConfig, 4.3.0). `dedupe_buffer_bytes` may be any size above
    one slot of the map; `BrokerConfig` requires more than 1 MiB per thread, as a broker does.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    dedupe_buffer_bytes: Annotated[Int64, Field(gt=MAP_SLOT_BYTES)] = Field(
        134_217_728,
        validation_alias="log.cleaner.dedupe.buffer.size",
        description="bytes of all threads",
    )
    load_factor: Annotated[Double, Field(gt=0, le=1)] = Field(
        0.9,
        validation_alias="log.cleaner.io.buffer.load.factor",
        description="fill limit of the dedupe buffer",
    )
    io_buffer_bytes: Annotated[Int32, Field(ge=0)] = Field(
        524_288, validation_alias="log.cleaner.io.buffer.size", description="bytes of all threads"
    )
    io_max_bytes_per_second: Annotated[Double, Field(gt=0)] = Field(
        1.7976931348623157e308,
        validation_alias="log.cleaner.io.max.bytes.per.second",
        description="read + write",
    )
    threads: Annotated[Int32, Field(ge=0)] | None = Field(
        None,
        validation_alias="log.cleaner.threads",
        description="maximum number of logs cleaned at once [default: number of cores]",
    )
    backoff_ms: Annotated[Int64, Field(ge=0)] = Field(
        15_000,
        validation_alias="log.cleaner.backoff.ms",
        description="ms to sleep when there is nothing to clean",
    )
    enable: Boolean = Field(
        default=True, validation_alias="log.cleaner.enable", description="deprecated since 4.1"
    )
    kafka: KafkaVersion = Field(NEWEST, description="whose cleaner; not a setting")

    @property
    def off(self) -> str | None:
        """The setting that disables the cleaner, None if it is enabled."""
        if not self.enable:
            return "log.cleaner.enable=false"
        return "log.cleaner.threads=0" if self.threads == 0 else None

    def map_bytes(self, *, like_kafka: bool) -> int:
        """Return the dedupe buffer of one log in bytes: an equal share for each of `threads`
        (constructor of LogCleaner.CleanerThread, 4.3.0). `like_kafka`: at most 2 GiB.
        """
        share = self.dedupe_buffer_bytes // max(self.threads or 1, 1)
        return min(share, INT32_MAX) if like_kafka else share


TOPIC_NAMES: Final = frozenset(
    name.replace("_", ".")
    for name in TopicConfig.model_fields
    if name != "producer_id_expiration_ms"
)
"""The topic config names of Kafka 4.4.0."""

CLEANER_NAMES: Final = frozenset(
    str(field.validation_alias)
    for name, field in CleanerConfig.model_fields.items()
    if name != "kafka"
)
BROKER_NAMES: Final = frozenset(name.replace("_", ".") for name in BrokerConfig.model_fields)
ALL_NAMES: Final = TOPIC_NAMES | BROKER_NAMES

SYNONYM_OF: Final = MappingProxyType(
    {name: topic_name for topic_name, row in SYNONYMS.items() for name, _ in row}
)
"""Broker config name → the topic config that it is the default of."""

EFFECTIVE_BROKER_NAMES: Final = (
    CLEANER_NAMES
    | {"producer.id.expiration.ms"}
    | {name for topic_name, row in SYNONYMS.items() if topic_name not in INERT for name, _ in row}
)


def overlay(lower: Mapping[str, str], upper: Mapping[str, str]) -> dict[str, str]:
    """Merge two sets of pairs; `upper` wins, also if the two use synonyms of one config."""
    merged = dict(lower)
    for topic_name, row in SYNONYMS.items():
        names = {topic_name, *(name for name, _ in row)}
        if names & upper.keys():
            for name in names:
                merged.pop(name, None)
    return merged | dict(upper)


def parse_settings(
    pairs: Mapping[str, str], kafka: KafkaVersion = NEWEST
) -> tuple[TopicConfig, CleanerConfig]:
    """Parse pairs of config names and values into the effective settings. A missing
    ``cleanup.policy`` is unknown.

    Raises:
        PolicyError: a name is unknown, also to this version of Kafka, a value is malformed or out
        of range, or two values contradict each other.
    """
    config, cleaner = effective(pairs, kafka)
    for name in sorted(pairs):
        if name in INERT or (
            name in BROKER_NAMES - TOPIC_NAMES and name not in EFFECTIVE_BROKER_NAMES
        ):
            _LOG.debug("config without effect on maintenance name=%s", name)
    if (
        "segment.bytes" in pairs
        and "internal.segment.bytes" not in pairs
        and config.internal_segment_bytes is not None
    ):
        _LOG.warning(
            "segment.bytes=%d is below a broker's minimum of %d: used as internal.segment.bytes",
            config.segment_bytes,
            MIN_SEGMENT_BYTES,
        )
    return config, cleaner


def effective(
    pairs: Mapping[str, str], kafka: KafkaVersion = NEWEST
) -> tuple[TopicConfig, CleanerConfig]:
    """Return the same as `parse_settings`, without log messages.

    Raises:
        PolicyError: as `parse_settings`.
    """
    for name in sorted(pairs):
        if name not in ALL_NAMES:
            raise PolicyError(unknown_name(name, ALL_NAMES))
    for name in sorted(unknown_configs(kafka) & pairs.keys()):
        raise PolicyError(f"{name}={pairs[name]} is invalid: Kafka {kafka.name} has no such config")
    try:
        config, cleaner = validated(pairs)
        return config, cleaner.model_copy(update={"kafka": kafka})
    except ValidationError as error:
        raise PolicyError("; ".join(findings(error))) from error


def validated(pairs: Mapping[str, str]) -> tuple[TopicConfig, CleanerConfig]:
    """Return the same as `parse_settings` of known names.

    Raises:
        ValidationError: a value is invalid, or two contradict each other.
    """
    broker = BrokerConfig.model_validate(_only(pairs, BROKER_NAMES))
    topic: dict[str, object] = {**_only(pairs, TOPIC_NAMES)}
    for topic_name, row in SYNONYMS.items():
        if topic_name not in topic:
            value = broker.first_of(row)
            if value is not None:
                topic[topic_name] = value
    topic |= _only(pairs, {"producer.id.expiration.ms"})
    cleaner = CleanerConfig.model_validate(_only(pairs, CLEANER_NAMES))
    config = _with_segment_bytes(TopicConfig.model_validate(topic))
    if "cleanup.policy" not in topic:
        config = config.model_copy(update={"cleanup_policy": UNKNOWN_POLICY})
    return config, cleaner


def broker_settings(pairs: Mapping[str, str]) -> BrokerConfig:
    """Parse the broker's own settings among pairs of names and values.

    Raises:
        PolicyError: a value is malformed or out of range.
    """
    try:
        return BrokerConfig.model_validate(_only(pairs, BROKER_NAMES))
    except ValidationError as error:
        raise PolicyError("; ".join(findings(error))) from error


def _with_segment_bytes(config: TopicConfig) -> TopicConfig:
    """Replace ``segment.bytes`` by ``internal.segment.bytes`` if that is set; a size that no broker
    accepts is treated as the latter.
    """
    if config.internal_segment_bytes is not None:
        return config.model_copy(update={"segment_bytes": config.internal_segment_bytes})
    if config.segment_bytes < MIN_SEGMENT_BYTES:
        return config.model_copy(update={"internal_segment_bytes": config.segment_bytes})
    return config


def _only(pairs: Mapping[str, str], names: AbstractSet[str]) -> dict[str, str]:
    return {name: value for name, value in pairs.items() if name in names}
