"""Deliberate faults in the latest state: rows that are not the newest, and points that are lost."""

from __future__ import annotations

from tests.mutation.fault import Fault

_READ = ("tests/unit/latest/test_read.py",)
_COMMAND = ("tests/unit/cli/test_latest.py",)

LATEST = (
    Fault(
        family="latest: aborted data supersedes committed data",
        file="latest/read.py",
        right='        source.batches["unmapped"] = source.batches["discard"]\n',
        wrong="",
        tests=_READ,
    ),
    Fault(
        family="latest: ordinals begin again with each piece",
        file="latest/read.py",
        right="        ordinal += source.records\n",
        wrong="",
        tests=_READ,
    ),
    Fault(
        family="latest: keys above the end supersede",
        file="latest/read.py",
        right="    offsets = (plan.start_offset, plan.end_offset)\n    rows = ",
        wrong="    offsets = (plan.start_offset, plan.end_offset + 1)\n    rows = ",
        tests=_READ,
    ),
    Fault(
        family="latest: a time is exclusive",
        file="latest/plan.py",
        right="first_offset_at(log, timestamp_ms + 1,",
        wrong="first_offset_at(log, timestamp_ms,",
        tests=_COMMAND,
    ),
    Fault(
        family="latest: a gap between batches is not seen",
        file="latest/missing.py",
        right="        apart = np.flatnonzero(gap | thinned)\n",
        wrong="        apart = np.flatnonzero(thinned)\n",
        tests=_COMMAND,
    ),
    Fault(
        family="latest: a point below the checkpoint is trusted",
        file="latest/plan.py",
        right="    elif checkpoint > end:\n",
        wrong="    elif checkpoint > end + 1:\n",
        tests=_COMMAND,
    ),
    Fault(
        family="latest: results are in the order in which threads end",
        file="latest/read.py",
        right="            yield from working[0].results()\n            working.popleft()\n",
        wrong="            yield from working[-1].results()\n            working.pop()\n",
        tests=("tests/unit/latest/test_read.py::test_results_are_in_order",),
    ),
)
