"""The clean-shutdown marker: who may remove it, and its name during an append.

An append renames it and renames it back; a recovery removes it and writes it last. Both hold an
exclusive lock on ``<log dir>/.logwright-marker.lock``. Their planning waits, since a directory
without the marker looks unclean.

A marker also has the epoch of the broker that stopped. With it the controller decides whether the
broker has all that it acknowledged, and may lead (KIP-966). So an operation that leaves less of a
log, or an older state of it, takes the epoch away before (`doubt`), under the same lock. Others
leave the marker alone and do not need the lock.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from logwright.errors import LogDirLocked
from logwright.format.names import CLEAN_SHUTDOWN_MARKER, MARKER_ASIDE
from logwright.locks import lock_file, try_lock, wait_for
from logwright.place.files import entry_at, exists, names_in, open_bytes
from logwright.steps.step import FsyncDir, FsyncFile, Truncate, Unlink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from logwright.steps.step import FileStep

MARKER_LOCK: Final = ".logwright-marker.lock"

UNKNOWN_EPOCH: Final = b""
"""The content of a marker without a broker epoch: of a clean stop, which spares a recovery, but not
of a replica that is known to be whole. A broker that cannot read an epoch in the marker of each of
its directories registers without one. A written epoch of -1 it ignores, if the next directory has
another one (LogManager.readBrokerEpochFromCleanShutdownFiles)."""

WITHOUT_EPOCH: Final = (
    "the marker of the clean stop no longer has the broker's epoch: the cluster's controller takes"
    " the stop for an unclean one and, if the cluster has eligible leader replicas (KIP-966), lets"
    " a whole replica lead."
)
"""What a command says that has removed the epoch."""

_MOST_BYTES: Final = 4096
"""Of a marker that is read; Kafka's has 40."""

APPEND_WAIT_SECONDS: Final = 600.0
"""How long an append waits for those before it: each takes as long as its bytes."""
PLAN_WAIT_SECONDS: Final = 30.0
"""How long a plan waits for an append or a recovery to end."""


@contextmanager
def lock_marker(log_dir: Path, *, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock for removing and restoring the marker, against other logwright processes. Taken
    after the log directory's lock, before a partition's. Effects: makes the lock file, removes it
    on release.

    Raises:
        LogDirLocked: it was not free in this time.
    """
    with lock_file(log_dir, MARKER_LOCK, wait_seconds=wait_seconds):
        yield


def wait_for_marker(log_dir: Path) -> None:
    """Wait while another process works without the marker. A caller that holds `lock_marker` must
    not call it. Effects: reads only.

    Raises:
        LogDirLocked: it takes longer than `PLAN_WAIT_SECONDS`.
    """
    if wait_for(lambda: None if marker_is_taken(log_dir) else True, PLAN_WAIT_SECONDS) is None:
        raise LogDirLocked(
            "another logwright process appends to a log of this directory, or recovers it.",
            path=log_dir / MARKER_LOCK,
            remedy="Wait for it to end, then run it again.",
        )


def marker_is_taken(log_dir: Path) -> bool:
    """Return whether another process has removed the marker and is working. Effects: reads."""
    return not (log_dir / CLEAN_SHUTDOWN_MARKER).exists() and _is_held(log_dir / MARKER_LOCK)


def _is_held(lock: Path) -> bool:
    try:
        file = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(file, "shared")
    finally:
        os.close(file)


def aside(nonce: str) -> str:
    """Return the marker's name during the append that its journal knows by this nonce."""
    return f"{MARKER_ASIDE}.{nonce}"


def markers_aside(log_dir: Path) -> tuple[Path, ...]:
    """Return the renamed markers: one, unless somebody copied it. Effects: lists the directory."""
    return tuple(log_dir / name for name in names_in(log_dir) if name.startswith(MARKER_ASIDE))


def doubt(log_dir: Path) -> tuple[FileStep, ...]:
    """Return the steps that take the broker epoch away from the marker; they need no room on the
    disk. The caller holds `lock_marker`, and executes them before it changes a log. Effects: lists
    the directory.
    """
    markers = (log_dir / CLEAN_SHUTDOWN_MARKER, *markers_aside(log_dir))
    entries = {path: entry_at(path) for path in markers}
    named = [path for path, entry in entries.items() if entry is not None and entry.stamp.bytes]
    return tuple(
        step for path in named for step in (Truncate(path, len(UNKNOWN_EPOCH)), FsyncFile(path))
    )


def have_same_epoch(log_dir: Path, other: Path) -> bool:
    """Return whether the markers of two directories are of one clean stop. Effects: reads them.

    Raises:
        UnreadableFile: one cannot be read.
    """
    paths = (log_dir / CLEAN_SHUTDOWN_MARKER, other / CLEAN_SHUTDOWN_MARKER)
    if not all(map(exists, paths)):
        return False
    contents = []
    for path in paths:
        with open_bytes(path) as file:
            contents.append(file.span(0, _MOST_BYTES))
    return contents[0] == contents[1]


def discard_markers(log_dir: Path) -> tuple[FileStep, ...]:
    """Return the steps that remove renamed markers. Effects: lists the directory."""
    markers = markers_aside(log_dir)
    return (
        (*(Unlink(path, missing_ok=True) for path in markers), FsyncDir(log_dir)) if markers else ()
    )
