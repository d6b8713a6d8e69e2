"""Replacing a small file whole, so that a crash leaves the old one or the new one."""

from __future__ import annotations

from pathlib import Path

from logwright.steps.step import FileStep, FsyncDir, FsyncFile, Rename, WriteFile


def replace_file(path: Path, content: bytes, *, like: Path | None) -> tuple[FileStep, ...]:
    """Written aside, synced, renamed over, directory synced.

    Args:
        path: of the file, which need not be there yet.
        content: all of it.
        like: as of `WriteFile`.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    return (
        WriteFile(temporary, content, like=like),
        FsyncFile(temporary),
        Rename(temporary, path),
        FsyncDir(path.parent),
    )
