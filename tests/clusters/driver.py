"""Histories by seeds, with the model of a cluster, or with a real one."""

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
from tests.clusters.real import RealCluster
from tests.clusters.replica import Diverged
from tests.differential.random_logs import scratch_directory
from tests.e2e.brokers import Brokers

ROUNDS: Final = 3
REAL_ROUNDS: Final = 2
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


def run_many(seed: int, count: int, *, real: bool = False) -> Iterator[Result]:
    """The histories of this number of seeds. Effects: makes and removes directories in memory; with
    `real` starts and ends brokers.
    """
    history = run_real if real else run_one
    with scratch_directory() as scratch:
        for number in range(seed, seed + count):
            yield history(number, scratch / str(number))


def run_real(seed: int, root: Path) -> Result:
    """One history of real brokers and clients. Effects: makes and removes `root`; processes."""
    draw = random.Random(seed)
    level = int(draw.random() >= WITHOUT_ELIGIBLE)
    features = (f"eligible.leader.replicas.version={level}",)
    root.mkdir()
    with Brokers(root, apart=True, features=features) as brokers:
        history, difference = History(RealCluster(brokers, draw), draw), None
        try:
            history.run(REAL_ROUNDS)
        except AssertionError as error:
            difference = f"{type(error).__name__}: {error}: {brokers.said()}"
    shutil.rmtree(root)
    return Result(seed, difference, tuple(history.did), history.tally)


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
