"""`plan` shows all that is due for a log: roll, compaction, retention, purge, erasure requests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from logwright.erasure.request import Request
from logwright.erasure.secret import load_secret
from logwright.erasure.store import write_store
from tests.log_builder import START_MS, LogBuilder
from tests.unit.cli.conftest import Call

DAY_MS = 86_400_000
NOW_MS = START_MS + 10 * DAY_MS
DELETE = ("--config", "cleanup.policy=delete", "--config", f"retention.ms={7 * DAY_MS}")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    log = LogBuilder(tmp_path / "logs", "t-0")
    log.segment(0).batch(0, [("a", "1"), ("a", "2")])
    log.segment(2).batch(2, [("b", "1")])
    log.segment(3)
    return log.write().log_dir


def line_of(out: str, name: str = "t-0") -> str:
    (line,) = [line for line in out.splitlines() if line.startswith(f"{name} ")]
    return line


def test_due_retention_is_not_hidden(call: Call, log_dir: Path) -> None:
    """A delete-only log shows what `retain` would delete, as it would."""
    words = (log_dir, *DELETE, "--now", NOW_MS)
    text = call("plan", *words).out
    assert "  due: retention deletes 2 segments, " in line_of(text)
    assert "(segment 0: its newest record is 9 d 23 h old, retention.ms is 7 d)" in line_of(text)
    assert "Also due: retain 1 log." in text.splitlines()
    planned = call("plan", *words, "--output", "json").lines[0]["retention"]
    (retained,) = call("retain", *words, "--dry-run", "--output", "json").lines
    assert planned["due"]
    assert retained["deletedSegments"] == planned["segments"]
    assert retained["bytesToBeFreed"] == planned["bytes"]
    assert retained["logStartOffset"] == planned["logStartOffset"]


def test_delete_only_topics_do_not_argue_about_dirty_ratios(call: Call, log_dir: Path) -> None:
    """The number that decides is the age of the oldest segment, also with --verbose."""
    words = ("plan", log_dir, *DELETE, "--now", START_MS + DAY_MS)
    line = line_of(call(*words).out)
    assert "  not due: segment 0 stays: " in line
    assert line.endswith("its newest record is 23 h 59 min old, retention.ms is 7 d")
    assert "dirty ratio" not in call(*words, "--verbose").out
    assert "cleanup.policy=delete does not compact" in call(*words, "--verbose").out


def test_compaction_and_retention_are_side_by_side(call: Call, log_dir: Path) -> None:
    """Of a log with both policies, each with its reason."""
    both = ("--config", "cleanup.policy=compact,delete", *DELETE[2:])
    line = line_of(call("plan", log_dir, *both, "--now", NOW_MS).out)
    assert "due: dirty ratio 1.00 > 0.50; retention deletes 2 segments, " in line


def test_a_due_purge_is_shown(call: Call, log_dir: Path) -> None:
    """Retired files whose delay has passed; before, when they go is in JSON."""
    delay = ("--config", "file.delete.delay.ms=60000")
    assert 0 == call("retain", log_dir, *DELETE, "--yes", "--now", NOW_MS).status
    early = call("plan", log_dir, *DELETE, *delay, "--now", NOW_MS + 1, "--output", "json")
    purge = early.lines[0]["purge"]
    assert (False, NOW_MS + 60_000) == (purge["due"], purge["nextDueAtMs"])
    words = (log_dir, *DELETE, *delay, "--now", NOW_MS + 60_000)
    text = call("plan", *words).out
    (purged,) = call("purge", *words, "--dry-run", "--output", "json").lines
    assert f"; purge removes {len(purged['removed'])} files, " in line_of(text)
    assert "Also due: purge 1 log." in text.splitlines()


def test_a_due_roll_is_shown(call: Call, tmp_path: Path) -> None:
    """Of a delete-only log too."""
    log = LogBuilder(tmp_path / "logs", "t-0")
    log.segment(0).batch(0, [("a", "1")])
    words = (log.write().log_dir, *DELETE, "--config", "segment.ms=1000")
    text = call("plan", *words, "--now", START_MS + 5_000).out
    assert line_of(text).endswith("; active segment rolls by time")
    assert "Also due: roll 1 log." in text.splitlines()


@pytest.mark.parametrize(("deadline_ms", "count"), [(NOW_MS, 1), (NOW_MS + 5 * DAY_MS, 0)])
def test_due_erasure_requests_are_shown(
    call: Call, log_dir: Path, tmp_path: Path, deadline_ms: int, count: int
) -> None:
    """Those of the policies' store for the topic whose deadline, less the margin, has come."""
    secret_file = tmp_path / "secret"
    secret_file.write_bytes(bytes(range(32)))
    secret_file.chmod(0o600)
    secret = load_secret(secret_file)
    key = secret.hmac(b"a")
    erasure_request = Request(
        id="r1", topics="t", hmac=key, filter=None, received_at_ms=1, deadline_ms=deadline_ms
    )
    write_store(tmp_path / "store", [erasure_request], secret)
    shutil.rmtree(tmp_path / "policies", ignore_errors=True)
    (tmp_path / "policies").mkdir()
    erasure = {"store": str(tmp_path / "store"), "secret_file": str(secret_file)}
    policy = json.dumps({"version": 1, "erasure": erasure})
    (tmp_path / "policies" / "p.yml").write_text(policy)
    words = (log_dir, *DELETE, "--policies", tmp_path / "policies", "--now", NOW_MS)
    answer = call("plan", *words)
    assert bool(count) == ("1 erasure request due, first deadline" in line_of(answer.out))
    planned = call("plan", *words, "--output", "json").lines[0]["erasure"]
    assert {"dueRequests": count, "firstDeadlineMs": deadline_ms if count else None} == planned
