"""An append that was interrupted and of which a part stayed: the next run appends the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.errors import UncleanLogDir
from logwright.format.names import CLEAN_SHUTDOWN_MARKER
from logwright.ingest.run import prepare_log_dir
from tests.ingested import Row, read_batches
from tests.unit.ingest.interrupted import (
    NOW,
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


@pytest.mark.parametrize("keys", [4, 40])
def test_a_part_of_an_append_that_was_compacted_is_not_taken_for_none(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch, keys: int
) -> None:
    """Where a broker's recovery kept it and its batches are not as they were, no checkpoint is
    asked whether a cleaning was there: without one the input would be appended twice.
    """
    rows: list[Row] = [(b"k%d" % (n % keys), b"new" + b"y" * 96, [], NOW) for n in range(40)]
    stop_at(log_dir, T, "one", f"{60:020d}.snapshot.tmp", monkeypatch, rows=rows)
    recover(log_dir, like_kafka=True)
    clean(log_dir)
    (log_dir / "cleaner-offset-checkpoint").unlink()
    before = read_batches(log_dir)
    if keys == len(rows):  # nothing was superseded, so the batches tell
        assert 40 == ingest(log_dir, T, "one", rows).records
        assert 59 == read_batches(log_dir)[-1].records[-1].offset
        return
    with pytest.raises(UncleanLogDir, match="cannot be told"):
        ingest(log_dir, T, "one", rows)
    assert before == read_batches(log_dir)


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
