"""The high watermark that a running broker has recorded, and whether it can be of a log that was
just seen.

A broker replaces ``replication-offset-checkpoint`` every
``replica.high.watermark.checkpoint.interval.ms`` (5 s), with the entries of all its partitions. An
entry can be of another time: of a topic that was deleted and made again, of before an unclean
election, of before a loss of power. It is not used if the partition's own files are younger, if it
is beyond the log's end, or if the broker started since. The next one comes within seconds.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from logwright.errors import Unsettled
from logwright.format import names
from logwright.format.checkpoints import parse_offset_checkpoint
from logwright.place.files import open_log_dir
from logwright.running.broker import broker_process

if TYPE_CHECKING:
    from collections.abc import Mapping

    from logwright.format.names import TopicPartition
    from logwright.units import Offset

INTERVAL_SECONDS: Final = 5.0
"""Default of ``replica.high.watermark.checkpoint.interval.ms``."""
PATIENCE_SECONDS: Final = 4 * INTERVAL_SECONDS
"""How long is waited for the next checkpoint."""
_POLL_SECONDS: Final = 0.05
_NEVER: Final = (0, 0)


class Watermarks(NamedTuple):
    """One checkpoint of the high watermarks.

    Attributes:
        identity: (inode, mtime in ns): another one has another.
        offsets: by partition.
    """

    identity: tuple[int, int]
    offsets: Mapping[TopicPartition, Offset]

    @property
    def written_ns(self) -> int:
        """When the broker wrote it, ns since the epoch; 0: not yet."""
        return self.identity[1]


def read_watermarks(log_dir: Path) -> Watermarks:
    """Return the present checkpoint; one without entries if there is none. Effects: reads it.

    Raises:
        NotALogDir, UnreadableFile, CorruptCheckpoint, UnsupportedFormatError: as
            `logwright.log.checkpoints.read_checkpoints`.
    """
    with open_log_dir(log_dir) as directory:
        if not directory.exists(names.HIGH_WATERMARK_CHECKPOINT):
            return Watermarks(_NEVER, {})
        with directory.open(names.HIGH_WATERMARK_CHECKPOINT) as file:
            size, modified_ns, inode = file.seen
            content = file.span(0, size)
    offsets = parse_offset_checkpoint(content, log_dir / names.HIGH_WATERMARK_CHECKPOINT)
    return Watermarks((inode, modified_ns), offsets)


def wait_for_next(log_dir: Path, identity: tuple[int, int], why: str) -> None:
    """Wait until the broker has written another checkpoint. Effects: looks at the file; sleeps.

    Args:
        identity: of the present one.
        why: the present one is of no use.

    Raises:
        Unsettled: it does not write one, or has ended.
    """
    path = log_dir / names.HIGH_WATERMARK_CHECKPOINT
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            status = path.lstat()
            if (status.st_ino, status.st_mtime_ns) != identity:
                return
        if broker_process(log_dir) is None:
            raise Unsettled("the broker ended meanwhile.", path=log_dir, remedy="Run it again.")
        time.sleep(_POLL_SECONDS)
    raise no_next(log_dir, why)


def no_next(log_dir: Path, why: str) -> Unsettled:
    """Return the error for a broker that does not write the next checkpoint; `why`: the present one
    is of no use.
    """
    return Unsettled(
        f"the broker does not write its high watermarks: {why}.",
        path=log_dir / names.HIGH_WATERMARK_CHECKPOINT,
        remedy="Run it again when it serves the log, or after you stopped it.",
    )


def started_ns(process: int) -> int:
    """Return when a process began, ns since the epoch, at most a tick too early; 0 if it is not
    known. Effects: reads ``/proc``.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        lines = Path("/proc/stat").read_text().splitlines()
        boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        return int((boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")) * 1e9)
    except (OSError, ValueError, IndexError, StopIteration):
        return 0
