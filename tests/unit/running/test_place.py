"""A directory that a broker has open, as a place."""

from __future__ import annotations

import ctypes
import fcntl
import gc
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from logwright.batches.runtime import Throttle
from logwright.config.policies import Policies
from logwright.config.sources import DirectorySettings
from logwright.errors import (
    CorruptBatch,
    CorruptIndex,
    NotALogDir,
    StalePlan,
    UncleanLogDir,
    Unsettled,
)
from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import TopicPartition
from logwright.log.load import list_partitions, observe
from logwright.log.model import ReadableLog
from logwright.place.files import open_bytes, open_log_dir
from logwright.place.mapped import map_file
from logwright.place.model import Place
from logwright.reading import reading
from logwright.running import place as places
from logwright.running import snapshot as snapshots
from logwright.running import watermark
from logwright.running.broker import broker_process
from logwright.running.picture import Facts, Picture, bounded
from logwright.running.place import RunningPlace, as_it_runs, bounds_of
from logwright.running.snapshot import try_snapshot
from logwright.running.watermark import read_watermarks
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.prepare import plan_by_policies
from logwright.units import Offset, TimestampMs
from tests.log_builder import LogBuilder
from tests.running_dirs import PAIRS, bases, record, running, snapshot_of

T0 = TopicPartition("t", 0)


def look(place: Place) -> ReadableLog:
    return observe(place, T0, high_watermark="checkpoint")


def of(log: LogBuilder, *, exact: bool = False, whole: bool = False) -> RunningPlace:
    place = as_it_runs(log.log_dir, exact=exact, whole=whole)
    assert isinstance(place, RunningPlace)
    return place


def read_while(place: RunningPlace, *acts: Callable[[], object]) -> None:
    """The log is observed, and these acts are done, while the place is read."""
    with reading(place):
        look(place)
        for act in acts:
            act()


def work(place: Place, partition: TopicPartition) -> LogWork[Place]:
    return LogWork(key=str(partition), log_dir=place, partition=partition)


def fail(error: Exception) -> None:
    raise error


def file_of(place: RunningPlace, path: Path) -> Place:
    return place / "t-0" / path.name


@contextmanager
def meanwhile(*acts: Callable[[], None], seconds: float = 0.3) -> Iterator[None]:
    """One act after another, with pauses."""

    def work() -> None:
        for act in acts:
            time.sleep(seconds)
            act()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_only_an_open_directory_is_a_running_place(log: LogBuilder) -> None:
    """By its lock; the holder is named."""
    assert log.log_dir == as_it_runs(log.log_dir)
    assert broker_process(log.log_dir) is None
    with running(log.log_dir, {"t-0": 30}):
        assert isinstance(as_it_runs(log.log_dir), RunningPlace)
        assert broker_process(log.log_dir) not in (None, 0)
    assert log.log_dir == as_it_runs(log.log_dir)


def test_the_active_segment_may_lack_its_indexes(log: LogBuilder) -> None:
    """A broker makes them with the second append to it; those of other segments are missed."""
    for suffix in ("index", "timeindex"):
        (log.directory / f"{20:020d}.{suffix}").unlink()
    with running(log.log_dir, {"t-0": 30}):
        place = of(log)
        seen = look(place)
        assert ([0, 20], 30) == (bases(seen), seen.log_end_offset)
        with open_bytes(place / "t-0" / f"{20:020d}.index") as index:
            assert b"" == index.span(0, 8)
        (log.directory / f"{0:020d}.index").unlink()
        with pytest.raises(UncleanLogDir, match=f"lacks its {0:020d}.index"):
            look(of(log))
    with running(log.log_dir, {"t-0": 10}), pytest.raises(UncleanLogDir, match="lacks its"):
        look(of(log))


def test_a_log_that_is_deleted_before_it_is_listed(log: LogBuilder) -> None:
    """There is no such log: nothing is wrong with the device."""
    with (
        running(log.log_dir, {"t-0": 40}),
        open_log_dir(of(log)) as root,
        root.open_dir("t-0") as directory,
    ):
        log.directory.rename(log.log_dir / f"t-0.{'0' * 32}-delete")
        with pytest.raises(NotALogDir, match="no such partition directory"):
            directory.entries()


