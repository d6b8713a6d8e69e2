"""A log directory read as plainly as can be, with no thought of the broker that has it open: what
must not be done. The judge has to find what is wrong with it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from logwright.errors import CorruptBatch
from logwright.format.batch import RecordBatch, parse_batch, walk_batches
from logwright.format.control import ControlType, parse_control_key
from logwright.format.record import Record, read_records
from tests.live.rows import Isolation, Reading, row_of, rows_of

PAUSE_SECONDS = 0.05
"""Before each file, as reading a larger log takes."""

Batch = tuple[RecordBatch, tuple[Record, ...]]


def topic_id(log_dir: Path, log: str) -> str:
    """The id in ``partition.metadata``; empty if there is none. Effects: reads it."""
    try:
        lines = (log_dir / log / "partition.metadata").read_text().splitlines()
    except FileNotFoundError:
        return ""
    return lines[-1].removeprefix("topic_id: ")


def watermark(log_dir: Path, log: str) -> int:
    """The high watermark in the checkpoint; 0 if there is none. Effects: reads it."""
    topic, _, number = log.rpartition("-")
    try:
        lines = (log_dir / "replication-offset-checkpoint").read_text().splitlines()
    except FileNotFoundError:
        return 0
    entries = [line.split() for line in lines[2:]]
    return next((int(last) for *name, last in entries if name == [topic, number]), 0)


def read(log_dir: Path, log: str, isolation: Isolation) -> Reading:
    """All records below the high watermark: first the watermark, then the names, then each file
    when its turn comes. Effects: reads the log.
    """
    began = time.monotonic()
    before, bound = topic_id(log_dir, log), watermark(log_dir, log)
    batches = [batch for batch in _batches(log_dir / log) if batch[0].base_offset < bound]
    ended_at, aborted = _transactions(batches)
    open_from = [
        header.base_offset
        for header, _ in batches
        if header.is_transactional and header.base_offset > ended_at[header.producer_id]
    ]
    if isolation == "read_committed":
        bound = min([bound, *open_from])
    rows = [
        row_of(record.offset, record.key, record.value, record.timestamp_ms)
        for number, (header, records) in enumerate(batches)
        if not header.is_control and not (isolation == "read_committed" and number in aborted)
        for record in records
        if record.offset < bound
    ]
    return Reading(
        reader="plain",
        log=log,
        topic_ids=tuple({before, topic_id(log_dir, log)}),
        isolation=isolation,
        is_state=False,
        start=min((header.base_offset for header, _ in batches), default=0),
        bound=bound,
        rows=rows_of(rows),
        began=began,
        ended=time.monotonic(),
    )


def _batches(directory: Path) -> Iterator[Batch]:
    for path in sorted(directory.glob("*.log")):
        time.sleep(PAUSE_SECONDS)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue
        with suppress(CorruptBatch):  # the zeros of a preallocated file
            for span in walk_batches(content):
                whole = content[span.position : span.position + span.bytes]
                header = parse_batch(whole)
                yield header, read_records(header, whole)


def _transactions(batches: list[Batch]) -> tuple[dict[int, int], set[int]]:
    """Of each producer the offset of its last marker, and the numbers of the aborted batches."""
    ended: dict[int, int] = defaultdict(lambda: -1)
    pending: dict[int, list[int]] = defaultdict(list)
    aborted: set[int] = set()
    for number, (header, records) in enumerate(batches):
        if header.is_control:
            if records and parse_control_key(records[0].key) is ControlType.ABORT:
                aborted.update(pending[header.producer_id])
            ended[header.producer_id] = header.base_offset
            pending[header.producer_id] = []
        elif header.is_transactional:
            pending[header.producer_id].append(number)
    return ended, aborted
