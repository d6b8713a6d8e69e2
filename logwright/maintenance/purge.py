"""Remove from a bucket what no kept version of a log names, with the figures of a purge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.bucket.agreement import limits_of
from logwright.bucket.commit import Collect, newest
from logwright.bucket.driver import drive
from logwright.bucket.manifest import manifest_key
from logwright.bucket.states import collect_stored
from logwright.bucket.stored import DATA
from logwright.errors import unreadable
from logwright.format.names import TopicPartition
from logwright.place.bucket import bucket_of
from logwright.purge.plan import PendingDeletion, PurgeResult
from logwright.units import ByteCount, TimestampMs

if TYPE_CHECKING:
    from logwright.bucket.store import Bucket
    from logwright.place.model import Place


def purge_in_bucket(log_dir: Place, partition: TopicPartition) -> PurgeResult:
    """Remove the objects and versions of a log that are due by the server's clock; return what was
    removed, and when the rest is due. Effects: removes objects.

    Raises:
        NotALogDir: nobody has written there.
        Unsettled, UnreadableFile: the bucket does not answer, or does not permit it.
        CorruptLogError, UnsupportedFormatError: a manifest cannot be read; nothing is removed.
    """
    return _collect(bucket_of(log_dir), partition, removes=True)


def plan_purge_in_bucket(log_dir: Place, partition: TopicPartition) -> PurgeResult:
    """Return what a purge would remove now, and when the rest is due. Effects: lists the log's
    objects, reads its versions; writes an object to see the server's clock, and removes it. Errors:
    as `purge_in_bucket`.
    """
    return _collect(bucket_of(log_dir), partition, removes=False)


def purge_states(log_dir: Place, *, removes: bool = True) -> tuple[int, ...]:
    """Remove the versions of the state of a log directory in a bucket that were replaced as long
    ago as the age, by the server's clock; return them. Effects: as said, unless `removes` is false.
    Errors: as `purge_in_bucket`.
    """
    bucket = bucket_of(log_dir)
    return drive(bucket, collect_stored(limits_of(bucket), removes=removes))


def purge_unfinished(log_dir: Place, *, removes: bool = True) -> dict[TopicPartition, PurgeResult]:
    """Remove the objects of partitions that have no version, of uploads that were not finished,
    once they are due by the server's clock; return what was removed of each, and when the rest is
    due. An upload that is under way looks the same: its objects are younger. Effects: as said,
    unless `removes` is false. Errors: as `purge_in_bucket`.
    """
    bucket = bucket_of(log_dir)
    try:
        names = bucket.directories()
    except OSError as error:
        raise unreadable(error, bucket.url) from error
    parsed = filter(None, map(TopicPartition.parse, names))
    without = [
        each for each in parsed if drive(bucket.below(each.directory_name), newest()) is None
    ]
    results = {each: _collect(bucket, each, removes=removes) for each in without}
    return {each: result for each, result in results.items() if result.removed or result.pending}


def _collect(bucket: Bucket, partition: TopicPartition, *, removes: bool) -> PurgeResult:
    directory, collect = bucket.below(partition.directory_name), Collect(limits_of(bucket))
    sizes = _sizes(directory)
    done = drive(directory, collect.run() if removes else collect.look())
    return PurgeResult(
        removed=(*done.data, *map(manifest_key, done.versions)),
        removed_bytes=ByteCount(sum(sizes.get(key, 0) for key in done.data)),
        leftovers=(),
        staging=(),
        failed_outputs=(),
        pending=tuple(
            PendingDeletion(
                name=key, bytes=ByteCount(sizes.get(key, 0)), due_at_ms=TimestampMs(due_ms)
            )
            for key, due_ms in sorted(done.waiting.items())
        ),
    )


def _sizes(directory: Bucket) -> dict[str, int]:
    """Return the bytes of each object of a log's data. Effects: lists them."""
    try:
        return {stored.key: stored.bytes for stored in directory.listing(DATA)}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise unreadable(error, f"{directory}/{DATA}") from error
