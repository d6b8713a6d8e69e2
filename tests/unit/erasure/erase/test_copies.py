"""The files of a log outside its live segments are read as its segments are."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, get_ident

import numpy as np
import pytest
from numpy.typing import NDArray

from logwright.batches.runtime import Runtime, Throttle
from logwright.erasure.erase.copies import inner_copies, top_copies
from logwright.erasure.keys import Keys
from tests.erasing import PlainKeys
from tests.log_builder import LogBuilder

RETIRED = "00000000000000000000.log.1.deleted"
INNER = ".logwright/cut/00000000000000000000.log"


class MetKeys(PlainKeys):
    """Keys that are matched by two threads at the same time: each waits for the other."""

    def __init__(self) -> None:
        super().__init__([b"me"])
        self.threads = set[int]()
        self._both = Barrier(2, timeout=20)

    def match(self, keys: Keys) -> NDArray[np.int32]:
        """See `Matcher.match`. Fails if no other thread comes."""
        self.threads.add(get_ident())
        self._both.wait()
        return super().match(keys)


def log_with_copies(tmp_path: Path) -> tuple[Path, int]:
    """A partition with a retired file and a piece that was cut off; the bytes of each."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1")]).batch(1, [("me", "2")])
    log.segment(2)
    log.write()
    (directory,) = (path for path in log.log_dir.iterdir() if path.is_dir())
    content = (directory / "00000000000000000000.log").read_bytes()
    for name in (RETIRED, INNER):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    return directory, len(content)


def test_copies_are_read_on_the_given_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch is a window of its own here."""
    monkeypatch.setattr("logwright.batches.source.WINDOW_BYTES", 1)
    directory, _ = log_with_copies(tmp_path)
    keys, below, runtime = MetKeys(), MetKeys(), Runtime(threads=2)
    (copy,) = top_copies(directory, [RETIRED], keys, runtime=runtime)
    (inner,) = inner_copies(directory, below, runtime=runtime)
    assert (True, True) == (copy.matches, inner.matches)
    assert [2, 2] == [len(keys.threads), len(below.threads)]


def test_copies_count_for_the_rate(tmp_path: Path) -> None:
    """``log.cleaner.io.max.bytes.per.second`` is kept while they are read."""
    directory, size = log_with_copies(tmp_path)
    slept = list[float]()
    runtime = Runtime(throttle=Throttle(size, clock=lambda: 0.0, sleep=slept.append))
    top_copies(directory, [RETIRED], PlainKeys([b"nobody"]), runtime=runtime)
    inner_copies(directory, PlainKeys([b"nobody"]), runtime=runtime)
    assert [1.0, 2.0] == slept
