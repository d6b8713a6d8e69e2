"""Copy a topic of a running broker into offline logs, with its offsets and timestamps.

A run starts where the copy ends and stops where the source ended when the run started. Gaps in the
source's offsets, from compaction and transactions, are gaps in the copy. Copies are CreateTime:
every record keeps its timestamp.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from logwright.config.resolved import Sources, settings_of
from logwright.config.sources import keep_topic
from logwright.errors import PreconditionError, invariant
from logwright.format.names import TopicPartition
from logwright.ingest.broker import Held, Isolation, SourceTopic, open_topic
from logwright.ingest.commit import (
    commit_append,
    plan_append,
    prepare_log_dir,
    stage_append,
)
from logwright.ingest.model import Appended, AppendOptions, AppendPlan
from logwright.ingest.staging import staging
from logwright.units import ByteCount, Offset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from logwright.units import TimestampMs

ARCHIVE: Final = "archive"
"""Id of a copy in the journals; the offsets identify its records."""


class ForeignCopy(PreconditionError):
    """The log has offsets that its source does not have."""


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


def archive_topic(
    log_dir: Path, wanted: Archive, sources: Sources, *, now_ms: TimestampMs
) -> Iterator[Appended]:
    """Copy the new records of each partition in turn; yield the result of each. Effects: reads from
    the broker, saves the topic's settings and id in the log directory, changes logs.

    `sources`: sources of the log directory's settings; the broker's settings are added to them.

    Raises:
        BrokerUnavailable: the broker cannot be read.
        ForeignCopy: a log ends after its source.
        LogwrightError: any error of planning, staging and committing. Completed partitions are
        not affected.
    """
    prepare_log_dir(log_dir)
    options = replace(wanted.append, keep_offsets=True)
    with open_topic(
        wanted.bootstrap, wanted.topic, isolation=wanted.isolation, settings=wanted.consumer
    ) as source:
        partitions = source.partitions()
        described = source.described()
        if described is not None:
            sources = keep_topic(log_dir, sources, wanted.topic, described)
        config, _ = settings_of(sources, wanted.topic)
        for number, held in partitions.items():
            plan = plan_append(
                log_dir,
                TopicPartition(wanted.topic, number),
                config,
                ingest_id=ARCHIVE,
                now_ms=now_ms,
                options=options,
                topic_id=sources.topic_id(wanted.topic),
            )
            invariant(isinstance(plan, AppendPlan), "a copy is never complete")
            if isinstance(plan, AppendPlan):
                yield _copy(plan, source, held)


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
    nothing = Appended(
        partition=plan.partition,
        records=0,
        first_offset=end,
        end_offset=end,
        log_bytes=ByteCount(0),
        segments_rolled=0,
        repeated=False,
    )
    if start >= held.end:
        return nothing
    with staging([plan]):
        staged = stage_append(plan, source.records(plan.partition.partition, start, held.end))
        done = commit_append(plan, staged)
    return replace(done, first_offset=Offset(staged.first_offset))
