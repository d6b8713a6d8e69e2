"""A topic of a running broker copied into logs at rest: offsets and timestamps as they are there.

Each run goes on where the copy ends, and ends where the source ended when it began. Holes in the
source's offsets, from compaction and transactions, are holes in the copy. Copies are CreateTime:
every record keeps the time that the source gave it.
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
"""Id of a copy in the journals: offsets tell the rest."""


class ForeignCopy(PreconditionError):
    """The log holds offsets that its source does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """What is copied.

    Attributes:
        bootstrap: ``HOST:PORT`` of a broker, several with commas.
        consumer: more settings of librdkafka, as for TLS and SASL.
    """

    bootstrap: str
    topic: str
    isolation: Isolation = "read_committed"
    consumer: Mapping[str, str] = field(default_factory=dict)
    append: AppendOptions = field(default_factory=AppendOptions)


def archive_topic(
    log_dir: Path, wanted: Archive, sources: Sources, *, now_ms: TimestampMs
) -> Iterator[Appended]:
    """Copy what is new of each partition, one after the other; what each got. Effects: reads from
    the broker, keeps the topic's settings and id beside the copy, changes logs.

    `sources`: of the log directory's settings; the broker's answer is added to them.

    Raises:
        BrokerUnavailable: the broker cannot be read.
        ForeignCopy: a log ends behind its source.
        LogwrightError: whatever planning, staging and committing raise. Partitions that are done
        stay so.
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
            invariant(isinstance(plan, AppendPlan), "a copy is never done for good")
            if isinstance(plan, AppendPlan):
                yield _copy(plan, source, held)


def _copy(plan: AppendPlan, source: SourceTopic, held: Held) -> Appended:
    """One partition."""
    end = plan.log_end_offset
    if end > held.end:
        raise ForeignCopy(
            f"the log ends at offset {end}, its source at {held.end}.",
            path=plan.directory,
            remedy="It is no copy of this topic: archive to another log directory.",
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
