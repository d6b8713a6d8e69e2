"""Wrong index entries are found, each by its offset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from logwright.batches.source import Source
from logwright.checks.indexes import check_indexes
from logwright.format.index import serialize_offset_index, serialize_time_index
from logwright.format.names import INDEX, LOG, TIMEINDEX, segment_file_name
from logwright.format.scan import BATCH
from logwright.place.mapped import MappedFiles
from logwright.rewrite.model import StagedSegment
from logwright.units import ByteCount, Offset

BASE = 1_000
BATCHES = np.zeros(3, dtype=BATCH)
BATCHES["position"] = [0, 100, 250]
BATCHES["last_offset"] = [1_004, 1_009, 1_020]
BATCHES["max_timestamp"] = [50, 40, 60]
OFFSETS = [(1_009, 100), (1_020, 250)]
TIMES = [(50, 1_004), (60, 1_020)]

Entries = list[tuple[int, int]]


def wrong(
    directory: Path, offsets: Entries, times: Entries, *, more: bytes = b""
) -> tuple[tuple[int, int], list[int]]:
    """What the check says of these entries."""
    names = {suffix: directory / segment_file_name(BASE, suffix) for suffix in (LOG, INDEX)}
    names[LOG].write_bytes(b"")
    entries = np.array(offsets, dtype=np.int64).reshape(-1, 2)
    names[INDEX].write_bytes(serialize_offset_index(entries, BASE) + more)
    entries = np.array(times, dtype=np.int64).reshape(-1, 2)
    path = directory / segment_file_name(BASE, TIMEINDEX)
    path.write_bytes(serialize_time_index(entries, BASE))
    segment = StagedSegment(
        base_offset=Offset(BASE),
        source_base_offsets=(Offset(BASE),),
        log_bytes=ByteCount(400),
        index_bytes=ByteCount(0),
        timeindex_bytes=ByteCount(0),
        next_offset=Offset(1_021),
        modified_ns=0,
    )
    source = Source(base_offset=BASE, log=MappedFiles().open(names[LOG]), batches=BATCHES)
    return check_indexes(segment, source, directory)


def test_right_entries_are_counted(tmp_path: Path) -> None:
    """Empty files are right too."""
    assert ((2, 2), []) == wrong(tmp_path, OFFSETS, TIMES)
    assert ((0, 0), []) == wrong(tmp_path, [], [])


@pytest.mark.parametrize(
    ("offsets", "offset"),
    [
        ([(1_009, 101)], 1_009),  # between two batches
        ([(1_009, 400)], 1_009),  # past the last one
        ([(1_004, 100)], 1_004),  # the batch before has it
        ([(1_021, 250)], 1_021),  # no batch reaches it
        ([(1_004, 0)], 1_004),  # there is no entry for the first batch
        ([(1_020, 250), (1_009, 100)], 1_009),  # descends
        ([(1_009, 100), (1_009, 100)], 1_009),  # twice
    ],
)
def test_a_wrong_offset_entry(tmp_path: Path, offsets: Entries, offset: int) -> None:
    """No batch before its position has its offset, and it ascends."""
    assert ((len(offsets), 2), [offset]) == wrong(tmp_path, offsets, TIMES)


@pytest.mark.parametrize("offset", [1_005, 1_008, 1_015, 1_020])
def test_an_entry_of_an_older_broker(tmp_path: Path, offset: int) -> None:
    """It names an offset in the batch, or the last one of what was appended with it; a time entry
    any offset of the batch.
    """
    assert ((1, 1), []) == wrong(tmp_path, [(offset, 100)], [(50, 1_003)])


@pytest.mark.parametrize(
    ("times", "offset"),
    [
        ([(50, 1_021)], 1_021),  # past the last batch
        ([(40, 1_009)], 1_009),  # an earlier batch has a larger timestamp
        ([(61, 1_020)], 1_020),  # no batch has it
        ([(50, 1_004), (50, 1_009)], 1_009),  # does not ascend
    ],
)
def test_a_wrong_time_entry(tmp_path: Path, times: Entries, offset: int) -> None:
    """It gives the largest timestamp up to a batch, and ascends."""
    assert ((2, len(times)), [offset]) == wrong(tmp_path, OFFSETS, times)


def test_half_an_entry(tmp_path: Path) -> None:
    """The whole file is wrong."""
    assert ((0, 0), [BASE]) == wrong(tmp_path, OFFSETS, TIMES, more=b"\0\0\0\0")
