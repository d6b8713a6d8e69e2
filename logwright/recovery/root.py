"""What a broker reads in a log directory's root before it serves a log, and what would stop it.

Found out with Kafka 4.3.0's own start (LogManager, MetaPropertiesEnsemble, OffsetCheckpointFile):

==========================  =======================================  ===============================
in the root                 a broker                                 a recovery
==========================  =======================================  ===============================
one of the four offset      stops, if it is malformed                keeps a copy, writes a new one;
checkpoints                                                          refuses it if it is a symlink
``meta.properties``         stops, if it is malformed or lacks a     refuses it: nothing else has
                            key; without one it is not formatted     these ids
any directory               stops, if the name is not that of a      refuses it, whatever it holds
                            partition, or if two are logs of one
                            partition
==========================  =======================================  ===============================

A broker takes the clean-shutdown marker away before it finds the others. So a directory that stops
it gets none.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from logwright.config.properties import parse_properties
from logwright.errors import (
    CorruptCheckpoint,
    CorruptLogError,
    LogwrightError,
    UncleanLogDir,
    UnsupportedFormatError,
    not_regular,
)
from logwright.format.checkpoints import parse_offset_checkpoint
from logwright.format.names import TopicPartition, parse_marked_directory_name
from logwright.log.checkpoints import CHECKPOINT_FILES
from logwright.log.load import CLUSTER_METADATA_TOPIC
from logwright.metadata.model import is_reserved
from logwright.metadata.read import META_PROPERTIES, WRITE_IDS
from logwright.place.files import exists, is_regular, open_log_dir
from logwright.place.mapped import map_file
from logwright.place.model import Place, is_local
from logwright.units import INT32_MAX

DAMAGED: Final = ".logwright-damaged"
"""Prefix of the copies of malformed checkpoints, in the log directory's root."""

_REMOTE_INDEXES: Final = "remote-log-index-cache"
MOST_PROPERTIES_BYTES: Final = 65_536
_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_BAD_ESCAPE: Final = re.compile(r"\\u(?![0-9a-fA-F]{4})")
_VALUE: Final = re.compile(r"(?:(?!:\s).)*:\s+(\S+)\s*")
"""Of a line of ``partition.metadata``: a broker does not look at what is before the colon."""
_LOST_FOUND: Final = (
    "Remove it with rmdir if it is empty, or use a directory below the file system's root as log"
    " directory."
)
_MOVE_AWAY: Final = "Nothing in it was changed. Move it out of the log directory."


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """What was found in a log directory's root.

    Attributes:
        malformed: name to problem of the checkpoints that a broker does not read.
        problems: what else stops a broker; each has the path and what to do.
        notes: what a broker decides, in sentences.
    """

    malformed: Mapping[str, str]
    problems: tuple[LogwrightError, ...]
    notes: tuple[str, ...]

    @property
    def stops_a_broker(self) -> bool:
        """Whether a broker would not start, and a recovery cannot change that."""
        return bool(self.problems)


def look_at_root(log_dir: Place) -> Root:
    """Find out what would stop a broker. Effects: reads the root's entries. A link in another place
    counts as a directory: where it leads is not known.

    Raises:
        NotALogDir, UnreadableFile: it cannot be read.
    """
    with open_log_dir(log_dir) as directory:
        names = sorted(
            name
            for name, kind in directory.kinds().items()
            if kind == "directory" or (kind == "link" and _is_directory(log_dir / name))
        )
        formatted = directory.exists(META_PROPERTIES)
        content = (
            directory.read_part(META_PROPERTIES, 0, MOST_PROPERTIES_BYTES + 1)
            if formatted and META_PROPERTIES not in names
            else b""
        )
    problems = [*strange_directories(log_dir, names)]
    present = [
        log_dir / checkpoint
        for checkpoint in CHECKPOINT_FILES
        if checkpoint not in names and exists(log_dir / checkpoint)
    ]
    problems += [not_regular(path) for path in present if not is_regular(path)]
    problem = identity_problem(content) if formatted else None
    if problem is not None:
        path = log_dir / META_PROPERTIES
        problems.append(CorruptLogError(problem, path=path, remedy=WRITE_IDS))
    missing = (
        f"there is no {META_PROPERTIES}: a broker starts on the directory only after"
        " `kafka-storage.sh format --ignore-formatted`"
    )
    return Root(
        malformed=dict(_malformed(path for path in present if is_regular(path))),
        problems=tuple(problems),
        notes=() if formatted else (missing,),
    )


