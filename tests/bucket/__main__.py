"""Many random runs of the commit protocol, with all cores; see `tests.bucket.simulation`.

python -m tests.bucket --count 20000 --seed 1 [--without "7: an age"]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from multiprocessing import Pool
from typing import NamedTuple
from unittest.mock import patch

from logwright.bucket import commit
from logwright.bucket.manifest import parse_manifest
from tests.bucket.left_out import LEFT_OUT
from tests.bucket.simulation import Rules, run


class Totals(NamedTuple):
    """What some runs showed; `first`: a seed of each kind of wrong."""

    runs: int
    wrong: int
    requests: int
    kinds: Counter[str]
    done: Counter[str]
    faults: Counter[tuple[str, str]]
    first: dict[str, int]


@contextmanager
def parsed_once() -> Iterator[None]:
    """The same bytes of a manifest are parsed once: that is most of the time of a run."""
    once = lru_cache(maxsize=4096)(parse_manifest)
    with patch.object(commit, "parse_manifest", once):
        yield


def play(seeds: range, without: str | None = None) -> Totals:
    """Play these seeds, in this process."""
    rules = Rules() if without is None else LEFT_OUT[without]
    totals = Totals(len(seeds), 0, 0, Counter(), Counter(), Counter(), {})
    with parsed_once():
        for seed in seeds:
            played = run(seed, rules)
            wrong = sorted(set(played.wrong))
            totals = totals._replace(
                wrong=totals.wrong + bool(wrong), requests=totals.requests + played.store.requests
            )
            totals.kinds.update(wrong)
            totals.done.update(played.done)
            totals.faults.update(played.store.faults)
            for kind in wrong:
                totals.first.setdefault(kind, seed)
    return totals


def say(text: object) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")


def main() -> None:
    """Print what all runs showed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", choices=LEFT_OUT)
    options = parser.parse_args()
    began = time.monotonic()
    step = 100
    seeds = [
        range(first, min(first + step, options.seed + options.count))
        for first in range(options.seed, options.seed + options.count, step)
    ]
    with Pool() as pool:
        parts = list(pool.imap_unordered(partial(play, without=options.without), seeds))
    kinds = sum((part.kinds for part in parts), Counter())
    done = sum((part.done for part in parts), Counter())
    faults = sum((part.faults for part in parts), Counter())
    say(f"{options.count} runs, {sum(part.wrong for part in parts)} wrong: {dict(kinds)}")
    say(f"{sum(part.requests for part in parts)} requests; {dict(done)}")
    say(f"{sum(faults.values())} faults in {len(faults)} kinds x requests")
    say({kind: min(part.first[kind] for part in parts if kind in part.first) for kind in kinds})
    say(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
