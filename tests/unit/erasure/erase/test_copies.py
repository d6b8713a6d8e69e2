"""The files of a log outside its live segments are read as its segments are."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, get_ident

import numpy as np
import pytest
from numpy.typing import NDArray

from logwright.batches.runtime import Runtime, Throttle
from logwright.erasure.erase.copies import file_matches, inner_copies, top_copies
from logwright.erasure.keys import Keys
from tests.erasing import PlainKeys
from tests.log_builder import LogBuilder
from tests.old_formats import CODECS, Message, message, v2_batch, wrapper

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


def old_copy(codec: int, magic: int, name: bytes) -> bytes:
    """Batches of an old format around one of format v2; the last one has a record of this key."""
    messages = [Message(b"a", b"1", 1), Message(name, None, 2)]
    last = wrapper(magic, (3, 4), messages, codec) if codec else message(magic, 4, messages[1])
    return message(magic, 0, messages[0]) + v2_batch((1, 2), messages[:1] * 2, codec) + last


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", sorted(set(CODECS)))
def test_copies_of_old_formats(tmp_path: Path, codec: int, magic: int) -> None:
    """They are searched, and those without a match are not said to be unreadable; a torn one is
    searched as far as it goes.
    """
    path = tmp_path / RETIRED
    for content, expected in (
        (old_copy(codec, magic, b"me"), True),
        (old_copy(codec, magic, b"other"), False),
        (old_copy(codec, magic, b"me") + b"torn", True),
        (old_copy(codec, magic, b"other") + b"torn", None),
        (old_copy(codec, magic, b"me")[:-1], None),
    ):
        path.write_bytes(content)
        assert expected is file_matches(path, PlainKeys([b"me"]), runtime=Runtime())


@pytest.mark.parametrize("before", [False, True])
def test_an_old_copy_that_cannot_be_unpacked(tmp_path: Path, before: bool) -> None:
    """Its CRC is right, and its records cannot be read: what is before it counts."""
    bad = message(1, 5, Message(None, b"no messages"), attributes=CODECS[2])
    path = tmp_path / RETIRED
    path.write_bytes(old_copy(0, 1, b"me" if before else b"other") + bad)
    assert (before or None) is file_matches(path, PlainKeys([b"me"]), runtime=Runtime())
