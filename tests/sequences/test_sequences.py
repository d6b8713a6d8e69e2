"""Nothing is lost between two operations: random sequences, judged by a model after each."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from logwright.format.batch import parse_batch, walk_batches
from logwright.format.names import WORK_DIRECTORY
from logwright.steps.failed_output import failed_outputs
from tests.comparison import read_checkpoint
from tests.differential.oracle_server import OracleServer
from tests.differential.random_logs import scratch_directory
from tests.sequences.__main__ import main
from tests.sequences.away import is_unfinished
from tests.sequences.content import erased
from tests.sequences.drawing import DEEPEST, Operation
from tests.sequences.driver import Figures, run, run_many
from tests.sequences.faults import Fault
from tests.sequences.operations import fail
from tests.sequences.reading import batches, old_expired
from tests.sequences.rich_logs import DAY_MS
from tests.sequences.world import (
    BOTH,
    COMPACTED,
    DELETE_RETENTION_MS,
    FIRST_OLD,
    FIRST_RICH,
    RETAINED,
    SECOND,
    SHAPES,
    TAKEN_IN,
    template,
)

pytestmark = [pytest.mark.crash, pytest.mark.oracle]

IN_EVERY_RUN = 50
MOST = 60_000
"""Seeds of a run are below this multiple of its number."""

PARTS = 8
"""Of the calls at which an erasure is killed, and of the shapes with rich logs."""


@pytest.fixture
def quiet() -> Iterator[None]:
    """Without the log messages of what is interrupted on purpose."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def said(figures: Figures) -> list[str]:
    return [
        f"seed {seed}: {'; '.join(map(str, operations))}: {difference}"
        for seed, difference, operations in figures.differences
    ]


def erase_killed(at: int) -> Operation:
    """An erasure of the key `a` in the first log, killed before this call."""
    return Operation("erase", choice=0, wait_ms=10, fault=Fault("kill", at))


def test_sequences_of_operations(quiet: None, seed: int) -> None:
    """After each operation, interrupted or not, both kinds of consumers get what the model says, by
    our reader, and in the end by Kafka's.
    """
    with scratch_directory() as scratch, OracleServer() as kafka:
        seeds = range(seed * MOST, seed * MOST + IN_EVERY_RUN)
        figures = run_many(seeds, Path(scratch), kafka=kafka)
    assert [] == said(figures)
    assert IN_EVERY_RUN == figures.sequences
    assert all(figures.faults[kind] > 0 for kind in ("kill", "power", "errno", "meanwhile"))


@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_an_erasure_killed_at_every_call(quiet: None, part: int, tmp_path: Path) -> None:
    """A transaction whose records are erased stays open, for our reader and Kafka's, while those of
    later segments are not erased yet.
    """
    log = template(1, tmp_path / "shape").logs[COMPACTED].content
    assert log is not None
    later = [row.offset for row in log.rows if row.key == b"a"]
    assert [2] == list(erased(log, b"a").held)
    assert 2 < max(later)
    figures, differences = Figures(), {}
    end = DEEPEST["erase"]  # is after its last call
    with OracleServer() as kafka, scratch_directory() as scratch:
        for at in (*range(1 + part, end, PARTS), end):
            operations = (erase_killed(at),)
            differences[at] = run(1, operations, scratch / "work", figures=figures, kafka=kafka)
    assert {None} == set(differences.values()), differences
    assert 0 < figures.faults["kill"] < figures.sequences


