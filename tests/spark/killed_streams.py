"""Queries of streams, many in one process, that are killed at random moments and started again.

``python -m tests.spark.killed_streams --count N [--seed S] [--queries Q]`` kills until N queries
were killed that had started and not ended, and prints what fell where; the exit status is 1 if a
row of a query is missing at its end, or is there twice.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pyarrow.parquet as pq

from logwright.log.load import list_partitions, observe
from tests.fixtures import copy_before
from tests.log_builder import LogBuilder
from tests.plain_consumer import consume
from tests.running_dirs import running
from tests.spark.killed_runs import kill, members, wait_for_death
from tests.spark.quick_python import Pythons, served
from tests.spark.stream_program import ENDED, FAILED, STARTED, Job, Progress
from tests.tidy.trees import ROOT
from tests.unit.spark.streams import swapped

CASE: Final = "txn-1-mixed"
WAIT_SECONDS: Final = 600
QUERIES: Final = 16
"""As many queries as one process has."""
MICRO_BATCHES: Final = (6, 16)
"""About how many a query has, drawn for each."""
MOST_BATCHES: Final = 0.8
"""How many of each query are planned before a kill, at most, on the average of all."""
EARLY: Final = 0.1
"""This part of the kills comes while the queries are started."""
BATCH_SECONDS: Final = 0.5
"""How long one takes."""
_LOOK_SECONDS: Final = 0.05

VICTIMS: Final = ("driver", "JVM", "driver and JVM", *("workers",) * 15)
"""With workers alone the driver lives, every query fails, and is started again in it."""

NOTHING: Final = Progress(0, 0, 0)

Rows = Counter[tuple[str, int, int, bytes | None, bytes | None]]
"""How often each topic, partition, offset, key and value is there."""


class Source(NamedTuple):
    """A log directory, and what a consumer with read_committed gets of it."""

    log_dir: Path
    expected: Rows


class Fell(NamedTuple):
    """Where a kill fell.

    Attributes:
        source: the name of the log directory. victim: of `VICTIMS`.
        moment: by the query's checkpoint and its sink.
        first: before the query had planned or committed a micro-batch in this run of it.
    """

    source: str
    victim: str
    moment: str
    first: bool


@dataclass(slots=True)
class Query:
    """One query, from its first start until it has ended.

    Attributes:
        before: what it had when its run began.
        last: where the last kill fell.
    """

    job: Job
    source: str
    before: Progress = NOTHING
    last: Fell | None = None

    @property
    def work(self) -> Path:
        """Where its checkpoint and its rows are."""
        return Path(self.job["work"])

    def now(self) -> Progress:
        """What it has."""
        return Progress.of(self.work)

    def fell(self, victim: str, at: Progress) -> Fell:
        """Where a kill fell that left this."""
        if not at.planned:
            moment = "before all"
        elif at.planned == at.committed:
            moment = "between two"
        elif at.planned == at.written:
            moment = "after the sink had its rows"
        else:
            moment = "within a micro-batch"
        self.last = Fell(self.source, victim, moment, at == self.before)
        return self.last


@contextmanager
def sources(work: Path) -> Iterator[dict[str, Source]]:
    """Log directories by name: one with transactions that Kafka wrote, one without, and one that a
    broker has open. Effects: a process that holds its lock.
    """
    directories = {}
    for name in ("plain", "transactions", "running"):
        log_dir = work / name / CASE
        log_dir.parent.mkdir(parents=True)
        if name == "plain":
            log_dir.mkdir()
        else:
            copy_before(CASE, log_dir.parent)
        for number in range(2):
            builder = LogBuilder(log_dir, f"plain-{number}")
            for base in (0, 200):
                segment = builder.segment(base)
                for offset in range(base, base + 200):
                    text = f"{number} {offset}" + "." * 300
                    segment.batch(offset, [(f"k{offset % 7}", text)])
            builder.write(index_interval=1)
        directories[name] = Source(log_dir, rows_of(log_dir))
    live = directories["running"].log_dir
    logs = [observe(live, each, high_watermark="end") for each in list_partitions(live)]
    with running(live, {str(log.partition): int(log.log_end_offset) for log in logs}):
        yield directories


def rows_of(log_dir: Path) -> Rows:
    """What a consumer with read_committed gets."""
    return Counter(
        (partition.topic, partition.partition, offset, key, value)
        for partition in list_partitions(log_dir)
        for key, value, offset, *_ in consume(
            observe(log_dir, partition, high_watermark="end"), "read_committed"
        )
    )


def rows_written(work: Path) -> Rows:
    """What Spark reads of the query's files: those that its log of them has."""
    log = work / "rows/_spark_metadata"
    compacted = [path for path in log.glob("*.compact") if path.stem.isdigit()]
    first = max((int(path.stem) for path in compacted), default=-1)
    files = [*(log / f"{first}.compact" for _ in compacted[:1])]
    files += [path for path in log.iterdir() if path.name.isdigit() and int(path.name) > first]
    rows: Rows = Counter()
    for file in files:
        for line in file.read_text().splitlines()[1:]:
            path = json.loads(line)["path"].removeprefix("file:")
            for row in pq.ParquetFile(path).read().to_pylist():
                rows[row["topic"], row["partition"], row["offset"], row["key"], row["value"]] += 1
    return rows


