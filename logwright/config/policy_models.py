"""Sections of the policies other than Kafka configs, and Kafka's settings of internal topics."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from types import MappingProxyType
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from logwright.config.kafka_version import BY_NAME
from logwright.config.patterns import compiling
from logwright.config.values import Boolean, Double, Int32, Int64, TopicName, contradiction
from logwright.config.windows import Window, Zone
from logwright.format.codec import CodecName

Checks = Literal["quick", "thorough"]
"""How the output of a compaction is checked (docs/adr/0010)."""
Severity = Literal["WARN", "ERROR"]


def _known_version(name: str) -> str:
    if name not in BY_NAME:
        raise ValueError(f"must be one of {', '.join(BY_NAME)}")
    return name


KafkaName = Annotated[str, AfterValidator(_known_version)]
"""The Kafka version of log directories of which nothing else says it."""

INTERNAL_TOPICS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "__consumer_offsets": {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        },
        "__transaction_state": {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": "104857600",
            "min.insync.replicas": "2",
            "unclean.leader.election.enable": "false",
        },
        "__share_group_state": {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "segment.bytes": "104857600",
            "min.insync.replicas": "2",
            "retention.ms": "-1",
        },
    }
)
"""Configs that Kafka sets when it creates its internal topics (GroupCoordinatorConfig,
TransactionLogConfig, KIP-932)."""

_FROZEN: Final = ConfigDict(frozen=True, extra="forbid")


class TopicLabels(BaseModel):
    """The keys of an entry of ``topics`` that are not Kafka configs.

    Attributes:
        name: one topic; exactly one of name and pattern is set.
        pattern: a regular expression for whole topic names.
        owner: the team to contact.
        tags: free-form labels.
        severity: severity of a failing check that does not block.
        override: this entry's ``cleanup.policy`` and retention win over the cluster's metadata.
    """

    model_config = _FROZEN
    name: TopicName | None = None
    pattern: Annotated[str, AfterValidator(compiling)] | None = Field(
        None, min_length=1, max_length=1000
    )
    owner: str | None = Field(None, min_length=1)
    tags: tuple[str, ...] = ()
    severity: Severity | None = None
    override: Boolean = False

    @model_validator(mode="after")
    def _names_its_topics(self) -> Self:
        if (self.name is None) == (self.pattern is None):
            raise contradiction("exactly one of name and pattern is required", "pattern")
        return self


class SweepLimits(BaseModel):
    """Limits of one sweep.

    Attributes:
        max_logs: maximum number of partitions.
        max_bytes: maximum ``.log`` bytes to read; a larger log is swept alone.
        flag_after_ms: report a log that has been due for this long without being cleaned.
        keep_failed_output_ms: keep an output that fails a check for this long (docs/adr/0024).
        max_gb_per_hour: ``.log`` bytes of the logs whose sweep begins in one hour of the clock,
            GB of 10^9 bytes; no limit by default. A larger log is begun alone, and the hours after
            it have as much less.
        windows: when sweeps may begin, such as ``22:00-06:00`` or ``Sat,Sun 00:00-24:00``; at any
            time by default.
        time_zone: of the windows.
        min_free_bytes: free disk space that the output of cleanings must leave, for each file
            system.
        max_runs: sweeps at the same time; no limit by default.
    """

    model_config = _FROZEN
    max_logs: Annotated[Int32, Field(ge=1)] = 200
    max_bytes: Annotated[Int64, Field(ge=1)] = 68_719_476_736
    flag_after_ms: Annotated[Int64, Field(ge=0)] = 86_400_000
    keep_failed_output_ms: Annotated[Int64, Field(ge=0, le=31_622_400_000)] = 0
    max_gb_per_hour: Annotated[Double, Field(gt=0)] | None = None
    windows: tuple[Window, ...] = ()
    time_zone: Zone = "UTC"
    min_free_bytes: Annotated[Int64, Field(ge=0)] = 0
    max_runs: Annotated[Int32, Field(ge=1)] | None = None

    @property
    def hourly_bytes(self) -> int | None:
        """`max_gb_per_hour` in bytes."""
        return None if self.max_gb_per_hour is None else int(self.max_gb_per_hour * 1e9)


class DiskLimits(BaseModel):
    """When the free space of a log directory's file system is reported; either limit counts.

    Attributes:
        min_free_bytes: report below this number of free bytes.
        min_free_share: report below this share of the file system.
        rescue: the sensor `disk_space` requests the job `rescue`, too, which cannot be undone.
    """

    model_config = _FROZEN
    min_free_bytes: Annotated[Int64, Field(ge=0)] = 0
    min_free_share: Annotated[Double, Field(ge=0, le=1)] = 0.1
    rescue: Boolean = False

    def is_low(self, free_bytes: int, total_bytes: int) -> bool:
        """Return whether this free space is reported; not if the total is unknown (below 1)."""
        return total_bytes >= 1 and free_bytes < self.enough_bytes(total_bytes)

    def enough_bytes(self, total_bytes: int) -> int:
        """Return the fewest free bytes that are not reported, of a file system of this size."""
        return max(self.min_free_bytes, ceil(self.min_free_share * total_bytes))


class IngestSource(BaseModel):
    """A landing directory, whose files are appended to a topic, each once.

    Attributes:
        path: the directory, absolute or relative to the platform's working directory.
        format: a format that Spark reads.
        options: options of Spark's reader.
        partitions: partition count of a new topic; minimum for an existing one.
        log_dir: name of the log directory; required if there are several.
        batch_size: maximum size of a record batch before compression, in bytes.
        compression: codec for topics with ``compression.type=producer``.
    """

    model_config = _FROZEN
    topic: TopicName
    path: str = Field(min_length=1)
    format: str = "json"
    options: Mapping[str, str] = Field(default_factory=dict)
    partitions: Annotated[Int32, Field(ge=0)] = 0
    log_dir: str | None = None
    batch_size: Annotated[Int32, Field(ge=1)] = 16_384
    compression: CodecName = "none"


class IngestSources(BaseModel):
    """All landing directories."""

    model_config = _FROZEN
    sources: tuple[IngestSource, ...] = ()


class Expectations(BaseModel):
    """Thresholds of the quality suite on the profile of a compacted output.

    Attributes:
        max_largest_batch_bytes: the largest batch (default: Kafka's ``max.message.bytes``).
        max_segment_log_bytes: the largest ``.log`` (positions in an index are int32).
        max_tombstone_share: tombstones / records.
        max_growth_share: output bytes / source bytes; 1 = a cleaning never makes a log larger.
    """

    model_config = _FROZEN
    max_largest_batch_bytes: Annotated[Int32, Field(ge=1)] = 1_048_588
    max_segment_log_bytes: Annotated[Int32, Field(ge=1)] = 2_147_483_647
    max_tombstone_share: Annotated[Double, Field(ge=0, le=1)] = 1.0
    max_growth_share: Annotated[Double, Field(ge=0)] = 1.0
