"""The tests notice each fault that is planted between two operations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.between import BETWEEN
from tests.mutation.check import WHOLE, make_copies, try_all

pytestmark = [pytest.mark.nightly, pytest.mark.crash, pytest.mark.oracle]


@pytest.mark.timeout(3600)
def test_every_fault_is_caught(tmp_path: Path) -> None:
    """`python -m tests.mutation.check` says which one is not."""
    assert 0 == try_all(BETWEEN, make_copies(tmp_path, 2, WHOLE))
