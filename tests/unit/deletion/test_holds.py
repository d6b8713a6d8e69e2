"""What is remembered of a log goes with it: a new topic of its name is not held."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logwright.config.kept import keep_topics, read_kept
from logwright.deletion.commit import (
    delete_log,
    find_deleted,
    finish_deletion,
    purge_deleted,
    restore_log,
)
from logwright.errors import CorruptBatch, UnreadableFile
from logwright.format.kept_topics import KEPT_FILE, KeptTopic
from logwright.format.names import TopicPartition
from logwright.state.file import STATE_FILE
from logwright.state.hold import holds, quarantine_failure
from logwright.state.model import Pause
from logwright.state.store import change_state, read_state
from logwright.units import TimestampMs
from tests.fixtures import copy_before

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW = TimestampMs(1_760_000_100_000)
DELAY_MS = 60_000


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log in quarantine and paused by two, one of them for a time; another one paused."""
    log_dir = copy_before("basic-none", tmp_path)
    hold(log_dir, T0)
    change_state(log_dir, T1, lambda now: now.with_pause(pause("ops")))
    return log_dir


def pause(owner: str) -> Pause:
    return Pause(owner=owner, reason="why", since_ms=NOW, expires_at_ms=None)


def hold(log_dir: Path, partition: TopicPartition) -> None:
    quarantine_failure(log_dir, partition, CorruptBatch("its CRC is wrong."), NOW)
    change_state(log_dir, partition, lambda now: now.with_pause(pause("ops")))


def test_a_deletion_takes_pauses_and_quarantine_away(log_dir: Path) -> None:
    """Those of the deleted log; an undo does not bring them back."""
    delete_log(log_dir, T0, now_ms=NOW)
    assert {T1} == read_state(log_dir).keys()
    restore_log(log_dir, find_deleted(log_dir, T0))
    assert {T1} == holds(log_dir, NOW).keys()


def test_an_interrupted_deletion_is_finished_with_them(log_dir: Path) -> None:
    """Finishing it, or the purge, takes away what is remembered of a log that is not there."""
    delete_log(log_dir, T0, now_ms=NOW)
    hold(log_dir, T0)
    finish_deletion(log_dir, T0)
    assert {T1} == read_state(log_dir).keys()
    hold(log_dir, T0)
    purge_deleted(log_dir, now_ms=TimestampMs(NOW + DELAY_MS), delay_ms=DELAY_MS)
    assert {T1} == read_state(log_dir).keys()


def test_a_new_log_of_the_name_keeps_its_own(log_dir: Path) -> None:
    """The purge of the deleted one does not touch it."""
    delete_log(log_dir, T0, now_ms=NOW)
    (log_dir / "t-0").mkdir()
    hold(log_dir, T0)
    purge_deleted(log_dir, now_ms=TimestampMs(NOW + DELAY_MS), delay_ms=DELAY_MS)
    assert {T0, T1} == holds(log_dir, NOW).keys()


def test_a_malformed_state_file_stops_a_deletion(log_dir: Path) -> None:
    """Before anything is changed."""
    (log_dir / STATE_FILE).write_text("{")
    with pytest.raises(UnreadableFile):
        delete_log(log_dir, T0, now_ms=NOW)
    assert (log_dir / "t-0").is_dir()
    assert [] == list(log_dir.glob("*-delete"))


def test_the_last_log_of_a_topic_takes_its_kept_settings_away(log_dir: Path) -> None:
    """A new topic of that name does not inherit them; those of other topics stay."""
    keep_topics(log_dir, {"t": KeptTopic(configs={"retention.ms": "1"}), "u": KeptTopic()})
    shutil.copytree(log_dir / "t-0", log_dir / "t-1")
    delete_log(log_dir, T0, now_ms=NOW)
    assert {"t", "u"} == read_kept(log_dir).keys()
    delete_log(log_dir, T1, now_ms=NOW)
    assert {"u"} == read_kept(log_dir).keys()


def test_a_malformed_file_of_kept_settings_stops_a_deletion(log_dir: Path) -> None:
    """Before anything is changed."""
    (log_dir / KEPT_FILE).write_text("{")
    with pytest.raises(UnreadableFile):
        delete_log(log_dir, T0, now_ms=NOW)
    assert (log_dir / "t-0").is_dir()
