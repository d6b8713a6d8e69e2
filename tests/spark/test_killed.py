"""A cleaning by Spark that is killed, or whose workers or JVM are: run again, it is as if
undisturbed, and nothing is left of it.
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from logwright.locks import release, try_lock
from logwright.log.checkpoints import CHECKPOINT_FILES
from tests.e2e.command import call
from tests.e2e.harness import MARKS, NO_TELEMETRY, Platform
from tests.spark.killed_runs import (
    LOGS,
    NOW,
    Digest,
    Kill,
    Timeline,
    Way,
    live,
    make,
    said_in,
    undisturbed,
    words,
)

pytestmark = [*MARKS, pytest.mark.crash]

KILLS = (
    Kill(way="clean", victim="driver", phase="commit"),
    Kill(way="clean", victim="workers", phase="build"),
    Kill(way="sweep", victim="driver", phase="build"),
)
NIGHTLY_KILLS = (
    *KILLS,
    Kill(way="clean", victim="driver", phase="start"),
    Kill(way="clean", victim="driver", phase="build"),
    Kill(way="clean", victim="executor", phase="build"),
    Kill(way="clean", victim="executor", phase="commit"),
    Kill(way="sweep", victim="driver", phase="commit"),
    Kill(way="sweep", victim="workers", phase="build"),
    Kill(way="sweep", victim="executor", phase="commit"),
)
NIGHTLY_ROUNDS = 5
STATUSES = {"clean": (0, 7, -signal.SIGKILL), "sweep": (0, 1, -signal.SIGKILL)}
"""Done before it was killed, or without what was; Spark died; the driver did."""
LATER = NOW + 60_000
KEPT = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """An undisturbed cleaning: how long it took, what it left.

    Attributes:
        twice: what is left when all is cleaned again, as the groups are that were swapped before a
            kill: markers whose transaction went with the first cleaning get their horizon then.
    """

    timeline: Timeline
    once: Digest
    twice: Digest
    names: set[str]


def measure(way: Way, log_dir: Path) -> Whole:
    timeline = undisturbed(way, make(log_dir))
    names = {path.name for path in log_dir.iterdir()}
    once = live(log_dir)
    (log_dir / "cleaner-offset-checkpoint").unlink()
    assert call(*words(log_dir)).status == 0
    return Whole(timeline=timeline, once=once, twice=live(log_dir), names=names)


def assert_finished(way: Way, log_dir: Path, whole: Whole) -> None:
    """Run again, it ends as an undisturbed run; a purge leaves nothing that is not the log's."""
    if way == "clean":
        again = call(*words(log_dir))
        assert again.status == 0, again.err
    else:
        assert sweep_again(log_dir)
    files = live(log_dir)
    strange = [
        name
        for name in files.keys() | whole.once.keys() | whole.twice.keys()
        if files.get(name) not in (whole.once.get(name), whole.twice.get(name))
    ]
    assert [] == strange
    assert call("purge", log_dir, "--now", LATER, "--yes").status == 0
    names = {path.name for path in log_dir.iterdir()}
    assert whole.names <= names <= whole.names | {*CHECKPOINT_FILES}  # a recovery writes all
    left = [path for name in LOGS for path in (log_dir / name).iterdir()]
    assert [] == [path for path in left if not path.name.endswith(KEPT)]
    with (log_dir / ".lock").open("r+") as lock:
        assert try_lock(lock.fileno(), "exclusive")
        release(lock.fileno())


def sweep_again(log_dir: Path) -> bool:
    """The job in this process; whether it succeeded."""
    home = log_dir.parent / "dagster"
    platform = Platform(
        log_dir=log_dir,
        policies=log_dir.parent / "policies",
        home=home,
        instance=dg.DagsterInstance.local_temp(str(home), overrides=NO_TELEMETRY),
        now_ms=NOW,
    )
    with platform.instance:
        return platform.sweep(list(LOGS)).success


def kill_each(tmp_path: Path, seed: int, kills: Sequence[Kill], *, latest: float) -> Counter[str]:
    """How many kills fell into which phase, by way and victim.

    Args:
        latest: the part of its phase up to which a kill may be drawn. The undisturbed run, the
            first of all, is the slowest: near 1, a kill may come when all is done.
    """
    whole = {way: measure(way, tmp_path / way / "logs") for way in {one.way for one in kills}}
    fell: Counter[str] = Counter()
    for number, kill in enumerate(kills):
        log_dir = make(tmp_path / str(number) / "logs")
        mine = whole[kill.way]
        part = latest * random.Random(f"{seed} {number}").random()
        phase, status = kill.do(log_dir, mine.timeline, mine.once, part=part)
        sys.stdout.write(f"{number}: {kill} fell into {phase}, exit status {status}\n")
        sys.stdout.flush()
        assert status in STATUSES[kill.way], said_in(log_dir).read_text()[-4000:]
        assert_finished(kill.way, log_dir, mine)
        fell[f"{kill.way} {kill.victim} {phase}"] += 1
        fell[phase] += 1
        shutil.rmtree(log_dir.parent)
    return fell


@pytest.mark.rotates(6)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kill", KILLS, ids=lambda kill: f"{kill.way} {kill.victim} {kill.phase}")
def test_killed_at_a_random_time(tmp_path: Path, seed: int, kill: Kill) -> None:
    """In the commit and in the build: the next run completes with the same bytes."""
    fell = kill_each(tmp_path, seed, (kill,), latest=0.3)
    assert fell["build"] + fell["commit"] + fell["done"] == 1


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_killed_fifty_times(tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The same, fifty times, in every phase; the figures are written."""
    kills = NIGHTLY_KILLS * NIGHTLY_ROUNDS
    with capsys.disabled():
        fell = kill_each(tmp_path, seed, kills, latest=0.6)
        sys.stdout.write("".join(f"{name}: {number}\n" for name, number in sorted(fell.items())))
    assert fell["build"] >= len(kills) // 5
    assert fell["commit"] >= len(kills) // 5