@dataclass(slots=True)
class Process:
    """The process of the queries.

    Attributes:
        pythons: Spark's Python processes.
        said: the lines that it has printed and that were read; noted: how many of them were.
    """

    popen: subprocess.Popen[bytes]
    work: Path
    pythons: Pythons
    said: list[list[str]] = field(default_factory=list)
    noted: int = 0

    def hear(self) -> list[list[str]]:
        """What it has printed, in words. Effects: reads the file."""
        self.said = [line.split() for line in (self.work / "out.txt").read_text().splitlines(True)]
        return self.said

    def names(self, what: str) -> set[str]:
        """Of the queries that it has said this of."""
        return {name for word, name, *_ in self.said if word == what}

    def running(self) -> set[str]:
        """Of the queries that were started and have neither failed nor ended since."""
        last = {name: word for word, name, *_ in self.said}
        return {name for name, word in last.items() if word == STARTED}

    def warn(self) -> None:
        """Say that workers are killed. Effects: writes a line to it."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(b"\n")
        self.popen.stdin.flush()

    def errors(self) -> str:
        """What it has printed of errors."""
        return (self.work / "errors.txt").read_text()[-40000:]


@contextmanager
def process_of(queries: Sequence[Query], work: Path, pythons: Pythons) -> Iterator[Process]:
    """A process that runs the queries. Effects: processes, none of which is left."""
    scratch, plan = work / "scratch", work / "plan.json"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    plan.write_text(json.dumps([query.job for query in queries]))
    with (
        (work / "out.txt").open("wb") as output,
        (work / "errors.txt").open("ab") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "tests.spark.stream_program", str(plan)],
            cwd=ROOT,
            env=os.environ
            | {"SPARK_LOCAL_DIRS": str(scratch), "TMPDIR": str(scratch)}
            | {"PYSPARK_PYTHON": str(pythons.program)},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        ) as popen,
    ):
        try:
            yield Process(popen, work, pythons)
        finally:
            popen.kill()
            while left := [*members(popen.pid), *pythons.living()]:
                kill(left)
                time.sleep(0.01)


@dataclass(slots=True)
class Kills:
    """Kills queries, and starts them again.

    Attributes:
        kills: until this number of queries was killed.
        fell: where the kills fell. wrong: what differs of queries that have ended.
        ended: how many have.
    """

    kills: int
    draw: Random
    work: Path
    sources: Mapping[str, Source]
    pythons: Pythons
    fell: Counter[Fell] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    ended: int = 0
    _made: int = 0

    def query(self) -> Query:
        """A new one; the kinds of log directories take turns."""
        source = [*self.sources][self._made % len(self.sources)]
        name = f"{source}-{self._made}"
        self._made += 1
        log_dir, expected = self.sources[source]
        batches = self.draw.randint(*MICRO_BATCHES)
        size = sum(path.stat().st_size for path in log_dir.glob("*/*.log"))
        options = self.draw.choice(
            (
                {"maxBytesPerTrigger": str(size // batches)},
                {"maxOffsetsPerTrigger": str(expected.total() // batches)},
            )
        )
        work = self.work / "queries" / name
        return Query(Job(name=name, log_dir=str(log_dir), work=str(work), options=options), source)

    def run(self, queries: Sequence[Query]) -> list[Query]:
        """Run queries until the process is killed, or all have ended; those that have not."""
        with process_of(queries, self.work, self.pythons) as process:
            for query in queries:
                query.before = query.now()
            is_alive, until = True, self._moment(len(queries), EARLY)
            while is_alive:
                is_last = self.fell.total() >= self.kills
                self._wait(process, queries, None if is_last else until)
                until = self._moment(len(queries), 0)
                if process.popen.poll() is not None:
                    assert 0 == process.popen.returncode, process.errors()
                    break
                is_alive = self._kill(process, queries)
            self._note(process, queries)
        over = process.names(ENDED)
        for query in queries:
            if query.job["name"] in over:
                self._compare(query)
        return [query for query in queries if query.job["name"] not in over]

    def _moment(self, queries: int, early: float) -> float:
        """How many micro-batches more are planned until the next kill; below 0, in this part of
        the cases: how many queries are started.
        """
        if self.draw.random() < early:
            return -float(self.draw.randint(1, queries))
        return self.draw.random() * MOST_BATCHES * queries

    def _wait(self, process: Process, queries: Sequence[Query], until: float | None) -> None:
        """Until that moment, or the end of the process."""
        end = time.monotonic() + WAIT_SECONDS
        first = sum(query.now().planned for query in queries)
        lines = len(process.hear())
        while process.popen.poll() is None:
            assert time.monotonic() < end, process.errors()
            process.hear()
            planned = sum(query.now().planned for query in queries) - first
            if until is not None and process.names(STARTED) and 0 <= until <= planned:
                break
            if until is not None and until < 0 and len(process.said) - lines >= -until:
                break
            time.sleep(_LOOK_SECONDS)
        if until is not None:
            time.sleep(BATCH_SECONDS * self.draw.random())

    def _kill(self, process: Process, queries: Sequence[Query]) -> bool:
        """Kill something, and note where it fell for each query that had started and not ended;
        whether the queries continue in the same process.
        """
        popen, jvm = process.popen, members(process.popen.pid, "executor")
        self._note(process, queries)
        victim, names = self.draw.choice(VICTIMS), process.running()
        if victim == "workers":
            workers = [*process.pythons.living(), *members(popen.pid, "workers")]
            process.warn()
            kill(workers)
            return True
        kill({"driver": [popen.pid], "JVM": jvm}.get(victim, [popen.pid, *jvm]))
        popen.wait(WAIT_SECONDS)
        wait_for_death(popen.pid)
        process.pythons.wait_for_death()
        for query in queries:
            if query.job["name"] in names:
                self.fell[query.fell(victim, query.now())] += 1
        for source in self.sources.values():
            for partition in list_partitions(source.log_dir):
                swapped(source.log_dir, str(partition))
        return False

    def _note(self, process: Process, queries: Sequence[Query]) -> None:
        """Note where it fell for each query that failed since the last time: each does once for
        each kill of workers.
        """
        by_name = {query.job["name"]: query for query in queries}
        lines = process.hear()
        for word, name, *numbers in lines[process.noted :]:
            if word == FAILED:
                at = Progress(*map(int, numbers))
                self.fell[by_name[name].fell("workers", at)] += 1
                by_name[name].before = at
        process.noted = len(lines)

    def _compare(self, query: Query) -> None:
        """Compare what a query that has ended wrote. Effects: removes it."""
        self.ended += 1
        if query.last is not None and query.now() == query.before:
            self.fell[query.last] -= 1  # there was nothing left to do when it was killed
        rows, expected = rows_written(query.work), self.sources[query.source].expected
        if rows != expected:
            lost, more = expected - rows, rows - expected
            offsets = [[*map(str, sorted(each)[:5])] for each in (place(lost), place(more))]
            self.wrong.append(
                f"{query.job['name']}: {lost.total()} rows missing {offsets[0]},"
                f" {more.total()} too many {offsets[1]}"
            )
        shutil.rmtree(query.work)


def place(rows: Rows) -> set[tuple[str, int, int]]:
    """Topics, partitions and offsets."""
    return {row[:3] for row in rows}


def kill_queries(
    kills: int,
    seed: int,
    work: Path,
    *,
    queries: int = QUERIES,
    progress: Callable[[str], object] = str,
) -> Kills:
    """Kill queries, at least this number, each again and again until it ends; all end. Effects:
    files below `work`, processes.
    """
    with (
        sources(work / "sources") as directories,
        served(work / "pythons", directories["transactions"].log_dir) as pythons,
    ):
        done = Kills(kills, Random(seed), work, directories, pythons)
        left = [done.query() for _ in range(queries)]
        while left:
            left = done.run(left)
            progress(f"{done.fell.total()} killed, {done.ended} ended, {len(done.wrong)} wrong\n")
            if done.fell.total() < kills:
                left += [done.query() for _ in range(queries - len(left))]
    return done


def main(arguments: list[str]) -> int:
    """Kill; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.killed_streams")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", type=int, default=QUERIES)
    chosen = parser.parse_args(arguments)
    start = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing is left then, either

    def progress(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - start:6.0f} s: {line}")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory() as work:
        done = kill_queries(
            chosen.count, chosen.seed, Path(work), queries=chosen.queries, progress=progress
        )
    sys.stdout.write(summary(done))
    sys.stdout.write("".join(f"{each}\n" for each in done.wrong))
    return bool(done.wrong)


def summary(done: Kills) -> str:
    """What was done, in lines."""
    first = sum(number for fell, number in done.fell.items() if fell.first)
    head = f"{done.fell.total()} kills of {done.ended} queries, differences: {len(done.wrong)}"
    lines = [f"{head}; {first} of the kills before the run had planned or committed anything"]
    for name in ("source", "victim", "moment"):
        counts: Counter[str] = Counter()
        for fell, number in done.fell.items():
            counts[getattr(fell, name)] += number
        lines.append(f"by {name}: {dict(counts.most_common())}")
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
