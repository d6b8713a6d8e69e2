"""``spark.readStream.format("kafka-log")``: Spark's streaming source in Python, of Spark 4.2.

What Spark does with it:

1. One Python process on the driver's machine has one `StreamReader` for as long as the query runs.
   It is asked where the stream begins if the checkpoint has no offsets (`initialOffset`), then for
   each micro-batch where that ends (`latestOffset`) and which tasks it has (`partitions`). The end
   is in the checkpoint before there are tasks, so that a query that was killed repeats the same
   micro-batch.
2. Another one is sent to all tasks, as that of a batch is (`logwright.spark.kafka_log`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T  # noqa: N812 -- Spark's own convention
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from logwright.errors import LogDirLocked, Unsettled
from logwright.format.names import TopicPartition
from logwright.place.model import is_local, is_running
from logwright.records.observe import first_offset_at
from logwright.records.plan import bytes_between, offset_after
from logwright.running.place import as_it_runs
from logwright.running.snapshot import QUIET_NS
from logwright.spark.kafka_log_offsets import Json, Position, from_json, shares, to_json
from logwright.spark.kafka_log_options import Pruning, ReadOptions, is_latest, read_options
from logwright.spark.kafka_log_plan import (
    chosen_partitions,
    offset_of,
    present_partitions,
    request_of,
    require_all_local,
    with_times,
)
from logwright.spark.kafka_log_rows import as_spark_has_it, refuse_schema
from logwright.spark.kafka_log_seen import (
    Begin,
    Seen,
    begin_of,
    look,
    plan_slices,
    read_slices,
    report_losses,
)

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""Spark asks for new offsets a hundred times a second while there are none."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches, and reads them.

    All methods raise PolicyError for wrong options; and as `look` does.
    """

    def __init__(self, given: Mapping[str, str], schema: T.StructType) -> None:
        self._given = given
        self._schema = schema
        self._target: dict[TopicPartition, int] | None = None
        self._shown: dict[TopicPartition, Position] = {}
        self._idle: _Idle | None = None

    @cached_property
    def _options(self) -> ReadOptions:
        options = read_options(self._given, "stream")
        refuse_schema(self._schema)
        return options

    def initialOffset(self) -> Json:  # noqa: N802 -- Spark's name
        """Return where ``startingOffsets``, or a starting time, is."""
        options = self._options

        def choose(present: Collection[TopicPartition]) -> list[TopicPartition]:
            return chosen_partitions(options, present)

        with look(options, choose) as seen:
            return to_json({at: one.position(_start(one, options)) for at, one in seen.items()})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 -- as above
        """Return what Spark gives back to `latestOffset` where the trigger allows a limit."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- as above
        """Look where the logs end: the query reads up to there."""
        with look(self._options, self._choose) as seen:
            self._target = {at: one.end for at, one in seen.items()}

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802 -- as above
        """Return where the next micro-batch ends; `start` if there is nothing to read.

        Raises:
            DataLoss: records after `start` are gone, and that is a failure.
        """
        idle = self._idle
        if idle is not None and idle.start == start and idle.still_holds(self._options):
            return start
        idle = _Idle(start, self._options)
        end = start
        try:
            with look(self._options, self._choose) as seen:
                self._shown = {at: one.position(one.end) for at, one in seen.items()}
                end = to_json(self._ends(from_json(start), seen, limit))
        except (Unsettled, LogDirLocked) as error:
            if self._target is not None:
                raise
            _LOG.warning("nothing can be read yet: %s", error)
            idle.stamps = None
        self._idle = idle if end == start else None
        return end

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 -- as above
        """Return where the logs ended when they were looked at."""
        return to_json(self._shown) if self._shown else None

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch; errors: see `plan_slices`."""
        tasks = plan_slices(self._options, from_json(start), from_json(end))
        return [InputPartition(slices) for slices in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one task; effects and errors: see `read_slices`."""
        slices: Any = partition.value
        rows = read_slices(slices, self._options, self._schema.fieldNames())
        return as_spark_has_it(rows, self._schema)

    def _choose(self, present: Collection[TopicPartition]) -> set[TopicPartition]:
        return present_partitions(self._options, present)

    def _ends(
        self,
        start: Mapping[TopicPartition, Position],
        seen: Mapping[TopicPartition, Seen],
        limit: ReadLimit,
    ) -> dict[TopicPartition, Position]:
        target = self._target
        if target is not None:
            seen = {at: one for at, one in seen.items() if at in target or at in start}
        begins = {at: begin_of(start.get(at), one) for at, one in seen.items()}
        losses = {at: begin.loss for at, begin in begins.items() if begin.loss is not None}
        losses |= dict.fromkeys(sorted(start.keys() - seen.keys()), "is gone")
        report_losses(losses, fail=self._options.fail_on_data_loss)
        ends = {}
        for at, log_seen in seen.items():
            end = log_seen.end if target is None else min(log_seen.end, target.get(at, 0))
            ends[at] = max(end, begins[at].offset)
        if not isinstance(limit, ReadAllAvailable):
            ends = _limited(self._options, begins, ends, seen)
        positions = {}
        for at, log_seen in seen.items():
            # What is known of an offset may change, and would make a micro-batch without rows.
            is_same = at in start and begins[at] == (start[at].offset, None)
            is_same = is_same and ends[at] == start[at].offset
            positions[at] = start[at] if is_same else log_seen.position(ends[at])
        return positions


class _Idle:
    """A moment at which there was nothing to read.

    Attributes:
        start: where the stream was.
        stamps: of the log directories; None: they can have changed without other stamps.
    """

    def __init__(self, start: Json, options: ReadOptions) -> None:
        """Effects: looks at the log directories; not into them."""
        self.start = start
        self.stamps = _stamps(options)
        self._until = time.monotonic() + LOOK_SECONDS

    def still_holds(self, options: ReadOptions) -> bool:
        """Return whether nothing can have come since. A broker that has a log directory open
        replaces a file in it every few seconds, and one that stops does: so one that is stopped is
        looked at once.
        """
        now = time.monotonic()
        if now < self._until:
            return True
        self._until = now + LOOK_SECONDS
        return self.stamps is not None and self.stamps == _stamps(options)


def _stamps(options: ReadOptions) -> list[tuple[int, bool]] | None:
    """Return (time of the last change, whether a broker runs) of each log directory; None if they
    say nothing.
    """
    stamps, now = [], time.time_ns()
    for log_dir in options.log_dirs:
        if not is_local(log_dir):
            return None
        changed = log_dir.stat().st_mtime_ns
        if now - changed < QUIET_NS:
            return None
        stamps.append((changed, is_running(as_it_runs(log_dir))))
    return stamps


def _start(seen: Seen, options: ReadOptions) -> int:
    """Return where a stream begins. Effects: reads a log, to find a time.

    Raises:
        PolicyError, PreconditionError: the options name what the log does not have.
    """
    log, given = seen.log, options.starting_offsets
    require_all_local(log, offset_of(given, log.partition))
    request = with_times(log, request_of(options, Pruning(), log), options)
    if request.start_timestamp_ms is not None:
        reached = first_offset_at(log, request.start_timestamp_ms, options.on_corrupt)
        return seen.end if reached is None else min(reached, seen.end)
    if request.start_offset is not None:
        return request.start_offset
    if given == "latest" or (not isinstance(given, str) and is_latest(given, log.partition)):
        return seen.end
    return int(log.log_start_offset)


def _limited(
    options: ReadOptions,
    begins: Mapping[TopicPartition, Begin],
    ends: Mapping[TopicPartition, int],
    seen: Mapping[TopicPartition, Seen],
) -> dict[TopicPartition, int]:
    """Return the ends of a micro-batch that has at most what the options allow; each partition
    advances. Effects and errors: see `offset_after`.
    """
    limited = dict(ends)
    most = options.max_offsets_per_trigger
    if most is not None:
        sizes = {at: end - begins[at].offset for at, end in ends.items()}
        limited = {at: begins[at].offset + size for at, size in shares(sizes, most).items()}
    most = options.max_bytes_per_trigger
    if most is not None:
        spans = {at: (one.log, begins[at].offset, limited[at]) for at, one in seen.items()}
        sizes = {at: bytes_between(*span) for at, span in spans.items()}
        if sum(sizes.values()) > most:
            for at, size in shares(sizes, most).items():
                limited[at] = offset_after(*spans[at], size)
    return limited
