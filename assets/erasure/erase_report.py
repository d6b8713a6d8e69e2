"""What Dagster shows of an erasure: counts, names of logs and files, offsets; no key. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from logwright.assets.lib.human import human_time
from logwright.assets.lib.report import SHOWN_LOGS, rows_table
from logwright.erasure.erase.left import Left
from logwright.erasure.outcome import (
    AtOnce,
    DeletedAtOnce,
    ErasedByTombstones,
    Failed,
    PlannedTombstones,
    PurgedDirectory,
    Result,
)
from logwright.erasure.remains import (
    LeftInLogDir,
    LeftInTable,
    NothingMatches,
    NotKnown,
    Remains,
    ReplicasNotErased,
    TableNotSearched,
    exit_status,
)
from logwright.erasure.status import FOUND, INCOMPLETE
from logwright.errors import LogwrightError, QualityError

TOO_LITTLE: Final = QualityError.exit_status
"""Status of a certificate that does not prove enough."""

_SENTENCES: Final[Mapping[int, str]] = {
    0: "everything was searched, and nothing of the requests is left",
    FOUND: "everything was searched, and records remain",
    INCOMPLETE: "something that may have records of the requests was not searched",
    TOO_LITTLE: "nothing was found, but the certificate does not prove that nothing is left",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the check of a run has found.

    Attributes:
        run_id: of the run that has searched.
        status: as the exit status of ``logwright erase``.
        records, files: that remain in log directories. rows: that remain in tables.
        places: what was not searched: a file, a part, a table, a topic.
        left: the files, one row each.
    """

    run_id: str
    status: int
    records: int
    files: int
    rows: int
    places: tuple[str, ...]
    left: tuple[Mapping[str, str | int], ...]

    def metadata(self) -> dict[str, Any]:
        """Return what a step shows of it."""
        shown: dict[str, Any] = {
            "exit status": self.status,
            "outcome": sentence(self.status),
            "records left": self.records,
            "files with records": self.files,
            "rows left in tables": self.rows,
            "not searched": len(self.places),
        }
        if self.left:
            shown["left"] = rows_table(self.left)
        if self.places:
            rows = [{"place": place} for place in self.places]
            shown["places that were not searched"] = rows_table(rows)
        return shown


def sentence(status: int) -> str:
    """Return what an exit status means."""
    return _SENTENCES[status]


def checked_of(remains: Iterable[Remains], run_id: str) -> Checked:
    """Return what a search of what is left has found."""
    known = list(remains)
    lefts = [(str(place.log_dir), place.left) for place in known if isinstance(place, LeftInLogDir)]
    places = [f"{log_dir}/{part.path}" for log_dir, left in lefts for part in left.unsearched]
    places += [
        f"{log_dir}: {len(left.other_forms)} keys in another form"
        for log_dir, left in lefts
        if left.other_forms
    ]
    places += [name for place in known if (name := _not_searched(place))]
    return Checked(
        run_id=run_id,
        status=exit_status(known),
        records=sum(left.records for _, left in lefts),
        files=sum(left.files for _, left in lefts),
        rows=sum(place.rows for place in known if isinstance(place, LeftInTable)),
        places=tuple(places),
        left=tuple(row for log_dir, left in lefts for row in _files(log_dir, left)),
    )


def _not_searched(place: Remains) -> str:
    match place:
        case NotKnown():
            return f"{place.place}: {type(place.error).__name__}"
        case TableNotSearched():
            return f"table {place.table} of {place.topic}"
        case ReplicasNotErased():
            return f"{place.topic}: replicas on brokers {', '.join(map(str, place.brokers))}"
        case NothingMatches():
            return f"{place.topics}: no topic matches"
        case _:
            return ""


def _files(log_dir: str, left: Left) -> Iterable[Mapping[str, str | int]]:
    for part in left.parts[:SHOWN_LOGS]:
        yield {
            "file": f"{log_dir}/{part.path}",
            "records": part.records,
            "first offset": part.first_offset,
            "last offset": part.last_offset,
            "removed by": part.rule or "nothing",
            "gone by": "" if part.gone_by_ms is None else human_time(part.gone_by_ms),
        }


def found_metadata(lefts: Mapping[str, Left], requests: int) -> dict[str, Any]:
    """Return the metadata of the search before an erasure, by log directory."""
    rows = [
        {
            "log directory": name,
            "records": left.records,
            "files": left.files,
            "not searched": len(left.unsearched),
        }
        for name, left in lefts.items()
    ]
    return {
        "requests": requests,
        "records": sum(left.records for left in lefts.values()),
        "log directories": rows_table(rows),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """What a stage did, or would do, to one log or directory.

    Attributes:
        key: of the log, or the name of its directory. records: of the requests that it had.
        error: why it was not erased.
    """

    key: str
    has_matches: bool
    records: int
    what: str
    error: LogwrightError | None


def row_of(key: str, result: Result) -> LogRow:
    """Return what is shown of a stage's result, without its plan."""
    return LogRow(
        key=key,
        has_matches=result.has_matches,
        records=result.records,
        what=_what(result),
        error=result.error if isinstance(result, Failed) else None,
    )


def rows_metadata(rows: Sequence[LogRow]) -> dict[str, Any]:
    """Return the metadata of a stage: what it did, or would do, to each log that has records."""
    concerned = [row for row in rows if row.has_matches]
    table = [{"log": row.key, "records": row.records, "what": row.what} for row in concerned]
    shown: dict[str, Any] = {
        "logs": len(rows),
        "logs with records": len(concerned),
        "records": sum(row.records for row in concerned),
        "failed": sum(row.error is not None for row in rows),
    }
    return shown | ({"by log": rows_table(table)} if table else {})


def row_metadata(row: LogRow, *, at_once: bool) -> dict[str, Any]:
    """Return the metadata of one log's erasure."""
    how = "at once" if at_once else "by tombstones"
    return {"erasure": how, "records of requests": row.records, "what": row.what}


def _what(result: Result) -> str:
    match result:
        case PlannedTombstones():
            what = f"{len(result.tombstones.keys)} tombstones are missing"
        case ErasedByTombstones():
            files = len(result.erased.purged.removed)
            what = f"{result.appended} tombstones appended, {files} files removed"
        case AtOnce():
            segments, files = len(result.plan.scan.segments), len(result.purged)
            what = f"{segments} segments, {files} other files"
        case DeletedAtOnce():
            what = "removed" if result.done else "to be removed"
        case PurgedDirectory():
            what = "removed"
        case Failed():
            what = "failed"
        case _:
            what = f"{result.files} files stay as they are"
    return what
