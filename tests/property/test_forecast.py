"""A forecast is what the cleaning then removes, on logs that Hypothesis makes up and on random logs
of many keys.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from logwright.forecast.exact import forecast_exactly
from logwright.forecast.model import Forecast
from logwright.forecast.sampled import FEWEST_KEYS, forecast_by_sample
from logwright.format.siphash import HashKey
from logwright.sweep.build import build
from tests.differential.random_logs import scratch_directory
from tests.forecast_logs import plan_of, write_random_log
from tests.property.made_up_logs import MadeUpLog, made_up_logs, plan
from tests.property.test_cleaning_rules import LONGER, bounded, written

ROUNDING_BYTES = 3
RANDOM_LOGS = 10
KEYS = 50_000


def records_of(forecast: Forecast) -> tuple[int, ...]:
    return tuple(removal.records for removal in forecast.by_cause.values())


@pytest.mark.rotates(1)  # at night with more examples
@settings(bounded, max_examples=120 * LONGER)
@given(made_up_logs())
def test_all_keys_give_what_is_removed(log: MadeUpLog) -> None:
    """The records of each cause, and the bytes: few batches are compressed, so all are measured.
    All keys as the sample give the same records.
    """
    with written(log) as builder:
        planned = plan(log, builder)
        forecast = forecast_exactly(planned)
        sampled = forecast_by_sample(planned, share=1)
        if not planned.clean:
            assert forecast.cleaned_bytes == 0
            return
        stats = build(planned).stats
        removed_aborted = stats.removed_aborted + stats.removed_markers
        removed = (stats.removed_superseded, stats.removed_tombstones, removed_aborted)
        assert records_of(forecast) == (*removed, stats.removed_null_keys, 0, 0)
        assert abs(forecast.cleaned_bytes - stats.bytes_removed) <= ROUNDING_BYTES
        assert forecast.read_bytes == stats.bytes_read or log.like_kafka
        assert min(removal.bytes for removal in forecast.by_cause.values()) >= 0
        if not log.like_kafka:
            assert records_of(sampled) == records_of(forecast)


@pytest.mark.rotates(8)
def test_random_logs_of_many_keys() -> None:
    """All keys: at most 5 % of what is removed, of each log. One key of 64: at most 15 % of each
    log with enough keys in the sample. In sum 1 % and 5 %.
    """
    errors, sums = [], np.zeros(3)
    for seed in range(RANDOM_LOGS):
        with scratch_directory() as scratch:
            log = write_random_log(scratch / "logs", seed, keys=KEYS, records=2 * KEYS)
            planned = plan_of(log)
            exact = forecast_exactly(planned)
            sampled = forecast_by_sample(planned, hash_key=HashKey(low=seed, high=1))
            removed = build(planned).stats.bytes_removed
        assert abs(exact.cleaned_bytes - removed) <= 0.05 * removed
        assert sampled.sampled_keys is not None
        if sampled.sampled_keys >= FEWEST_KEYS:
            errors.append(abs(sampled.cleaned_bytes - removed) / removed)
        sums += (exact.cleaned_bytes, sampled.cleaned_bytes, removed)
    assert len(errors) >= RANDOM_LOGS // 2
    assert max(errors) <= 0.15
    assert abs(sums[0] - sums[2]) <= 0.01 * sums[2]
    assert abs(sums[1] - sums[2]) <= 0.05 * sums[2]
