"""The output of ``logwright find``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from logwright.cli.request import Request
from logwright.cli.run.keys import Wanted
from logwright.erasure.find.model import Finding
from logwright.erasure.find.result import Found
from logwright.erasure.outlook.suggestions import LogForecast
from logwright.format.names import TopicPartition

_MOST_ROWS: Final = 1000


_SHORT: Final = 16


def show_findings(request: Request, wanted: Wanted, found: Sequence[Found]) -> None:
    """Show all records that were found, and what could not be searched. Effects: output."""
    output = request.output
    rows = [(one, finding) for one in found for finding in one.findings]
    if output.is_json:
        for one, finding in rows:
            output.json_object(_as_object(one, finding, wanted))
        for one in found:
            for part in one.unsearched:
                output.json_object(
                    {
                        "directory": str(one.directory),
                        "path": part.path,
                        "topic": part.partition.topic or None,
                        "place": "unreadable",
                        "position": part.position,
                        "bytes": part.bytes,
                        "problem": part.problem,
                    }
                )
    elif rows:
        output.table(
            ("key", "file", "place", "offset", "kind", "gone by", "rule"), _cells(rows, wanted)
        )
        if len(rows) > _MOST_ROWS:
            output.text(f"… and {len(rows) - _MOST_ROWS} more: --output json prints all.")
    for one in found:
        for part in one.unsearched:
            where = f"{one.directory / part.path}" + (
                f", bytes {part.position} to {part.position + part.bytes}"
                if part.bytes >= 0
                else ""
            )
            output.text(f"not searched: {where}: {part.problem}.")
        for partition, problem in one.undecided.items():
            output.text(f"what removes the records of {partition} is not known: {problem}")
    _sum(request, wanted, found)


def _cells(rows: Sequence[tuple[Found, Finding]], wanted: Wanted) -> Iterator[tuple[object, ...]]:
    for one, finding in rows[:_MOST_ROWS]:
        yield (
            (wanted.hmac(finding.request) or "")[:_SHORT],
            str(one.directory / finding.path),
            finding.place,
            None if finding.offset < 0 else finding.offset,
            finding.kind,
            _instant(finding.gone_by_ms),
            finding.rule or "nothing removes it",
        )


def _sum(request: Request, wanted: Wanted, found: Sequence[Found]) -> None:
    findings = [finding for one in found for finding in one.findings]
    requests = {finding.request for finding in findings}
    unsearched = sum(len(one.unsearched) for one in found)
    places = Counter(finding.place for finding in findings)
    files, size = sum(one.files for one in found), sum(one.bytes for one in found)
    asked = len(wanted.keys) + len(wanted.patterns)
    named = ", ".join(f"{count} {place}" for place, count in sorted(places.items()))
    request.output.text(
        f"{len(findings)} records of {len(requests)} of {asked} keys in {files} files"
        f" ({size} bytes)" + (f": {named}." if named else ".")
    )
    if unsearched:
        request.output.text(f"{unsearched} files, parts of them, or places were not searched.")
    request.output.json_object(
        {
            "keys": asked,
            "keysFound": len(requests),
            "records": len(findings),
            "places": dict(sorted(places.items())),
            "files": files,
            "bytes": size,
            "unsearched": unsearched,
        }
    )


def _as_object(one: Found, finding: Finding, wanted: Wanted) -> dict[str, object]:
    return {
        "directory": str(one.directory),
        "path": finding.path,
        "topicPartition": f"{finding.topic}-{finding.partition}" if finding.topic else None,
        "place": finding.place,
        "hmac": wanted.hmac(finding.request),
        "request": wanted.name(finding.request),
        "offset": finding.offset,
        "batchPosition": finding.batch_position,
        "kind": finding.kind,
        "rule": finding.rule,
        "goneByMs": finding.gone_by_ms,
    }


def show_forecast(
    request: Request,
    wanted: Wanted,
    partition: TopicPartition,
    forecast: LogForecast,
    deadline_ms: int | None,
) -> None:
    """Show when the keys of one log are gone. Effects: output."""
    output = request.output
    for number, time in forecast.gone_ms.items():
        output.json_object(
            {
                "topicPartition": str(partition),
                "hmac": wanted.hmac(number),
                "request": wanted.name(number),
                "needsTombstone": number in forecast.tombstones,
                "goneByMs": time,
            }
        )
    output.json_object(
        {
            "topicPartition": str(partition),
            "goneByMs": forecast.latest_ms,
            "deadlineMs": deadline_ms,
            "suggestions": {one.setting: one.value_ms for one in forecast.suggestions},
            "earliestMs": forecast.earliest_ms,
        }
    )
    output.text(
        f"{partition}: {len(forecast.gone_ms)} keys, {len(forecast.tombstones)} of them need a"
        f" tombstone. All are gone by {_instant(forecast.latest_ms) or 'no known time'}."
    )
    if deadline_ms is None:
        return
    for one in forecast.suggestions:
        output.text(f"  {one.setting}={one.value_ms} makes the deadline.")
    if not forecast.suggestions and not _makes(forecast.latest_ms, deadline_ms):
        earliest = _instant(forecast.earliest_ms) or "no known time"
        output.text(f"  No setting alone makes the deadline; all together: {earliest}.")


def _makes(time_ms: int | None, deadline_ms: int) -> bool:
    return time_ms is not None and time_ms <= deadline_ms


def _instant(time_ms: int | None) -> str | None:
    """Return a time in ISO 8601, in UTC; ms since the epoch where there is no such date."""
    if time_ms is None:
        return None
    try:
        return datetime.fromtimestamp(time_ms / 1000, tz=UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
