"""Turn an empty directory into a log directory."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import CLEAN_SHUTDOWN_MARKER, LOG_START_OFFSET_CHECKPOINT
from logwright.ingest.steps import WATCHED
from logwright.steps.marker import UNKNOWN_EPOCH, discard_markers
from logwright.steps.step import FileStep, FsyncDir, FsyncFile, WriteFile

if TYPE_CHECKING:
    from pathlib import Path

_INITIAL: Final = {
    **dict.fromkeys((*WATCHED, LOG_START_OFFSET_CHECKPOINT), serialize_offset_checkpoint({})),
    CLEAN_SHUTDOWN_MARKER: UNKNOWN_EPOCH,
}


def make_log_dir(log_dir: Path) -> tuple[FileStep, ...]:
    """Return the steps that write empty checkpoints and a marker. Effects: lists the directory."""
    steps: list[FileStep] = []
    for name, content in _INITIAL.items():
        path = log_dir / name
        steps += [WriteFile(path, content, like=log_dir), FsyncFile(path)]
    return (*discard_markers(log_dir), *steps, FsyncDir(log_dir))


def is_empty(log_dir: Path) -> bool:
    """Return whether it has only logwright's own files and files that an interrupted run began to
    create. Effects: reads the directory and these files.
    """
    return all(
        path.name.startswith((".lock", ".logwright"))
        or (path.name in _INITIAL and _is_begun(path, _INITIAL[path.name]))
        for path in log_dir.iterdir()
    )


def _is_begun(path: Path, content: bytes) -> bool:
    """Return whether it is a file with a prefix of this content."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > len(content):
        return False
    try:
        return content.startswith(path.read_bytes())
    except PermissionError:
        return False
