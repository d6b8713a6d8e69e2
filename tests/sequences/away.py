"""The log directory of a broker that is away, with a log as it was in the beginning, never cleaned:
what a coordinated cleaning has to wait for.
"""

from __future__ import annotations

import shutil
from pathlib import Path


def away(root: Path) -> Path:
    """Where it is."""
    return root / "away"


def is_unfinished(replica: Path, name: str) -> bool:
    """Whether a log has segments as a broker of 0.9 leaves them, which no newer one has loaded."""
    logs = (replica / name).glob("*.log")
    return not all(path.with_suffix(".timeindex").exists() for path in logs)


def leave(root: Path, partition: Path) -> None:
    """Make it, of a partition's directory. Effects: copies that."""
    shutil.copytree(partition, away(root) / partition.name)
    (away(root) / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":0}')
