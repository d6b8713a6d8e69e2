"""``logwright erase``: by the rules, and at once, in every kind of file of a log directory."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from logwright.errors import PreconditionError
from logwright.format.names import TopicPartition
from logwright.live_plans import end_plan, hold_plan, new_plan_id
from logwright.locks import lock_partition
from logwright.state.model import Pause
from logwright.state.store import change_state
from logwright.units import TimestampMs
from tests import metadata_builder as records
from tests.e2e.command import Answer, call
from tests.erasing import bytes_anywhere, keys_in, logs_of
from tests.log_builder import START_MS, LogBuilder
from tests.metadata_builder import MetadataBuilder, uuid_text

T0 = TopicPartition("t", 0)
ME: Final = "the-erased-key"
NOW: Final = START_MS + 10_000
HOUR_MS: Final = 3_600_000
ID: Final = "0123456789abcdef0123456789abcdef"
COMPACT: Final = (
    *("--config", "cleanup.policy=compact", "--config", "delete.retention.ms=1000"),
    *("--config", "file.delete.delay.ms=1000"),
)
DELETE: Final = ("--config", "cleanup.policy=delete", "--config", f"retention.ms={HOUR_MS}")


def made(tmp_path: Path, partition: str = "t-0") -> Path:
    """A log directory with one log, and a file of keys next to it."""
    log = LogBuilder(tmp_path / "logs", partition)
    log.segment(0).batch(0, [(ME, "1"), ("a", "2"), (ME, "3")])
    log.segment(3).batch(3, [("b", "4")])
    log.segment(4).batch(4, [(ME, "5"), ("c", None)])
    log.write()
    (tmp_path / "keys").write_text(f"{ME}\n")
    return log.log_dir


def erase(tmp_path: Path, *words: str | int, now_ms: int = NOW) -> Answer:
    """Call the command on `made`."""
    return call(
        *("erase", tmp_path / "logs", "--keys", tmp_path / "keys", "--now", now_ms),
        *("--output", "json", *words),
    )


def logs(answer: Answer) -> list[dict[str, Any]]:
    """What a call said of each log."""
    return [one for one in answer.lines if "topicPartition" in one or "directory" in one]


def left(answer: Answer) -> list[tuple[str, int, int, int]]:
    """What a call said that is left: path, number of records, the first and the last offset."""
    return [
        (line["left"], line["records"], line["firstOffset"], line["lastOffset"])
        for line in answer.lines
        if "left" in line
    ]


def outlook(answer: Answer) -> list[tuple[str, int, str, int | None]]:
    """By what, and until when, what is left goes: path, number of records, rule, and time."""
    return [
        (line["left"], line["records"], line["rule"], line["goneByMs"])
        for line in answer.lines
        if "left" in line
    ]


def test_one_replica_of_several_gets_no_tombstone(tmp_path: Path) -> None:
    """Only the leader appends. At once nothing is appended; nor is it known of several without the
    cluster's metadata.
    """
    log_dir = made(tmp_path)
    metadata = MetadataBuilder(log_dir)
    metadata.segment(
        0,
        [records.feature("metadata.version", 25), records.topic("t", 1)],
        [records.partition(1, 0, [1, 2, 3])],
    )
    (log_dir / "t-0/partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(1)}")
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    before = {path.name: path.read_bytes() for path in (log_dir / "t-0").iterdir()}
    for more in (("--yes",), ("--dry-run",)):
        refused = erase(tmp_path, *COMPACT, *more)
        assert PreconditionError.exit_status == refused.status
        assert "t-0 has 3 replicas (nodes 1, 2, 3), and only its leader appends" in refused.err
        assert "Produce the tombstones through the cluster: `logwright rolling` does" in refused.err
    after = {path.name: path.read_bytes() for path in (log_dir / "t-0").iterdir()}
    assert before == after
    shown = erase(tmp_path, *COMPACT, "--no-metadata", "--dry-run")
    assert 0 == shown.status, shown.err
    done = erase(tmp_path, *COMPACT, "--now-and-for-good", "--yes")
    assert 9 == done.status, done.err
    assert {"topic": "t", "brokersNotErased": [2, 3]} in done.lines


def test_by_the_rules_until_nothing_is_left(tmp_path: Path) -> None:
    """A tombstone is appended once; each run says what remains, by which rule and until when."""
    log_dir = made(tmp_path)
    first = erase(tmp_path, *COMPACT, "--yes")
    assert 8 == first.status, first.err
    (line,) = logs(first)
    assert (3, 1, True) == (line["records"], line["tombstones"], line["compacted"])
    assert [
        (f"t-0/{0:020d}.log", 1, "delete.retention.ms", None),
        (f"t-0/{0:020d}.log.deleted", 2, "file.delete.delay.ms", NOW + 1000),
        (f"t-0/{4:020d}.log.deleted", 2, "file.delete.delay.ms", NOW + 1000),
    ] == outlook(first)
    files = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
    again = erase(tmp_path, *COMPACT, "--yes")
    assert (0, False) == (logs(again)[0]["tombstones"], logs(again)[0]["compacted"])
    assert files == {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
    later = erase(tmp_path, *COMPACT, "--yes", now_ms=NOW + 1000)
    assert [(f"t-0/{0:020d}.log.1.deleted", 1, "file.delete.delay.ms", NOW + 2000)] == outlook(
        later
    )
    assert (8, [(f"t-0/{0:020d}.log.1.deleted", 1, 6, 6)]) == (later.status, left(later))
    last = erase(tmp_path, *COMPACT, "--yes", now_ms=NOW + 2000)
    assert (0, [], []) == (last.status, outlook(last), left(last))
    assert [] == bytes_anywhere(log_dir, ME.encode())
    assert [b"a", b"b"] == [key for key in keys_in(logs_of(log_dir / "t-0")) if key != b"c"]


def test_the_documented_commands(tmp_path: Path) -> None:
    """By the rules, and then at once: what the rules leave goes too."""
    log_dir, keys = made(tmp_path), tmp_path / "keys"
    by_rules = call("erase", log_dir, "--keys", keys, "--yes", "--now", NOW, *COMPACT)
    assert (8, True) == (
        by_rules.status,
        "delete.retention.ms; run this again after that" in by_rules.out,
    )
    now = call("erase", log_dir, "--keys", keys, "--now-and-for-good", "--yes", "--now", NOW)
    assert 0 == now.status, now.err
    assert "t-0: 1 records in 1 of 2 segments" in now.out
    assert [] == bytes_anywhere(log_dir, ME.encode())


def test_topics_that_are_not_compacted_keep_their_records(tmp_path: Path) -> None:
    """By the rules: until their retention; no tombstone is appended."""
    log_dir = made(tmp_path)
    before = logs_of(log_dir / "t-0")
    done = erase(tmp_path, *DELETE, "--yes")
    (line,) = logs(done)
    assert (3, 0, False) == (line["records"], line["tombstones"], line["compacted"])
    gone_ms = START_MS + HOUR_MS + 1 + 60_000
    assert [(gone_ms + 2, 2), (gone_ms + 5, 1)] == [(until, n) for _, n, _, until in outlook(done)]
    assert {"retention.ms"} == {rule for _, _, rule, _ in outlook(done)}
    assert before == logs_of(log_dir / "t-0")


def test_at_once_in_a_topic_that_is_not_compacted(tmp_path: Path) -> None:
    """The policy does not matter; other records and tombstones stay."""
    log_dir = made(tmp_path)
    done = erase(tmp_path, *DELETE, "--yes", "--now-and-for-good")
    (line,) = logs(done)
    assert (3, [0, 4], True) == (line["records"], line["segments"], line["rolled"])
    assert [b"a", b"b", b"c"] == keys_in(logs_of(log_dir / "t-0"))
    assert [] == bytes_anywhere(log_dir, ME.encode())
    undone = call("undo", log_dir, "t-0", "--yes", "--now", NOW)
    assert 5 == undone.status
    assert "it erased records permanently" in undone.err


@pytest.mark.parametrize("mode", [(), ("--now-and-for-good",)], ids=["rules", "at once"])
def test_dry_run_changes_nothing(tmp_path: Path, mode: tuple[str, ...]) -> None:
    """It says what would be erased."""
    log_dir = made(tmp_path)
    before = sorted((path, path.stat().st_mtime_ns) for path in log_dir.rglob("*"))
    done = erase(tmp_path, *COMPACT, "--dry-run", *mode)
    assert 0 == done.status, done.err
    assert (3, False) == (logs(done)[0]["records"], logs(done)[0]["erased"])
    assert before == sorted((path, path.stat().st_mtime_ns) for path in log_dir.rglob("*"))


def test_deleted_stray_and_future_logs(tmp_path: Path) -> None:
    """A deleted log with a match goes; stray and future logs are rebuilt; others stay."""
    log_dir = made(tmp_path)
    names = {mark: f"t-{number}.{ID}-{mark}" for number, mark in enumerate(MARKS, start=1)}
    for name in names.values():
        shutil.copytree(log_dir / "t-0", log_dir / name)
    other = LogBuilder(tmp_path / "other", "t-9")
    other.segment(0).batch(0, [("a", "1")])
    other.write()
    shutil.copytree(other.directory, log_dir / f"t-9.{ID}-delete")
    done = erase(tmp_path, *COMPACT, "--yes", "--now-and-for-good")
    assert 0 == done.status, done.err
    by_directory: dict[str, dict[str, Any]] = {
        line.get("directory", "t-0"): line for line in logs(done)
    }
    assert by_directory[names["delete"]]["removed"]
    assert not by_directory[f"t-9.{ID}-delete"]["removed"]
    assert (3, 3) == (
        by_directory[names["stray"]]["records"],
        by_directory[names["future"]]["records"],
    )
    assert [] == bytes_anywhere(log_dir, ME.encode())
    assert {"t-0", names["stray"], names["future"], f"t-9.{ID}-delete"} == {
        path.name for path in log_dir.iterdir() if path.is_dir()
    }
    for mark in ("stray", "future"):
        assert [b"a", b"b", b"c"] == keys_in(logs_of(log_dir / names[mark]))


MARKS: Final = ("delete", "stray", "future")


def test_by_the_rules_marked_logs_are_named(tmp_path: Path) -> None:
    """A deleted log until its delay, a stray one for ever."""
    log_dir = made(tmp_path)
    shutil.copytree(log_dir / "t-0", log_dir / f"t-1.{ID}-delete")
    shutil.copytree(log_dir / "t-0", log_dir / f"t-2.{ID}-stray")
    done = erase(tmp_path, *COMPACT, "--yes")
    files = [line for line in logs(done) if "directory" in line]
    assert [(f"t-1.{ID}-delete", 2), (f"t-2.{ID}-stray", 2)] == [
        (line["directory"], line["filesLeft"]) for line in files
    ]
    rules = {path.split("/")[0]: rule for path, _, rule, _ in outlook(done)}
    assert "log.segment.delete.delay.ms" == rules[f"t-1.{ID}-delete"]
    assert "" == rules[f"t-2.{ID}-stray"]


@pytest.mark.parametrize(("key", "status"), [(ME, 8), ("nobody", 0)])
@pytest.mark.parametrize("mark", ["stray", "future"])
def test_by_the_rules_no_marked_log_must_be_recovered(
    tmp_path: Path, mark: str, key: str, status: int
) -> None:
    """Nothing is done to it: a log without its indexes is searched, and that is all."""
    log_dir = made(tmp_path)
    shutil.rmtree(log_dir / "t-0")
    LogBuilder(log_dir, "t-0").write()
    other = LogBuilder(tmp_path / "other", "t-2")
    other.segment(0).batch(0, [(ME, "1"), ("a", "2")])
    target = log_dir / f"t-2.{ID}-{mark}"
    target.mkdir()
    (target / f"{0:020d}.log").write_bytes(other.segments[0].content)
    (tmp_path / "keys").write_text(f"{key}\n")
    done = erase(tmp_path, *COMPACT, "--yes")
    assert status == done.status, done.err
    left_there = [(f"{target.name}/{0:020d}.log", 1, "", None)]
    assert left_there * (status == 8) == outlook(done)
    assert [f"{0:020d}.log"] == [one.name for one in target.iterdir()]


def test_a_deleted_log_whose_topic_is_on_record(tmp_path: Path) -> None:
    """Its directory has a shortened name: it goes by the keys of its own topic, which exists."""
    long = "t" * 240
    log_dir = made(tmp_path, f"{long}-0")
    assert 0 == call("delete", log_dir, f"{long}-0", "--yes", "--now", NOW).status
    (deleted,) = (one for one in log_dir.iterdir() if one.is_dir())
    assert 255 == len(deleted.name)
    at_once = (*COMPACT, "--yes", "--now-and-for-good")
    other = erase(tmp_path, *at_once, "--topic", long[:-1])
    assert (9, True) == (other.status, deleted.exists())
    assert [{"topics": long[:-1], "matches": 0}] == [one for one in other.lines if "topics" in one]
    done = erase(tmp_path, *at_once, "--topic", long)
    assert (0, False) == (done.status, deleted.exists()), done.err


def test_pieces_that_cannot_be_read(tmp_path: Path) -> None:
    """They stay and are named, until they may go."""
    log_dir = made(tmp_path)
    cut = log_dir / "t-0" / ".logwright" / "cut" / "1-0"
    cut.mkdir(parents=True)
    piece = cut / f"{4:020d}.log.from-9"
    piece.write_bytes(b"half a batch")
    done = erase(tmp_path, *COMPACT, "--yes", "--now-and-for-good")
    name = f".logwright/cut/1-0/{piece.name}"
    assert [name] == logs(done)[0]["unreadable"]
    assert f"{name} stays" in done.err
    again = erase(tmp_path, *COMPACT, "--yes", "--now-and-for-good", "--purge-unreadable")
    assert [name] == logs(again)[0]["purged"]
    assert not piece.exists()


def test_only_some_topics(tmp_path: Path) -> None:
    """--topic names them; the others are not looked at."""
    log_dir = made(tmp_path)
    shutil.copytree(log_dir / "t-0", log_dir / "users-0")
    done = erase(tmp_path, *COMPACT, "--yes", "--now-and-for-good", "--topic", "regex:us.*")
    assert ["users-0"] == [line["topicPartition"] for line in logs(done)]
    holders = bytes_anywhere(log_dir, ME.encode())
    assert holders
    assert all(path.startswith("t-0/") for path in holders)


def test_keys_must_be_named(tmp_path: Path) -> None:
    """Neither a file nor stored requests: a usage error."""
    made(tmp_path)
    done = call("erase", tmp_path / "logs", "--yes")
    assert 2 == done.status
    assert "--keys FILE, or --requests DIR" in done.err


def test_paused_log_is_skipped(tmp_path: Path) -> None:
    """A pause keeps it as it is."""
    log_dir = made(tmp_path)
    before = logs_of(log_dir / "t-0")
    held = Pause(owner="me", reason="r", since_ms=TimestampMs(NOW), expires_at_ms=None)
    change_state(log_dir, T0, lambda one: one.with_pause(held))
    done = erase(tmp_path, *COMPACT, "--yes", "--now-and-for-good")
    assert 8 == done.status
    assert before == logs_of(log_dir / "t-0")
    assert "skipped" in done.err
    assert [(f"t-0/{0:020d}.log", 2, 0, 2), (f"t-0/{4:020d}.log", 1, 4, 4)] == left(done)


def test_others_are_waited_for(tmp_path: Path) -> None:
    """A log on which another process works, or of which one has staged output, is not changed."""
    log_dir = made(tmp_path)
    before = logs_of(log_dir / "t-0")
    with lock_partition(log_dir, T0):
        done = erase(tmp_path, *COMPACT, "--yes", "--now-and-for-good")
    assert 5 == done.status
    plan_id = new_plan_id(TimestampMs(NOW))
    (log_dir / "t-0" / ".logwright" / "staging" / plan_id).mkdir(parents=True)
    hold_plan(log_dir, plan_id)
    try:
        done = erase(tmp_path, *COMPACT, "--yes", "--now-and-for-good")
    finally:
        end_plan(log_dir, plan_id)
    assert 5 == done.status
    assert "staged output" in done.err
    assert before == logs_of(log_dir / "t-0")


@pytest.mark.parametrize("mode", [("--now-and-for-good", *COMPACT), COMPACT])
def test_other_replicas_are_named(tmp_path: Path, mode: tuple[str, ...]) -> None:
    """By the cluster's metadata: they still have the records."""
    log_dir = made(tmp_path)
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    metadata = MetadataBuilder(log_dir)
    metadata.segment(0, [records.topic("t", 1), records.partition(1, 0, [1, 2, 3])])
    done = erase(tmp_path, *mode, "--yes")
    assert 9 == done.status, done.err
    assert {"topic": "t", "brokersNotErased": [2, 3]} in done.lines


