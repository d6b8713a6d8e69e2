"""Read a cluster's metadata from the directory of a KRaft node (KIP-500, KIP-630).

1. Load the newest complete snapshot; without one the log must start at offset 0.
2. Apply the records of the log's segments from the snapshot's end offset on.
3. The log ends at the end of its last segment, or before an incomplete batch there, as a broker's
   recovery truncates it. Any other corruption is refused.
4. An incomplete snapshot is ignored; the log must then reach its end offset.
5. A transaction that is open at the end has no effect.

IMPORTANT: which of the last records the quorum has committed is not on disk. An isolated node can
have records at the end of its log that no other node has.
"""

from __future__ import annotations

import re
from typing import Final

from logwright.errors import CorruptLogError, LogwrightError, NotALogDir
from logwright.format.control import ControlType, parse_control_key
from logwright.format.names import LOG, segment_file_name
from logwright.metadata.files import REMEDY, Batch, MetadataFile, Snapshot, segments, snapshots
from logwright.metadata.image import At, Image
from logwright.metadata.model import NO_IDS, ClusterMetadata, DirectoryIds
from logwright.metadata.records import decode_metadata_record
from logwright.place.files import absolute, open_log_dir
from logwright.place.model import OpenDir, Place
from logwright.units import Offset

META_PROPERTIES: Final = "meta.properties"
WRITE_IDS: Final = (
    "The file was not changed. Restore it, or write it: version=1, cluster.id and node.id as in the"
    " node's other log directories; a broker adds a directory.id."
)
"""Remedy for a malformed ``meta.properties``."""
_START: Final = Offset(0)
_MOST_PROPERTIES_BYTES: Final = 65_536
_PROPERTY: Final = re.compile(r"\s*([a-z.]+)\s*[=:]\s*(.*?)\s*")
_NODE_ID: Final = re.compile(r"[0-9]{1,10}")
_ESCAPED: Final = re.compile(r"\\(.)")


def read_metadata(directory: Place) -> ClusterMetadata:
    """Read a ``__cluster_metadata-0`` directory. Effects: reads it.

    Raises:
        NotALogDir: the directory does not exist or has no metadata log.
        UnreadableFile: a file cannot be opened or is not a regular file.
        CorruptLogError: the log is corrupt or incomplete.
        UnsupportedFormatError: a record has an unknown version.
    """
    with _open(directory) as opened:
        names = opened.names()
    bases = segments(names)
    image, snapshot, passed_over = _read_snapshot(directory, snapshots(names))
    if snapshot is None and not bases:
        raise NotALogDir(
            "the directory has no metadata log.",
            path=directory,
            remedy="Give the __cluster_metadata-0 directory of a KRaft node.",
        )
    start = _START if snapshot is None else snapshot.end_offset
    end = _read_log(directory, bases, start, image)
    if passed_over is not None and end < passed_over.end_offset:
        raise CorruptLogError(
            f"the snapshot is incomplete, and the log ends before it at offset {end}.",
            path=directory / passed_over.name,
            remedy=REMEDY,
        )
    return ClusterMetadata(
        path=directory,
        cluster_id=read_directory_ids(absolute(directory).parent).cluster_id,
        end_offset=end if image.open_transaction is None else image.open_transaction,
        snapshot=None if snapshot is None else snapshot.name,
        topics=image.topics,
        topic_configs=image.topic_configs,
        broker_configs=image.broker_configs,
        features=image.features,
        registered=image.registered,
    )


def _open(directory: Place) -> OpenDir:
    try:
        return open_log_dir(directory)
    except NotALogDir as error:
        raise NotALogDir(
            "the directory of cluster metadata does not exist.",
            path=directory,
            remedy="Give the __cluster_metadata-0 directory of a KRaft node.",
        ) from error


