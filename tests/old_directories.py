"""Log directories of pairs of old brokers (data/README.md), and copies of them that lack files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from tests.fixtures import DATA
from tests.old_formats import unpack
from tests.property.accidents import CHECKPOINTS, MARKER, META

ARCHIVE: Final = DATA / "old-directories.tar.xz"
VERSIONS: Final = ("0.10.2.2", "1.1.1", "2.1.1", "2.8.2", "3.3.2", "3.9.1")
STATES: Final = ("stopped-1", "stopped-2", "killed-1", "killed-2")
"""Of each version: how the broker ended, and its number; 1 leads all partitions, 2 follows."""
DIRECTORIES: Final = tuple((version, state) for version in VERSIONS for state in STATES)
METADATA_LOG: Final = "__cluster_metadata-0"
CONFIG: Final = {
    "segment.bytes": "3000",
    "index.interval.bytes": "200",
    "segment.index.bytes": "4096",
}
"""The settings of the brokers that loading a log follows."""
NOW_MS: Final = 1_796_100_000_000
"""Within a day of what was written, so that no producer is expired."""


@cache
def unpacked() -> Path:
    """Where the directories lie; never write below it."""
    return unpack(ARCHIVE, "old-directories")


def copied(version: str, state: str, to: Path) -> Path:
    """A copy of a directory; one that has no cluster's id gets ids, which Kafka 4 wants."""
    shutil.copytree(unpacked() / version / state, to, copy_function=shutil.copy2)
    meta = to / "meta.properties"
    if "cluster.id" not in meta.read_text():
        meta.write_text(META)
    return to


def partitions(log_dir: Path) -> list[Path]:
    """The partition directories, but that of the cluster's metadata."""
    return [path for path in sorted(log_dir.glob("*-0")) if path.name != METADATA_LOG]


LeavesOut = Callable[[Path], list[Path]]
"""Of a log directory, or of a partition's: the files that a copy leaves out."""


def of_kind(suffix: str) -> LeavesOut:
    """All files of a kind, of every partition."""
    return lambda root: [
        path for log in partitions(root) for path in sorted(log.glob(f"*{suffix}"))
    ]


def of_segment(number: int, *suffixes: str) -> LeavesOut:
    """Files of a segment that has records, of every partition: 0 is the first, -1 the last."""

    def files(root: Path) -> list[Path]:
        named: list[Path] = []
        for log in partitions(root):
            filled = [path for path in sorted(log.glob("*.log")) if path.stat().st_size]
            named += [filled[number].with_suffix(suffix) for suffix in suffixes if filled]
        return [path for path in named if path.exists()]

    return files


def of_root(name: str) -> LeavesOut:
    """A file of the log directory itself."""
    return lambda root: [root / name] if (root / name).exists() else []


LEFT_OUT: Final[dict[str, LeavesOut]] = {
    "nothing": lambda _: [],
    "first .log": of_segment(0, ".log"),
    "last .log": of_segment(-1, ".log"),
    "last segment": of_segment(-1, ".log", ".index", ".timeindex", ".txnindex"),
    ".index": of_kind(".index"),
    ".timeindex": of_kind(".timeindex"),
    ".txnindex": of_kind(".txnindex"),
    "snapshots": of_kind(".snapshot"),
    "leader epochs": of_kind("leader-epoch-checkpoint"),
    **{name: of_root(name) for name in (*CHECKPOINTS, MARKER)},
}
"""What a copy leaves out."""


def without(name: str, log_dir: Path) -> list[Path]:
    """Remove from a copy what is left out by this name. Effects: removes the files.

    Returns:
        their paths.
    """
    files = LEFT_OUT[name](log_dir)
    for path in files:
        path.unlink()
    return files
