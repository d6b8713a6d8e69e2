"""An append that was interrupted and of which a part stayed: the next run appends the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from logwright.errors import UncleanLogDir
from logwright.format.names import CLEAN_SHUTDOWN_MARKER
from logwright.ingest.commit import prepare_log_dir
from logwright.ingest.journal import read_journal
from logwright.ingest.proof import kept_end
from tests.ingested import Row, read_batches
from tests.unit.ingest.interrupted import (
    ROWS,
    T,
    clean,
    ingest,
    recover,
    stop_at,
    two_logs,
)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two logs, stopped cleanly."""
    return two_logs(tmp_path / "logs")


def kept_by_a_broker(log_dir: Path, patch: pytest.MonkeyPatch, rows: list[Row]) -> None:
    """An append that stopped before its last file, of which a recovery as Kafka's kept all batches;
    then a cleaning whose checkpoint is lost.
    """
    stop_at(log_dir, T, "one", f"{60:020d}.snapshot.tmp", patch, rows=rows)
    recover(log_dir, like_kafka=True)
    clean(log_dir)
    (log_dir / "cleaner-offset-checkpoint").unlink()


def test_batches_that_a_cleaning_left_as_they_were_count(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the append was superseded, so all of it is found and nothing is appended."""
    kept_by_a_broker(log_dir, monkeypatch, ROWS)
    assert 40 == ingest(log_dir, T, "one").records
    assert 59 == read_batches(log_dir)[-1].records[-1].offset


def test_batches_that_a_cleaning_changed_are_not_taken_for_a_brokers(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No checkpoint says that there was a cleaning; the input is not appended a second time."""
    rows: list[Row] = [(b"k%d" % (n % 4), *row[1:]) for n, row in enumerate(ROWS)]
    kept_by_a_broker(log_dir, monkeypatch, rows)
    before = read_batches(log_dir)
    with pytest.raises(UncleanLogDir, match="is unknown"):
        ingest(log_dir, T, "one", rows)
    assert before == read_batches(log_dir)


A, B, C = (20, 1), (25, 2), (32, 3)
"""The batches of an append of the offsets 20 to 39: base offset and CRC of each."""


@pytest.mark.parametrize(
    ("present", "log_end", "end"),
    [
        ([(A, 25), (B, 32), (C, 40)], 40, 40),
        ([(A, 25), (B, 32), (C, 40), ((40, 9), 41)], 41, 40),
        ([(A, 25)], 25, 25),
        ([(A, 25), ((25, 9), 27)], 27, 25),
        ([((20, 9), 21), ((21, 9), 25)], 25, 20),
        ([(A, 25), ((25, 9), 32)], 32, None),
        ([(A, 25), (B, 32), ((32, 9), 40)], 40, None),
        ([(A, 25), (C, 40)], 40, None),
        ([((33, 9), 40)], 40, None),
        ([(A, 25)], 40, None),
        ([], 40, None),
    ],
    ids=[
        "all",
        "all-then-a-broker",
        "a-part",
        "a-part-then-a-broker",
        "none-then-a-broker",
        "one-may-be-compacted",
        "the-last-may-be-compacted",
        "one-is-gone",
        "the-first-are-gone",
        "the-last-are-gone",
        "all-are-gone",
    ],
)
def test_what_is_there_of_an_append(
    log_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    present: list[tuple[tuple[int, int], int]],
    log_end: int,
    end: int | None,
) -> None:
    """Batches as listed; after them only what a broker can have written, or unknown."""
    stop_at(log_dir, T, "one", f"{60:020d}.snapshot.tmp", monkeypatch)
    known = read_journal(log_dir / "t-0").pending
    assert known is not None
    pending = replace(known, log_end_offset=20, end_offset=40)
    assert end == kept_end([A, B, C], present, pending, log_end)


def test_what_an_earlier_run_left_is_known_when_the_next_one_is_cut_back(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker's recovery kept a part; the rest stopped midway: the third run appends that rest."""
    stop_at(log_dir, T, "one", f"{60:020d}.snapshot.tmp", monkeypatch)
    log = max((log_dir / "t-0").glob("*.log"))
    for path in log.parent.glob(f"{log.stem}.*"):
        path.unlink()
    recover(log_dir, like_kafka=True)
    present = read_batches(log_dir)
    stop_at(log_dir, T, "one", f"{60:020d}.snapshot.tmp", monkeypatch)
    assert not (log_dir / CLEAN_SHUTDOWN_MARKER).exists()
    prepare_log_dir(log_dir)
    assert present == read_batches(log_dir)
    assert 40 == ingest(log_dir, T, "one").records
    offsets = [record.offset for batch in read_batches(log_dir) for record in batch.records]
    assert list(range(60)) == offsets
