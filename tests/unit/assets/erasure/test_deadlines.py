"""What Dagster and the fleet page show of erasure requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from logwright.assets.erasure.contract import REQUESTS, broken_rules
from logwright.assets.erasure.deadlines import write_pages
from logwright.assets.erasure.report import (
    SHOWN_ROWS,
    contract_check,
    countdown_metadata,
    deadline_checks,
    doubtful_keys,
    table_row,
    topic_metadata,
)
from logwright.assets.fleet.page import fleet_html
from logwright.config.policy_models import DiskLimits
from logwright.erasure.account import Account
from logwright.erasure.case.make import pages_of_search
from logwright.erasure.landing import Refusal
from logwright.erasure.outlook.countdown import NEVER, Countdown, OpenCase, TopicCountdown
from logwright.erasure.request import Request
from logwright.resources.page import case_name

NOW_MS = 1_767_268_800_000
DAY_MS = 86_400_000
GOOD = Request(
    id="r", topics="t", hmac=bytes(32), filter=2**32 - 1, received_at_ms=1, deadline_ms=1
)
ROW = TopicCountdown(
    topic="orders",
    requests=3,
    open=2,
    records=7,
    next_deadline_ms=NOW_MS + 3 * DAY_MS,
    gone_by_ms=NOW_MS + DAY_MS,
    missed=0,
    late=0,
    state="in time",
)
MISSED = replace(ROW, topic="users", missed=1, state="missed")
LATE = replace(ROW, topic="carts", late=2, gone_by_ms=NEVER, state="will be late")
COUNTDOWN = Countdown(looked_ms=NOW_MS, requests=9, gone=4, records=21, topics=(MISSED, LATE, ROW))

PAGES = Path("/pages")
CASE = OpenCase(
    id="r-2041",
    topics="users",
    deadline_ms=NOW_MS - DAY_MS,
    records=2,
    gone_by_ms=NEVER,
    state="missed",
    next_step="Erase.",
)
COMING = replace(
    CASE, id="r/<b>", topics="regex:.*", deadline_ms=NOW_MS + 9 * DAY_MS, state="in time"
)


BREACHES: dict[str, tuple[dict[str, object], tuple[str, ...]]] = {
    "hmac is 64 hexadecimal digits": ({"hmac": bytes(31)}, ()),
    "id is not empty": ({"id": ""}, ()),
    "topics is not empty": ({"topics": ""}, ()),
    "no deadline is before its request": ({"deadline_ms": 0}, ()),
    "received_at_ms at least 0": ({"received_at_ms": -1}, ()),
    "deadline_ms at least 0": ({"deadline_ms": -1}, ("no deadline is before its request",)),
    "filter is a uint32, or -1": ({"filter": 2**32}, ()),
}
"""Rule → what breaks it, and the rules that cannot hold then either."""


def test_every_rule_of_the_contract_has_a_breach() -> None:
    """There are no other rules."""
    rules = [str(check.error) for column in REQUESTS.columns.values() for check in column.checks]
    assert sorted(BREACHES) == sorted([*rules, *(str(check.name) for check in REQUESTS.checks)])


@pytest.mark.parametrize("rule", BREACHES)
def test_contract(rule: str) -> None:
    """Each rule can be broken, and is named."""
    changed, others = BREACHES[rule]
    assert {} == broken_rules([GOOD, replace(GOOD, id="s", filter=None)])
    broken = broken_rules([replace(GOOD, **changed)])  # type: ignore[arg-type]
    assert dict.fromkeys([rule, *others], 1) == broken


def test_a_filter_below_none_is_refused() -> None:
    """-1 stands for none, and is the lowest number."""
    assert {"filter is a uint32, or -1": 1} == broken_rules([replace(GOOD, filter=-2)])


def test_an_id_is_that_of_one_request() -> None:
    """Both are counted."""
    assert {"multiple_fields_uniqueness": 2} == broken_rules([GOOD, GOOD])


def test_contract_of_two_with_one_id() -> None:
    """A request is known by its id; without requests it holds."""
    assert ["multiple_fields_uniqueness"] == list(broken_rules([GOOD, GOOD]))
    assert {} == broken_rules([])


def test_contract_check() -> None:
    """A refused row fails it, by file and line."""
    assert contract_check([], {}).passed
    failed = contract_check([Refusal(file="a.csv", line=3, problem="key is missing")], {})
    assert not failed.passed
    assert "a.csv:3: key is missing" == failed.description


def test_doubtful_keys() -> None:
    """Rows are named by file and line, and not too many."""
    doubt = Refusal(file="a.csv", line=3, problem="key has quotes around it")
    assert "none" == doubtful_keys([])
    assert "a.csv:3: key has quotes around it" == doubtful_keys([doubt])
    assert doubtful_keys([doubt] * 100).endswith("; and 80 more")


def test_checks() -> None:
    """A missed deadline is an error, a late one a warning; each names its topics."""
    met, in_time = deadline_checks(COUNTDOWN)
    assert (False, dg.AssetCheckSeverity.ERROR, "users") == (
        met.passed,
        met.severity,
        met.description,
    )
    assert (False, dg.AssetCheckSeverity.WARN, "carts") == (
        in_time.passed,
        in_time.severity,
        in_time.description,
    )
    assert all(one.passed for one in deadline_checks(replace(COUNTDOWN, topics=(ROW,))))


@pytest.mark.parametrize(("past", "topic"), [(0, "orders"), (2, "orders"), (2, "")])
def test_what_is_not_proved_does_not_pass(past: int, topic: str) -> None:
    """Neither check passes with a place that was not searched, or a request that matches no log."""
    row = replace(ROW, topic=topic, not_proved=3, past_not_proved=past, state="not proved")
    met, in_time = deadline_checks(replace(COUNTDOWN, topics=(row,)))
    assert (not past, False) == (met.passed, in_time.passed)
    assert (topic or "(no log is known)") == in_time.description
    assert 3 + row.late == in_time.metadata["requests"].value


def test_rows() -> None:
    """Times for people."""
    assert ("in 3 d", "2026-01-02 12:00Z") == (
        table_row(ROW, NOW_MS)["time left"],
        table_row(ROW, NOW_MS)["gone by"],
    )
    assert "passed" == table_row(MISSED, NOW_MS)["time left"]
    assert "never" == table_row(LATE, NOW_MS)["gone by"]
    assert "passed" == table_row(ROW, NOW_MS + 4 * DAY_MS)["time left"]
    done = replace(ROW, records=0, open=0, next_deadline_ms=NEVER, gone_by_ms=NEVER, state="gone")
    assert ("", "", "") == tuple(
        table_row(done, NOW_MS)[name] for name in ("time left", "gone by", "next deadline")
    )
    assert "next deadline" not in topic_metadata(done, NOW_MS, (), PAGES)


def test_metadata() -> None:
    """Totals, the first deadline, and a table."""
    made = countdown_metadata(COUNTDOWN, PAGES)
    assert (9, 4, 21, "2026-01-04 12:00Z") == (
        made["requests"],
        made["requests that are gone"],
        made["records that remain"],
        made["next deadline"],
    )
    assert 3 == len(made["topics"].records)


def test_fleet_page_counts_down() -> None:
    """A section with a row per topic; without requests there is none."""
    limits = DiskLimits()
    page = fleet_html([], [], [], limits=limits, now_ms=NOW_MS, countdown=COUNTDOWN)
    for text in ("Deadlines of erasure requests", "in 3 d", "users", "missed", "will be late"):
        assert text in page
    evil = replace(ROW, topic="<script>x")
    page = fleet_html(
        [], [], [], limits=limits, now_ms=NOW_MS, countdown=replace(COUNTDOWN, topics=(evil,))
    )
    assert "<script>x" not in page
    assert "&lt;script&gt;x" in page
    assert "Deadlines of erasure" not in fleet_html([], [], [], limits=limits, now_ms=NOW_MS)


def test_a_missed_deadline_names_its_requests() -> None:
    """By id, deadline and next step; those with a deadline to come are not named."""
    met, _ = deadline_checks(replace(COUNTDOWN, cases=(CASE, COMING)))
    assert "r-2041 (2025-12-31 12:00Z). Erase." == met.description
    assert 1 == met.metadata["requests overdue"]


def test_open_cases_are_in_the_metadata() -> None:
    """All of the search, and of a topic those that ask for it, each with its page."""
    made = countdown_metadata(replace(COUNTDOWN, cases=(CASE, COMING)), PAGES)
    rows = [record.data for record in made["open cases"].records]
    assert [
        ("r-2041", "passed", "never", "/pages/case-r-2041.html"),
        ("r/<b>", "in 9 d", "never", "/pages/case-r%2F%3Cb%3E.html"),
    ] == [(row["request"], row["time left"], row["gone by"], row["page"]) for row in rows]
    orders = topic_metadata(ROW, NOW_MS, (CASE, COMING), PAGES)
    assert ["r/<b>"] == [record.data["request"] for record in orders["open cases"].records]
    assert "open cases" not in topic_metadata(ROW, NOW_MS, (CASE,), PAGES)


def test_the_fleet_page_links_the_open_cases() -> None:
    """By their deadlines, with the time left and the next step; ids are escaped, in links too."""
    countdown = replace(COUNTDOWN, cases=(CASE, COMING))
    page = fleet_html([], [], [], limits=DiskLimits(), now_ms=NOW_MS, countdown=countdown)
    assert '<a href="erasure_cases/case-r-2041.html">r-2041</a>' in page
    assert '<a href="erasure_cases/case-r%252F%253Cb%253E.html">r/&lt;b&gt;</a>' in page
    assert "in 9 d" in page
    assert page.index("r-2041") < page.index("r/&lt;b&gt;")
    many = replace(countdown, cases=(CASE,) * (SHOWN_ROWS + 7))
    page = fleet_html([], [], [], limits=DiskLimits(), now_ms=NOW_MS, countdown=many)
    assert "And 7 more with later deadlines." in page


def test_pages_of_cases(tmp_path: Path) -> None:
    """One for each request; that of a request which is not stored any more is removed, another file
    is not.
    """
    (tmp_path / "case-old.html").touch()
    (tmp_path / "certified.json").touch()
    account = Account(topics=frozenset({"t"}))
    requests = [replace(GOOD, id=name) for name in ("r-1", "r/2", "x" * 300)]
    pages = pages_of_search(requests, [], [], account, now_ms=NOW_MS, version="1")
    write_pages(tmp_path, pages)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"case-r-1.html", "case-r%2F2.html", "certified.json", case_name("x" * 300)} == names
    assert "Erasure case r/2" in (tmp_path / "case-r%2F2.html").read_text()
