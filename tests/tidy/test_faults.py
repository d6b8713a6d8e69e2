"""The faults that are planted to try the tests (`tests.mutation`) fit the sources."""

from __future__ import annotations

from pathlib import Path

import logwright
from tests.mutation.faults import FAULTS
from tests.tidy.trees import ROOT

PACKAGE = Path(logwright.__file__).parent


def test_every_fault_can_be_planted() -> None:
    """What a fault changes stands in its file; else nobody tries whether the tests notice it."""
    stale = [
        fault.family
        for fault in FAULTS
        if fault.right not in (PACKAGE / fault.file).read_text() or fault.right == fault.wrong
    ]
    assert stale == []


def test_every_fault_has_its_tests() -> None:
    """The tests that must notice a fault are there."""
    named = {name.partition("::")[0] for fault in FAULTS for name in fault.tests}
    assert [] == sorted(name for name in named if not (ROOT / name).exists())


def test_every_fault_is_python() -> None:
    """A module that cannot be loaded fails every test, which shows nothing of any of them."""
    sources = {fault.family: (PACKAGE / fault.file).read_text() for fault in FAULTS}
    unreadable = [
        fault.family
        for fault in FAULTS
        if not _is_python(sources[fault.family].replace(fault.right, fault.wrong, 1))
    ]
    assert [] == unreadable


def _is_python(text: str) -> bool:
    try:
        compile(text, "fault", "exec")
    except SyntaxError:
        return False
    return True
