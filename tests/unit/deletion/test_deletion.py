"""Whole logs: deleted as Kafka does it, brought back, and purged with a reason for each."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from logwright.cli.main import main
from logwright.deletion.commit import delete_log, find_deleted, purge_deleted, restore_log
from logwright.erasure.find.elsewhere import places_elsewhere
from logwright.errors import CannotUndo, LogDirLocked, NotALogDir, UnreadableFile
from logwright.format.deleted_logs import (
    DeletedLog,
    parse_deletions,
    serialize_deletion,
    serialize_deletions,
    serialize_purging,
)
from logwright.format.names import (
    DELETE_DIRECTORY,
    DELETED_LOGS,
    TopicPartition,
    marked_directory_name,
    parse_deleted_directory_name,
)
from logwright.locks import lock_partition
from logwright.log.record_files import list_files
from logwright.units import TimestampMs
from tests import fixtures
from tests.comparison import CHECKPOINTS, read_checkpoint

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = TimestampMs(1_760_000_100_000)
DELAY_MS = 60_000


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two logs with entries in all four checkpoints."""
    directory = fixtures.copy_before("delete-records", tmp_path)
    shutil.copytree(directory / "t-0", directory / "t-1")
    for name in CHECKPOINTS:
        (directory / name).write_text("0\n2\nt 0 101\nt 1 102\n")
    return directory


def run(command: str, log_dir: Path, *more: str, status: int = 0) -> Result:
    arguments = [command, str(log_dir), "--yes", "--now", str(NOW_MS), *more]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert status == result.exit_code, result.output
    return result


def content(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file()
    }


def deleted(log_dir: Path) -> list[Path]:
    return sorted(log_dir.glob("*-delete"))


def purge(log_dir: Path, after_ms: int, *named: TopicPartition) -> list[tuple[str, bool, str]]:
    plans = purge_deleted(
        log_dir, now_ms=TimestampMs(NOW_MS + after_ms), delay_ms=DELAY_MS, named=named or None
    )
    return [(str(one.partition), one.goes, one.reason) for one in plans]


def test_deleted_log_has_kafkas_name_and_no_entries(log_dir: Path) -> None:
    """The files are as they were; the other log keeps its entries."""
    before = content(log_dir / "t-0")
    delete_log(log_dir, T0, now_ms=NOW_MS)
    (directory,) = deleted(log_dir)
    assert re.fullmatch(r"t-0\.[0-9a-f]{32}-delete", directory.name)
    assert not (log_dir / "t-0").exists()
    assert before == content(directory)
    for name in CHECKPOINTS:
        assert {"t-1": 102} == read_checkpoint(log_dir / name)
    assert [] == [path for path in log_dir.iterdir() if path.is_dir() and path.name[0] == "."]


def test_long_topic_is_cut_in_the_name() -> None:
    """At most 255 characters, by taking from the topic."""
    long = TopicPartition("x" * 249, 12)
    name = marked_directory_name(long, "0" * 32, DELETE_DIRECTORY)
    assert 255 == len(name)
    assert name.endswith(f"x-12.{'0' * 32}-delete")
    assert parse_deleted_directory_name(name) == TopicPartition("x" * (255 - 43), 12)
    assert parse_deleted_directory_name("t-0") is None
    assert parse_deleted_directory_name(f"t-0.{'0' * 32}-stray") is None


def test_record_round_trip() -> None:
    """Torn lines are ignored; what is being purged is marked."""
    deletion = DeletedLog(at_ms=5, directory="d", partition=T0, checkpoints={"a": 1, "b": None})
    lines = b'\n{"at_ms":1,"dir' + serialize_deletion(deletion) + b"\n[]\n{}\n"
    assert {"d": deletion} == parse_deletions(lines)
    marked = parse_deletions(lines + serialize_purging("d") + serialize_purging("e"))["d"]
    assert marked.purging
    assert {"d": marked} == parse_deletions(serialize_deletions([marked]))


def test_restored_log_is_as_before(log_dir: Path) -> None:
    """Files, name and all checkpoint entries; the record is gone. Only the marker of the clean stop
    has lost its broker epoch.
    """
    before = content(log_dir)
    delete_log(log_dir, T0, now_ms=NOW_MS)
    restore_log(log_dir, find_deleted(log_dir, T0))
    after = content(log_dir)
    for files in (before, after):
        for name in (*CHECKPOINTS, ".lock"):
            files.pop(name, None)
    assert b"" == after[".kafka_cleanshutdown"][0]
    before[".kafka_cleanshutdown"] = after[".kafka_cleanshutdown"]
    assert before == after
    for name in CHECKPOINTS:
        assert {"t-0": 101, "t-1": 102} == read_checkpoint(log_dir / name)


