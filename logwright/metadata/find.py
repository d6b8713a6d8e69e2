"""Where a log directory's node keeps the cluster's metadata."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from logwright.errors import LogwrightError, PreconditionError
from logwright.log.files import file_names, open_log_dir
from logwright.metadata.read import read_directory_ids

METADATA_DIRECTORY: Final = "__cluster_metadata-0"
MOST_SIBLINGS: Final = 1_000
"""So many entries of the parent directory are looked at, in the order of their names."""


def find_metadata(log_dir: Path) -> Path | None:
    """The ``__cluster_metadata-0`` of a log directory: in itself, else in a directory of the same
    parent whose ``meta.properties`` has the same cluster and node. Symlinks are not followed.
    Effects: reads directories.

    Raises:
        NotALogDir: there is no such directory.
        UnreadableFile: it, its parent or its ``meta.properties`` cannot be read.
        CorruptLogError: its ``meta.properties`` is malformed.
        PreconditionError: several directories have metadata of the same cluster and node.
    """
    own = read_directory_ids(log_dir)
    if _is_directory(log_dir / METADATA_DIRECTORY):
        return log_dir / METADATA_DIRECTORY
    if own.cluster_id is None or own.node_id is None:
        return None
    here = Path(os.path.abspath(log_dir))  # noqa: PTH100 -- resolve() would follow symlinks
    with open_log_dir(here.parent) as parent:
        names = file_names(parent)[:MOST_SIBLINGS]
    found: list[Path] = []
    for name in names:
        sibling = here.parent / name
        if name == here.name or not _is_directory(sibling / METADATA_DIRECTORY):
            continue
        try:
            ids = read_directory_ids(sibling)
        except LogwrightError:
            continue  # whose metadata this is cannot be said
        if (ids.cluster_id, ids.node_id) == (own.cluster_id, own.node_id):
            found.append(sibling / METADATA_DIRECTORY)
    if len(found) > 1:
        raise PreconditionError(
            f"there is metadata of this node in {found[0]} and in {found[1]}.",
            path=log_dir,
            remedy="Name the one in use with --metadata.",
        )
    return found[0] if found else None


def _is_directory(path: Path) -> bool:
    """Whether this is a directory in a directory, neither a symlink."""
    try:
        return all(stat.S_ISDIR(one.lstat().st_mode) for one in (path, path.parent))
    except OSError:
        return False