def test_a_missing_directory_stays_what_it_is(tmp_path: Path) -> None:
    """Who reads it says what is wrong."""
    assert tmp_path / "none" == as_it_runs(tmp_path / "none")


def test_a_log_ends_at_its_high_watermark(log: LogBuilder) -> None:
    """Whatever policy is asked for, and without the marker of a clean stop."""
    with running(log.log_dir, {"t-0": 26}):
        place = of(log)
        shown = look(place)
        assert [T0] == list_partitions(place)
        assert (26, 26, 26) == (
            shown.log_end_offset,
            shown.high_watermark,
            shown.last_stable_offset,
        )
        assert [0, 20] == bases(shown)
        bound = bounds_of(place)["t-0"]
        assert (26, 26) == (bound.end_offset, bound.high_watermark)
        assert bound.recorded_ms <= time.time_ns() // 1_000_000


def test_what_is_beyond_the_high_watermark_is_not_parsed(log: LogBuilder) -> None:
    """Torn batches and preallocated zeros are there."""
    active = log.directory / f"{20:020}.log"
    active.write_bytes(active.read_bytes()[:-7] + bytes(4096))
    for suffix in (".index", ".timeindex"):
        index = active.with_suffix(suffix)
        index.write_bytes(index.read_bytes() + bytes(960))
    with running(log.log_dir, {"t-0": 36}):
        assert 36 == look(of(log)).log_end_offset


def test_an_end_in_a_gap_does_not_go_back(log: LogBuilder) -> None:
    """An empty segment at the high watermark is shown where the records before it are gone."""
    path = log.directory / f"{0:020}.log"
    builder = LogBuilder(log.log_dir / "other")
    builder.segment(0).batch(16, PAIRS)
    builder.write(index_interval=1)
    path.write_bytes((builder.directory / path.name).read_bytes())
    path.with_suffix(".index").write_bytes(b"")
    path.with_suffix(".timeindex").write_bytes(b"")
    with running(log.log_dir, {"t-0": 12}):
        shown = look(of(log))
        assert (12, [0, 12]) == (shown.log_end_offset, bases(shown))
        assert 0 == shown.log_bytes


def test_a_log_without_producer_snapshots_is_replayed(tmp_path: Path) -> None:
    """It has not rolled yet: an open transaction is not in any snapshot."""
    builder = LogBuilder(tmp_path)
    builder.segment(0).batch(0, PAIRS).batch(2, PAIRS, producer_id=7, transactional=True)
    builder.write(high_watermark=4)
    assert 4 == look(builder.log_dir).last_stable_offset
    with running(builder.log_dir, {"t-0": 4}):
        assert 2 == look(of(builder)).last_stable_offset


@pytest.mark.parametrize("name", ["partition.metadata", "leader-epoch-checkpoint"])
def test_an_older_high_watermark_is_not_used(log: LogBuilder, name: str) -> None:
    """It can be of a topic that was made again, or of before an unclean election: the next one is
    waited for.
    """
    with running(log.log_dir, {"t-0": 40}):
        time.sleep(0.05)
        content = {"partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"}
        path = log.directory / name
        path.write_bytes(content.get(name, b"0\n1\n0 0\n"))
        with meanwhile(lambda: record(log.log_dir, {"t-0": 8})):
            assert 8 == look(of(log)).log_end_offset


def test_a_high_watermark_of_before_the_broker_is_not_used(log: LogBuilder) -> None:
    """It recovers the log, and may cut it."""
    checkpoint = log.log_dir / "replication-offset-checkpoint"
    with running(log.log_dir, {"t-0": 40}):
        os.utime(checkpoint, ns=(1_760_000_000_000_000_000,) * 2)
        with meanwhile(lambda: record(log.log_dir, {"t-0": 8})):
            assert 8 == look(of(log)).log_end_offset


