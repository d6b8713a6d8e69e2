"""Many histories by the model, or of real brokers: ``python -m tests.clusters --count N [--seed S]
[--real]``.

Prints how many, what happened in them, and each history that broke a promise; the exit status is 1
if there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.clusters.driver import run_many


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Run them; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.clusters")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="say what happened in each")
    parser.add_argument("--real", action="store_true", help="with real brokers and clients")
    chosen = parser.parse_args(arguments)
    tally, start, wrong = Counter[str](), time.monotonic(), 0
    for result in run_many(chosen.seed, chosen.count, real=chosen.real):
        tally += result.tally
        wrong += result.difference is not None
        if result.difference is not None or chosen.verbose:
            _say(f"seed {result.seed}: {result.difference}\n    " + "\n    ".join(result.did))
    _say(f"{chosen.count} histories in {time.monotonic() - start:.0f} s, {wrong} broke a promise")
    _say(", ".join(f"{name}: {count}" for name, count in tally.most_common()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
