"""Many histories: ``python -m tests.platform_sequences --count N [--seed S] [--shrink]``.

Prints how many, how long, what happened, how runs ended, and each difference with the acts that
show it; the exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from math import inf
from pathlib import Path

from tests.differential.random_logs import scratch_directory
from tests.platform_sequences.driver import Figures, run_many, silenced


def main(arguments: list[str]) -> int:
    """Run them; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.platform_sequences")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=inf, help="begin none after this time")
    parser.add_argument("--shrink", action="store_true")
    chosen = parser.parse_args(arguments)
    silenced()
    warnings.simplefilter("ignore")  # of Dagster and its neighbors
    start, end = time.monotonic(), chosen.seed + chosen.count
    figures = Figures()
    with scratch_directory() as scratch:
        for seed in range(chosen.seed, end):
            if time.monotonic() - start > chosen.seconds:
                break
            some = range(seed, seed + 1)
            figures.add(run_many(some, Path(scratch), shrinks=chosen.shrink))
    took = time.monotonic() - start
    many = f"{figures.histories} histories in {took:.0f} s, {time.process_time():.0f} s of CPU"
    lines = [f"{many}; differences: {len(figures.differences)}"]
    for title, counts in (("acts", figures.acts), ("runs", figures.runs)):
        lines.append(f"{title}: " + ", ".join(f"{name} {n}" for name, n in counts.most_common()))
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if figures.differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
