"""A forecast from a sample of the keys, drawn by their keyed hash.

1. All records of the range are read, but only those of the drawn keys are kept, 26 bytes or more
   each; there is no offset map and no bitmap. Sorted by key they show which are superseded.
2. Data of aborted transactions, tombstones past their horizon, and records without a key are
   counted, not sampled.
3. Whether a batch loses all of its records, so that its header goes too, depends on keys that are
   not in the sample. It is estimated from the share of superseded records among the sampled
   ones that lie next to the batch (`_NEIGHBOURS`).
4. For compressed batches some are rebuilt with a random choice of dead records at that share.

The error falls with the square root of the number of sampled keys (docs/adr/0021).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.projection import read_window
from logwright.batches.runtime import Runtime
from logwright.batches.source import row_ranges
from logwright.cleaner_rules import EXPIRED, delete_horizon_ms
from logwright.compaction.survivors import grouped, open_log
from logwright.forecast.model import Forecast, Removal
from logwright.forecast.packed import REBUILT_BATCHES, rebuilt_payload
from logwright.forecast.retention import retained
from logwright.forecast.sample import (
    COUNTED,
    SAMPLED,
    SampleScope,
    sample_buffers,
    sample_records,
)
from logwright.format.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, HEADER_BYTES
from logwright.format.siphash import HashKey
from logwright.rewrite.batch import RewriteWorkspace
from logwright.units import ByteCount

if TYPE_CHECKING:
    from logwright.batches.source import Source
    from logwright.compaction.model import ReadablePlan

SAMPLE_SHARE: Final = 64
"""One key of this many is in the sample; a power of two."""
FEWEST_KEYS: Final = 400
"""Sampled keys from which on the error is expected to be at most 15 %."""
_NEIGHBOURS: Final = 64
"""Sampled records that show how many records of a batch are superseded."""
_BITS_7: Final = 7.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What was read of a log.

    Attributes:
        sources: its segments.
        batches: BATCH[n] of all sources. counted: COUNTED[n].
        sample: SAMPLED[m], ascending by ordinal. superseded: bool[m].
        key_numbers: int64[m], the number of each one's key. keys: keys in the sample.
        share: one key of this many is in it.
        horizon_ms: delete horizon that batches get now.
        packed: bool[n], which batches are compressed. data: which hold data that is not aborted.
    """

    sources: list[Source]
    batches: NDArray[np.void]
    counted: NDArray[np.void]
    sample: NDArray[np.void]
    superseded: NDArray[np.bool_]
    key_numbers: NDArray[np.int64]
    keys: int
    share: int
    horizon_ms: int
    packed: NDArray[np.bool_] = field(init=False)
    data: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        compressed = (self.batches["attributes"] & CODEC_MASK) != 0
        packed = compressed & (self.batches["size"] > HEADER_BYTES)
        object.__setattr__(self, "packed", packed)
        control = (self.batches["attributes"] & CONTROL) != 0
        object.__setattr__(self, "data", ~control & ~self.batches["discard"])


def forecast_by_sample(
    plan: ReadablePlan,
    *,
    share: int = SAMPLE_SHARE,
    hash_key: HashKey | None = None,
    runtime: Runtime | None = None,
) -> Forecast:
    """Forecast what a cleaning would remove, from one key of `share`. Effects: reads the segments.

    Args:
        plan: of the cleaning; if nothing is cleanable only retention counts.
        share: a power of two; 1 takes all keys.
        hash_key: a random one, if not given; the same key draws the same sample.
        runtime: no throttle, if not given; one thread works.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan, CorruptIndex,
        CorruptProducerSnapshot: the log cannot be cleaned.
    """
    if plan.compaction.cleanable_bytes <= 0:
        return Forecast(retention=retained(plan.log, plan.config, plan.now_ms, {}), sampled_keys=0)
    sources, indexes = open_log(plan)
    grouped(plan, sources, indexes, end=plan.compaction.first_uncleanable_offset)
    key = hash_key or HashKey.random()
    scope = SampleScope(
        plan.now_ms,
        plan.removal.end,
        plan.compaction.first_dirty_offset,
        np.uint64(share - 1),
        np.array([key.low, key.high], dtype=np.uint64),
    )
    return _estimate(plan, _read(plan, sources, scope, runtime or Runtime()))


