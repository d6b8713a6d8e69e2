"""A log that a broker may have open."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.log_builder import LogBuilder
from tests.running_dirs import PAIRS


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """Two segments of 20 records each, the second one active; not open."""
    builder = LogBuilder(tmp_path / "logs")
    for base in (0, 20):
        segment = builder.segment(base)
        for offset in range(base, base + 20, 2):
            segment.batch(offset, PAIRS)
    builder.write(index_interval=1, high_watermark=40)
    (builder.directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")
    return builder
