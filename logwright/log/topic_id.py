"""A partition's topic id, by its ``partition.metadata`` (PartitionMetadataFile, Kafka 4.3.0)."""

from __future__ import annotations

import re
from typing import Final

from logwright.format.names import PARTITION_METADATA
from logwright.place.model import OpenDir

_CONTENT: Final = re.compile(rb"version: 0\ntopic_id: ([A-Za-z0-9_-]{22})\n?")
_MOST_BYTES: Final = 64


def read_topic_id(directory: OpenDir) -> str | None:
    """Return the id of a partition directory in Kafka's base64; None if it has none, or an invalid
    one. Effects: reads the file.

    Raises:
        UnreadableFile: the file cannot be read.
    """
    if not directory.exists(PARTITION_METADATA):
        return None
    match = _CONTENT.fullmatch(directory.read_part(PARTITION_METADATA, 0, _MOST_BYTES))
    return None if match is None else match[1].decode()
