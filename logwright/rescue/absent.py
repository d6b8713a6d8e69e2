"""Logs of which nothing is left but what the checkpoints have of them.

A broker writes its checkpoints at a clean stop with an entry for each log that it has. One that has
no directory then was there, unless its topic was deleted since; the broker makes an empty log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from logwright.errors import LogwrightError
from logwright.format.names import (
    CLEAN_SHUTDOWN_MARKER,
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from logwright.log.absence import BRING_BACK
from logwright.log.checkpoints import Checkpoints
from logwright.log.load import CLUSTER_METADATA_TOPIC
from logwright.metadata.model import ClusterMetadata
from logwright.metadata.read import read_directory_ids
from logwright.place.files import is_regular
from logwright.place.mapped import map_file
from logwright.rescue.model import StartFinding
from logwright.units import Offset

_HAVE_ENDS: Final = (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
_REMEDY: Final = (
    f"{BRING_BACK} If one has them, run `logwright rescue --accept-loss` before this broker starts:"
    " the controller then takes its stop for an unclean one."
)


def why_not_asked(log_dir: Path, untrusted: Collection[str]) -> str | None:
    """Return why it is not known whether logs are absent; None if it is. Effects: reads the marker.

    1. A directory that was not stopped cleanly, or that a recovery has marked
       (`logwright.steps.marker`), may have entries of logs that were deleted.
    2. A checkpoint that is malformed (`untrusted`) proves nothing.
    """
    question = f"whether logs are missing of which {log_dir} has nothing"
    marker = log_dir / CLEAN_SHUTDOWN_MARKER
    if not is_regular(marker) or not len(map_file(marker)):
        return f"{question}: no broker has stopped cleanly on it since"
    malformed = [name for name in _HAVE_ENDS if name in untrusted]
    if malformed:
        return f"{question}, as {' and '.join(malformed)} would show"
    return None


def absent_logs(
    log_dir: Path,
    checkpoints: Checkpoints,
    present: Collection[TopicPartition],
    metadata: ClusterMetadata | None,
    *,
    untrusted: Collection[str] = (),
) -> Iterator[StartFinding]:
    """Yield the logs that a cleanly stopped directory had, and has not. Effects: reads the marker
    and the directory's ids.

    Args:
        checkpoints: of the directory.
        present: logs in this or another directory of the broker.
        metadata: of the cluster; None: not known.
        untrusted: names of malformed checkpoints, whose entries do not count.
    """
    marker = log_dir / CLEAN_SHUTDOWN_MARKER
    if not is_regular(marker) or not len(map_file(marker)):
        return
    recovery, watermark = (
        {} if name in untrusted else entries
        for name, entries in zip(
            _HAVE_ENDS, (checkpoints.recovery_point, checkpoints.high_watermark), strict=True
        )
    )
    ends = _ends(recovery, watermark)
    node = _node(log_dir)
    for partition, (name, end) in sorted(ends.items()):
        if partition in present or partition.topic == CLUSTER_METADATA_TOPIC:
            continue
        replicas = () if metadata is None else metadata.replicas_of(partition)
        if metadata is not None and not (replicas if node is None else node in replicas):
            continue
        committed = watermark.get(partition, 0)
        doubt = ", unless its topic was deleted since" if metadata is None else ""
        doubt = ", if this node has a replica" if metadata is not None and node is None else doubt
        yield StartFinding(
            path=log_dir / partition.directory_name,
            problem=f"the log is not there, and {name} has offset {end} of it: the offsets below"
            f" are missing{doubt}, and {min(committed, end)} of them are committed.",
            effect="loses",
            about="absent log",
            remedy=_REMEDY,
            offsets=end,
            first_offset=0,
            end_offset=end,
        )


def _ends(
    recovery_points: Mapping[TopicPartition, Offset],
    high_watermarks: Mapping[TopicPartition, Offset],
) -> dict[TopicPartition, tuple[str, int]]:
    """Return each log's largest entry above 0, and the file that has it."""
    ends: dict[TopicPartition, tuple[str, int]] = {}
    for name, entries in zip(_HAVE_ENDS, (recovery_points, high_watermarks), strict=True):
        for partition, offset in entries.items():
            if offset > ends.get(partition, ("", 0))[1]:
                ends[partition] = name, int(offset)
    return ends


def _node(log_dir: Path) -> int | None:
    try:
        return read_directory_ids(log_dir).node_id
    except LogwrightError:  # found to be malformed
        return None
