"""A log that only `max.compaction.lag.ms` makes due: its files stay as they are, time goes by."""

from __future__ import annotations

from pathlib import Path

from logwright.assets.lib.partitions import SEGMENT_SET
from logwright.pipelines.segments.sensors import due_logs
from tests.e2e.harness import MARKS, make_platform, tree
from tests.e2e.test_sensors import asked_logs, tick
from tests.fixtures import description
from tests.ingested import read_batches

pytestmark = MARKS

POLICY = """\
version: 1
high_watermark: end
defaults:
  cleanup.policy: compact
  min.cleanable.dirty.ratio: 1.0
  segment.ms: 9000000000000
  max.compaction.lag.ms: {lag}
"""


def test_an_idle_log_is_asked_for_one_ms_after_its_lag(tmp_path: Path) -> None:
    """The same files, the cursor of the tick before: not at the lag, 1 ms later; then it is swept,
    and is due by the lag no more.
    """
    now_ms = description("basic-none")["now"]
    platform = make_platform(tmp_path, {"orders-0": "basic-none"})
    oldest_ms = read_batches(platform.log_dir, partition="orders-0")[0].header.max_timestamp
    deadline_ms = now_ms + 3_600_000
    policy = POLICY.format(lag=deadline_ms - oldest_ms)
    (platform.policies / "policies.yml").write_text(policy)
    before = tree(platform.log_dir)
    cursor = None
    for at_ms in (now_ms, deadline_ms - 1, deadline_ms):
        early = tick(due_logs, platform.at(at_ms), cursor)
        assert not early.run_requests
        assert "orders-0: dirty ratio 1.00 of 1.00" in str(early.skip_message)
        cursor = early.cursor
    assert before == tree(platform.log_dir)
    platform = platform.at(deadline_ms + 1)
    due = tick(due_logs, platform, cursor)
    assert ["orders-0"] == asked_logs(due)
    run = platform.sweep(asked_logs(due))
    assert run.success
    swept = run.asset_materializations_for_node("swap_sweep")
    (metadata,) = [event.metadata for event in swept if event.asset_key == SEGMENT_SET]
    assert "1" == metadata["num-logs-compacted-by-max-compaction-lag"].value
    assert not tick(due_logs, platform, due.cursor).run_requests
