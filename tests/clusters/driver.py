"""Histories by seeds, with the model of a cluster."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.clusters.cluster import ModelCluster
from tests.clusters.history import Difference, History
from tests.clusters.replica import Diverged
from tests.differential.random_logs import scratch_directory

ROUNDS: Final = 3
WITHOUT_ELIGIBLE: Final = 0.3
"""Share of clusters without eligible leader replicas."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a history came to.

    Attributes:
        difference: the promise that was broken, None: none was.
        did: what happened in it.
    """

    seed: int
    difference: str | None
    did: tuple[str, ...]
    tally: Counter[str]


def run_many(seed: int, count: int) -> Iterator[Result]:
    """The histories of this number of seeds. Effects: makes and removes directories in memory."""
    with scratch_directory() as scratch:
        for number in range(seed, seed + count):
            yield run_one(number, scratch / str(number))


def run_one(seed: int, root: Path) -> Result:
    """One history. Effects: makes and removes `root`."""
    draw = random.Random(seed)
    cluster = ModelCluster(root, draw, eligible=draw.random() >= WITHOUT_ELIGIBLE)
    history, difference = History(cluster, draw), None
    try:
        history.run(ROUNDS)
    except (Difference, Diverged) as error:
        difference = f"{type(error).__name__}: {error}"
    shutil.rmtree(root)
    kind = "with" if cluster.eligible else "without"
    did = (f"cluster {kind} eligible leader replicas", *history.did)
    return Result(seed, difference, did, history.tally)
