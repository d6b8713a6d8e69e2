"""An erasure by tombstones: one that died before its note, and one of a replica."""

from __future__ import annotations

from pathlib import Path

from logwright.config.topic import parse_settings
from logwright.erasure.erase.by_tombstones import (
    append_tombstones,
    erase_by_rules,
    missing_tombstones,
)
from logwright.format.names import TopicPartition
from logwright.state.erasure_mark import Erasure, erased_keys
from logwright.units import TimestampMs
from tests.erasing import PlainKeys
from tests.found import SECRET, plain_records
from tests.log_builder import START_MS, LogBuilder

T0 = TopicPartition("t", 0)
NOW = TimestampMs(START_MS + 20_000)
LATER = TimestampMs(NOW + 5_000)
SETTINGS = parse_settings({"cleanup.policy": "compact"})
KEYS = PlainKeys([b"me", b"other", b"theirs", b"never"])


def short(key: bytes) -> str:
    """What a mark has of a key."""
    return SECRET.short(SECRET.hmac(key))


def erase(log: LogBuilder, now_ms: TimestampMs) -> int:
    """Erase; return how many tombstones were appended."""
    done = erase_by_rules(log.log_dir, T0, SETTINGS, KEYS, now_ms=now_ms)
    return 0 if done.appended is None else done.appended.records


def test_an_erasure_that_died_before_its_note_is_noted_by_the_next(tmp_path: Path) -> None:
    """With the time of its tombstones; a tombstone of a producer is not an erasure. A further run
    changes nothing.
    """
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [(b"me", b"1"), (b"other", b"2"), (b"theirs", b"3")])
    log.segment(3).batch(3, [(b"theirs", None), (b"a", b"4")])
    log.write()
    config, _ = SETTINGS
    tombstones = missing_tombstones(log.log_dir, T0, config, KEYS)
    assert append_tombstones(tombstones, config, now_ms=NOW) is not None
    assert erased_keys(log.directory) is None
    assert 0 == erase(log, LATER)
    noted = {short(key): Erasure(NOW, "by tombstones") for key in (b"me", b"other")}
    assert noted == erased_keys(log.directory)
    mark = log.directory / ".logwright/erased.json"
    stamp = mark.stat().st_mtime_ns
    assert 0 == erase(log, TimestampMs(LATER + 1))
    assert stamp == mark.stat().st_mtime_ns


def test_what_is_not_committed_replaces_nothing(tmp_path: Path) -> None:
    """A record beyond the high watermark may be gone after an election, and the committed one of
    its key with it. Of several replicas nothing is appended, and the log is compacted up to there.
    """
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [(b"me", b"1"), (b"a", b"2"), (b"me", None)])
    log.segment(3).batch(3, [(b"b", b"3")])
    log.segment(4).batch(4, [(b"a", b"4")]).batch(5, [(b"b", b"5")])
    log.write(high_watermark=4)
    done = erase_by_rules(log.log_dir, T0, SETTINGS, KEYS, now_ms=NOW, replicas=(1, 2, 3))
    assert (None, True) == (done.appended, done.committed is not None)
    kept = [
        record.offset
        for path in sorted(log.directory.glob("*.log"))
        for record in plain_records(path.read_bytes())
    ]
    assert [1, 2, 3, 4, 5] == kept, "only the first record of the key that is erased went"
