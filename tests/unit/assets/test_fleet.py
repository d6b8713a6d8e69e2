"""The inventory's word on a log that could not be planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.assets.fleet import fleet_row
from logwright.errors import CorruptBatch, LogwrightError, UncleanLogDir
from logwright.format.names import TopicPartition
from logwright.sweep.model import LogWork


@pytest.mark.parametrize(
    ("error", "state"), [(UncleanLogDir("no marker"), "due"), (CorruptBatch("crc"), "refused")]
)
def test_a_log_to_be_recovered_is_due(error: LogwrightError, state: str) -> None:
    """The next sweep recovers it; what else is wrong waits for somebody."""
    row = fleet_row(
        LogWork(key="t-0", log_dir=Path("/logs"), partition=TopicPartition("t", 0), failure=error),
        None,
    )
    assert (state, str(error)) == (row.state, row.why)
