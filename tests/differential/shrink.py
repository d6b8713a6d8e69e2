"""Makes a failing random log as small as it gets, and a named case of it.

1. Whole features go, one by one: the oracle draws each decision from a stream of its own, so the
   rest of the log stays as it was.
2. Numbers go down: passes, earlier cleanings, records of a batch, keys.
3. Operations are left out, in halves, quarters and so on (Zeller's ddmin).

A reduction stays if the log still shows a difference of one of the kinds it showed at first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.differential.oracle_server import OracleServer, OracleStopped
from tests.differential.random_logs import Outcome, Shape, run_one, write_case

FEATURES = (
    "transactions",
    "idempotent",
    "epochs",
    "tombstones",
    "nullKeys",
    "emptyKeys",
    "headers",
    "gaps",
    "hugeGaps",
    "sparse",
    "oversized",
    "leaderEpochs",
    "reconfigured",
    "logStart",
    "oddTimestamps",
    "appendTime",
    "compactDelete",
    "regrouped",
    "minLag",
    "maxLag",
    "smallBuffer",
    "passes",
    "checkpointEdited",
    "highWatermark",
    "ongoing",
    "lastRoll",
)
"""What a log may do without; the names are the oracle's (Shape.java)."""

CODECS = ("zstd", "snappy", "lz4", "gzip", "none")

SMALLER: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("earlierCleanings", (2, 1, 0)),
    ("tail", (1, 0)),
    ("active", (1, 0)),
    ("records", (3, 1)),
    ("keys", (8, 4, 2)),
    ("producers", (2, 1)),
    ("tombstonePercent", (20, 5)),
    ("segmentBytes", (11200,)),
    ("indexInterval", (4096,)),
    ("indexBytes", (4096,)),
)
"""Numbers, the plainest last: of several that still fail it stays."""

MOST_ROUNDS = 4


@dataclass(slots=True, kw_only=True)
class Shrinker:
    """One search.

    Attributes:
        kinds: the kinds of difference that count.
        tries: how many logs were written and compared so far.
    """

    server: OracleServer
    scratch: Path
    seed: int
    kinds: frozenset[str]
    tries: int = 0

    def fails(self, shape: Shape) -> Outcome | None:
        """The outcome of this shape if it shows the difference."""
        self.tries += 1
        try:
            outcome = run_one(self.server, self.seed, shape, self.scratch)
        except OracleStopped:  # this log cannot be written
            return None
        return outcome if outcome.kinds & self.kinds else None

    def smallest(self, shape: Shape) -> Shape:
        """The shape with all taken away that can go."""
        for _ in range(MOST_ROUNDS):
            before = dict(shape)
            for candidate in self._candidates(shape):
                merged = shape | candidate
                if merged != shape and self.fails(merged):
                    shape = merged
            shape = self._fewer_operations(shape)
            if shape == before:
                break
        return shape

    def _candidates(self, shape: Shape) -> Iterator[Shape]:
        yield from ({feature: False} for feature in FEATURES if shape.get(feature) is not False)
        if len(shape.get("codecs", "all")) > 1:
            yield from ({"codecs": [name]} for name in CODECS)
        for name, values in SMALLER:
            for value in values:
                if name not in shape or shape[name] > value:
                    yield {name: value}

    def _fewer_operations(self, shape: Shape) -> Shape:
        outcome = self.fails(shape)
        if outcome is None:
            return shape
        skipped = set(shape.get("skip", []))
        kept = [number for number in range(outcome.operations) if number not in skipped]
        whole = frozenset(range(outcome.operations))

        def without_others(some: list[int]) -> Shape:
            return shape | {"skip": sorted(whole - set(some))}

        kept = reduce_list(kept, lambda some: self.fails(without_others(some)) is not None)
        return without_others(kept)


def reduce_list(items: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """A part of the items that still fails, of which no single one can be left out."""
    parts = 2
    while items:
        size = max(1, len(items) // parts)
        for start in range(0, len(items), size):
            rest = items[:start] + items[start + size :]
            if fails(rest):
                items = rest
                parts = max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(len(items), parts * 2)
    return items


def shrink(
    server: OracleServer, seed: int, shape: Shape, scratch: Path
) -> tuple[Shape, Outcome] | None:
    """The smallest shape of a seed with the same kind of difference, and what it shows.

    Returns:
        None if the seed shows no difference.
    """
    first = run_one(server, seed, shape, scratch)
    if not first.differences:
        return None
    search = Shrinker(server=server, scratch=scratch, seed=seed, kinds=first.kinds)
    smallest = search.smallest(shape)
    outcome = search.fails(smallest)
    return (smallest, outcome) if outcome else None


def write_named(
    server: OracleServer, seed: int, shape: Shape, directory: Path, scratch: Path
) -> tuple[Path, Outcome] | None:
    """Shrink and write the case: before, after, dumps and case.json, in the form of tests/data.

    Effects: makes `directory`, whose name is the case's.
    """
    small = shrink(server, seed, shape, scratch)
    if small is None:
        return None
    write_case(server, seed, small[0], directory)
    return directory, small[1]
