"""Options of ``spark.read.format("kafka-log")``: Spark's names of its Kafka source, and our own.

Spark passes options as text and by names without case. Unknown ones and contradictions are refused
by name: an option that has no effect would read other records than the user asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from logwright.config.marked import nearest
from logwright.config.values import (
    Boolean,
    Int32,
    Int64,
    TextList,
    TopicName,
    contradiction,
    findings,
)
from logwright.errors import PolicyError
from logwright.format.codec import CodecName
from logwright.format.names import TopicPartition
from logwright.log.committed import HighWatermark
from logwright.place.model import Place, is_local
from logwright.place.named import place_of
from logwright.spark.kafka_log_offsets import without_facts
from logwright.tier.place import TieredPlace, is_tier, with_key, with_tier
from logwright.tier.tier import TierOptions

EARLIEST: Final = -2
LATEST: Final = -1
"""In JSON of offsets: the log start offset, and the end of what readers see (Spark's numbers)."""

_CONFIG: Final = "config."

_TABLE: Final = frozenset(("owner", "provider"))
"""What Spark 4.3 adds to the options where it makes a table."""

_LONGEST_JSON: Final = 16 * 1024 * 1024
"""Characters; a topic with 100,000 partitions needs a tenth of it."""

_FROZEN: Final = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel)
_Model = TypeVar("_Model", bound=BaseModel)


def _json(value: object) -> object:
    if not isinstance(value, str):
        return value
    if len(value) > _LONGEST_JSON:
        raise ValueError(f"is longer than {_LONGEST_JSON} characters")
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError("is not JSON") from error


def _offsets(value: object) -> object:
    word = value.strip().casefold() if isinstance(value, str) else value
    return word if word in {"earliest", "latest"} else without_facts(_json(value))


def _directories(value: object) -> object:
    return value if value is None else _json(value)


def _compiles(value: object) -> object:
    if isinstance(value, str):
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error.msg}") from error
    return value


Partition = Annotated[Int32, Field(ge=0)]
PerPartition = Mapping[TopicName, Mapping[Partition, Annotated[Int64, Field(ge=EARLIEST)]]]
Offsets = Annotated[Literal["earliest", "latest"] | PerPartition, BeforeValidator(_offsets)]
Times = Annotated[
    Mapping[TopicName, Mapping[Partition, Annotated[Int64, Field(ge=0)]]], BeforeValidator(_json)
]
Timestamp = Annotated[Int64, Field(ge=0)]
Count = Annotated[Int64, Field(ge=1)]

_STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_AS_OF: Final = ("asOfOffset", "asOfTimestamp")
_OF_RECORDS: Final = (*_STARTS[:2], *_ENDS, "startingOffsetsByTimestampStrategy")
_SELECTIONS: Final = ("subscribe", "subscribePattern", "assign")
_OF_STREAMS: Final = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "failOnDataLoss")
_TIER: Final = ("tier", "tierKey")
_OF_BATCHES: Final = (*_ENDS, *_AS_OF, "view", "includeTombstones", "pushFilters", *_TIER)

Use = Literal["batch", "stream"]
"""What a frame is made by: ``spark.read`` or ``spark.readStream``."""


class _Options(BaseModel):
    model_config = _FROZEN

    def _given(self, names: tuple[str, ...]) -> list[str]:
        """Return which of these options are given."""
        given = {to_camel(name) for name in self.model_fields_set}
        return [name for name in names if name in given]


