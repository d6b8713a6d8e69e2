"""Random partitions with random retention: Kafka deletes and says the same as we do."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.differential.oracle_server import OracleServer
from tests.differential.random_retentions import (
    REASONS,
    SMALL,
    RetentionOutcome,
    run_retentions,
)

PLANS = 150
"""By day; at night `--count`, 2,000 at least."""

SEEN = (
    "nothing goes",
    "by log start offset",
    "by size",
    "by time",
    "by several",
    "all",
    "records deleted",
    "start inside a segment",
    "held back by the high watermark",
    "held back by the future",
)
"""What partitions must have shown by day, all but one of them; at night each one in two hundred."""


@pytest.fixture(scope="module")
def talking(kafka_version: str) -> Iterator[OracleServer]:
    """An oracle that gives Kafka's reasons."""
    with OracleServer(properties=REASONS) as running:
        yield running


def retain_many(
    server: OracleServer, first_seed: int, plans: int, scratch: Path
) -> tuple[list[RetentionOutcome], Counter[str]]:
    seen: Counter[str] = Counter()
    failures = []
    seeds = range(first_seed, first_seed + plans)
    with closing(run_retentions(server, seeds, SMALL, scratch)) as outcomes:
        for outcome in outcomes:
            seen += outcome.coverage
            if outcome.differences:
                failures.append(outcome)
            if seen["partitions"] >= plans:
                break
    return failures, seen


def judge(failures: list[RetentionOutcome], seen: Counter[str]) -> None:
    shown = [f"seed {each.seed}: {'; '.join(each.differences[:4])}" for each in failures[:20]]
    assert [] == shown, seen
    assert len([name for name in SEEN if not seen[name]]) < 2, seen


@pytest.mark.rotates(2)
@pytest.mark.oracle
@pytest.mark.timeout(600, method="thread")
def test_random_partitions_are_retained_as_by_kafka(
    talking: OracleServer, seed: int, scratch: Path
) -> None:
    """Which segments go and why, every file and checkpoint that is left."""
    judge(*retain_many(talking, seed * 1_000_000, PLANS, scratch))


@pytest.mark.oracle
@pytest.mark.nightly
@pytest.mark.timeout(7200, method="thread")
def test_many_more_random_partitions(
    talking: OracleServer,
    seed: int,
    scratch: Path,
    pytestconfig: pytest.Config,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same by night, `--count` partitions, with the figures."""
    count = max(pytestconfig.getoption("count"), 2_000)
    outcome = retain_many(talking, seed * 1_000_000, count, scratch)
    with capsys.disabled():
        sys.stdout.write(f"\n{sorted(outcome[1].items())}\n")
    judge(*outcome)
    seen = outcome[1]
    assert [] == [name for name in SEEN if seen[name] < seen["partitions"] / 200]
