"""Replace a small file, so that a crash leaves the old one or the new one."""

from __future__ import annotations

from pathlib import Path

from logwright.steps.step import FileStep, FsyncDir, FsyncFile, Rename, WriteFile


def replace_file(path: Path, content: bytes, *, like: Path | None) -> tuple[FileStep, ...]:
    """Return the steps: write a temporary file, sync it, rename it over, sync the directory.

    Args:
        path: of the file, which need not exist yet.
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
