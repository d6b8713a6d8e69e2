"""What an append refuses, and what it leaves next to the log."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from logwright.config.topic import parse_settings
from logwright.errors import (
    CorruptLogError,
    LogDirLocked,
    PolicyError,
    RefusedRecord,
    StalePlan,
    UncleanLogDir,
)
from logwright.format.names import PARTITION_METADATA, TopicPartition
from logwright.ingest.commit import commit_append, plan_append, prepare_log_dir, stage_append
from logwright.ingest.model import AppendOptions, AppendPlan
from logwright.ingest.staging import make_directory, staging
from logwright.locks import lock_partition
from logwright.units import TimestampMs
from tests.comparison import read_checkpoint
from tests.fixtures import copy_before
from tests.ingested import PARTITION, Row, append, arrow, planned, read_batches
from tests.metadata_builder import uuid_text

NOW = 1_760_020_000_000
HOUR = 3_600_000


def row(time: int = NOW, key: bytes | None = b"k", value: bytes | None = b"v") -> Row:
    return key, value, [], time


@pytest.mark.parametrize(
    ("wrong", "pairs", "why"),
    [
        (row(key=None), {"cleanup.policy": "compact"}, "it has no key"),
        (row(-1), {}, "below 0"),
        (row(NOW + HOUR + 1), {}, r"message\.timestamp\.after\.max\.ms"),
        (row(NOW - 11), {"message.timestamp.before.max.ms": "10"}, r"before\.max\.ms"),
        (row(value=b"x" * 200), {"max.message.bytes": "200"}, r"more than max\.message\.bytes"),
        (row(value=b"x" * 200), {"segment.bytes": "200"}, r"more than segment\.bytes"),
    ],
)
def test_what_a_broker_refuses_is_refused(
    wrong: Row, pairs: dict[str, str], why: str, tmp_path: Path
) -> None:
    """With the record's number, no byte of it, and nothing appended."""
    log_dir = copy_before("basic-none", tmp_path)
    before = {p.name: p.read_bytes() for p in (log_dir / "t-0").iterdir()}
    with pytest.raises(RefusedRecord, match=rf"record 2 .*{why}"):
        append(log_dir, [row(), row(), wrong], pairs, now_ms=NOW)
    assert before == {p.name: p.read_bytes() for p in (log_dir / "t-0").iterdir()}


def test_the_limit_itself_is_accepted(tmp_path: Path) -> None:
    """An hour ahead to the millisecond."""
    log_dir = copy_before("basic-none", tmp_path)
    assert 1 == append(log_dir, [row(NOW + HOUR)], {}, now_ms=NOW).records


