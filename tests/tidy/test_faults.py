"""The faults that are planted to try the tests (`tests.mutation`) fit the sources."""

from __future__ import annotations

from pathlib import Path

import logwright
from tests.mutation.faults import FAULTS

PACKAGE = Path(logwright.__file__).parent


def test_every_fault_can_be_planted() -> None:
    """What a fault changes stands in its file; else nobody tries whether the tests notice it."""
    stale = [
        fault.family
        for fault in FAULTS
        if fault.right not in (PACKAGE / fault.file).read_text() or fault.right == fault.wrong
    ]
    assert stale == []
