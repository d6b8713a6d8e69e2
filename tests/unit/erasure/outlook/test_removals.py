"""Which cleanings are to come, and when records are gone, in ms after `START_MS`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logwright.config.topic import TopicConfig, parse_settings
from logwright.erasure.outlook.cleanings import NO_TIME, SWEEP, Cleaning, cleanings
from logwright.erasure.outlook.removals import RULES, Records, removals
from logwright.erasure.outlook.suggestions import with_tombstones
from logwright.erasure.outlook.upkeep import Upkeep
from logwright.log.load import observe
from logwright.log.model import PartitionLog
from logwright.units import INT64_MAX
from tests.log_builder import START_MS, LogBuilder

NOW = START_MS + 1_000
COMPACT = {
    "cleanup.policy": "compact",
    "segment.ms": "10000",
    "max.compaction.lag.ms": "20000",
    "min.cleanable.dirty.ratio": "1",
    "delete.retention.ms": "30000",
    "file.delete.delay.ms": "5000",
}


def config(**changes: str) -> TopicConfig:
    pairs = {name.replace("_", "."): value for name, value in changes.items()}
    return parse_settings({**COMPACT, **pairs})[0]


def a_log(
    directory: Path, *, checkpoint: int | None = None, transaction: bool = False
) -> PartitionLog:
    """Two closed segments, of 0 ms and of 100 ms, and an active one of 200 ms."""
    builder = LogBuilder(directory)
    for number, base in enumerate((0, 2, 4)):
        times = [START_MS + 100 * number] * 2
        values: list[tuple[str, str]] = [(f"k{base}", "x" * 500), ("k", "y" * 500)]
        builder.segment(base).batch(
            base,
            values,
            timestamps=times,
            producer_id=7 if transaction and base == 2 else -1,
            transactional=transaction and base == 2,
        )
    builder.write(producers=True)
    return observe(directory, builder.partition, high_watermark="end")


def records(offsets: list[int], **masks: Any) -> Records:  # noqa: ANN401 -- lists of bool, and a function
    count = len(offsets)

    def mask(name: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.array(masks.get(name, [False] * count), dtype=np.bool_)

    horizons = masks.get("horizons", [NO_TIME] * count)
    deadlines = [START_MS + each for each in masks.get("deadlines", [INT64_MAX - START_MS] * count)]
    return Records(
        offsets=np.array(offsets, dtype=np.int64),
        superseded=mask("superseded"),
        aborted=mask("aborted"),
        tombstones=mask("tombstones"),
        horizons=np.array(horizons, dtype=np.int64),
        deadlines=np.array(deadlines, dtype=np.int64),
        superseded_within=masks.get("within", lambda *_: mask("superseded")),
    )


def after(*passes: Cleaning) -> list[tuple[int, int, int, str]]:
    return [(one.at_ms - START_MS, one.first_offset, one.end_offset, one.rule) for one in passes]


LAG_RULE, RATIO_RULE = "max.compaction.lag.ms", "min.cleanable.dirty.ratio"


@pytest.mark.parametrize(
    ("changes", "upkeep", "expected"),
    [
        # Segment 0 exceeds the lag after 20 s; by then the active segment was due to roll.
        ({}, Upkeep(), [(20_001, 0, 6, LAG_RULE)]),
        # The same run may be late by the interval: the next one is looked for after it.
        ({}, Upkeep(run_interval_ms=5_000), [(20_001, 0, 6, LAG_RULE)]),
        # Without a lag only the ratio counts: 1 is never exceeded, 0.3 is at once.
        ({"max_compaction_lag_ms": str(INT64_MAX)}, Upkeep(), []),
        (
            {"max_compaction_lag_ms": str(INT64_MAX), "min_cleanable_dirty_ratio": "0.3"},
            Upkeep(),
            [(1_000, 0, 4, RATIO_RULE), (10_201, 4, 6, RATIO_RULE)],
        ),
        # min.compaction.lag.ms: what is younger than 15 s stays, and all after it.
        (
            {
                "max_compaction_lag_ms": str(INT64_MAX),
                "min_cleanable_dirty_ratio": "0",
                "min_compaction_lag_ms": "15000",
            },
            Upkeep(),
            [
                (15_000, 0, 2, RATIO_RULE),
                (15_100, 2, 4, RATIO_RULE),
                (15_200, 4, 6, RATIO_RULE),
            ],
        ),
        ({}, Upkeep(forced=True), [(1_000, 0, 4, RATIO_RULE), (10_201, 4, 6, RATIO_RULE)]),
        ({}, Upkeep(cleans=False), []),
        ({"cleanup_policy": "delete"}, Upkeep(forced=True), []),
        # Retention removes segment 0 before: the log is due for the sake of segment 2.
        (
            {"cleanup_policy": "compact,delete", "retention_bytes": "2000"},
            Upkeep(),
            [(20_101, 2, 6, LAG_RULE)],
        ),
        # It removes all before anything is due.
        ({"cleanup_policy": "compact,delete", "retention_ms": "15000"}, Upkeep(), []),
    ],
)
def test_cleanings(
    tmp_path: Path,
    changes: dict[str, str],
    upkeep: Upkeep,
    expected: list[tuple[int, int, int, str]],
) -> None:
    """When a cleaning is due, what its map covers, and which setting makes it due."""
    log = a_log(tmp_path / "logs")
    assert expected == after(*cleanings(log, config(**changes), now_ms=NOW, upkeep=upkeep))


def swept(deadline_ms: int, **changes: Any) -> Upkeep:  # noqa: ANN401 -- those of `Upkeep`
    """The sensor sweeps the log for a deadline, in ms after `START_MS`."""
    return Upkeep(margin_ms=1_000, deadline_ms=START_MS + deadline_ms, **changes)


SWEPT_AGAIN = 900_000
SWEPT = Upkeep(margin_ms=1_000)


@pytest.mark.parametrize(
    ("upkeep", "horizons", "expected"),
    [
        # Sweeps at 63 s and 94 s: nothing is to be done in either.
        (swept(100_000), [], [(20_001, 0, 6, LAG_RULE)]),
        # A tombstone gets the horizon 50 001: the first sweep cleans from the start of the log.
        (swept(100_000), [NO_TIME], [(20_001, 0, 6, LAG_RULE), (63_000, 0, 6, SWEEP)]),
        (
            swept(100_000),
            [START_MS + 63_001],
            [(20_001, 0, 6, LAG_RULE), (94_000, 0, 6, SWEEP)],
        ),
        # Without a cleaner: the first rolls and cleans, the second is after the horizon.
        (swept(100_000, cleans=False), [NO_TIME], [(63_000, 0, 6, SWEEP), (94_000, 0, 6, SWEEP)]),
        # The first time has passed: a sweep may come at any time, and the lag is not counted on. If
        # it is in time after that one, the second does not come: by the deadline it is gone.
        (
            swept(30_000),
            [NO_TIME],
            [(25_000, 0, 6, SWEEP), (55_000 + SWEPT_AGAIN, 0, 6, SWEEP)],
        ),
        # So has the second one.
        (
            swept(2_000),
            [NO_TIME],
            [(1_000 + SWEPT_AGAIN, 0, 6, SWEEP), (31_000 + 2 * SWEPT_AGAIN, 0, 6, SWEEP)],
        ),
    ],
)
def test_sweeps(
    tmp_path: Path, upkeep: Upkeep, horizons: list[int], expected: list[tuple[int, int, int, str]]
) -> None:
    """At the times of the sensor, as long as there is something for them to do."""
    log = a_log(tmp_path / "logs")
    coming = cleanings(log, config(), now_ms=NOW, upkeep=upkeep, horizons=horizons)
    assert expected == after(*coming)


def test_what_a_smaller_output_would_bring_forward(tmp_path: Path) -> None:
    """The ratio is 0.5 or more at 15.1 s. If the log is cleaned then, it is not due at 15.2 s: that
    is counted on as far as that earlier cleaning would go.
    """
    changed = config(
        max_compaction_lag_ms=str(INT64_MAX),
        min_cleanable_dirty_ratio="0.6",
        min_compaction_lag_ms="15000",
    )
    coming = cleanings(a_log(tmp_path / "logs"), changed, now_ms=NOW, upkeep=Upkeep())
    assert [(15_000, 0, 2, RATIO_RULE), (15_200, 2, 4, RATIO_RULE)] == after(*coming)


def test_an_open_transaction_holds_cleanings_back(tmp_path: Path) -> None:
    """Nothing from its first offset on is cleaned."""
    log = a_log(tmp_path / "logs", transaction=True)
    passes = cleanings(log, config(), now_ms=NOW, upkeep=Upkeep())
    assert [(20_001, 0, 2, LAG_RULE)] == after(*passes)


DELAY = 5_000


@pytest.mark.parametrize(
    ("selected", "changes", "upkeep", "expected"),
    [
        # A live record of a compacted topic: nothing removes it.
        (records([0]), {}, Upkeep(), [("", None)]),
        # A superseded one, and an aborted one: the cleaning, then the purge.
        (records([0], superseded=[True]), {}, Upkeep(), [(LAG_RULE, 20_001 + DELAY)]),
        (records([5], aborted=[True]), {}, Upkeep(), [(LAG_RULE, 20_001 + DELAY)]),
        # Both wait for a run.
        (
            records([0], superseded=[True]),
            {},
            Upkeep(run_interval_ms=700),
            [(LAG_RULE, 20_001 + DELAY + 1_400)],
        ),
        # What supersedes it is not covered by the map.
        (
            records([0], superseded=[True], within=lambda *_: np.array([False])),
            {},
            Upkeep(),
            [(RATIO_RULE, None)],
        ),
        # A tombstone gets a horizon, and nothing makes the log due after it.
        (records([0], tombstones=[True]), {}, Upkeep(), [("delete.retention.ms", None)]),
        # ... unless records of other keys are appended all the time.
        (
            records([0], tombstones=[True]),
            {},
            Upkeep(appends_continue=True),
            [("delete.retention.ms", 20_001 + 30_000 + 20_000 + 1 + DELAY)],
        ),
        # A horizon that is reached, and one that is reached just too late for the cleaning.
        (
            records([0, 1], tombstones=[True] * 2, horizons=[START_MS + 20_001, START_MS + 20_002]),
            {},
            Upkeep(),
            [("delete.retention.ms", 20_001 + DELAY), ("delete.retention.ms", None)],
        ),
        # Retention: of the segment's largest timestamp, strictly; and the segments before it.
        (
            records([0, 2, 4], superseded=[True, False, False]),
            {"cleanup_policy": "delete", "retention_ms": "50000"},
            Upkeep(),
            [("retention.ms", 50_001 + 100 * number + DELAY) for number in range(3)],
        ),
        # Compacted too: cleanings join segments, so the youngest counts; the first rule wins.
        (
            records([0, 1], superseded=[True, False]),
            {"cleanup_policy": "compact,delete", "retention_ms": "50000"},
            Upkeep(),
            [(LAG_RULE, 20_001 + DELAY), ("retention.ms", 50_201 + DELAY)],
        ),
        (
            records([0, 3, 5]),
            {"cleanup_policy": "delete", "retention_bytes": "1400", "retention_ms": "-1"},
            Upkeep(),
            [("retention.bytes", 1_000 + DELAY), ("", None), ("", None)],
        ),
        # Before the next cleaning the sizes are those on disk; after it they are not known.
        (
            records([0]),
            {"cleanup_policy": "compact,delete", "retention_bytes": "1400", "retention_ms": "-1"},
            Upkeep(run_interval_ms=19_000),
            [("retention.bytes", 1_000 + DELAY + 38_000)],
        ),
        (
            records([0]),
            {"cleanup_policy": "compact,delete", "retention_bytes": "1400", "retention_ms": "-1"},
            Upkeep(run_interval_ms=19_001),
            [("", None)],
        ),
        # A tombstone that a sweep removes; what is gone before the deadline needs none.
        (
            records(
                [0, 1],
                superseded=[True, False],
                tombstones=[False, True],
                deadlines=[100_000] * 2,
            ),
            {},
            SWEPT,
            [(LAG_RULE, 20_001 + DELAY), (SWEEP, 63_000 + DELAY)],
        ),
        (
            records([0], superseded=[True], deadlines=[25_001]),
            {},
            SWEPT,
            [(LAG_RULE, 20_001 + DELAY)],
        ),
        (
            records([0], superseded=[True], deadlines=[25_000]),
            {},
            SWEPT,
            [(SWEEP, 20_000 + DELAY)],
        ),
        # No sweep removes a live record.
        (records([0], deadlines=[100_000]), {}, SWEPT, [("", None)]),
        # Nothing sweeps it if that is not known.
        (
            records([0], tombstones=[True], deadlines=[100_000]),
            {},
            Upkeep(),
            [("delete.retention.ms", None)],
        ),
        # Two deadlines: each record is gone by its own. After the first sweep no run is counted on.
        (
            records([0, 1], tombstones=[True] * 2, deadlines=[100_000, 200_000]),
            {},
            SWEPT,
            [(SWEEP, 100_000), (SWEEP, 200_000)],
        ),
        (
            records([0, 1], superseded=[True] * 2, deadlines=[25_000, 90_000]),
            {},
            SWEPT,
            [(SWEEP, 25_000), (SWEEP, 90_000)],
        ),
        # Two deadlines within a margin share their sweeps.
        (
            records([0, 1], tombstones=[True] * 2, deadlines=[100_000, 100_999]),
            {},
            SWEPT,
            [(SWEEP, 63_000 + DELAY)] * 2,
        ),
        # Of a key without a request nothing is known from the first sweep on.
        (
            records([0, 1], superseded=[True] * 2, deadlines=[25_000, INT64_MAX - START_MS]),
            {},
            SWEPT,
            [(SWEEP, 25_000), (RATIO_RULE, None)],
        ),
        (
            records(
                [0, 1],
                superseded=[False, True],
                tombstones=[True, False],
                deadlines=[100_000, INT64_MAX - START_MS],
            ),
            {},
            SWEPT,
            [(SWEEP, 100_000), (LAG_RULE, 20_001 + DELAY)],
        ),
        (
            records([0]),
            {"cleanup_policy": "delete", "retention_ms": "50000"},
            Upkeep(retains=False),
            [("", None)],
        ),
    ],
)
def test_removals(
    tmp_path: Path,
    selected: Records,
    changes: dict[str, str],
    upkeep: Upkeep,
    expected: list[tuple[str, int | None]],
) -> None:
    """Which rule removes a record, and when its bytes are gone."""
    log = a_log(tmp_path / "logs")
    removed = removals(selected, log, config(**changes), now_ms=NOW, upkeep=upkeep)
    times = [None if time == NO_TIME else time - START_MS for time in removed.times.tolist()]
    assert expected == list(zip([RULES[one] for one in removed.rules.tolist()], times, strict=True))


def test_tombstones_that_are_appended(tmp_path: Path) -> None:
    """The log is longer, and its active segment rolls by its first batch, as before."""
    log = a_log(tmp_path / "logs")
    longer = with_tombstones(log, 3, now_ms=NOW)
    assert (9, 9, 9) == (longer.log_end_offset, longer.high_watermark, longer.last_stable_offset)
    assert longer.active.largest_timestamp_ms == NOW
    assert log.active.first_batch_max_timestamp_ms == longer.active.first_batch_max_timestamp_ms
    held = a_log(tmp_path / "held", transaction=True)
    assert held.last_stable_offset == with_tombstones(held, 1, now_ms=NOW).last_stable_offset
