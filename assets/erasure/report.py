"""What Dagster shows of erasure requests and their deadlines: counts and times. Pure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import dagster as dg

from logwright.assets.lib.human import human_time
from logwright.assets.lib.report import rows_table
from logwright.erasure.landing import Refusal
from logwright.erasure.outlook.countdown import NEVER, Countdown, OpenCase, TopicCountdown
from logwright.erasure.request import applies_to
from logwright.resources.page import CASES, case_name
from logwright.times import duration

CONTRACT: Final = "contract"
MET: Final = "no_deadline_missed"
IN_TIME: Final = "all_in_time"
SHOWN_ROWS: Final = 500
SHOWN_DOUBTS: Final = 20
NAMED_REQUESTS: Final = 10
"""Maximum requests in a check's description; its table has more."""
NO_TOPIC: Final = "(no log is known)"
"""Of requests that match no topic, and of records whose topic is not known."""
ATTENTION: Final = frozenset(("missed", "will be late", "not proved"))

_COLUMNS: Final = dg.TableSchema(
    columns=[
        dg.TableColumn(name, kind, description=description)
        for name, kind, description in (
            ("topic", "string", "of the log, or of the requests that match no log"),
            ("state", "string", "the worst of its requests"),
            ("next deadline", "string", "to come, of open requests, UTC"),
            ("time left", "string", "until the next deadline"),
            ("requests", "int", "that name the topic or match it"),
            ("open", "int", "requests of which something remains, or may"),
            ("records", "int", "that remain"),
            ("gone by", "string", "when the last record is gone by itself, UTC"),
            ("missed", "int", "requests whose deadline has passed while records remain"),
            ("will be late", "int", "requests whose deadline passes before all is gone"),
            ("not proved", "int", "requests of which something may remain that was not searched"),
        )
    ]
)


def time_left(row: TopicCountdown, now_ms: int) -> str:
    """Return the time to a topic's next deadline for people."""
    if row.missed:
        return "passed"
    if row.next_deadline_ms == NEVER:
        return ""
    left_ms = row.next_deadline_ms - now_ms
    return f"in {duration(left_ms)}" if left_ms > 0 else "passed"


def gone_by(row: TopicCountdown) -> str:
    """Return when the last record of a topic is gone by itself, for people."""
    if not row.records:
        return ""
    return "never" if row.gone_by_ms == NEVER else human_time(row.gone_by_ms)


def table_row(row: TopicCountdown, now_ms: int) -> dict[str, Any]:
    """Return the row of a topic, as tables and pages show it."""
    return {
        "topic": row.topic or NO_TOPIC,
        "state": row.state,
        "next deadline": human_time(row.next_deadline_ms),
        "time left": time_left(row, now_ms),
        "requests": row.requests,
        "open": row.open,
        "records": row.records,
        "gone by": gone_by(row),
        "missed": row.missed,
        "will be late": row.late,
        "not proved": row.not_proved,
    }


def case_row(case: OpenCase, now_ms: int) -> dict[str, Any]:
    """Return the row of an open case, as tables and pages show it."""
    left_ms = case.deadline_ms - now_ms
    gone = human_time(case.gone_by_ms) or "never" if case.records else ""
    return {
        "request": case.id,
        "state": case.state,
        "deadline": human_time(case.deadline_ms),
        "time left": f"in {duration(left_ms)}" if left_ms > 0 else "passed",
        "records": case.records,
        "gone by": gone,
        "next step": case.next_step,
    }


def case_rows(countdown: Countdown | None, now_ms: int) -> list[dict[str, Any]]:
    """Return the rows of the open cases on the fleet page, by their deadlines, each with the link
    to its page.
    """
    cases = () if countdown is None else countdown.cases[:SHOWN_ROWS]
    return [
        {name.replace(" ", "_"): value for name, value in case_row(case, now_ms).items()}
        | {"bad": case.state in ATTENTION, "link": f"{CASES}/{quote(case_name(case.id))}"}
        for case in cases
    ]


def countdown_rows(countdown: Countdown | None, now_ms: int) -> list[dict[str, Any]]:
    """Return the rows of the fleet page: those that need attention first."""
    if countdown is None:
        return []
    return [
        {name.replace(" ", "_"): value for name, value in table_row(row, now_ms).items()}
        | {"bad": row.state in ATTENTION, "late": row.late}
        for row in countdown.topics[:SHOWN_ROWS]
    ]


