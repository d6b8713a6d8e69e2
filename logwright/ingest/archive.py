"""Copy a topic of a running broker into offline logs, with its offsets and timestamps.

A run starts where the copy ends and stops where the source ended when the run started. Gaps in the
source's offsets, from compaction and transactions, are gaps in the copy. Copies are CreateTime:
every record keeps its timestamp.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from logwright.config.resolved import Sources, settings_of
from logwright.config.sources import keep_topic
from logwright.errors import InvariantError, PreconditionError
from logwright.format.names import TopicPartition
from logwright.ingest.broker import Held, Isolation, SourceTopic, open_topic
from logwright.ingest.commit import (
    commit_append,
    plan_append,
    prepare_log_dir,
    stage_append,
)
from logwright.ingest.model import Appended, AppendOptions, AppendPlan
from logwright.ingest.replicated import refuse_replicated
from logwright.ingest.staging import staging
from logwright.log.topic_id import read_topic_id
from logwright.place.files import open_partition_dir
from logwright.units import ByteCount, Offset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from logwright.format.kept_topics import KeptTopic
    from logwright.units import TimestampMs

ARCHIVE: Final = "archive"
"""Id of a copy in the journals; the offsets identify its records."""


class ForeignCopy(PreconditionError):
    """The log has offsets that its source does not have, or is of another topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The source of a copy.

    Attributes:
        bootstrap: ``HOST:PORT`` of a broker, or several separated by commas.
        consumer: more settings of librdkafka, for example for TLS and SASL.
    """

    bootstrap: str
    topic: str
    isolation: Isolation = "read_committed"
    consumer: Mapping[str, str] = field(default_factory=dict)
    append: AppendOptions = field(default_factory=AppendOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenArchive:
    """The source of a copy, open.

    Attributes:
        topic: its name.
        held: partition → offsets on the broker, when it was opened.
        described: id and settings of the topic; None: the broker does not permit to read them.
        append: how records are appended.
    """

    topic: str
    held: Mapping[int, Held]
    described: KeptTopic | None
    append: AppendOptions
    _source: SourceTopic

    def sources(self, sources: Sources) -> Sources:
        """Return the sources of a log directory's settings, with those of the broker."""
        if self.described is None or sources.knows(self.topic):
            return sources
        return replace(sources, kept={**sources.kept, self.topic: self.described})

    def copy(
        self, log_dir: Path, number: int, sources: Sources, *, now_ms: TimestampMs
    ) -> Appended:
        """Copy the new records of one partition. Effects: reads from the broker, saves the topic's
        settings and id in the log directory, changes the log.

        Args:
            log_dir: it was prepared by `prepare_log_dir`.
            number: one of `held`.
            sources: of the log directory's settings, without those of the broker.
            now_ms: the clock.

        Raises:
            BrokerUnavailable: the broker cannot be read.
            ForeignCopy: the log ends after its source, or is of another topic of this name.
            LogwrightError: any error of planning, staging and committing.
        """
        partition = TopicPartition(self.topic, number)
        self._require_same_topic(log_dir, partition)
        refuse_replicated(log_dir, partition, sources.replicas_of(partition))
        if self.described is not None:
            sources = keep_topic(log_dir, sources, self.topic, self.described)
        config, _ = settings_of(sources, self.topic)
        plan = plan_append(
            log_dir,
            partition,
            config,
            ingest_id=ARCHIVE,
            now_ms=now_ms,
            options=replace(self.append, keep_offsets=True),
            topic_id=sources.topic_id(self.topic),
        )
        if not isinstance(plan, AppendPlan):
            raise InvariantError("a copy is never complete")
        return _copy(plan, self._source, self.held[number])

    def _require_same_topic(self, log_dir: Path, partition: TopicPartition) -> None:
        """Refuse a log of an earlier topic of this name. Effects: reads its topic id."""
        known = None if self.described is None else self.described.topic_id
        directory = log_dir / partition.directory_name
        if known is None or not directory.is_dir():
            return
        with open_partition_dir(log_dir, partition) as opened:
            topic_id = read_topic_id(opened)
        if topic_id not in (None, known):
            raise ForeignCopy(
                f"is of the topic {topic_id}, the broker's is {known}: it was made again.",
                path=directory,
                remedy="Archive to another log directory.",
            )


@contextmanager
def open_archive(wanted: Archive) -> Iterator[OpenArchive]:
    """Open the source of a copy. Effects: connects to the broker, and asks it for offsets and
    settings.

    Raises:
        BrokerUnavailable: the broker cannot be read.
    """
    with open_topic(
        wanted.bootstrap, wanted.topic, isolation=wanted.isolation, settings=wanted.consumer
    ) as source:
        yield OpenArchive(
            topic=wanted.topic,
            held=source.partitions(),
            described=source.described(),
            append=wanted.append,
            _source=source,
        )


def archive_topic(
    log_dir: Path, wanted: Archive, sources: Sources, *, now_ms: TimestampMs
) -> Iterator[Appended]:
    """Copy the new records of each partition in turn; yield the result of each. Effects and errors:
    as `OpenArchive.copy`. Completed partitions are not affected by an error.

    `sources`: sources of the log directory's settings; the broker's settings are added to them.
    """
    prepare_log_dir(log_dir)
    with open_archive(wanted) as topic:
        for number in topic.held:
            yield topic.copy(log_dir, number, sources, now_ms=now_ms)


def _copy(plan: AppendPlan, source: SourceTopic, held: Held) -> Appended:
    """Copy one partition."""
    end = plan.log_end_offset
    if end > held.end:
        raise ForeignCopy(
            f"the log ends at offset {end}, but its source at {held.end}.",
            path=plan.directory,
            remedy="It is not a copy of this topic: archive to another log directory.",
        )
    start = max(end, held.first)
    if start >= held.end:
        return nothing_new(plan.partition, end)
    with staging([plan]):
        staged = stage_append(plan, source.records(plan.partition.partition, start, held.end))
        done = commit_append(plan, staged)
    return replace(done, first_offset=Offset(staged.first_offset))


def nothing_new(partition: TopicPartition, end: Offset) -> Appended:
    """Return the result of a copy that has all of its source; `end`: its log end offset."""
    return Appended(
        partition=partition,
        records=0,
        first_offset=end,
        end_offset=end,
        log_bytes=ByteCount(0),
        segments_rolled=0,
        repeated=False,
    )
