"""The readers of the product: what its commands, tables and the Spark source read a log with."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from logwright.batches.runtime import Runtime
from logwright.config.table import TopicTable
from logwright.config.topic import CleanerConfig
from logwright.format.names import CLEAN_SHUTDOWN_MARKER, TopicPartition
from logwright.latest.plan import plan_latest
from logwright.latest.read import read_latest
from logwright.locks import broker_kept_out
from logwright.log.load import observe
from logwright.log.model import ReadableLog
from logwright.log.topic_id import read_topic_id
from logwright.place.files import open_partition_dir
from logwright.records.model import ReadRequest
from logwright.records.plan import plan_records, visible_offsets
from logwright.records.read import read_range
from logwright.running.broker import broker_process
from logwright.running.place import as_it_runs
from logwright.tables.logs import TopicLog
from logwright.tables.merge import MergeLimits
from logwright.tables.topic import LocatedTable, update_topic
from tests.e2e.command import call
from tests.live.load import KEYS
from tests.live.plain import topic_id
from tests.live.rows import (
    NONE,
    Call,
    Findings,
    Isolation,
    Reading,
    Rows,
    general,
    key_of,
    row_of,
    rows_of,
)
from tests.table_rows import read_table


class Refused(Exception):
    """A command refused a log by name."""


COLUMNS = ("offset", "key", "value", "timestamp")


@dataclass(kw_only=True)
class Attempt:
    """A reading that is under way; `isolation` is what its rows are compared with."""

    reader: str
    log_dir: Path
    log: str
    isolation: Isolation
    before: str = ""
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.before = topic_id(self.log_dir, self.log)

    @property
    def partition(self) -> TopicPartition:
        """The log."""
        partition = TopicPartition.parse(self.log)
        assert partition is not None
        return partition

    def ended(self, rows: Rows, start: int, bound: int, *, is_state: bool) -> Reading:
        """What was read."""
        return Reading(
            reader=self.reader,
            log=self.log,
            topic_ids=tuple({self.before, topic_id(self.log_dir, self.log)}),
            isolation=self.isolation,
            is_state=is_state,
            start=start,
            bound=bound,
            rows=rows,
            began=self.began,
            ended=time.monotonic(),
        )


@contextmanager
def _observed(attempt: Attempt, *, exact: bool) -> Iterator[ReadableLog]:
    """The log as a command sees it. Effects: reads; with a broker that stopped, locks."""
    place = as_it_runs(attempt.log_dir, exact=exact)
    with broker_kept_out(place):
        yield observe(place, attempt.partition, high_watermark="checkpoint")


def records(log_dir: Path, log: str, isolation: Isolation) -> Reading:
    """As ``dump --records`` and Spark's ``kafka-log`` do."""
    attempt = Attempt(reader="records", log_dir=log_dir, log=log, isolation=isolation)
    with _observed(attempt, exact=False) as observed:
        request = ReadRequest(isolation=isolation)
        parts = plan_records(observed, request)
        rows = _rows(batch for part in parts for batch in read_range(part, columns=COLUMNS))
    start, bound = visible_offsets(observed, request)
    return attempt.ended(rows, start, bound, is_state=False)


def latest(log_dir: Path, log: str, _: Isolation) -> Reading:
    """As ``latest`` does."""
    attempt = Attempt(reader="latest", log_dir=log_dir, log=log, isolation="read_committed")
    with _observed(attempt, exact=True) as observed:
        plan = plan_latest(observed, cleaner=CleanerConfig())
        rows = _rows(read_latest(plan, columns=COLUMNS, runtime=Runtime(threads=1)))
    return attempt.ended(rows, observed.log_start_offset, plan.end_offset, is_state=True)