def _read_snapshot(
    directory: Place, newest_first: list[Snapshot]
) -> tuple[Image, Snapshot | None, Snapshot | None]:
    """Return the state of the newest complete snapshot, that snapshot, and the newest incomplete
    one if there is any.
    """
    for number, snapshot in enumerate(newest_first):
        image = Image()
        file = MetadataFile(directory / snapshot.name, _START)
        first = last = ControlType.UNKNOWN
        for batch in file.batches(_START):
            if batch.is_control:
                kinds = _control_types(batch)
                first = kinds[0] if batch.base_offset == 0 else first
                last = kinds[-1]
            else:
                last = ControlType.UNKNOWN
                _apply(batch, image, snapshot_end=snapshot.end_offset)
        framed = (first, last) == (ControlType.SNAPSHOT_HEADER, ControlType.SNAPSHOT_FOOTER)
        if framed and not file.is_torn:
            return image, snapshot, newest_first[0] if number else None
    return Image(), None, newest_first[0] if newest_first else None


def _control_types(batch: Batch) -> list[ControlType]:
    try:
        return [parse_control_key(record.key) for record in batch.records()]
    except LogwrightError as error:
        raise error if error.path else batch.locate(error) from error


def _read_log(directory: Place, bases: list[Offset], start: Offset, image: Image) -> Offset:
    """Apply the log from `start` on to the image; return its end offset, at least `start`."""
    wanted = [base for base in bases if base > start]
    wanted[:0] = [base for base in bases if base <= start][-1:]
    end = start
    if wanted and wanted[0] > start:
        raise _gap(directory, wanted[0], start)
    for base in wanted:
        if base != wanted[0] and base != end:
            raise _gap(directory, base, end)
        file = MetadataFile(directory / segment_file_name(base, LOG), base)
        for batch in file.batches(start):
            if not batch.is_control:
                _apply(batch, image, from_offset=start)
        end = file.end_offset
        if file.is_torn and base != wanted[-1]:
            raise CorruptLogError(
                f"the segment ends in a corrupt batch at offset {end}, but more segments follow.",
                path=file.path,
                remedy=REMEDY,
            )
    return max(start, end)


def _gap(directory: Place, base: Offset, expected: Offset) -> CorruptLogError:
    return CorruptLogError(
        f"the segment starts at offset {base}, but the log before it ends at {expected}.",
        path=directory / segment_file_name(base, LOG),
        remedy=REMEDY,
    )


def _apply(
    batch: Batch,
    image: Image,
    *,
    from_offset: Offset = _START,
    snapshot_end: Offset | None = None,
) -> None:
    """Apply a batch's records; those of a snapshot all get its end offset."""
    for raw in batch.records():
        if raw.offset < from_offset:
            continue
        try:
            record = decode_metadata_record(raw.value)
            if record is not None:
                is_snapshot = snapshot_end is not None
                offset = raw.offset if snapshot_end is None else snapshot_end
                image.apply(record, At(offset, raw.timestamp_ms, is_snapshot))
        except LogwrightError as error:
            raise batch.locate(error, raw.offset) from error


def read_directory_ids(log_dir: Place) -> DirectoryIds:
    """Read a log directory's ``meta.properties``; all None if there is none. Effects: reads.

    Raises:
        NotALogDir: the directory does not exist.
        UnreadableFile: the file cannot be read or is not a regular file.
        CorruptLogError: it is too large, or the node id is not a number.
    """
    with open_log_dir(log_dir) as directory:
        if not directory.exists(META_PROPERTIES):
            return NO_IDS
        content = directory.read_part(META_PROPERTIES, 0, _MOST_PROPERTIES_BYTES + 1)
    path = log_dir / META_PROPERTIES
    if len(content) > _MOST_PROPERTIES_BYTES:
        problem = f"is larger than {_MOST_PROPERTIES_BYTES} bytes."
        raise CorruptLogError(problem, path=path, remedy=WRITE_IDS)
    lines = content.decode("latin-1").splitlines()  # as java.util.Properties
    properties = {
        match[1]: _ESCAPED.sub(r"\1", match[2])
        for line in lines
        if (match := _PROPERTY.fullmatch(line))
    }
    node_id = properties.get("node.id")
    if node_id is not None and not _NODE_ID.fullmatch(node_id):
        raise CorruptLogError("its node.id is not a number.", path=path, remedy=WRITE_IDS)
    return DirectoryIds(
        cluster_id=properties.get("cluster.id"),
        node_id=None if node_id is None else int(node_id),
        directory_id=properties.get("directory.id"),
    )
