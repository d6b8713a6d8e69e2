"""A whole log directory is searched, also while it changes, and whatever else is in it."""

from __future__ import annotations

import fcntl
import shutil
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from logwright.deletion.commit import delete_log
from logwright.erasure.find import scan as scanning
from logwright.erasure.find import search as searching
from logwright.erasure.find.result import SearchResult
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.keys import KeySet
from logwright.erasure.outlook.upkeep import Upkeep
from logwright.erasure.request import Request
from logwright.errors import LogDirLocked, NotALogDir, StalePlan
from logwright.format.batch import walk_batches
from logwright.format.deleted_logs import serialize_deletions
from logwright.format.names import DELETED_LOGS, TopicPartition
from logwright.units import TimestampMs
from tests.crash.filesystems import Crash
from tests.found import SECRET, at, find, settings
from tests.log_builder import LogBuilder
from tests.sequences.faults import Fault, interrupted

KEY = b"planted"


def a_log(log_dir: Path, partition: str = "t-0") -> LogBuilder:
    builder = LogBuilder(log_dir, partition)
    builder.segment(0).batch(0, [(KEY, "x"), ("other", "y")])
    builder.segment(2).batch(2, [(KEY, "z")])
    return builder.write()


def request(topics: str) -> KeySet:
    erasure_request = Request(
        id="r",
        topics=topics,
        hmac=SECRET.hmac(KEY),
        filter=SECRET.filter(KEY),
        received_at_ms=0,
        deadline_ms=0,
    )
    return KeySet.of(SECRET, requests=[erasure_request])


def test_files_that_are_renamed_meanwhile_are_found(tmp_path: Path) -> None:
    """The search begins again: a cleaning that retires a file cannot hide its records."""
    log_dir = tmp_path / "logs"
    path = a_log(log_dir).directory / f"{2:020d}.log"

    def rename(*_: object) -> None:
        if path.exists():
            path.rename(path.with_name(f"{2:020d}.log.deleted"))

    config = settings({"cleanup.policy": "compact"})
    result = search_log_dir(log_dir, KeySet.of(SECRET, clear=[KEY]), config, progress=rename)
    assert {"t-0/00000000000000000000.log", "t-0/00000000000000000002.log.deleted"} == {
        finding.path for finding in result.findings
    }


def test_a_directory_that_always_changes_is_refused(tmp_path: Path) -> None:
    """Nobody could say what was in it."""
    log_dir = tmp_path / "logs"
    directory = a_log(log_dir).directory

    def append(*_: object) -> None:
        with (directory / f"{2:020d}.log").open("ab") as file:
            file.write(b"\0")

    keys = KeySet.of(SECRET, clear=[KEY])
    with pytest.raises(StalePlan, match="change while they are searched"):
        search_log_dir(log_dir, keys, None, progress=append)


def test_a_running_broker_is_refused(tmp_path: Path) -> None:
    """As by every command."""
    log_dir = tmp_path / "logs"
    a_log(log_dir)
    with (log_dir / ".lock").open("wb") as broker:
        fcntl.fcntl(broker, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
        with pytest.raises(LogDirLocked):
            find(log_dir, [KEY])
    with pytest.raises(NotALogDir):
        find(tmp_path / "missing", [KEY])


ID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"t-0.{ID}-moved", 2),
        ("backup", 2),
        (f"{'t' * 210}-0.{ID}-delete", 0),
        (f"{'t' * 213}-0.{ID}-delete", 2),  # the longest name: a topic may be truncated
    ],
)
def test_directories_whose_topic_is_not_known(tmp_path: Path, name: str, expected: int) -> None:
    """A request for any topic counts there: of a move, a copy, a name that truncates its topic."""
    log_dir = tmp_path / "logs"
    a_log(log_dir, "u-0").directory.rename(log_dir / name)
    assert expected == len(find(log_dir, request("other")).findings)
    assert 2 == len(find(log_dir, request("regex:.*")).findings)


