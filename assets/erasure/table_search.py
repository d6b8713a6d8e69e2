"""What the tables of the policies have of erasure requests, for the countdown of deadlines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from logwright.bucket.store import is_in_bucket
from logwright.config.policies import Policies
from logwright.config.table import TopicTable, tables_of
from logwright.erasure.find.model import Finding
from logwright.erasure.find.tables import search_table_files
from logwright.erasure.keys import KeySet
from logwright.errors import LogwrightError


@dataclass(slots=True, kw_only=True)
class TableSearch:
    """The tables of the topics that requests are about.

    Attributes:
        findings: path of a table → rows and other texts of requests.
        unsearched: the topic of each part that was not searched.
        others: see `logwright.erasure.find.result.SearchResult`, of each table.
    """

    findings: dict[str, Sequence[Finding]] = field(default_factory=dict)
    unsearched: list[str] = field(default_factory=list)
    others: list[Mapping[str, Mapping[str, set[str]]]] = field(default_factory=list)


def search_tables(
    policies: Policies, keys: KeySet, logs: Iterable[Sequence[Finding]], *, now_ms: int
) -> TableSearch:
    """Search the tables of the policies. Effects: reads all of their files.

    Args:
        logs: what was found in the logs: a table has a record until the update after the log has
            it no longer.
        now_ms: the clock, ms since the epoch.
    """
    search = TableSearch()
    in_logs = [one for some in logs for one in some]
    for topic, table in sorted(tables_of(policies).items()):
        own = keys.for_topic(topic)
        if own.is_empty:
            continue
        path = table.path
        if path is None or not (is_in_bucket(path) or Path(path).is_dir()):
            search.unsearched.append(topic)
            continue
        try:
            searched = search_table_files(path, own, topic=topic)
        except LogwrightError:
            search.unsearched.append(topic)
            continue
        search.unsearched += [topic] * len(searched.unsearched)
        search.others.append(searched.others)
        search.findings[path] = list(
            _until(searched.findings, [one for one in in_logs if one.topic == topic], table, now_ms)
        )
    return search


def _until(
    findings: Iterable[Finding], in_log: Sequence[Finding], table: TopicTable, now_ms: int
) -> Iterator[Finding]:
    """Yield what a table has, with when it is gone: by an update after the log has it no longer."""
    last: dict[int, int | None] = {}
    for finding in in_log:
        before = last.get(finding.request, now_ms)
        known = before is not None and finding.gone_by_ms is not None
        last[finding.request] = max(before or 0, finding.gone_by_ms or 0) if known else None
    for finding in findings:
        updated_ms = last.get(finding.request, now_ms)
        until_ms = None if updated_ms is None else table.held_until_ms(updated_ms, at_once=False)
        yield replace(finding, rule="the table's next update", gone_by_ms=until_ms)
