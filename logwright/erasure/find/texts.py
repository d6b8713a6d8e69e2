"""Search the keys and patterns in texts: those of ledgers, properties and a table's metadata."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from logwright.batches.markers import NO_MARKERS
from logwright.erasure.find.scan import HIT, Scanned
from logwright.erasure.find.sentences import MOST_BORDERS, count_borders, parts_of
from logwright.erasure.keys import Keys, KeySet
from logwright.format.scan import BATCH

RowHit = tuple[int, int, int, bool]
"""Request or -1, pattern or -1, number of the row or -1, and whether the row has no value."""
TOO_LONG: Final = "a text in it is too long to be compared in all of its parts"
_TOO_MUCH: Final = "it has too many texts to be compared in all of their parts"
_MOST_PARTS: Final = 200_000_000
"""Of the texts of a file."""


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
    scanned.others = answers.others  # what cannot be decoded here is a text, and not a key
    return scanned


def scan_parts(texts: Iterable[bytes], keys: KeySet) -> tuple[set[int], str | None]:
    """Return which requests' keys are a part of one of these texts, and why not all parts could be
    compared.
    """
    requests: set[int] = set()
    problem, left = None, _MOST_PARTS
    for text in sorted(set(texts)):
        for parts in parts_of(text):
            left -= len(parts.keys.starts)
            if left < 0:
                return requests, _TOO_MUCH
            requests |= set(keys.match(parts.keys).requests.tolist()) - {-1}
            if not (parts.all or _are_short(keys)):
                problem = TOO_LONG
    return requests, problem


def _are_short(keys: KeySet) -> bool:
    """Whether all keys are so short that each is in a window of a long text."""
    clear = keys.all_in_clear()
    return clear is not None and all(2 * count_borders(key) <= MOST_BORDERS for key in clear)


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
