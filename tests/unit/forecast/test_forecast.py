"""What a forecast says of small logs, and of damaged ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.compaction.model import CleanPlan
from logwright.errors import CorruptBatch
from logwright.forecast.exact import forecast_exactly
from logwright.forecast.method import forecast_cheaply
from logwright.forecast.model import Forecast, Removal, forecast_error
from logwright.forecast.sampled import forecast_by_sample
from logwright.format.batch import HEADER_BYTES
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan

NOW_MS = START_MS + 1_000_000
BOTH = [forecast_exactly, forecast_by_sample]


def plan(builder: LogBuilder, **settings: str) -> CleanPlan:
    words = {"cleanup.policy": "compact", "segment.ms": str(1 << 60), **settings}
    return forced_plan(builder.log_dir, builder.partition, words, now_ms=NOW_MS)


def a_log(directory: Path) -> LogBuilder:
    """Of the second segment half of the records go."""
    builder = LogBuilder(directory)
    builder.segment(0).batch(0, [("a", "1" * 100), ("b", "1" * 100)])
    builder.segment(2).batch(2, [("a", "2"), ("a", "3"), (None, "4")])
    builder.segment(5).batch(5, [("b", None)], horizon_ms=NOW_MS - 1)
    builder.segment(6)
    return builder.write()


def test_each_cause_has_its_records(tmp_path: Path) -> None:
    """A batch that goes as a whole takes its header along."""
    builder = a_log(tmp_path / "logs")
    sizes = [len(batch) for segment in builder.segments for batch in segment.batches]
    forecast = forecast_exactly(plan(builder))
    assert forecast.by_cause["superseded"].records == 3
    assert forecast.tombstones == Removal(1, sizes[2] - HEADER_BYTES)  # the last batch stays, empty
    assert forecast.null_keys.records == 1
    assert sizes[0] <= forecast.superseded.bytes < sizes[0] + sizes[1]
    assert forecast.read_bytes == sum(sizes)
    assert forecast.retention == Removal()


def test_retention_frees_what_the_cleaning_leaves(tmp_path: Path) -> None:
    """Of the segments that it deletes, without counting bytes twice."""
    settings = {"cleanup.policy": "compact,delete", "retention.ms": "1000"}
    builder = a_log(tmp_path / "logs")
    whole = plan(builder).log.log_bytes
    forecast = forecast_exactly(plan(builder, **settings))
    assert forecast.retention.bytes > 0
    assert forecast.freed_bytes == whole
    only = forecast_exactly(plan(builder, **settings | {"cleanup.policy": "delete"}))
    assert only.freed_bytes >= whole


def test_small_logs_are_read_whole(tmp_path: Path) -> None:
    """A sample of a few keys says nothing."""
    planned = plan(a_log(tmp_path / "logs"))
    assert forecast_cheaply(planned) == forecast_exactly(planned)


@pytest.mark.parametrize("method", BOTH)
def test_nothing_to_clean_is_nothing_to_read(
    tmp_path: Path, method: Callable[[CleanPlan], Forecast]
) -> None:
    """Even where the segments cannot be read."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0)
    planned = plan(builder.write())
    assert method(planned).freed_bytes == 0


@pytest.mark.parametrize("method", BOTH)
def test_damage_is_named(tmp_path: Path, method: Callable[[CleanPlan], Forecast]) -> None:
    """File and position of the batch; a length inside a record runs past it."""
    builder = a_log(tmp_path / "logs")
    path = builder.directory / f"{2:020d}.log"
    content = bytearray(path.read_bytes())
    content[HEADER_BYTES] = 0x7E
    path.write_bytes(content)
    with pytest.raises(CorruptBatch) as error:
        method(plan(builder))
    assert error.value.path == path
    assert error.value.position == 0


@pytest.mark.parametrize(
    ("forecast", "freed", "expected"), [(110, 100, 0.1), (0, 10, -1), (5, 0, None)]
)
def test_error_is_a_share_of_what_was_freed(
    forecast: int, freed: int, expected: float | None
) -> None:
    """None if nothing was."""
    error = forecast_error(forecast, freed)
    assert error is None if expected is None else error == pytest.approx(expected)
