"""The output of ``logwright find``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from logwright.cli.request import Request
from logwright.cli.run.keys import Wanted
from logwright.cli.wording import UNFORESEEN
from logwright.erasure.account import Account
from logwright.erasure.concerned import Concerned
from logwright.erasure.find.model import Finding
from logwright.erasure.find.result import SearchResult
from logwright.erasure.outlook.removals import DELETE_RETENTION
from logwright.erasure.outlook.suggestions import LogForecast
from logwright.erasure.outlook.verdict import verdict_of
from logwright.format.names import TopicPartition
from logwright.running.place import RunningPlace
from logwright.times import duration

_MOST_ROWS: Final = 1000

_SHORT: Final = 16
_MOST_ABSENT: Final = 20


def show_findings(
    request: Request, wanted: Wanted, searched: Sequence[SearchResult], account: Account
) -> None:
    """Show all records that were found, what could not be searched, and what is on record of keys
    without records. Effects: output.
    """
    output = request.output
    rows = [_as_object(place, finding, wanted) for place in searched for finding in place.findings]
    if rows:
        output.show(
            rows if output.is_json else rows[:_MOST_ROWS],
            {
                "key": lambda row: (row["hmac"] or "")[:_SHORT],
                "file": lambda row: str(Path(row["directory"], row["path"])),
                "place": "place",
                "offset": lambda row: None if row["offset"] < 0 else row["offset"],
                "kind": lambda row: row["kind"] + (", not committed" * (row["committed"] is False)),
                "gone by": lambda row: _instant(row["goneByMs"]) or _no_date(row["rule"]),
                "rule": lambda row: row["rule"] or "nothing removes it",
            },
        )
        if len(rows) > _MOST_ROWS:
            output.text(f"… and {len(rows) - _MOST_ROWS} more: --output json prints all.")
    for place in searched:
        for part in place.unsearched:
            end = f", bytes {part.position} to {part.position + part.bytes}"
            where = f"{place.directory / part.path}{end if part.bytes >= 0 else ''}"
            output.result(
                f"not searched: {where}: {part.problem}.",
                directory=str(place.directory),
                path=part.path,
                topic=part.partition.topic or None,
                place="unreadable",
                position=part.position,
                bytes=part.bytes,
                problem=part.problem,
            )
        for partition, problem in place.undecided.items():
            output.text(f"what removes the records of {partition} is not known: {problem}")
    _show_absent(request, wanted, searched, account)
    for place in searched:
        _show_broker(request, place)
    _sum(request, wanted, searched)


def _show_absent(
    request: Request, wanted: Wanted, searched: Sequence[SearchResult], account: Account
) -> None:
    """Show of each request without a record whether its key was ever there. Effects: output."""
    requests = [wanted.keys.request(number) for number in range(len(wanted.keys))]
    concerned = Concerned([(each.hmac, each.topics) for each in requests])
    present = {
        number
        for place in searched
        for finding in place.findings
        if 0 <= finding.request < len(requests)
        for number in concerned.by(finding.request, finding.topic)
    }
    absent = [number for number in range(len(requests)) if number not in present]
    for row, number in enumerate(absent):
        hmac = requests[number].hmac.hex()
        became = verdict_of(
            requests[number].topics, hmac, (), None, account=account, now_ms=request.now_ms
        )
        partial = became.state in ("not proved", "gone as bytes")
        nothing = "nothing was found where was searched; " if partial else ""
        request.output.result(
            f"{requests[number].id}: {nothing}{became.why}." if row < _MOST_ABSENT else None,
            request=requests[number].id,
            hmac=hmac,
            state=became.state,
            why=became.why,
            otherForms=sorted(account.look(requests[number].topics, hmac).others),
        )
    for number in sorted(present):
        others = account.look(requests[number].topics, requests[number].hmac.hex()).others
        if others:
            request.output.result(
                f"{requests[number].id}: and {len(others)} other keys are the same in another form,"
                " or in a copy of the topic.",
                request=requests[number].id,
                hmac=requests[number].hmac.hex(),
                otherForms=sorted(others),
            )
    if len(absent) > _MOST_ABSENT:
        more = len(absent) - _MOST_ABSENT
        request.output.text(f"… and {more} more without a record: --output json has all.")


def _show_broker(request: Request, place: SearchResult) -> None:
    """Say of a directory that a broker has open what that means. Effects: output."""
    if not isinstance(place.directory, RunningPlace):
        return
    session = place.directory.session
    gone, seen = session.root().gone, session.passing()
    more = f" Gone before they could be opened: {', '.join(gone)}." if gone else ""
    request.output.result(
        f"{place.directory}: a broker has it open. All files were searched as they were at one"
        f" moment, {len(seen)} of them being written or about to be deleted.{more} Its own cleaner"
        " and retention remove records, logwright does not while it runs.",
        directory=str(place.directory),
        brokerRuns=True,
        passing=seen,
        goneMeanwhile=list(gone),
    )


def _sum(request: Request, wanted: Wanted, searched: Sequence[SearchResult]) -> None:
    findings = [finding for place in searched for finding in place.findings]
    requests = {finding.request for finding in findings}
    unsearched = sum(len(place.unsearched) for place in searched)
    counts = dict(sorted(Counter(finding.place for finding in findings).items()))
    files, size = sum(place.files for place in searched), sum(place.bytes for place in searched)
    keys = len(wanted.keys) + len(wanted.patterns)
    named = ", ".join(f"{count} {place}" for place, count in counts.items())
    request.output.result(
        f"{len(findings)} records of {len(requests)} of {keys} keys in {files} files"
        f" ({size} bytes)" + (f": {named}." if named else "."),
        keys=keys,
        keysFound=len(requests),
        records=len(findings),
        places=counts,
        files=files,
        bytes=size,
        unsearched=unsearched,
    )
    if unsearched:
        request.output.text(f"{unsearched} files, parts of them, or places were not searched.")


def _no_date(rule: str) -> str | None:
    """Return why there is no date, as `erase` says it."""
    return UNFORESEEN if rule == DELETE_RETENTION else None


def _as_object(place: SearchResult, finding: Finding, wanted: Wanted) -> dict[str, object]:
    return {
        "directory": str(place.directory),
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
        "committed": finding.committed,
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
        output.result(
            None,
            topicPartition=str(partition),
            hmac=wanted.hmac(number),
            request=wanted.name(number),
            needsTombstone=number in forecast.tombstones,
            goneByMs=time,
        )
    output.result(
        f"{partition}: {len(forecast.gone_ms)} keys, {len(forecast.tombstones)} of them need a"
        f" tombstone. All are gone by {_instant(forecast.latest_ms) or 'no known time'}.",
        topicPartition=str(partition),
        goneByMs=forecast.latest_ms,
        deadlineMs=deadline_ms,
        suggestions={each.setting: each.value_ms for each in forecast.suggestions},
        earliestMs=forecast.earliest_ms,
    )
    if deadline_ms is None:
        return
    for suggestion in forecast.suggestions:
        value = f"{suggestion.value_ms} ({duration(suggestion.value_ms)})"
        output.text(f"  {suggestion.setting}={value} makes the deadline.")
    if not forecast.suggestions and is_late(forecast.latest_ms, deadline_ms):
        earliest = _instant(forecast.earliest_ms) or "no known time"
        output.text(f"  No setting alone makes the deadline; all together: {earliest}.")


def is_late(time_ms: int | None, deadline_ms: int | None) -> bool:
    """Return whether what is gone by a time, never if it is None, is not gone by the deadline."""
    return deadline_ms is not None and (time_ms is None or time_ms > deadline_ms)


def _instant(time_ms: int | None) -> str | None:
    """Return a time in ISO 8601, in UTC; ms since the epoch where there is no such date."""
    if time_ms is None:
        return None
    try:
        return datetime.fromtimestamp(time_ms / 1000, tz=UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
