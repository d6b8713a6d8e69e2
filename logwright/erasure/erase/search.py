"""Which records of a window have one of the keys to be erased: the scan and the check both ask
here. Records are read in full, so that nothing malformed is copied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.projection import find_records
from logwright.batches.source import Source, Window, require_batch
from logwright.erasure.erase.model import Matcher
from logwright.erasure.keys import Keys
from logwright.erasure.match import note_keys


class Matching(NamedTuple):
    """The records of a window that have one of the keys.

    Attributes:
        numbers: int64[n], of the records in the window, ascending; those of control batches count.
        rows: int64[n], of their batches. requests: int32[n], numbers of their requests.
    """

    numbers: NDArray[np.int64]
    rows: NDArray[np.int64]
    requests: NDArray[np.int32]


def search_window(source: Source, window: Window, keys: Matcher) -> Matching:
    """Return the records of a window that have one of the keys; markers have none.

    Raises:
        CorruptBatch: the records of a batch are malformed, in whatever part.
    """
    buffer, spans, most = find_records(source, window)
    noted = np.empty((4, most), dtype=np.int64)
    table, every = keys.table, keys.needs_hmacs
    count, row, status = note_keys(buffer, window.batches, spans, table, every, noted)
    require_batch(source, window.batches, row, status)
    numbers, rows, starts, lengths = noted[:, :count]
    requests = keys.match(Keys(buffer, starts, lengths))
    chosen = requests >= 0
    return Matching(numbers[chosen], rows[chosen], requests[chosen])
