"""Compare the producers' batches and markers with transaction indexes and producer snapshots.

The log is replayed from its beginning (ProducerStateManager, 4.3.0). A cleaning removes batches and
markers, retention removes the beginning, and a broker forgets idle producers; so only this must
hold:

1. Where data of an aborted transaction is in the log, not below the log start offset, and its
   marker, the marker's segment has an entry for it. Without the entry, or the file, consumers
   with read_committed would get the data. (A cleaning leaves what is below alone.)
2. A producer in a snapshot, if it has the epoch of its last batch before the snapshot's offset,
   has that batch or a later one; if it is that one, then with its sequence number.
3. It has no transaction open that began before a marker of its own.
4. A log that has batches of producers has a snapshot, if it was stopped cleanly: a broker does not
   replay it then. Without such batches it may have none: brokers before 0.11 knew no producers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.batch import CONTROL, TRANSACTIONAL
from logwright.format.index import parse_txn_index
from logwright.format.names import LOG, SNAPSHOT, TXNINDEX, segment_file_name
from logwright.format.snapshot import ProducerEntry, parse_snapshot
from logwright.format.valid import valid_batches
from logwright.log.producers import Replay, replay_batches
from logwright.place.files import exists
from logwright.place.mapped import map_file
from logwright.place.model import Place, is_running
from logwright.units import INT64_MAX
from logwright.verify.model import MOST_PER_FILE, Fault

_SHOWN: Final = "consumers with read_committed would get it"


def check_producers(
    directory: Place,
    bases: list[int],
    numbers: tuple[int, ...],
    *,
    log_start_offset: int,
    need_snapshot: bool,
) -> list[Fault]:
    """Return what is wrong in a log whose segments and snapshots can be read. Effects: reads
    headers and control batches.

    Args:
        directory: the partition's.
        bases: base offsets of the segments, ascending.
        numbers: of the snapshots, ascending.
        log_start_offset: consumers get nothing below it.
        need_snapshot: the log is not empty and was stopped cleanly.
    """
    log = _Replayed(Replay(entries={}), log_start_offset)
    faults: list[Fault] = []
    for base, following in pairwise([*bases, INT64_MAX]):
        inside = [number for number in numbers if base <= number < following]
        try:
            # Of a running log the file may be younger than the listing.
            young = is_running(directory) and following == INT64_MAX
            faults += _check_segment(directory, base, inside, log, has_all_files=not young)
        except (CorruptBatch, UnsupportedFormatError) as error:
            path = directory / segment_file_name(base, LOG)
            problem = error.problem.removesuffix(".")
            return [*faults, Fault(path=path, position=error.position, problem=problem)]
    if need_snapshot and not numbers and log.replay.entries:
        problem = "there is no producer snapshot: a broker would not know any producer"
        faults.append(Fault(path=directory, position=None, problem=problem))
    return faults


def _check_segment(
    directory: Place, base: int, numbers: list[int], log: _Replayed, *, has_all_files: bool
) -> Iterator[Fault]:
    """Check its transaction index, and the snapshots whose number is in it.

    Args:
        has_all_files: a transaction index that is not there is missing.
    """
    data = map_file(directory / segment_file_name(base, LOG))
    rows = valid_batches(data, base_offset=base, check_crcs=False).batches
    known, done = len(log.replay.aborted), 0
    for number in numbers:
        stop = int(np.searchsorted(rows["base_offset"], number))
        log.append(data, rows[done:stop])
        done = stop
        yield from _check_snapshot(directory / segment_file_name(number, SNAPSHOT), log)
    log.append(data, rows[done:])
    path = directory / segment_file_name(base, TXNINDEX)
    if has_all_files or exists(path):
        yield from _check_txnindex(path, log, known)


class _Replayed:
    """The state of the producers at an offset of the log.

    Attributes:
        shown: by producer, the last offset of its transactional data that still has records.
        markers: by producer, the offset of its last marker.
        visible: markers of aborted transactions whose data still has records: producer, offset.
    """

    def __init__(self, replay: Replay, log_start_offset: int) -> None:
        self.replay = replay
        self.log_start_offset = log_start_offset
        self.shown: dict[int, int] = {}
        self.markers: dict[int, int] = {}
        self.visible: set[tuple[int, int]] = set()

    def append(self, data: NDArray[np.uint8], rows: NDArray[np.void]) -> None:
        """Replay more batches, marker by marker."""
        kinds = rows["attributes"]
        begin = 0
        for at in [*np.flatnonzero(kinds & CONTROL).tolist(), len(rows) - 1]:
            part = rows[begin : at + 1]
            shown = part[
                ((part["attributes"] & (CONTROL | TRANSACTIONAL)) == TRANSACTIONAL)
                & (part["count"] > 0)
            ]
            ids, offsets = shown["producer_id"].tolist(), shown["last_offset"].tolist()
            self.shown.update(zip(ids, offsets, strict=True))
            known = len(self.replay.aborted)
            replay_batches(self.replay, data, part)
            self.visible |= {
                (aborted.producer_id, aborted.last_offset)
                for aborted in self.replay.aborted[known:]
                if self.shown.get(aborted.producer_id, -1)
                >= max(aborted.first_offset, self.log_start_offset)
            }
            control = part[(part["attributes"] & CONTROL) != 0]
            ids, offsets = control["producer_id"].tolist(), control["last_offset"].tolist()
            self.markers.update(zip(ids, offsets, strict=True))
            begin = at + 1


def _check_txnindex(path: Place, log: _Replayed, known: int) -> list[Fault]:
    """Find missing entries for the aborted transactions from number `known` on."""
    wanted = [
        aborted
        for aborted in log.replay.aborted[known:]
        if (aborted.producer_id, aborted.last_offset) in log.visible
    ]
    entries = parse_txn_index(map_file(path).tobytes()) if exists(path) else ()
    present = {(entry.producer_id, entry.last_offset) for entry in entries}
    missing = [one for one in wanted if (one.producer_id, one.last_offset) not in present]
    if missing and not exists(path):
        problem = f"it is missing; {len(missing)} aborted transactions have data: {_SHOWN}"
        return [Fault(path=path, position=None, problem=problem)]
    return [
        Fault(
            path=path,
            position=None,
            problem=f"the transaction that producer {aborted.producer_id} aborted at"
            f" {aborted.last_offset} has no entry: {_SHOWN}",
        )
        for aborted in missing[:MOST_PER_FILE]
    ]


def _check_snapshot(path: Place, log: _Replayed) -> list[Fault]:
    faults = []
    for entry in parse_snapshot(map_file(path).tobytes(), path):
        problem = _entry_problem(entry, log)
        if problem is not None:
            text = f"producer {entry.producer_id} {problem}"
            faults.append(Fault(path=path, position=None, problem=text))
    return faults


def _entry_problem(entry: ProducerEntry, log: _Replayed) -> str | None:
    first, marker = entry.current_txn_first_offset, log.markers.get(entry.producer_id, -1)
    if first is not None and first < marker:
        return f"has a transaction open from {first}, the log has its marker at {marker}"
    replayed = log.replay.entries.get(entry.producer_id)
    if replayed is None or replayed.producer_epoch != entry.producer_epoch:
        return None
    if entry.last_offset < replayed.last_offset:
        return f"has its last batch at {entry.last_offset}, the log at {replayed.last_offset}"
    same = entry.last_offset == replayed.last_offset
    if same and entry.last_sequence != replayed.last_sequence:
        return f"has sequence {entry.last_sequence}, the log {replayed.last_sequence}"
    return None
