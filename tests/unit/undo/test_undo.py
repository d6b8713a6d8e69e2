"""An undo gives back, byte for byte, what the last operation took away, or refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from logwright.cli.main import main
from logwright.errors import CannotUndo
from logwright.format.lines import parse_lines, serialize_line
from logwright.format.names import TopicPartition
from logwright.format.snapshot import parse_snapshot
from logwright.maintain import plan_undo
from tests import fixtures
from tests.comparison import CHECKPOINTS, compare_checkpoints, read_checkpoint
from tests.log_builder import LogBuilder

T0 = TopicPartition("t", 0)
CLEANED = ["basic-none", "emptied-2", "txn-2-second", "recleaned-2", "many-segments"]
RETAINED = ["delete-time-all", "delete-size", "delete-records", "compact-delete-2"]


def run(command: str, log_dir: Path, *more: str, status: int = 0) -> Result:
    arguments = [command, str(log_dir), "t-0", "--yes", "--output", "json", *more]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert status == result.exit_code, result.output
    return result


def clean(name: str, log_dir: Path) -> None:
    assert json.loads(run("clean", log_dir, *fixtures.clean_arguments(name)).stdout)["cleaned"]


def retain(name: str, log_dir: Path, *more: str) -> None:
    now = str(fixtures.description(name)["now"])
    told = run("retain", log_dir, "--now", now, *fixtures.settings(name), *more)
    assert json.loads(told.stdout)["deletedSegments"]


def live(log_dir: Path) -> dict[str, tuple[bytes, int]]:
    """Content of what a broker would use of the partition, and of its logs the modification time:
    that of an index says nothing.
    """
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns if path.suffix == ".log" else 0)
        for path in (log_dir / "t-0").iterdir()
        if path.is_file() and not path.name.endswith(".deleted")
    }


def without_stale(files: dict[str, tuple[bytes, int]]) -> dict[str, tuple[bytes, int]]:
    """Times of a checkpoint that is rewritten are not asked."""
    return {
        name: (content, 0 if name.endswith("checkpoint") else time)
        for name, (content, time) in files.items()
    }


@pytest.mark.parametrize(
    "name",
    [
        # Its batches are compressed again with other bytes, so that Kafka has to read them.
        pytest.param(name, marks=[pytest.mark.oracle] if name == "recleaned-2" else [])
        for name in CLEANED
        if name in fixtures.CASES
    ],
)
def test_undone_cleaning_leaves_what_was(name: str, tmp_path: Path) -> None:
    """All groups of the last cleaning, tails and emptied segments too; the checkpoint goes back."""
    log_dir = fixtures.copy_before(name, tmp_path)
    before = live(log_dir)
    clean(name, log_dir)
    assert before != live(log_dir)
    undone = json.loads(run("undo", log_dir).stdout)
    assert ("swap", True) == (undone["operation"], undone["undone"])
    assert before == live(log_dir)
    assert [] == compare_checkpoints(fixtures.case_dir(name) / "before", log_dir)
    clean(name, log_dir)
    assert [] == fixtures.compare_after(name, log_dir)


@pytest.mark.parametrize("name", RETAINED)
def test_undone_retention_leaves_what_was(name: str, tmp_path: Path) -> None:
    """Segments, snapshots, leader epochs, log start offset; an active segment stays rolled."""
    log_dir = fixtures.copy_before(name, tmp_path)
    before = live(log_dir)
    retain(name, log_dir)
    run("undo", log_dir)
    after = live(log_dir)
    if name == "delete-time-all":
        fresh = [after.pop(f"{84:020d}{suffix}") for suffix in (".log", ".index", ".timeindex")]
        assert [b"", b"", b""] == [content for content, _ in fresh]
    assert without_stale(before) == without_stale(after)
    assert [] == compare_checkpoints(fixtures.case_dir(name) / "before", log_dir)
    assert [] == [path for path in (log_dir / "t-0").iterdir() if path.suffix == ".deleted"]


def test_raised_log_start_offset_goes_back(tmp_path: Path) -> None:
    """What DeleteRecords hid is to be seen again."""
    log_dir = fixtures.copy_before("delete-size", tmp_path)
    settings = ["--config", "cleanup.policy=delete", "--config", "retention.ms=-1"]
    now = ["--now", "1760000077187"]
    run("retain", log_dir, *now, *settings, "--delete-records-before", "100")
    assert {"t-0": 100} == read_checkpoint(log_dir / CHECKPOINTS[1])
    assert f"{72:020d}.log" == min(name for name in live(log_dir) if name.endswith(".log"))
    run("undo", log_dir)
    assert {} == read_checkpoint(log_dir / CHECKPOINTS[1])
    assert f"{0:020d}.log" in live(log_dir)


def test_operations_are_undone_one_after_the_other(tmp_path: Path) -> None:
    """The last one first, then the one before it."""
    name = "compact-delete-1"
    log_dir = fixtures.copy_before(name, tmp_path)
    states = [live(log_dir)]
    clean(name, log_dir)
    states.append(live(log_dir))
    retain(name, log_dir)
    for expected in reversed(states):
        run("undo", log_dir)
        assert without_stale(expected) == without_stale(live(log_dir))
    run("undo", log_dir, status=5)


def test_dry_run_changes_nothing(tmp_path: Path) -> None:
    """It says what would come back."""
    log_dir = fixtures.copy_before("delete-size", tmp_path)
    retain("delete-size", log_dir)
    before = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
    told = json.loads(run("undo", log_dir, "--dry-run").stdout)
    assert [0, 34, 72, 109, 146] == told["segments"]
    assert before == {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}


def refused(log_dir: Path) -> str:
    """The refusal's words; nothing was changed by it."""
    before = live(log_dir)
    with pytest.raises(CannotUndo) as caught:
        plan_undo(log_dir, T0)
    assert "cannot be undone" in run("undo", log_dir, status=5).output
    assert before == live(log_dir)
    return str(caught.value)


