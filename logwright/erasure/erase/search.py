"""Which records of a window have one of the keys to be erased: the scan and the check both ask
here. Records are read in full, so that nothing malformed is copied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.projection import find_records
from logwright.batches.source import Source, Window, open_window, require_batch
from logwright.erasure.erase.model import Matcher
from logwright.erasure.keys import Keys
from logwright.erasure.match import NoteRule, note_keys
from logwright.format.batch import CODEC_MASK
from logwright.format.scan import check_crcs


class Matching(NamedTuple):
    """The records of a window that have one of the keys.

    Attributes:
        numbers: int64[n], of the records in the window, ascending; those of control batches count.
        rows: int64[n], of their batches. requests: int32[n], numbers of their requests.
        undecoded: see `logwright.erasure.keys.Matched`.
    """

    numbers: NDArray[np.int64]
    rows: NDArray[np.int64]
    requests: NDArray[np.int32]
    undecoded: bool


def search_batches(
    source: Source, rows: slice | NDArray[np.int64], keys: Matcher
) -> tuple[Window, Matching]:
    """Return some batches of a source, and their records that have one of the keys; markers have
    none. CRCs are checked, of batches that are not compressed while they are searched.

    Raises:
        CorruptBatch: a CRC is wrong, or a batch cannot be read, whatever part of it.
    """
    is_plain = source.attributes & CODEC_MASK == 0
    if not is_plain:
        batches = source.batches[rows]
        check_crcs(source.data, batches, source.path, first=0, last=len(batches))
    window = open_window(source, rows)
    buffer, spans, most = find_records(source, window)
    noted = np.empty((4, most), dtype=np.int64)
    rule = NoteRule(keys.table, keys.needs_hmacs, is_plain)
    count, row, status = note_keys(buffer, window.batches, spans, rule, noted)
    require_batch(source, window.batches, row, status)
    numbers, owners, starts, lengths = noted[:, :count]
    requests, undecoded = keys.match(Keys(buffer, starts, lengths))
    chosen = requests >= 0
    return window, Matching(numbers[chosen], owners[chosen], requests[chosen], undecoded)
