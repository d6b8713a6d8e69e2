"""What a plain search knows of each request: what may be claimed of it, and what must not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.worlds.plain_search import (
    PlainFile,
    begin_elsewhere,
    deletions,
    is_live,
    search_logs,
    search_table,
    topic_of,
)
from tests.worlds.requests import Asked, matches
from tests.worlds.world import World


@dataclass(slots=True)
class Known:
    """What is known of one request.

    Attributes:
        found: files that have the person, and are or may be of the request's topics.
        maybe: files that have the person, of another topic as the driver knows, or as a foreign
            file's directory says.
        unread: files that may have the person, for all that can be read.
        loose: files that nobody must search, if it is said.
        elsewhere: places by the metadata that were not given: other brokers, remote storage.
        missing: replicas of this broker by the metadata that no given directory has.
        exists: whether a directory or the metadata has one of its topics.
        copies: files of `found` and `unread` that are of tables and archives.
    """

    found: list[PlainFile] = field(default_factory=list)
    maybe: list[PlainFile] = field(default_factory=list)
    unread: list[PlainFile] = field(default_factory=list)
    loose: list[PlainFile] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    exists: bool = True
    copies: list[PlainFile] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether all that can concern the request was seen."""
        return not (self.unread or self.loose or self.elsewhere or self.missing)


@dataclass(slots=True)
class Seen:
    """All files of what is given.

    Attributes:
        tables: with the topic that only the driver knows.
        first: those of the first log directory.
        topics: that directories or the metadata name; here: those of the first log directory.
        archives: files of `logs` that are of archives.
        remote: topics of which a part is in remote storage.
    """

    logs: list[PlainFile]
    archives: list[PlainFile]
    tables: list[tuple[PlainFile, str]]
    first: list[PlainFile]
    topics: set[str]
    here: set[str]
    remote: set[str]


def look(world: World) -> Seen:
    """Search all that is given. Effects: reads."""
    by_directory = [search_logs(one) for one in world.live]
    logs = [file for files in by_directory for file in files]
    archives = [
        replace(log, stays=True) for archive in world.archives for log in search_logs(archive)
    ]
    tables = [
        (file, table.topic)
        for table in world.tables
        if table.is_given and table.path.exists()
        for file in search_table(table.path)
    ]
    here = set(world.replicas) | _topics(world.first)
    topics = here.union(*map(_topics, (*world.live, *world.archives)))
    remote = world.tiered.union(world.deleted_tiers, *map(begin_elsewhere, world.live))
    return Seen(
        logs=[*logs, *archives],
        archives=archives,
        tables=tables,
        first=by_directory[0],
        topics=topics,
        here=here,
        remote=remote,
    )


def _topics(root: Path) -> set[str]:
    """The topics that names of directories say, and the record of deletions. That of a deleted log
    goes with its files: then it is not known that there was such a topic.
    """
    named = {topic for one in directories(root) if (topic := topic_of(one))}
    return named.union(deletions(root).values())


def directories(root: Path) -> list[str]:
    """The names of the directories of a log directory."""
    return [one.name for one in root.iterdir() if one.is_dir() and not one.is_symlink()]


def know(world: World, seen: Seen, request: Asked) -> Known:
    """What the search means for one request. Effects: lists the log directories."""
    known = Known()
    for file in seen.logs:
        if request.is_about(file.topic):
            _sort(known, file, request.key)
        elif not file.is_log and file.has_key(request.key):
            known.maybe.append(file)
        elif not file.is_log and file.state != "whole":
            known.loose.append(file)
    known.copies += seen.archives
    for file, topic in seen.tables:
        if file.has_key(request.key):
            known.copies.append(file)
            (known.found if request.is_about(topic) else known.maybe).append(file)
        elif file.state != "whole":
            (known.loose if file.state == "loose" else known.unread).append(file)
    known.elsewhere += [f"remote storage of {one}" for one in seen.remote if request.is_about(one)]
    held = {one for root in world.live for one in directories(root) if is_live(one)}
    for topic, partitions in world.replicas.items():
        for number, brokers in partitions.items() if request.is_about(topic) else ():
            others = [one for one in brokers if one != 1]
            name = f"{topic}-{number}"
            known.elsewhere += [f"{name} of broker {one}" for one in others]
            known.missing += [name] if 1 in brokers and name not in held else []
    known.exists = any(matches(request.topics, one) for one in seen.topics)
    return known


def _sort(known: Known, file: PlainFile, key: bytes) -> None:
    if file.has_key(key):
        known.found.append(file)
    if file.state == "unread":
        known.unread.append(file)
    elif file.state == "loose":
        known.loose.append(file)
