"""The one inventory of a log directory, by name: which files there can be, what each can hold, what
removes it, and whether an erasure may. Pure.

`PLACES` has a row for each. The first row that fits a file's path is its place, and the last row of
each kind of directory fits any, so no file is left out. A new place is a new row: searches,
erasures, certificates, purges, ``inspect`` and recoveries sort files by it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from logwright.format.names import (
    CUT,
    FAILED,
    FAILED_OUTPUT,
    FUTURE_DIRECTORY,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    SPOOL,
    STAGING,
    STRAY_DIRECTORY,
    WORK_DIRECTORY,
    TopicPartition,
    parse_deleted_directory_name,
    parse_marked_directory_name,
)
from logwright.units import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

Where = Literal["log", "stray", "future", "deleted log", "other directory", "root"]
"""The kind of directory that a path is relative to; a file of the root is in none of the others."""
Form = Literal["segment", "rows", "other"]
"""What its content is read as: a segment; rows in Arrow's format; or, for ``other``, what its name
says, and a segment if it is not that.
"""
Erasure = Literal["rebuilt", "removed", "recovered", "discarded", "with its log", "left"]
"""What an erasure at once does to a file with a record of a request: it rebuilds the segment
without it; unlinks the file; recovers its log first, which removes the file or makes it a segment;
unlinks the files of dead plans, whatever they hold; unlinks all files of a deleted log; or leaves
it, and names it.
"""

NO_PARTITION: Final = TopicPartition("", -1)
"""Of files whose topic is not known: requests of all topics count."""

UPKEEP: Final = "upkeep"
PURGE: Final = "purge"
WRITE: Final = "write"
DELETE_DELAY: Final = "file.delete.delay.ms"
DELETED_LOG_DELAY: Final = "log.segment.delete.delay.ms"
KEEP_FAILED: Final = "sweep.keep_failed_output_ms"


class FilePlace(NamedTuple):
    """A row of the inventory.

    Attributes:
        kind: what the file is. where: the kind of directory.
        pattern: of its path below that. example: such a path; ``N`` is an offset of 20 digits.
        name: of the place, as a search shows it.
        form: what the content is read as, if the name is like a segment's; others are ``other``.
        rule: what removes the file: `UPKEEP`, the cleanings and retention of its log; `PURGE`, the
            next one; `WRITE`, one by Spark a week later; a delay: a purge that long after the file
            was retired or the log deleted, or at the time in its name; empty: nothing.
        erasure: see `Erasure`. A file whose name is not like a segment's is left, unless it goes
            whatever it holds.
        why: an erasure leaves it, if it does.
    """

    kind: str
    where: Where
    pattern: str
    example: str
    name: str
    form: Form
    rule: str
    erasure: Erasure
    why: str = "by its name it is not a segment"

    def of(self, path: str) -> FilePlace:
        """Return the row for a file that fits: what its own name allows."""
        if self.form != "segment" or _LOG_FILE.fullmatch(path.rpartition("/")[2]):
            return self
        goes = self.erasure in ("recovered", "discarded")
        return self._replace(form="other", erasure=self.erasure if goes else "left")


def _at_most(largest: str) -> str:
    """Return a pattern of the decimal numbers with as many digits that are not larger."""
    smaller = (
        f"{largest[:at]}[0-{int(digit) - 1}][0-9]{{{len(largest) - at - 1}}}"
        for at, digit in enumerate(largest)
        if digit != "0"
    )
    return f"(?:{'|'.join(smaller)}|{largest})"


_LOG_FILE: Final = re.compile(r"(?:.*\.)?log(?:\..*)?", re.DOTALL)
"""A name like a segment's, in any stage."""
_OFFSET: Final = _at_most(f"{INT64_MAX:020d}")
_INDEX: Final = r"\.(?:index|timeindex|txnindex)"
_FOREIGN: Final = rf"[^/]*(?:\.log|{_INDEX}|\.snapshot)"
_STAGE: Final = r"(?:\.[0-9]+)?(?:\.(?:cleaned|swap|deleted|tmp))?"
_FACTS: Final = rf"(?:{LEADER_EPOCH_CHECKPOINT}|{re.escape(PARTITION_METADATA)})"
_WORK: Final = re.escape(WORK_DIRECTORY)
_BUILT: Final = rf"{_WORK}/{STAGING}/[^/]+/.*"
_KEPT: Final = rf"{_WORK}/{FAILED}/{FAILED_OUTPUT}/.*"
_PLAN: Final = "1-0123abcd-0123abcd"
_A_BUILT: Final = f"{WORK_DIRECTORY}/{STAGING}/{_PLAN}/N.log"
_A_KEPT: Final = f"{WORK_DIRECTORY}/{FAILED}/1.{_PLAN}/N.log"
_A_PIECE: Final = f"{WORK_DIRECTORY}/{CUT}/1-0/N.log.from-9"
_A_CLEANED: Final = "N.log.cleaned"
_A_SNAPSHOT: Final = "N-0000000001.checkpoint.deleted"
_TEMPORARY: Final = r"[0-9]{20,}\.snapshot\.tmp"
_METADATA: Final = r"[^/]*\.checkpoint\.deleted"
_SPOOLED: Final = rf"{re.escape(SPOOL)}.*"
_GONE: Final = "deleted log"
_SEGMENT: Final = "segment"
_OTHER: Final = "other"
_LEFT: Final = "left"
_WITH_IT: Final = "with its log"
_OF_A_WRITE: Final = "a write by Spark may need it"
_NOT_OURS: Final = "neither Kafka nor logwright writes a file of this name"