def test_last_deletion_is_the_one_that_comes_back(log_dir: Path) -> None:
    """A log that was created and deleted again."""
    delete_log(log_dir, T0, now_ms=NOW_MS)
    shutil.copytree(log_dir / "t-1", log_dir / "t-0")
    (log_dir / "t-0/partition.metadata").write_text("version: 0\ntopic_id: second")
    with pytest.raises(CannotUndo, match="there is a log of that name"):
        find_deleted(log_dir, T0)
    delete_log(log_dir, T0, now_ms=TimestampMs(NOW_MS + 1))
    restore_log(log_dir, find_deleted(log_dir, T0))
    assert "second" in (log_dir / "t-0/partition.metadata").read_text()
    assert 1 == len(deleted(log_dir))


def test_purge_waits_for_the_brokers_delay(log_dir: Path) -> None:
    """By the record, whatever the directory's own times say."""
    delete_log(log_dir, T0, now_ms=NOW_MS)
    os.utime(deleted(log_dir)[0], ns=(0, 0))
    early = purge(log_dir, DELAY_MS - 1)
    reason = "deleted 59 s 999 ms ago, log.segment.delete.delay.ms is 1 min"
    assert [("t-0", False, reason)] == early
    assert 1 == len(deleted(log_dir))
    assert [True] == [goes for _, goes, _ in purge(log_dir, DELAY_MS)]
    assert [] == deleted(log_dir)
    assert not (log_dir / DELETED_LOGS).exists()
    assert (log_dir / "t-1").exists()


def test_log_that_a_broker_deleted_counts_by_its_own_times(log_dir: Path) -> None:
    """The later of the directory's times; the reason says whose deletion it is."""
    left = log_dir / f"t-1.{'a' * 32}-delete"
    (log_dir / "t-1").rename(left)
    changed_ms = left.stat().st_ctime_ns // 1_000_000
    (early,) = purge(log_dir, changed_ms - NOW_MS + DELAY_MS - 1)
    assert not early[1]
    assert "deleted by a broker" in early[2]
    (late,) = purge(log_dir, changed_ms - NOW_MS + DELAY_MS)
    assert late[1]
    assert not left.exists()


@pytest.mark.parametrize("foreign", ["notes.txt", "00000000000000000000.log.gz", "sub/", "link"])
def test_directory_with_something_foreign_stays(log_dir: Path, foreign: str) -> None:
    """No file goes that we cannot name the reason for."""
    delete_log(log_dir, T0, now_ms=NOW_MS)
    (directory,) = deleted(log_dir)
    if foreign == "sub/":
        (directory / "sub").mkdir()
    elif foreign == "link":
        (directory / "link").symlink_to(log_dir / "t-1")
    else:
        (directory / foreign).write_text("mine")
    before = content(log_dir)
    (reason,) = purge(log_dir, 10 * DELAY_MS)
    assert ("t-0", False) == reason[:2]
    assert f"{foreign.rstrip('/')}, which no log has" in reason[2]
    after = content(log_dir)
    assert before == after


def test_what_a_cleaning_left_goes_with_the_log(log_dir: Path) -> None:
    """Retired, staged and unfinished files, and our own directory."""
    work = log_dir / "t-0/.logwright/staging/plan"
    work.mkdir(parents=True)
    (work / "anything").write_text("staged")
    for name in ("log.deleted", "log.1.deleted", "index.swap", "timeindex.cleaned"):
        (log_dir / f"t-0/{0:020d}.{name}").write_text("x")
    delete_log(log_dir, T0, now_ms=NOW_MS)
    assert [True] == [goes for _, goes, _ in purge(log_dir, DELAY_MS)]
    assert [] == deleted(log_dir)


def test_begun_purge_is_finished_and_not_undone(log_dir: Path) -> None:
    """Once a file may be gone nothing comes back."""
    delete_log(log_dir, T0, now_ms=NOW_MS)
    (directory,) = deleted(log_dir)
    with (log_dir / DELETED_LOGS).open("ab") as record:
        record.write(serialize_purging(directory.name))
    (directory / f"{0:020d}.log").unlink()
    with pytest.raises(CannotUndo, match="purged"):
        find_deleted(log_dir, T0)
    purge(log_dir, DELAY_MS)
    assert [] == deleted(log_dir)
    with pytest.raises(CannotUndo, match="no deletion of it is on record"):
        find_deleted(log_dir, T0)


def test_stale_entries_go_with_the_purge(log_dir: Path) -> None:
    """A crash between the rename and the checkpoints left them; a recreated log keeps its own."""
    delete_log(log_dir, T0, now_ms=NOW_MS)
    delete_log(log_dir, T1, now_ms=NOW_MS)
    for name in CHECKPOINTS:
        (log_dir / name).write_text("0\n2\nt 0 101\nt 1 102\n")
    (log_dir / "t-1").mkdir()
    purge(log_dir, DELAY_MS)
    for name in CHECKPOINTS:
        assert {"t-1": 102} == read_checkpoint(log_dir / name)


