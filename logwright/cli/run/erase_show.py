"""How `logwright erase` shows what became of each log, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatchmethod
from typing import Final

from logwright.cli.request import Request
from logwright.cli.wording import UNFORESEEN, instant
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
from logwright.times import duration

_MOST_LINES: Final = 1000


def sentence(planned: PlannedTombstones) -> str:
    """Return what is to be appended to a log."""
    return (
        f"{planned.name}: {planned.records} records of these keys,"
        f" {len(planned.tombstones.keys)} tombstones are missing"
    )


class Shown:
    """Shows the results of an erasure's stages. Effects of its methods: output."""

    def __init__(self, request: Request) -> None:
        self._now_ms = request.now_ms
        self._output = request.output
        self._failures = request.failures

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
        self._output.result(
            sentence(planned),
            topicPartition=planned.name,
            now=self._now_ms,
            erased=False,
            records=planned.records,
            tombstones=len(planned.tombstones.keys),
        )

    @show.register
    def _by_tombstones(self, result: ErasedByTombstones) -> None:
        output, erased = self._output, result.erased
        output.result(
            f"{result.name}: {erased.matches} records of these keys, {result.appended} tombstones"
            f" appended, {len(erased.purged.removed)} files removed",
            topicPartition=result.name,
            now=self._now_ms,
            erased=True,
            records=erased.matches,
            tombstones=result.appended,
            compacted=erased.committed is not None,
            purged=list(erased.purged.removed),
        )

    @show.register
    def _at_once(self, result: AtOnce) -> None:
        output, log = self._output, result.plan.log
        segments = result.plan.scan.segments
        is_marked = isinstance(log.partition, MarkedPartition)
        output.result(
            f"{result.name}: {result.records} records in {len(segments)} of {len(log.segments)}"
            f" segments, {len(result.purged)} other files",
            **{"directory" if is_marked else "topicPartition": result.name},
            now=self._now_ms,
            erased=result.done,
            records=result.records,
            segments=[segment.base_offset for segment in segments],
            rolled=result.plan.roll.due,
            bytesBefore=log.log_bytes,
            bytesAfter=log.log_bytes if result.erased is None else result.erased.bytes_after,
            purged=result.purged,
            unreadable=result.unreadable,
        )
        self._unreadable(result.name, result.unreadable)

    @show.register
    def _deleted(self, result: DeletedAtOnce) -> None:
        marked = result.marked
        removed = "removed" if result.done else "would be removed"
        self._output.result(
            f"{result.name}: {removed}" if marked.removed else None,
            directory=result.name,
            now=self._now_ms,
            erased=result.done,
            removed=marked.removed,
            unreadable=list(marked.unreadable),
        )
        self._unreadable(result.name, marked.unreadable)

    @show.register
    def _purged(self, result: PurgedDirectory) -> None:
        self._output.text(f"{result.name}: removed")

    @show.register
    def _left_directory(self, result: LeftDirectory) -> None:
        self._output.result(
            f"{result.name}: {result.files} files stay as they are",
            directory=result.name,
            now=self._now_ms,
            filesLeft=result.files,
        )

    @show.register
    def _log_dir(self, place: LeftInLogDir) -> None:
        left = place.left
        for number, part in enumerate(left.unsearched):
            self._output.result(
                f"not searched: {part.path}: {part.problem}" if number < _MOST_LINES else None,
                notSearched=part.path,
                position=part.position,
                bytes=part.bytes,
                problem=part.problem,
            )
        for number, records in enumerate(left.parts):
            self._part(records, is_shown=number < _MOST_LINES)
        if left.other_forms:
            self._output.text(
                f"{len(left.other_forms)} other keys are the same in another form, or in a copy of"
                " the topic, and stay: give the keys decoded (key_decoded, --keys-format decoded)."
            )
        unread = f", {len(left.unsearched)} parts could not be searched" if left.unsearched else ""
        self._output.result(
            f"{place.log_dir}: {left.records} records of these keys remain in"
            f" {left.files} of {left.searched_files} files{unread}. No other log directory was"
            " searched.",
            logDir=str(place.log_dir),
            searchedFiles=left.searched_files,
            searchedBytes=left.searched_bytes,
            recordsLeft=left.records,
            filesLeft=left.files,
            notSearchedParts=len(left.unsearched),
            otherForms=sorted(left.other_forms),
        )

    @show.register
    def _not_known(self, place: NotKnown) -> None:
        self._output.error_object(place.error, notSearched=place.place)
        self._output.text(f"{place.place}: what remains is not known: {place.error}")

    @show.register
    def _table(self, left: LeftInTable) -> None:
        old = ""
        if left.until_ms is not None and left.keep_versions_ms is not None:
            kept = duration(left.keep_versions_ms)
            old = (
                f", and in its files for twice keep_versions_ms, {kept}, after it:"
                f" {instant(left.until_ms)} at the earliest"
            )
        self._output.result(
            f"{left.topic}: table {left.path}: {left.rows} rows in {left.files} files remain until"
            f" its next update{old}",
            topic=left.topic,
            table=left.path,
            rows=left.rows,
            files=left.files,
            keepVersionsMs=left.keep_versions_ms,
            untilMs=left.until_ms,
        )

    @show.register
    def _no_table(self, part: TableNotSearched) -> None:
        self._output.result(
            f"{part.topic}: table {part.table}: {part.problem}",
            topic=part.topic,
            table=part.table,
            problem=part.problem,
        )

    @show.register
    def _replicas(self, place: ReplicasNotErased) -> None:
        brokers = ", ".join(map(str, place.brokers))
        self._output.result(
            f"{place.topic}: brokers with replicas that are not erased: {brokers}",
            topic=place.topic,
            brokersNotErased=list(place.brokers),
        )

    @show.register
    def _unmatched(self, place: NothingMatches) -> None:
        self._output.result(
            f"{place.topics}: no topic of this directory or of the cluster's metadata matches; only"
            " files whose topic is not known were searched for it.",
            topics=place.topics,
            matches=0,
        )

    def _part(self, part: FileLeft, *, is_shown: bool) -> None:
        rule = part.rule or "nothing removes them"
        until = "" if part.gone_by_ms is None else f", by {instant(part.gone_by_ms)}"
        if part.rule == DELETE_RETENTION and part.gone_by_ms is None:
            until = f"; run this again after that: {UNFORESEEN}"
        why = f"; {part.why}" if part.why else ""
        line = (
            f"left: {part.path}: {part.records} records, offsets {part.first_offset} to"
            f" {part.last_offset}: {rule}{until}{why}"
        )
        self._output.result(
            line if is_shown else None,
            left=part.path,
            place=part.place,
            records=part.records,
            firstOffset=part.first_offset,
            lastOffset=part.last_offset,
            rule=part.rule,
            goneByMs=part.gone_by_ms,
            why=part.why,
        )

    def _unreadable(self, name: str, files: Sequence[str]) -> None:
        for file in files:
            self._output.message(
                f"{name}: {file} stays: it cannot be read to its end, so it may hold these keys."
                " --purge-unreadable removes it."
            )
