"""Which log directory a source is appended to."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.assets.ingest import log_dir_of
from logwright.config.policy_models import IngestSource
from logwright.errors import PolicyError
from logwright.place.named import place_of

HERE = Path("/logs")
BOTH = {"here": HERE, "there": place_of("s3://archive/b")}


def source(log_dir: str | None) -> IngestSource:
    return IngestSource(path="/landing", topic="t", format="parquet", log_dir=log_dir)


def test_a_bucket_is_no_choice() -> None:
    """The only directory of this machine is the one; a bucket is refused by name."""
    assert HERE == log_dir_of(source(None), BOTH)
    assert HERE == log_dir_of(source("here"), BOTH)
    with pytest.raises(PolicyError, match=r"log_dir 'there', which is in a bucket"):
        log_dir_of(source("there"), BOTH)
    with pytest.raises(PolicyError, match="the log directories are here"):
        log_dir_of(source("gone"), BOTH)
