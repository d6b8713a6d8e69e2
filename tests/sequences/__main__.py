"""Many sequences on all cores: ``python -m tests.sequences --count N [--seed S] [--asking K]``.

Kafka's own code takes part in each, or in one of K: as a broker that loads the directory, and as
the reader of the end state. Prints how many, how long, the faults, refusals and distinct end
states, and each difference with the shortest sequence that shows it; the exit status is 1 if there
is one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from tests.sequences.driver import Figures, run_share

CHUNK = 500


def _chunks(seed: int, count: int) -> Iterator[tuple[int, int]]:
    for first in range(seed, seed + count, CHUNK):
        yield first, min(CHUNK, seed + count - first)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Run them; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.sequences")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--asking", type=int, default=1, help="Kafka takes part in one of this many"
    )
    chosen = parser.parse_args(arguments)
    total, start = Figures(), time.monotonic()
    with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
        waiting = [
            pool.submit(run_share, *chunk, chosen.asking)
            for chunk in _chunks(chosen.seed, chosen.count)
        ]
        for done in as_completed(waiting):
            total.add(done.result())
            for seed, reason, short in done.result().differences:
                _say(f"seed {seed}: {'; '.join(map(str, short))}\n    {reason}")
    took = time.monotonic() - start
    _say(
        f"{total.sequences} sequences, {sum(total.operations.values())} operations in {took:.0f} s;"
        f" a death in {total.died}; {len(total.states)} distinct end states;"
        f" differences: {len(total.differences)}"
    )
    for title, counts in (
        ("operations", total.operations),
        ("faults", total.faults),
        ("refusals", total.refusals),
    ):
        _say(f"{title}: " + ", ".join(f"{name} {n}" for name, n in counts.most_common()))
    return 1 if total.differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
