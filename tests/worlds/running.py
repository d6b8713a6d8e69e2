"""The same worlds while a broker has their log directories open."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from logwright.erasure.certificate import running as certifying
from logwright.running import place as places
from logwright.running import watermark
from tests.running_dirs import running
from tests.worlds.driver import Figures
from tests.worlds.judge import Wrong, judge
from tests.worlds.knowledge import look
from tests.worlds.making import draw_plan, make
from tests.worlds.product import claims, signing_key
from tests.worlds.world import World

ENDS = (0, 2, 6, 8, 9, 10)
"""What a search or a certificate may end with; 2: the keys were refused."""
TWO_CLUSTERS = "found metadata of the node"
"""Copies have some, too: refused whether a broker runs or not."""


def run_many(seeds: Iterable[int], scratch: Path) -> Figures:
    """Make worlds, search and certify them, and judge. Only what is claimed and not known counts:
    files that a broker was writing or deleting stay in these worlds, so that nothing is proved.
    """
    figures = Figures()
    for seed in seeds:
        root = scratch / "world"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        world = make(root, draw_plan(seed))
        seen = look(world)
        with _brokers(world):
            claimed = claims(world, signing_key(scratch))
        figures.worlds += 1
        for claim in claimed:
            figures.statuses[f"{claim.command} {claim.status}"] += 1
            figures.states.update(f"{claim.command} {state}" for state in claim.states.values())
        wrong = [one for one in judge(world, seen, claimed) if one.way != "less"]
        wrong += [
            Wrong("bug", f"{claim.command} fails", claim.said)
            for claim in claimed
            if claim.status not in ENDS and TWO_CLUSTERS not in claim.said
        ]
        if wrong:
            figures.wrong.append((seed, wrong))
    return figures


@contextmanager
def _brokers(world: World) -> Iterator[None]:
    """Every live directory is open, with high watermarks at the logs' ends, and no patience."""
    ends = {f"{topic}-{number}": end for (topic, number), end in world.ends.items()}
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(certifying, "MOST_SECONDS", 0.0)
        patch.setattr(places, "PATIENCE_SECONDS", 0.3)
        patch.setattr(places, "_SWAP_SECONDS", 0.05)
        patch.setattr(watermark, "PATIENCE_SECONDS", 0.1)
        for log_dir in world.live:
            stack.enter_context(running(log_dir, ends))
        yield
