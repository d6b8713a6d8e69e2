"""Random sequences on a log with a tier: what is local and what is remote is one log.

python -m tests.tier_sequences --count 300 --seed 1
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.tier_sequences.checks import check
from tests.tier_sequences.steps import STEPS, Wrong
from tests.tier_sequences.world import made

_LONGEST = 14


class Played(NamedTuple):
    """What sequences showed: differences by seed, each with its steps; and what was done."""

    wrong: dict[int, str]
    done: Counter[str]


def play(seeds: Iterable[int], root: Path) -> Played:
    """Play the sequences of some seeds. Effects: works below a directory."""
    played = Played({}, Counter())
    for seed in seeds:
        draw = random.Random(seed)
        world = made(root / str(seed), draw)
        steps: list[str] = []
        try:
            for _ in range(draw.randrange(4, _LONGEST)):
                (step,) = draw.choices([*STEPS], [*STEPS.values()])
                if not step(world, draw):
                    continue
                steps.append(step.__name__)
                world.write_roots()
                refused = check(world, draw)
                played.done.update(
                    [step.__name__, "with events" if world.has_events else "without"]
                )
                played.done.update(f"refused: {name}" for name in refused)
                played.done["checked"] += 1
        except Wrong as error:
            played.wrong[seed] = f"{', '.join(steps)}: {error}"
    return played


def main() -> None:
    """Print what all sequences showed; status 1 if something is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as root:
        played = play(range(options.seed, options.seed + options.count), Path(root))
    for seed, problem in played.wrong.items():
        sys.stdout.write(f"seed {seed}: {problem[:1500]}\n")
    sys.stdout.write(
        f"{options.count} sequences, {len(played.wrong)} wrong; {dict(played.done)};"
        f" {time.monotonic() - began:.0f} s\n"
    )
    sys.exit(1 if played.wrong else 0)


if __name__ == "__main__":
    main()
