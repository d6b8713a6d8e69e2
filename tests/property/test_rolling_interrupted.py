"""A rolling maintenance that ends anywhere, however it ends, is finished by calling it again: every
broker is maintained and runs, and never were two away.

The engine, its journal, its hooks and its commands are real, also as processes; only the cluster is
a model: a broker is in it while its file is there. A run ends at its n-th step: a look at the
cluster, a note in the journal, or a pause while it waits, of which a hook has several.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal, NoReturn

import pytest

from logwright.config.cluster import Cluster
from logwright.errors import DiskFull, LogwrightError
from logwright.rolling import broker, hooks, run
from logwright.rolling.broker import Site
from logwright.rolling.journal import write_journal
from logwright.rolling.model import ClusterNow, ClusterUnavailable, Journal, PartitionNow
from logwright.rolling.records import RunningTopics

BROKERS = (1, 2, 3)
STOP = 'sleep 0.02; rm "logs-$1/up"; ls logs-*/up | wc -l >>running; echo "$1" >>stopped'
START = 'sleep 0.02; touch "logs-$1/up"'
LOGWRIGHT = '[ "$1" = --version ] || { [ ! -e "$2/up" ] && sleep 0.02 && echo "$2" >>maintained; }'
"""It fails on the log directory of a broker that runs."""

How = Literal["killed", "interrupted", "unavailable", "full"]
"""By SIGKILL, as by Ctrl-C, by a cluster that does not respond once, by a full disk."""
Kind = Literal["look", "note", "pause"]
AT: dict[How, tuple[Kind, ...]] = {
    "killed": ("look", "note", "pause"),
    "interrupted": ("look", "note", "pause"),
    "unavailable": ("look",),
    "full": ("note",),
}
"""What counts as a step."""
FINISHED, FAILED, KILLED, BROKEN = 0, 3, 9, 99
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])


@dataclass
class Fate:
    """How a run ends, and at which step; 0: never.

    Attributes:
        steps: how many there were.
    """

    how: How
    at: int
    steps: int = 0

    def step(self, kind: Kind) -> None:
        """One more. Effects: those of the end."""
        if kind not in AT[self.how]:
            return
        self.steps += 1
        if self.steps != self.at:
            return
        if self.how == "killed":
            os._exit(KILLED)
        if self.how == "interrupted":
            signal.raise_signal(signal.SIGINT)
        elif self.how == "unavailable":
            raise ClusterUnavailable("the cluster does not respond.")
        else:
            raise DiskFull("there is no room to note where the round is.")

    def monotonic(self) -> float:
        """As of `time`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """As of `time`, but shorter."""
        time.sleep(min(seconds, 0.01))
        self.step("pause")


@dataclass(frozen=True)
class Model:
    """A cluster with one partition on all brokers; who runs is in sync, the first of them leads."""

    work: Path
    fate: Fate

    def look(self) -> ClusterNow:
        """As it is now."""
        self.fate.step("look")
        there = up(self.work)
        partition = PartitionNow(
            topic="t",
            number=0,
            leader=there[0] if there else None,
            replicas=BROKERS,
            isr=frozenset(there),
            min_isr=2,
            delete_retention_ms=None,
        )
        return ClusterNow(cluster_id="c", brokers=frozenset(there), partitions=(partition,))

    def elect(self, partitions: Sequence[PartitionNow], /) -> None:
        """The preferred leader leads as soon as it is there."""
        raise AssertionError(partitions)


@dataclass(frozen=True, kw_only=True)
class Noting(Site):
    """A site whose notes are steps, too."""

    fate: Fate = field(default_factory=lambda: Fate("killed", 0))

    def note(self, journal: Journal) -> None:
        """As of `Site`."""
        self.fate.step("note")
        super().note(journal)


def up(work: Path) -> list[int]:
    """The brokers that run."""
    return [each for each in BROKERS if (work / f"logs-{each}" / "up").exists()]


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def make(work: Path) -> Path:
    """A cluster that runs."""
    work.mkdir()
    for each in BROKERS:
        log_dir = work / f"logs-{each}"
        log_dir.mkdir()
        (log_dir / "up").touch()
        (log_dir / "meta.properties").write_text(f"version=1\nnode.id={each}\n")
    return work


