"""Logs that must be recovered: the sensor asks for them, the sweep recovers them."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.pipelines.lib.skipped import RETRY_AFTER_MS
from logwright.pipelines.segments.sensors import MARKER_TAKEN, due_logs
from logwright.steps.marker import lock_marker
from tests.e2e.harness import MARKS, POLICY, make_platform
from tests.e2e.test_sensors import LOGS, asked_logs, tick

pytestmark = MARKS

MARKER = ".kafka_cleanshutdown"
ONE_AT_A_TIME = "sweep:\n  max_logs: 1\n"


@pytest.mark.rotates(2)
def test_a_crash_without_another_byte_is_recovered(tmp_path: Path) -> None:
    """All is in order by the saved cursor; then the marker is gone, and no file is another."""
    platform = make_platform(tmp_path, LOGS)
    first = tick(due_logs, platform)
    assert platform.sweep(asked_logs(first)).success
    clean = tick(due_logs, platform, first.cursor)
    assert not clean.run_requests
    (platform.log_dir / MARKER).unlink()
    crashed = tick(due_logs, platform, clean.cursor)
    assert ["orders-0", "orders-1"] == sorted(asked_logs(crashed))
    assert platform.sweep(asked_logs(crashed)).success
    assert (platform.log_dir / MARKER).exists()
    recovered = tick(due_logs, platform, crashed.cursor)
    assert not recovered.run_requests
    assert "orders-0: dirty ratio" in str(recovered.skip_message)


@pytest.mark.rotates(3)
def test_a_log_with_leftovers_is_recovered_and_swept(tmp_path: Path) -> None:
    """It goes first, since nothing else is known of it; the other log is not held up."""
    platform = make_platform(tmp_path, LOGS)
    leftover = platform.partition("orders-1") / f"{0:020d}.log.cleaned"
    leftover.write_bytes(b"")
    data = tick(due_logs, platform)
    assert ["orders-1", "orders-0"] == asked_logs(data)
    assert platform.sweep(asked_logs(data)).success
    assert not leftover.exists()
    assert {"orders-0", "orders-1"} == platform.materialized()


def test_a_directory_is_recovered_by_one_run(tmp_path: Path) -> None:
    """The sweep of one of its logs recovers all of it: a second one would only find locks, and
    where it failed all of them wait for the next attempt.
    """
    platform = make_platform(tmp_path, LOGS, POLICY + ONE_AT_A_TIME)
    (platform.log_dir / MARKER).unlink()
    first = tick(due_logs, platform)
    assert 1 == len(asked_logs(first))
    second = tick(due_logs, platform, first.cursor)
    assert not second.run_requests
    later = tick(due_logs, platform.at(platform.now_ms + RETRY_AFTER_MS), second.cursor)
    assert 1 == len(asked_logs(later))


@pytest.mark.parametrize("held", [True, False], ids=["at work", "died"])
def test_a_tick_waits_for_no_append(tmp_path: Path, *, held: bool) -> None:
    """An append has taken the marker away: what is known is kept and nothing is asked for, until it
    ends; if it dies, the directory is to be recovered.
    """
    platform = make_platform(tmp_path, LOGS)
    first = tick(due_logs, platform)
    with lock_marker(platform.log_dir):
        (platform.log_dir / MARKER).unlink()
        during = tick(due_logs, platform, first.cursor)
    assert not during.run_requests
    assert f"orders-0: {MARKER_TAKEN}" in str(during.skip_message)
    if held:
        (platform.log_dir / MARKER).write_bytes(b"")
        after = tick(due_logs, platform, during.cursor)
        assert "orders-0: unchanged since its last sweep" in str(after.skip_message)
    else:
        after = tick(due_logs, platform, during.cursor)
        assert ["orders-0", "orders-1"] == sorted(asked_logs(after))
