"""Deliberate faults in the reading of records: rows that a consumer does not get, or gets."""

from __future__ import annotations

from tests.mutation.fault import Fault

_READ = ("tests/unit/records/test_read.py",)
_PLAN = ("tests/unit/records/test_plan.py",)
_SKIP = ("tests/unit/records/test_skip.py",)
_TRANSACTIONS = ("tests/unit/records/test_transactions.py",)

READING = (
    Fault(
        family="records: the end offset is included",
        file="records/read.py",
        right="        & (offset < scope.end_offset)\n",
        wrong="        & (offset <= scope.end_offset)\n",
        tests=_READ,
    ),
    Fault(
        family="records: a batch is resumed one record late",
        file="records/read.py",
        right="    state.position, state.index, state.last_delta = position, index, last_delta\n",
        wrong="    state.position, state.index, state.last_delta = stop, index + 1, last_delta\n",
        tests=_READ,
    ),
    Fault(
        family="records: LogAppendTime is ignored",
        file="records/read.py",
        right="batch.max_timestamp if append_time else",
        wrong="batch.max_timestamp if False else",
        tests=_READ,
    ),
    Fault(
        family="records: a null is empty",
        file="records/read.py",
        right="        return taken, nulls + 1\n",
        wrong="        return taken, nulls\n",
        tests=_READ,
    ),
    Fault(
        family="records: the commit of another producer decides",
        file="batches/markers.py",
        right="        if low < len(markers) and markers[low, 0] == batch.producer_id:",
        wrong="        if low < len(markers):",
        tests=_TRANSACTIONS,
    ),
    Fault(
        family="records: markers after the range are not looked for",
        file="records/pieces.py",
        right="            ahead = next(self._ahead, None)\n",
        wrong="            ahead = None\n",
        tests=_TRANSACTIONS,
    ),
    Fault(
        family="records: markers above the last stable offset count",
        file="records/plan.py",
        right="        end = min(end, log.last_stable_offset)\n",
        wrong="        end = min(end, log.log_end_offset)\n",
        tests=_TRANSACTIONS,
    ),
    Fault(
        family="records: an index entry is believed",
        file="records/observe.py",
        right='        if not len(batches) or batches["last_offset"][0] != last_offset:',
        wrong="        if not len(batches):",
        tests=_PLAN,
    ),
    Fault(
        family="records: entries out of order are believed",
        file="records/observe.py",
        right="place if place is not None and place.offset >= offset else None",
        wrong="place",
        tests=_PLAN,
    ),
    Fault(
        family="records: a time is looked for in data only",
        file="records/observe.py",
        right='    if batch["attributes"] & CONTROL:',
        wrong="    if False:",
        tests=_PLAN,
    ),
    Fault(
        family="records: the offsets of a corrupt batch count",
        file="records/pieces.py",
        right="            if not bad_crcs(piece.data, batches[row : row + 1]):",
        wrong="            if True:",
        tests=_SKIP,
    ),
    Fault(
        family="records: a batch that is skipped leaves rows",
        file="records/read.py",
        right='    checks_first = records_range.on_corrupt == "skip"\n',
        wrong="    checks_first = False\n",
        tests=_SKIP,
    ),
    Fault(
        family="records: what follows a wrong length is not checked",
        file="records/pieces.py",
        right="if len(piece.batches) and not bad_crcs(piece.data, piece.batches[:1]):",
        wrong="if True:",
        tests=_SKIP,
    ),
)
