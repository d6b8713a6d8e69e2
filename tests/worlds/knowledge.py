"""What a plain search knows of each request: what may be claimed of it, and what must not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.worlds.plain_search import (
    PlainFile,
    State,
    begin_elsewhere,
    deletions,
    is_live,
    search_bucket,
    search_logs,
    search_table,
    topic_of,
)
from tests.worlds.requests import Asked, matches
from tests.worlds.world import Planted, World


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
        others: files that have the person's key in another form, which the request does not give.
    """

    found: list[PlainFile] = field(default_factory=list)
    maybe: list[PlainFile] = field(default_factory=list)
    unread: list[PlainFile] = field(default_factory=list)
    loose: list[PlainFile] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    exists: bool = True
    copies: list[PlainFile] = field(default_factory=list)
    others: list[PlainFile] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether all that can concern the request was seen, and nothing is left open."""
        left = (self.unread, self.loose, self.elsewhere, self.missing, self.others)
        return not any(left)


@dataclass(slots=True)
class Seen:
    """All files of what is given.

    Attributes:
        tables: with the topic that only the driver knows; None of those of other programs.
        first: those of the first log directory.
        topics: that directories or the metadata name; here: those of the first log directory.
        archives: files of `logs` that are of archives.
        remote: topics of which a part is in remote storage.
    """

    logs: list[PlainFile]
    archives: list[PlainFile]
    tables: list[tuple[PlainFile, str | None]]
    first: list[PlainFile]
    topics: set[str]
    here: set[str]
    remote: set[str]


def look(world: World) -> Seen:
    """Search all that is given. Effects: reads."""
    by_directory = [search_logs(one) for one in world.live]
    logs = [file for files in by_directory for file in files]
    archives = [
        replace(log, stays=True)
        for archive in world.archives
        for log in (search_bucket if archive == world.bucket else search_logs)(archive)
    ]
    tables: list[tuple[PlainFile, str | None]] = [
        (file, table.topic)
        for table in world.tables
        if table.is_given and table.path.exists()
        for file in search_table(table.path)
    ]
    tables += [(_of_planted(one), None) for one in world.planted]
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


def _of_planted(planted: Planted) -> PlainFile:
    """What a search of a table of another program must see."""
    state: State = "whole" if planted.is_proved else "loose"
    if not planted.is_found:
        state = "unread"
    return PlainFile(planted.path.name, None, state, stays=True, cells={planted.who})


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
            _sort(known, file, request)
        elif not file.is_log and has(file, request):
            known.maybe.append(file)
        elif not file.is_log and file.state != "whole":
            known.loose.append(file)
    known.copies += seen.archives
    _add_tables(known, seen, request)
    known.elsewhere += [f"remote storage of {one}" for one in seen.remote if request.is_about(one)]
    cut = [PlainFile(one, one, "loose") for one in world.lacking if request.is_about(one)]
    known.loose += cut
    held = {one for root in world.live for one in directories(root) if is_live(one)}
    for topic, partitions in world.replicas.items():
        for number, brokers in partitions.items() if request.is_about(topic) else ():
            others = [one for one in brokers if one != 1]
            name = f"{topic}-{number}"
            known.elsewhere += [f"{name} of broker {one}" for one in others]
            known.missing += [name] if 1 in brokers and name not in held else []
    known.exists = any(matches(request.topics, one) for one in seen.topics)
    return known


def has(file: PlainFile, request: Asked) -> bool:
    """Whether a file has what a request asks for: its key, or any form of it."""
    return file.has_key(request.key) or (request.is_decoded and file.has_other_form(request.key))


def _add_tables(known: Known, seen: Seen, request: Asked) -> None:
    for file, topic in seen.tables:
        if file.has_other_form(request.key) and not request.is_decoded:
            known.others.append(file)
        if has(file, request):
            known.copies.append(file)
            (known.found if request.is_about(topic) else known.maybe).append(file)
        if file.state != "whole":
            known.copies.append(file)
            (known.loose if file.state == "loose" else known.unread).append(file)


def _sort(known: Known, file: PlainFile, request: Asked) -> None:
    if has(file, request):
        known.found.append(file)
    if file.has_other_form(request.key) and not request.is_decoded:
        known.others.append(file)
    if file.state == "unread":
        known.unread.append(file)
    elif file.state == "loose":
        known.loose.append(file)
