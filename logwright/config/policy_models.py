"""What policies say beside Kafka's own configs, and what Kafka itself sets for its internal
topics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from logwright.config.values import Boolean, Double, Int32, Int64

HighWatermark = Literal["end", "checkpoint"]
Checks = Literal["quick", "thorough"]
"""How the output of a compaction is judged (docs/adr/0010)."""
Severity = Literal["WARN", "ERROR"]

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
"""What Kafka sets when it creates its internal topics (GroupCoordinatorConfig,
TransactionLogConfig, KIP-932)."""

_FROZEN: Final = ConfigDict(frozen=True, extra="forbid")
_MAX_TOPIC_NAME: Final = 249


def _compiles(pattern: object) -> object:
    if isinstance(pattern, str):
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"no regular expression: {error.msg}") from error
    return pattern


class TopicLabels(BaseModel):
    """What an entry of ``topics`` says beside Kafka's configs.

    Attributes:
        name: one topic. pattern: a regular expression for whole topic names. Exactly one of the
        two.
        owner: whom to ask. tags: free words. severity: of a failing check that does not block.
        override: this entry's ``cleanup.policy`` and retention hold although the cluster's own
        metadata says otherwise.
    """

    model_config = _FROZEN
    name: str | None = Field(
        None, min_length=1, max_length=_MAX_TOPIC_NAME, pattern=r"^[a-zA-Z0-9._-]+$"
    )
    pattern: Annotated[str, BeforeValidator(_compiles)] | None = Field(
        None, min_length=1, max_length=1000
    )
    owner: str | None = Field(None, min_length=1)
    tags: tuple[str, ...] = ()
    severity: Severity | None = None
    override: Boolean = False

    @model_validator(mode="after")
    def _names_its_topics(self) -> Self:
        if (self.name is None) == (self.pattern is None):
            raise ValueError("exactly one of name and pattern is needed")
        return self


class SweepLimits(BaseModel):
    """How much one sweep takes on.

    Attributes:
        max_logs: partitions. max_bytes: ``.log`` bytes to be read; one larger log still goes,
        alone.
        flag_after_ms: a log that was due for so long and that nobody cleaned is told of.
    """

    model_config = _FROZEN
    max_logs: Annotated[Int32, Field(ge=1)] = 200
    max_bytes: Annotated[Int64, Field(ge=1)] = 68_719_476_736
    flag_after_ms: Annotated[Int64, Field(ge=0)] = 86_400_000


class IngestSource(BaseModel):
    """A landing directory, whose files go to a topic, each once.

    Attributes:
        path: of the directory, relative to where the platform runs or absolute.
        format: of Spark's readers. options: of this reader.
        partitions: that a new topic gets, and at least has.
        log_dir: name of the log directory, where there are several.
        batch_size: bytes of a batch before compression. compression: a producer's, where the topic
        leaves it to the producer.
    """

    model_config = _FROZEN
    topic: str = Field(min_length=1, max_length=_MAX_TOPIC_NAME, pattern=r"^[a-zA-Z0-9._-]+$")
    path: str = Field(min_length=1)
    format: str = "json"
    options: Mapping[str, str] = Field(default_factory=dict)
    partitions: Annotated[Int32, Field(ge=0)] = 0
    log_dir: str | None = None
    batch_size: Annotated[Int32, Field(ge=1)] = 16_384
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"


class IngestSources(BaseModel):
    """What is taken in."""

    model_config = _FROZEN
    sources: tuple[IngestSource, ...] = ()


class Expectations(BaseModel):
    """Thresholds of the quality suite on the profile of a compacted output.

    Attributes:
        max_largest_batch_bytes: the largest batch (default: Kafka's ``max.message.bytes``).
        max_segment_log_bytes: the largest ``.log`` (positions in an index are int32).
        max_tombstone_share: tombstones of all records.
        max_growth_share: output bytes of source bytes; 1 = a cleaning never makes a log larger.
        min_magic: oldest message format that is left.
    """

    model_config = _FROZEN
    max_largest_batch_bytes: Annotated[Int32, Field(ge=1)] = 1_048_588
    max_segment_log_bytes: Annotated[Int32, Field(ge=1)] = 2_147_483_647
    max_tombstone_share: Annotated[Double, Field(ge=0, le=1)] = 1.0
    max_growth_share: Annotated[Double, Field(ge=0)] = 1.0
    min_magic: Annotated[Int32, Field(ge=0, le=2)] = 0
