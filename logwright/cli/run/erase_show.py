"""How `logwright erase` shows what became of each log, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatchmethod
from typing import Final

from logwright.cli.failures import FailureLog
from logwright.cli.request import Request
from logwright.cli.run.planning import instant
from logwright.erasure.erase.directories import MarkedPartition
from logwright.erasure.erase.left import FileLeft
from logwright.erasure.outcome import (
    AtOnce,
    DeletedAtOnce,
    ErasedByTombstones,
    Failed,
    LeftDirectory,
    PlannedTombstones,
    PurgedDirectory,
)
from logwright.erasure.outlook.removals import DELETE_RETENTION
from logwright.erasure.remains import (
    LeftInLogDir,
    LeftInTable,
    NothingMatches,
    NotKnown,
    ReplicasNotErased,
    TableNotSearched,
)

_MOST_LINES: Final = 1000


def sentence(planned: PlannedTombstones) -> str:
    """Return what is to be appended to a log."""
    return (
        f"{planned.name}: {planned.records} records of these keys,"
        f" {len(planned.tombstones.keys)} tombstones are missing"
    )


class Shown:
    """Shows the results of an erasure's stages. Effects of its methods: output."""

    def __init__(self, request: Request, failures: FailureLog) -> None:
        self._now_ms = request.now_ms
        self._output = request.output
        self._failures = failures

    @singledispatchmethod
    def show(self, result: object) -> None:
        """Show what became of a log or directory, or what is left in a place."""
        raise TypeError(result)

    @show.register
    def _failed(self, failed: Failed) -> None:
        if failed.partition is None:
            self._failures.add_directory(failed.name, failed.error)
        else:
            self._failures.add(failed.partition, failed.error)

    @show.register
    def _planned(self, planned: PlannedTombstones) -> None:
        self._output.text(sentence(planned))
        self._output.json_object(
            {
                "topicPartition": planned.name,
                "now": self._now_ms,
                "erased": False,
                "records": planned.records,
                "tombstones": len(planned.tombstones.keys),
            }
        )

    @show.register
    def _by_tombstones(self, result: ErasedByTombstones) -> None:
        output, erased = self._output, result.erased
        output.json_object(
            {
                "topicPartition": result.name,
                "now": self._now_ms,
                "erased": True,
                "records": erased.matches,
                "tombstones": result.appended,
                "compacted": erased.committed is not None,
                "purged": list(erased.purged.removed),
            }
        )
        output.text(
            f"{result.name}: {erased.matches} records of these keys, {result.appended} tombstones"
            f" appended, {len(erased.purged.removed)} files removed"
        )

    @show.register
    def _at_once(self, result: AtOnce) -> None:
        output, log = self._output, result.plan.log
        segments = result.plan.scan.segments
        is_marked = isinstance(log.partition, MarkedPartition)
        output.json_object(
            {
                "directory" if is_marked else "topicPartition": result.name,
                "now": self._now_ms,
                "erased": result.done,
                "records": result.records,
                "segments": [segment.base_offset for segment in segments],
                "rolled": result.plan.roll.due,
                "bytesBefore": log.log_bytes,
                "bytesAfter": log.log_bytes if result.erased is None else result.erased.bytes_after,
                "purged": result.purged,
                "unreadable": result.unreadable,
            }
        )
        output.text(
            f"{result.name}: {result.records} records in {len(segments)} of {len(log.segments)}"
            f" segments, {len(result.purged)} other files"
        )
        self._unreadable(result.name, result.unreadable)

    @show.register
    def _deleted(self, result: DeletedAtOnce) -> None:
        marked = result.marked
        self._output.json_object(
            {
                "directory": result.name,
                "now": self._now_ms,
                "erased": result.done,
                "removed": marked.removed,
                "unreadable": list(marked.unreadable),
            }
        )
        if marked.removed:
            self._output.text(f"{result.name}: {'removed' if result.done else 'would be removed'}")
        self._unreadable(result.name, marked.unreadable)

    @show.register
    def _purged(self, result: PurgedDirectory) -> None:
        self._output.text(f"{result.name}: removed")

    @show.register
    def _left_directory(self, result: LeftDirectory) -> None:
        self._output.json_object(
            {"directory": result.name, "now": self._now_ms, "filesLeft": result.files}
        )
        self._output.text(f"{result.name}: {result.files} files stay as they are")

    @show.register
    def _log_dir(self, place: LeftInLogDir) -> None:
        left = place.left
        for number, part in enumerate(left.unsearched):
            self._output.json_object(
                {
                    "notSearched": part.path,
                    "position": part.position,
                    "bytes": part.bytes,
                    "problem": part.problem,
                }
            )
            if number < _MOST_LINES:
                self._output.text(f"not searched: {part.path}: {part.problem}")
        for number, records in enumerate(left.parts):
            self._part(records, is_shown=number < _MOST_LINES)
        self._output.json_object(
            {
                "logDir": str(place.log_dir),
                "searchedFiles": left.searched_files,
                "searchedBytes": left.searched_bytes,
                "recordsLeft": left.records,
                "filesLeft": left.files,
                "notSearchedParts": len(left.unsearched),
            }
        )
        unread = f", {len(left.unsearched)} parts could not be searched" if left.unsearched else ""
        self._output.text(
            f"{place.log_dir}: {left.records} records of these keys remain in"
            f" {left.files} of {left.searched_files} files{unread}. No other log directory was"
            " searched."
        )

    @show.register
    def _not_known(self, place: NotKnown) -> None:
        self._output.error_object(place.error, notSearched=place.place)
        self._output.text(f"{place.place}: what remains is not known: {place.error}")

    @show.register
    def _table(self, left: LeftInTable) -> None:
        self._output.json_object(
            {
                "topic": left.topic,
                "table": left.path,
                "rows": left.rows,
                "files": left.files,
                "keepVersionsMs": left.keep_versions_ms,
                "untilMs": left.until_ms,
            }
        )
        old = (
            ""
            if left.until_ms is None
            else f", and in its files for twice keep_versions_ms={left.keep_versions_ms} after it:"
            f" {instant(left.until_ms)} at the earliest"
        )
        self._output.text(
            f"{left.topic}: table {left.path}: {left.rows} rows in {left.files} files remain until"
            f" its next update{old}"
        )

    @show.register
    def _no_table(self, part: TableNotSearched) -> None:
        self._output.json_object(
            {"topic": part.topic, "table": part.table, "problem": part.problem}
        )
        self._output.text(f"{part.topic}: table {part.table}: {part.problem}")

    @show.register
    def _replicas(self, place: ReplicasNotErased) -> None:
        brokers = ", ".join(map(str, place.brokers))
        self._output.json_object({"topic": place.topic, "brokersNotErased": list(place.brokers)})
        self._output.text(f"{place.topic}: brokers with replicas that are not erased: {brokers}")

    @show.register
    def _unmatched(self, place: NothingMatches) -> None:
        self._output.json_object({"topics": place.topics, "matches": 0})
        self._output.text(
            f"{place.topics}: no topic of this directory or of the cluster's metadata matches; only"
            " files whose topic is not known were searched for it."
        )

    def _part(self, part: FileLeft, *, is_shown: bool) -> None:
        self._output.json_object(
            {
                "left": part.path,
                "place": part.place,
                "records": part.records,
                "firstOffset": part.first_offset,
                "lastOffset": part.last_offset,
                "rule": part.rule,
                "goneByMs": part.gone_by_ms,
            }
        )
        if is_shown:
            rule = part.rule or "nothing removes them"
            until = "" if part.gone_by_ms is None else f", by {instant(part.gone_by_ms)}"
            if part.rule == DELETE_RETENTION and part.gone_by_ms is None:
                until = "; run this again after that: no later cleaning is foreseen"
            self._output.text(
                f"left: {part.path}: {part.records} records, offsets {part.first_offset} to"
                f" {part.last_offset}: {rule}{until}"
            )

    def _unreadable(self, name: str, files: Sequence[str]) -> None:
        for file in files:
            self._output.message(
                f"{name}: {file} stays: it cannot be read to its end, so it may hold these keys."
                " --purge-unreadable removes it."
            )
