"""First pass over a compressed log, from the newest batch to the oldest: a batch's survivors are
rebuilt as soon as it is mapped, while it is decompressed (docs/adr/0012).

1. `new_rebuilder` decides whether a log is read this way, and `map_backwards` maps it; no other
   module depends on it.
2. It is only an optimization: the second pass rebuilds what is not rebuilt here. It ends when the
   map is full, since then some keys are unknown, and when the disk has no room for rebuilt batches.
3. If a kernel cannot do something, the caller does it and calls the kernel again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.source import Source
from logwright.batches.status import STORE_FULL
from logwright.batches.unpack import NOT_GIVEN, is_packed
from logwright.cleaner_rules import REBUILD, batch_fate, delete_horizon_ms
from logwright.compaction.model import ReadablePlan
from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.batch import CODEC_MASK, CONTROL, HEADER_BYTES
from logwright.format.native_codec import pack, packed_bound
from logwright.format.record import SMALLEST_RECORD_BYTES
from logwright.format.walk import OK
from logwright.kernel import inline_kernel, kernel
from logwright.keys.offset_map import count_dead
from logwright.keys.read import FLAG, WindowSums, put_window, read_batches, sum_buffers
from logwright.keys.rows import (
    MapMode,
    MapTask,
    Rows,
    account,
    map_step,
    prepare,
    split_shard,
    steps_of,
    unblock,
)
from logwright.place.model import is_local
from logwright.rewrite.batch import RewriteWorkspace, finish_batch, summarise, write_records
from logwright.rewrite.batch_receipt import (
    BatchReceipt,
    add_batch,
    new_receipt,
)
from logwright.rewrite.cache import RebuildCache
from logwright.rewrite.copy import GROWTH_PER_RECORD
from logwright.units import INT64_MAX

WINDOW_RECORDS: Final = 2048
"""Records read before they are mapped: decompressed, they stay in the CPU's cache."""
_USUAL_GROWTH: Final = 4.0
_MARGIN: Final = 1.1


class RebuildBuffers(NamedTuple):
    """The buffers that kernels write rebuilt batches to.

    Attributes:
        entries: CACHED_BATCH[n] of all batches of the source.
        out: uint8[m], with the room of `_room_needed`. state: CACHE_STATE.
        horizon_ms: delete horizon that batches get now.
        receipt: of the batch that is being rebuilt.
    """

    entries: NDArray[np.void]
    out: NDArray[np.uint8]
    state: np.void
    horizon_ms: int
    receipt: BatchReceipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilder:
    """What batches are rebuilt with while they are read.

    Attributes:
        cache: takes them.
        horizon_ms: delete horizon that they get now.
        last_mapped_offset: of the last record that the map may take.
        workspace: also the one that they are read with.
    """

    cache: RebuildCache
    horizon_ms: int
    last_mapped_offset: int
    workspace: RewriteWorkspace = field(default_factory=RewriteWorkspace)


def new_rebuilder(plan: ReadablePlan, sources: list[Source], *, threads: int) -> Rebuilder | None:
    """Return what rebuilds batches if the log is to be read backwards: by one thread, if most of
    its bytes are compressed and none of an old format, and the map need not end where Kafka's
    would. Next to a log that is
    only read nothing is kept.
    """
    directory = plan.log.directory
    if (
        not is_local(directory)
        or threads > 1
        or plan.options.like_kafka
        or not _mostly_compressed(sources)
        or any(source.is_converted for source in sources)
    ):
        return None
    output_bytes = sum(source.log.bytes for source in sources)
    return Rebuilder(
        cache=RebuildCache(directory, output_bytes=output_bytes),
        horizon_ms=delete_horizon_ms(plan.now_ms, plan.config.delete_retention_ms),
        last_mapped_offset=plan.compaction.first_uncleanable_offset - 1,
    )


