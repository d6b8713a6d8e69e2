"""``logwright offsets``: what it finds, and worlds in which each finding would be false."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Answer, call, tree
from tests.log_builder import START_MS, LogBuilder, Pair

OFFSETS, STATES = "__consumer_offsets-0", "__transaction_state-0"
HOUR, DAY = 3_600_000, 86_400_000
COMPLETE, ONGOING = 4, 1
PRIVATE = "a-private-group"


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def commit(group: str, at_ms: int, *, offset: int = 5, partition: int = 0) -> Pair:
    """A committed offset, version 3 of its value."""
    key = struct.pack(">h", 1) + text(group) + text("t") + struct.pack(">i", partition)
    value = struct.pack(">hqi", 3, offset, 1) + text("m" * 50) + struct.pack(">q", at_ms)
    return key, value


def group(name: str, at_ms: int, *, member: bool) -> Pair:
    """The metadata of a classic group, version 3."""
    key = struct.pack(">h", 2) + text(name)
    value = struct.pack(">h", 3) + text("consumer") + struct.pack(">i", 1) + text("range")
    value += text("m") + struct.pack(">qi", at_ms, int(member))
    if member:
        value += text("m") + struct.pack(">h", -1) + text("c") + text("h")
        value += struct.pack(">iiii", 1, 1, 0, 0)
    return key, value


def state(
    name: str,
    producer_id: int,
    status: int,
    *,
    start_ms: int,
    update_ms: int,
    partitions: tuple[int, ...] = (),
) -> Pair:
    """The state of a transactional id, version 0."""
    key = struct.pack(">h", 0) + text(name)
    value = struct.pack(">hqhib", 0, producer_id, 0, 60_000, status)
    if partitions:
        value += struct.pack(">i", 1) + text("__consumer_offsets")
        value += struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    else:
        value += struct.pack(">i", -1)
    return key, value + struct.pack(">qq", update_ms, start_ms)


def stopped_at(log_dir: Path, at_ms: int, *, cleaned_ms: int | None = None) -> None:
    """The times of the files that show when a broker stopped, and when it last cleaned."""
    for path in log_dir.rglob("*"):
        os.utime(path, ns=(START_MS * 1_000_000,) * 2)
    os.utime(log_dir / "replication-offset-checkpoint", ns=(at_ms * 1_000_000,) * 2)
    if cleaned_ms is not None:
        os.utime(log_dir / "cleaner-offset-checkpoint", ns=(cleaned_ms * 1_000_000,) * 2)


def offsets(log_dir: Path, *words: str, now_ms: int = START_MS + 365 * DAY) -> Answer:
    return call("offsets", log_dir, "--now", now_ms, "--output", "json", *words)


def findings(answer: Answer) -> dict[str, dict[str, Any]]:
    return {line["kind"]: line for line in answer.lines if "kind" in line}


def of_log(answer: Answer, name: str = OFFSETS) -> dict[str, Any]:
    """The line of a log."""
    return next(
        line for line in answer.lines if line.get("topicPartition") == name and "bytesRead" in line
    )


def total(answer: Answer) -> dict[str, Any]:
    return answer.lines[-1]


def two_segments(tmp_path: Path, *, cleaner_checkpoint: int | None = None) -> LogBuilder:
    """A log whose sealed segments are dirty, unless they are marked as clean."""
    log = LogBuilder(tmp_path / "logs", OFFSETS)
    log.segment(0).batch(0, [commit("a", START_MS + n) for n in range(9)])
    log.segment(9).batch(9, [commit("a", START_MS + 10)])
    return log.write(cleaner_checkpoint=cleaner_checkpoint)


def test_a_dead_cleaner(tmp_path: Path) -> None:
    """It is due since its segment was sealed; nothing here was cleaned since."""
    log = two_segments(tmp_path)
    stopped_at(log.log_dir, START_MS + DAY, cleaned_ms=START_MS - DAY)
    before = tree(log.log_dir)
    answer = offsets(log.log_dir)
    assert 5 == answer.status
    assert before == tree(log.log_dir)
    (late,) = findings(answer).values()
    assert ("cleaner late", START_MS + 9) == (late["kind"], late["sinceMs"])
    assert "no log of this directory was cleaned since" in late["problem"]
    assert f"`logwright clean {log.log_dir} {OFFSETS} --yes`" == late["remedy"]


def test_a_segment_that_is_younger_than_the_next_one(tmp_path: Path) -> None:
    """It was not sealed before its own newest record."""
    log = LogBuilder(tmp_path / "logs", OFFSETS)
    times = [START_MS + HOUR] * 9
    log.segment(0).batch(0, [commit("a", START_MS)] * 9, timestamps=times)
    log.segment(9).batch(9, [commit("a", START_MS)], timestamps=[START_MS])
    log.write()
    stopped_at(log.log_dir, START_MS + DAY, cleaned_ms=START_MS)
    assert START_MS + HOUR == findings(offsets(log.log_dir))["cleaner late"]["sinceMs"]


def test_another_log_was_cleaned(tmp_path: Path) -> None:
    """The thread lives, and this log is marked, or waits."""
    log = two_segments(tmp_path)
    stopped_at(log.log_dir, START_MS + DAY, cleaned_ms=START_MS + HOUR)
    assert (
        "other logs were cleaned since" in findings(offsets(log.log_dir))["cleaner late"]["problem"]
    )


def test_a_broker_that_was_stopped_is_not_late(tmp_path: Path) -> None:
    """Its cleaner had no time, however long ago that was."""
    log = two_segments(tmp_path)
    stopped_at(log.log_dir, START_MS + HOUR)
    answer = offsets(log.log_dir)
    assert (0, {}) == (answer.status, findings(answer))
    assert of_log(answer)["eligible"]
    assert "cleaner late" in findings(offsets(log.log_dir, "--late", "30m"))


def test_a_clean_log_has_no_finding(tmp_path: Path) -> None:
    """Its dirty ratio is 0."""
    log = two_segments(tmp_path, cleaner_checkpoint=9)
    stopped_at(log.log_dir, START_MS + DAY)
    answer = offsets(log.log_dir)
    assert (0, {}) == (answer.status, findings(answer))
    assert of_log(answer)["bytes"] == of_log(answer)["bytesRead"]


def test_the_settings_say_why(tmp_path: Path) -> None:
    """A cleaner that is off, and a topic that is not compacted."""
    log = two_segments(tmp_path)
    stopped_at(log.log_dir, START_MS + DAY)
    properties = tmp_path / "server.properties"
    properties.write_text("log.cleaner.enable=false\n")
    answer = offsets(log.log_dir, "--server-properties", str(properties))
    assert (
        "The cleaner is off: log.cleaner.enable=false."
        in findings(answer)["cleaner late"]["problem"]
    )
    answer = offsets(log.log_dir, "--config", "cleanup.policy=delete")
    assert {"not compacted"} == set(findings(answer))


def open_transaction(tmp_path: Path, *states: Pair) -> LogBuilder:
    """A log with an open transaction of producer 7, and the states of a coordinator."""
    log = LogBuilder(tmp_path / "logs", OFFSETS)
    log.segment(0).batch(0, [commit("a", START_MS)], producer_id=7, transactional=True)
    log.segment(1).batch(1, [commit("a", START_MS + n) for n in range(9)])
    log.segment(10).batch(10, [commit("b", START_MS)])
    log.write(producers=True)
    if states:
        other = LogBuilder(tmp_path / "other", STATES)
        other.segment(0).batch(0, list(states))
        other.write()
    stopped_at(log.log_dir, START_MS + DAY)
    return log


@pytest.mark.parametrize(
    ("status", "updated", "partitions", "expected"),
    [
        (COMPLETE, HOUR, (), "hanging transaction"),
        (COMPLETE, DAY - 1, (), "transaction not judged"),
        (ONGOING, HOUR, (0,), "hanging transaction"),
        (ONGOING, HOUR, (1,), "hanging transaction"),
        (ONGOING, DAY - 1, (1,), "transaction not judged"),
    ],
)
def test_a_transaction_and_its_coordinator(
    tmp_path: Path, status: int, updated: int, partitions: tuple[int, ...], expected: str
) -> None:
    """The state of another directory decides; one that changed just now does not."""
    coordinated = state(
        "id-7", 7, status, start_ms=START_MS, update_ms=START_MS + updated, partitions=partitions
    )
    log = open_transaction(tmp_path, coordinated)
    answer = offsets(log.log_dir, str(tmp_path / "other"))
    (finding,) = findings(answer).values()
    assert expected == finding["kind"]
    assert (5 if expected == "hanging transaction" else 4) == answer.status
    assert (7, 0) == (finding["transaction"]["producerId"], finding["transaction"]["firstOffset"])
    assert finding["bytes"] == of_log(answer)["bytes"] - log.segments[2].content.__len__()
    assert finding["remedy"].endswith(
        "abort --topic __consumer_offsets --partition 0 --start-offset 0"
    )
    assert "id-7" not in answer.out
    assert "id-7" in offsets(log.log_dir, str(tmp_path / "other"), "--names").out


@pytest.mark.parametrize("order", [("other", "stale"), ("stale", "other")])
def test_the_newest_state_of_two_replicas_decides(tmp_path: Path, order: tuple[str, ...]) -> None:
    """A replica that was left long ago says that the transaction before has ended."""
    times = {"start_ms": START_MS, "update_ms": START_MS + DAY - 1000}
    log = open_transaction(tmp_path, state("id-7", 7, ONGOING, partitions=(0,), **times))
    stale = LogBuilder(tmp_path / "stale", STATES)
    ended = state("id-7", 7, COMPLETE, start_ms=START_MS - HOUR, update_ms=START_MS - HOUR)
    stale.segment(0).batch(0, [ended])
    stale.write()
    answer = offsets(log.log_dir, *(str(tmp_path / name) for name in order), "--late", "1d")
    assert (0, {}) == (answer.status, findings(answer))


def test_a_transaction_within_its_timeout(tmp_path: Path) -> None:
    """By its state, and by its age where there is not a state."""
    running = state(
        "id-7",
        7,
        ONGOING,
        start_ms=START_MS + DAY - 1000,
        update_ms=START_MS + DAY - 1000,
        partitions=(0,),
    )
    log = open_transaction(tmp_path, running)
    assert 0 == offsets(log.log_dir, str(tmp_path / "other")).status
    alone = offsets(log.log_dir)
    assert {"hanging transaction"} == set(findings(alone))
    assert "in no log of __transaction_state that was read" in alone.out
    stopped_at(log.log_dir, START_MS + HOUR)
    assert 0 == offsets(log.log_dir).status


@pytest.mark.parametrize(("over_ms", "hangs"), [(HOUR, False), (HOUR + 1, True)])
def test_a_transaction_just_beyond_its_timeout(
    tmp_path: Path, over_ms: int, *, hangs: bool
) -> None:
    """Its coordinator has as long to abort it as a cleaner may be late."""
    began = START_MS + DAY - 60_000 - over_ms
    coordinated = state(
        "id-7", 7, ONGOING, start_ms=began, update_ms=START_MS + DAY, partitions=(0,)
    )
    log = open_transaction(tmp_path, coordinated)
    answer = offsets(log.log_dir, str(tmp_path / "other"), "--late", "1h")
    assert hangs == ("hanging transaction" in findings(answer))


def test_a_corrupt_batch(tmp_path: Path) -> None:
    """With file, byte and offset; what was not read is counted, and nothing is said of groups."""
    log = LogBuilder(tmp_path / "logs", OFFSETS)
    log.segment(0).batch(0, [commit("a", START_MS)]).batch(1, [commit("b", START_MS)])
    log.segment(2).batch(2, [commit("c", START_MS)])
    log.write(cleaner_checkpoint=0)
    path = log.directory / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    stopped_at(log.log_dir, START_MS + 300 * DAY)
    answer = offsets(log.log_dir)
    assert 3 == answer.status
    half = len(content) // 2
    problems = findings(answer)
    assert (
        f"{path} at byte {half}, offset 1: the CRC of the record batch is wrong."
        in (problems["corrupt batch"]["problem"])
    )
    assert half == problems["corrupt batch"]["bytes"]
    assert "that alone does not stop it" in problems["corrupt batch"]["problem"]
    assert "a batch that the cleaner cannot read" not in problems["cleaner late"]["problem"]
    assert problems["cleaner late"]["remedy"].startswith(
        "Restore what is corrupt. `logwright clean"
    )
    assert "expired offsets" not in problems
    assert half == total(answer)["bytes"] - total(answer)["bytesRead"]


@pytest.mark.parametrize(("segment", "stops"), [(0, True), (2, False)])
def test_a_length_that_stops_the_cleaner(tmp_path: Path, segment: int, *, stops: bool) -> None:
    """Now, or once the active segment is sealed."""
    log = LogBuilder(tmp_path / "logs", OFFSETS)
    log.segment(0).batch(0, [commit("a", START_MS)]).batch(1, [commit("b", START_MS)])
    log.segment(2).batch(2, [commit("c", START_MS)]).batch(3, [commit("c", START_MS)])
    log.segment(4).batch(4, [commit("c", START_MS)])
    log.write(cleaner_checkpoint=0)
    (log.log_dir / "replication-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 2\n")
    path = log.directory / f"{segment:020}.log"
    content = bytearray(path.read_bytes())
    content[len(content) // 2 + 8 : len(content) // 2 + 12] = bytes(4)
    path.write_bytes(content)
    stopped_at(log.log_dir, START_MS + DAY)
    answer = offsets(log.log_dir, "--high-watermark", "checkpoint")
    assert 3 == answer.status
    problem = findings(answer)["corrupt batch"]["problem"]
    assert stops == ("cleans nothing of this log" in problem)
    late = findings(answer)["cleaner late"]["problem"]
    assert stops == ("a batch that the cleaner cannot read" in late)


def groups(tmp_path: Path) -> LogBuilder:
    """Old commits: of a group without metadata, of one with a member, of an aborted transaction;
    of one whose metadata changed; and a new commit.
    """
    log = LogBuilder(tmp_path / "logs", OFFSETS)
    segment = log.segment(0)
    segment.batch(0, [commit(PRIVATE, START_MS), commit("member", START_MS)])
    segment.batch(2, [group("member", START_MS, member=True), commit("late", START_MS)])
    segment.batch(4, [group("late", START_MS + 20 * DAY, member=False)])
    segment.batch(5, [commit("aborted", START_MS)], producer_id=1, transactional=True)
    segment.marker(6, 1, "abort")
    segment.batch(7, [commit("deleted", START_MS)])
    segment.batch(8, [(commit("deleted", START_MS)[0], None)])
    segment.batch(9, [commit("new", START_MS + 20 * DAY)])
    log.write(producers=True)
    stopped_at(log.log_dir, START_MS + 21 * DAY)
    return log


def test_expired_offsets(tmp_path: Path) -> None:
    """Only a group without members that neither committed nor changed for a week."""
    log = groups(tmp_path)
    answer = offsets(log.log_dir, "--names")
    (expired,) = findings(answer).values()
    assert ("expired offsets", START_MS) == (expired["kind"], expired["sinceMs"])
    assert expired["problem"].startswith("1 committed offsets of 1 groups without members")
    rows = {line["name"]: line for line in answer.lines if "rank" in line}
    assert (1, False) == (rows[PRIVATE]["commits"], rows[PRIVATE]["metadata"])
    assert (True, True) == (rows["member"]["members"], rows["member"]["metadata"])
    assert (0, 0) == (rows["aborted"]["liveRecords"], rows["deleted"]["liveRecords"])
    properties = tmp_path / "server.properties"
    properties.write_text("offsets.retention.minutes=100000\n")
    assert 0 == offsets(log.log_dir, "--server-properties", str(properties)).status


def test_names_only_on_request(tmp_path: Path) -> None:
    """In neither form; the number of groups that are shown is limited."""
    log = groups(tmp_path)
    assert PRIVATE not in offsets(log.log_dir).out
    shown = call("offsets", log.log_dir)
    assert PRIVATE not in shown.out + shown.err
    assert PRIVATE in call("offsets", log.log_dir, "--names").out
    assert 2 == sum("rank" in line for line in offsets(log.log_dir, "--top", "2").lines)


def test_committed_by_a_transaction(tmp_path: Path) -> None:
    """From its marker on; before it the offset waits."""
    log = LogBuilder(tmp_path / "logs", OFFSETS)
    segment = log.segment(0)
    segment.batch(0, [commit("a", START_MS)], producer_id=1, transactional=True)
    segment.batch(1, [commit("b", START_MS)], producer_id=2, transactional=True)
    segment.marker(2, 1, "commit")
    log.write(producers=True)
    stopped_at(log.log_dir, START_MS + 1)
    rows = {line["name"]: line for line in offsets(log.log_dir, "--names").lines if "rank" in line}
    assert (1, False) == (rows["a"]["commits"], rows["a"]["pending"])
    assert (0, True) == (rows["b"]["commits"], rows["b"]["pending"])


def test_a_record_that_is_not_known(tmp_path: Path) -> None:
    """It may be of a member, so no group is called expired."""
    log = LogBuilder(tmp_path / "logs", OFFSETS)
    log.segment(0).batch(0, [commit("a", START_MS), (b"\x00\x63", b"\x00\x00")])
    log.write()
    stopped_at(log.log_dir, START_MS + 300 * DAY)
    answer = offsets(log.log_dir)
    assert (4, {}) == (answer.status, findings(answer))
    assert 1 == total(answer)["undecodedRecords"]


def test_nothing_checked_is_not_passed(tmp_path: Path) -> None:
    """A directory without these topics, and a log that cannot be examined."""
    log = LogBuilder(tmp_path / "logs", "t-0")
    log.segment(0).batch(0, [("a", "b")])
    log.write()
    answer = offsets(log.log_dir)
    assert (5, True) == (answer.status, "has no partition of __consumer_offsets" in answer.err)
    other = two_segments(tmp_path / "two", cleaner_checkpoint=9)
    (other.log_dir / ".kafka_cleanshutdown").unlink()
    answer = offsets(other.log_dir)
    assert 5 == answer.status
    assert 1 == total(answer)["failedLogs"]