def countdown_metadata(countdown: Countdown, pages: Path) -> dict[str, Any]:
    """Return the metadata of a search; `pages`: the directory of the cases' pages."""
    rows = countdown.topics
    coming = [row.next_deadline_ms for row in rows if row.next_deadline_ms != NEVER]
    return {
        "dagster/row_count": len(rows),
        "requests": countdown.requests,
        "requests that are gone": countdown.gone,
        "requests of which nothing is on record": countdown.not_found,
        "records that remain": countdown.records,
        "places that were not searched": countdown.not_read,
        "next deadline": human_time(min(coming, default=NEVER)) or "none",
        "pages of the cases": dg.MetadataValue.path(str(pages)),
        **_cases_metadata(countdown.cases, countdown.looked_ms, pages),
        "topics": dg.MetadataValue.table(
            [dg.TableRecord(table_row(row, countdown.looked_ms)) for row in rows[:SHOWN_ROWS]],
            schema=_COLUMNS,
        ),
    }


def _cases_metadata(cases: Sequence[OpenCase], now_ms: int, pages: Path) -> dict[str, Any]:
    """Return the table of open cases, each with its page; nothing without one."""
    rows = [
        case_row(case, now_ms) | {"page": str(pages / case_name(case.id))}
        for case in cases[:SHOWN_ROWS]
    ]
    return {"open cases": rows_table(rows, most=SHOWN_ROWS)} if rows else {}


def topic_metadata(
    row: TopicCountdown, now_ms: int, cases: Sequence[OpenCase], pages: Path
) -> dict[str, Any]:
    """Return the metadata of one topic's deadline.

    Args:
        cases: all that are open. pages: the directory of their pages.
    """
    shown = table_row(row, now_ms)
    shown |= _cases_metadata(
        [case for case in cases if applies_to(case.topics, row.topic)], now_ms, pages
    )
    del shown["topic"]
    if row.next_deadline_ms != NEVER:
        shown["next deadline"] = dg.MetadataValue.timestamp(row.next_deadline_ms / 1000)
    return {name: value for name, value in shown.items() if value != ""}


def deadline_checks(countdown: Countdown) -> list[dg.AssetCheckResult]:
    """Return the checks: no deadline has passed while something remains, or may, an error; and none
    will, a warning.
    """
    met = _check(MET, countdown.missed, dg.AssetCheckSeverity.ERROR, ("missed", "past_not_proved"))
    if countdown.overdue:
        met = met._replace(
            description=_overdue_sentence(countdown),
            metadata={**met.metadata, **_overdue_metadata(countdown)},
        )
    return [
        met,
        _check(IN_TIME, countdown.late, dg.AssetCheckSeverity.WARN, ("late", "not_proved")),
    ]


def _overdue_sentence(countdown: Countdown) -> str:
    """Return which requests are overdue, since when, and what to do."""
    rows = countdown.overdue
    named = ", ".join(f"{row.id} ({human_time(row.deadline_ms)})" for row in rows[:NAMED_REQUESTS])
    more = len(rows) - NAMED_REQUESTS
    steps = dict.fromkeys(row.next_step for row in rows[:NAMED_REQUESTS])
    return f"{named}{f' and {more:,} more' if more > 0 else ''}. {' '.join(steps)}"


def _overdue_metadata(countdown: Countdown) -> dict[str, Any]:
    rows = [case_row(case, countdown.looked_ms) for case in countdown.overdue]
    return {
        "requests overdue": len(rows),
        "overdue": rows_table(rows, most=SHOWN_ROWS),
    }


def _check(
    name: str,
    rows: Sequence[TopicCountdown],
    severity: dg.AssetCheckSeverity,
    counts: Sequence[str],
) -> dg.AssetCheckResult:
    named = ", ".join(row.topic or NO_TOPIC for row in rows[:SHOWN_ROWS])
    return dg.AssetCheckResult(
        check_name=name,
        passed=not rows,
        severity=severity,
        description=named,
        metadata={
            "topics": len(rows),
            "requests": sum(getattr(row, count) for row in rows for count in counts),
        },
    )


def doubtful_keys(doubts: Sequence[Refusal]) -> str:
    """Return the rows whose key may not be the one that is meant, by file and line."""
    named = "; ".join(map(str, doubts[:SHOWN_DOUBTS]))
    more = len(doubts) - SHOWN_DOUBTS
    return (named or "none") + (f"; and {more} more" if more > 0 else "")


def contract_check(refused: Sequence[Refusal], broken: Mapping[str, int]) -> dg.AssetCheckResult:
    """Return the check of the requests: refused rows by file and line, and rules that stored ones
    break.
    """
    rows = [
        {"file": refusal.file, "line": refusal.line, "problem": refusal.problem}
        for refusal in refused[:SHOWN_ROWS]
    ]
    metadata: dict[str, Any] = {"rows refused": len(refused), "rules broken": len(broken)}
    if rows:
        metadata["refused"] = rows_table(rows, most=SHOWN_ROWS)
    if broken:
        metadata["broken"] = dg.MetadataValue.json(dict(broken))
    return dg.AssetCheckResult(
        check_name=CONTRACT,
        passed=not refused and not broken,
        severity=dg.AssetCheckSeverity.ERROR,
        description="; ".join([*map(str, refused[:SHOWN_ROWS]), *broken]),
        metadata=metadata,
    )
