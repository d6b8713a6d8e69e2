"""What a cleaner sees in the records that were found: aborted, superseded, a tombstone, live.

The rules are those of the first pass (`logwright.cleaner_rules`), asked of the records of one
key at a time, since the scan has found all of them:

- Data of an aborted transaction is removed whatever its key is (8). The next marker of its producer
  decides (`logwright.batches.markers`).
- A record is superseded by a later one with its key (5), unless that one is aborted, or its
  transaction is open.
- A record without a value is a tombstone (6).

``tests/unit/erasure/find/test_kinds.py`` holds the outcome against the first pass, for every record
of all logs that Kafka wrote for the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches.markers import decide, with_markers
from logwright.erasure.find.model import Kind
from logwright.format.batch import TRANSACTIONAL
from logwright.format.scan import ABORT
from logwright.units import INT64_MAX

LIVE, SUPERSEDED, TOMBSTONE, ABORTED, VALUE = range(5)
KINDS: Final[tuple[Kind, ...]] = ("live", "superseded", "tombstone", "aborted", "value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The records of one log that were found.

    Attributes:
        kinds: uint8[n], of `KINDS`, in the order of the records that were given.
        is_open: bool[n], whether the record's transaction is open.
    """

    kinds: NDArray[np.uint8]
    is_open: NDArray[np.bool_]
    _offsets: NDArray[np.int64]
    _requests: NDArray[np.int64]
    _unique: NDArray[np.int64]
    _counted: NDArray[np.int64]

    def superseded_within(self, first: int, end: int) -> NDArray[np.bool_]:
        """Return which records are superseded by one with an offset in [first, end), bool[n]: a
        cleaning whose map covers these offsets removes them.
        """
        return _superseded(
            self._offsets, self._requests, (self._unique, self._counted), (first, end)
        )


def outcomes(
    batches: NDArray[np.void], markers: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which batches, BATCH[n], are aborted, and which belong to open transactions; bool[n].

    Args:
        markers: int64[k, 3], of the whole log, see `logwright.batches.markers.markers_of`.
    """
    known = with_markers(markers, markers[:0], from_offset=0)
    decided = batches.copy()
    decided["discard"] = False
    decide(decided, known, 0, INT64_MAX)
    aborted = decided["discard"].copy()
    # If every marker aborted, what is not aborted has no marker: its transaction is open.
    aborting = known.copy()
    aborting[:, 2] = ABORT
    decided["discard"] = False
    decide(decided, aborting, 0, INT64_MAX)
    transactional = ((batches["attributes"] & TRANSACTIONAL) != 0) & (batches["producer_id"] >= 0)
    return aborted, transactional & ~decided["discard"]


def judge(
    hits: NDArray[np.void],
    batches: NDArray[np.void],
    markers: NDArray[np.int64],
    *,
    log_start_offset: int = 0,
) -> Judged:
    """Decide about all records of one log that were found.

    Args:
        hits: HIT[n]; `row` is the batch's index in `batches`.
        batches: BATCH[m]. markers: int64[k, 3], of the whole log.
        log_start_offset: records below it do not supersede: readers do not see them.
    """
    aborted, is_open = outcomes(batches, markers)
    gone, pending = aborted[hits["row"]], is_open[hits["row"]]
    requests, offsets = hits["request"], hits["offset"]
    counts = (requests >= 0) & ~gone & ~pending & (offsets >= log_start_offset)
    unique, ranks = np.unique(offsets, return_inverse=True)
    counted = np.unique((requests * (len(unique) + 1) + ranks)[counts])
    later = _superseded(offsets, requests, (unique, counted), (0, INT64_MAX))
    kinds = np.full(len(hits), LIVE, dtype=np.uint8)
    kinds[hits["is_tombstone"]] = TOMBSTONE
    kinds[later] = SUPERSEDED
    kinds[gone] = ABORTED
    kinds[requests < 0] = VALUE
    return Judged(
        kinds=kinds,
        is_open=pending,
        _offsets=offsets,
        _requests=requests,
        _unique=unique,
        _counted=counted,
    )


def _superseded(
    offsets: NDArray[np.int64],
    requests: NDArray[np.int64],
    known: tuple[NDArray[np.int64], NDArray[np.int64]],
    span: tuple[int, int],
) -> NDArray[np.bool_]:
    """Return which records have a later one with their key in these offsets [first, end), bool[n].

    Args:
        known: all offsets, int64[k], ascending; and of the records that count the request times
            k + 1, and the rank of the offset, ascending.
    """
    unique, counted = known
    base = len(unique) + 1
    after = np.searchsorted(unique, np.maximum(offsets + 1, span[0]))
    at = np.searchsorted(counted, requests * base + after)
    has_later = at < len(counted)
    next_one = counted[at[has_later]]
    same = (next_one // base == requests[has_later]) & (unique[next_one % base] < span[1])
    has_later[has_later] = same
    return np.asarray(has_later)
