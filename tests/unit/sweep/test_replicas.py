"""What a coordinated cleaning compares of the replicas of a log (docs/adr/0030)."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.compaction.model import RemovalBound
from logwright.errors import PreconditionError
from logwright.log.load import observe
from logwright.sweep.replicas import removal_bound
from tests.log_builder import LogBuilder


def bound_of_two(directory: Path, high_watermark: int) -> RemovalBound:
    """Of two replicas up to 3, clean below 1, whose batches at 1 and 2 are of two producers."""
    builders = [LogBuilder(directory / str(producer_id)) for producer_id in (7, 8)]
    for producer_id, builder in zip((7, 8), builders, strict=True):
        segment = builder.segment(0).batch(0, [("a", "1")])
        segment.batch(1, [("b", "2"), ("c", "3")], producer_id=producer_id)
        builder.write(cleaner_checkpoint=1, high_watermark=high_watermark, producers=True)
    own, other = builders
    log = observe(own.log_dir, own.partition, high_watermark="checkpoint")
    return removal_bound(log, [other.log_dir], high_watermark="checkpoint")


def test_a_batch_that_ends_at_the_high_watermark_is_not_compared(tmp_path: Path) -> None:
    """It is not committed, so a broker may still replace it; what ends below is compared."""
    with pytest.raises(PreconditionError, match="has another batch at offset 1"):
        bound_of_two(tmp_path / "below", high_watermark=3)
    assert 1 == bound_of_two(tmp_path / "at", high_watermark=2).end
