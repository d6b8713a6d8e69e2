"""Search a log directory that a broker has open, for a certificate.

1. All files are held as they are at one moment, hashed and searched (`logwright.running`).
2. What is committed of the requests' logs is known by a high watermark that is younger than that.
3. If a request's key is not found and there were files that the broker was writing or about to
   delete, these are waited for, and all is looked at once more: what a cleaner writes is a copy of
   what it read before. What does not go in time is named as not searched: nothing is proved then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from logwright.erasure.certificate.make import Searched
from logwright.erasure.certificate.model import PathName, Running, RunningLog
from logwright.erasure.find.result import Unsearched
from logwright.errors import LogwrightError, NotALogDir
from logwright.format.names import TopicPartition
from logwright.log.load import CLUSTER_METADATA_TOPIC, observe
from logwright.log.record_files import partition_of
from logwright.running.place import RunningPlace

if TYPE_CHECKING:
    from logwright.erasure.find.result import Settings
    from logwright.running.picture import Picture

_log = logging.getLogger(__name__)

MOST_SECONDS: Final = 600.0
"""How long files are waited for."""
_MARGIN_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1
_NS_PER_MS: Final = 1_000_000
_STILL_THERE: Final = (
    "a broker was writing it, or about to delete it, and had not when the time was over"
)

Search = Callable[[RunningPlace, RunningPlace], Searched]
"""Searches all files of a place; the second one ends at what is committed."""


class Concern(NamedTuple):
    """What the requests are about.

    Attributes:
        requests: how many.
        of_topic: whether one is about a topic; empty: not known which.
    """

    requests: int
    of_topic: Callable[[str], bool]


def search_running(
    place: RunningPlace, find: Search, concern: Concern, *, wait_seconds: float
) -> Searched:
    """Search a directory. Effects: reads all of its files, perhaps twice; waits.

    Args:
        place: shown whole.
        wait_seconds: how long files may take to go; see `wait_seconds`.

    Raises:
        Unsettled: a log keeps changing, was truncated meanwhile, or has no high watermark.
        LogwrightError: it cannot be read.
    """
    passing = _concerned(place.session.passing(), concern)
    searched = _look(place, find, concern)
    numbers = {finding.request for finding in searched.findings if finding.request >= 0}
    if not passing or len(numbers) == concern.requests:
        return searched
    left = _wait(place, passing, wait_seconds)
    if left:
        rows = [_unsearched(path) for path in left]
        return replace(searched, unsearched=[*searched.unsearched, *rows])
    again = _look(place.session.another(whole=True).place, find, concern)
    first, second = searched.running, again.running
    assert first is not None and second is not None  # noqa: S101, PT018 -- `_look` gives them
    names = dict.fromkeys((*first.gone, *second.gone))
    return replace(
        again,
        running=second.model_copy(
            update={
                "begun_at_ms": first.begun_at_ms,
                "snapshots": 2,
                "passed": tuple(map(PathName.of, passing)),
                "gone": tuple(names),
            }
        ),
    )


def wait_seconds(settings: Settings, topics: Iterable[str]) -> float:
    """Return how long files that a broker deletes may still be there: its delays, and a margin.
    Topics whose settings cannot be read do not count.
    """
    delays = [settings.broker.file_delete_delay_ms]
    for topic in topics:
        with suppress(LogwrightError):
            delays.append(settings.of_topic(topic)[0].file_delete_delay_ms)
    return min(max(delays) / 1000 + _MARGIN_SECONDS, MOST_SECONDS)


def topics_of(place: RunningPlace) -> set[str]:
    """Return the topics that have a log in a directory. Effects: as `Session.root`."""
    parsed = map(TopicPartition.parse, place.session.root().directories)
    return {partition.topic for partition in parsed if partition is not None}


def _look(place: RunningPlace, find: Search, concern: Concern) -> Searched:
    """Search what there is at one moment."""
    pictures = place.session.pictures()
    bounded = place.session.another(exact=True).place
    logs = _logs(bounded, pictures, concern)
    searched = find(place, bounded)
    times = [picture.snapshot.taken_ns // _NS_PER_MS for picture in pictures.values()]
    now_ms = time.time_ns() // _NS_PER_MS
    return replace(
        searched,
        running=Running(
            begun_at_ms=min(times, default=now_ms),
            taken_at_ms=max(times, default=now_ms),
            snapshots=1,
            logs=logs,
            passed=(),
            gone=tuple(map(PathName.of, place.session.root().gone)),
        ),
    )


def _logs(
    bounded: RunningPlace, pictures: Mapping[str, Picture], concern: Concern
) -> tuple[RunningLog, ...]:
    """Return what is committed of the requests' logs; of those that were deleted meanwhile nothing.
    Effects: waits for high watermarks.
    """
    parsed = {name: TopicPartition.parse(name) for name in pictures}
    partitions = {
        name: partition
        for name, partition in sorted(parsed.items())
        if partition is not None
        and partition.topic != CLUSTER_METADATA_TOPIC
        and concern.of_topic(partition.topic)
    }
    with suppress(LogwrightError):  # each is asked for alone
        bounded.session.prepare(partitions)
    logs = []
    for name, partition in partitions.items():
        picture, stable = pictures[name], -1
        try:
            log = observe(bounded, partition, high_watermark="checkpoint")
            stable = int(log.last_stable_offset)
        except NotALogDir:
            continue
        except LogwrightError as error:
            _log.warning("%s: what is committed is not known: %s", name, error)
        bound = bounded.session.bounds.get(name)
        logs.append(
            RunningLog(
                topic=partition.topic,
                partition=partition.partition,
                taken_at_ms=picture.snapshot.taken_ns // _NS_PER_MS,
                end_offset=-1 if picture.end_offset is None else int(picture.end_offset),
                bound=-1 if bound is None else int(bound.end_offset),
                last_stable_offset=stable,
                recorded_at_ms=0 if bound is None else bound.recorded_ms,
            )
        )
    return tuple(logs)


def _concerned(paths: Iterable[str], concern: Concern) -> list[str]:
    return [path for path in paths if concern.of_topic(partition_of(_directory(path), {}).topic)]


def _wait(place: RunningPlace, paths: Iterable[str], seconds: float) -> list[str]:
    """Wait until files are gone; return those that are not. Effects: looks at them; sleeps."""
    deadline, wanted = time.monotonic() + seconds, set(paths)
    while left := sorted(wanted.intersection(place.session.passing_still())):
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_SECONDS)
    return left


def _unsearched(path: str) -> Unsearched:
    partition = partition_of(_directory(path), {})
    return Unsearched(partition=partition, path=path, position=0, bytes=-1, problem=_STILL_THERE)


def _directory(path: str) -> str:
    return path.partition("/")[0]
