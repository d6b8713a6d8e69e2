"""The end of an erasure: what it leaves of the requests, and the exit status that says so.

A search of its own of each log directory, as it is then, comes first; then the tables of the
policies, the brokers that have replicas elsewhere, and the topics of requests that nothing has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from logwright.bucket.store import is_in_bucket
from logwright.config.table import TopicTable
from logwright.erasure.certificate.search import replicas_elsewhere
from logwright.erasure.erase.left import Left, find_left
from logwright.erasure.find.tables import search_table_files
from logwright.erasure.status import FOUND, INCOMPLETE
from logwright.erasure.topics import match_nothing
from logwright.errors import LogwrightError
from logwright.place.model import again

if TYPE_CHECKING:
    from logwright.config.resolved import Sources
    from logwright.erasure.keys import KeySet
    from logwright.erasure.run import Erasure
    from logwright.place.model import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftInLogDir:
    """What remains in a log directory."""

    log_dir: Place
    left: Left

    @property
    def remains(self) -> bool:
        """Whether records of the requests were found."""
        return bool(self.left.files)

    @property
    def incomplete(self) -> bool:
        """Whether something could not be searched, or has a key of a request in another form."""
        return bool(self.left.unsearched or self.left.other_forms)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKnown:
    """A log directory, or a table, of which an error says that it was not searched."""

    place: str
    error: LogwrightError

    remains, incomplete = False, True


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftInTable:
    """Rows that remain in a table until its next update.

    Attributes:
        keep_versions_ms: None: the old files go with that update.
        until_ms: when they are gone else, at the earliest.
    """

    topic: str
    path: str
    rows: int
    files: int
    keep_versions_ms: int | None
    until_ms: int | None

    remains, incomplete = True, False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNotSearched:
    """A table, or a part of one."""

    topic: str
    table: str
    problem: str

    remains, incomplete = False, True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasNotErased:
    """Brokers that have replicas of a topic which are not in the log directories."""

    topic: str
    brokers: tuple[int, ...]

    remains, incomplete = False, True


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingMatches:
    """Topics of requests that neither a log nor the metadata has."""

    topics: str

    remains, incomplete = False, True


Remains = (
    LeftInLogDir | NotKnown | LeftInTable | TableNotSearched | ReplicasNotErased | NothingMatches
)
"""What is known of a place, or is not. All have `remains` and `incomplete`."""


def exit_status(remains: Iterable[Remains]) -> int:
    """Return `INCOMPLETE` if something could not be searched, else `FOUND` if something remains,
    else 0.
    """
    known = list(remains)
    if any(place.incomplete for place in known):
        return INCOMPLETE
    return FOUND if any(place.remains for place in known) else 0


def search_remains(
    erasures: Sequence[Erasure[Place]], tables: Mapping[str, TopicTable]
) -> Iterator[Remains]:
    """Yield what remains in the log directories and in the tables. Effects: reads all of their
    files.

    Args:
        erasures: of each log directory, with the same keys.
        tables: of the policies, by topic.
    """
    for erasure in erasures:
        try:
            settings = erasure.search()
            with erasure.progress("search") as progress:
                left = find_left(again(erasure.log_dir), erasure.keys, settings, progress)
        except LogwrightError as error:
            yield NotKnown(place=str(erasure.log_dir), error=error.as_value())
        else:
            yield LeftInLogDir(log_dir=erasure.log_dir, left=left)
    for topic, table in sorted(tables.items()):
        if erasures and not erasures[0].keys.for_topic(topic).is_empty:
            yield from _search_table(topic, table, erasures[0])


def not_reached(
    searched: Sequence[tuple[Place, Sources]], keys: KeySet, topics: Collection[str]
) -> Iterator[Remains]:
    """Yield what no search of these directories can reach. Effects: lists them.

    Args:
        searched: log directories, each with the sources of its settings.
        topics: of the directories and of the cluster's metadata, before the erasure.

    Raises:
        LogwrightError: a directory cannot be listed.
    """
    for replicas in replicas_elsewhere(searched, keys):
        yield ReplicasNotErased(topic=replicas.topic, brokers=tuple(replicas.brokers))
    for pattern in match_nothing(keys.topics_asked, topics):
        yield NothingMatches(topics=pattern)


def _search_table(topic: str, table: TopicTable, erasure: Erasure[Place]) -> Iterator[Remains]:
    """Search the files of a table, those of its old versions among them."""
    if table.path is None:
        problem = "it is in a catalog, and was not searched"
        yield TableNotSearched(topic=topic, table="its catalog", problem=problem)
        return
    path = table.path
    if not (is_in_bucket(path) or Path(path).is_dir()):
        problem = "it is not there, and was not searched"
        yield TableNotSearched(topic=topic, table=table.path, problem=problem)
        return
    try:
        result = search_table_files(path, erasure.keys.for_topic(topic), topic=topic)
    except LogwrightError as error:
        yield NotKnown(place=table.path, error=error.as_value())
        return
    for part in result.unsearched:
        name = f"{table.path}/{part.path}"
        yield TableNotSearched(topic=topic, table=name, problem=f"not searched: {part.problem}")
    if result.findings:
        # After an erasure at once all earlier versions go with the next update; else rows are
        # marked as deleted first, and their files are kept as an earlier version then.
        keeps = table.of_format.keeps_versions or table.remembers_keys
        is_late = keeps and not erasure.at_once
        yield LeftInTable(
            topic=topic,
            path=table.path,
            rows=len(result.findings),
            files=len({row.path for row in result.findings}),
            keep_versions_ms=table.keep_versions_ms if is_late else None,
            until_ms=erasure.now_ms + 2 * table.keep_versions_ms if is_late else None,
        )
