"""An operation dies at every step, a recovery completes or rolls it back, and an undo follows: what
was there comes back whole, or the undo is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from logwright.errors import CannotUndo
from logwright.format.names import TopicPartition
from logwright.recovery.directory_plan import partitions_to_recover
from logwright.recovery.model import RecoveryOptions
from logwright.sweep.recover import recover_directory
from logwright.units import TimestampMs
from tests.crash.filesystems import Crash, CrashingFileSystem
from tests.crash.operations import Log, again_in, interposed, into_a_segment, txn_retain
from tests.differential.random_logs import scratch_directory
from tests.fixtures import copy_before
from tests.ingested import read_batches

pytestmark = pytest.mark.crash

T0 = TopicPartition("t", 0)
PARTS = 4
"""Of the calls at which an operation dies."""

WITH_TAILS = ("emptied-2",)
"""Of these a recovery leaves files that the swap was to retire, as Kafka's loader does."""


def live(log: Log) -> dict[str, bytes]:
    """The segments' files, and the checkpoints that an undo sets."""
    files = {
        path.name: path.read_bytes()
        for path in (log.root / "t-0").iterdir()
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex")
    }
    for name in ("cleaner-offset-checkpoint", "log-start-offset-checkpoint"):
        path = log.root / name
        lines = path.read_text().splitlines() if path.exists() else []
        files[name] = "\n".join(line for line in lines if line.startswith("t ")).encode()
    return files


def recover(log: Log) -> None:
    config, _ = log.settings()
    damaged = partitions_to_recover(log.root, [T0])
    result = recover_directory(
        log.root,
        damaged,
        lambda _: config,
        now_ms=TimestampMs(log.now + 1),
        options=RecoveryOptions(),
    )
    assert {} == result.failures


def is_committed(log: Log) -> bool:
    """A swap has passed its commit point, and what it covers has begun to go."""
    names = [path.name for path in (log.root / "t-0").iterdir()]
    swaps = any(name.endswith(".log.swap") for name in names)
    return swaps and not any(name.endswith(".cleaned") for name in names)


def records(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.key, record.value)
        for batch in read_batches(log.root)
        for record in batch.records
    ]


@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    ("case", "act"),
    [
        ("txn-2-second", Log.clean),
        ("emptied-2", Log.clean),
        ("txn-1-mixed", txn_retain),
        ("txn-1-mixed", into_a_segment),
        ("delete-time-all", Log.retain),
    ],
    ids=["clean", "clean-tails", "retain", "retain-inside", "retain-all"],
)
def test_undo_after_a_death_and_a_recovery(
    case: str, act: Callable[[Log], None], part: int
) -> None:
    """A swap past its commit point can be undone once the recovery has finished it. An undo that is
    done leaves every file of every segment as it was before the operation (a new empty active
    segment may follow), and a cleaning after it leaves what one of the original log does.
    """
    with scratch_directory() as scratch:
        begun = Log(case, copy_before(case, Path(scratch) / "begun"))
        original = live(begun)
        cleaned = again_in(begun, scratch / "cleaned")
        cleaned.clean()
        undone = 0
        for number in count(1 + part, PARTS):
            made = again_in(begun, scratch / f"made-{number}")
            try:
                interposed(
                    lambda real, number=number: CrashingFileSystem(real, crash_at=number),
                    lambda made=made: act(made),
                )
            except Crash:
                pass
            else:
                break
            unfinished = is_committed(made)
            recover(made)
            try:
                made.undo()
            except CannotUndo:
                assert not unfinished or case in WITH_TAILS, f"before call {number}"
                continue
            undone += 1
            back = live(made)
            assert original == {name: back[name] for name in original}, f"before call {number}"
            rolled = back.keys() - original.keys()
            assert not any(back[name] for name in rolled)
            if not rolled:  # else what was active is cleaned too
                made.clean()
                assert records(cleaned) == records(made)
        assert undone > 0
