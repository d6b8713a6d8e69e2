"""Erase from logs in a bucket, at once, each in a working copy.

A search of the bucket says which logs have records of the requests, or files that cannot be read:
only these are downloaded. The objects of earlier versions keep what was erased until a purge: the
search at the end names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from logwright.bucket.agreement import limits_of
from logwright.erasure.erase.left import find_left
from logwright.erasure.outcome import Failed, LogResult
from logwright.erasure.run import Erasure, erase_logs
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.locks import lock_log_dir
from logwright.maintenance.maintain import Maintenance
from logwright.maintenance.scratch import own_temporary
from logwright.maintenance.undo import ERASE
from logwright.place.bucket import bucket_of
from logwright.place.model import Place


def concerned_logs(erasure: Erasure[Place], logs: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return which of the logs have records of the requests, or files that cannot be searched.
    Objects of earlier versions do not count: a purge removes them. Effects: reads the logs.

    Raises:
        LogwrightError: the bucket cannot be searched.
    """
    with erasure.progress("search") as progress:
        left = find_left(erasure.log_dir, erasure.keys, erasure.search(), progress)
    paths = [*(one.path for one in left.parts), *(one.path for one in left.unsearched)]
    directories = {path.partition("/")[0] for path in paths if "/" in path}
    return [partition for partition in logs if partition.directory_name in directories]


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
        ).run(act)
    except LogwrightError as error:
        return Failed(name=str(partition), partition=partition, error=error)
    return ended[-1]
