"""One log cleaned group by group, shard by shard, in memory: what the tasks of a cluster do."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Runtime, silent
from logwright.batches.source import Source
from logwright.checks.model import OutputFacts
from logwright.checks.quick import examine_quickly
from logwright.compaction import split
from logwright.compaction.build import rewrite
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.compaction.record_limit import require_within_limit
from logwright.compaction.survivors import Survivors, open_sources
from logwright.format.siphash import HashKey
from logwright.keys.exchange import KEY_ROW, KeyRows, NewestKeys, Superseded
from logwright.keys.receipt import KeyFacts
from logwright.rewrite.staging import new_staging


class ByHand:
    """A cleaning of one log in pieces.

    Attributes:
        survivors: of each group; with the sources that they are of.
        built: what was staged for each group, and what the checks say of it.
    """

    def __init__(self, plan: CleanPlan, *, shards: int) -> None:
        assert split.why_whole(plan) is None
        self.key = HashKey.random()
        self.whole = plan
        self.shards = shards
        self.groups = split.groups_of(plan)
        self.plans = [
            split.placed(split.plan_of_group(plan, group), plan.log.log_dir)
            for group in self.groups
        ]
        self.fates = self._fates()
        self.read = [self._keys(number) for number in range(len(self.groups))]
        self.rows = [
            [
                np.concatenate([np.zeros(0, KEY_ROW), *[_of(piece, shard) for piece in pieces]])
                for _, pieces in self.read
            ]
            for shard in range(shards)
        ]
        self.found = [self._found(shard) for shard in range(shards)]
        self.survivors: list[Survivors] = []
        self.built: list[tuple[StagedCleaning, OutputFacts]] = []

    def _open(self, number: int) -> list[Source]:
        return open_sources(self.plans[number])

    def _fates(self) -> tuple[split.Fates, ...] | None:
        opened = [source for number in range(len(self.groups)) for source in self._open(number)]
        indexed = any(each.txnindex_bytes for each in self.whole.log.segments)
        if not indexed and not split.has_transactions(opened):
            return None
        rows = [split.thin(source) for source in opened]
        return pickle.loads(pickle.dumps(split.decide(self.whole, self.groups, rows)))  # noqa: S301, TID251 -- as Spark does

    def _with_fates(self, number: int) -> list[Source]:
        sources = self._open(number)
        if self.fates is not None:
            split.set_fates(sources, self.fates[number])
        return sources

    def _keys(self, number: int) -> tuple[split.ReadGroup, list[tuple[NDArray, NDArray]]]:
        sources = self._with_fates(number)
        pieces: list[tuple[NDArray, NDArray]] = []
        reader = KeyRows(
            records=sum(source.records for source in sources),
            key=self.key,
            shards=self.shards,
            give=lambda rows, counts: pieces.append((rows, counts)),
        )
        reader.read(split.reading_of(self.plans[number], sources))
        nothing = KeyFacts((0, 0), 0, 0, 0, 0)
        notes = split.notes_of(sources)
        return split.ReadGroup(reader.null_keys, reader.expired, notes, nothing), pieces

    def _found(self, shard: int) -> Superseded:
        rows = self.rows[shard]

        def of(numbers: Sequence[int]) -> Iterable[NDArray[np.void]]:
            return (rows[number] for number in numbers)

        return NewestKeys(
            shard=shard,
            shards=self.shards,
            rows=of,
            counts=np.array([len(each) for each in rows], dtype=np.int64),
            inserted=sum(int((each["flags"] & 1).sum()) for each in rows),
            cleaner=self.whole.cleaner,
        ).find()

    def run(self) -> None:
        """Rewrite and check each group."""
        for each in self.found:
            assert each.sampled == each.expected
        for number in range(len(self.groups)):
            self._rewrite(number)

    def decide(self, number: int) -> tuple[list[Source], Survivors]:
        """What survives of a group."""
        sources = self._with_fates(number)
        sums = [each.sums[number] for each in self.found]
        digest = sum(int(each["digest"]) for each in sums) % (1 << 64)
        records = sum(int(each["records"]) for each in sums)
        keys = KeyFacts((self.key.low, self.key.high), digest, records, 0, 0)
        superseded = [each.dead[number] for each in self.found if number in each.dead]
        aborted = () if self.fates is None else self.fates[number].aborted
        read = self.read[number][0]._replace(keys=keys)
        return sources, split.survivors_of_group(
            self.plans[number], sources, read, superseded, aborted
        )

    def _rewrite(self, number: int) -> None:
        plan = self.plans[number]
        sources, survivors = self.decide(number)
        self.survivors.append(survivors)
        require_within_limit(plan.config, sources)
        with new_staging(plan) as directory:
            staged = rewrite(plan, survivors, directory, silent, Runtime())
        aborted = np.zeros((0, 3), np.int64) if self.fates is None else self.fates[number].intervals
        self.built.append((staged, examine_quickly(plan, staged, aborted=aborted)))

    def outputs(self) -> dict[str, bytes]:
        """The bytes of all files that were staged, by name."""
        return {
            path.name: path.read_bytes()
            for staged, _ in self.built
            for path in Path(staged.directory).iterdir()
        }

    def counts(self) -> Counter[str]:
        """What was removed, by cause, and other sums."""
        return sum((counts_of(staged) for staged, _ in self.built), Counter())


def counts_of(staged: StagedCleaning) -> Counter[str]:
    """The figures of a cleaning that count records, batches or bytes of the output."""
    stats = staged.stats._asdict()
    names = ("bytes_", "records_", "removed_", "batches_", "horizons_")
    return Counter({name: stats[name] for name in stats if name.startswith(names)})


def _of(piece: tuple[NDArray, NDArray], shard: int) -> NDArray[np.void]:
    rows, counts = piece
    ends = np.cumsum(counts[0])
    return rows[int(ends[shard] - counts[0][shard]) : int(ends[shard])]
