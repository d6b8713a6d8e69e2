"""The check on latest values: note the keys of the output, then judge the source's records by them.

Keys are hashed with a key of this examination. If they do not fit the memory budget, the hashes are
split into shards, and everything is noted and judged once for each shard.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import ceil
from typing import Final

import numpy as np

from logwright.batches.source import Source, Window, require_batch, side_of
from logwright.checks import thorough_kernels
from logwright.keys.offset_map import ENTRY_BYTES, SHARD_SPACE, new_map

_LOAD: Final = 0.75
_SHARD_ROOM: Final = 1.1
"""A shard's share of the keys varies a little around its mean."""
_FULLEST: Final = 0.95
_LEAST_BUDGET_BYTES: Final = 1024 * 1024
"""A smaller map would cost more in repeated reading than it saves."""


class KeyTable:
    """The latest noted offset of each key of the current shard.

    Args:
        records: at least the number of keys.
        budget_bytes: of memory.
        last_mapped_offset: latest offset of the cleaning's map; records above it are left out.
        verdict: of the check; added to.
    """

    def __init__(
        self,
        *,
        records: int,
        budget_bytes: int,
        last_mapped_offset: int,
        verdict: np.record,
    ) -> None:
        slots = ceil(max(records, 1) / _LOAD) + 1
        budget = max(budget_bytes, _LEAST_BUDGET_BYTES)
        shards = max(ceil(slots * ENTRY_BYTES / budget), 1)
        bounds = [shard * SHARD_SPACE // shards for shard in range(shards + 1)]
        each = ceil(slots / shards * _SHARD_ROOM) + 64
        state = new_map(each, capacity=0, largest=last_mapped_offset)
        self._table = state.table
        self._key = np.array([state.key.low, state.key.high], dtype=np.uint64)
        self._last_mapped_offset = last_mapped_offset
        self._verdict = verdict
        self._room = np.zeros(1, dtype=np.int64)
        self._shards = list(pairwise(bounds))
        self._shard = self._shards[0]

    def shards(self) -> Iterator[int]:
        """Yield the shards' numbers; the table is empty at the beginning of each."""
        for number, shard in enumerate(self._shards):
            self._shard = shard
            if number > 0:
                self._table[0][:] = 0
            self._room[0] = int(len(self._table[0]) // 2 * _FULLEST)
            yield number

    def note(self, source: Source, window: Window, *, only_tombstones: bool = False) -> None:
        """Note the keys of a window's records.

        Raises:
            CorruptBatch: a batch cannot be read.
        """
        self._weigh(source, window, only_tombstones=only_tombstones, judge=False)

    def judge(self, source: Source, window: Window) -> None:
        """Blame the records whose key is not noted at their offset or above; windows come in
        descending order.

        Raises:
            CorruptBatch: a batch cannot be read.
        """
        self._weigh(source, window, only_tombstones=False, judge=True)

    def _weigh(self, source: Source, window: Window, *, only_tombstones: bool, judge: bool) -> None:
        records = int(window.batches["count"].sum(dtype=np.int64))
        hashes = (
            np.empty(records, dtype=np.uint64),
            np.empty(records, dtype=np.uint64),
            np.empty(records, dtype=np.int64),
        )
        row, status = thorough_kernels.weigh_keys(
            side_of(source, window),
            self._table,
            self._key,
            thorough_kernels.KeyRange(self._last_mapped_offset, *self._shard, only_tombstones),
            self._room,
            self._verdict,
            hashes,
            judge,
        )
        require_batch(source, window.batches, row, status)