def _mostly_compressed(sources: list[Source]) -> bool:
    packed = 0
    for source in sources:
        if source.attributes & CODEC_MASK:
            compressed = (source.batches["attributes"] & CODEC_MASK) != 0
            packed += int(source.batches["size"][compressed].sum())
    return 2 * packed > sum(source.log.bytes for source in sources)


def map_backwards(task: MapTask, rebuilder: Rebuilder, work: list[Rows], mode: MapMode) -> None:
    """Map these rows, the last one first, and rebuild their batches. No row is mapped twice so.

    Raises:
        CorruptBatch, UnsupportedFormatError: the first batch that cannot be read, by its place.
    """
    steps = [step for _, step in steps_of(task, work)]
    try:
        for step in reversed(steps):
            _map_step_backwards(task, rebuilder, step, mode)
    except (CorruptBatch, UnsupportedFormatError):
        for step in steps:  # to name the first unreadable batch
            flag = MapMode(offsets=(0, 0), primary=True, action=FLAG)
            map_step(task, task.readers[0], step, flag)
        raise


def _map_step_backwards(task: MapTask, rebuilder: Rebuilder, step: Rows, mode: MapMode) -> None:
    """Read, map and rebuild one step; map forwards what that leaves."""
    (source, first, row), (reader, *_) = step, task.readers
    cache, space = rebuilder.cache, rebuilder.workspace
    prepare(reader, step)
    entries = cache.entries_of(source.base_offset, len(source.batches))
    key = (task.state.key.low, task.state.key.high)
    receipt = new_receipt(key, rebuilder.last_mapped_offset)
    window = sum_buffers(WINDOW_RECORDS, together=True)
    given = NOT_GIVEN
    while first < row and len(task.shards) == 1 and not cache.closed:
        space.need_plain(_plain_bytes(len(space.scratch)))
        space.need_kept(len(reader.found.ordinals))
        cache.state["needed"] = _room_needed(len(space.scratch))
        row, status = read_backwards(
            source.data,
            source.batches,
            (first, row),
            given,
            task.scope(mode),
            task.map_,
            reader.buffers(task.hash_key),
            window,
            space.for_rewrite(),
            RebuildBuffers(entries, cache.out, cache.state, rebuilder.horizon_ms, receipt),
        )
        row, given = int(row), NOT_GIVEN
        if status == STORE_FULL:
            cache.empty()
        elif status != OK:
            given = unblock(reader, source, row - 1, status)
        elif task.state.counters["full"][0]:
            split_shard(task)
    account(task, reader, (source, row, step[2]), mode)
    if first < row:
        map_step(task, reader, (source, first, row), mode)


def _plain_bytes(scratch_bytes: int) -> int:
    """Return how much memory the uncompressed records of a batch may need that fits into the
    scratch memory.
    """
    return scratch_bytes + scratch_bytes // SMALLEST_RECORD_BYTES * GROWTH_PER_RECORD


def _room_needed(scratch_bytes: int) -> int:
    """Return how many bytes of the cache's buffer one window may need."""
    each = HEADER_BYTES + int(packed_bound(0))
    return int(packed_bound(_plain_bytes(scratch_bytes))) + WINDOW_RECORDS * each


@inline_kernel
def _window_start(batches: Any, first: int, end: int, most_bytes: Any) -> Any:
    """Return where the window that ends at `end` begins: it has at most `WINDOW_RECORDS` records,
    but at least one batch.
    """
    row, records = end - 1, np.int64(batches[end - 1].count)
    packed = np.int64(batches[end - 1].size)
    while row > first and end - row < WINDOW_RECORDS:
        records += batches[row - 1].count
        packed += batches[row - 1].size
        if records > WINDOW_RECORDS or packed > most_bytes:
            break
        row -= 1
    return row


@inline_kernel
def _growth(batches: Any, first: int, spans: Any) -> Any:
    """Return by how much the batches of a window grew, and some more, so that the next one fits."""
    packed, plain = np.int64(1), np.int64(0)
    for row in range(len(spans)):
        packed += batches[first + row].size
        plain = max(plain, spans[row].end)
    return _MARGIN * np.float64(plain) / np.float64(packed)


