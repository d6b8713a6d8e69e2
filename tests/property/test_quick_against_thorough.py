"""Whatever fault of the staged files, of the build or of the hints the thorough checks see, the
quick ones see too.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import numpy as np
import pytest

from logwright.batches.runtime import Runtime
from logwright.checks.model import OutputFacts
from logwright.checks.quick import examine_quickly
from logwright.checks.thorough import examine_thoroughly
from logwright.compaction import build as building
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.compaction.survivors import Survivors
from logwright.errors import LogwrightError
from logwright.format.names import segment_file_name
from logwright.rewrite.staging import discard_staging
from logwright.sweep.build import build
from tests.property.planted_faults import planted, wrong_index, wrong_log
from tests.property.wrong_hints import all_wrong
from tests.unit.checks.test_quick import a_log, a_plan

FAULTS: Final = 60
NIGHTLY_FAULTS: Final = 10_000
LOGS: Final = tuple((codec, checkpoint) for codec in range(5) for checkpoint in (None, 200))
"""Codec and first dirty offset of the logs."""


@dataclass(kw_only=True)
class Tally:
    """What was planted.

    Attributes:
        both, quick, neither: by kind of fault, who saw it.
        missed: what only the thorough checks saw.
    """

    both: Counter[str] = field(default_factory=Counter)
    quick: Counter[str] = field(default_factory=Counter)
    neither: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)

    def add(self, kind: str, sentence: str, plan: CleanPlan, staged: StagedCleaning) -> None:
        """Let both ways judge."""
        quick, thorough = (
            _sees(way, plan, staged) for way in (examine_quickly, examine_thoroughly)
        )
        if thorough and not quick:
            self.missed.append(sentence)
        else:
            chosen = self.both if thorough else self.quick if quick else self.neither
            chosen[kind] += 1

    def lines(self) -> Iterator[str]:
        """The figures, by kind."""
        for kind in sorted({*self.both, *self.quick, *self.neither}):
            yield (
                f"{kind}: both {self.both[kind]}, quick alone {self.quick[kind]},"
                f" neither {self.neither[kind]}"
            )
        total = sum(map(Counter.total, (self.both, self.quick, self.neither))) + len(self.missed)
        yield f"{total} faults, {len(self.missed)} seen by the thorough checks alone"


def _sees(
    way: Callable[[CleanPlan, StagedCleaning], OutputFacts], plan: CleanPlan, staged: StagedCleaning
) -> bool:
    """Whether a check fails, or the source refused."""
    try:
        return bool(way(plan, staged).failed)
    except LogwrightError:
        return True


def _plant_in_files(plan: CleanPlan, staged: StagedCleaning, random: Random, tally: Tally) -> None:
    segment = random.choice(staged.segments)
    suffix = random.choice((".log", ".log", ".log", ".index", ".timeindex"))
    path = staged.directory / segment_file_name(segment.base_offset, suffix)
    if suffix == ".log":
        how, content = wrong_log(path.read_bytes(), random)
        kind = how
    else:
        how, content = wrong_index(path, random)
        kind = suffix
    with planted(path, content):
        tally.add(kind, f"{plan.log.log_dir.name} {path.name}: {how}", plan, staged)


def _plant_in_build(plan: CleanPlan, random: Random, tally: Tally) -> None:
    """One to three records are taken for dead, or for alive."""
    find, flipped = building.find_survivors, list[int]()

    def spoiled(
        plan: CleanPlan, *, progress: Callable[[str, int, int], None], runtime: Runtime
    ) -> Survivors:
        survivors = find(plan, progress=progress, runtime=runtime)
        for entries in survivors.rebuilt.entries.values():
            entries["size"] = 0  # what was rebuilt before is right
        total = sum(s.records for group in survivors.groups for _, s in group)
        flipped.extend(random.sample(range(total), random.choice((1, 1, 2, 3))))
        bits = np.unpackbits(survivors.dead, bitorder="little")
        bits[flipped] ^= 1
        survivors.dead[:] = np.packbits(bits, bitorder="little")
        return survivors

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "find_survivors", spoiled)
        staged = build(plan)
    tally.add("dead bitmap", f"{plan.log.log_dir.name} dead {flipped}", plan, staged)
    discard_staging(plan)


def _plant_in_hints(plan: CleanPlan, staged: StagedCleaning, random: Random, tally: Tally) -> None:
    """After the build."""
    log_dir = plan.log.log_dir
    wrong = [one for one in all_wrong(log_dir) if one.content is not None]
    hint = random.choice(wrong)
    with planted(log_dir / hint.name, hint.content or b""):
        tally.add(hint.kind, f"{log_dir.name} {hint}", plan, staged)


@contextmanager
def _plans() -> Iterator[list[tuple[CleanPlan, CleanPlan, StagedCleaning]]]:
    """Of each log a plan to build by, and one that was built."""
    memory = Path("/dev/shm")  # noqa: S108 -- a private directory below it
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        planned = []
        for codec, checkpoint in LOGS:
            name = f"codec-{codec}-{checkpoint}"
            builder = a_log(Path(scratch) / name, codec=codec, checkpoint=checkpoint)
            plan = a_plan(builder)
            planned.append((a_plan(builder), plan, build(plan)))
        yield planned


def _plant(seed: int, faults: int) -> Tally:
    random, tally = Random(seed), Tally()
    with _plans() as plans:
        for number in range(faults):
            spare, plan, staged = plans[number % len(plans)]
            where = random.random()
            if where < 0.7:
                _plant_in_files(plan, staged, random, tally)
            elif where < 0.85:
                _plant_in_build(spare, random, tally)
            else:
                _plant_in_hints(plan, staged, random, tally)
    return tally


def test_quick_sees_what_thorough_sees(seed: int) -> None:
    """Some faults of each kind; nearly all that change what consumers get are seen by both."""
    tally = _plant(seed, FAULTS)
    assert [] == tally.missed
    assert tally.both.total() > FAULTS // 4


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_quick_sees_what_thorough_sees_of_many_faults(
    seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same with the figures."""
    tally = _plant(seed, NIGHTLY_FAULTS)
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(tally.lines()) + "\n")
    assert [] == tally.missed