def test_shapes_with_old_formats(tmp_path: Path) -> None:
    """All that is particular to them is in some: each format, alone and before others; files that
    a newer broker has not made; tombstones that go by the times of files.
    """
    magics, unfinished, expired = set[tuple[int, ...]](), 0, 0
    for shape in range(FIRST_OLD, SHAPES):
        world = template(shape, tmp_path / str(shape))
        for name in (COMPACTED, TAKEN_IN, RETAINED):
            logs = sorted((world.first / name).glob("*.log"))
            each = [span.magic for path in logs for span in walk_batches(path.read_bytes())]
            assert each == sorted(each)
            magics.add(tuple(dict.fromkeys(each)))
            unfinished += is_unfinished(world.first, name)
        clean = read_checkpoint(world.first / "cleaner-offset-checkpoint").get(COMPACTED, 0)
        expired += bool(old_expired(world.first, COMPACTED, clean, DELETE_RETENTION_MS))
    assert {(0,), (1,), (0, 2), (1, 2), (0, 1, 2)} <= magics
    assert 0 < unfinished < 3 * (SHAPES - FIRST_OLD)
    assert 0 < expired < SHAPES - FIRST_OLD


def test_shapes_with_rich_logs(tmp_path: Path) -> None:
    """All that is particular to them is in some: codecs, append times, timestamps that are unknown,
    in the future or out of order, producers of a later epoch and forgotten ones, long keys and
    values, large batches; a topic with two partitions, and records that are not committed.
    """
    seen = set[object]()
    for shape in range(FIRST_RICH, SHAPES, 2):
        world = template(shape, tmp_path / str(shape))
        watermarks = read_checkpoint(world.first / "replication-offset-checkpoint")
        for name in (SECOND, BOTH):
            content = world.logs[name].content
            assert content is not None
            seen.add("uncommitted" if watermarks[name] < content.end else "committed")
            logs = sorted((world.first / name).glob("*.log"))
            for batch in (parse_batch(raw) for raw in batches(logs)):
                seen |= {("codec", batch.codec), ("records", batch.records_count)}
                seen.add("append time" if batch.is_log_append_time else "create time")
                if batch.producer_id >= 0 and not batch.is_transactional:
                    forgotten = world.now - batch.max_timestamp > DAY_MS
                    seen.add(("producer", min(batch.producer_epoch, 1), forgotten))
            times = [row.timestamp_ms for row in content.rows]
            seen |= {
                "unknown" if time < 0 else "future" for time in times if not 0 < time < world.now
            }
            seen.add("in order" if times == sorted(times) else "out of order")
            seen |= {("key", len(row.key or b"") > 1) for row in content.rows}
            seen |= {("value", len(row.value or b"") > 99) for row in content.rows}
    expected = {("codec", codec) for codec in range(5)} | {("records", 12), "append time"}
    expected |= {"uncommitted", "unknown", "future", "out of order", ("key", True), ("value", True)}
    expected |= {("producer", epoch, forgotten) for epoch in (0, 1) for forgotten in (False, True)}
    assert expected <= seen, expected - seen


@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_cleaning_and_retention_of_rich_logs(quiet: None, part: int, tmp_path: Path) -> None:
    """They go as far as Kafka's do, by time, size, lag and high watermark, one after the other."""
    kinds = ("retain", "clean", "retain", "clean", "undo", "erase", "broker-crash", "roll")
    differences = {}
    for shape in range(FIRST_RICH + part, SHAPES, PARTS):
        rnd = random.Random(shape)
        operations = [
            Operation(kind, rnd.randrange(1 << 30), rnd.choice((10, 3_000, 61_000)))
            for kind in kinds * 2
        ]
        differences[shape] = run(shape, operations, tmp_path / "work")
    assert {None} == set(differences.values()), differences


def test_a_failed_cleaning_leaves_its_output(tmp_path: Path) -> None:
    """The operation of that name does what it says, for a log that has something to clean."""
    world = template(0, tmp_path)
    step = fail(world, 0)
    step.run()
    work = world.logs[step.name].where / step.name / WORK_DIRECTORY
    (kept,) = failed_outputs(work)
    assert kept.due_at_ms == world.now + 1


@pytest.mark.nightly
@pytest.mark.timeout(5400)
def test_many_sequences(seed: int, pytestconfig: pytest.Config) -> None:
    """The same, many more."""
    count = pytestconfig.getoption("count")
    assert 0 == main(["--count", str(count), "--seed", str(seed * MOST), "--asking", "10"])
