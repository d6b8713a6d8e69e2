"""Find the cluster metadata of a log directory's node."""

from __future__ import annotations

from typing import Final

from logwright.errors import LogwrightError, PreconditionError, UnreadableFile
from logwright.metadata.read import read_directory_ids
from logwright.place.files import absolute, entry_at, names_in
from logwright.place.model import Place

METADATA_DIRECTORY: Final = "__cluster_metadata-0"
MOST_SIBLINGS: Final = 1_000
"""Maximum number of entries of the parent directory to check, in name order."""


def find_metadata(log_dir: Place) -> Place | None:
    """Find the ``__cluster_metadata-0`` of a log directory: inside it, else in a sibling directory
    whose ``meta.properties`` has the same cluster and node. Does not follow symlinks. Effects:
    reads directories.

    Raises:
        NotALogDir: the directory does not exist.
        UnreadableFile: it, its parent or its ``meta.properties`` cannot be read.
        CorruptLogError: its ``meta.properties`` is malformed.
        PreconditionError: several directories have metadata of this cluster and node.
    """
    own = read_directory_ids(log_dir)
    if _is_directory(log_dir / METADATA_DIRECTORY):
        return log_dir / METADATA_DIRECTORY
    if own.cluster_id is None or own.node_id is None:
        return None
    here = absolute(log_dir)
    names = names_in(here.parent)[:MOST_SIBLINGS]
    candidates: list[Place] = []
    for name in names:
        sibling = here.parent / name
        if name == here.name or not _is_directory(sibling / METADATA_DIRECTORY):
            continue
        try:
            ids = read_directory_ids(sibling)
        except LogwrightError:
            continue  # unknown owner
        if (ids.cluster_id, ids.node_id) == (own.cluster_id, own.node_id):
            candidates.append(sibling / METADATA_DIRECTORY)
    if len(candidates) > 1:
        raise PreconditionError(
            f"found metadata of the node of {here.name} in both {candidates[0]} and"
            f" {candidates[1]}.",
            path=here.parent,
            remedy="Give the one in use with --metadata.",
        )
    return candidates[0] if candidates else None


def _is_directory(path: Place) -> bool:
    """Return whether this is a directory; neither it nor its parent may be a symlink."""
    try:
        entries = [entry_at(each) for each in (path, path.parent)]
    except UnreadableFile:
        return False
    return all(entry is not None and entry.kind == "directory" for entry in entries)
