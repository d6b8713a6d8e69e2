"""A broker has the directory open, in sequences: what is read, and that nothing changes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from logwright.errors import LogDirLocked, Unsettled
from logwright.format.checkpoints import parse_offset_checkpoint
from logwright.format.names import BROKER_LOCK, HIGH_WATERMARK_CHECKPOINT
from logwright.locks import lock_log_dir, try_lock
from logwright.log.load import observe
from logwright.place.model import Place
from logwright.reading import reading, require_history
from logwright.records.model import Isolation, ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.running.place import RunningPlace, as_it_runs
from logwright.verify.partition import verify_partition
from tests.running_dirs import record
from tests.sequences.content import Content, Row
from tests.sequences.step import Step, pick, unchanged
from tests.sequences.world import (
    BOTH,
    COMPACTED,
    RETAINED,
    TAKEN_IN,
    Difference,
    World,
    parsed,
    repair,
)

Read = tuple[int, bytes | None, bytes | None]


def running(world: World, choice: int) -> Step:
    """Read a log up to a high watermark while a broker has its directory open; a change is
    refused.
    """
    name = pick(world, choice, (COMPACTED, TAKEN_IN, RETAINED, BOTH))
    log = world.logs[name]

    def run() -> None:
        repair(world)
        if log.content is None:
            return
        ends = [row.offset for row in log.content.rows if row.offset >= log.content.start]
        bound = [*ends, log.content.end][choice % (len(ends) + 1)] if choice % 2 else None
        _require_noticed(log.where)
        with open_by_broker(log.where):
            _record(log.where, name, log.content.end if bound is None else bound)
            _look(log.where, name, log.content, bound)

    return Step(name, run, unchanged(world, name))


def _look(log_dir: Path, name: str, content: Content, bound: int | None) -> None:
    place = as_it_runs(log_dir)
    assert isinstance(place, RunningPlace)
    _require_refused(log_dir)
    faults = verify_partition(place, parsed(name))
    if faults:
        raise Difference(f"verify finds {faults[:3]} of {name} while a broker runs")
    uncommitted = _read(place, name, "read_uncommitted")
    end = place.session.bounds[name].end_offset
    _compare(name, content.uncommitted(), uncommitted, end)
    if bound is None:
        _compare(name, content.committed(), _read(place, name, "read_committed"), end)


@contextmanager
def open_by_broker(log_dir: Path) -> Iterator[None]:
    """The directory's lock is held as by a broker. Another open file is another holder."""
    file = os.open(log_dir / BROKER_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        assert try_lock(file, "exclusive")
        yield
    finally:
        os.close(file)


def _require_noticed(log_dir: Path) -> None:
    """A reading in which a broker starts counts for nothing."""
    try:
        with reading(log_dir), open_by_broker(log_dir):
            require_history(log_dir, "")
    except Unsettled:
        return
    raise Difference("a broker that started while a log was read was not noticed")


def _record(log_dir: Path, name: str, high_watermark: int) -> None:
    path = log_dir / HIGH_WATERMARK_CHECKPOINT
    known = parse_offset_checkpoint(path.read_bytes(), path) if path.exists() else {}
    record(log_dir, {str(one): offset for one, offset in known.items()} | {name: high_watermark})


def _require_refused(log_dir: Path) -> None:
    try:
        with lock_log_dir(log_dir):
            raise Difference("the directory of a running broker can be locked for a change")
    except LogDirLocked:
        return


def _read(place: Place, name: str, isolation: Isolation) -> list[Read]:
    """Offset, key and value of the records that a consumer gets."""
    log = observe(place, parsed(name), high_watermark="checkpoint")
    columns = ("offset", "key", "value")
    return [
        tuple(row.values())
        for part in plan_records(log, ReadRequest(isolation=isolation))
        for batch in read_range(part, columns=columns)
        for row in batch.to_pylist()
    ]


def _compare(name: str, rows: tuple[Row, ...], read: list[Read], end: int) -> None:
    expected = [(row.offset, row.key, row.value) for row in rows if row.offset < end]
    if expected != read:
        raise Difference(
            f"{name} up to {end} while a broker runs: {[row[0] for row in read]}, expected"
            f" {[row[0] for row in expected]}"
        )
