"""An object in a bucket that several threads want as a whole is fetched once."""

from __future__ import annotations

import gc
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from logwright.bucket.store import Bucket
from logwright.place.files import open_bytes
from logwright.place.named import place_of
from tests.bucket_maintenance.copies import put
from tests.bucket_maintenance.random_logs import a_log

READERS = 4


@pytest.fixture(name="reads")
def _reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of what is read; each read takes a while."""
    reads, read = [], Bucket.read

    def slow(bucket: Bucket, key: str, start: int, end: int) -> memoryview:
        reads.append(key)
        time.sleep(0.2)
        return read(bucket, key, start, end)

    monkeypatch.setattr(Bucket, "read", slow)
    return reads


def test_an_object_is_fetched_once(tmp_path: Path, reads: list[str]) -> None:
    """By those that want it at once, and by who comes while somebody has it; then again."""
    a_log(tmp_path / "here", random.Random(1), "t-0")
    put(tmp_path / "here", Bucket.of(f"file://{tmp_path}/there"))
    (path, *_) = sorted((tmp_path / "here" / "t-0").glob("*.log"))
    place = place_of(f"file://{tmp_path}/there") / "t-0" / path.name
    reads.clear()

    def whole(_: int) -> np.ndarray:
        with open_bytes(place) as file:
            return file.whole()

    with ThreadPoolExecutor(READERS) as pool:
        arrays = list(pool.map(whole, range(READERS)))
    arrays.append(whole(0))
    assert 1 == len(reads)
    assert {path.read_bytes()} == {array.tobytes() for array in arrays}
    del arrays
    gc.collect()
    assert path.read_bytes() == whole(0).tobytes()
    assert 2 == len(reads)
