"""The inventory's word on a log that could not be planned."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from logwright.assets.fleet.inventory import fleet_row, free_space_check
from logwright.config.policy_models import DiskLimits
from logwright.errors import CorruptBatch, LogwrightError, UncleanLogDir
from logwright.fleet.model import DirectorySpace
from logwright.format.names import TopicPartition
from logwright.place.named import place_of
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


def test_a_directory_whose_space_is_not_known_does_not_pass() -> None:
    """Nor does an inventory of no directory: nothing was looked at."""
    known = DirectorySpace(name="a", log_dir=Path("/a"), total_bytes=100, free_bytes=50)
    unknown = DirectorySpace(name="b", log_dir=Path("/b"), problem="/b: it is gone.")
    check = free_space_check([known, unknown], DiskLimits())
    assert not check.passed
    assert dg.AssetCheckSeverity.WARN is check.severity
    assert "/b: its free space is not known. /b: it is gone." == check.description
    assert 1 == check.metadata["log directories looked at"].value
    assert free_space_check([known], DiskLimits()).passed
    assert not free_space_check([], DiskLimits()).passed


def test_a_bucket_has_no_disk() -> None:
    """It is neither low nor unknown, unless it could not be looked at."""
    place = place_of("s3://archive/b")
    known = DirectorySpace(name="a", log_dir=Path("/a"), total_bytes=100, free_bytes=50)
    bucket = DirectorySpace(name="b", log_dir=place)
    check = free_space_check([known, bucket], DiskLimits(min_free_bytes=0))
    assert check.passed
    assert 1 == check.metadata["log directories looked at"].value
    silent = DirectorySpace(name="b", log_dir=place, problem="does not answer.")
    check = free_space_check([known, silent], DiskLimits(min_free_bytes=0))
    assert not check.passed
    assert "s3://archive/b: its free space is not known. does not answer." == check.description
