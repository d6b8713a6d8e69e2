"""An interrupted append: what is rolled back, what is not, and when the marker is restored."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logwright.errors import UncleanLogDir
from logwright.format.lines import parse_lines, serialize_line
from logwright.format.names import CLEAN_SHUTDOWN_MARKER
from logwright.ingest.commit import prepare_log_dir
from logwright.steps.marker import markers_aside
from tests.unit.ingest.interrupted import (
    APPENDED,
    CHECKPOINT,
    JOURNAL,
    T,
    U,
    clean,
    ingest,
    recover,
    stop_at,
    two_logs,
    values,
)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two logs, stopped cleanly."""
    return two_logs(tmp_path / "logs")


def test_a_complete_append_is_not_cut_back(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It failed at the checkpoints; then a clean, and another topic's ingest that stops midway."""
    stop_at(log_dir, T, "one", f"{CHECKPOINT}.tmp", monkeypatch)
    assert (log_dir / CLEAN_SHUTDOWN_MARKER).exists()
    assert APPENDED == values(log_dir)
    clean(log_dir)
    stop_at(log_dir, U, "two", f"{0:020d}.log", monkeypatch)
    assert not (log_dir / CLEAN_SHUTDOWN_MARKER).exists()
    prepare_log_dir(log_dir)
    assert (log_dir / CLEAN_SHUTDOWN_MARKER).exists()
    assert APPENDED == values(log_dir)
    assert ingest(log_dir, T, "one").repeated
    assert "t 0 60" in (log_dir / CHECKPOINT).read_text()
    assert 40 == ingest(log_dir, U, "two").records
    assert APPENDED == values(log_dir, "u-0")


def test_a_complete_append_gets_its_marker_back(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stopped between the journal and the marker: nothing is cut."""
    stop_at(log_dir, T, "one", CLEAN_SHUTDOWN_MARKER, monkeypatch)
    assert 1 == len(markers_aside(log_dir))
    prepare_log_dir(log_dir)
    assert (log_dir / CLEAN_SHUTDOWN_MARKER).exists()
    assert () == markers_aside(log_dir)
    assert APPENDED == values(log_dir)
    assert ingest(log_dir, T, "one").repeated
    assert "t 0 60" in (log_dir / CHECKPOINT).read_text()


def stopped(log_dir: Path, patch: pytest.MonkeyPatch) -> bytes:
    """An append that stops when its second segment is there; the log of before."""
    before = (log_dir / "t-0" / f"{0:020d}.log").read_bytes()
    stop_at(log_dir, T, "one", f"{60:020d}.snapshot.tmp", patch)
    assert (log_dir / "t-0" / f"{0:020d}.log").stat().st_size > len(before)
    assert len(list((log_dir / "t-0").glob("*.log"))) > 2
    return before


def test_an_interrupted_append_is_cut_back(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the next ingest of any topic: byte for byte, and the marker is back."""
    before = stopped(log_dir, monkeypatch)
    assert 40 == ingest(log_dir, U, "two").records
    assert before == (log_dir / "t-0" / f"{0:020d}.log").read_bytes()
    assert [f"{0:020d}.log"] == [path.name for path in (log_dir / "t-0").glob("*.log")]
    assert 40 == ingest(log_dir, T, "one").records
    assert APPENDED == values(log_dir)


def torn_beside(log_dir: Path) -> None:
    """A broker died while it appended to another log, before it wrote a checkpoint."""
    with (log_dir / "w-0" / f"{0:020d}.log").open("ab") as file:
        file.write((log_dir / "w-0" / f"{0:020d}.log").read_bytes()[:40])


def gone(log_dir: Path) -> None:
    shutil.rmtree(log_dir / "t-0")


def moved(log_dir: Path) -> None:
    (log_dir / "t-0").rename(log_dir.parent / "elsewhere")


def without_journal(log_dir: Path) -> None:
    (log_dir / "t-0" / JOURNAL).unlink()


def other_journal(log_dir: Path) -> None:
    change(log_dir, nonce="0123")


def touched(log_dir: Path) -> None:
    shutil.copy(log_dir / CHECKPOINT, log_dir / "new")
    (log_dir / "new").rename(log_dir / CHECKPOINT)


@pytest.mark.parametrize(
    ("change_it", "why"),
    [
        (gone, "no journal belongs to it"),
        (moved, "no journal belongs to it"),
        (without_journal, "no journal belongs to it"),
        (other_journal, "no journal belongs to it"),
        (touched, "a broker ran since"),
        (torn_beside, "an append was interrupted, and the marker is not restored: "),
    ],
)
@pytest.mark.parametrize("complete", [False, True], ids=["interrupted", "complete"])
def test_the_marker_stays_away_where_nothing_shows_that_all_is_clean(
    log_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    change_it: Callable[[Path], None],
    why: str,
    *,
    complete: bool,
) -> None:
    """The error names `logwright recover`, which removes the renamed marker and cleans the
    directory.
    """
    wanted = CLEAN_SHUTDOWN_MARKER if complete else f"{60:020d}.snapshot.tmp"
    stop_at(log_dir, T, "one", wanted, monkeypatch)
    (log_dir / "v-0").mkdir()
    change_it(log_dir)
    with pytest.raises(UncleanLogDir, match=why) as refused:
        prepare_log_dir(log_dir)
    assert "logwright recover" in str(refused.value)
    assert not (log_dir / CLEAN_SHUTDOWN_MARKER).exists()
    recover(log_dir)
    assert (log_dir / CLEAN_SHUTDOWN_MARKER).exists()
    assert () == markers_aside(log_dir)
    prepare_log_dir(log_dir)


def test_a_marker_and_one_that_lies_aside(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker recovered all and stopped: the one aside goes, and the log stays as it is."""
    stopped(log_dir, monkeypatch)
    (aside,) = markers_aside(log_dir)
    shutil.copy(aside, log_dir / CLEAN_SHUTDOWN_MARKER)
    before = {path.name: path.read_bytes() for path in (log_dir / "t-0").glob("*.log")}
    prepare_log_dir(log_dir)
    assert () == markers_aside(log_dir)
    assert before == {path.name: path.read_bytes() for path in (log_dir / "t-0").glob("*.log")}


def test_recover_without_partitions_ends_clean(tmp_path: Path) -> None:
    """The only log was deleted while its append was interrupted."""
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    (log_dir / CHECKPOINT).write_bytes(b"0\n0\n")
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (log_dir / ".logwright-cleanshutdown.0123").write_text("{}")
    with pytest.raises(UncleanLogDir, match="no journal"):
        prepare_log_dir(log_dir)
    recover(log_dir)
    assert () == markers_aside(log_dir)
    assert (log_dir / CLEAN_SHUTDOWN_MARKER).exists()


def change(log_dir: Path, **values: object) -> None:
    """Of the journal's last append, with the CRC that fits: the lie is not seen by that."""
    path = log_dir / "t-0" / JOURNAL
    (journal,) = parse_lines(path.read_bytes())
    journal["pending"] |= values
    path.write_bytes(serialize_line(journal))


def contents(log_dir: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (log_dir / "t-0").iterdir() if path.is_file()}


def pending_of(log_dir: Path) -> dict[str, Any]:
    return dict(next(parse_lines((log_dir / "t-0" / JOURNAL).read_bytes()))["pending"])


def size_of_a_batch(log_dir: Path) -> int:
    content = (log_dir / "t-0" / f"{0:020d}.log").read_bytes()
    return int.from_bytes(content[8:12], "big") + 12


LIES: dict[str, Callable[[dict[str, Any], int], dict[str, object]]] = {
    "shorter": lambda made, size: {"log_bytes": made["log_bytes"] - size},
    "shorter-with-its-end": lambda made, size: {
        "log_bytes": made["log_bytes"] - size,
        "log_end_offset": made["log_end_offset"] - 1,
    },
    "inside-a-batch": lambda made, _: {"log_bytes": made["log_bytes"] - 5},
    "another-end": lambda made, _: {"log_end_offset": made["log_end_offset"] - 1},
    "longer": lambda made, _: {"log_bytes": made["log_bytes"] + 10_000},
    "empty": lambda _, __: {"log_bytes": 0, "log_end_offset": 0},
    "another-file": lambda made, _: {"inode": made["inode"] + 1},
    "the-log-itself": lambda made, _: {"created": [*made["created"], f"{0:020d}.log"]},
    "its-index": lambda made, _: {"created": [*made["created"], f"{0:020d}.index"]},
    "a-path": lambda made, _: {"created": [*made["created"], f"../t-0/{0:020d}.log"]},
    "another-name": lambda made, _: {"created": [*made["created"], "partition.metadata"]},
    "an-older-snapshot": lambda made, _: {"created": [*made["created"], f"{7:020d}.snapshot"]},
    "fewer": lambda _, __: {"created": []},
    "no-log": lambda _, __: {"base_offset": None},
    "index-longer": lambda made, _: {"index_bytes": made["index_bytes"] + 8},
    "timeindex-shorter": lambda _, __: {"timeindex_bytes": 0},
    "no-batches": lambda _, __: {"batches": 0},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_journal_that_lies_cuts_nothing(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    """Every file stays as it is, the marker stays away, and a recovery keeps every whole batch."""
    stopped(log_dir, monkeypatch)
    change(log_dir, **LIES[lie](pending_of(log_dir), size_of_a_batch(log_dir)))
    before = contents(log_dir)
    with pytest.raises(UncleanLogDir, match="cannot be rolled back"):
        prepare_log_dir(log_dir)
    assert before == contents(log_dir)
    assert not (log_dir / CLEAN_SHUTDOWN_MARKER).exists()
    recover(log_dir)
    assert APPENDED == values(log_dir)


def test_another_list_of_batches_cuts_nothing(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One CRC of it is not that of the log."""
    stopped(log_dir, monkeypatch)
    (path,) = (log_dir / "t-0" / ".logwright").glob("ingest.batches.*")
    content = path.read_bytes()
    path.write_bytes(content[:8] + bytes(4) + content[12:])
    before = contents(log_dir)
    with pytest.raises(UncleanLogDir, match="not written by the append"):
        prepare_log_dir(log_dir)
    assert before == contents(log_dir)


def with_tail(log_dir: Path, content: bytes) -> Path:
    """A copy whose active log has this content; its journal knows the copied files."""
    other = log_dir.parent / "other"
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(log_dir, other, copy_function=shutil.copy2)
    torn = other / "t-0" / f"{0:020d}.log"
    torn.write_bytes(content)
    names = [(name, time) for name, _, time in pending_of(other)["stamps"]]
    known = [[name, (other / name).stat().st_ino, time] for name, time in names]
    change(other, inode=torn.stat().st_ino, stamps=known)
    return other


def test_a_torn_tail_behind_the_old_end_is_cut(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the disk has of the batches of the list, down to their first byte, or zeros instead."""
    path = log_dir / "t-0" / f"{0:020d}.log"
    before = path.read_bytes()
    stop_at(log_dir, T, "one", f"{0:020d}.timeindex", monkeypatch)
    whole = path.read_bytes()
    tails = [whole[:end] for end in range(len(before), len(before) + 1300, 7)]
    for content in [*tails, before + bytes(100), whole + bytes(9)]:
        other = with_tail(log_dir, content)
        prepare_log_dir(other)
        assert before == (other / "t-0" / path.name).read_bytes()
        assert (other / CLEAN_SHUTDOWN_MARKER).exists()
    for content in (before + b"x", before + bytes(30) + b"x", whole + before[:80], whole + b"x"):
        other = with_tail(log_dir, content)
        with pytest.raises(UncleanLogDir, match="not written by the append"):
            prepare_log_dir(other)
        assert content == (other / "t-0" / path.name).read_bytes()


@pytest.mark.parametrize("value", [-1, "7", 1.5, None, True])
def test_a_journal_with_a_strange_count_is_no_journal(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch, value: object
) -> None:
    """It belongs to no marker."""
    stopped(log_dir, monkeypatch)
    change(log_dir, log_bytes=value)
    with pytest.raises(UncleanLogDir, match="no journal"):
        prepare_log_dir(log_dir)
