"""What is remembered of partitions: pauses, quarantine, open moves; and the file that keeps it."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from logwright.errors import CorruptBatch, LogDirLocked, NotALogDir, QualityError, UnreadableFile
from logwright.format.names import TopicPartition
from logwright.state.file import STATE_FILE, parse_state, serialize_state
from logwright.state.hold import end_quarantine, holds, quarantine_failure
from logwright.state.model import (
    FIRST_RETRY_MS,
    LAST_RETRY_MS,
    NOTHING,
    OpenMove,
    PartitionState,
    Pause,
)
from logwright.state.store import change_state, read_state
from logwright.state.uncleanable import BYTES, COUNT, uncleanable_metrics
from logwright.units import TimestampMs
from tests.fixtures import copy_before

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW = TimestampMs(1_770_000_000_000)
LATER = TimestampMs(NOW + 60_000)


def pause(owner: str, *, expires_at_ms: int | None = None, reason: str = "why") -> Pause:
    until = None if expires_at_ms is None else TimestampMs(expires_at_ms)
    return Pause(owner=owner, reason=reason, since_ms=NOW, expires_at_ms=until)


def test_each_owner_has_one_pause() -> None:
    """Set twice and lifted once is lifted: no count can run away (KAFKA-9087)."""
    state = (
        NOTHING.with_pause(pause("a")).with_pause(pause("a", reason="still")).with_pause(pause("b"))
    )
    assert ["a", "b"] == [one.owner for one in state.pauses]
    assert ["b"] == [one.owner for one in state.without_pauses("a").pauses]
    assert () == state.without_pauses(None).pauses
    assert state == state.without_pauses("nobody")


def test_expired_pauses_do_not_count() -> None:
    """At its expiry a pause is over; without one it stays."""
    state = NOTHING.with_pause(pause("a", expires_at_ms=LATER))
    hold = state.hold(TimestampMs(LATER - 1))
    assert hold is not None
    assert "paused" == hold.kind
    assert "paused by a until 2026-02-02 02:41:00Z: why" == hold.sentence
    assert state.hold(LATER) is None
    assert state.without_expired(LATER) == NOTHING
    assert NOTHING.with_pause(pause("a")).hold(TimestampMs(2**62)) is not None


def test_quarantine_is_tried_again_later_each_time() -> None:
    """The delay doubles up to a day; the first failure's time stays."""
    state = NOTHING
    delays = []
    for _ in range(10):
        error = CorruptBatch("its CRC is wrong.", path=Path("x/1.log"), position=61)
        state = state.with_failure(error, NOW)
        assert state.quarantine is not None
        delays.append(state.quarantine.retry_at_ms - NOW)
    assert [FIRST_RETRY_MS << n for n in range(7)] == delays[:7]
    assert {LAST_RETRY_MS} == set(delays[7:])
    hold = state.hold(NOW)
    assert hold is not None
    assert "quarantined" == hold.kind
    assert "failures: 10" in hold.sentence
    assert "CorruptBatch in 1.log at byte 61: its CRC is wrong." in hold.sentence
    assert state.hold(TimestampMs(NOW + LAST_RETRY_MS)) is None
    assert state.hold(NOW, force=True) is None
    assert state.with_pause(pause("a")).hold(NOW, force=True) is not None