def test_repeated_deletion_takes_the_entries_away(log_dir: Path) -> None:
    """What a crash after the rename left; the time of the deletion stays."""
    delete_log(log_dir, T0, now_ms=NOW_MS)
    for name in CHECKPOINTS:
        (log_dir / name).write_text("0\n2\nt 0 101\nt 1 102\n")
    told = json.loads(run("delete", log_dir, "t-0", "--output", "json", "--now", "5").stdout)
    assert (NOW_MS + DELAY_MS, deleted(log_dir)[0].name) == (
        told["purgeDueAtMs"],
        told["directory"],
    )
    for name in CHECKPOINTS:
        assert {"t-1": 102} == read_checkpoint(log_dir / name)


def test_only_named_logs_are_purged(log_dir: Path) -> None:
    """Others wait, also if they are due."""
    delete_log(log_dir, T0, now_ms=NOW_MS)
    delete_log(log_dir, T1, now_ms=NOW_MS)
    assert ["t-1"] == [name for name, _, _ in purge(log_dir, DELAY_MS, T1)]
    assert ["t-0"] == [path.name[:3] for path in deleted(log_dir)]
    assert ["t-0"] == [
        str(deletion.partition)
        for deletion in parse_deletions((log_dir / DELETED_LOGS).read_bytes()).values()
    ]


def test_refusals_change_nothing(log_dir: Path) -> None:
    """No such log, a link in its place, one that is worked on, a broken checkpoint."""
    with pytest.raises(NotALogDir):
        delete_log(log_dir, TopicPartition("u", 0), now_ms=NOW_MS)
    (log_dir / "v-0").symlink_to(log_dir / "t-1")
    with pytest.raises(UnreadableFile):
        delete_log(log_dir, TopicPartition("v", 0), now_ms=NOW_MS)
    (log_dir / "v-0").unlink()
    with lock_partition(log_dir, T0), pytest.raises(LogDirLocked):
        delete_log(log_dir, T0, now_ms=NOW_MS)
    (log_dir / CHECKPOINTS[0]).write_text("0\n5\n")
    before = content(log_dir)
    assert "the count is" in run("delete", log_dir, "t-0", status=3).output
    assert before == content(log_dir)


def test_commands_from_end_to_end(log_dir: Path) -> None:
    """delete, undo, delete, purge; each says what it did."""
    before = content(log_dir / "t-0")
    dry = json.loads(run("delete", log_dir, "t-0", "--dry-run", "--output", "json").stdout)
    assert (False, before) == (dry["deleted"], content(log_dir / "t-0"))
    broker = ("--config", "log.segment.delete.delay.ms=5000")
    topic = ("--config", "file.delete.delay.ms=1", "--output", "json")
    told = json.loads(run("delete", log_dir, "t-0", *broker, *topic).stdout)
    assert NOW_MS + 5000 == told["purgeDueAtMs"]
    dry_undo = json.loads(run("undo", log_dir, "t-0", "--dry-run", "--output", "json").stdout)
    assert (False, "delete") == (dry_undo["undone"], dry_undo["operation"])
    assert "restored t-0." in run("undo", log_dir, "t-0").stdout
    assert before == content(log_dir / "t-0")
    run("undo", log_dir, "t-0", status=5)
    run("delete", log_dir, "t-0", "t-1")
    early = run("purge", log_dir, *broker, "--now", str(NOW_MS + 4999))
    assert "kept: deleted 4 s 999 ms ago" in early.stdout
    late = run("purge", log_dir, "t-0", *broker, *topic, "--now", str(NOW_MS + 5000))
    assert [("t-0", True)] == [
        (line["topicPartition"], line["purged"])
        for line in map(json.loads, late.stdout.splitlines())
    ]
    assert ["t-1"] == [path.name[:3] for path in deleted(log_dir)]
    run("purge", log_dir, "u-0", status=5)
    run("delete", log_dir, status=2)
    run("delete", log_dir, "u-0", status=5)
    run("delete", log_dir, "__cluster_metadata-0", status=5)
    run("undo", log_dir, status=2)


def test_a_log_that_began_before_its_first_segment(log_dir: Path) -> None:
    """Its record stays when its files are purged: nothing else says that records are elsewhere."""
    (log_dir / "log-start-offset-checkpoint").write_text("0\n2\nt 0 101\nt 1 0\n")
    for path in (log_dir / "t-1").glob(f"{0:020d}.*"):
        path.rename(path.with_name(path.name.replace(f"{0:020d}", f"{5:020d}")))
    for partition in (T0, T1):
        delete_log(log_dir, partition, now_ms=NOW_MS)
    later = TimestampMs(NOW_MS + DELAY_MS)
    assert 2 == len([one for one in purge_deleted(log_dir, now_ms=later, delay_ms=0) if one.goes])
    left = parse_deletions((log_dir / DELETED_LOGS).read_bytes())
    assert [(T1, True)] == [(one.partition, one.elsewhere) for one in left.values()]
    inventory = list_files(log_dir)
    (place,) = places_elsewhere(log_dir, inventory, None)
    assert "t" == place.partition.topic
