"""What files of a log prove of the offsets that it had (`logwright.log.absence`)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from logwright.errors import LogwrightError
from logwright.format.index import parse_offset_index, parse_time_index, parse_txn_index
from logwright.format.names import INDEX, SNAPSHOT, TIMEINDEX, segment_file_name
from logwright.format.snapshot import parse_snapshot
from logwright.place.mapped import map_file
from logwright.place.model import Place

_STEM = 20


def reached_by(name: str, path: Place) -> int | None:
    """Return the offset after the last one that an index of a segment names, at least its base
    offset; None if it is not an index, and proves nothing. Effects: reads it.

    Args:
        name: as the index is called when it is part of the log.
    """
    base = int(name[:_STEM])
    try:
        content = map_file(path).tobytes()
        if name.endswith(INDEX):
            entries = parse_offset_index(content, base)
        elif name.endswith(TIMEINDEX):
            entries = parse_time_index(content, base)[:, ::-1]
        else:
            aborted = parse_txn_index(content)
            if any(one.version or not 0 <= one.first_offset <= one.last_offset for one in aborted):
                return None
            lasts = [(one.last_offset, one.last_stable_offset) for one in aborted]
            entries = np.array(lasts, dtype=np.int64).reshape(-1, 2)
    except LogwrightError:
        return None
    # Space that a broker had allocated holds zeros, which name the base offset.
    named = entries[: int(np.flatnonzero(entries[:, 0] > base).max(initial=-1)) + 1]
    is_index = (np.diff(named, axis=0) >= 0).all() and (named[:1, 0] >= base).all()
    return int(named[-1:, 0].max(initial=base - 1)) + 1 if is_index else None


def snapshots_beyond(directory: Place, offsets: Iterable[int], end: int) -> tuple[int, ...]:
    """Return the offsets of the producer snapshots that prove that a log had reached beyond its
    end. Effects: reads them.
    """
    names = {offset: segment_file_name(offset, SNAPSHOT) for offset in offsets if offset > end}
    return tuple(offset for offset, name in names.items() if _is_snapshot(directory / name))


def _is_snapshot(path: Place) -> bool:
    """Return whether a producer snapshot is one, so that its name proves an offset. Effects: reads
    it.
    """
    try:
        parse_snapshot(map_file(path).tobytes(), path)
    except LogwrightError:
        return False
    return True