def test_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Every field; what nothing is remembered of is left out, and then the file."""
    state = {
        T0: NOTHING.with_pause(pause("a", expires_at_ms=LATER)).with_failure(
            QualityError("a check failed."), NOW
        ),
        T1: PartitionState(move=OpenMove(move_id="0" * 32, destination="/d", since_ms=NOW)),
        TopicPartition("u", 0): NOTHING,
    }
    written = {one: state[one] for one in (T0, T1)}
    assert written == parse_state(serialize_state(state), tmp_path)
    for partition, read in written.items():
        change_state(tmp_path, partition, lambda _, one=read: one)  # type: ignore[misc]
    assert written == read_state(tmp_path)
    for partition in written:
        change_state(tmp_path, partition, lambda _: NOTHING)
    assert {} == read_state(tmp_path)
    assert [] == list(tmp_path.iterdir())


GOOD = {"owner": "a", "reason": "r", "sinceMs": 1, "expiresAtMs": None}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"version":2,"partitions":{}}',
        b'{"version":1,"partitions":[]}',
        b'{"version":1,"partitions":{"no partition":{}}}',
        b'{"version":1,"partitions":{"t-00":{}}}',
        b'{"version":1,"partitions":{"t-0":7}}',
        b'{"version":1,"partitions":{"t-0":{"pauses":{}}}}',
        *(
            json.dumps({"version": 1, "partitions": {"t-0": {"pauses": [GOOD | bad]}}}).encode()
            for bad in (
                {"owner": 7},
                {"owner": "\x1b[2J"},
                {"reason": "x" * 1001},
                {"sinceMs": -1},
                {"sinceMs": True},
                {"sinceMs": 1.0},
                {"expiresAtMs": "1"},
                {"expiresAtMs": 2**63},
            )
        ),
        b'{"version":1,"partitions":{"t-0":{"move":{"id":"../x","destination":"/","sinceMs":1}}}}',
        b'{"version":1,"partitions":{"t-0":{"quarantine":{"cause":"x"}}}}',
        b"[" * 100_000,
    ],
)
def test_file_of_another_form_is_refused_as_a_whole(tmp_path: Path, content: bytes) -> None:
    """To guess could mean to clean what is paused."""
    (tmp_path / STATE_FILE).write_bytes(content)
    with pytest.raises(UnreadableFile, match="is not a state file"):
        read_state(tmp_path)
    with pytest.raises(UnreadableFile):
        change_state(tmp_path, T0, lambda now: now.with_pause(pause("a")))
    assert content == (tmp_path / STATE_FILE).read_bytes()


@pytest.mark.timeout(60)
def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    """No link is followed, no FIFO waited for."""
    (tmp_path / "elsewhere").write_bytes(b'{"version":1,"partitions":{}}')
    (tmp_path / STATE_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnreadableFile):
        read_state(tmp_path)
    (tmp_path / STATE_FILE).unlink()
    os.mkfifo(tmp_path / STATE_FILE)
    with pytest.raises(UnreadableFile):
        read_state(tmp_path)
    with pytest.raises(NotALogDir):
        read_state(tmp_path / "missing")


def test_changes_from_many_threads_are_all_kept(tmp_path: Path) -> None:
    """The file is read, changed and replaced by one at a time."""
    errors: list[LogDirLocked] = []

    def work(number: int) -> None:
        try:
            for _ in range(5):
                partition = TopicPartition("t", number)
                change_state(tmp_path, partition, lambda now: now.with_pause(pause(f"{number}")))
                change_state(tmp_path, T0, lambda now: now.with_pause(pause(f"all-{number}")))
        except LogDirLocked as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == errors
    state = read_state(tmp_path)
    assert {T0, *(TopicPartition("t", number) for number in range(1, 5))} == set(state)
    assert [f"all-{number}" for number in range(1, 5)] == [one.owner for one in state[T0].pauses]


def test_only_what_fails_again_is_put_into_quarantine(tmp_path: Path) -> None:
    """A lock or a full disk goes away by itself; wrong bytes do not."""
    assert quarantine_failure(tmp_path, T0, LogDirLocked("held."), NOW) is None
    assert {} == holds(tmp_path, NOW)
    quarantine_failure(tmp_path, T0, CorruptBatch("bad \x1b[2J bytes."), NOW)
    assert "quarantined" == holds(tmp_path, NOW)[T0].kind
    assert "\x1b" not in (tmp_path / STATE_FILE).read_text()
    assert {} == holds(tmp_path, NOW, force=True)
    end_quarantine(tmp_path, T0)
    assert {} == read_state(tmp_path)


def test_uncleanable_bytes_are_those_of_the_dirty_sealed_segments(tmp_path: Path) -> None:
    """Kafka's two metrics, from the segment with the first dirty offset to the active one."""
    log_dir = copy_before("basic-none", tmp_path)
    assert {COUNT: 0, BYTES: 0} == uncleanable_metrics([log_dir])
    quarantine_failure(log_dir, T0, CorruptBatch("bad."), NOW)
    logs = sorted((log_dir / "t-0").glob("*.log"))
    sizes = [path.stat().st_size for path in logs]
    assert {COUNT: 1, BYTES: sum(sizes[:-1])} == uncleanable_metrics([log_dir])
    dirty = int(logs[2].stem)
    (log_dir / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {dirty}\n")
    assert {COUNT: 1, BYTES: sum(sizes[2:-1])} == uncleanable_metrics([log_dir, log_dir / "t-0"])


def test_a_partition_that_is_gone_is_not_counted_as_uncleanable(tmp_path: Path) -> None:
    """Whoever deleted it: its quarantine is still remembered, and there is nothing to clean."""
    log_dir = copy_before("basic-none", tmp_path)
    quarantine_failure(log_dir, T0, CorruptBatch("bad."), NOW)
    (log_dir / "t-0").rename(tmp_path / "away")
    assert T0 in read_state(log_dir)
    assert {COUNT: 0, BYTES: 0} == uncleanable_metrics([log_dir])
