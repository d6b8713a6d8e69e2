"""Directories of deleted, future and stray logs: ``TOPIC-N.ID`` with ``-delete``, ``-future`` or
``-stray``. A broker loads them too, but serves none of them (LogManager.loadLog, Kafka 4.3.0).
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from logwright.format.names import TopicPartition, parse_marked_directory_name
from logwright.log.files import list_directory, open_log_dir
from logwright.units import ByteCount

Mark = Literal["delete", "future", "stray"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedDirectory:
    """One of them.

    Attributes:
        name: of the directory.
        partition: as the name says; a long topic is cut in it.
        mark: the suffix without its hyphen.
    """

    name: str
    partition: TopicPartition
    mark: Mark


def list_marked(log_dir: Path) -> tuple[MarkedDirectory, ...]:
    """Those of a log directory, by name. Effects: lists it.

    Raises:
        NotALogDir, UnreadableFile: it cannot be listed.
    """
    found = []
    with open_log_dir(log_dir) as directory:
        for entry in sorted(list_directory(directory), key=lambda one: one.name):
            parsed = parse_marked_directory_name(entry.name)
            if parsed is not None and entry.is_dir(follow_symlinks=False):
                partition, suffix = parsed
                mark = cast("Mark", suffix.removeprefix("-"))
                found.append(MarkedDirectory(name=entry.name, partition=partition, mark=mark))
    return tuple(found)


def bytes_below(directory: Path) -> ByteCount:
    """Bytes of all regular files below a directory; links are not followed. Effects: reads it."""
    size = 0
    for parent, _, files in os.walk(directory):
        for name in files:
            with suppress(FileNotFoundError):
                found = (Path(parent) / name).lstat()
                size += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return ByteCount(size)
