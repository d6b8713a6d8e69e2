"""Search the keys and patterns in texts: those of ledgers, properties and a table's metadata."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from logwright.batches.markers import NO_MARKERS
from logwright.erasure.find.scan import HIT, Scanned
from logwright.erasure.keys import Keys, KeySet
from logwright.format.scan import BATCH

RowHit = tuple[int, int, int, bool]
"""Request or -1, pattern or -1, number of the row or -1, and whether the row has no value."""


def scan_texts(texts: Iterable[bytes], keys: KeySet, patterns: Sequence[bytes]) -> Scanned:
    """Return which requests' keys are one of these texts, and which patterns are in one."""
    distinct = sorted(set(texts))
    matched, answers = keys.search(keys_of(distinct))
    requests = {int(one) for one in matched if one >= 0}
    contained = {n for n, one in enumerate(patterns) if any(one in text for text in distinct)}
    scanned = hits_of_rows(
        [(one, -1, -1, False) for one in sorted(requests)]
        + [(-1, one, -1, False) for one in sorted(contained)]
    )
    scanned.others, scanned.undecoded = answers.others, answers.undecoded
    return scanned


def keys_of(texts: Sequence[bytes]) -> Keys:
    """Return texts as keys are matched."""
    return Keys.of(texts)


def hits_of_rows(hits: Sequence[RowHit]) -> Scanned:
    """Return hits that are in no batch."""
    array = np.zeros(len(hits), dtype=HIT)
    for at, (request, pattern, row, dead) in enumerate(sorted(hits, key=lambda one: one[2])):
        hit = array[at]
        hit["request"], hit["pattern"], hit["offset"] = request, pattern, row
        hit["is_tombstone"] = dead
    batches = np.zeros(1, dtype=BATCH)
    batches["position"] = -1
    return Scanned(hits=array, batches=batches, markers=NO_MARKERS, unread=())
