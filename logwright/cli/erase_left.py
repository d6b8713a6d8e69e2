"""The end of ``logwright erase``: what it leaves of the requests, and the exit status that says so.

A search of its own of the log directory comes first; then the tables of the policies, the brokers
that have replicas elsewhere, and the topics of requests that nothing has.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from logwright.cli.find import FOUND, INCOMPLETE
from logwright.cli.planning import instant
from logwright.errors import LogwrightError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from logwright.cli.request import Request
    from logwright.config.table import TopicTable
    from logwright.erasure.erase.left import FileLeft, Left
    from logwright.erasure.find.result import Unsearched
    from logwright.erasure.keys import KeySet

_MOST_LINES: Final = 1000


def say_left(request: Request, keys: KeySet, topics: Collection[str], *, at_once: bool) -> int:
    """Say what is left of the requests, and where that is not known. Effects: reads the log
    directory and the tables; output.

    Args:
        topics: of the log directory and of the cluster's metadata, before the erasure.
        at_once: it was erased at once, not by Kafka's rules.

    Returns:
        the exit status: `INCOMPLETE` if something could not be searched, else `FOUND` if something
        remains, else 0.
    """
    closed = _Account(request, keys, at_once=at_once)
    if not request.dry_run:
        closed.search_log_dir()
        closed.search_tables()
    closed.say_replicas()
    closed.say_unmatched(topics)
    return closed.status


class _Account:
    """What remains and what could not be searched, while one place after the other is looked at."""

    def __init__(self, request: Request, keys: KeySet, *, at_once: bool) -> None:
        self._request = request
        self._keys = keys
        self._at_once = at_once
        self._output = request.output
        self._remains = False
        self._incomplete = False

    @property
    def status(self) -> int:
        """The exit status."""
        return INCOMPLETE if self._incomplete else FOUND if self._remains else 0

    def search_log_dir(self) -> None:
        """Search the log directory."""
        from logwright.erasure.erase.left import find_left  # noqa: PLC0415 -- kernels: not for --help
        from logwright.erasure.find.result import Settings  # noqa: PLC0415

        request = self._request
        try:
            settings = Settings(
                of_topic=request.settings,
                broker=request.broker(),
                now_ms=request.now_ms,
                high_watermark=request.high_watermark,
                metadata=request.sources().metadata,
            )
            with self._output.progress("search") as progress:
                left = find_left(request.log_dir, self._keys, settings, progress)
        except LogwrightError as error:
            self._unknown(str(request.log_dir), error)
            return
        self._remains |= bool(left.files)
        self._say_unsearched(left.unsearched)
        for number, file in enumerate(left.files):
            self._say_file(file, shown=number < _MOST_LINES)
        self._say_sum(left)

    def search_tables(self) -> None:
        """Search the tables of the policies whose topics the requests are about."""
        from logwright.config.table import tables_of  # noqa: PLC0415 -- pydantic: not for --help

        policies = self._request.policies
        for topic, table in sorted(({} if policies is None else tables_of(policies)).items()):
            if not self._keys.for_topic(topic).is_empty:
                self._search_table(topic, table)

    def say_replicas(self) -> None:
        """Say which brokers have replicas that are not in this directory."""
        from logwright.erasure.certificate.search import replicas_elsewhere  # noqa: PLC0415 -- kernels

        request = self._request
        for one in replicas_elsewhere([(request.log_dir, request.sources())], self._keys):
            self._incomplete = True
            self._output.json_object({"topic": one.topic, "brokersNotErased": list(one.brokers)})
            brokers = ", ".join(map(str, one.brokers))
            self._output.text(f"{one.topic}: brokers with replicas that are not erased: {brokers}")

    def say_unmatched(self, topics: Collection[str]) -> None:
        """Say which topics of requests nothing has."""
        from logwright.erasure.topics import match_nothing  # noqa: PLC0415 -- not for --help

        for one in match_nothing(self._keys.topics_asked, topics):
            self._incomplete = True
            self._output.json_object({"topics": one, "matches": 0})
            self._output.text(
                f"{one}: no topic of this directory or of the cluster's metadata matches; only"
                " files whose topic is not known were searched for it."
            )

    def _search_table(self, topic: str, table: TopicTable) -> None:
        """Search the files of a table, those of its old versions among them."""
        from logwright.erasure.find.tables import search_table_files  # noqa: PLC0415 -- kernels

        if table.path is None:
            self._say_no_table(topic, "its catalog", "it is in a catalog, and was not searched")
            return
        path = Path(table.path)
        if not path.is_dir():
            self._say_no_table(topic, table.path, "it is not there, and was not searched")
            return
        try:
            found = search_table_files(path, self._keys.for_topic(topic), topic=topic)
        except LogwrightError as error:
            self._unknown(table.path, error)
            return
        for part in found.unsearched:
            self._say_no_table(topic, f"{table.path}/{part.path}", f"not searched: {part.problem}")
        if found.findings:
            self._remains = True
            self._say_table(
                topic, table, len(found.findings), len({one.path for one in found.findings})
            )

    def _say_table(self, topic: str, table: TopicTable, rows: int, files: int) -> None:
        """Say until when: after an erasure at once all earlier versions go with the next update;
        else rows are marked as deleted first, and their files are kept as an earlier version then.
        """
        is_late = table.of_format.keeps_versions and not self._at_once
        until_ms = self._request.now_ms + 2 * table.keep_versions_ms if is_late else None
        self._output.json_object(
            {
                "topic": topic,
                "table": table.path,
                "rows": rows,
                "files": files,
                "keepVersionsMs": table.keep_versions_ms if is_late else None,
                "untilMs": until_ms,
            }
        )
        old = (
            f", and in its files for twice keep_versions_ms={table.keep_versions_ms} after it:"
            f" {instant(until_ms)} at the earliest"
        )
        self._output.text(
            f"{topic}: table {table.path}: {rows} rows in {files} files remain until its next"
            f" update{old if is_late else ''}"
        )

    def _say_no_table(self, topic: str, table: str, problem: str) -> None:
        self._incomplete = True
        self._output.json_object({"topic": topic, "table": table, "problem": problem})
        self._output.text(f"{topic}: table {table}: {problem}")

    def _unknown(self, place: str, error: LogwrightError) -> None:
        self._incomplete = True
        self._output.error_object(error, notSearched=place)
        self._output.text(f"{place}: what remains is not known: {error}")

    def _say_unsearched(self, parts: Sequence[Unsearched]) -> None:
        for number, part in enumerate(parts):
            self._incomplete = True
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

    def _say_file(self, file: FileLeft, *, shown: bool) -> None:
        self._output.json_object(
            {
                "left": file.path,
                "place": file.place,
                "records": file.records,
                "firstOffset": file.first_offset,
                "lastOffset": file.last_offset,
                "rule": file.rule,
                "goneByMs": file.gone_by_ms,
            }
        )
        if shown:
            rule = file.rule or "nothing removes them"
            until = "" if file.gone_by_ms is None else f", by {instant(file.gone_by_ms)}"
            self._output.text(
                f"left: {file.path}: {file.records} records, offsets {file.first_offset} to"
                f" {file.last_offset}: {rule}{until}"
            )

    def _say_sum(self, left: Left) -> None:
        self._output.json_object(
            {
                "logDir": str(self._request.log_dir),
                "searchedFiles": left.searched_files,
                "searchedBytes": left.searched_bytes,
                "recordsLeft": left.records,
                "filesLeft": len(left.files),
                "notSearchedParts": len(left.unsearched),
            }
        )
        unread = f", {len(left.unsearched)} parts could not be searched" if left.unsearched else ""
        self._output.text(
            f"{self._request.log_dir}: {left.records} records of these keys remain in"
            f" {len(left.files)} of {left.searched_files} files{unread}. No other log directory was"
            " searched."
        )