def _read(plan: ReadablePlan, sources: list[Source], scope: SampleScope, runtime: Runtime) -> _Read:
    """Read the records of all sources."""
    samples: list[NDArray[np.void]] = [np.empty(0, dtype=SAMPLED)]
    counted: list[NDArray[np.void]] = [np.zeros(0, dtype=COUNTED)]
    number = 0
    for source in sources:
        counts = np.zeros(len(source.batches), dtype=COUNTED)
        for first, last in row_ranges(source, first=0, last=len(source.batches)):
            taken = _sample_window(source, (first, last), scope, counts[first:last])
            taken["row"] += number + first
            samples.append(taken)
            runtime.throttle.observe(source.bytes_before(last) - source.bytes_before(first))
        counted.append(counts)
        number += len(source.batches)
    sample = np.concatenate(samples)
    superseded, key_numbers, keys = _superseded(sample)
    return _Read(
        sources=sources,
        batches=np.concatenate([source.batches for source in sources]),
        counted=np.concatenate(counted),
        sample=sample,
        superseded=superseded,
        key_numbers=key_numbers,
        keys=keys,
        share=int(scope.mask) + 1,
        horizon_ms=delete_horizon_ms(plan.now_ms, plan.config.delete_retention_ms),
    )


def _sample_window(
    source: Source, rows: tuple[int, int], scope: SampleScope, counted: NDArray[np.void]
) -> NDArray[np.void]:
    """Return the sampled records, SAMPLED[n], of the batches [rows[0], rows[1])."""
    batches = source.batches[slice(*rows)]
    data = np.flatnonzero(((batches["attributes"] & CONTROL) == 0) & ~batches["discard"])
    is_all = len(data) == len(batches)
    records = read_window(source, slice(*rows) if is_all else rows[0] + data)
    counts, buffers = np.zeros(len(data), dtype=COUNTED), sample_buffers(records)
    sampled = buffers.out[: sample_records(records, scope, buffers, counts)].copy()
    counted[data] = counts
    if not is_all:
        batches[data] = records.batches  # their tombstones were set in a copy
    sampled["row"] = data[sampled["row"]]
    return sampled


def _superseded(
    sample: NDArray[np.void],
) -> tuple[NDArray[np.bool_], NDArray[np.int64], int]:
    """Return which sampled records the offset map would supersede, the number of each one's key,
    and how many keys there are.
    """
    superseded = np.zeros(len(sample), dtype=np.bool_)
    numbers = np.zeros(len(sample), dtype=np.int64)
    if not len(sample):
        return superseded, numbers, 0
    order = np.argsort(sample["hash"], kind="stable")
    hashes, ordinals = sample["hash"][order], sample["ordinal"][order]
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
    counts = np.diff(np.append(starts, len(hashes)))
    mapped = np.where(sample["inserted"][order], ordinals, -1)
    latest = np.repeat(np.maximum.reduceat(mapped, starts), counts)
    superseded[order] = ordinals < latest
    numbers[order] = np.repeat(np.arange(len(starts)), counts)
    return superseded, numbers, len(starts)


def _near(read: _Read, chosen: NDArray[np.bool_]) -> Floats:
    """Return for each batch the share of superseded records among the sampled ones next to it,
    float64[n]; 0 without any. `chosen`: bool[m], which sampled records count.
    """
    ordinals = read.sample["ordinal"][chosen]
    if not len(ordinals):
        return np.zeros(len(read.batches))
    middle = read.batches["first_ordinal"] + read.batches["count"] // 2
    first = np.searchsorted(ordinals, middle) - _NEIGHBOURS // 2
    first = np.clip(first, 0, max(len(ordinals) - _NEIGHBOURS, 0))
    last = np.minimum(first + _NEIGHBOURS, len(ordinals))
    sums = np.concatenate([[0], np.cumsum(read.superseded[chosen])])
    share: Floats = (sums[last] - sums[first]) / (last - first)
    return share


class _Totals(NamedTuple):
    """An estimate for all keys from the sampled ones. `error`: its standard error."""

    dead: float
    error: float


