"""Copy a topic of a running broker into a bucket by the broker's protocol, where its files are out
of reach.

Each partition is copied by what copies it into a log directory (`logwright.ingest.archive`): one
that the bucket has in a working copy of its active segment, one that is new in a log directory of
this machine that is uploaded then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logwright.bucket.agreement import agree
from logwright.bucket.commit import newest
from logwright.bucket.driver import drive
from logwright.config.resolved import given_configs
from logwright.errors import InvariantError
from logwright.format.names import TopicPartition
from logwright.ingest.archive import Archive, OpenArchive, nothing_new, open_archive
from logwright.ingest.commit import prepare_log_dir
from logwright.maintenance.maintain import Maintenance
from logwright.maintenance.scratch import working_directory
from logwright.units import ByteCount, Offset
from logwright.upload.upload import Upload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from logwright.bucket.commit import Limits
    from logwright.bucket.manifest import LogState
    from logwright.bucket.store import Bucket
    from logwright.config.resolved import Sources
    from logwright.ingest.model import Appended
    from logwright.units import TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """Where a topic is copied to.

    Attributes:
        bucket: the log directory in the bucket.
        limits: what its writers agree on.
        sources: of its settings.
        scratch: where working copies are made.
        now_ms: the clock.
    """

    bucket: Bucket
    limits: Limits
    sources: Sources
    scratch: Path
    now_ms: TimestampMs


def archive_to_bucket(
    bucket: Bucket,
    wanted: Archive,
    sources: Callable[[], Sources],
    *,
    scratch: Path,
    now_ms: TimestampMs,
) -> Iterator[Appended]:
    """Copy the new records of each partition in turn; yield the result of each. Effects: reads from
    the broker; writes objects and manifests; makes working copies.

    Args:
        bucket: the log directory in the bucket; it is begun if nobody wrote there.
        wanted: what to copy.
        sources: reads those of the settings of the log directory, which exists then; the broker's
            are added to them.
        scratch: where working copies are made: the new records must have room there, twice.
        now_ms: the clock.

    Raises:
        LogwrightError: as `OpenArchive.copy`, `Maintenance.run` and `Upload.run`. Completed
            partitions are not affected.
    """
    with open_archive(wanted) as topic:
        limits = agree(bucket)
        target = _Target(
            bucket=bucket, limits=limits, sources=sources(), scratch=scratch, now_ms=now_ms
        )
        for number in topic.held:
            yield _archive(target, topic, TopicPartition(topic.topic, number))


def _archive(target: _Target, topic: OpenArchive, partition: TopicPartition) -> Appended:
    """Copy one partition."""
    configs = given_configs(topic.sources(target.sources), topic.topic)
    manifest = drive(target.bucket.below(partition.directory_name), newest())
    if manifest is None:
        return _first(target, topic, partition, configs)
    if _is_current(manifest.state, topic, configs):
        return nothing_new(partition, Offset(manifest.state.log_end_offset))
    done = Maintenance(
        bucket=target.bucket,
        partition=partition,
        operation="archive",
        scratch=target.scratch,
        limits=target.limits,
        now_ms=target.now_ms,
        needed=lambda _: False,
        configs=configs,
        past_pause=True,
    ).run(
        lambda log_dir: topic.copy(
            log_dir, partition.partition, target.sources, now_ms=target.now_ms
        )
    )
    if done is None or done.result is None:
        raise InvariantError("a job of its own was not made by another process")
    return done.result


def _is_current(state: LogState, topic: OpenArchive, configs: Mapping[str, str]) -> bool:
    """Return whether a log has all that its source has. An older topic of this name does not."""
    known = None if topic.described is None else topic.described.topic_id
    same_topic = state.topic_id == known or None in (state.topic_id, known)
    ends = state.log_end_offset == topic.held[state.number].end
    return same_topic and ends and dict(state.configs) == dict(configs)


def _first(
    target: _Target, topic: OpenArchive, partition: TopicPartition, configs: Mapping[str, str]
) -> Appended:
    """Copy a partition that the bucket does not have, if it has records."""
    with working_directory(target.scratch, ByteCount(0)) as directory:
        log_dir = directory / "logs"
        log_dir.mkdir()
        prepare_log_dir(log_dir)
        done = topic.copy(log_dir, partition.partition, target.sources, now_ms=target.now_ms)
        if done.records:
            Upload(
                place=log_dir,
                partition=partition,
                bucket=target.bucket,
                limits=target.limits,
                configs=configs,
                now_ms=target.now_ms,
            ).run()
    return done