class Tables:
    """A table for each log, kept up to date from reading to reading. Effects: files in a temporary
    directory, removed with it.
    """

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="logwright-tables-")

    def read(self, log_dir: Path, log: str, _: Isolation) -> Reading:
        """Update the log's table, and read all of it."""
        attempt = Attempt(reader="table", log_dir=log_dir, log=log, isolation="read_committed")
        path = Path(self._directory.name) / log
        topic = attempt.partition.topic
        table = TopicTable.model_validate({"format": "parquet", "path": str(path)})
        limits = MergeLimits(small_bytes=0, files=3)
        located = LocatedTable(
            topic=topic, table=table, catalog={}, base=path.parent, limits=limits
        )
        with _observed(attempt, exact=True) as observed:
            with open_partition_dir(observed.log_dir, observed.partition) as directory:
                own = read_topic_id(directory)
            source = TopicLog(log=observed, topic_id=own, cleaner=CleanerConfig())
            update = update_topic(located, [source], now_ms=time.time_ns() // 1_000_000)
        for error in update.result.failures.values():
            raise error
        (result,) = update.result.partitions
        kept = read_table("parquet", path) if update.result.snapshot else None
        rows = _rows([] if kept is None else kept.to_batches())
        reading = attempt.ended(rows, observed.log_start_offset, result.held, is_state=True)
        reading.notes[f"{result.step.kind}: {general(result.step.reason)}"] = 1
        return reading


CALLS: dict[str, tuple[str, ...]] = {
    "inspect": ("--verbose",),
    "plan": (),
    "verify": (),
    "metrics": (),
    "dump": (),
}
"""Commands without rows, and their options."""


def _is_open_or_whole(log_dir: Path) -> bool:
    """Whether a broker has it open, or has stopped cleanly."""
    return broker_process(log_dir) is not None or (log_dir / CLEAN_SHUTDOWN_MARKER).exists()


SEARCHED_KEYS = 40
SEARCHED = (0, 8, 9)
"""Exit statuses of a search that ended."""
NOT_STOPPED = "the broker was not stopped cleanly"
"""Of a broker that was killed and has not started again."""
REFUSED = ("NotALogDir", "UncleanLogDir", "Unsettled")
_WITHOUT_LOG = ("metrics",)


class Caller:
    """Calls a command, and looks for faults that it claims."""

    def __init__(self, command: str) -> None:
        self._command = command

    def call(self, log_dir: Path, log: str, _: Isolation) -> Call:
        """Call it for one log. Effects: those of the command.

        Raises:
            Refused: it refused; or it claims a fault of a directory whose broker was killed.
        """
        began = time.monotonic()
        was_there = _is_open_or_whole(log_dir)
        logs = () if self._command in _WITHOUT_LOG else (log, "--output", "json")
        answer = call(self._command, log_dir, *logs, *CALLS[self._command])
        lines = [json.loads(line) for line in answer.out.splitlines() if line.startswith("{")]
        wrong: Counter[str] = Counter()
        require_named(lines)
        for line in lines:
            if "error" in line:
                wrong[f"{line['error']}: {general(line['problem'])}"] += 1
            elif NOT_STOPPED in str(line.get("problem")):
                raise Refused(NOT_STOPPED)
            elif isinstance(line.get("problem"), str):
                wrong[f"{general(line['problem'])}"] += 1
        if wrong and not (was_there and _is_open_or_whole(log_dir)):
            raise Refused(f"broker away: {' '.join(sorted(wrong))}")
        if answer.status and not wrong:
            wrong[f"status {answer.status}: {general(answer.err)}"] += 1
        return Call(
            reader=self._command, log=log, seconds=time.monotonic() - began, wrong=dict(wrong)
        )


class Search:
    """Searches for random keys. Effects: a temporary file, removed with it."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="logwright-keys-")
        self._draw = random.Random(os.getpid())

    def find(self, log_dir: Path, log: str, _: Isolation) -> Findings | Call:
        """As ``find`` does.

        Raises:
            Refused: it refused.
        """
        attempt = Attempt(reader="find", log_dir=log_dir, log=log, isolation="read_committed")
        keys = self._draw.sample(range(KEYS), SEARCHED_KEYS)
        file = Path(self._directory.name) / "keys"
        file.write_bytes(b"".join(key_of(key) + b"\n" for key in keys))
        options = ("--keys", file, "--topic", attempt.partition.topic, "--output", "json")
        answer = call("find", log_dir, *options)
        lines = [json.loads(line) for line in answer.out.splitlines() if line.startswith("{")]
        require_named(lines)
        if answer.status not in SEARCHED or not lines:
            wrong = {f"status {answer.status}: {general(answer.out + answer.err)}": 1}
            return Call(reader="find", log=log, seconds=0.0, wrong=wrong)
        hits = [
            (line["offset"], keys[int(line["request"].removeprefix("line ")) - 1], NONE, NONE)
            for line in lines
            if "kind" in line and line["path"].startswith(f"{log}/")
        ]
        ended = attempt.ended(rows_of(sorted(set(hits))), 0, 0, is_state=False)
        return Findings(
            reader="find",
            log=log,
            topic_ids=ended.topic_ids,
            keys=tuple(keys),
            hits=ended.rows,
            began=ended.began,
            ended=ended.ended,
            notes={
                f"not searched: {general(str(line.get('problem', line.get('why'))))}": 1
                for line in lines
                if answer.status == SEARCHED[-1] and "kind" not in line and "path" in line
            },
        )


def require_named(lines: list[dict[str, Any]]) -> None:
    """Require that a command did not refuse.

    Raises:
        Refused: it did, by name.
    """
    for line in lines:
        if line.get("error") in REFUSED:
            raise Refused(f"{line['error']}: {general(line['problem'])}")


def _rows(batches: Iterable[pa.RecordBatch]) -> Rows:
    rows: list[tuple[int, ...]] = []
    for batch in batches:
        offsets, keys, values = (batch.column(name).to_pylist() for name in COLUMNS[:3])
        times = batch.column("timestamp").cast("int64").to_pylist()
        for offset, key, value, time_us in zip(offsets, keys, values, times, strict=True):
            rows.append(row_of(offset, key, value, time_us // 1000))
    return rows_of(rows)
