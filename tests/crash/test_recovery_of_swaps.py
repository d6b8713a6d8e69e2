"""A recovery that finishes several committed swaps loses power: Kafka's loader sees the old log."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

from logwright.config.topic import parse_settings
from logwright.format.names import TopicPartition
from logwright.locks import lock_partition
from logwright.recovery.directory_plan import plan_directory
from logwright.recovery.model import RecoveryOptions
from logwright.recovery.steps import recovery_steps
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.step import FileStep, FsyncDir, Rename
from logwright.sweep.build import build
from logwright.sweep.commit import commit
from logwright.undo.observe import plan_undo_of
from logwright.undo.steps import undo_steps
from logwright.units import TimestampMs
from tests.crash.operations import relink
from tests.differential.oracle_server import OracleServer
from tests.differential.random_logs import scratch_directory
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan

pytestmark = [pytest.mark.crash, pytest.mark.oracle]

T0 = TopicPartition("t", 0)
NOW = TimestampMs(START_MS + 100_000)
SETTINGS = parse_settings({"cleanup.policy": "compact"})


def write(root: Path) -> None:
    """Three closed segments, which a cleaning makes one of; the last has an aborted record."""
    log = LogBuilder(root)
    log.segment(0).batch(0, [("a", "a1"), ("b", "b1"), ("a", "a2")])
    log.segment(3).batch(3, [("c", "c1"), ("b", "b2")])
    aborting = log.segment(5)
    aborting.batch(5, [("a", "ABORTED")], producer_id=7, transactional=True, sequence=0)
    aborting.marker(6, 7, "abort").batch(7, [("d", "d1")])
    log.segment(8).batch(8, [("e", "e1")])
    log.write(producers=True)


def do(root: Path, steps: Sequence[FileStep]) -> None:
    with lock_partition(root, T0), RealFileSystem(root) as files:
        execute(steps, files)


def commit_undo(root: Path) -> None:
    """Clean, and let the undo die right after its commit point: old segments are ``.swap``."""
    plan = forced_plan(root, T0, SETTINGS, now_ms=NOW)
    commit(plan, build(plan))
    steps = undo_steps(plan_undo_of(root, T0), "x", now_ms=NOW)
    names = [str(step.target) if isinstance(step, Rename) else "" for step in steps]
    do(root, steps[: next(at for at, name in enumerate(names) if name.endswith(".log"))])


def phases(root: Path) -> list[list[FileStep]]:
    """The steps of the recovery, split after each fsync of the directory."""
    plan = plan_directory(
        root, [T0], lambda _: SETTINGS[0], now_ms=NOW, options=RecoveryOptions()
    ).plans[0]
    phases_of: list[list[FileStep]] = [[]]
    for step in recovery_steps(plan, cut=None):
        phases_of[-1].append(step)
        if isinstance(step, FsyncDir) and step.path == plan.observed.directory:
            phases_of.append([])
    return phases_of


def copied(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    relink(source, target)
    return target


def seen(kafka: OracleServer, root: Path) -> list[tuple[int, str, str, bool]]:
    """What Kafka's consumers get after an unclean stop."""
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    request = {"request": "directory", "logDir": str(root), "now": NOW, "config": {}}
    answer = kafka.ask(request)
    assert "loadFailed" not in answer, answer
    rows = answer["logs"]["t-0"]["rows"]
    return [(row["offset"], row["key"], row["value"], row["committed"]) for row in rows]


def test_power_loss_while_several_swaps_are_finished() -> None:
    """Whatever subset of the renames between two fsyncs is lost: every record is there, and the
    aborted one is not shown as committed.
    """
    with scratch_directory() as scratch, OracleServer() as kafka:
        begun, made = scratch / "begun", scratch / "made"
        write(begun)
        old = seen(kafka, copied(begun, scratch / "old"))
        commit_undo(begun)
        assert len(list((begun / "t-0").glob("*.log.swap"))) == 3
        states = 0
        for number in range(len(phases(begun))):
            renames = [one for one in phases(begun)[number] if isinstance(one, Rename)]
            for kept in range(len(renames) + 1):
                for some in combinations(range(len(renames)), kept):
                    copied(begun, made)
                    before = [step for phase in phases(made)[:number] for step in phase]
                    do(made, before)
                    here = [one for one in phases(begun)[number] if isinstance(one, Rename)]
                    do(made, [_in(here[at], begun, made) for at in some])
                    states += 1
                    assert old == seen(kafka, made), f"phase {number}, durable {some}"
        assert states > 10


def _in(step: Rename, root: Path, other: Path) -> Rename:
    """The same rename in a copy."""
    source, target = (str(one).replace(str(root), str(other), 1) for one in _ends(step))
    return Rename(Path(source), Path(target))


def _ends(step: Rename) -> tuple[Path, Path]:
    return Path(step.source), Path(step.target)