def _regressed(read: _Read, sizes: Floats, chosen: NDArray[np.bool_], whole: float) -> _Totals:
    """Estimate the sum over the superseded records of all keys.

    The sum over all records is known. So the estimate from the superseded records alone is
    corrected by what the sample has too much or too little of all records (regression estimator
    of a Poisson sample): a few keys with many records may or may not be in the sample.

    Args:
        read: the log.
        sizes: float64[m], of the sampled records.
        chosen: bool[m], which of them count.
        whole: sum of the sizes over all records of the log that count.
    """
    keys = read.key_numbers[chosen]
    every = np.bincount(keys, weights=sizes[chosen], minlength=read.keys)
    dead = np.bincount(keys, weights=(sizes * read.superseded)[chosen], minlength=read.keys)
    slope = float((dead * every).sum()) / max(float((every * every).sum()), 1e-9)
    share = read.share
    estimate = share * float(dead.sum()) + slope * (whole - share * float(every.sum()))
    rest = dead - slope * every
    error = float(np.sqrt((rest * rest).sum() * share * (share - 1)))
    return _Totals(min(max(estimate, 0.0), whole), error)


def _estimate(plan: ReadablePlan, read: _Read) -> Forecast:
    """Add up the causes."""
    batches, counted, sample = read.batches, read.counted, read.sample
    payload = np.maximum(batches["size"] - HEADER_BYTES, 0).astype(np.float64)
    rate = payload / np.maximum(counted["plain"], 1)
    expired = sample["kind"] == EXPIRED
    sizes = sample["size"] * rate[sample["row"]]
    alive_bytes = (counted["plain"] - counted["null_bytes"] - counted["expired_bytes"]) * rate
    keyed = np.where(read.data, batches["count"] - counted["null_keys"] - counted["expired"], 0)
    total = _regressed(read, sizes, ~expired, float(alive_bytes.sum()))
    dead = _regressed(read, np.ones(len(sample)), ~expired, float(keyed.sum()))
    doubly = _regressed(read, sizes, expired, float((counted["expired_bytes"] * rate).sum()))
    twice = _regressed(read, np.ones(len(sample)), expired, float(counted["expired"].sum()))
    near = _calibrated(_near(read, ~expired), keyed, dead.dead)
    freed_header = read.data & (batches["count"] > 0) & ~batches["keep_empty"]
    header = np.where(freed_header, near**keyed, 0.0) * HEADER_BYTES
    gained = np.where(read.data, _gained(read, near, keyed, payload), 0.0)
    surely = (counted["null_bytes"] + counted["expired_bytes"]) * rate
    kept_header = np.where(batches["keep_empty"], HEADER_BYTES, 0)
    aborted = batches["discard"]
    freed = alive_bytes * near + surely + header - gained
    freed = np.where(aborted, batches["size"] - kept_header, freed)
    empty = (batches["count"] == 0) & ~aborted & ~batches["keep_empty"]
    freed = np.where(empty, batches["size"], freed)
    causes = {
        "superseded": (dead.dead + twice.dead, total.dead + doubly.dead),
        "tombstones": (
            float(counted["expired"].sum()) - twice.dead,
            float((counted["expired_bytes"] * rate).sum()) - doubly.dead,
        ),
        "null_keys": (
            float(counted["null_keys"].sum()),
            float((counted["null_bytes"] * rate).sum()),
        ),
    }
    shared = 1 + float(header.sum()) / max(sum(size for _, size in causes.values()), 1.0)
    return Forecast(
        **{
            name: Removal(round(records), ByteCount(round(size * shared)))
            for name, (records, size) in causes.items()
        },
        aborted=Removal(
            int(batches["count"][aborted].sum()),
            ByteCount(int((batches["size"] - kept_header)[aborted].sum())),
        ),
        empty_batches=Removal(0, ByteCount(int(batches["size"][empty].sum()))),
        retention=retained(plan.log, plan.config, plan.now_ms, _by_segment(read.sources, freed)),
        added_bytes=ByteCount(round(float(gained.sum()))),
        read_bytes=ByteCount(sum(source.log.bytes for source in read.sources)),
        sampled_keys=read.keys,
        error_bytes=ByteCount(round(total.error * shared)),
    )