@pytest.mark.parametrize("mode", [(), ("--now-and-for-good",)], ids=["rules", "at once"])
def test_what_is_in_files_of_others_is_named(tmp_path: Path, mode: tuple[str, ...]) -> None:
    """Copies under names that are not Kafka's stay: they are named by offsets, never by the key."""
    log_dir = made(tmp_path)
    copies = ["t-0/old.log.bak", f"backup/{0:020d}.log"]
    for name in copies:
        (log_dir / name).parent.mkdir(exist_ok=True)
        shutil.copy(log_dir / "t-0" / f"{0:020d}.log", log_dir / name)
    (log_dir / "t-0" / "notes.txt").write_text(ME)
    done = erase(tmp_path, *COMPACT, "--yes", *mode)
    assert 9 == done.status
    assert {(name, 2, 0, 2) for name in copies} <= {*left(done)}
    assert ["t-0/notes.txt"] == [one["notSearched"] for one in done.lines if "notSearched" in one]
    assert ME not in done.out + done.err
    (log_dir / "t-0" / "notes.txt").unlink()
    assert 8 == erase(tmp_path, *COMPACT, "--yes", *mode).status


@pytest.mark.parametrize("mode", [(), ("--now-and-for-good",)], ids=["rules", "at once"])
def test_nothing_to_erase(tmp_path: Path, mode: tuple[str, ...]) -> None:
    """It is said plainly, and everything was searched."""
    made(tmp_path)
    (tmp_path / "keys").write_text("nobody\n")
    for words in ((), ("--dry-run",)):
        done = call(
            *("erase", tmp_path / "logs", "--keys", tmp_path / "keys", "--now", NOW, "--yes"),
            *(*COMPACT, *mode, *words),
        )
        assert 0 == done.status, done.err
        assert "No log has a record of these keys" in done.out


