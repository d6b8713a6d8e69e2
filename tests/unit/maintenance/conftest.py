"""A bucket that needs no server."""

from __future__ import annotations

import tempfile
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


@pytest.fixture(autouse=True)
def _own_temporary_files(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each test has temporary files of its own: a command removes, and names, what killed ones of
    other tests have left.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
