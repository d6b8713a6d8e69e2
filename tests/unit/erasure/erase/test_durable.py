"""What an erasure has built becomes durable while it is checked, and before it is committed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from logwright.config.topic import parse_settings
from logwright.erasure.erase.commit import build_and_check, plan_erasure_of
from logwright.erasure.erase.model import ErasePlan
from logwright.errors import StepFailed
from logwright.format.names import TopicPartition
from logwright.rewrite.staging import discard_staging, staging_directory
from logwright.units import TimestampMs
from tests.erasing import PlainKeys, logs_of
from tests.log_builder import START_MS, LogBuilder

KEYS = PlainKeys([b"me"])


def planned(tmp_path: Path) -> ErasePlan:
    """An erasure of which two segments are rebuilt."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("me", "2")])
    log.segment(2).batch(2, [("me", "3"), ("b", "4")])
    log.segment(4)
    log.write()
    settings = parse_settings({"cleanup.policy": "compact"})
    return plan_erasure_of(
        log.log_dir,
        TopicPartition("t", 0),
        settings,
        KEYS,
        now_ms=TimestampMs(START_MS),
        progress=lambda *_: None,
    )


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_all_that_is_staged_is_durable_when_it_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory, too; the check does not wait for it, and no file stays open."""
    plan, synced, at_check = planned(tmp_path), set[int](), list[set[int]]()
    fsync, before = os.fsync, open_files()

    def note(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    def progress(phase: str, done: int, _total: int) -> None:
        if phase == "check" and not done:
            at_check.append(set(synced))

    monkeypatch.setattr(os, "fsync", note)
    build_and_check(plan, KEYS, progress=progress)
    directory = staging_directory(plan)
    staged = {path.stat().st_ino for path in (directory, *directory.iterdir())}
    assert 7 == len(staged)
    assert staged <= synced
    assert [set()] == [names & staged for names in at_check]
    discard_staging(plan)
    assert before == open_files()


def test_output_that_cannot_be_made_durable_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is the disk's, and the log is as it was."""
    plan, fsync, checked, before = planned(tmp_path), os.fsync, list[str](), open_files()
    logs = logs_of(plan.log.directory)

    def fail(descriptor: int) -> None:
        if checked:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StepFailed, match=os.strerror(errno.EIO)):
        build_and_check(plan, KEYS, progress=lambda phase, *_: checked.append(phase))
    assert checked[-1] == "check"
    assert not (plan.log.directory / ".logwright").exists()
    assert logs == logs_of(plan.log.directory)
    assert before == open_files()
