"""Retention of compact,delete logs by the sweep that compacts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.assets.lib.partitions import RETENTION_ASSET
from logwright.checks.due import SEGMENTS_DELETED, SEGMENTS_LEFT
from logwright.format.names import TopicPartition
from logwright.pipelines.segments.sweep import sweep
from tests.e2e.faults import bit_flipped
from tests.e2e.harness import MARKS, Platform, make_platform, tree
from tests.e2e.test_due_checks import passed
from tests.e2e.test_retention import failure_of, observations, quarantine, run

pytestmark = MARKS

DAY_MS = 86_400_000
POLICY = """\
version: 1
high_watermark: end
defaults:
  cleanup.policy: compact,delete
  retention.ms: 1
  min.cleanable.dirty.ratio: 0.5
  segment.ms: 9000000000000
topics:
  - name: young
    retention.ms: 9000000000000
  - name: compacted
    cleanup.policy: compact
  - name: not-due
    min.cleanable.dirty.ratio: 1.0
"""


def on_the_next_day(tmp_path: Path, *keys: str) -> Platform:
    """Logs of one fixture, a day after its cleaning was due."""
    platform = make_platform(tmp_path, dict.fromkeys(keys, "basic-none"), POLICY)
    return platform.at(platform.now_ms + DAY_MS)


def retentions(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """Of each log that lost segments by its retention, what was recorded."""
    events = observations(result)
    return {key: one for key, one in events.items() if "segments deleted" in one}


def test_compacted_logs_lose_old_segments(tmp_path: Path) -> None:
    """Those that were compacted and those that were not due, if old and their policy has delete."""
    platform = on_the_next_day(tmp_path, "old-0", "not-due-0", "young-0", "compacted-0")
    done = platform.sweep([])
    assert done.success
    assert {"old-0", "not-due-0", "young-0", "compacted-0"} == platform.materialized()
    lost = retentions(done)
    assert {"old-0", "not-due-0"} == lost.keys()
    assert {(SEGMENTS_DELETED, None): True, (SEGMENTS_LEFT, None): True} == passed(
        done, RETENTION_ASSET
    )
    assert all("retention.ms is 1" in one["reasons"] for one in lost.values())
    assert lost["old-0"]["bytes before"] < lost["not-due-0"]["bytes before"]
    left = {
        key: sorted(path.name for path in platform.partition(key).glob("*.log"))
        for key in ("old-0", "not-due-0", "young-0", "compacted-0")
    }
    assert 1 == len(left["old-0"]) == len(left["not-due-0"])
    assert 1 < len(left["young-0"])
    assert left["young-0"] == left["compacted-0"]


@pytest.mark.rotates(4)
@pytest.mark.parametrize("why", ["quarantined", "disabled"])
def test_logs_that_the_cleaner_leaves_alone_keep_all(tmp_path: Path, why: str) -> None:
    """In quarantine, or without a cleaner: no segment goes, the run is green; by force they go."""
    platform = on_the_next_day(tmp_path, "old-0", "old-1")
    if why == "disabled":
        policy = POLICY.replace("defaults:\n", "defaults:\n  log.cleaner.enable: false\n")
        (platform.policies / "policies.yml").write_text(policy)
    else:
        quarantine(platform, TopicPartition("old", 1))
    before = tree(platform.partition("old-1"))
    done = platform.sweep([])
    assert done.success
    assert ({"old-0"} if why == "quarantined" else set()) == retentions(done).keys()
    assert before == tree(platform.partition("old-1"))
    forced = run(platform, sweep, {"ops": {"plan_sweep": {"config": {"force": True}}}})
    assert forced.success
    assert "old-1" in retentions(forced)


@pytest.mark.rotates(4)
def test_log_that_cannot_be_compacted_keeps_all(tmp_path: Path) -> None:
    """A broker marks it as uncleanable and deletes nothing of it; the other log is done."""
    platform = on_the_next_day(tmp_path, "old-0", "old-1")
    bit_flipped(min(platform.partition("old-0").glob("*.log")))
    before = tree(platform.partition("old-0"))
    done = platform.sweep([])
    assert "old-0: CorruptBatch" in failure_of(done)
    assert {"old-1"} == retentions(done).keys()
    assert before == tree(platform.partition("old-0"))


@pytest.mark.rotates(4)
def test_retention_that_fails_undoes_no_compaction(tmp_path: Path) -> None:
    """The run is red and names the log, which is compacted."""
    platform = on_the_next_day(tmp_path, "old-0")
    (platform.partition("old-0") / "leader-epoch-checkpoint").write_text("no version\n")
    done = platform.sweep([])
    assert "old-0: CorruptCheckpoint" in failure_of(done)
    assert {"old-0"} == platform.materialized()
