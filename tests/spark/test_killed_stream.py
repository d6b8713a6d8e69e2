"""Queries of streams that are killed and started again write each row once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.spark.killed_streams import kill_queries, summary

pytestmark = [pytest.mark.spark, pytest.mark.crash]


@pytest.mark.rotates(4)
@pytest.mark.timeout(900)
def test_rows_of_killed_queries_come_once(tmp_path: Path, seed: int) -> None:
    """Of stopped and running directories, whatever is killed, and when."""
    done = kill_queries(3, seed, tmp_path, queries=3)
    assert [] == done.wrong
    assert done.fell.total() >= 3


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_rows_of_queries_that_are_killed_often(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same, 200 times; the figures are written."""
    done = kill_queries(200, seed, tmp_path)
    with capsys.disabled():
        sys.stdout.write(summary(done))
    assert [] == done.wrong
    moments = {fell.moment for fell in done.fell}
    assert {"within a micro-batch", "between two"} <= moments