class ReadOptions(_Options):
    """Options of a read. Names are the options'.

    Attributes:
        path: one log directory; `paths`: several, the ``log.dirs`` of one broker.
        subscribe: topics; subscribePattern: a regular expression for whole topic names; assign:
            topic → partitions. Exactly one of the three.
        startingOffsets, endingOffsets: for each partition -2 (earliest), -1 (latest) or an offset,
            the ending ones exclusive.
        startingTimestamp, endingTimestamp: ms since the epoch, for all partitions: from the first
            offset on whose timestamp is at or above it, and up to that offset, exclusive.
        startingOffsetsByTimestamp, endingOffsetsByTimestamp: the same for each partition.
        startingOffsetsByTimestampStrategy: what happens if no record is as young as that.
        isolationLevel: as a consumer's ``isolation.level``.
        includeHeaders: there is a column ``headers``.
        minPartitions: minimum number of tasks, as far as batches can be divided.
        maxRecordsPerPartition: maximum number of offsets of one task.
        onCorrupt: "skip" leaves out batches that cannot be read.
        corruptReport: a directory for one JSON file of each range with skipped batches.
        highWatermark: what is committed, see `HighWatermark`.
        view: "latest" is the newest record of each key.
        asOfOffset, asOfTimestamp: the latest state as of an offset of each partition, exclusive; or
            as of a time, ms since the epoch.
        includeTombstones: the view "latest" also has deleted keys, with a null value.
        pushFilters: a query's filters decide what is read, see docs/adr/0026.
        maxOffsetsPerTrigger, maxBytesPerTrigger: of a stream, about how much one micro-batch reads
            of all partitions: offsets, bytes of segments.
        tier: the directory of the remote segments of tiered storage, which are read, too.
        tierKey: a file with the RSA private key of a tier that is encrypted.
        failOnDataLoss: a stream ends if records are gone that it has not read.
    """

    path: str | None = Field(None, min_length=1)
    paths: Annotated[tuple[str, ...], BeforeValidator(_directories)] = ()
    subscribe: TextList = ()
    subscribe_pattern: Annotated[str, BeforeValidator(_compiles)] | None = Field(
        None, min_length=1, max_length=1000
    )
    assign: Annotated[Mapping[TopicName, tuple[Partition, ...]], BeforeValidator(_json)] | None = (
        None
    )
    starting_offsets: Offsets = "earliest"
    ending_offsets: Offsets = "latest"
    starting_timestamp: Timestamp | None = None
    ending_timestamp: Timestamp | None = None
    starting_offsets_by_timestamp: Times | None = None
    ending_offsets_by_timestamp: Times | None = None
    starting_offsets_by_timestamp_strategy: Literal["error", "latest"] = "error"
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed"
    include_headers: Boolean = False
    min_partitions: Count | None = None
    max_records_per_partition: Count | None = None
    on_corrupt: Literal["fail", "skip"] = "fail"
    corrupt_report: str | None = Field(None, min_length=1)
    high_watermark: HighWatermark = "recorded"
    view: Literal["records", "latest"] = "records"
    as_of_offset: Annotated[PerPartition, BeforeValidator(_json)] | None = None
    as_of_timestamp: Timestamp | None = None
    include_tombstones: Boolean = False
    push_filters: Boolean = False
    max_offsets_per_trigger: Count | None = None
    max_bytes_per_trigger: Count | None = None
    fail_on_data_loss: Boolean = True
    tier: str | None = Field(None, min_length=1)
    tier_key: str | None = Field(None, min_length=1)

    @property
    def log_dirs(self) -> tuple[Place, ...]:
        """The log directories, without their tier. A task may have another working directory."""
        paths = self.paths if self.path is None else (self.path,)
        key = None if self.tier_key is None else Path(self.tier_key)
        places = (
            with_key(place, key) if isinstance(place, TieredPlace) else place
            for place in map(place_of, paths)
        )
        return tuple(place.absolute() if is_local(place) else place for place in places)

    def with_tier(self, log_dirs: Sequence[Place]) -> tuple[Place, ...]:
        """Return log directories together with the tier, if there is one. Pure."""
        if self.tier is None:
            return tuple(log_dirs)
        key = None if self.tier_key is None else Path(self.tier_key)
        return with_tier(log_dirs, TierOptions.of(self.tier, key))

    @model_validator(mode="after")
    def _names_what_to_read(self) -> Self:
        if (self.path is None) == (not self.paths):
            raise contradiction("a log directory is required: load(LOG_DIR)", "path")
        given = self._given(_SELECTIONS)
        if len(given) != 1:
            got = f"got {' and '.join(given)}" if given else "got none"
            names = ", ".join(_SELECTIONS)
            raise contradiction(f"exactly one of {names} is required ({got})", *_SELECTIONS)
        return self

    @model_validator(mode="after")
    def _has_a_tier_for_its_key(self) -> Self:
        paths = self.paths if self.path is None else (self.path,)
        if self.tier_key is not None and self.tier is None and not any(map(is_tier, paths)):
            raise contradiction("tierKey needs tier", "tierKey")
        return self

    @model_validator(mode="after")
    def _has_one_start_and_end(self) -> Self:
        for names in (_STARTS, _ENDS, _AS_OF):
            given = self._given(names)
            if len(given) > 1:
                raise contradiction(f"{given[0]} and {given[1]} exclude each other", *given)
        if self.ending_offsets == "earliest" or EARLIEST in _values(self.ending_offsets):
            raise contradiction("endingOffsets cannot be earliest", *_ENDS)
        if EARLIEST in _values(self.as_of_offset or {}):
            raise contradiction("asOfOffset cannot be earliest", "asOfOffset")
        if self.on_corrupt == "fail" and self.corrupt_report is not None:
            raise contradiction("corruptReport needs onCorrupt=skip", "corruptReport")
        return self

    @model_validator(mode="after")
    def _fits_the_view(self) -> Self:
        if self.view == "records":
            wrong = self._given((*_AS_OF, "includeTombstones"))
            if wrong:
                raise contradiction(f"{wrong[0]} needs view=latest", *wrong)
            return self
        wrong = self._given((*_OF_RECORDS, "maxRecordsPerPartition", "minPartitions"))
        if wrong:
            raise contradiction(
                f"{wrong[0]} is not for view=latest; see asOfOffset and asOfTimestamp", *wrong
            )
        if self.isolation_level == "read_uncommitted":
            raise contradiction("view=latest has committed records only", "isolationLevel")
        if self.on_corrupt == "skip":
            raise contradiction("view=latest cannot skip corrupt batches", "onCorrupt")
        return self

    def refuse_others(self, use: Use) -> None:
        """Refuse options that a batch, or a stream, does not have.

        Raises:
            PolicyError: there are some.
        """
        wrong = self._given(_OF_STREAMS if use == "batch" else _OF_BATCHES)
        if wrong:
            other = "stream: readStream" if use == "batch" else "batch: read"
            raise PolicyError(f"option {wrong[0]} is for a {other}.", remedy="Remove it.")
        if use == "batch" and (
            self.starting_offsets == "latest" or LATEST in _values(self.starting_offsets)
        ):
            raise PolicyError("startingOffsets cannot be latest in a batch query.")


