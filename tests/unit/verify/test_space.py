"""What a killed broker leaves of the space that it had allocated is not a fault of a log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logwright.format.names import segment_file_name
from tests.e2e.command import Answer, call
from tests.log_builder import INDEX_BYTES, LogBuilder

BASE = 3
"""Of the last of two segments."""


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """Two segments of three batches; each batch but the first of a segment has an index entry."""
    log = LogBuilder(tmp_path / "logs")
    for base in (0, BASE):
        segment = log.segment(base)
        for offset in range(base, base + 3):
            segment.batch(offset, [("a", "1")])
    return log.write(producers=True, index_interval=0, high_watermark=6).kill()


def verify(log: LogBuilder, *words: str) -> Answer:
    return call("verify", log.log_dir, *words)


def index(log: LogBuilder, suffix: str, base: int = BASE) -> Path:
    return log.directory / segment_file_name(base, suffix)


@pytest.mark.parametrize("words", [(), ("t-0",)])
def test_the_directory_of_a_killed_broker_is_sound(log: LogBuilder, words: tuple[str, ...]) -> None:
    """The indexes of the active segment are as large as they may become; the space is named."""
    assert index(log, ".index").stat().st_size == INDEX_BYTES
    answer = verify(log, *words)
    assert 0 == answer.status
    assert "t-0: no problems found" in answer.out
    assert "was not shut down cleanly: indexes may have unused space" in answer.err


def test_an_active_segment_without_entries_has_only_space(tmp_path: Path) -> None:
    """As that of a log with few records."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1")])
    log.write(producers=True).kill()
    assert not any(index(log, ".index", 0).read_bytes())
    assert 0 == verify(log).status


def test_an_allocated_log_has_space(log: LogBuilder) -> None:
    """With ``preallocate`` it is as large as a segment may become. Other bytes are a fault."""
    path = index(log, ".log")
    whole = path.stat().st_size
    os.truncate(path, whole + 1000)
    assert 0 == verify(log).status
    with path.open("r+b") as file:
        file.seek(whole + 999)
        file.write(b"x")
    answer = verify(log)
    assert 3 == answer.status
    assert f"at byte {whole}: the record batch's length is impossible" in answer.out


@pytest.mark.parametrize(("suffix", "entry_bytes"), [(".index", 8), (".timeindex", 12)])
@pytest.mark.parametrize("closed", [True, False])
def test_zeros_elsewhere_are_a_fault(
    log: LogBuilder, suffix: str, entry_bytes: int, *, closed: bool
) -> None:
    """At the end of a closed segment's index, as after a power loss; and before an entry."""
    path = index(log, suffix, 0 if closed else BASE)
    entries = path.read_bytes()[:entry_bytes]
    path.write_bytes(entries + bytes(2 * entry_bytes) + (b"" if closed else entries))
    answer = verify(log)
    assert 3 == answer.status
    assert f"{path} at byte {entry_bytes}: entry 1 " in answer.out


@pytest.mark.parametrize(("suffix", "entry_bytes"), [(".index", 8), (".timeindex", 12)])
def test_a_cleanly_stopped_broker_has_cut_the_space(
    log: LogBuilder, suffix: str, entry_bytes: int
) -> None:
    """A directory that says so and has space is not as the broker left it; all else refuses it."""
    (log.log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":0}')
    for other in {".index", ".timeindex"} - {suffix}:
        path = index(log, other)
        path.write_bytes(path.read_bytes().rstrip(b"\0"))
    path = index(log, suffix)
    path.write_bytes(path.read_bytes()[: 4 * entry_bytes])
    assert 3 == verify(log).status


def test_half_an_entry_is_a_fault(log: LogBuilder) -> None:
    """It is not of the space."""
    index(log, ".index").write_bytes(b"\0\0\0\0\x01")
    answer = verify(log)
    assert 3 == answer.status
    assert "5 bytes are not a whole entry" in answer.out
