"""A bucket that needs no server."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.bucket.store import Bucket
from tests.bucket_maintenance.copies import probed


@pytest.fixture(scope="session", name="agreement")
def _agreement(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return probed(tmp_path_factory.mktemp("probed"))


@pytest.fixture(name="bucket")
def _bucket(tmp_path: Path) -> Bucket:
    return Bucket.of(f"file://{tmp_path}/bucket")