def test_purged_operation_is_refused(tmp_path: Path) -> None:
    """Also when only one of its files is gone, by a purge, a broker or somebody."""
    log_dir = fixtures.copy_before("delete-size", tmp_path)
    retain("delete-size", log_dir)
    (log_dir / f"t-0/{34:020d}.index.deleted").unlink()
    assert "purged" in refused(log_dir)
    run("purge", log_dir, "--now", "1770000000000")
    assert "on record" in refused(log_dir)


def test_retired_file_of_another_origin_is_refused(tmp_path: Path) -> None:
    """A broker deleted ours, and retired one of the same name later."""
    log_dir = fixtures.copy_before("delete-size", tmp_path)
    retain("delete-size", log_dir)
    (log_dir / f"t-0/{34:020d}.log.deleted").write_bytes(b"another")
    assert "not the one" in refused(log_dir)


def test_log_without_an_operation_is_refused(tmp_path: Path) -> None:
    """There is nothing to undo."""
    assert "on record" in refused(fixtures.copy_before("delete-size", tmp_path))


def test_log_that_moved_on_is_refused(tmp_path: Path) -> None:
    """Segments, the log start offset or the leader epochs are not as the retention left them."""
    log_dir = fixtures.copy_before("delete-size", tmp_path)
    retain("delete-size", log_dir)
    epochs = log_dir / "t-0/leader-epoch-checkpoint"
    kept = epochs.read_bytes()
    epochs.write_bytes(b"0\n1\n7 184\n")
    assert "leader epochs" in refused(log_dir)
    epochs.write_bytes(kept)
    start = log_dir / "log-start-offset-checkpoint"
    start.write_bytes(b"0\n1\nt 0 200\n")
    assert "log start offset" in refused(log_dir)
    start.write_bytes(b"0\n0\n")
    for path in (log_dir / "t-0").glob(f"{184:020d}.*"):
        path.unlink()
    assert "begin with" in refused(log_dir)


def test_cleaned_segment_that_changed_is_refused(tmp_path: Path) -> None:
    """The old segments would hide what was done since."""
    log_dir = fixtures.copy_before("basic-none", tmp_path)
    clean("basic-none", log_dir)
    ledger = log_dir / "t-0/.logwright/deletions.jsonl"
    lines = list(parse_lines(ledger.read_bytes()))
    for line in lines:
        line["facts"]["log_bytes"] += 1
    ledger.write_bytes(b"".join(serialize_line(line) for line in lines))
    assert "not as the swap left it" in refused(log_dir)


def test_record_with_a_wrong_byte_is_refused(tmp_path: Path) -> None:
    """What an undo would do by it cannot be known."""
    log_dir = fixtures.copy_before("basic-none", tmp_path)
    clean("basic-none", log_dir)
    ledger = log_dir / "t-0/.logwright/deletions.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"cleaner":', b'"cleanex":'))
    assert "on record" in refused(log_dir)


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_record_without_an_index_is_refused(tmp_path: Path, suffix: str) -> None:
    """A segment that comes back without its indexes would be rebuilt, or read wrongly."""
    log_dir = fixtures.copy_before("basic-none", tmp_path)
    clean("basic-none", log_dir)
    ledger = log_dir / "t-0/.logwright/deletions.jsonl"
    lines = list(parse_lines(ledger.read_bytes()))
    lines[-1]["files"].remove(next(n for n in lines[-1]["files"] if f".{suffix}." in n))
    ledger.write_bytes(b"".join(serialize_line(line) for line in lines))
    assert "not complete" in refused(log_dir)


def test_undo_gives_the_producers_back(tmp_path: Path) -> None:
    """Every record was deleted, and a recovery dropped all producer snapshots, as Kafka does: the
    records that come back bring their producers along.
    """
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1")], producer_id=7, sequence=3)
    log.segment(1).batch(1, [("b", "2")], producer_id=8, sequence=5)
    log.write(producers=True)
    settings = ("--config", "cleanup.policy=delete", "--config", "retention.ms=-1")
    run("retain", log.log_dir, *settings, "--delete-records-before", "2")
    (log.directory / f"{0:020d}.index").write_bytes(b"")
    run("recover", log.log_dir)
    assert [] == list(log.directory.glob("*.snapshot"))
    run("undo", log.log_dir)
    (snapshot,) = log.directory.glob("*.snapshot")
    known = parse_snapshot(snapshot.read_bytes(), snapshot)
    assert [(7, 3), (8, 5)] == [(one.producer_id, one.last_sequence) for one in known]
