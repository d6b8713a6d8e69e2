"""A log directory that a broker has open is searched as it was at one moment, whole."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from logwright.erasure.find.model import Finding
from logwright.erasure.find.result import SearchResult
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.keys import KeySet
from logwright.errors import UnreadableFile, Unsettled
from logwright.metadata.model import ClusterMetadata
from logwright.place.local import LocalDir
from logwright.place.model import Place
from logwright.running import watermark
from logwright.running.place import RunningPlace, Session, as_it_runs
from logwright.units import Offset
from tests.found import SECRET, settings
from tests.log_builder import START_MS, LogBuilder
from tests.running_dirs import record, running

KEY = b"planted"
ID = "0123456789abcdef0123456789abcdef"
DAY_MS = 86_400_000


@pytest.fixture(name="log")
def _log(tmp_path: Path) -> LogBuilder:
    """Records of the key at 0, 2, 4 and 5; the active segment begins at 4."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [(KEY, "x"), ("other", "y")])
    builder.segment(2).batch(2, [(KEY, "z"), ("other", "z")])
    builder.segment(4).batch(4, [(KEY, "u")]).batch(5, [(KEY, None)])
    return builder.write()


def whole(log: LogBuilder) -> RunningPlace:
    place = as_it_runs(log.log_dir, whole=True)
    assert isinstance(place, RunningPlace)
    return place


def find(
    place: Place,
    *,
    config: dict[str, str] | None = None,
    act: Callable[[], object] | None = None,
    metadata: ClusterMetadata | None = None,
) -> SearchResult:
    """Search; `act` is done before the first file counts as read."""
    acts = [act]

    def progress(*_: object) -> None:
        if (first := acts.pop() if acts else None) is not None:
            first()

    known = settings({"cleanup.policy": "compact"} if config is None else config, metadata=metadata)
    return search_log_dir(place, KeySet.of(SECRET, clear=[KEY]), known, progress=progress)


def paths(findings: Iterable[Finding]) -> set[str]:
    return {finding.path for finding in findings}


def test_what_is_not_committed_is_found_and_marked(log: LogBuilder) -> None:
    """The bytes are on the disk, whatever the high watermark is."""
    with running(log.log_dir, {"t-0": 5}):
        result = find(whole(log))
    assert [(0, True), (2, True), (4, True), (5, False)] == [
        (finding.offset, finding.committed) for finding in result.findings
    ]
    assert [] == result.unsearched


def test_of_a_stopped_broker_nobody_asks(log: LogBuilder) -> None:
    """All of a stopped log is there."""
    assert {None} == {finding.committed for finding in find(as_it_runs(log.log_dir)).findings}


def test_files_and_logs_on_their_way_are_places_like_others(log: LogBuilder) -> None:
    """What a cleaner writes, what is deleted, moves or is stray; each with a record."""
    segment = log.directory / f"{0:020d}.log"
    shutil.copy(segment, log.directory / f"{0:020d}.log.cleaned")
    shutil.copy(segment, log.directory / f"{7:020d}.log.deleted")
    for name in (f"t-1.{ID}-delete", f"t-2.{ID}-future", f"t-3.{ID}-stray", "backup"):
        (log.log_dir / name).mkdir()
        shutil.copy(segment, log.log_dir / name)
    (log.log_dir / f"t-3.{ID}-stray" / f"{9:020d}.log.swap").write_bytes(segment.read_bytes())
    planted = {
        str(path.relative_to(log.log_dir))
        for path in log.log_dir.rglob("*.log*")
        if KEY in path.read_bytes()
    }
    assert 3 + 2 + 4 + 1 == len(planted)
    with running(log.log_dir, {"t-0": 6}):
        place = whole(log)
        result = find(place)
        assert planted == paths(result.findings)
        assert {
            f"t-0/{0:020d}.log.cleaned",
            f"t-0/{7:020d}.log.deleted",
            f"t-1.{ID}-delete/{0:020d}.log",
        } == set(place.session.passing())
    assert [] == result.unsearched
    others = [one for one in result.findings if not one.path.endswith(".log")]
    assert {None} == {finding.committed for finding in others}


def test_what_goes_meanwhile_was_held(log: LogBuilder) -> None:
    """It is searched as it was, and no fault is reported."""
    gone = log.log_dir / f"u-0.{ID}-delete"
    gone.mkdir()
    shutil.copy(log.directory / f"{0:020d}.log", gone)

    def delete() -> None:
        shutil.rmtree(gone)
        (log.directory / f"{0:020d}.log").unlink()
        (log.log_dir / "cleaner-offset-checkpoint").unlink()

    with running(log.log_dir, {"t-0": 6}):
        place = whole(log)
        place.session.root()
        result = find(place, act=delete)
        assert [] == result.unsearched
        assert f"u-0.{ID}-delete/{0:020d}.log" in paths(result.findings)
        assert [] == place.session.passing_still()
    assert 5 == len(result.findings)


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_while_they_are_listed(
    log: LogBuilder,
    monkeypatch: pytest.MonkeyPatch,
    again: bool,
) -> None:
    """Its directory is renamed after it was listed, and perhaps made again: it is found under its
    new name.
    """
    prepare, moved = Session.prepare, log.log_dir / f"t-0.{ID}-delete"

    def rename_first(session: Session, names: Iterable[str]) -> None:
        if not moved.exists():
            log.directory.rename(moved)
            if again:
                log.directory.mkdir()
        prepare(session, names)

    monkeypatch.setattr(Session, "prepare", rename_first)
    with running(log.log_dir, {"t-0": 6}):
        place = whole(log)
        result = find(place)
        assert (() if again else ("t-0",)) == place.session.root().gone
    assert {f"{moved.name}/{base:020d}.log" for base in (0, 2, 4)} == paths(result.findings)


