"""The statuses of kernels that read batches: one list, of which no two are the same number."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from logwright.batches import status
from logwright.batches.status import FAULTS, OK, StoppedAt, require_readable
from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format import batch, codec, legacy, limits, record, scan, walk
from logwright.format.scan import BATCH

_OTHERS = {"OK", "WHOLE", "ABORT", "COMMIT", "INT32_MAX"}.union(
    *map(vars, (batch, codec, legacy, limits, record))
)


def numbers() -> list[int]:
    """All statuses that the modules define."""
    return [
        value
        for module in (status, scan, walk)
        for name, value in vars(module).items()
        if name.isupper() and name[0] != "_" and type(value) is int and name not in _OTHERS
    ]


def test_no_number_stands_for_two_reasons() -> None:
    """A caller can tell them apart, whichever kernel returned one."""
    assert [] == [number for number, times in Counter(numbers()).items() if times > 1]
    assert OK == scan.WHOLE == walk.OK
    assert OK not in numbers()


def test_each_fault_of_a_file_has_a_sentence() -> None:
    """Of the records and of the header; the others are obstacles, which callers remove."""
    faults = {number for number in numbers() if number < 0}
    faults |= {scan.TORN, scan.LENGTH, scan.OTHER_MAGIC, scan.SMALL}
    assert faults | {status.WRONG_CRC, status.RECORDS} == FAULTS.keys()


@pytest.mark.parametrize("number", FAULTS)
def test_a_fault_names_its_batch(number: int) -> None:
    """By offset and position; the exception is that of the list."""
    batches = np.zeros(2, dtype=BATCH)
    batches["base_offset"], batches["position"] = [5, 7], [0, 99]
    at = StoppedAt(np.zeros(0, dtype=np.uint8), Path("0.log"), batches, 1)
    require_readable(at, OK)
    with pytest.raises((CorruptBatch, UnsupportedFormatError), match="at offset 7") as caught:
        require_readable(at, number)
    assert (FAULTS[number].kind, 99) == (type(caught.value), caught.value.position)
