"""The size of compressed batches that lose some of their records, estimated.

1. The batches are ordered by the share of their records that stays, and split into strata of equal
   numbers. From each stratum some batches are rebuilt in memory and compressed.
2. The payload of the others is estimated from the stratum: payload x share that stays x
   (payloads that were rebuilt) / (sum of the same product over these). Fewer records compress
   worse, and the records that stay may be larger or smaller than those that go.
3. Up to `REBUILT_BATCHES` batches are all rebuilt: then their sizes are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches.unpack import decompress_records
from logwright.format.batch import CODEC_MASK, HEADER_BYTES
from logwright.format.codec import compress
from logwright.format.native_codec import pack, packed_bound
from logwright.rewrite.batch import summarise, write_records
from logwright.rewrite.copy import GROWTH_PER_RECORD

if TYPE_CHECKING:
    from logwright.batches.source import Source
    from logwright.rewrite.batch import RewriteWorkspace

REBUILT_BATCHES: Final = 256
"""Batches that are rebuilt to estimate the others."""
_STRATA: Final = 16


def estimate_payloads(
    payloads: NDArray[np.int64],
    shares: NDArray[np.float64],
    rebuilt: Callable[[int], int],
) -> NDArray[np.float64]:
    """Return the payloads of rebuilt batches in bytes, float64[n].

    Args:
        payloads: of the batches as they are, bytes, all above 0.
        shares: of their records that stay.
        rebuilt: returns the payload of one batch, by its index, when it is rebuilt, in bytes.
    """
    expected = payloads * shares
    if len(payloads) <= REBUILT_BATCHES:
        return np.array([rebuilt(index) for index in range(len(payloads))], dtype=np.float64)
    order = np.argsort(shares, kind="stable")
    for stratum in np.array_split(order, _STRATA):
        count = REBUILT_BATCHES // _STRATA
        picked = stratum[np.linspace(0, len(stratum) - 1, count).astype(np.int64)]
        measured = sum(rebuilt(int(index)) for index in picked)
        linear = float(expected[picked].sum())
        if linear > 0:
            expected[stratum] *= measured / linear
    return expected


def rebuilt_payload(
    source: Source, row: int, dead: NDArray[np.bool_], *, horizon_ms: int, space: RewriteWorkspace
) -> int:
    """Return the payload of a compressed batch without its dead records, in bytes. Effects: the
    workspace.

    Args:
        source: the segment.
        row: of the batch.
        dead: bool[n], its dead records.
        horizon_ms: delete horizon that it gets if it retains a tombstone.
        space: memory.

    Raises:
        CorruptBatch: it does not decompress.
    """
    batch = source.batches[row].copy()
    records = np.frombuffer(decompress_records(source.data, source.path, batch), dtype=np.uint8)
    batch["first_ordinal"] = 0
    bits = np.packbits(dead, bitorder="little")
    space.need_kept(len(dead))
    span = (0, len(records))
    summarise(records, span, batch, bits, horizon_ms, space.summary, space.kept)
    kept = int(space.summary["kept"])
    if kept == 0:
        return 0
    if kept == len(dead) and not space.summary["sets_horizon"]:
        return int(batch["size"]) - HEADER_BYTES
    space.need_plain(len(records) + len(dead) * GROWTH_PER_RECORD)
    written = int(write_records(space.plain, 0, records, space.summary, space.kept))
    codec = int(batch["attributes"]) & CODEC_MASK
    out = np.empty(int(packed_bound(written)), dtype=np.uint8)
    packed = int(pack(space.plain, written, codec, out, 0, space.table, space.cells))
    return packed or len(compress(codec, space.plain[:written].data))