@pytest.mark.parametrize(("messages", "syncs"), [(1, 6), (2, 3), (4, 2), (None, 1)])
def test_the_log_is_synced_as_often_as_flush_messages_says(
    messages: int | None, syncs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of six batches of one record: after each, or after as many records; always at the end."""
    log_dir = copy_before("basic-none", tmp_path)
    active = max((log_dir / "t-0").glob("*.log")).stat()
    synced: list[int] = []
    fsync = os.fsync

    def noted(file: int) -> None:
        synced.append(os.fstat(file).st_ino)
        fsync(file)

    monkeypatch.setattr(os, "fsync", noted)
    pairs = {} if messages is None else {"flush.messages": str(messages)}
    rows = [row(NOW + number) for number in range(6)]
    append(log_dir, rows, pairs, now_ms=NOW, options=AppendOptions(batch_bytes=1))
    assert [1] * 6 == [len(batch.records) for batch in read_batches(log_dir, 500)]
    assert syncs == synced.count(active.st_ino)


def test_a_log_that_moved_is_not_appended_to(tmp_path: Path) -> None:
    """Between plan and commit another append, or somebody who holds the partition."""
    log_dir = copy_before("basic-none", tmp_path)
    plan = planned(log_dir, {}, now_ms=NOW, ingest_id="slow")
    assert isinstance(plan, AppendPlan)
    staged = stage_append(plan, [arrow([row()])])
    with lock_partition(log_dir, PARTITION), pytest.raises(LogDirLocked):
        commit_append(plan, staged)
    append(log_dir, [row()], {}, now_ms=NOW, ingest_id="quick")
    with pytest.raises(StalePlan):
        commit_append(plan, staged)
    assert 501 == append(log_dir, [], {}, now_ms=NOW, ingest_id="quick").end_offset


def test_an_unclean_directory_is_refused(tmp_path: Path) -> None:
    """A broker was killed there: it must recover the logs first."""
    log_dir = copy_before("basic-none", tmp_path)
    (log_dir / ".kafka_cleanshutdown").unlink()
    with pytest.raises(UncleanLogDir):
        append(log_dir, [row()], {}, now_ms=NOW)
    other = TopicPartition("new", 0)
    with pytest.raises(UncleanLogDir):
        planned(log_dir, {}, now_ms=NOW, partition=other)


def test_a_new_partition_has_its_topics_id(tmp_path: Path) -> None:
    """As another partition of the topic says it."""
    log_dir = copy_before("basic-none", tmp_path)
    (log_dir / "t-0" / PARTITION_METADATA).write_text("version: 0\ntopic_id: abc\n")
    plan = planned(log_dir, {}, now_ms=NOW, partition=TopicPartition("t", 1))
    assert isinstance(plan, AppendPlan)
    commit_append(plan, stage_append(plan, []))
    made = log_dir / "t-1"
    assert "version: 0\ntopic_id: abc\n" == (made / PARTITION_METADATA).read_text()
    assert (log_dir / "t-0").stat().st_mode == made.stat().st_mode
    stem = "0" * 20
    assert {f"{stem}.log", f"{stem}.index", f"{stem}.timeindex"} < {p.name for p in made.iterdir()}


def test_a_topic_id_that_is_known_is_for_new_partitions(tmp_path: Path) -> None:
    """Another partition's goes before it, and a log that is there gets none from it."""
    log_dir = copy_before("basic-none", tmp_path)
    (log_dir / "t-0" / PARTITION_METADATA).unlink(missing_ok=True)
    prepare_log_dir(log_dir)
    known = uuid_text(7)

    def planned_id(partition: TopicPartition) -> bytes | None:
        plan = plan_into(log_dir, partition, topic_id=known)
        return plan.topic_id

    assert planned_id(PARTITION) is None
    expected = f"version: 0\ntopic_id: {known}".encode()
    assert expected == planned_id(TopicPartition("t", 1))
    (log_dir / "t-0" / PARTITION_METADATA).write_bytes(b"version: 0\ntopic_id: abc")
    assert b"version: 0\ntopic_id: abc" == planned_id(TopicPartition("t", 1))
    assert plan_into(log_dir, TopicPartition("u", 0)).topic_id is None


def test_kept_offsets_leave_holes(tmp_path: Path) -> None:
    """A copy's first segment begins at its first offset; an ingest does not go into a copy."""
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    rows = [row(NOW + n, b"k%d" % n) for n in range(4)]
    options = AppendOptions(keep_offsets=True)
    offsets = [70, 71, 90, 95]
    done = append(log_dir, rows, {}, now_ms=NOW, options=options, offsets=offsets)
    assert (70, 96) == (done.first_offset, done.end_offset)
    (batch,) = read_batches(log_dir)
    assert (70, offsets) == (batch.segment, [record.offset for record in batch.records])
    more = append(log_dir, rows, {}, now_ms=NOW, options=options, offsets=[100, 101, 102, 103])
    assert 104 == more.end_offset
    with pytest.raises(RefusedRecord, match="not above the one before"):
        append(log_dir, rows, {}, now_ms=NOW, options=options, offsets=[100, 110, 111, 112])
    with pytest.raises(PolicyError, match="their own offsets"):
        planned(log_dir, {}, now_ms=NOW, ingest_id="other", options=options)


def test_a_journal_that_is_not_ours_stops_it(tmp_path: Path) -> None:
    """Without it nobody knows what was appended."""
    log_dir = copy_before("basic-none", tmp_path)
    append(log_dir, [row()], {}, now_ms=NOW)
    (log_dir / "t-0" / ".logwright" / "ingest.json").write_text("{")
    with pytest.raises(CorruptLogError, match="journal"):
        append(log_dir, [row()], {}, now_ms=NOW)


def plan_into(log_dir: Path, partition: TopicPartition, topic_id: str | None = None) -> AppendPlan:
    prepare_log_dir(log_dir)
    config, _ = parse_settings({})
    plan = plan_append(
        log_dir,
        partition,
        config,
        ingest_id="one",
        now_ms=TimestampMs(NOW),
        options=AppendOptions(),
        topic_id=topic_id,
    )
    assert isinstance(plan, AppendPlan)
    return plan


def stage_and_commit(plans: list[AppendPlan], last_row: Row) -> None:
    """The same record into each."""
    with staging(plans):
        staged = [stage_append(plan, [arrow([last_row])]) for plan in plans]
        assert all(plan.staging.is_dir() for plan in plans)
        for plan, output in zip(plans, staged, strict=True):
            commit_append(plan, output)


@pytest.mark.parametrize("there", [False, True], ids=["made", "there-before"])
def test_a_failed_staging_removes_the_directory_that_it_made(
    tmp_path: Path, *, there: bool
) -> None:
    """A broker takes an empty directory for a log; one that was there before stays."""
    log_dir = copy_before("basic-none", tmp_path)
    directory = log_dir / "new-0"
    if there:
        directory.mkdir()
    plan = plan_into(log_dir, TopicPartition("new", 0))
    with pytest.raises(RefusedRecord):
        stage_and_commit([plan], row(-1))
    assert there == directory.exists()


def test_a_failed_staging_leaves_what_others_put_there(tmp_path: Path) -> None:
    """Another ingest stages in the same directory."""
    log_dir = copy_before("basic-none", tmp_path)
    partition = TopicPartition("new", 0)
    plan, other = plan_into(log_dir, partition), plan_into(log_dir, partition)
    make_directory(other)
    staged = stage_append(other, [arrow([row()])])
    with pytest.raises(RefusedRecord):
        stage_and_commit([plan], row(-1))
    assert 1 == commit_append(other, staged).end_offset
    assert not plan.staging.exists()


def test_an_append_that_is_refused_leaves_nothing_staged(tmp_path: Path) -> None:
    """Of the partitions after the one that is locked neither staging nor directory stays."""
    log_dir = copy_before("basic-none", tmp_path)
    first, second = plan_into(log_dir, PARTITION), plan_into(log_dir, TopicPartition("t", 1))
    with lock_partition(log_dir, PARTITION):
        with pytest.raises(LogDirLocked):
            stage_and_commit([first, second], row())
        assert not first.staging.exists()
    assert not (log_dir / "t-1").exists()


def test_a_deleted_logs_checkpoints_do_not_count(tmp_path: Path) -> None:
    """A deletion that died before it took them away: the log that comes next begins at 0."""
    append(tmp_path, [row()], {}, now_ms=NOW)
    shutil.rmtree(tmp_path / "t-0")
    for name in ("log-start-offset", "recovery-point-offset", "cleaner-offset"):
        (tmp_path / f"{name}-checkpoint").write_text("0\n1\nt 0 70\n")
    made = append(tmp_path, [row()], {}, now_ms=NOW, ingest_id="two")
    assert (0, 1) == (made.first_offset, made.end_offset)
    assert {} == read_checkpoint(tmp_path / "log-start-offset-checkpoint")
    assert {} == read_checkpoint(tmp_path / "cleaner-offset-checkpoint")
    assert {"t-0": 1} == read_checkpoint(tmp_path / "recovery-point-offset-checkpoint")
