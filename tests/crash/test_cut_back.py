"""The power goes while an interrupted append is rolled back: the log ends early, without a gap."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from logwright.format.names import CLEAN_SHUTDOWN_MARKER
from logwright.ingest.commit import prepare_log_dir
from tests.crash.filesystems import Crash
from tests.differential.random_logs import scratch_directory
from tests.ingested import read_batches
from tests.sequences.faults import Fault, interrupted
from tests.unit.ingest.interrupted import T, recover, stop_at, two_logs

pytestmark = pytest.mark.crash

CHOICES = 6
"""Of what an un-synced disk keeps, at each call."""


@pytest.fixture
def scratch() -> Iterator[Path]:
    """An empty directory in memory."""
    with scratch_directory() as directory:
        yield directory


def test_no_record_stays_without_those_before_it(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each call, with any of the un-synced changes lost; then the log is recovered."""
    ends, calls, more = set(), 0, True
    while more:
        calls += 1
        for choice in range(CHOICES):
            log_dir = two_logs(scratch / "logs")
            stop_at(log_dir, T, "one", f"{60:020d}.snapshot.tmp", monkeypatch)
            assert len(list((log_dir / "t-0").glob("*.log"))) > 2
            try:
                with interrupted(Fault("power", calls, choice), log_dir):
                    prepare_log_dir(log_dir)
                more = False
            except Crash:
                if not (log_dir / CLEAN_SHUTDOWN_MARKER).exists():
                    recover(log_dir)
            offsets = [record.offset for batch in read_batches(log_dir) for record in batch.records]
            assert list(range(len(offsets))) == offsets, (calls, choice)
            ends.add(len(offsets))
            shutil.rmtree(log_dir)
    assert calls > 10
    assert {20, 60} <= ends
