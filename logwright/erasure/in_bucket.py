"""Erase from logs in a bucket, at once, each in a working copy.

1. A search of the bucket says which logs have records of the requests, or files that cannot be
   read: only these are downloaded.
2. What is committed says which keys were erased below which offset: no upload of a log that may
   have them follows (`logwright.upload.plan`, 6).
3. Of the other logs the erasure is counted where objects lie that no version names: a writer that
   has seen the log before may be about to name them, and is refused (`logwright.bucket.commit`,
   11).

The objects of earlier versions keep what was erased until a purge: the search at the end names
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from logwright.bucket.agreement import limits_of
from logwright.bucket.commit import (
    Commit,
    Conflict,
    Operation,
    Put,
    Requests,
    data_key,
    newest,
    sure,
    unnamed_data,
)
from logwright.bucket.driver import drive
from logwright.bucket.manifest import LogState, Manifest, erased_in
from logwright.bucket.store import Bucket
from logwright.bucket.stored import StoredFile, StoredSegment
from logwright.erasure.erase.left import find_left
from logwright.erasure.outcome import Failed, LogResult
from logwright.erasure.run import Erasure, erase_logs
from logwright.errors import LogwrightError, unreadable
from logwright.format import names
from logwright.format.names import TopicPartition
from logwright.locks import lock_log_dir
from logwright.maintenance.maintain import Maintenance, new_job
from logwright.maintenance.scratch import own_temporary
from logwright.maintenance.undo import ERASE
from logwright.place.bucket import bucket_of, manifest_of
from logwright.place.model import Place, again
from logwright.state.erasure_mark import erased_at_once, mark_content
from logwright.state.hold import refuse_held

_NS_PER_MS: Final = 1_000_000
_CAME_BETWEEN: Final = "Run it again: what it wrote was not searched."


def concerned_logs(erasure: Erasure[Place], logs: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return which of the logs have records of the requests, or files that cannot be searched.
    Objects of earlier versions do not count: a purge removes them. Effects: reads the logs, as the
    session of the erasure's place shows them.

    Raises:
        LogwrightError: the bucket cannot be searched.
    """
    with erasure.progress("search") as progress:
        left = find_left(erasure.log_dir, erasure.keys, erasure.search(), progress)
    paths = [*(one.path for one in left.parts), *(one.path for one in left.unsearched)]
    directories = {path.partition("/")[0] for path in paths if "/" in path}
    return [partition for partition in logs if partition.directory_name in directories]


def seen_now(erasure: Erasure[Place]) -> Erasure[Place]:
    """Return the erasure with a session of its own, which shows what is there now: what it shows
    first is what is searched and counted.
    """
    return replace(erasure, log_dir=again(erasure.log_dir))


def erased_in_copy(directory: Path) -> Mapping[str, int]:
    """Return what was erased from the log of a working copy: see `Maintenance.erased`. Effects:
    reads its mark.
    """
    return erased_at_once(mark_content(directory))


def count_erasure(erasure: Erasure[Place], logs: Sequence[TopicPartition]) -> Iterator[Failed]:
    """Count the erasure where it has erased nothing; rule 3. Yield the logs of which it could not.
    Effects: may create a version of each, and of those that have none yet.

    Args:
        erasure: as `seen_now` gives it, after `concerned_logs`.
        logs: that it is about, and that the bucket has.
    """
    bucket = bucket_of(erasure.log_dir)
    for partition in (*logs, *_unfinished(erasure, bucket)):
        try:
            _count(erasure, bucket, partition)
        except LogwrightError as error:
            yield Failed(name=str(partition), partition=partition, error=error)


def _unfinished(erasure: Erasure[Place], bucket: Bucket) -> list[TopicPartition]:
    """Return the logs that have no version yet and that the erasure is about. Effects: lists."""
    try:
        listed = filter(None, map(TopicPartition.parse, bucket.directories()))
        return [
            partition
            for partition in listed
            if not erasure.keys.for_topic(partition.topic).is_empty
            and erasure.is_wanted(partition)
            and manifest_of(erasure.log_dir, partition) is None
        ]
    except OSError as error:
        raise unreadable(error, bucket) from error


def _count(erasure: Erasure[Place], bucket: Bucket, partition: TopicPartition) -> None:
    directory = bucket.below(partition.directory_name)
    searched, latest = manifest_of(erasure.log_dir, partition), drive(directory, newest())
    number = erased_in(searched).number
    if erased_in(latest).number > number or not drive(directory, unnamed_data()):
        return
    refuse_held(erasure.log_dir, partition, erasure.now_ms, force=True)
    operation = Operation(
        id=new_job(ERASE),
        attempt=0,
        planned_version=_version(searched),
        written_ms=erasure.now_ms,
        erasures=number,
    )

    def change(manifest: Manifest | None) -> Requests[LogState]:
        if _version(manifest) != _version(searched):
            raise Conflict("another operation came between.", path=partition, remedy=_CAME_BETWEEN)
        if manifest is None:
            return (yield from _empty_log(operation, partition))
        return manifest.state

    commit = Commit(
        operation, change, limits_of(bucket), erased=lambda before: erased_in(before).after({})
    )
    drive(directory, commit.run())


def _version(manifest: Manifest | None) -> int:
    return -1 if manifest is None else manifest.version


def _empty_log(operation: Operation, partition: TopicPartition) -> Requests[LogState]:
    """Return the state of an empty log, whose objects are written."""
    files = []
    for number, suffix in enumerate((names.LOG, names.INDEX, names.TIMEINDEX)):
        key = data_key(operation, number, suffix)
        yield from sure(Put(key, b""))
        files.append(StoredFile(key=key, bytes=0, crc32c=0))
    segment = StoredSegment(
        base_offset=0,
        next_offset=0,
        max_timestamp_ms=operation.written_ms,
        modified_ns=operation.written_ms * _NS_PER_MS,
        log=files[0],
        index=files[1],
        timeindex=files[2],
    )
    return LogState(
        topic=partition.topic,
        number=partition.partition,
        topic_id=None,
        log_start_offset=0,
        high_watermark=0,
        log_end_offset=0,
        cleaner_checkpoint=None,
        leader_epochs=None,
        configs={},
        segments=(segment,),
    )


def erase_copy(erasure: Erasure, partition: TopicPartition, ended: list[LogResult]) -> bool:
    """Erase from the log of a working copy; return whether that is to be committed. Effects:
    changes it.

    Args:
        erasure: of the copy. ended: gets what was done.
    """
    with lock_log_dir(erasure.log_dir):
        ended[:] = erase_logs(erasure, [partition])
    return not any(isinstance(result, Failed) for result in ended)


def erase_version(erasure: Erasure[Place], partition: TopicPartition) -> LogResult:
    """Erase from one log in a bucket, and commit that as its next version. Effects: see
    `Maintenance.run`.
    """
    ended: list[LogResult] = []

    def act(log_dir: Path) -> bool | None:
        copy = cast("Erasure", replace(erasure, log_dir=log_dir))
        return erase_copy(copy, partition, ended) or None

    bucket = bucket_of(erasure.log_dir)
    try:
        Maintenance(
            bucket=bucket,
            partition=partition,
            operation=ERASE,
            scratch=own_temporary(),
            limits=limits_of(bucket),
            now_ms=erasure.now_ms,
            erased=erased_in_copy,
        ).run(act)
    except LogwrightError as error:
        return Failed(name=str(partition), partition=partition, error=error)
    return ended[-1]