_OF_A_LOG: Final = (
    FilePlace(
        "segment", "log", rf"{_OFFSET}\.log", "N.log", "segment", _SEGMENT, UPKEEP, "rebuilt"
    ),
    FilePlace("index", "log", _OFFSET + _INDEX, "N.index", "stray", _OTHER, "", _LEFT),
    FilePlace("snapshot", "log", rf"{_OFFSET}\.snapshot", "N.snapshot", "stray", _OTHER, "", _LEFT),
    FilePlace("fact", "log", _FACTS, PARTITION_METADATA, "stray", _OTHER, "", _LEFT),
    FilePlace("temporary", "log", _TEMPORARY, "N.snapshot.tmp", "staging", _OTHER, PURGE, _LEFT),
    FilePlace(
        "cleaned", "log", r"[^/]*\.cleaned", _A_CLEANED, "staging", _SEGMENT, PURGE, "recovered"
    ),
    FilePlace("swap", "log", r"[^/]*\.swap", "N.log.swap", "staging", _SEGMENT, PURGE, "recovered"),
    FilePlace("metadata snapshot", "log", _METADATA, _A_SNAPSHOT, "stray", _OTHER, "", _LEFT),
    FilePlace(
        "retired",
        "log",
        r"[^/]*\.deleted",
        "N.log.deleted",
        "deleted",
        _SEGMENT,
        DELETE_DELAY,
        "removed",
    ),
    FilePlace("foreign", "log", _FOREIGN, "old.log", "stray", _OTHER, "", _LEFT, _NOT_OURS),
    FilePlace("staged", "log", _BUILT, _A_BUILT, "staging", _SEGMENT, PURGE, "discarded"),
    FilePlace(
        "failed output", "log", _KEPT, _A_KEPT, "failed output", _SEGMENT, KEEP_FAILED, "removed"
    ),
    FilePlace("cut", "log", rf"{_WORK}/{CUT}/.*", _A_PIECE, "cut", _SEGMENT, "", "removed"),
    FilePlace("stray", "log", ".*/.*", "backup/N.log", "stray", _SEGMENT, "", _LEFT, _NOT_OURS),
    FilePlace("stray", "log", ".*", "N.log.bak", "stray", _OTHER, "", _LEFT, _NOT_OURS),
)
"""Of a partition. A log that a broker is moving, or that it found to be stray, has the same."""