def _calibrated(near: Floats, keyed: NDArray[np.int64], dead: float) -> Floats:
    """Return the shares of superseded records, float64[n], scaled so that they add up to this
    number of records.
    """
    survivors = float((keyed * (1 - near)).sum())
    factor = (float(keyed.sum()) - dead) / survivors if survivors > 0 else 1.0
    result: Floats = np.clip(1 - (1 - near) * factor, 0.0, 1.0)
    return result


def _by_segment(sources: list[Source], freed: Floats) -> dict[int, int]:
    """Return the bytes that each segment loses, none more than it has, by its base offset."""
    lost_by_base, at = {}, 0
    for source in sources:
        end = at + len(source.batches)
        lost = round(float(freed[at:end].sum()))
        lost_by_base[source.base_offset] = min(max(lost, 0), source.log.bytes)
        at = end
    return lost_by_base


def _gained(read: _Read, near: Floats, keyed: NDArray[np.int64], payload: Floats) -> Floats:
    """Return the bytes that batches are larger than by what their dead records leave, float64[n]:
    by a new delete horizon, or because fewer records compress worse.
    """
    batches = read.batches
    gained = np.where(read.packed, 0.0, _horizon_growth(read, near, keyed))
    rows = np.flatnonzero(read.packed & ~batches["discard"])
    partly = 1 - near ** np.maximum(keyed, 1) - (1 - near) ** np.maximum(keyed, 1)
    rows = rows[(partly[rows] > 0) & (near[rows] < 1)]
    if len(rows):
        worse = _worse_packed(read, near, rows)
        whole = (1 - near[rows]) ** np.maximum(keyed[rows], 1)
        gained[rows] = payload[rows] * np.maximum(1 - near[rows] - whole, 0.0) * (worse - 1)
    return gained


def _horizon_growth(read: _Read, near: Floats, keyed: NDArray[np.int64]) -> Floats:
    """Return the bytes that timestamp deltas grow by in batches that get a delete horizon."""
    batches = read.batches
    has = (batches["attributes"] & DELETE_HORIZON) != 0
    stay = np.where(has, 0, batches["tombstones"])
    going = _near(read, read.sample["kind"] > EXPIRED)
    gets = np.where(stay > 0, 1 - going**stay, 0.0)
    spread = np.maximum(batches["max_timestamp"] - batches["base_timestamp"], 0) // 2
    far = np.abs(batches["base_timestamp"].astype(np.float64) - read.horizon_ms)
    growth = _varint_bytes(far) - _varint_bytes(spread.astype(np.float64))
    result: Floats = gets * keyed * (1 - near) * np.maximum(growth, 0.0)
    return result


def _varint_bytes(value: Floats) -> Floats:
    """Return the size of zigzag varints of these magnitudes, in bytes."""
    bits = np.log2(np.maximum(2 * value, 1.0)) + 1
    result: Floats = np.ceil(np.floor(bits) / _BITS_7)
    return result


def _worse_packed(read: _Read, near: Floats, rows: NDArray[np.int64]) -> float:
    """Return the payloads of rebuilt batches / (payloads as they are x share that stays), from some
    batches that are rebuilt with random dead records. Effects: reads them.
    """
    generator = np.random.default_rng(0)
    ends = np.cumsum([len(source.batches) for source in read.sources])
    space = RewriteWorkspace()
    measured, linear = 0.0, 0.0
    picked = rows[np.unique(np.linspace(0, len(rows) - 1, REBUILT_BATCHES // 2).astype(np.int64))]
    for row in picked.tolist():
        number = int(np.searchsorted(ends, row, side="right"))
        source = read.sources[number]
        own = row - (int(ends[number]) - len(source.batches))
        count = int(source.batches["count"][own])
        dead = generator.random(count) < near[row]
        if dead.all() or not dead.any():
            continue
        payload = int(source.batches["size"][own]) - HEADER_BYTES
        linear += payload * (count - int(dead.sum())) / count
        measured += rebuilt_payload(source, own, dead, horizon_ms=read.horizon_ms, space=space)
    return measured / linear if linear > 0 else 1.0
