"""A stream's query that is killed and started again writes each row once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.spark.killed_streams import differences

pytestmark = [pytest.mark.spark, pytest.mark.crash]


@pytest.mark.timeout(900)
def test_rows_of_a_killed_query_come_once(tmp_path: Path, seed: int) -> None:
    """Whether the driver, its JVM or both are killed, and when."""
    fell, wrong = differences(1, seed, tmp_path)
    assert [] == wrong
    assert 1 == fell.total()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_rows_of_a_query_that_is_killed_often(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same, a hundred times; the figures are written."""
    fell, wrong = differences(100, seed, tmp_path)
    with capsys.disabled():
        sys.stdout.write(f"{dict(fell)}\n")
    assert [] == wrong
    assert fell["within a micro-batch"] > 10
