"""Many worlds: ``python -m tests.worlds --count N --seed S [--processes 2]``; one of them, made as
small as it still shows a wrong claim: ``python -m tests.worlds --show SEED``.

Prints how many worlds, what was claimed, and each wrong claim by its cause; the exit status is 1 if
there is one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from tests.differential.random_logs import scratch_directory
from tests.worlds.driver import Figures, run, run_share, shortened
from tests.worlds.making import draw_plan
from tests.worlds.world import Plan

CHUNK = 50
_MOST_SHOWN = 8


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _chunks(seed: int, count: int) -> Iterator[tuple[int, int]]:
    for first in range(seed, seed + count, CHUNK):
        yield first, min(CHUNK, seed + count - first)


def _show(seed: int) -> int:
    with scratch_directory() as scratch:
        plan = draw_plan(seed)
        world, wrong = run(plan, scratch, Figures())
        for cause in sorted({f"{one.way}: {one.cause}" for one in wrong}):
            _say(f"-- {cause}")
            small = shortened(plan, cause, scratch)
            world, now = run(small, scratch, Figures())
            _say_world(small, world.notes)
            for figure in now:
                _say(f"  ! {figure}")
        if not wrong:
            _say_world(plan, world.notes)
    return 1 if wrong else 0


def _say_world(plan: Plan, notes: list[str]) -> None:
    _say(f"  {plan.asking}")
    for note in notes:
        _say(f"  {note}")


def main(arguments: list[str]) -> int:
    """Run them; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.worlds")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int)
    chosen = parser.parse_args(arguments)
    if chosen.show is not None:
        return _show(chosen.show)
    total, start = Figures(), time.monotonic()
    with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(run_share, *one) for one in _chunks(chosen.seed, chosen.count)]
        for done in as_completed(waiting):
            total.add(done.result())
    _report(total, time.monotonic() - start)
    return 1 if total.wrong else 0


def _report(total: Figures, took: float) -> None:
    _say(f"{total.worlds} worlds in {took:.0f} s; with a wrong claim: {len(total.wrong)}")
    for title, counted in (
        ("places", total.places),
        ("acts", total.acts),
        ("statuses", total.statuses),
        ("states", total.states),
    ):
        _say(f"{title}: " + ", ".join(f"{name} {n}" for name, n in counted.most_common()))
    for cause, count in total.by_cause.most_common():
        seeds = [
            seed
            for seed, wrong in sorted(total.wrong, key=lambda pair: pair[0])
            if any(f"{one.way}: {one.cause}" == cause for one in wrong)
        ]
        _say(f"{count:5} {cause}   seeds {seeds[:_MOST_SHOWN]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
