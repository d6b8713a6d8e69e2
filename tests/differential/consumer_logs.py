"""Random logs, written by Kafka's own code and cleaned by its cleaner, read by real consumers and
by logwright: many under one broker at a time.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from logwright.format.names import TopicPartition
from logwright.spark.session import local_session
from tests.differential.consumer_rows import Found, compare_rows, times_of
from tests.differential.consumer_tables import compare_latest, compare_spark
from tests.differential.consumers import Consumed, Place, consume
from tests.differential.oracle_server import OracleServer
from tests.differential.random_logs import Shape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_A_TIME: Final = 50
"""Seeds whose logs one broker has."""
TIMES: Final = 3
SIDES: Final = ("before", "after")

TRUE_CHECKPOINTS: Final[Shape] = {"checkpointEdited": False}
"""A cleaner checkpoint above what was cleaned lets Kafka's cleaner remove a tombstone and keep the
value before it. Then nothing in the log shows that its past has changed."""
NEVER_CLEANED: Final[Shape] = {
    "earlierCleanings": 0,
    "gaps": False,
    "hugeGaps": False,
    "logStart": False,
    "sparse": False,
}
"""A log that holds all its past."""


@dataclass(slots=True, kw_only=True)
class Judged:
    """What many logs showed.

    Attributes:
        logs: that were compared; a random log counts twice, before its cleaning and after.
        failed: how many of these have differences.
        through_spark: how many were read by Spark, too.
        cleaner_failed: how many seeds gave no log, as Kafka's own cleaner failed.
        found: all differences, and the rows and points that were compared.
        coverage: how many seeds had a thing, as the oracle counts it.
    """

    logs: int = 0
    failed: int = 0
    through_spark: int = 0
    cleaner_failed: int = 0
    found: Found = field(default_factory=Found)
    coverage: Counter[str] = field(default_factory=Counter)

    def add(self, others: Found) -> None:
        """Count a log."""
        self.logs += 1
        self.failed += bool(others.differences)
        self.found.add(others)

    def lines(self) -> Iterator[str]:
        """The figures, for people."""
        totals = self.found
        yield (
            f"{self.logs} logs, {totals.rows} rows of consumers: {self.failed} logs differ;"
            f" {self.through_spark} logs also through Spark"
        )
        yield f"latest as of {totals.points} points compared, {totals.refused} refused"
        if self.cleaner_failed:
            yield f"{self.cleaner_failed} seeds gave no log: Kafka's cleaner failed"


def judge(
    places: Sequence[Place],
    truths: Mapping[str, str],
    work: Path,
    *,
    points: int,
    spark: tuple[SparkSession | None, Collection[str]] = (None, ()),
    into: Judged,
) -> None:
    """Read logs under one broker and compare them. Effects: files below `work`, a process.

    Args:
        places: whose times are chosen here.
        truths: the name of a log as it was before it was cleaned, by the name of the cleaned one.
        points: in the past at which the latest state is compared, offsets and times each.
        spark: a session, and the names of the logs that are to be read by it, too.
        into: is added to.
    """
    timed = [replace(place, times=_times(place)) for place in places]
    work.mkdir()
    read = consume(work, timed)
    for place in timed:
        truth = read[truths.get(place.name, place.name)]
        judgement, session = Found(), spark[0] if place.name in spark[1] else None
        try:
            _compare(judgement, place, (read[place.name], truth), points, session)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is a finding
            judgement.differences.append(f"{place.name}: raised: {type(error).__name__}: {error}")
        into.through_spark += session is not None
        into.add(judgement)
    shutil.rmtree(work)


def _times(place: Place) -> tuple[int, ...]:
    try:
        return times_of(place, random.Random(place.name), TIMES)
    except Exception:  # noqa: BLE001 -- the comparison fails in the same way, and says so
        return ()


def _compare(
    judgement: Found,
    place: Place,
    read: tuple[Consumed, Consumed],
    points: int,
    spark: SparkSession | None,
) -> None:
    rnd = random.Random(place.name)
    judgement.add(compare_rows(place, read[0], rnd))
    judgement.add(compare_latest(place, *read, rnd, points=points))
    if spark is not None:
        judgement.add(compare_spark(place, read[0], spark))


def judge_random(
    server: OracleServer,
    seeds: Sequence[int],
    shape: Shape,
    scratch: Path,
    *,
    points: int,
    spark_every: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> Judged:
    """Compare random logs, before and after Kafka's cleaner. Effects: files below `scratch`,
    processes.

    Args:
        spark_every: each N-th log is read by Spark, too; 0: none.
        say: called with the progress.
    """
    judged, shown = Judged(), 0
    shape = TRUE_CHECKPOINTS | shape
    with ExitStack() as stack:
        spark = None
        if spark_every:
            spark = stack.enter_context(local_session())
        for first in range(0, len(seeds), AT_A_TIME):
            some = seeds[first : first + AT_A_TIME]
            places = list(_write(server, some, shape, scratch, judged))
            chosen = {place.name for place in places[:: spark_every or len(places) + 1]}
            truths = {place.name: place.name.replace("after", "before") for place in places}
            judge(
                places,
                truths,
                scratch / "work",
                points=points,
                spark=(spark, chosen),
                into=judged,
            )
            for seed in some:
                shutil.rmtree(scratch / f"{seed}", ignore_errors=True)
            say(f"{first + len(some)} of {len(seeds)} seeds: {judged.failed} logs differ")
            for difference in judged.found.differences[shown:]:
                say(difference)
            shown = len(judged.found.differences)
    return judged


def _write(
    server: OracleServer, seeds: Sequence[int], shape: Shape, scratch: Path, judged: Judged
) -> Iterator[Place]:
    """Both sides of each seed's log, as Kafka writes them. Effects: files."""
    requests = (
        {"request": "random", "seed": seed, "out": str(scratch / f"{seed}"), "shape": shape}
        for seed in seeds
    )
    with closing(server.ask_ahead(requests)) as answers:
        for seed, case in zip(seeds, answers, strict=True):
            if "cleanerFailed" in case:
                judged.cleaner_failed += 1
                continue
            judged.coverage.update(name for name, count in case["coverage"].items() if count)
            partition = TopicPartition(case["topic"], case["partition"])
            for side in SIDES:
                name = f"seed {seed}, {side}"
                yield Place(name=name, log_dir=scratch / f"{seed}" / side, partition=partition)