@kernel
def _rebuild(
    data: Any, batches: Any, rows: Any, spans: Any, dead: Any, space: Any, store: Any
) -> None:
    """Rebuild the compressed batches of [rows[0], rows[1]) that lose some of their records, as far
    as is known.
    """
    scratch, plain, summary = space.scratch, space.plain, space.summary
    out, state, sums = store.out, store.state, store.receipt.sums
    for row in range(rows[0], rows[1]):
        batch = batches[row]
        if not is_packed(batch) or batch.discard or batch.attributes & CONTROL != 0:
            continue
        dead_records = count_dead(dead, batch.first_ordinal, batch.count)
        if batch_fate(batch, batch.count - dead_records) != REBUILD:
            continue
        lies = spans[row - rows[0]]
        span = (lies.start, lies.end)
        summarise(scratch, span, batch, dead, store.horizon_ms, summary, space.kept)
        if summary.kept == batch.count and summary.sets_horizon == 0:
            continue
        written = write_records(plain, np.int64(0), scratch, summary, space.kept)
        at = state.used
        codec = np.int64(batch.attributes) & CODEC_MASK
        packed = pack(plain, written, codec, out, at + HEADER_BYTES, space.table, space.cells)
        if packed <= 0:
            continue
        end = at + HEADER_BYTES + packed
        finish_batch(out, at, end, data, batch, summary)
        sums.content = sums.digest = np.uint64(0)
        add_batch(scratch, span, batch, dead, 0, store.receipt)
        entry = store.entries[row]
        entry.at, entry.size = state.before + at, end - at
        entry.kept, entry.max_timestamp = summary.kept, summary.max_timestamp
        entry.sets_horizon = summary.sets_horizon
        entry.content, entry.digest = sums.content, sums.digest
        state.used = end


@kernel
def read_backwards(
    data: Any,
    batches: Any,
    rows: Any,
    given: int,
    scope: Any,
    map_: Any,
    reader: Any,
    window: Any,
    space: Any,
    store: Any,
) -> Any:
    """Map the batches [rows[0], rows[1]) from the last to the first, and rebuild them.

    Args:
        data, batches, scope: of `read.read_batches`.
        given: bytes of the last row's records that the scratch memory holds, else `NOT_GIVEN`.
        map_: `OffsetMap`. reader: `ReadBuffers`. window: `WindowSums` for `WINDOW_RECORDS` batches.
        space: of the Workspace; its plain memory has the room of `_plain_bytes`, its list that of
            the found records. store: `RebuildBuffers`.

    Returns:
        (end, status): what lies before `end` is still to be mapped. The status is `OK` at the end,
        or where the map was full; else what must be done about the row before `end` before
        the call is repeated with it, or what is wrong with it.
    """
    counters, state, sampled = map_.counters[0], store.state, reader.receipt.sampled
    counters.full = False
    first, end = np.int64(rows[0]), np.int64(rows[1])
    growth, one_by_one = _USUAL_GROWTH, INT64_MAX
    while first < end:
        if state.used + state.needed > len(store.out):
            return end, np.int64(STORE_FULL)
        start = end - 1
        if given == NOT_GIVEN and end <= one_by_one:
            start = _window_start(batches, first, end, np.float64(len(reader.scratch)) / growth)
        length, before = end - start, sampled[0]
        read = WindowSums(window.starts[: length + 1], window.sums[:length], window.spans[:length])
        stop, taken, status = read_batches(data, batches, (start, end), given, scope, reader, read)
        if stop < end:
            sampled[0] = before
            if length == 1:
                return end, status
            one_by_one = start
            continue
        put_window(batches, (start, end), taken, scope, map_, reader, read)
        if counters.full:
            sampled[0] = before
            return end, np.int64(OK)
        given = np.int64(NOT_GIVEN)
        _rebuild(data, batches, (start, end), read.spans, map_.dead, space, store)
        growth = max(growth, _growth(batches, start, read.spans))
        end = start
    return end, np.int64(OK)