def test_a_request_counts_in_its_topics_only(tmp_path: Path) -> None:
    """In all kinds of files of the topic."""
    log_dir = tmp_path / "logs"
    a_log(log_dir)
    source = a_log(tmp_path / "other", "u-1").directory
    source.rename(log_dir / "u-1.0123456789abcdef0123456789abcdef-stray")
    counts = {
        topics: len(find(log_dir, request(topics)).findings)
        for topics in ("t", "u", "regex:[tu]", "regex:.", "v")
    }
    assert {"t": 2, "u": 2, "regex:[tu]": 4, "regex:.": 4, "v": 0} == counts


def test_a_log_that_must_be_recovered_first(tmp_path: Path) -> None:
    """Its records are found; what removes them is not known, and why is said."""
    log_dir = tmp_path / "logs"
    builder = a_log(log_dir)
    (log_dir / ".kafka_cleanshutdown").unlink()
    result = find(log_dir, [KEY])
    assert [("", None)] * 2 == [(one.rule, one.gone_by_ms) for one in result.findings]
    assert "not stopped cleanly" in result.undecided[builder.partition]
    assert [0, 2] == [offset for _, offset, _ in map(at, result.findings)]


def test_a_swap_that_is_needed_stays(tmp_path: Path) -> None:
    """It may be all that is left of its records; one that was not committed is purged."""
    log_dir = tmp_path / "logs"
    directory = a_log(log_dir).directory
    path = directory / f"{2:020d}.log"
    path.rename(path.with_suffix(".log.swap"))
    removed = {one.path: one.rule for one in find(log_dir, [KEY]).findings}
    assert "" == removed["t-0/00000000000000000002.log.swap"]
    path.write_bytes(path.with_suffix(".log.swap").read_bytes())
    path.with_suffix(".log.cleaned").write_bytes(path.read_bytes())
    findings = find(
        log_dir, [KEY], settings({}, now_ms=7, upkeep=Upkeep(run_interval_ms=3))
    ).findings
    removed_at = {one.path: (one.rule, one.gone_by_ms) for one in findings}
    assert ("purge", 10) == removed_at["t-0/00000000000000000002.log.swap"]
    assert ("purge", 10) == removed_at["t-0/00000000000000000002.log.cleaned"]


def test_patterns_are_numbered_after_the_keys(tmp_path: Path) -> None:
    """A pattern in another key's record is a finding of its own kind."""
    log_dir = tmp_path / "logs"
    a_log(log_dir)
    result = find(log_dir, [KEY], patterns=(b"oth",))
    assert [(0, "superseded"), (1, "value"), (0, "live")] == [
        (finding.request, finding.kind) for finding in result.findings
    ]


@pytest.mark.parametrize("at_call", range(1, 9))
def test_a_deletion_is_on_record_once_it_is_done(tmp_path: Path, at_call: int) -> None:
    """The record comes before the rename: alone it is of a log that is there as it was."""
    log = a_log(tmp_path / "logs")
    with interrupted(Fault("kill", at_call), tmp_path), suppress(Crash):
        delete_log(log.log_dir, TopicPartition("t", 0), now_ms=TimestampMs(1))
    is_live = log.directory.exists()
    assert (set() if is_live else {"t"}) == find(log.log_dir, [KEY]).deleted


def test_a_purge_that_has_begun_is_of_a_deleted_log(tmp_path: Path) -> None:
    """Its directory may be gone already."""
    log = a_log(tmp_path)
    partition = TopicPartition("t", 0)
    deletion = delete_log(tmp_path, partition, now_ms=TimestampMs(1))
    shutil.rmtree(tmp_path / deletion.directory)
    assert not log.directory.exists()
    for purging, expected in ((False, set()), (True, {"t"})):
        record = serialize_deletions([replace(deletion, purging=purging)])
        (tmp_path / DELETED_LOGS).write_bytes(record)
        assert expected == find(tmp_path, [KEY]).deleted


