"""Random sets of healthy replicas: none of them may have a finding.

    python -m tests.replica_sets --count 500 --seed 1

In some sets each replica is cleaned by itself, and none is away for as long as
``delete.retention.ms``, as Kafka assumes. In the others replicas are away for any time, and all
cleanings are coordinated.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from logwright.audit.model import PartitionAudit
from logwright.audit.run import audit_partition
from logwright.units import ByteCount
from tests.differential.random_logs import scratch_directory
from tests.log_builder import START_MS
from tests.replicas import DELETE_RETENTION_MS, PARTITION, ReplicaDir, Writer

_KEYS = (4, 60)
"""Some keys are written often, others seldom."""
_PRODUCERS = (5, 6, 7)
_AWAY_MS = DELETE_RETENTION_MS // 2


@dataclass(slots=True)
class ReplicaSet:
    """A set while time goes by.

    Attributes:
        coordinated: all cleanings are coordinated.
        away: replicas are away for any time, not only for less than ``delete.retention.ms``.
        fetches: how likely a follower fetches in a step.
        fetched_ms: when each replica last had all that the leader had.
        done: what happened, counted.
    """

    rnd: random.Random
    root: Path
    coordinated: bool
    away: bool
    fetches: float
    replicas: list[ReplicaDir] = field(default_factory=list)
    fetched_ms: list[int] = field(default_factory=list)
    writer: Writer = field(default_factory=Writer)
    leader: int = 0
    now_ms: int = START_MS + 1_000_000
    open: set[int] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)

    def begin(self) -> None:
        """Two or three replicas of an empty log."""
        count = self.rnd.choice((2, 2, 3))
        self.replicas = [ReplicaDir.new(self.root / f"broker-{n}") for n in range(count)]
        self.fetched_ms = [self.now_ms] * count
        self.produce(self.rnd.randint(3, 12))
        for follower in range(1, count):
            self.fetch(follower)

    def step(self) -> None:
        """Some time passes."""
        self.now_ms += self.rnd.randint(500, 9_000)
        if self.rnd.random() < 0.8:
            self.produce(self.rnd.randint(1, 10))
        for number in self.rnd.sample(range(len(self.replicas)), len(self.replicas)):
            self._visit(number)
        if self.rnd.random() < 0.3:
            self._elect()

    def _visit(self, number: int) -> None:
        rnd = self.rnd
        must = not self.away and self.now_ms - self.fetched_ms[number] > _AWAY_MS
        if number != self.leader and (must or rnd.random() < self.fetches):
            self.fetch(number, partly=not must and rnd.random() < 0.3)
        if rnd.random() < 0.6:
            self._clean(number)
        if rnd.random() < 0.1:
            self.replicas[number].recompress(rnd.choice((0, 1, 2, 3, 4)), self.now_ms)
            self.done["recompressed"] += 1
        if rnd.random() < 0.06:
            self._delete(number)

    def produce(self, count: int) -> None:
        """The leader gets some batches."""
        first = len(self.writer.batches)
        self.writer.epoch = self.done["elections"]
        for _ in range(count):
            self._write_one()
        batches = self.writer.batches[first:]
        rolls = [n for n in range(len(batches)) if self.rnd.random() < 0.25]
        self.replicas[self.leader].append(batches, rolls=rolls, now_ms=self.now_ms)
        self.fetched_ms[self.leader] = self.now_ms

    def _write_one(self) -> None:
        rnd, writer = self.rnd, self.writer
        producer = rnd.choice(_PRODUCERS)
        draw = rnd.random()
        pairs = [self._pair() for _ in range(rnd.randint(1, 4))]
        codec = rnd.choice((0, 0, 0, 1, 2, 3, 4))
        if draw < 0.45:
            writer.batch(*pairs, codec=codec)
        elif draw < 0.55:
            writer.batch(*pairs, producer_id=9, codec=codec)
        elif draw < 0.78:
            writer.batch(*pairs, producer_id=producer, transactional=True, codec=codec)
            self.open.add(producer)
        elif self.open:
            ended = rnd.choice(sorted(self.open))
            self.open.discard(ended)
            writer.marker(ended, rnd.choice(("commit", "commit", "abort")))

    def _pair(self) -> tuple[str | None, str | None]:
        rnd = self.rnd
        key = None if rnd.random() < 0.02 else f"key-{rnd.randrange(rnd.choice(_KEYS))}"
        return key, None if rnd.random() < 0.35 else f"value-{rnd.randrange(1 << 20)}"

    def fetch(self, number: int, *, partly: bool = False) -> None:
        """A follower fetches what the leader has, or some of it."""
        replica, leader = self.replicas[number], self.replicas[self.leader]
        begin, end = replica.end, leader.end
        limit = self.rnd.randint(begin, end) if partly else None
        rolls = [n for n in range(40) if self.rnd.random() < 0.2]
        replica.fetch(leader, end=limit, rolls=rolls, now_ms=self.now_ms)
        if replica.end == end:
            self.fetched_ms[number] = self.now_ms
        else:
            self.done["lagging"] += 1

    def _clean(self, number: int) -> None:
        replica = self.replicas[number]
        if self.rnd.random() < 0.6:
            replica.roll(self.now_ms)
        others = [one for one in self.replicas if one is not replica] if self.coordinated else []
        stats = replica.clean(self.now_ms, others=others)
        if stats is not None:
            how = "coordinated: " if self.coordinated else ""
            self.done["cleaned"] += 1
            self.done[f"{how}tombstones removed"] += stats.removed_tombstones
            self.done[f"{how}markers removed"] += stats.removed_markers
            self.done["aborted records removed"] += stats.removed_aborted

    def _delete(self, number: int) -> None:
        """The oldest records are deleted from one replica, below where all others end."""
        lowest = min(replica.end for replica in self.replicas)
        start = self.rnd.randint(0, lowest)
        if start > self.replicas[number].log().log_start_offset:
            self.replicas[number].keeps_from(start)
            self.done["log start raised"] += 1

    def _elect(self) -> None:
        """A replica that has all that the leader has leads."""
        end = self.replicas[self.leader].end
        able = [n for n, replica in enumerate(self.replicas) if replica.end == end]
        starts = [self.replicas[n].log().log_start_offset for n in able]
        lowest = [n for n, start in zip(able, starts, strict=True) if start == min(starts)]
        chosen = self.rnd.choice(lowest)
        self.done["elections"] += chosen != self.leader
        self.leader = chosen

    def audit(self) -> PartitionAudit:
        """The result, with few keys compared at once in half of the sets."""
        most = ByteCount(self.rnd.choice((512 << 20, 4_000)))
        return audit_partition(
            PARTITION,
            [replica.log_dir for replica in self.replicas],
            high_watermark="end",
            most_bytes=most,
        )


def replica_set(seed: int, root: Path, *, healthy: bool = True) -> ReplicaSet:
    """A set, after some steps. Effects: makes it below `root`.

    `healthy`: if not, replicas are away for any time although the cleanings are not coordinated.
    """
    rnd = random.Random(seed)
    coordinated = rnd.random() < 0.5 and healthy
    made = ReplicaSet(rnd, root, coordinated, away=coordinated or not healthy, fetches=0.4)
    if made.away and (not healthy or rnd.random() < 0.5):
        made.fetches = 0.08
    made.begin()
    for _ in range(rnd.randint(5, 24)):
        made.step()
    return made


def audits(
    seeds: range, *, healthy: bool = True
) -> Iterator[tuple[int, ReplicaSet, PartitionAudit]]:
    """The audit of the set of each seed."""
    with scratch_directory() as scratch:
        for seed in seeds:
            root = scratch / str(seed)
            made = replica_set(seed, root, healthy=healthy)
            yield seed, made, made.audit()
            shutil.rmtree(root)


def main(arguments: list[str] | None = None) -> int:
    """Print the figures; 1 if a set has a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    began, wrong = time.monotonic(), 0
    done: Counter[str] = Counter()
    for seed, made, audit in audits(range(given.seed, given.seed + given.count)):
        done += made.done
        done["coordinated sets"] += made.coordinated
        done["records compared"] += sum(replica.records for replica in audit.replicas)
        if audit.findings:
            wrong += 1
            sys.stdout.write(f"seed {seed} coordinated={made.coordinated}: {audit.findings}\n")
    sys.stdout.write(f"{given.count} sets, {wrong} with findings; {dict(done)};")
    sys.stdout.write(f" {time.monotonic() - began:.0f} s\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
