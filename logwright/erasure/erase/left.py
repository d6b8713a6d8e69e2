"""What an erasure leaves of the requests in a log directory, and where nobody can say: by a search
of its own of all files, as `logwright find` does it. Nothing that the erasure reports is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logwright.erasure.find.search import search_log_dir
from logwright.format.names import TopicPartition
from logwright.log.inventory import file_place_at

if TYPE_CHECKING:
    from logwright.batches.runtime import Progress
    from logwright.erasure.find.model import Finding
    from logwright.erasure.find.result import SearchResult, Settings, Unsearched
    from logwright.erasure.keys import KeySet
    from logwright.place.model import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLeft:
    """Records of the requests that remain in a file, and are removed together.

    Attributes:
        path: relative to the log directory. place: what the file is.
        partition: of the records; its topic is empty if it is not known.
        records: how many. first_offset, last_offset: of them.
        why: an erasure at once leaves the file, empty if it does not.
        rule: the Kafka config or the step that removes them, empty: nothing will.
        gone_by_ms: when they are gone, ms since the epoch, None: never, or it is not known.
    """

    path: str
    place: str
    why: str
    partition: TopicPartition
    records: int
    first_offset: int
    last_offset: int
    rule: str
    gone_by_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What remains in one log directory.

    Attributes:
        parts: the records by file and what removes them, sorted by path and first offset.
        unsearched: files, or parts of them, that may have some and could not be searched.
        searched_files, searched_bytes: that were searched.
        other_forms: HMACs of keys that are other forms of a request's, and were not erased.
    """

    parts: tuple[FileLeft, ...]
    unsearched: tuple[Unsearched, ...]
    searched_files: int
    searched_bytes: int
    other_forms: frozenset[str] = frozenset()

    @property
    def records(self) -> int:
        """Number of records that remain."""
        return sum(part.records for part in self.parts)

    @property
    def files(self) -> int:
        """Number of files that have some."""
        return len({part.path for part in self.parts})


def find_left(log_dir: Place, keys: KeySet, settings: Settings, progress: Progress) -> Left:
    """Search a log directory for what remains of the requests. Effects: reads all of its files.

    Raises:
        LogwrightError: see `search_log_dir`.
    """
    return left_of(search_log_dir(log_dir, keys, settings, progress=progress), keys)


def left_of(result: SearchResult, keys: KeySet) -> Left:
    """Return what remains, by the result of a search. Files of topics that no request is about do
    not count; those whose topic is not known do.
    """
    unsearched = [one for one in result.unsearched if _concerns(one.partition.topic, keys)]
    return Left(
        parts=tuple(
            sorted(_parts(result.findings), key=lambda part: (part.path, part.first_offset))
        ),
        unsearched=tuple(unsearched),
        searched_files=result.files,
        searched_bytes=result.bytes,
        other_forms=frozenset(
            hmac for topics in result.others.values() for some in topics.values() for hmac in some
        ),
    )


def _concerns(topic: str, keys: KeySet) -> bool:
    return not topic or not keys.for_topic(topic).is_empty


def _parts(findings: Iterable[Finding]) -> Iterator[FileLeft]:
    parts: dict[tuple[str, str, int | None], list[Finding]] = {}
    for row in findings:
        parts.setdefault((row.path, row.rule, row.gone_by_ms), []).append(row)
    for (path, rule, gone_by_ms), rows in parts.items():
        place = file_place_at(path)
        yield FileLeft(
            path=path,
            place=rows[0].place,
            why=place.why if place.erasure == "left" else "",
            partition=TopicPartition(rows[0].topic, rows[0].partition),
            # Of one key asked for twice a record is found once: records, not findings, are counted.
            records=len({(row.offset, row.batch_position) for row in rows}),
            first_offset=min(row.offset for row in rows),
            last_offset=max(row.offset for row in rows),
            rule=rule,
            gone_by_ms=gone_by_ms,
        )