def test_a_tail_that_is_no_batch_is_named(log: LogBuilder) -> None:
    """If it stays: a record can be in it. Zeros, of `preallocate`, are nothing."""
    active = log.directory / f"{4:020d}.log"
    with running(log.log_dir, {"t-0": 5}), active.open("ab") as file:
        file.write(bytes(100))
        file.flush()
        assert [] == find(whole(log)).unsearched
        file.write(KEY)
        file.flush()
        (part,) = find(whole(log)).unsearched
    assert "t-0/00000000000000000004.log" == part.path


def test_a_directory_that_may_not_be_read(log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as ``lost+found``: it is named, and the rest is searched."""
    (log.log_dir / "lost+found").mkdir()
    open_dir = LocalDir.open_dir

    def refuse(directory: LocalDir, name: str) -> LocalDir:
        if name == "lost+found":
            raise UnreadableFile("permission denied.", path=directory.path / name)
        return open_dir(directory, name)

    monkeypatch.setattr(LocalDir, "open_dir", refuse)
    with running(log.log_dir, {"t-0": 6}):
        result = find(whole(log))
    assert 4 == len(result.findings)
    assert [("lost+found", "permission denied")] == [
        (part.path, part.problem) for part in result.unsearched
    ]


def test_a_swap_that_stays_is_a_file_like_others(log: LogBuilder) -> None:
    """A broker's swap takes milliseconds: this one is left over."""
    (log.directory / f"{0:020d}.log").rename(log.directory / f"{0:020d}.log.swap")
    with running(log.log_dir, {"t-0": 6}):
        result = search_log_dir(
            whole(log), KeySet.of(SECRET, clear=[KEY]), None, progress=lambda *_: None
        )
    assert f"t-0/{0:020d}.log.swap" in paths(result.findings)


def test_segments_that_retention_deleted_are_not_lost(
    log: LogBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log start offset is recorded each minute. A retention moves the oldest leader epoch at
    once; where that begins before the first segment, or is not on record, the offsets are in remote
    storage or lost, whatever the metadata says.
    """
    monkeypatch.setattr(watermark, "PATIENCE_SECONDS", 0.2)
    (log.directory / f"{0:020d}.log").unlink()
    content = f"0\n1\nt 0 {0}\n"
    (log.log_dir / "log-start-offset-checkpoint").write_text(content)
    metadata = ClusterMetadata(
        path=log.log_dir,
        cluster_id=None,
        end_offset=Offset(0),
        snapshot=None,
        topics={},
        topic_configs={},
        broker_configs={},
        features={},
    )
    epochs = log.directory / "leader-epoch-checkpoint"
    with running(log.log_dir, {"t-0": 6}):
        for known in (None, metadata):
            for text in ("0\n1\n0 0\n", "0\n0\n"):
                epochs.write_text(text)
                (part,) = find(whole(log), metadata=known).unsearched
                assert "offsets 0 to 1 are in remote storage, or lost" == part.problem
            epochs.write_text("0\n1\n0 2\n")
            assert [] == find(whole(log), metadata=known).unsearched
            epochs.unlink()


def test_no_lock_is_taken_and_nothing_written(log: LogBuilder) -> None:
    """A broker that starts meanwhile can lock."""

    def state() -> dict[str, int]:
        every = [log.log_dir, *log.log_dir.rglob("*")]
        return {str(path): path.stat().st_ctime_ns for path in every}

    def lock() -> None:
        with (log.log_dir / ".lock").open("a") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    with running(log.log_dir, {"t-0": 6}):
        before = state()
        place = whole(log)
        find(place)
        assert before == state()
    place.session.root()
    assert 4 == len(find(place, act=lock).findings)


def test_a_log_that_is_cut_meanwhile_is_refused(log: LogBuilder) -> None:
    """What was read is not its history any more."""

    def truncate() -> None:
        os.truncate(log.directory / f"{4:020d}.log", 0)
        record(log.log_dir, {"t-0": 4})

    with running(log.log_dir, {"t-0": 5}), pytest.raises(Unsettled, match="truncated"):
        find(whole(log), act=truncate)


def test_its_cleaner_has_no_dates(log: LogBuilder) -> None:
    """When it comes to a log nobody knows; that a tombstone waits is known."""
    with running(log.log_dir, {"t-0": 6}):
        findings = find(whole(log)).findings
    assert [("min.cleanable.dirty.ratio", None)] * 3 + [("delete.retention.ms", None)] == [
        (finding.rule, finding.gone_by_ms) for finding in findings
    ]


def test_its_retention_deletes_closed_segments(log: LogBuilder) -> None:
    """Within its interval, and the delay of the unlink; the active segment is appended to."""
    config = {
        "cleanup.policy": "delete",
        "retention.ms": str(10 * 365 * DAY_MS),
        "file.delete.delay.ms": "60000",
    }
    with running(log.log_dir, {"t-0": 6}):
        findings = find(whole(log), config=config).findings
    due_ms = 10 * 365 * DAY_MS + 1 + 300_000 + 60_000
    assert [START_MS + 1 + due_ms, START_MS + 3 + due_ms, None, None] == [
        finding.gone_by_ms for finding in findings
    ]
    assert {"retention.ms"} == {finding.rule for finding in findings}
