"""The kernel that lists the keys of a window for a scan."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.format.batch import CODEC_MASK, CONTROL
from logwright.format.walk import OK, TRAILING, read_record
from logwright.kernel import kernel


class KeyList(NamedTuple):
    """The keys of a window's records; room for all of them.

    Attributes:
        starts, lengths: int64[n], where a key is in its buffer, bytes.
        ordinals, offsets: int64[n], of its record.
        tombstones: bool[n], the record has no value.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    ordinals: NDArray[np.int64]
    offsets: NDArray[np.int64]
    tombstones: NDArray[np.bool_]

    @classmethod
    def room(cls, records: int) -> KeyList:
        """Return a list with room for this number of records."""
        starts, lengths, ordinals, offsets = (np.empty(records, dtype=np.int64) for _ in range(4))
        return cls(starts, lengths, ordinals, offsets, np.empty(records, dtype=np.bool_))

    def first(self, count: int) -> KeyList:
        """Return the first keys of it."""
        return KeyList(*(column[:count] for column in self))


@kernel
def list_keys(source: Any, batches: Any, spans: Any, packed: bool, found: Any) -> Any:
    """List the keys of those batches of a window that are packed, or of those that are not; control
    batches have none.

    Args:
        source: uint8[n] that holds their records: the file, or what was decompressed.
        batches: BATCH[k]. spans: int64[k, 2], see `Window`.
        found: `KeyList`.

    Returns:
        (number of keys, row, status) of the first batch that cannot be read; status `OK` if there
        is none.
    """
    count = 0
    for row in range(len(batches)):
        batch = batches[row]
        if batch.attributes & CONTROL != 0 or (batch.attributes & CODEC_MASK != 0) != packed:
            continue
        position, end = spans[row, 0], spans[row, 1]
        for index in range(np.int64(batch.count)):
            record = read_record(source, position, end)
            position, length = record.stop, record.key_length
            if position < 0:
                return count, row, position
            if length < 0:
                continue
            found.starts[count], found.lengths[count] = record.key, length
            found.ordinals[count] = batch.first_ordinal + index
            found.offsets[count] = batch.base_offset + record.delta
            found.tombstones[count] = record.value_length < 0
            count += 1
        if position != end and batch.count > 0:
            return count, row, np.int64(TRAILING)
    return count, len(batches), np.int64(OK)
