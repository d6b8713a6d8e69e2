"""A purge of a deleted log that finds no room for its record, and dies."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from logwright.deletion.commit import find_deleted, purge_deleted
from logwright.errors import CannotUndo
from logwright.units import TimestampMs
from tests.crash.filesystems import Crash, CrashingFileSystem, FailingFileSystem
from tests.crash.operations import LATER_MS, SCENARIOS, T0, Log, again_in, interposed, prepared
from tests.differential.random_logs import scratch_directory

pytestmark = [pytest.mark.crash]


@pytest.fixture
def scratch() -> Iterator[Path]:
    """An empty directory in memory."""
    with scratch_directory() as directory:
        yield directory


def test_purge_without_room_that_dies_leaves_no_half_log_to_an_undo(scratch: Path) -> None:
    """Either all files are there, or no undo finds the log; the next purge ends it."""
    (scenario,) = [one for one in SCENARIOS if one.name == "purge-deleted"]
    made = prepared(scenario, scratch / "made")
    whole = len(list(made.root.rglob("*.log")))
    seen: set[tuple[bool, bool]] = set()
    for number in count(2):
        log = again_in(made, scratch / str(number))
        full = partial(FailingFileSystem, fail_at=1, code=errno.ENOSPC)
        try:
            interposed(
                lambda real, number=number, full=full: CrashingFileSystem(  # type: ignore[misc]
                    full(real), crash_at=number
                ),
                log.purge_deleted,
            )
        except Crash:
            complete = whole == len(list(log.root.rglob("*.log")))
            seen.add((complete, can_undo(log)))
            later = TimestampMs(time.time_ns() // 1_000_000 + LATER_MS)
            purge_deleted(log.root, now_ms=later, delay_ms=LATER_MS)
            assert not list(log.root.glob("t-0*"))
        else:
            break
    assert {(True, True), (True, False), (False, False)} == seen


def can_undo(log: Log) -> bool:
    """Whether an undo finds the deleted log."""
    try:
        find_deleted(log.root, T0)
    except CannotUndo:
        return False
    return True
