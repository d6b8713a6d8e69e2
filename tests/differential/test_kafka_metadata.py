"""Random metadata logs and snapshots: the reader has the state that Kafka's own image has."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from logwright.metadata.read import read_metadata
from tests.differential.oracle_server import OracleServer
from tests.differential.random_metadata import our_state, write_metadata

DIRECTORIES = 40
NIGHTLY_DIRECTORIES = 1_000

SEEN = (
    "aborted",
    "incomplete snapshots",
    "open transactions",
    "rolls",
    "segments deleted",
    "snapshots",
    "torn",
    "transactions",
)
"""What the directories of a night must have had."""


def compare_many(server: OracleServer, seeds: Iterable[int], scratch: Path) -> Counter[str]:
    """Compare the states; what the directories had, and how many of them."""
    seen: Counter[str] = Counter()
    with closing(write_metadata(server, seeds, scratch)) as directories:
        for directory in directories:
            expected, actual = directory.expected, our_state(read_metadata(directory.path))
            for part in expected:
                assert expected[part] == actual[part], f"seed {directory.seed}: {part}"
            seen += Counter(dict.fromkeys(directory.coverage, 1)) + Counter(
                directories=1,
                topics=len(actual["topics"]),
                configs=sum(map(len, actual["topicConfigs"].values())),
            )
    assert seen["transactions"], seen
    return seen


@pytest.mark.rotates(2)
@pytest.mark.oracle
@pytest.mark.timeout(600, method="thread")
def test_random_metadata_as_by_kafka(server: OracleServer, seed: int, scratch: Path) -> None:
    """Topics, ids, partitions, configs, features and the end are those of Kafka's image."""
    compare_many(server, range(seed * 1_000_000, seed * 1_000_000 + DIRECTORIES), scratch)


@pytest.mark.oracle
@pytest.mark.nightly
@pytest.mark.timeout(7200, method="thread")
def test_many_more_random_metadata(
    server: OracleServer, seed: int, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same by night, with the figures."""
    seeds = range(seed * 1_000_000, seed * 1_000_000 + NIGHTLY_DIRECTORIES)
    seen = compare_many(server, seeds, scratch)
    assert [] == [name for name in SEEN if not seen[name]], seen
    with capsys.disabled():
        sys.stdout.write(f"\n{sorted(seen.items())}\n")
