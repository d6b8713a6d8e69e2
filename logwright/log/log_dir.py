"""A log directory, read once: its partitions, and its deleted, future and stray logs.

A broker loads the directories of future and stray logs too, but serves none of them
(LogManager.loadLog, Kafka 4.3.0).
"""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

from logwright.format.names import TopicPartition, parse_marked_directory_name
from logwright.place.files import open_log_dir
from logwright.place.model import OpenDir, Place

Mark = Literal["delete", "future", "stray"]


class MarkedDirectory(NamedTuple):
    """The directory of a deleted, future or stray log: ``TOPIC-N.ID`` with one of these suffixes.

    Attributes:
        name: of the directory.
        partition: from the name, where a long topic is truncated.
        mark: the suffix without its hyphen.
    """

    name: str
    partition: TopicPartition
    mark: Mark


class LogDirListing(NamedTuple):
    """The entries of a log directory.

    Attributes:
        names: of all entries.
        partitions: name to partition of the directories and symlinks with a partition's name.
        marked: the other logs' directories, by name.
    """

    names: frozenset[str]
    partitions: dict[str, TopicPartition]
    marked: tuple[MarkedDirectory, ...]


def list_log_dir(directory: OpenDir) -> LogDirListing:
    """List a log directory without following links. Effects: reads it.

    A symlink with a partition's name is listed, so that opening it is refused
    instead of it being ignored.

    Raises:
        UnreadableFile: it cannot be read.
    """
    kinds = directory.kinds()
    partitions: dict[str, TopicPartition] = {}
    marked: list[MarkedDirectory] = []
    for name, kind in kinds.items():
        if kind not in {"directory", "link"}:
            continue
        partition = TopicPartition.parse(name)
        if partition is not None:
            partitions[name] = partition
        elif kind == "directory" and (parsed := parse_marked_directory_name(name)):
            mark = cast("Mark", parsed[1].removeprefix("-"))
            marked.append(MarkedDirectory(name, parsed[0], mark))
    return LogDirListing(
        names=frozenset(kinds), partitions=partitions, marked=tuple(sorted(marked))
    )


def list_marked(log_dir: Place) -> tuple[MarkedDirectory, ...]:
    """List the deleted, future and stray logs, by name. Effects: reads the log directory.

    Raises:
        NotALogDir, UnreadableFile: it cannot be listed.
    """
    with open_log_dir(log_dir) as directory:
        return list_log_dir(directory).marked