def large_logs(log_dir: Path) -> None:
    """Segments of many batches with hits; of one log some damaged one after the other, and torn."""
    for partition in ("t-0", "t-1"):
        builder = a_large_log(log_dir, partition)
    for base, start, length in ((1000, 7, 3), (2000, 20, 1)):
        path = builder.directory / f"{base:020d}.log"
        content = bytearray(path.read_bytes())
        spans = list(walk_batches(bytes(content)))
        for span in spans[start : start + length]:
            content[span.position + 40] ^= 1
        path.write_bytes(content[: -5 if base == 2000 else None])


def a_large_log(log_dir: Path, partition: str) -> LogBuilder:
    builder = LogBuilder(log_dir, partition)
    for base in (0, 1000, 2000):
        segment = builder.segment(base)
        for first in range(base, base + 60, 3):
            name = f"k{first % 7}"
            pairs = [(name, "v" * 50), (KEY if first % 2 else None, "of alice"), ("z", None)]
            segment.batch(first, pairs, codec=first % 5)
        segment.batch(base + 60, [("t", "x")], producer_id=1, transactional=True)
        segment.marker(base + 61, 1, "abort" if base else "commit")
    return builder.write()


@pytest.mark.parametrize("part_bytes", [1, 200, 1000])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_and_parts_do_not_change_the_result(
    part_bytes: int, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor its order: of findings, of what is named, and of the progress."""
    log_dir = tmp_path / "logs"
    large_logs(log_dir)
    keys = KeySet.of(SECRET, clear=[KEY, b"k3"])

    def search(threads: int) -> tuple[SearchResult, list[tuple[str, int, int]]]:
        progress: list[tuple[str, int, int]] = []
        result = search_log_dir(
            log_dir,
            keys,
            settings({"cleanup.policy": "compact"}),
            patterns=(b"alice",),
            progress=lambda *words: progress.append(words),
            threads=threads,
        )
        return result, progress

    expected, told = search(1)
    assert len(told) == expected.files
    assert 6 == len({one.path for one in expected.findings})
    assert {"t-1/00000000000000001000.log", "t-1/00000000000000002000.log"} == {
        part.path for part in expected.unsearched
    }
    monkeypatch.setattr(searching, "PART_BYTES", part_bytes)
    monkeypatch.setattr(scanning, "PART_BYTES", part_bytes)
    result, progress = search(threads)
    assert told == progress
    assert expected.findings == result.findings
    assert expected.unsearched == result.unsearched
    assert list(expected.looked.items()) == list(result.looked.items())
    assert (expected.files, expected.bytes) == (result.files, result.bytes)
    (live,), (other,) = expected.live.values(), result.live.values()
    for name in ("hits", "batches", "markers"):
        assert getattr(live, name).tolist() == getattr(other, name).tolist()


def test_a_file_that_cannot_be_read_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is read in parts."""
    log_dir = tmp_path / "logs"
    large_logs(log_dir)
    monkeypatch.setattr(searching, "PART_BYTES", 100)
    monkeypatch.setattr(scanning, "PART_BYTES", 100)

    keys = KeySet.of(SECRET, clear=[KEY])
    inventory = searching.list_files(log_dir)
    path = log_dir / "t-0" / f"{1000:020d}.log"
    path.write_bytes(path.read_bytes()[:300])
    reader = searching._Reader(())
    result = searching._Search(log_dir, keys, None, reader, lambda *_: None).run(inventory, 3)
    (part,) = [one for one in result.unsearched if one.path == "t-0/00000000000000001000.log"]
    assert (0, -1) == (part.position, part.bytes)


def test_a_file_is_mapped_until_its_last_part_is_read(tmp_path: Path) -> None:
    """One that another process deletes meanwhile takes space on the disk as long as it is mapped:
    there are the file that was read, and the next one.
    """
    log_dir = tmp_path / "logs"
    large_logs(log_dir)
    mapped: list[int] = []

    def count(_phase: str, _done: int, _total: int) -> None:
        maps = Path("/proc/self/maps").read_text().splitlines()
        mapped.append(sum(str(log_dir) in line for line in maps))

    result = search_log_dir(
        log_dir, KeySet.of(SECRET, clear=[KEY]), None, progress=count, threads=1
    )
    assert len(mapped) == result.files > 3
    assert {0, 1} == set(mapped)
