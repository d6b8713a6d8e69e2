"""A stream's query in a process of its own, killed at random moments and started again.

``python -m tests.spark.killed_streams --count N [--seed S]`` kills N times and prints what fell
where; the exit status is 1 if a row is missing, or is there twice.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

import pyarrow.parquet as pq

from logwright.log.load import list_partitions, observe
from tests.fixtures import copy_before
from tests.log_builder import LogBuilder
from tests.plain_consumer import consume
from tests.spark.killed_runs import kill, members, wait_for_death
from tests.spark.stream_program import STARTED
from tests.tidy.trees import ROOT

WAIT_SECONDS: Final = 300
MICRO_BATCHES: Final = 12
MOST_BATCHES: Final = 4
"""How many micro-batches are planned before a kill, at most."""
BATCH_SECONDS: Final = 0.5
"""How long one takes."""

Rows = Counter[tuple[str, int, int, bytes | None, bytes | None]]
"""How often each topic, partition, offset, key and value is there."""


def make_logs(tmp_path: Path) -> Path:
    """A log with transactions that Kafka wrote, and three of two segments each."""
    log_dir = copy_before("txn-1-mixed", tmp_path)
    for number in range(3):
        builder = LogBuilder(log_dir, f"plain-{number}")
        for base in (0, 200):
            segment = builder.segment(base)
            for offset in range(base, base + 200):
                segment.batch(offset, [(f"k{offset % 7}", f"{number} {offset}" + "." * 300)])
        builder.write(index_interval=1)
    return log_dir


def bytes_of(log_dir: Path) -> int:
    """All segments'."""
    return sum(path.stat().st_size for path in log_dir.glob("*/*.log"))


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


@contextmanager
def query(log_dir: Path, work: Path) -> Iterator[subprocess.Popen[str]]:
    """A run of the query that has started. Effects: processes, none of which is left."""
    words = [str(log_dir), str(work), str(bytes_of(log_dir) // MICRO_BATCHES)]
    scratch = work / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    with (
        (work / "said.txt").open("a") as output,
        subprocess.Popen(
            [sys.executable, "-m", "tests.spark.stream_program", *words],
            cwd=ROOT,
            env=os.environ | {"SPARK_LOCAL_DIRS": str(scratch), "TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            assert f"{STARTED}\n" == process.stdout.readline(), (work / "said.txt").read_text()
            yield process
        finally:
            process.kill()
            while left := members(process.pid):
                kill(left)
                time.sleep(0.01)


def ended(log_dir: Path, work: Path, draw: Random) -> str | None:
    """Run the query, and kill the driver, its JVM or both at a random moment; None if it ended
    before. Returns where the kill fell.
    """
    wanted = entries(work, "offsets") + draw.randrange(MOST_BATCHES)
    end = time.monotonic() + WAIT_SECONDS
    with query(log_dir, work) as process:
        while entries(work, "offsets") < wanted and process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.005)
        time.sleep(BATCH_SECONDS * draw.random())
        if process.poll() is not None:
            assert 0 == process.returncode, (work / "said.txt").read_text()
            return None
        victims = [process.pid, *members(process.pid, "executor")]
        chosen = draw.choice((victims, victims, victims[:1], victims[1:]))
        kill(chosen)
        process.wait(WAIT_SECONDS)
        wait_for_death(process.pid)
    planned, done = entries(work, "offsets"), entries(work, "commits")
    return "within a micro-batch" if planned > done else "between two" if done else "before all"


def entries(work: Path, name: str) -> int:
    """How many micro-batches one of the checkpoint's logs has."""
    log = work / "checkpoint" / name
    return len([path for path in log.glob("*") if path.name.isdigit()])


def differences(kills: int, seed: int, work: Path) -> tuple[Counter[str], list[str]]:
    """Kill queries so often, each again and again until it ends; where the kills fell, and what
    differs then.
    """
    draw, fell, wrong = Random(seed), Counter[str](), []
    log_dir = make_logs(work / "source")
    expected = rows_of(log_dir)
    while fell.total() < kills:
        run = work / "run"
        while True:
            moment = None
            if fell.total() < kills:
                moment = ended(log_dir, run, draw)
            else:
                with query(log_dir, run) as process:
                    assert 0 == process.wait(WAIT_SECONDS), (run / "said.txt").read_text()
            if moment is None:
                break
            fell[moment] += 1
        rows = rows_written(run)
        if rows != expected:
            wrong.append(f"missing {expected - rows}, too many {rows - expected}"[:2000])
        shutil.rmtree(run)
    return fell, wrong


def main(arguments: list[str]) -> int:
    """Kill; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.killed_streams")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        fell, wrong = differences(chosen.count, chosen.seed, Path(work))
    sys.stdout.write(
        f"{fell.total()} kills in {time.monotonic() - start:.0f} s: {dict(fell)};"
        f" differences: {len(wrong)}\n"
    )
    sys.stdout.write("".join(f"{each}\n" for each in wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
