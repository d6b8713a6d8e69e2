"""Planted keys are found in every kind of file, erased and certified: a search by other code agrees
at each step.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.erasure_proof import CODECS, prove

pytestmark = pytest.mark.e2e

RECORDS = 10_000


def test_an_erasure_is_proved(tmp_path: Path, seed: int) -> None:
    """At once, and by the rules until nothing is left."""
    lines = list(prove(tmp_path, records=RECORDS, keys=12 * len(CODECS), seed=seed))
    assert any(line.startswith("after: nothing") for line in lines)
    assert any(line.startswith("gone by the rules") for line in lines)
