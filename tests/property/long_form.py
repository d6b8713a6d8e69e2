"""The long form of a property of random directories: ``--count N --seed S [--kafka 4.4]``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator

from tests.oracle_runner import KAFKAS, OLDEST, using


def main(run: Callable[[int, int], Iterator[tuple[str, str]]]) -> None:
    """Play many seeds. Effects: prints what became of the directories; exits."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kafka", choices=KAFKAS, default=OLDEST)
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    with using(args.kafka):
        for name, outcome in run(args.count, args.seed):
            counts[outcome.partition(":")[0]] += 1
            if outcome.startswith("WRONG"):
                sys.stdout.write(f"{name}: {outcome}\n")
    sys.stdout.write(f"{dict(counts)}\n")
    sys.exit(1 if counts["WRONG"] else 0)