@pytest.mark.parametrize("words", [(), ("--now-and-for-good",), ("--dry-run",)])
def test_topics_that_nothing_has(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A name with a typing error does not end with 0."""
    made(tmp_path)
    done = erase(tmp_path, *COMPACT, "--yes", "--topic", "tt", *words)
    assert 9 == done.status
    assert {"topics": "tt", "matches": 0} in done.lines


def test_tables_hold_the_person_until_their_next_update(tmp_path: Path) -> None:
    """A table of the policies is named with its rows and how long old versions are kept."""
    log_dir = made(tmp_path)
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "topics.yml").write_text(
        "version: 1\ntopics:\n- name: t\n  cleanup.policy: compact\n  table:\n    format: delta\n"
        f"    path: {tmp_path / 'table'}\n    keep_versions_ms: 7000\n"
        "    key: {format: string}\n    value: {format: string}\n"
    )
    at_once = ("--policies", policies, "--now-and-for-good", "--yes")
    missing = erase(tmp_path, *at_once, "--dry-run")
    assert 0 == missing.status, missing.err
    update = call(
        *("latest", log_dir, "t", "--to", tmp_path / "table", "--format", "delta"),
        *("--key", "string", "--value", "string", *COMPACT, "--now", NOW),
    )
    assert 0 == update.status, update.err
    for words, until in ((at_once[:2], (7000, NOW + 14_000)), (at_once, (None, None))):
        done = erase(tmp_path, *words, "--yes")
        assert done.status in {8, 9}
        (table,) = [one for one in done.lines if "rows" in one]
        assert (1, 1, *until) == tuple(
            table[name] for name in ("rows", "files", "keepVersionsMs", "untilMs")
        )
    shutil.rmtree(tmp_path / "table")
    gone = erase(tmp_path, *at_once)
    assert (9, "it is not there, and was not searched") == (
        gone.status,
        next(one["problem"] for one in gone.lines if "table" in one),
    )


@pytest.mark.parametrize("of_a_broker", [True, False])
def test_whether_there_are_other_replicas_is_said(tmp_path: Path, *, of_a_broker: bool) -> None:
    """Without metadata nobody knows; not in a directory that no broker has made."""
    log_dir = made(tmp_path)
    if of_a_broker:
        (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    answer = erase(tmp_path, *COMPACT, "--yes")
    assert of_a_broker == ("Whether other brokers have replicas" in answer.err)
    assert any(one.get("tombstones") for one in logs(answer))
