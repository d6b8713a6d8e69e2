"""``logwright certificate`` of a log directory that a broker has open: each claim in a world in
which it would be false.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from logwright.erasure.certificate import running as certifying
from logwright.erasure.certificate.keys import load_public
from logwright.erasure.certificate.model import NOT_SEEN_RUNNING, Certificate
from logwright.erasure.certificate.signed import read_certificate
from tests.e2e.command import Answer, call
from tests.log_builder import START_MS, LogBuilder, SegmentBuilder
from tests.running_dirs import record, running

NOW_MS = START_MS + 86_400_000
ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    """A log without the key, an earlier certificate of when it had it, and what signs."""
    (tmp_path / "keys").write_text("ann\n")
    (tmp_path / "secret").write_text("0123456789abcdef" * 4)
    (tmp_path / "secret").chmod(0o600)
    assert call("certificate", "--new-key", tmp_path / "key").status == 0
    before = LogBuilder(tmp_path / "logs")
    before.segment(0).batch(0, [("ann", "1"), ("bob", "2")])
    before.write()
    answer = certify(tmp_path, "before.json")
    assert 6 == answer.status, answer.err
    shutil.rmtree(tmp_path / "logs")
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(1, [("bob", "2")])
    log.segment(4).batch(4, [("eve", "2")]).batch(5, [("eve", "3")])
    log.write()
    return tmp_path


def certify(place: Path, name: str, *more: str | Path) -> Answer:
    return call(
        "certificate",
        place / "logs",
        *("--keys", place / "keys", "--secret", place / "secret"),
        *("--signing-key", place / "key", "--out", place / name),
        *("--now", NOW_MS, "--config", "cleanup.policy=compact"),
        *more,
    )


def signed(place: Path) -> Certificate:
    """What is said with the earlier certificate."""
    (place / "c.json").unlink(missing_ok=True)
    answer = certify(place, "c.json", "--earlier", place / "before.json")
    assert answer.status in (0, 6), answer.err
    return read_certificate(place / "c.json", load_public(place / "key.pub"))


def state(place: Path) -> str:
    (request,) = signed(place).requests
    return request.state


def plant(path: Path) -> None:
    """Add a batch with the key, at offset 6. Effects: changes the file, or makes it."""
    builder = SegmentBuilder(6)
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.write(builder.batch(6, [("ann", "1")]).content)


@contextmanager
def soon(act: Callable[[], object]) -> Iterator[None]:
    """The act is done a moment later."""

    def work() -> None:
        time.sleep(0.8)
        act()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_gone_with_the_time_and_the_bound(place: Path) -> None:
    """What it rests on is signed: when, how far, up to which high watermark; and its limits."""
    with running(place / "logs", {"t-0": 5}):
        recorded = (place / "logs/replication-offset-checkpoint").stat().st_mtime_ns // 1_000_000
        made = signed(place)
    (request,), (directory,) = made.requests, made.directories
    assert "gone" == request.state
    how = directory.running
    assert how is not None
    (log,) = how.logs
    assert ("t", 0, 6, 5, 5) == (
        log.topic,
        log.partition,
        log.end_offset,
        log.bound,
        log.last_stable_offset,
    )
    assert recorded == log.recorded_at_ms
    assert recorded <= how.begun_at_ms == how.taken_at_ms == log.taken_at_ms
    assert (1, (), ()) == (how.snapshots, how.passed, how.gone)
    assert set(NOT_SEEN_RUNNING) < set(made.not_seen)
    assert (
        call("verify-certificate", place / "c.json", "--public-key", place / "key.pub").status == 0
    )


def test_of_a_stopped_broker_nothing_is_said(place: Path) -> None:
    """Its certificate is as before."""
    made = signed(place)
    assert [None] == [directory.running for directory in made.directories]
    assert not set(NOT_SEEN_RUNNING) & set(made.not_seen)


@pytest.mark.parametrize(
    ("path", "where"),
    [
        (f"t-0/{0:020d}.log.cleaned", "staging"),
        (f"t-0/{0:020d}.log.deleted", "deleted"),
        (f"t-1.{ID}-delete/{0:020d}.log", "deleted log"),
        (f"t-1.{ID}-future/{0:020d}.log", "future"),
        (f"t-1.{ID}-stray/{0:020d}.log", "stray"),
        (f"t-0/{4:020d}.log", "segment"),
    ],
)
def test_it_is_in_another_place(place: Path, path: str, where: str) -> None:
    """Written by the cleaner, deleted, moving, stray, or beyond the high watermark."""
    with running(place / "logs", {"t-0": 5}):
        plant(place / "logs" / path)
        made = signed(place)
    (left,) = made.remains
    assert (path, where) == (left.path.text, left.place)
    assert (False if where == "segment" else None) is left.committed
    (request,) = made.requests
    assert request.state in ("in time", "remains")


def test_it_is_appended_before_the_second_look(place: Path) -> None:
    """The files that the broker was to delete go, and what came meanwhile is found."""
    passing = place / f"logs/t-0/{0:020d}.log.deleted"
    shutil.copy(place / f"logs/t-0/{0:020d}.log", passing)

    def act() -> None:
        plant(place / f"logs/t-0/{4:020d}.log")
        record(place / "logs", {"t-0": 7})
        passing.unlink()

    with running(place / "logs", {"t-0": 6}), soon(act):
        made = signed(place)
    assert [f"t-0/{4:020d}.log"] == [found.path.text for found in made.remains]
    assert "remains" == made.requests[0].state


def test_one_key_that_is_found_does_not_end_the_search_for_another(place: Path) -> None:
    """All is looked at once more unless each key was found: here the other one comes meanwhile."""
    (place / "keys").write_text("eve\nann\n")
    passing = place / f"logs/t-0/{0:020d}.log.deleted"
    shutil.copy(place / f"logs/t-0/{0:020d}.log", passing)

    def act() -> None:
        plant(place / f"logs/t-0/{4:020d}.log")
        record(place / "logs", {"t-0": 7})
        passing.unlink()

    with running(place / "logs", {"t-0": 6}), soon(act):
        made = signed(place)
    assert {4, 5, 6} == {found.offset for found in made.remains}
    assert 2 == len({found.request for found in made.remains})


def test_files_that_go_are_waited_for(place: Path) -> None:
    """Then all is looked at once more, and they are named."""
    passing = place / f"logs/t-0/{0:020d}.log.cleaned"
    shutil.copy(place / f"logs/t-0/{0:020d}.log", passing)
    with running(place / "logs", {"t-0": 6}), soon(passing.unlink):
        made = signed(place)
    assert "gone" == made.requests[0].state
    how = made.directories[0].running
    assert how is not None
    assert (2, [f"t-0/{0:020d}.log.cleaned"]) == (how.snapshots, [one.text for one in how.passed])
    assert how.begun_at_ms < how.taken_at_ms
    page = (place / "c.html").read_text()
    day = datetime.fromtimestamp(how.taken_at_ms / 1000, tz=UTC).strftime("%Y-%m-%d")
    assert f"as it was at {day}" in page
    assert "writing or deleting 1 files of the topics asked for" in page
    assert "<td>t-0</td>" in page
    assert not [one for one in made.manifest if one.path.text.endswith(".cleaned")]


def test_files_that_stay_prove_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are named."""
    monkeypatch.setattr(certifying, "MOST_SECONDS", 0.3)
    passing = place / f"logs/t-0/{0:020d}.log.deleted"
    shutil.copy(place / f"logs/t-0/{0:020d}.log", passing)
    with running(place / "logs", {"t-0": 6}):
        made = signed(place)
    assert "not proved" == made.requests[0].state
    (unread,) = made.not_read
    assert f"t-0/{0:020d}.log.deleted" == unread.path.text
    assert "about to delete it" in unread.why


def test_files_of_other_topics_are_not_waited_for(place: Path) -> None:
    """They cannot hold a record of the request."""
    other = place / f"logs/other-0.{ID}-delete"
    other.mkdir()
    shutil.copy(place / f"logs/t-0/{0:020d}.log", other)
    with running(place / "logs", {"t-0": 6}):
        answer = certify(place, "c.json", "--earlier", place / "before.json", "--topic", "t")
    assert 0 == answer.status, answer.err


def test_a_log_whose_state_is_not_known(place: Path) -> None:
    """The search of its bytes is what counts; that what is committed is not known is said."""
    (place / f"logs/t-0/{0:020d}.index").unlink()
    with running(place / "logs", {"t-0": 5}):
        made = signed(place)
    assert "gone" == made.requests[0].state
    how = made.directories[0].running
    assert how is not None
    assert [(6, -1)] == [(log.end_offset, log.last_stable_offset) for log in how.logs]


def test_it_is_not_written_into_the_directory(place: Path) -> None:
    """Nothing is, while a broker has it open."""
    with running(place / "logs", {"t-0": 6}):
        answer = certify(place, "logs/c.json")
    assert 2 == answer.status
    assert not (place / "logs/c.json").exists()
