"""Thousands of random logs, each cleaned by Kafka and by logwright: no difference.

A failure names its seed; `python -m tests.differential --seed N --shrink DIR` makes a case of it.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from logwright.compaction.model import CleaningOptions
from tests import comparison
from tests.differential import random_logs
from tests.differential.oracle_server import OracleServer
from tests.differential.random_logs import Shape, Tally, run_many, write_case
from tests.differential.shrink import FEATURES, write_named

LOGS = 120
"""By day."""

SHAPE: Shape = {}
"""Everything."""

RARE = frozenset(
    {
        "control batches without records",
        "gaps above 2^31",
        "markers past their horizon",
        "empty batches",
        "empty markers left",
        "horizons at this millisecond",
        "second passes",
    }
)
COMMON = frozenset(
    {
        "abort markers",
        "aborted transactions in indexes",
        "append time",
        "batches gzip",
        "batches lz4",
        "batches none",
        "batches snappy",
        "batches zstd",
        "checkpoints",
        "commit markers",
        "compact,delete",
        "earlier cleanings",
        "empty batches left",
        "empty keys",
        "empty segments",
        "empty values",
        "gaps",
        "groups of several segments",
        "headers",
        "high watermark short of the end",
        "horizons",
        "idempotent batches",
        "interleaved transactions",
        "invalid checkpoints",
        "leader epochs",
        "log start above the first segment",
        "logs with nothing to clean",
        "markers without data",
        "minimum lags",
        "no delete.retention.ms",
        "null keys removed",
        "oversized batches",
        "partial maps",
        "producer epochs bumped",
        "records removed",
        "records without a timestamp",
        "sequences that wrap",
        "sparse batches",
        "tombstones",
        "tombstones past their horizon",
        "transactional batches",
        "transactions ongoing",
    }
)
"""What a log must have had, at night one in fifty, and any the rare ones: or nothing was shown."""


def compare_many(server: OracleServer, first_seed: int, logs: int, scratch: Path) -> Tally:
    tally = Tally()
    for outcome in run_many(server, range(first_seed, first_seed + logs), SHAPE, scratch):
        tally.add(outcome)
    return tally


def judge(tally: Tally) -> None:
    figures = "\n".join(tally.lines())
    assert not tally.failures, figures
    assert not tally.refused, figures
    assert tally.compared > 0.9 * tally.logs, figures
    assert {name for name in COMMON if not tally.coverage[name]} == set(), figures


@pytest.mark.rotates(2)
@pytest.mark.oracle
@pytest.mark.timeout(600, method="thread")
def test_random_logs_are_cleaned_as_by_kafka(
    server: OracleServer, seed: int, scratch: Path
) -> None:
    """Same bytes, indexes, checkpoints and times, whatever a log is made of."""
    judge(compare_many(server, seed * 1_000_000, LOGS, scratch))


@pytest.mark.oracle
@pytest.mark.nightly
@pytest.mark.timeout(7200, method="thread")
def test_many_more_random_logs(
    server: OracleServer,
    seed: int,
    scratch: Path,
    pytestconfig: pytest.Config,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same by night, `--count` logs, with the figures."""
    tally = compare_many(server, seed * 1_000_000, pytestconfig.getoption("count"), scratch)
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(tally.lines()) + "\n")
    judge(tally)
    assert tally.compared > 0.95 * tally.logs
    assert {name for name in COMMON if tally.coverage[name] < tally.logs / 50} == set()
    assert {name for name in RARE if not tally.coverage[name]} == set()


@pytest.mark.rotates(2)
@pytest.mark.oracle
def test_a_seed_gives_the_same_log_again(server: OracleServer, scratch: Path) -> None:
    """Bytes, settings and outcome follow from the seed alone."""
    answers = [write_case(server, 7, {}, scratch / name) for name in ("one", "two")]
    assert answers[0] | {"name": "", "results": []} == answers[1] | {"name": "", "results": []}
    for side in ("before", "after"):
        first, two = scratch / "one" / side / "t-0", scratch / "two" / side / "t-0"
        assert [] == comparison.compare_partition(first.parent, two.parent, "t-0")


@pytest.mark.rotates(2)
@pytest.mark.oracle
def test_a_shape_takes_things_away(server: OracleServer, scratch: Path) -> None:
    """Without any of its features a log is plain records in batches."""
    shape: Shape = dict.fromkeys(FEATURES, False) | {"codecs": ["none"], "earlierCleanings": 0}
    kinds = ("batches", "records", "segments", "empty segments", "empty values", "passes")
    outcomes = (
        "empty batches left",
        "groups of several segments",
        "logs with nothing to clean",
        "records removed",
    )
    for outcome in run_many(server, range(20), shape, scratch):
        assert set(outcome.coverage) <= {
            *kinds,
            *outcomes,
            "batches none",
            "no delete.retention.ms",
        }


@pytest.mark.rotates(2)
@pytest.mark.oracle
def test_a_difference_is_found_and_made_small(
    server: OracleServer, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that maps all keys where Kafka's map is full shows it, in a case of few batches."""
    options = CleaningOptions(force=True, like_kafka=False)
    monkeypatch.setattr(random_logs, "LIKE_KAFKA", options)
    shape = SHAPE | {"smallBuffer": True, "lastRoll": True, "maxLag": False}
    with closing(run_many(server, range(40), shape, scratch)) as outcomes:
        failing = [one.seed for one in islice(outcomes, 10) if "plan" in one.kinds]
    assert failing
    small = write_named(server, failing[0], shape, scratch / "small", scratch)
    assert small is not None
    case = json.loads((small[0] / "case.json").read_text())
    assert {"before", "after", "before.jsonl", "after.jsonl", "case.json"} == {
        path.name for path in small[0].iterdir()
    }
    lines = [json.loads(line) for line in (small[0] / "before.jsonl").read_text().splitlines()]
    batches = [line for line in lines if line["type"] == "batch"]
    assert len(batches) <= 12
    assert {"none"} == {batch["compression"] for batch in batches}
    assert [] != random_logs.clean_and_compare(case | {"coverage": {}}, small[0])
