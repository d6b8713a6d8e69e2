"""`python -m tests.differential`: random logs against Kafka, as many as wanted, and the figures.

`--shrink DIR` makes a named case below DIR of each of the first failing seeds. `--consumer`
compares rows and tables with what real consumers read; `--spark N` one of N logs by Spark, too.
`--kafka 4.3` runs that Kafka's code.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from tests.differential.consumer_logs import judge_random
from tests.differential.oracle_server import OracleServer
from tests.differential.random_logs import Shape, Tally, run_many, scratch_directory
from tests.differential.random_plans import SMALL, run_plans
from tests.differential.random_retentions import REASONS, run_retentions
from tests.differential.shrink import write_named
from tests.oracle_runner import KAFKAS, NEWEST, using

MOST_CASES = 5
PROGRESS = 500
"""Logs between two lines of figures; what differs is said at once."""


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def compare_logs(arguments: argparse.Namespace, shape: Shape, scratch: Path) -> int:
    """Run the logs, say the figures, shrink what failed. Effects: cases below `--shrink`."""
    tally = Tally()
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    with OracleServer() as server:
        started = time.monotonic()
        for outcome in run_many(server, seeds, shape, scratch):
            tally.add(outcome)
            if outcome.differences:
                say(f"seed {outcome.seed}: {'; '.join(outcome.differences[:4])}")
            if tally.logs % PROGRESS == 0:
                say(next(tally.lines()))
        seconds = time.monotonic() - started
        for line in tally.lines():
            say(line)
        say(f"{arguments.count / seconds:.1f} logs/s")
        for outcome in tally.failures[:MOST_CASES] if arguments.shrink else ():
            directory = arguments.shrink / f"random-{outcome.seed}"
            small = write_named(server, outcome.seed, shape, directory.absolute(), scratch)
            if small is not None:
                say(f"{directory}: {'; '.join(small[1].differences[:3])}")
    return 1 if tally.failures else 0


def compare_plans(arguments: argparse.Namespace, shape: Shape, scratch: Path) -> int:
    """Run the directories and say what differs."""
    failed = 0
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    with OracleServer() as server:
        for outcome in run_plans(server, seeds, SMALL | shape, scratch):
            failed += bool(outcome.differences)
            if outcome.differences:
                say(f"seed {outcome.seed}: {'; '.join(outcome.differences[:5])}")
    say(f"{arguments.count} directories, {failed} with differences")
    return 1 if failed else 0


def compare_retentions(arguments: argparse.Namespace, shape: Shape, scratch: Path) -> int:
    """Delete by retention in whole directories and say what differs."""
    failed = partitions = 0
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    with OracleServer(properties=REASONS) as server:
        for outcome in run_retentions(server, seeds, SMALL | shape, scratch):
            failed += bool(outcome.differences)
            partitions += outcome.coverage["partitions"]
            if outcome.differences:
                say(f"seed {outcome.seed}: {'; '.join(outcome.differences[:5])}")
    say(f"{arguments.count} directories, {partitions} partitions, {failed} with differences")
    return 1 if failed else 0


def compare_consumers(arguments: argparse.Namespace, shape: Shape, scratch: Path) -> int:
    """Read the logs by real consumers and say what differs."""
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    started = time.monotonic()
    with OracleServer() as server:
        judged = judge_random(
            server,
            seeds,
            shape,
            scratch,
            points=arguments.points,
            spark_every=arguments.spark,
            say=say,
        )
    for line in judged.lines():
        say(line)
    say(f"{time.monotonic() - started:.0f} s")
    return 1 if judged.failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    parser.add_argument("--shape", type=json.loads, default={}, help="as Shape.java says, JSON")
    parser.add_argument("--plans", action="store_true", help="compare decisions, clean nothing")
    parser.add_argument("--retentions", action="store_true", help="compare what retention deletes")
    parser.add_argument("--kafka", choices=KAFKAS, default=NEWEST, help="whose code is compared")
    parser.add_argument("--consumer", action="store_true", help="compare rows with consumers'")
    parser.add_argument("--points", type=int, default=10, help="in the past, for --consumer")
    parser.add_argument("--spark", type=int, default=0, help="each N-th log, for --consumer")
    parser.add_argument("--shrink", type=Path, help="where the cases of failing seeds go")
    arguments = parser.parse_args()
    compare = compare_plans if arguments.plans else compare_logs
    compare = compare_retentions if arguments.retentions else compare
    compare = compare_consumers if arguments.consumer else compare
    with using(arguments.kafka), scratch_directory() as scratch:
        return compare(arguments, arguments.shape, scratch)


if __name__ == "__main__":
    sys.exit(main())
