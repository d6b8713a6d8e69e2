"""What a command that changes logs does with one in a bucket: the same, in a working copy."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

from logwright.bucket.agreement import agreed
from logwright.bucket.commit import Limits
from logwright.bucket.store import Bucket
from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.errors import NotALogDir
from logwright.format.names import TopicPartition
from logwright.maintenance.copy import Needed
from logwright.maintenance.maintain import Maintenance
from logwright.place.bucket import BucketPlace
from logwright.place.model import Place

_T = TypeVar("_T")


def in_bucket(
    request: Request,
    partition: TopicPartition,
    operation: str,
    act: Callable[[Request], _T | None],
    scratch: Path | None,
    *,
    needed: Needed | None = None,
) -> _T | None:
    """Change one log in a bucket: see `logwright.maintenance.maintain`. Effects: as said; output.

    Args:
        request: of the bucket.
        operation: its name in the history of the log.
        act: changes the log, in the working copy that its request is of; None: nothing of it
            counts.
        scratch: where working copies are made; None: where temporary files are.
        needed: which segments it reads; None: all.

    Returns:
        what `act` returns.

    Raises:
        LogwrightError: see `Maintenance.run`.
    """
    bucket = bucket_of(request.place)
    maintenance = Maintenance(
        bucket=bucket,
        partition=partition,
        operation=operation,
        scratch=Path(tempfile.gettempdir()) if scratch is None else scratch,
        limits=limits_of(bucket),
        now_ms=request.now_ms,
        needed=needed,
    )

    def local(log_dir: Path) -> _T | None:
        return act(
            replace(request, place=log_dir, named=(partition,), yes=True, changed=[])
        )

    done = maintenance.run(local)
    if done is None:
        return None
    if done.version is not None:
        request.changed.append(partition)
        request.output.message(
            f"{partition}: version {done.version}, {human_bytes(done.sent_bytes)} written"
        )
    return done.result


def bucket_of(place: Place) -> Bucket:
    """Return the log directory of a place in a bucket."""
    return cast("BucketPlace", place).session.bucket


def limits_of(bucket: Bucket) -> Limits:
    """Return what its writers agree on. Effects: reads.

    Raises:
        NotALogDir: nobody wrote there.
        LogwrightError: see `agreed`.
    """
    limits = agreed(bucket)
    if limits is None:
        raise NotALogDir(
            "nobody has written logs there.", path=bucket, remedy="Look at the URL."
        )
    return limits
