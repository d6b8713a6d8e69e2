"""The rows of a partition's latest state: two passes over the segments, the first one for the keys.

No record is sorted or shuffled: the first pass marks what is superseded in a bitmap, the second one
reads the rest in the order of offsets. Memory is bounded by the offset map, two bits for each
record, the batch headers of the range, and a batch of rows; with several threads, which read ahead
in the second pass (`in_order`), by some batches of each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from queue import Queue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from logwright.batches.runtime import Runtime, silent
from logwright.batches.source import Source
from logwright.errors import enough_memory
from logwright.keys.rows import MapMode, MapTask, begin_pass, end_pass, map_rows, rows_within
from logwright.latest.model import LatestCounts, LatestPlan
from logwright.reading import reading
from logwright.records.model import BATCH_BYTES, BATCH_ROWS, ReadCounts, Selection
from logwright.records.pieces import Pieces
from logwright.records.read import read_sources

if TYPE_CHECKING:
    import pyarrow as pa

    from logwright.batches.runtime import Progress

GROUP_BYTES: Final = 16 * 1024 * 1024
"""Bytes of segments that a thread of the second pass reads at once."""

T = TypeVar("T")

_DEPTH: Final = 2
"""Results of one part that wait to be taken."""


def read_latest(
    plan: LatestPlan,
    *,
    columns: Sequence[str],
    tombstones: bool = False,
    runtime: Runtime | None = None,
    progress: Progress = silent,
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
    counts: LatestCounts | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the newest committed record of each key of a plan's range, ascending by offset, as
    record batches of `records_schema(columns)`. Records without a key are left out. Effects: maps
    the segments.

    Args:
        columns: which columns, of `logwright.records.schema.RECORDS`.
        tombstones: keys whose newest record is a tombstone are rows too, with a null value.
        runtime: threads and throttle of both passes; one thread if not given.
        progress: called with the phases "map" and "read".
        batch_rows, batch_bytes: bounds of a record batch, see `read_range`; each thread has some
            record batches at a time.
        counts: added to.

    Raises:
        StalePlan: a segment changed since it was planned.
        CorruptBatch, UnsupportedFormatError, UnreadableFile: a segment cannot be read.
        PolicyError: ``log.cleaner.dedupe.buffer.size`` has no room for one key.
        LogDirLocked, NotALogDir, OutOfMemory: the directory or the machine.
    """
    counts = LatestCounts() if counts is None else counts
    runtime = Runtime() if runtime is None else runtime
    if plan.records is None:
        return
    offsets = (plan.start_offset, plan.end_offset)
    with reading(plan.records.log_dir), enough_memory(plan.records.directory):
        sources = _numbered(Pieces(plan.records, ReadCounts()))
        keys = _mapped(sources, plan, progress, runtime)
        counts.add(keys)
        read = partial(
            read_sources,
            partition=plan.partition,
            offsets=offsets,
            columns=columns,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            selection=Selection(
                dead=keys.dead, skip_tombstones=not tombstones, skip_null_keys=True
            ),
        )
        account = _Account(runtime, progress, sum(map(_bytes_of, sources)))
        groups = [sources] if runtime.threads == 1 else _grouped(sources)
        parts = [partial(read, account.follow(group)) for group in groups]
        with closing(in_order(parts, threads=runtime.threads)) as batches:
            for batch in batches:
                counts.rows += batch.num_rows
                yield batch


def _numbered(pieces: Iterable[Source]) -> list[Source]:
    """Return the pieces with an ordinal for each record, and aborted data left out of the map."""
    sources: list[Source] = []
    ordinal = 0
    for source in pieces:
        source.batches["first_ordinal"] += ordinal - source.batches["first_ordinal"][0]
        source.batches["unmapped"] = source.batches["discard"]
        ordinal += source.records
        sources.append(source)
    return sources


def _mapped(
    sources: Sequence[Source], plan: LatestPlan, progress: Progress, runtime: Runtime
) -> MapTask:
    """Read the keys of the plan's offsets; return the pass, with what is superseded in its `dead`.
    Effects: reads the segments.
    """
    offsets = (plan.start_offset, plan.end_offset)
    rows = rows_within(sources, offsets)
    task = MapTask(
        sources=sources,
        cleaner=plan.cleaner,
        runtime=runtime,
        progress=progress,
        total_bytes=sum(
            source.bytes_before(last) - source.bytes_before(first) for source, first, last in rows
        ),
        records=sum(
            source.records_before(last) - source.records_before(first)
            for source, first, last in rows
        ),
    )
    while task.shards:
        map_rows(task, rows, MapMode(offsets=offsets, primary=begin_pass(task)))
        end_pass(task)
    return task


def _bytes_of(source: Source) -> int:
    return source.bytes_before(len(source.batches)) - source.bytes_before(0)


def _grouped(sources: Sequence[Source]) -> list[list[Source]]:
    """Return the sources in groups of about `GROUP_BYTES`, at least one."""
    groups: list[list[Source]] = [[]]
    size = 0
    for source in sources:
        if size >= GROUP_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(source)
        size += _bytes_of(source)
    return groups


@dataclass(slots=True)
class _Account:
    """The account of the second pass, for several threads."""

    runtime: Runtime
    progress: Progress
    total_bytes: int
    done_bytes: int = 0
    turn: Lock = field(default_factory=Lock)

    def follow(self, sources: Iterable[Source]) -> Iterator[Source]:
        """Yield sources, and account for each when the next one is asked for. Effects: reports the
        progress; sleeps if it is too fast.
        """
        for source in sources:
            yield source
            size = _bytes_of(source)
            with self.turn:
                self.done_bytes += size
                self.progress("read", self.done_bytes, self.total_bytes)
            self.runtime.throttle.observe(size)


class _End:
    """The end of a part; with the error that ended it, if one did."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Part(Generic[T]):
    """A part that a thread works on."""

    def __init__(self, make: Callable[[], Iterator[T]], stop: Event) -> None:
        self._make = make
        self._stop = stop
        self._found: Queue[T | _End] = Queue(_DEPTH)
        self._ended = False
        Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            for result in self._make():
                self._found.put(result)
                if self._stop.is_set():
                    break
        except BaseException as caught:  # noqa: BLE001 -- raised where the results are taken
            error = caught
        self._found.put(_End(error))

    def results(self) -> Iterator[T]:
        """Yield the results; raise the error that ended them."""
        while not self._ended:
            result = self._found.get()
            if not isinstance(result, _End):
                yield result
                continue
            self._ended = True
            if result.error is not None:
                raise result.error

    def wait(self) -> None:
        """Drop the results until the thread has ended."""
        while not self._ended:
            self._ended = isinstance(self._found.get(), _End)


def in_order(
    parts: Sequence[Callable[[], Iterator[T]]], *, threads: int
) -> Generator[T, None, None]:
    """Yield the results of all parts in order, while as many threads work on the next ones.
    Effects: starts threads, unless there is one part or one thread; they have ended when the
    generator is exhausted or closed.

    Args:
        parts: each makes an iterator, which is used by one thread only.
        threads: how many parts are worked on at once; of each, two results may wait.

    Raises:
        Exception: the error of the first part that has one, after the results before it.
    """
    if threads == 1 or len(parts) == 1:
        for part in parts:
            yield from part()
        return
    stop = Event()
    following = iter(parts)
    working = deque(_Part(part, stop) for part in islice(following, threads))
    try:
        while working:
            yield from working[0].results()
            working.popleft()
            working.extend(_Part(part, stop) for part in islice(following, 1))
    finally:
        stop.set()
        for each in working:
            each.wait()
