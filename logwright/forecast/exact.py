"""A forecast from all keys: the first pass of a cleaning, and the sizes of the batches after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Runtime, silent
from logwright.batches.source import Source, require_batch
from logwright.cleaner_rules import delete_horizon_ms
from logwright.compaction.survivors import Survivors, find_survivors
from logwright.forecast.model import Forecast, Removal
from logwright.forecast.packed import estimate_payloads, rebuilt_payload
from logwright.forecast.retention import retained
from logwright.forecast.sizes import CAUSES, measure
from logwright.format.batch import CODEC_MASK, HEADER_BYTES
from logwright.rewrite.batch import RewriteWorkspace
from logwright.units import ByteCount

if TYPE_CHECKING:
    from logwright.batches.runtime import Progress
    from logwright.compaction.model import ReadablePlan


@dataclass(slots=True, kw_only=True)
class _Freed:
    """What is freed, as it is added up.

    Attributes:
        causes: bytes of each of CAUSES.
        empty: bytes of batches without records that go.
        added: bytes that batches gain.
        by_segment: bytes that each segment loses, by base offset.
    """

    causes: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(CAUSES)))
    empty: int = 0
    added: int = 0
    by_segment: dict[int, int] = field(default_factory=dict)

    def add(self, source: Source, measured: NDArray[np.void]) -> None:
        """Add the batches of a source, MEASURED[n]."""
        freed = (source.batches["size"] - measured["new_size"]).astype(np.float64)
        weights = np.stack([measured[cause] for cause in CAUSES]).astype(np.float64)
        total = weights.sum(axis=0)
        less = np.maximum(freed, 0.0)
        self.causes += (weights / np.maximum(total, 1.0) * less).sum(axis=1)
        empty = less * (total == 0)
        self.empty += int(empty.sum())
        self.added += int((less - freed).sum())
        self.by_segment[source.base_offset] = int(freed.sum())


def forecast_exactly(
    plan: ReadablePlan, *, progress: Progress = silent, runtime: Runtime | None = None
) -> Forecast:
    """Forecast what a cleaning would remove, from all of its keys. Effects: reads the segments.

    For an uncompressed log the bytes are those that the cleaning removes. Compressed batches that
    lose some of their records are estimated (`packed`).

    Args:
        plan: of the cleaning; if nothing is cleanable only retention counts.
        progress: called as in a build, with the phase "map".
        runtime: one thread and no throttle, if not given.

    Raises:
        LogwrightError: as `logwright.compaction.survivors.find_survivors`.
    """
    if plan.compaction.cleanable_bytes <= 0:
        return Forecast(retention=retained(plan.log, plan.config, plan.now_ms, {}))
    survivors = find_survivors(
        plan, progress=progress, runtime=runtime or Runtime(), rebuilds=False
    )
    freed = _measure_all(plan, survivors)
    superseded, tombstones, null_keys, aborted = (ByteCount(round(one)) for one in freed.causes)
    removed_aborted = survivors.removed_aborted + survivors.removed_markers
    return Forecast(
        superseded=Removal(survivors.removed_superseded, superseded),
        tombstones=Removal(survivors.removed_tombstones, tombstones),
        aborted=Removal(removed_aborted, aborted),
        null_keys=Removal(survivors.removed_null_keys, null_keys),
        retention=retained(plan.log, plan.config, plan.now_ms, freed.by_segment),
        empty_batches=Removal(0, ByteCount(freed.empty)),
        added_bytes=ByteCount(freed.added),
        read_bytes=ByteCount(
            sum(each.log_bytes for pairs in survivors.groups for each, _ in pairs)
        ),
    )


def _measure_all(plan: ReadablePlan, survivors: Survivors) -> _Freed:
    """Measure all batches; estimate those that are compressed and rebuilt."""
    horizon_ms = delete_horizon_ms(plan.now_ms, plan.config.delete_retention_ms)
    parts: list[tuple[Source, NDArray[np.void]]] = []
    for source in (source for group in survivors.groups for _, source in group):
        measured, done, status = measure(
            source.data,
            source.batches,
            (survivors.dead, survivors.tombstones),
            horizon_ms=horizon_ms,
            last_mapped_offset=survivors.last_mapped_offset,
        )
        require_batch(source, source.batches, done, status)
        parts.append((source, measured))
    _estimate_packed(parts, survivors, horizon_ms)
    freed = _Freed()
    for source, measured in parts:
        freed.add(source, measured)
    return freed


def _estimate_packed(
    parts: list[tuple[Source, NDArray[np.void]]], survivors: Survivors, horizon_ms: int
) -> None:
    """Set the new sizes of the compressed batches that are rebuilt."""
    places: list[tuple[int, int]] = []
    for number, (source, measured) in enumerate(parts):
        if source.attributes & CODEC_MASK:
            places.extend((number, int(row)) for row in _rebuilt_rows(source, measured))
    if not places:
        return
    chosen = [(parts[number][0].batches[row], parts[number][1][row]) for number, row in places]
    payloads = np.array([int(batch["size"]) - HEADER_BYTES for batch, _ in chosen])
    shares = np.array([int(one["alive"]) / int(batch["count"]) for batch, one in chosen])
    space = RewriteWorkspace()

    def rebuilt(index: int) -> int:
        number, row = places[index]
        source = parts[number][0]
        first, count = (int(source.batches[row][name]) for name in ("first_ordinal", "count"))
        bits = np.unpackbits(
            survivors.dead[first >> 3 : (first + count + 7) >> 3], bitorder="little"
        )
        dead = bits[first & 7 : (first & 7) + count].astype(np.bool_)
        return rebuilt_payload(source, row, dead, horizon_ms=horizon_ms, space=space)

    for (_, entry), payload in zip(
        chosen, estimate_payloads(payloads, shares, rebuilt), strict=True
    ):
        entry["new_size"] = HEADER_BYTES + round(payload)


def _rebuilt_rows(source: Source, measured: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the rows of compressed batches that are rebuilt, or that get a delete horizon."""
    batches = source.batches
    packed = ((batches["attributes"] & CODEC_MASK) != 0) & (batches["size"] > HEADER_BYTES)
    partly = (measured["alive"] > 0) & (measured["alive"] < batches["count"])
    whole = (measured["alive"] == batches["count"]) & batches["has_tombstone"]
    return np.flatnonzero(packed & (partly | whole))
