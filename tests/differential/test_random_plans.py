"""Thousands of random partitions: of each, Kafka's cleaner manager and we decide the same."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.differential.oracle_server import OracleServer
from tests.differential.random_plans import SMALL, PlanOutcome, run_plans

PLANS = 500
"""By day."""

SEEN = (
    "eligible",
    "eligible by the lag alone",
    "not compacted",
    "checkpoint below the start",
    "checkpoint beyond the end",
    "checkpoint inside a segment",
    "no checkpoint",
    "start inside a segment",
    "held back by the minimum lag",
    "held back by a transaction",
    "held back by the high watermark",
    "delayed",
    "nothing dirty",
    "directories with several eligible",
)
"""What at least one partition must have shown, and at night one in a hundred."""


def plan_many(
    server: OracleServer, first_seed: int, plans: int, scratch: Path
) -> tuple[list[PlanOutcome], Counter[str]]:
    seen: Counter[str] = Counter()
    failures = []
    seeds = range(first_seed, first_seed + plans)
    with closing(run_plans(server, seeds, SMALL, scratch)) as outcomes:
        for outcome in outcomes:
            seen += outcome.coverage
            if outcome.differences:
                failures.append(outcome)
            if seen["partitions"] >= plans:
                break
    return failures, seen


def judge(failures: list[PlanOutcome], seen: Counter[str]) -> None:
    shown = [f"seed {each.seed}: {'; '.join(each.differences[:4])}" for each in failures[:20]]
    assert [] == shown, seen
    assert [] == [name for name in SEEN if not seen[name]], seen


@pytest.mark.rotates(2)
@pytest.mark.oracle
@pytest.mark.timeout(600, method="thread")
def test_random_partitions_are_planned_as_by_kafka(
    server: OracleServer, seed: int, scratch: Path
) -> None:
    """Eligibility, every offset, bytes, ratio, delay and pick order."""
    judge(*plan_many(server, seed * 1_000_000, PLANS, scratch))


@pytest.mark.oracle
@pytest.mark.nightly
@pytest.mark.timeout(7200, method="thread")
def test_many_more_random_partitions(
    server: OracleServer,
    seed: int,
    scratch: Path,
    pytestconfig: pytest.Config,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same by night, `--count` partitions, with the figures."""
    outcome = plan_many(server, seed * 1_000_000, pytestconfig.getoption("count"), scratch)
    with capsys.disabled():
        sys.stdout.write(f"\n{sorted(outcome[1].items())}\n")
    judge(*outcome)
    seen = outcome[1]
    assert [] == [name for name in SEEN if seen[name] < seen["partitions"] / 100]
