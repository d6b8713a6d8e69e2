"""Log directories as if a broker had them open: its lock is held by another process, as a JVM holds
it, and its high watermarks are recorded when the test says so.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import BROKER_LOCK, CLEAN_SHUTDOWN_MARKER, TopicPartition
from logwright.log.model import ReadableLog
from logwright.place.files import open_log_dir
from logwright.running.snapshot import Snapshot, try_snapshot
from tests.log_builder import LogBuilder

PAIRS = [("a", "1" * 100), ("b", "2" * 100)]
"""Keys and values of a record batch."""

_HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked", flush=True)
sys.stdin.read(1)
"""


@contextmanager
def running(log_dir: Path, high_watermarks: Mapping[str, int] | None = None) -> Iterator[None]:
    """The directory's lock is held as a broker holds it, and these are its high watermarks. Without
    the marker of a clean stop, which a broker removes when it starts.
    """
    (log_dir / CLEAN_SHUTDOWN_MARKER).unlink(missing_ok=True)
    command = [sys.executable, "-S", "-c", _HOLDER, str(log_dir / BROKER_LOCK)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        try:
            assert "locked" == holder.stdout.readline().strip()
            record(log_dir, high_watermarks or {})
            yield
        finally:
            holder.communicate(timeout=60)


def record(log_dir: Path, high_watermarks: Mapping[str, int]) -> None:
    """Record high watermarks, as a broker does every 5 s: a new file takes the old one's name."""
    parsed = {TopicPartition.parse(name): offset for name, offset in high_watermarks.items()}
    entries = {partition: offset for partition, offset in parsed.items() if partition}
    assert len(entries) == len(high_watermarks)
    new = log_dir / "replication-offset-checkpoint.tmp"
    new.write_bytes(serialize_offset_checkpoint(entries))
    new.replace(log_dir / "replication-offset-checkpoint")


@contextmanager
def recording(
    log_dir: Path, high_watermarks: Mapping[str, int], seconds: float = 0.1
) -> Iterator[None]:
    """The broker records these high watermarks, again and again."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(seconds):
            record(log_dir, high_watermarks)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def two_segments(log_dir: Path) -> LogBuilder:
    """A log t-0 of two segments of ten records, with a leader epoch."""
    builder = LogBuilder(log_dir)
    for base in (0, 10):
        segment = builder.segment(base)
        for offset in range(base, base + 10):
            segment.batch(offset, [("a", "1")])
    builder.write(index_interval=1)
    (builder.directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")
    return builder


def bases(log: ReadableLog) -> list[int]:
    """The base offsets of a log's segments."""
    return [segment.base_offset for segment in log.segments]


def snapshot_of(log: LogBuilder) -> Snapshot:
    """What is there now; later changes are not in it."""
    time.sleep(0.1)  # the directory's times are older than QUIET_NS
    with open_log_dir(log.log_dir) as parent:
        snapshot = try_snapshot(parent, "t-0", lambda _: True)
    assert isinstance(snapshot, Snapshot)
    return snapshot