_AS_A_WHOLE: Final[tuple[tuple[str, str, str, Form, Erasure], ...]] = (
    ("segment", rf"[0-9]{{20,}}\.log{_STAGE}", "N.log", _SEGMENT, _WITH_IT),
    ("index", rf"[0-9]{{20,}}(?:{_INDEX}|\.snapshot){_STAGE}", "N.index", _OTHER, _LEFT),
    ("fact", rf"{_FACTS}(?:\.tmp)?", PARTITION_METADATA, _OTHER, _LEFT),
    ("work", rf"(?:.*/)?{_WORK}/.*", _A_PIECE, _SEGMENT, _WITH_IT),
)
"""Kind, pattern, example, form and erasure, of a deleted log. A purge removes all of it, and
nothing if there is anything else.
"""

PLACES: Final = (
    *_OF_A_LOG,
    # No purge is made of a stray or future log, and a broker deletes neither by itself.
    *(row._replace(where="stray", name="stray", rule="") for row in _OF_A_LOG),
    *(row._replace(where="future", name="future", rule="") for row in _OF_A_LOG),
    *(
        FilePlace(kind, _GONE, pattern, example, _GONE, form, DELETED_LOG_DELAY, erasure)
        for kind, pattern, example, form, erasure in _AS_A_WHOLE
    ),
    FilePlace("stray", _GONE, ".*", "old.log", "stray", "segment", "", "left", _NOT_OURS),
    FilePlace("stray", "other directory", ".*", "N.log", "stray", "segment", "", "left", _NOT_OURS),
    FilePlace("spool", "root", _SPOOLED, f"{SPOOL}0", "staging", "rows", WRITE, _LEFT, _OF_A_WRITE),
    FilePlace("stray", "root", ".*", "notes.txt", "stray", "other", "", "left", _NOT_OURS),
)


class _Rows(NamedTuple):
    """The rows of a kind of directory. The number of a group of the pattern is that of its row."""

    pattern: re.Pattern[str]
    rows: tuple[FilePlace, ...]


def rows_by_directory(places: Iterable[FilePlace]) -> dict[Where, _Rows]:
    """Return the rows of each kind of directory, to be matched at once."""
    by_where: dict[Where, list[FilePlace]] = {}
    for row in places:
        by_where.setdefault(row.where, []).append(row)
    return {
        where: _Rows(
            re.compile("|".join(f"({row.pattern})" for row in rows), re.DOTALL), tuple(rows)
        )
        for where, rows in by_where.items()
    }


_ROWS: Final = rows_by_directory(PLACES)
_MARKS: Final[dict[str, Where]] = {STRAY_DIRECTORY: "stray", FUTURE_DIRECTORY: "future"}


def file_place(where: Where, path: str) -> FilePlace:
    """Return the place of a file.

    Args:
        path: relative to the directory.
    """
    pattern, rows = _ROWS[where]
    match = pattern.fullmatch(path)
    assert match is not None and match.lastindex is not None  # noqa: S101, PT018 -- the last fits any
    return rows[match.lastindex - 1].of(path)


def owner_of(name: str) -> tuple[Where, TopicPartition]:
    """Return what a directory of a log directory is, by its name, and whose records it can have;
    the topic of a marked one may be truncated.
    """
    partition = TopicPartition.parse(name)
    if partition is not None:
        return "log", partition
    marked = parse_marked_directory_name(name)
    if marked is None:
        return "other directory", NO_PARTITION
    is_deleted = parse_deleted_directory_name(name) is not None
    return "deleted log" if is_deleted else _MARKS.get(marked[1], "other directory"), marked[0]


def file_place_at(path: str) -> FilePlace:
    """Return the place of a file by its path relative to the log directory."""
    directory, slash, rest = path.partition("/")
    return file_place(owner_of(directory)[0], rest) if slash else file_place("root", path)


def expires_ms(path: str) -> int | None:
    """Return when a file expires by its path below a log's directory, ms since the epoch; None of
    any that is not in a kept output.
    """
    parts = path.split("/")
    if parts[:2] != [WORK_DIRECTORY, FAILED] or file_place("log", path).rule != KEEP_FAILED:
        return None
    return int(parts[2].partition(".")[0])
