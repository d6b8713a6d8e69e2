"""What an erasure has built becomes durable while it is checked, and before it is committed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from logwright.batches.runtime import silent
from logwright.config.topic import parse_settings
from logwright.erasure.erase.check import ErasureChecks
from logwright.erasure.erase.commit import build_and_check, plan_erasure_of
from logwright.erasure.erase.model import ErasePlan
from logwright.errors import StepFailed
from logwright.format.names import TopicPartition
from logwright.rewrite.model import StagedSegment
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


def open_files(directory: Path) -> int:
    """How many files of a directory are open; others may be closed by a collection of garbage."""
    places = Path("/proc/self/fd").iterdir()
    return sum(os.path.realpath(place).startswith(f"{directory}/") for place in places)


def test_all_that_is_staged_is_durable_when_it_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory, too; the check of a segment does not wait for it, and no file stays open."""
    plan, synced, at_check = planned(tmp_path), set[int](), list[set[int]]()
    fsync, before = os.fsync, open_files(tmp_path)
    judge = ErasureChecks.judge

    def note(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    def noted(checks: ErasureChecks, segment: StagedSegment) -> None:
        at_check.append(set(synced))
        judge(checks, segment)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(ErasureChecks, "judge", noted)
    build_and_check(plan, KEYS, progress=silent)
    directory = staging_directory(plan)
    staged = {path.stat().st_ino for path in (directory, *directory.iterdir())}
    assert 7 == len(staged)
    assert staged <= synced
    assert [set(), set()] == [names & staged for names in at_check]
    discard_staging(plan)
    assert before - 2 == open_files(tmp_path)  # the sources are not mapped any more


def test_output_that_cannot_be_made_durable_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is the disk's, and the log is as it was."""
    plan, fsync, checked, before = planned(tmp_path), os.fsync, list[int](), open_files(tmp_path)
    judge = ErasureChecks.judge
    logs = logs_of(plan.log.directory)

    def noted(checks: ErasureChecks, segment: StagedSegment) -> None:
        judge(checks, segment)
        checked.append(segment.base_offset)

    def fail(descriptor: int) -> None:
        if len(checked) > 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    monkeypatch.setattr(ErasureChecks, "judge", noted)
    with pytest.raises(StepFailed, match=os.strerror(errno.EIO)):
        build_and_check(plan, KEYS, progress=silent)
    assert [0, 2] == checked
    assert not (plan.log.directory / ".logwright").exists()
    assert logs == logs_of(plan.log.directory)
    assert before - 2 == open_files(tmp_path)  # the sources are not mapped any more
