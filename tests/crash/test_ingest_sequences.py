"""An append that dies after any step, then another operation, then the same ingest again: every
record is there once, and the directory ends clean.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest
from click.testing import CliRunner

from logwright.cli.main import main
from logwright.config.topic import parse_settings
from logwright.format.names import CLEAN_SHUTDOWN_MARKER, TopicPartition
from logwright.ingest.commit import commit_append, commit_steps, pending_append, stage_append
from logwright.ingest.journal import read_journal
from logwright.ingest.model import Appended, AppendOptions, AppendPlan
from logwright.ingest.steps import record_steps
from logwright.locks import lock_partition
from logwright.recovery.directory_plan import partitions_to_recover
from logwright.recovery.model import RecoveryOptions
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.marker import markers_aside
from logwright.sweep.recover import recover_directory
from logwright.units import TimestampMs
from tests.differential.random_logs import scratch_directory
from tests.ingested import PARTITION, Row, arrow, planned, read_batches
from tests.log_builder import LogBuilder

NOW = 1_760_000_100_000
LATER = str(NOW + 1000)
PAIRS = {"cleanup.policy": "compact", "internal.segment.bytes": "900"}
COMPACT = ("--config", "cleanup.policy=compact")
PARTS = 6
"""Of the steps after which an append dies."""
OTHER = TopicPartition("u", 0)
ROWS: list[Row] = [(b"k%d" % n, b"new" + b"y" * 80, [], NOW) for n in range(30)]


@pytest.fixture
def memory() -> Iterator[Path]:
    """An empty directory, in memory where that can be had."""
    with scratch_directory() as directory:
        yield directory


def plan_of(log_dir: Path, partition: TopicPartition, ingest_id: str) -> AppendPlan | Appended:
    return planned(
        log_dir,
        PAIRS,
        now_ms=NOW,
        ingest_id=ingest_id,
        options=AppendOptions(batch_bytes=400),
        partition=partition,
    )


def ingest(log_dir: Path, partition: TopicPartition = PARTITION, ingest_id: str = "one") -> int:
    """How many records this log has of it now."""
    plan = plan_of(log_dir, partition, ingest_id)
    if isinstance(plan, Appended):
        return plan.records
    return commit_append(plan, stage_append(plan, [arrow(ROWS)])).records


def dead_after(log_dir: Path, steps: int) -> bool:
    """Let an append die after a number of steps; return whether it had more."""
    plan = plan_of(log_dir, PARTITION, "one")
    assert isinstance(plan, AppendPlan)
    staged = stage_append(plan, [arrow(ROWS)])
    with lock_partition(log_dir, PARTITION), RealFileSystem(log_dir) as files:
        pending = pending_append(plan, staged, read_journal(plan.directory).pending)
        whole = chain(commit_steps(plan, staged, pending), record_steps(plan, staged.end_offset))
        for number, step in enumerate(whole):
            if number == steps:
                return True
            execute([step], files)
    return False


def called(*words: str) -> Callable[[Path], None]:
    """A command that ends well, on the whole directory."""

    def call(log_dir: Path) -> None:
        name, *options = words
        done = CliRunner().invoke(main, [name, str(log_dir), *options, "--yes", "--now", LATER])
        assert 0 == done.exit_code, done.output

    return call


def undo(log_dir: Path) -> None:
    """Of the clean before; it may have been undone, or be none any more."""
    CliRunner().invoke(main, ["undo", str(log_dir), "t-0", "--yes", "--now", LATER])


def other_ingest(log_dir: Path) -> None:
    assert len(ROWS) == ingest(log_dir, OTHER, "two")


def engine_recovery(log_dir: Path) -> None:
    """As Dagster recovers, then a clean of what is there."""
    config, _ = parse_settings(PAIRS)
    recover_directory(
        log_dir,
        partitions_to_recover(log_dir, [PARTITION]),
        lambda _: config,
        now_ms=TimestampMs(NOW),
        options=RecoveryOptions(),
    )
    OPERATIONS["clean"](log_dir)


OPERATIONS: dict[str, Callable[[Path], None]] = {
    "clean": called("clean", *COMPACT, "--force"),
    "roll": called("roll", "--force"),
    "retain": called("retain", "--config", "cleanup.policy=delete"),
    "recover": called("recover"),
    "engine-recovery": engine_recovery,
    "undo": undo,
    "other-ingest": other_ingest,
}


def start(memory: Path) -> Path:
    """Old values of some of the keys, in two segments; the first was cleaned."""
    log = LogBuilder(memory / "clean")
    log.segment(0).batch(0, [("k1", "old"), ("k1", "older"), ("k2", "old")])
    log.segment(3).batch(3, [("k3", "old"), ("other", "old")])
    log.write(producers=True)
    OPERATIONS["clean"](log.log_dir)
    return log.log_dir


def test_a_recovery_leaves_all_of_an_append_or_nothing(memory: Path) -> None:
    """It is completed or rolled back before the log is recovered: no consumer sees a part of it."""
    clean = start(memory)
    config, _ = parse_settings(PAIRS)
    counts = set()
    more, steps = True, 0
    while more:
        log_dir = memory / "state"
        shutil.copytree(clean, log_dir, copy_function=shutil.copy2)
        more = dead_after(log_dir, steps)
        recover_directory(
            log_dir,
            partitions_to_recover(log_dir, [PARTITION]),
            lambda _: config,
            now_ms=TimestampMs(NOW),
            options=RecoveryOptions(),
        )
        records = [record for batch in read_batches(log_dir) for record in batch.records]
        counts.add(sum(record.offset >= 5 for record in records))
        shutil.rmtree(log_dir)
        steps += 1
    assert {0, len(ROWS)} == counts


@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_next_run_completes_it(operation: str, part: int, memory: Path) -> None:
    """Whichever step was the last, and whatever ran in between."""
    clean = start(memory)
    more, steps = True, part
    while more:
        log_dir = memory / "state"
        shutil.copytree(clean, log_dir, copy_function=shutil.copy2)
        more = dead_after(log_dir, steps)
        OPERATIONS[operation](log_dir)
        assert len(ROWS) == ingest(log_dir), steps
        batches = read_batches(log_dir)
        records = [record for batch in batches for record in batch.records if record.offset >= 5]
        assert [row[0] for row in ROWS] == [record.key for record in records], steps
        assert [row[1] for row in ROWS] == [record.value for record in records], steps
        assert b"other" in {record.key for batch in batches for record in batch.records}, steps
        assert (log_dir / CLEAN_SHUTDOWN_MARKER).exists()
        assert () == markers_aside(log_dir)
        checked = CliRunner().invoke(main, ["verify", str(log_dir)])
        assert 0 == checked.exit_code, (steps, checked.output)
        shutil.rmtree(log_dir)
        steps += PARTS
    assert steps > 30
