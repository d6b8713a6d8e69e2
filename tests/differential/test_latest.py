"""The latest state of random logs that Kafka wrote and cleaned: transactions, all codecs, null keys
and values, append time, earlier cleanings, log starts inside a batch.
"""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from logwright.config.topic import CleanerConfig
from logwright.errors import UnsupportedFormatError
from tests.differential.oracle_server import OracleServer
from tests.latest_rows import PastStates, plan_of, read_state, replayed

LOGS = 40
FEW_KEYS = CleanerConfig(dedupe_buffer_bytes=640)


@pytest.mark.rotates(2)
def test_random_logs(server: OracleServer, scratch: Path, seed: int) -> None:
    """Before and after a cleaning of Kafka's the rows are those of a dictionary over the decoded
    records, also with a small map and by threads; as-of is a replay at random offsets and times.
    """
    draw = random.Random(seed)
    first = seed * LOGS
    requested = (
        {"request": "random", "seed": number, "out": str(scratch / str(number)), "shape": {}}
        for number in range(first, first + LOGS)
    )
    held = 0
    with closing(server.ask_ahead(requested)) as answers:
        for number, case in zip(range(first, first + LOGS), answers, strict=True):
            if "cleanerFailed" not in case:
                name = f"{case['topic']}-{case['partition']}"
                for side in ("before", "after"):
                    held += _compare(scratch / str(number) / side, name, draw)
            shutil.rmtree(scratch / str(number))
    assert held > LOGS // 4


def _compare(log_dir: Path, name: str, draw: random.Random) -> int:
    """Compare one log; return how many points in the past it held."""
    try:
        plan = plan_of(log_dir, name)
    except UnsupportedFormatError:
        return 0
    states = PastStates.of(log_dir, name)
    expected = replayed(states.content, end=states.stable)
    assert expected == read_state(plan, threads=2)
    assert expected == read_state(plan_of(log_dir, name, cleaner=FEW_KEYS))
    return states.compare(draw, count=2)
