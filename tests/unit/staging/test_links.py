"""Whoever puts a link in the place of a staging directory gets nothing created or removed through
it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logwright.batches.runtime import Runtime
from logwright.errors import StalePlan
from logwright.ingest.appender import Appender
from logwright.ingest.model import AppendPlan
from logwright.rewrite.staging import discard_staging
from logwright.sweep.build import build
from logwright.sweep.commit import commit
from tests.ingested import Row, arrow, planned
from tests.unit.staging.test_live_plans import NOW_MS, plan_of, write_log

LINKS = pytest.mark.parametrize("link", [".logwright", ".logwright/staging"])


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_log(tmp_path / "logs")


def swap_for_link(log_dir: Path, link: str, plan_id: str) -> Path:
    """Put a link in the place of a directory; where it leads there is one of the plan's name, with
    a file in it.
    """
    canary = log_dir.parent / "canary"
    inside = canary / ("staging" if link == ".logwright" else "") / plan_id
    inside.mkdir(parents=True)
    (inside / "canary").touch()
    path = log_dir / "t-0" / link
    path.rename(log_dir.parent / "aside")
    path.symlink_to(canary)
    return inside


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


@LINKS
def test_link_during_a_build(log_dir: Path, link: str) -> None:
    """After the first of its files; the output is not at its place then, and is not committed."""
    plan = plan_of(log_dir)
    looked_at: list[Path] = []

    def swapped_once(file: int) -> None:
        os.fsync(file)
        if not looked_at:
            looked_at.append(swap_for_link(log_dir, link, plan.plan_id))

    staged = build(plan, runtime=Runtime(sync=swapped_once))
    assert names(looked_at[0]) == ["canary"]
    (log_dir / "t-0" / link).unlink()
    with pytest.raises(StalePlan):
        commit(plan, staged)


@LINKS
def test_link_before_a_plan_is_discarded(log_dir: Path, link: str) -> None:
    """What it leads to stays."""
    plan = plan_of(log_dir)
    build(plan)
    inside = swap_for_link(log_dir, link, plan.plan_id)
    discard_staging(plan)
    assert names(inside) == ["canary"]


@LINKS
def test_link_while_records_are_staged(log_dir: Path, link: str) -> None:
    """No file of the append is created through it, and none is removed when it is given up."""
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    rows: list[Row] = [(b"k", b"v", [], int(NOW_MS))]
    plan = planned(log_dir, {}, now_ms=NOW_MS)
    assert isinstance(plan, AppendPlan)
    appender = Appender(plan)
    inside = swap_for_link(log_dir, link, plan.plan_id)
    appender.add(arrow(rows))
    appender.finish()
    assert names(inside) == ["canary"]
    appender.discard()
    assert names(inside) == ["canary"]