def _is_directory(link: Place) -> bool:
    """Return whether a broker takes a link for a directory: it follows links (File.isDirectory).
    Effects: asks the file system.
    """
    try:
        return not is_local(link) or link.is_dir()
    except OSError:
        return False


def _malformed(paths: Iterable[Place]) -> Iterator[tuple[str, str]]:
    for path in paths:
        try:
            parse_offset_checkpoint(map_file(path).tobytes(), path)
        except (CorruptCheckpoint, UnsupportedFormatError) as error:
            yield path.name, error.problem


def strange_directories(log_dir: Place, names: Iterable[str]) -> Iterator[LogwrightError]:
    """Yield an error for each directory of these names on which a broker does not start, or which
    it would take for a log of another name (UnifiedLog.parseTopicPartitionName).
    """
    futures: dict[TopicPartition, str] = {}
    for name in names:
        path = log_dir / name
        marked = parse_marked_directory_name(name)
        partition = TopicPartition.parse(name) if marked is None else marked[0]
        if name == _REMOTE_INDEXES:
            continue
        if partition is None or partition.partition > INT32_MAX:
            yield UncleanLogDir(
                "the directory's name is not that of a partition: a broker does not start with"
                " it, or takes it for a log.",
                path=path,
                remedy=_LOST_FOUND if name == "lost+found" else _MOVE_AWAY,
            )
        elif marked is None:
            if partition.directory_name != name and partition.topic != CLUSTER_METADATA_TOPIC:
                problem = f"a broker takes this directory for the log of {partition}."
                yield UncleanLogDir(problem, path=path, remedy=_MOVE_AWAY)
        elif marked[1] == "-future":
            if partition in futures:
                problem = f"a broker does not start: {futures[partition]} is of the same partition."
                yield UncleanLogDir(problem, path=path, remedy=_MOVE_AWAY)
            futures.setdefault(partition, name)


def identity_problem(content: bytes) -> str | None:
    """Return why a broker does not start with this ``meta.properties``; None if it does
    (MetaProperties.Builder, MetaPropertiesEnsemble).
    """
    text = content.decode("latin-1")
    pairs = parse_properties(text, Path(META_PROPERTIES)).pairs
    version = pairs.get("version", "0")
    node = pairs.get("node.id" if version == "1" else "broker.id", "")
    directory = pairs.get("directory.id")
    checks = (
        (len(content) <= MOST_PROPERTIES_BYTES, f"is larger than {MOST_PROPERTIES_BYTES} bytes"),
        (_BAD_ESCAPE.search(text) is None, "has a malformed \\u escape"),
        (version in ("0", "1"), "has another version than 0 and 1"),
        (_is_int32(node), "has no node id, or one that is not a number"),
        ("cluster.id" in pairs, "has no cluster.id"),
        (directory is None or _is_free_id(directory), "has a directory.id that none may have"),
    )
    wrong = [said for holds, said in checks if not holds]
    return f"a broker does not start: it {wrong[0]}." if wrong else None


def _is_free_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None and not is_reserved(text)


def _is_int32(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None and -INT32_MAX - 1 <= int(text) <= INT32_MAX


def topic_id_problem(content: bytes) -> str | None:
    """Return why a broker does not start with this ``partition.metadata``; None if it does
    (PartitionMetadataFile).
    """
    try:
        lines = re.split(r"\r\n|\r|\n", content.decode())
    except UnicodeDecodeError:
        return "it is not text."
    version, topic_id = ([*map(_VALUE.fullmatch, lines[:2]), None, None])[:2]
    if version is None or not re.fullmatch(r"\+?[0-9]{1,9}", version[1]):
        return "it has no version."
    if topic_id is None or not _ID.fullmatch(topic_id[1]):
        return "it does not name a topic id."
    if not any(base64.urlsafe_b64decode(f"{topic_id[1]}==")):
        return "its topic id is zero."
    return None
