"""``logwright dump --follow``: new records of logs that a broker has open, as they are committed.

After each checkpoint of the high watermarks (every 5 s) the logs are looked at again, and what was
committed since is printed. What is printed of a log that is truncated meanwhile is printed again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from logwright.cli.options.dump import Given
from logwright.cli.request import Request
from logwright.cli.run.dump_records import Line, look, record_lines
from logwright.errors import Unsettled
from logwright.format.names import TopicPartition
from logwright.log.model import ReadableLog
from logwright.log.topic_id import read_topic_id
from logwright.place.files import open_partition_dir
from logwright.place.model import reading
from logwright.records.model import ReadRequest
from logwright.records.plan import visible_offsets
from logwright.running.broker import broker_process
from logwright.running.place import RunningPlace, Session, as_it_runs
from logwright.running.watermark import read_watermarks, wait_for_next

Show = Callable[[TopicPartition, list[Line]], None]
"""Print some records of a partition."""


class _BrokerEnded(Exception):
    """No broker has the directory open any more: there is nothing more to follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Followed:
    """Where a log is to be read next.

    Attributes:
        topic_id: of the log that was read.
        offset: the first that was not printed; None: as the options say.
        left: the most records that are still to be printed; None: all.
    """

    topic_id: str | None
    offset: int | None
    left: int | None


def follow(
    request: Request, partitions: Sequence[TopicPartition], given: Given, show: Show
) -> None:
    """Print the wanted records, then new ones, until the broker ends or all of ``--count`` are
    printed. Effects: reads the logs; output.

    Raises:
        click.UsageError: no broker has the directory open.
    """
    place = request.place
    if not isinstance(place, RunningPlace):
        raise click.UsageError("--follow: no broker has the log directory open")
    try:
        _follow(request, place.session, partitions, given, show)
    except _BrokerEnded:
        request.output.message("the broker ended.")


def _follow(
    request: Request,
    session: Session,
    partitions: Sequence[TopicPartition],
    given: Given,
    show: Show,
) -> None:
    """Print until nothing is left to wait for.

    Raises:
        _BrokerEnded: no broker has the directory open any more.
        Unsettled: the broker runs, and does not record its high watermarks.
    """
    log_dir, rate = session.log_dir, session.bytes_per_second
    followed: dict[TopicPartition, _Followed] = {}
    waiting = list(partitions)
    while waiting:
        identity = read_watermarks(log_dir).identity
        for partition in tuple(waiting):
            failures = len(request.failures.failures)
            with (
                request.failures.of(partition),
                _as_long_as_it_runs(log_dir),
                reading(request.place),
            ):
                known = followed.get(partition)
                followed[partition] = _print_new(request, partition, given, known, show)
            if len(request.failures.failures) > failures or followed[partition].left == 0:
                waiting.remove(partition)
        sys.stdout.flush()
        if waiting:
            with _as_long_as_it_runs(log_dir):
                wait_for_next(log_dir, identity, "nothing new can be committed")
            again = as_it_runs(log_dir, bytes_per_second=rate)
            if not isinstance(again, RunningPlace):
                raise _BrokerEnded
            request = replace(request, place=again)


@contextmanager
def _as_long_as_it_runs(log_dir: Path) -> Iterator[None]:
    """Say that a broker ended, where a log is not settled because of that.

    Raises:
        _BrokerEnded: instead of `Unsettled`, where no broker has the directory open any more.
    """
    try:
        yield
    except Unsettled as error:
        if broker_process(log_dir) is None:
            raise _BrokerEnded from error
        raise


def _print_new(
    request: Request,
    partition: TopicPartition,
    given: Given,
    known: _Followed | None,
    show: Show,
) -> _Followed:
    """Print what was committed of a log since; return where it is to be read next."""
    log = look(request, partition)
    with open_partition_dir(request.place, partition) as directory:
        topic_id = read_topic_id(directory)
    known = _checked(request, log, topic_id, known, given)
    end = visible_offsets(log, ReadRequest())[1]
    if known.offset is not None and end <= known.offset:
        return known
    own = given
    if known.offset is not None:
        own = given | {"offset": known.offset, "time_ms": None}
    left = known.left
    for records in record_lines(log, own | {"count": left}):
        show(partition, records)
        left = None if left is None else left - len(records)
    return replace(known, offset=max(end, known.offset or 0), left=left)


def _checked(
    request: Request,
    log: ReadableLog,
    topic_id: str | None,
    known: _Followed | None,
    given: Given,
) -> _Followed:
    """Return where a log is to be read; records that are lost are reported. Effects: output."""
    if known is None:
        return _Followed(topic_id=topic_id, offset=None, left=given["count"])
    if topic_id != known.topic_id:
        request.output.message(f"{log.partition} was made again: its records from the start.")
        return replace(known, topic_id=topic_id, offset=log.log_start_offset)
    if known.offset is not None and log.log_start_offset > known.offset:
        request.output.message(
            f"{log.partition}: offsets {known.offset} to {log.log_start_offset - 1} were deleted"
            " before they were read."
        )
    return known