def site(work: Path, fate: Fate) -> Site:
    config = Cluster.model_validate(
        {
            "version": "1",
            "bootstrap_servers": ["localhost:1"],
            "state": "state",
            "stop": ["sh", "-ec", STOP, "stop", "{id}"],
            "start": ["sh", "-ec", START, "start", "{id}"],
            "logwright": ["sh", "-ec", LOGWRIGHT, "logwright"],
            "maintain": ["verify"],
            "limits": {"stop": "20s", "lock": "20s", "start": "20s", "in_sync": "20s"},
            "brokers": [{"id": each, "log_dirs": [f"logs-{each}"]} for each in BROKERS],
        }
    )
    return Noting(
        directory=work,
        config=config,
        admin=Model(work, fate),
        topics=RunningTopics(("localhost:1",), {}),
        secrets=(),
        say=lambda _: None,
        now_ms=lambda: 0,
        fate=fate,
    )


def play(work: Path, how: How, at: int) -> NoReturn:
    """A round, in a process of its own. Effects: ends it; `steps` has how many there were."""
    fate, status = Fate(how, at), BROKEN
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for module in (broker, hooks):
            module.time = fate  # type: ignore[attr-defined]  # its clock
        own = site(work, fate)
        with run.run(own):
            list(run.roll(own, ()))
        status = FINISHED
    except (LogwrightError, KeyboardInterrupt):
        status = FAILED
    except BaseException:  # noqa: BLE001 -- the test shows it
        traceback.print_exc()
    (work / "steps").write_text(str(fate.steps))
    sys.stderr.flush()
    os._exit(status)


def played(work: Path, how: How, at: int = 0) -> int | None:
    """How a round ended."""
    process = FORKS.Process(target=play, args=(work, how, at))
    process.start()
    process.join()
    return process.exitcode


@pytest.fixture(params=[pytest.param(None, marks=pytest.mark.nightly), 3])
def chosen(request: pytest.FixtureRequest) -> int | None:
    """How many of a run's steps: all, or some."""
    count: int | None = request.param
    return count


@pytest.mark.crash
@pytest.mark.parametrize("how", AT)
def test_a_round_that_ends_anywhere_is_finished(
    tmp_path: Path, how: How, chosen: int | None, seed: int
) -> None:
    """Unless it was killed, its broker runs when it ends; and after the next run all is done."""
    assert FINISHED == played(make(tmp_path / "whole"), how)
    steps = range(1, int((tmp_path / "whole" / "steps").read_text()) + 1)
    assert len(steps) > len(BROKERS)
    ended = set()
    for at in steps if chosen is None else Random(seed).sample(steps, chosen):
        work = make(tmp_path / str(at))
        ended.add(status := played(work, how, at))
        if status == FAILED:
            assert list(BROKERS) == up(work), at
        assert FINISHED == played(work, how), at
        assert list(BROKERS) == up(work), at
        assert {f"{work}/logs-{each}" for each in BROKERS} == set(lines(work / "maintained")), at
        assert {"2"} == set(lines(work / "running")), at
        assert not (work / "state" / "rolling.json").exists(), at
    assert ended <= {FINISHED, KILLED if how == "killed" else FAILED}
    assert how == "unavailable" or ended != {FINISHED}  # most looks are made again


def test_a_broker_that_was_being_started_is_only_started(tmp_path: Path) -> None:
    """The start hook of the killed run may still be at work: nothing may rely on its absence."""
    work = make(tmp_path / "work")
    (work / "logs-1" / "up").unlink()
    (work / "state").mkdir()
    write_journal(work / "state" / "rolling.json", Journal(broker=1, step="start"))
    assert FINISHED == played(work, "killed")
    assert list(BROKERS) == up(work)
    assert ["2", "3"] == sorted(lines(work / "stopped"))