def test_nor_is_one_that_is_younger_than_the_log_itself(log: LogBuilder) -> None:
    """The log's files are older still: only the broker's start shows that it is of before."""
    checkpoint = log.log_dir / "replication-offset-checkpoint"
    with running(log.log_dir, {"t-0": 40}):
        for path in log.directory.iterdir():
            os.utime(path, ns=(1_750_000_000_000_000_000,) * 2)
        os.utime(checkpoint, ns=(1_760_000_000_000_000_000,) * 2)
        with meanwhile(lambda: record(log.log_dir, {"t-0": 8})):
            assert 8 == look(of(log)).log_end_offset


@pytest.mark.parametrize("recorded", [{"t-0": 41}, {"other-0": 3}])
def test_without_a_usable_high_watermark_a_log_is_refused(
    log: LogBuilder, recorded: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the log's end, or none of this log: after a while that is an error, not an empty
    log.
    """
    monkeypatch.setattr(watermark, "PATIENCE_SECONDS", 0.2)
    with running(log.log_dir, recorded), pytest.raises(Unsettled, match="high watermarks"):
        look(of(log))


def test_a_new_log_without_records_needs_no_high_watermark(tmp_path: Path) -> None:
    """The broker has not recorded one yet, and there is nothing that it could limit."""
    builder = LogBuilder(tmp_path)
    builder.segment(0)
    builder.write()
    with running(builder.log_dir):
        assert 0 == look(of(builder)).log_end_offset


def test_a_broker_that_ended_is_said(log: LogBuilder) -> None:
    """Its directory is read as a stopped one the next time."""
    with running(log.log_dir, {"t-0": 40}):
        place = of(log)
    with pytest.raises(Unsettled, match="ended"):
        look(place)


def test_a_swap_is_waited_for(log: LogBuilder) -> None:
    """Meanwhile segments have no names."""
    swap = log.directory / f"{0:020}.log.swap"
    swap.write_bytes(b"")
    with running(log.log_dir, {"t-0": 40}), meanwhile(swap.unlink):
        assert [0, 20] == bases(look(of(log)))
    assert not swap.exists()


def test_a_directory_that_keeps_changing_is_refused(
    log: LogBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what changed."""
    monkeypatch.setattr(places, "PATIENCE_SECONDS", 0.2)
    (log.directory / f"{0:020}.log.swap").write_bytes(b"")
    with running(log.log_dir, {"t-0": 40}), pytest.raises(Unsettled, match="being replaced"):
        look(of(log))


def test_a_directory_that_is_renamed_while_it_is_looked_at(
    log: LogBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not the log of this name any more, also where a file system keeps the times of what is
    renamed.
    """
    monkeypatch.setattr(snapshots, "QUIET_NS", 0)
    monkeypatch.setattr(snapshots, "_is_same", lambda *_: True)

    def wanted(_: str) -> bool:
        if log.directory.exists():
            log.directory.rename(log.log_dir / f"t-0.{'0' * 32}-delete")
        return True

    with open_log_dir(log.log_dir) as parent:
        assert "the directory was renamed" == try_snapshot(parent, "t-0", wanted)


def test_what_was_opened_is_read_whatever_becomes_of_the_names(log: LogBuilder) -> None:
    """A cleaner replaces the first segment, and deletes the old one."""
    path = log.directory / f"{0:020}.log"
    content = path.read_bytes()
    with running(log.log_dir, {"t-0": 40}):
        place = of(log)
        shown = look(place)
        path.with_suffix(".swap").write_bytes(b"other")
        path.with_suffix(".swap").replace(path)
        with reading(place):
            data = map_file(place / "t-0" / path.name, expected_bytes=len(content))
        assert content == data.tobytes()
        assert shown == look(place)


@pytest.mark.parametrize("size", [0, 100])
def test_a_truncation_while_it_is_read_is_not_called_damage(log: LogBuilder, size: int) -> None:
    """A follower cuts its log in place: what is read then is not the log's history."""
    path = log.directory / f"{20:020}.log"
    with running(log.log_dir, {"t-0": 40}):
        place = of(log)
        with pytest.raises(Unsettled, match="truncated"):
            read_while(
                place, lambda: os.truncate(path, size), lambda: map_file(file_of(place, path))
            )


def test_damage_that_a_truncation_makes_is_not_reported(log: LogBuilder) -> None:
    """Whatever the reader says of it."""
    with running(log.log_dir, {"t-0": 40}):
        place = of(log)
        cut = partial(os.truncate, log.directory / f"{20:020}.log", 100)
        with pytest.raises(Unsettled, match="truncated"):
            read_while(place, cut, partial(fail, CorruptBatch("as a reader says.")))


@pytest.mark.parametrize("suffix", ["index", "timeindex", "log"])
def test_a_sealed_segment_that_changed_shows_a_truncation(log: LogBuilder, suffix: str) -> None:
    """A broker truncates the indexes first. What was appended then can be longer than before."""
    path = log.directory / f"{0:020}.{suffix}"

    def change() -> None:
        content = path.read_bytes()
        os.truncate(path, 0)
        if suffix == "log":
            path.write_bytes(content + content[:100])

    with running(log.log_dir, {"t-0": 40}):
        place = of(log)
        with pytest.raises(Unsettled, match="truncated"):
            read_while(place, change, partial(fail, CorruptIndex("as a reader says.")))


def test_a_change_of_what_is_not_shown_counts_for_nothing(log: LogBuilder) -> None:
    """A follower truncates what was never committed: the bound is below it."""
    path = log.directory / f"{20:020}.log"
    (log.directory / f"{40:020}.log").write_bytes(b"")
    with running(log.log_dir, {"t-0": 10}):
        place = of(log)
        read_while(place, partial(os.truncate, path, 100))
        assert 10 == look(place).log_end_offset


def test_a_truncation_that_was_appended_to_is_noticed(log: LogBuilder) -> None:
    """By the leader epochs: the file is as long as before."""
    with running(log.log_dir, {"t-0": 40}):
        place = of(log)
        epochs = log.directory / "leader-epoch-checkpoint"
        with pytest.raises(Unsettled, match="truncated"):
            read_while(place, lambda: epochs.write_bytes(b"0\n2\n0 0\n3 30\n"))


def test_a_batch_of_another_epoch_shows_a_truncation(
    log: LogBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches of these logs are of epoch 0."""
    monkeypatch.setattr(places, "PATIENCE_SECONDS", 0.2)
    (log.directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n5 0\n")
    with running(log.log_dir, {"t-0": 40}), pytest.raises(Unsettled, match="truncated"):
        look(of(log))


def test_damage_in_a_segment_that_rolled_is_not_an_end(log: LogBuilder) -> None:
    """The high watermark lies in a segment that was made since: all of the one before it is shown,
    so that who reads it finds the damage.
    """
    path = log.directory / f"{20:020}.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    path.with_suffix(".index").write_bytes(b"")
    with running(log.log_dir, {"t-0": 41}):
        snapshot = snapshot_of(log)
        (log.directory / f"{40:020}.log").write_bytes(b"")
        facts = Facts(Offset(41), read_watermarks(log.log_dir), 0, 0)
        picture = bounded(snapshot, facts, Throttle())
    assert isinstance(picture, Picture)
    assert len(content) == picture.sizes[path.name]


@pytest.mark.parametrize(
    ("marker", "fate", "is_shown"),
    [
        ("abort", "stays", True),
        ("abort", "replaced", False),
        ("abort", "deleted", False),
        ("commit", "replaced", True),
        ("commit", "deleted", True),
    ],
)
def test_a_transaction_index_that_comes_later(
    tmp_path: Path, marker: Literal["abort", "commit"], fate: str, *, is_shown: bool
) -> None:
    """The first transaction of the active segment is aborted after the snapshot: the index that
    says so is shown, too. Without it a forecast would say that the index lacks an entry.
    """
    log = LogBuilder(tmp_path / "logs")
    segment = log.segment(40)
    segment.batch(40, PAIRS, producer_id=7, transactional=True).marker(42, 7, marker)
    log.write(producers=True, high_watermark=43)
    index = log.directory / f"{40:020d}.txnindex"
    entries = index.read_bytes() if index.exists() else b""
    index.unlink(missing_ok=True)
    with running(log.log_dir, {"t-0": 43}):
        snapshot = snapshot_of(log)
        path = index.with_suffix(".log")
        content = path.read_bytes()
        if fate == "stays":
            index.write_bytes(entries)
        else:
            path.unlink()
        if fate == "replaced":
            path.write_bytes(content)
        facts = Facts(Offset(43), read_watermarks(log.log_dir), 0, 0)
        picture = bounded(snapshot, facts, Throttle())
    assert is_shown == isinstance(picture, Picture)
    if isinstance(picture, Picture) and fate == "stays":
        assert len(entries) == picture.sizes[index.name] > 0


def test_damage_is_reported_if_the_log_is_the_same(log: LogBuilder) -> None:
    """An error of a reader stays what it is."""
    with running(log.log_dir, {"t-0": 40}):
        place = of(log)
        with pytest.raises(StalePlan):
            read_while(place, partial(fail, StalePlan("as a reader says.")))


def test_a_latest_state_needs_a_high_watermark_after_the_snapshot(log: LogBuilder) -> None:
    """Recorded twice since, if the last stable offset is below the active segment; the first may
    have been taken before.
    """
    with running(log.log_dir, {"t-0": 10}):
        assert 10 == look(of(log)).log_end_offset
        acts = [
            lambda: record(log.log_dir, {"t-0": 12}),
            lambda: record(log.log_dir, {"t-0": 30}),
        ]
        with meanwhile(*acts):
            assert 30 == look(of(log, exact=True)).log_end_offset
        start = time.monotonic()
        assert 30 == look(of(log, exact=True)).log_end_offset
        assert time.monotonic() - start < 1.0


def test_a_latest_state_below_what_was_cleaned_is_refused(log: LogBuilder) -> None:
    """A broker that was killed begins again with an older high watermark: a cleaner may have used
    newer records, beyond it, and removed what they supersede.
    """
    path = log.log_dir / "cleaner-offset-checkpoint"
    path.write_bytes(serialize_offset_checkpoint({T0: Offset(16)}))
    with running(log.log_dir, {"t-0": 10}):
        assert 10 == look(of(log)).log_end_offset
        with (
            meanwhile(*[partial(record, log.log_dir, {"t-0": 10})] * 2),
            pytest.raises(Unsettled, match="was cleaned up to offset 16, and only 10"),
        ):
            look(of(log, exact=True))
        with meanwhile(*[partial(record, log.log_dir, {"t-0": 16})] * 2):
            assert 16 == look(of(log, exact=True)).log_end_offset


def test_a_whole_place_shows_what_is_not_committed(log: LogBuilder) -> None:
    """To the last whole batch, and files that are being written or deleted."""
    content = (log.directory / f"{0:020}.log").read_bytes()
    (log.directory / f"{0:020}.log.cleaned").write_bytes(content[:-5])
    (log.directory / f"{30:020}.log.deleted").write_bytes(content)
    with running(log.log_dir, {"t-0": 10}):
        place = of(log, whole=True)
        sizes = {entry.stamp.name: entry.stamp.bytes for entry in (place / "t-0").entries()}
        assert len(content) == sizes[f"{20:020}.log"]
        assert len(content) == sizes[f"{30:020}.log.deleted"]
        assert len(content) // 10 * 9 == sizes[f"{0:020}.log.cleaned"]
        assert {} == bounds_of(place)
        bounded = {entry.stamp.name for entry in (of(log) / "t-0").entries()}
        assert not any(name.endswith((".deleted", ".cleaned")) for name in bounded)


def test_nothing_is_written_and_a_broker_can_start(log: LogBuilder) -> None:
    """Names and times stay, and the lock is free for whoever starts while it is read."""

    def state() -> dict[str, int]:
        return {
            str(path): path.stat().st_mtime_ns for path in [log.log_dir, *log.log_dir.rglob("*")]
        }

    with running(log.log_dir, {"t-0": 40}):
        before = state()
        place = of(log)
        with reading(place):
            look(place)
        assert before == state()
    with reading(place), (log.log_dir / ".lock").open("a") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_another_process_looks_for_itself(log: LogBuilder) -> None:
    """A task gets the place, not what was seen of it."""
    with running(log.log_dir, {"t-0": 10}):
        place = of(log)
        assert 10 == look(place).log_end_offset
        record(log.log_dir, {"t-0": 20})
        assert 10 == look(place).log_end_offset
        made, given = place.session.__reduce__()
        assert 20 == look(made(*given).place).log_end_offset


def held(log: LogBuilder) -> int:
    """How many descriptors are of the log: its directory, or files in it."""
    numbers = [link.name for link in Path("/proc/self/fd").iterdir()]
    paths = []
    for number in numbers:
        with suppress(OSError):
            paths.append(str(Path(f"/proc/self/fd/{number}").readlink()))
    return sum(path.startswith(str(log.directory)) for path in paths)


def test_descriptors_are_given_back(log: LogBuilder) -> None:
    """When nobody uses the place any more."""
    with running(log.log_dir, {"t-0": 40}):
        place = of(log)
        look(place)
        assert 8 == held(log)
        del place
        assert 0 == held(log)


def test_an_error_keeps_no_descriptors(log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """It refers to what was under way, and whoever notes it may live for long: of a log that cannot
    be bounded, of one that is not cleaned as far as it must be, and of a reading that failed.
    """
    with running(log.log_dir, {"t-0": 40}):
        place = of(log)
    with pytest.raises(Unsettled, match="ended") as ended:
        look(place)
    assert 0 == held(log)
    with running(log.log_dir, {"t-0": 40}):
        with monkeypatch.context() as patch:
            patch.setattr(watermark, "PATIENCE_SECONDS", 0.1)
            patch.setattr(places.Session, "_is_exact", lambda *_: False)
            with pytest.raises(Unsettled) as waited:
                look(of(log, exact=True))
        assert 0 == held(log)
        place = of(log)
        with pytest.raises(CorruptBatch) as failed:
            read_while(place, partial(fail, CorruptBatch("as a reader says.")))
        assert 0 == held(log)
        assert 40 == look(place).log_end_offset
    assert all((ended, failed, waited))


def test_an_error_that_is_kept_keeps_no_descriptors(log: LogBuilder) -> None:
    """Where many logs are observed, the error of one is a value: it must not refer to all of them,
    or they stay open until Python looks for circles of references.
    """
    gc.disable()
    try:
        with running(log.log_dir, {"t-0": 40}):
            place = of(log)
            missing = TopicPartition("t", 1)
            state = SweepState(works=(work(place, T0), work(place, missing)), now_ms=TimestampMs(0))
            compact = {"cleanup.policy": "compact"}
            policies = Policies(defaults=compact, high_watermark="end", kafka_version="4.4")
            planned = plan_by_policies(state, DirectorySettings(policies))
            assert 8 == held(log)
            failures = [each.failure for each in planned.works]
            del place, state, planned
            assert 0 == held(log)
    finally:
        gc.enable()
    assert [type(None), NotALogDir] == [type(failure) for failure in failures]


def cached(path: Path) -> int:
    """How many bytes of a file are in the page cache. A map that is not touched reads nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        pages = (ctypes.c_ubyte * (len(mapped) // mmap.PAGESIZE))()
        first = ctypes.c_char.from_buffer(mapped)
        assert 0 == libc.mincore(ctypes.byref(first), ctypes.c_size_t(len(mapped)), pages)
        del first
        return sum(page & 1 for page in pages) * mmap.PAGESIZE


WARM_BYTES = 8 << 20


def left_in_the_page_cache(log: LogBuilder) -> int:
    """How many bytes more are in it after a file was read, of which it had a part."""
    path = log.directory / f"{0:020}.snapshot"
    size = 32 << 20
    with path.open("wb") as file:
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        assert len(os.pread(file.fileno(), WARM_BYTES, 0)) == WARM_BYTES
    before = cached(path)
    assert before >= WARM_BYTES
    with running(log.log_dir, {"t-0": 40}), open_bytes(of(log) / "t-0" / path.name) as file:
        assert size == len(file.span(0, size))
    return cached(path) - before


def test_the_page_cache_is_as_it_was(log: LogBuilder) -> None:
    """What a broker has there stays, what was read from the disk goes. The kernel keeps a page that
    it is using itself, on a busy machine often: one of three tries counts.
    """
    assert any(abs(left_in_the_page_cache(log)) <= 1 << 20 for _ in range(3))
