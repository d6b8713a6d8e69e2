"""Updates of tables that are killed at random moments: the next one makes the table right."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.table_rows import FORMATS, expected_rows, table_rows
from tests.table_world import place, random_pairs, update, write_logs

pytestmark = [pytest.mark.e2e, pytest.mark.crash]

RECORDS = 6_000
KEYS = 1_500
BUCKETS = 8
SECONDS = 120
CHILD = """
import sys
from pathlib import Path
from tests.table_world import place, update
form, table, log_dir = sys.argv[1:]
where = place(form, Path(table), buckets={buckets}, keep_versions_ms=0)
print("begin", flush=True)
update(where, Path(log_dir))
print("end", flush=True)
"""


def start(form: str, table: Path, log_dir: Path) -> subprocess.Popen[str]:
    """A process that is about to update the table."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(buckets=BUCKETS), form, str(table), str(log_dir)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begin\n"
    return process


def killed_at(form: str, tmp_path: Path, seed: int, points: int) -> int:
    """Grow a log in steps; kill an update at each, at a moment of an update's usual duration.
    Returns how many ended before.
    """
    draw = random.Random(seed)
    pairs = {number: random_pairs(draw, RECORDS, keys=KEYS) for number in range(2)}
    first = write_logs(tmp_path / "logs", {n: one[: RECORDS // 2] for n, one in pairs.items()})
    table = tmp_path / "table"
    with start(form, table, first) as process:
        began = time.monotonic()
        assert process.wait(SECONDS) == 0
    usual = time.monotonic() - began
    ended = 0
    for point in range(points):
        size = RECORDS // 2 + (point + 1) * RECORDS // 2 // points
        log_dir = write_logs(tmp_path / f"{point}", {n: one[:size] for n, one in pairs.items()})
        with start(form, table, log_dir) as process:
            time.sleep(draw.random() * usual)
            process.kill()
            ended += "end" in process.communicate(timeout=SECONDS)[0]
        where = place(form, table, buckets=BUCKETS, keep_versions_ms=0)
        assert {} == update(where, log_dir).result.failures
        assert expected_rows(log_dir, "t") == table_rows(form, table), point
    return ended


@pytest.mark.rotates(6)
@pytest.mark.parametrize("form", FORMATS)
def test_killed(tmp_path: Path, form: str, seed: int) -> None:
    """At four moments."""
    killed_at(form, tmp_path, seed, 4)


@pytest.mark.nightly
@pytest.mark.parametrize("form", FORMATS)
def test_killed_often(tmp_path: Path, form: str, seed: int) -> None:
    """At 20 moments."""
    assert killed_at(form, tmp_path, seed, 20) < 20
