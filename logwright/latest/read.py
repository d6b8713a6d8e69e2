"""The rows of a partition's latest state: two passes over the segments, the first one for the keys.

No record is sorted or shuffled: the first pass marks what is superseded in a bitmap, the second one
reads the rest in the order of offsets. Memory is bounded by the offset map, two bits for each
record, the batch headers of the range, and a batch of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from logwright.compaction.build import silent
from logwright.compaction.keys.superseded import find_superseded
from logwright.compaction.runtime import Runtime
from logwright.compaction.source import Source
from logwright.errors import enough_memory
from logwright.latest.model import LatestCounts, LatestPlan
from logwright.locks import broker_kept_out
from logwright.records.model import BATCH_BYTES, BATCH_ROWS, ReadCounts, Selection
from logwright.records.pieces import Pieces
from logwright.records.read import read_sources

if TYPE_CHECKING:
    import pyarrow as pa

    from logwright.compaction.keys.state import Progress


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
    the segments; while it goes on, it keeps brokers out of the log directory.

    Args:
        columns: which columns, of `logwright.records.schema.RECORDS`.
        tombstones: keys whose newest record is a tombstone are rows too, with a null value.
        runtime: threads of the first pass, throttle of both; one thread if not given.
        progress: called with the phases "map" and "read".
        batch_rows, batch_bytes: bounds of a record batch, see `read_range`.
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
    with broker_kept_out(plan.records.log_dir), enough_memory(plan.records.directory):
        sources = _numbered(Pieces(plan.records, ReadCounts()))
        found = find_superseded(sources, offsets, plan.cleaner, progress=progress, runtime=runtime)
        counts.distinct_keys += found.distinct_keys
        counts.map_reads += found.map_reads
        counts.map_bytes = max(counts.map_bytes, found.map_bytes)
        selection = Selection(dead=found.dead, skip_tombstones=not tombstones, skip_null_keys=True)
        for batch in read_sources(
            _followed(sources, runtime, progress),
            partition=plan.partition,
            offsets=offsets,
            columns=columns,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            selection=selection,
        ):
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


def _followed(sources: Sequence[Source], runtime: Runtime, progress: Progress) -> Iterator[Source]:
    """Yield sources, and account for each when the next one is asked for. Effects: reports the
    progress; sleeps if it is too fast.
    """
    sizes = [
        source.bytes_before(len(source.batches)) - source.bytes_before(0) for source in sources
    ]
    done, total = 0, sum(sizes)
    for source, size in zip(sources, sizes, strict=True):
        yield source
        done += size
        progress("read", done, total)
        runtime.throttle.observe(size)