class WriteOptions(_Options):
    """Options of a write. Names are the options'.

    Attributes:
        path: the log directory.
        topic: of all rows; without it each row has its own, which must exist.
        partitions: partition count of a new topic, minimum for an existing one; 0: keep it.
        ingestId: idempotency key of the frame: a repeated write with it appends what is missing.
        batchSize: maximum size of a record batch before compression, in bytes.
        compression: codec for topics with ``compression.type=producer``.
        configs: settings of the topics; options named ``config.`` and a config's name.
    """

    path: str = Field(alias="path", min_length=1)
    topic: TopicName | None = None
    partitions: Annotated[Int32, Field(ge=0, le=100_000)] = 0
    ingest_id: str | None = Field(None, min_length=1, max_length=200)
    batch_size: Annotated[Int32, Field(ge=1)] = 16_384
    compression: CodecName = "none"
    configs: Mapping[str, str] = Field(default_factory=dict, exclude=True)

    @model_validator(mode="after")
    def _knows_what_it_makes(self) -> Self:
        for name in self._given(("partitions", "ingestId")):
            if self.topic is None:
                raise contradiction(f"{name} needs topic", name)
        return self


def read_options(given: Mapping[str, str], use: Use | None = None) -> ReadOptions:
    """Return the options of a read.

    Args:
        given: name in any case → text, as Spark has them.
        use: None: it is not known yet, as where Spark asks for the schema.

    Raises:
        PolicyError: an option is unknown, malformed or contradicts another one; or is not for this
            use.
    """
    if given.keys() >= _TABLE:
        raise PolicyError(
            "Spark does not keep the options of a table of a data source in Python.",
            remedy="Use CREATE TEMPORARY VIEW instead of CREATE TABLE; or name the columns there,"
            " and the options in each query: SELECT … FROM t WITH (path = '…', subscribe = '…').",
        )
    options = _parse(ReadOptions, given)
    if use is not None:
        options.refuse_others(use)
    return options


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Return the options of a write; see `read_options`."""
    names = {name.casefold(): name for name in given}
    configs = {
        low[len(_CONFIG) :]: given[name] for low, name in names.items() if low.startswith(_CONFIG)
    }
    rest = {name: value for name, value in given.items() if not name.casefold().startswith(_CONFIG)}
    return _parse(WriteOptions, rest).model_copy(update={"configs": configs})


def _parse(model: type[_Model], given: Mapping[str, str]) -> _Model:
    names = _names(model)
    pairs: dict[str, str] = {}
    for name, value in given.items():
        known = names.get(name.casefold())
        if known is None:
            raise PolicyError(
                f"unknown option {name} of the format kafka-log.", remedy=_remedy(model, name)
            )
        pairs[known] = value
    try:
        return model.model_validate(pairs)
    except ValidationError as error:
        raise PolicyError(
            f"options of the format kafka-log: {'; '.join(findings(error))}."
        ) from error


@cache
def _names(model: type[BaseModel]) -> Mapping[str, str]:
    names = [to_camel(name) for name, one in model.model_fields.items() if not one.exclude]
    return {name.casefold(): name for name in names}


def _remedy(model: type[BaseModel], name: str) -> str:
    """Return what to do about an unknown option: mostly, use the valid one that is most like it."""
    if name.casefold() == "kafka.bootstrap.servers":
        return "Remove it: no broker is needed."
    names = _names(model)
    near = nearest(name.casefold()[:100], frozenset(names))
    return "Remove it." if near is None else f"Did you mean {names[near]}?"


def _values(offsets: Literal["earliest", "latest"] | PerPartition) -> set[int]:
    if isinstance(offsets, str):
        return set()
    return {offset for of_topic in offsets.values() for offset in of_topic.values()}


def is_latest(offsets: PerPartition, partition: TopicPartition) -> bool:
    """Return whether offsets have the latest one for a partition."""
    return offsets[partition.topic][partition.partition] == LATEST


def by_partition(given: Mapping[str, Mapping[int, int]]) -> dict[TopicPartition, int]:
    """Return numbers that JSON has by topic and partition, by both."""
    return {
        TopicPartition(topic, partition): number
        for topic, of_topic in given.items()
        for partition, number in of_topic.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """What filters leave of the records; None means no limit.

    Attributes:
        topics, partitions: those that are read.
        start_offset, end_offset: of all partitions, the end exclusive.
        min_timestamp_ms, max_timestamp_ms: no row outside them is wanted; both included.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None

    def has(self, partition: TopicPartition) -> bool:
        """Return whether a partition is read."""
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )
