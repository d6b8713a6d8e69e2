"""The fleet page: what it shows, in which order, and that it needs nothing from elsewhere."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By

from logwright.assets.fleet.page import (
    DAYS,
    SHOWN_LOGS,
    days_of,
    deadline_counts,
    fleet_html,
    passed_horizons,
    ratio_counts,
    shown_rows,
    tiles,
)
from logwright.assets.lib.human import human_bytes, human_time, unit_of
from logwright.config.policy_models import DiskLimits
from logwright.fleet.model import DirectorySpace
from logwright.fleet.starts import RUNS
from tests.browser.site import chromium

NOW_MS = 1_767_268_800_000
"""2026-01-01T12:00Z."""
HOUR_MS = 3_600_000
ROW: dict[str, Any] = {
    "log": "t-0",
    "state": "in order",
    "segments": 3,
    "bytes": 1000,
    "log_start_offset": 0,
    "log_end_offset": 9,
    "dirty_ratio": 0.25,
    "min_dirty_ratio": 0.5,
    "due_at_ms": -1,
    "paused": "",
    "quarantined": "",
    "stray": "",
    "policy": "compact",
    "why": "dirty ratio 0.25",
    "compaction_delay_ms": 0,
    "log_dir": "/logs",
}
SPACE = DirectorySpace(
    name="logs",
    log_dir=Path("/logs"),
    total_bytes=1000,
    free_bytes=50,
    retired_bytes=100,
    retired_due_bytes=10,
)
NEXT: dict[str, Any] = {
    "looked_ms": NOW_MS - 7_200_000,
    "start": "starts, and loses records",
    "start_why": "/logs/t-0: cut: it is torn.",
    "rescue_bytes": 2048,
    "rescue": "retention 2.0 KiB",
}
EVIL = '<script>alert("x")</script><img src=http://example.com/x>'


def saved(
    operation: str, before: int | None, after: int | None, days_ago: int = 0
) -> dict[str, Any]:
    """A row of the history."""
    at = datetime.fromtimestamp(NOW_MS / 1000, tz=UTC) - timedelta(days=days_ago)
    return {
        "log": "logs:t-0",
        "operation": operation,
        "started_at": at,
        "delete_horizon": None,
        "bytes_before": before,
        "bytes_after": after,
    }


def html(rows: list[dict[str, Any]], history: list[dict[str, Any]] | None = None) -> str:
    return fleet_html(rows, [SPACE], history or [], limits=DiskLimits(), now_ms=NOW_MS)


class _Tags(HTMLParser):
    """Collects tags, and the values of the attributes that a browser would load."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loaded += [
            str(value)
            for name, value in attrs
            if name in {"src", "href", "xlink:href", "data", "action"}
        ]


@pytest.mark.parametrize("count", [0, 1, 9, 2000])
def test_page_needs_nothing_from_elsewhere(count: int) -> None:
    """No script, and references only to parts of itself; also for no log and for many."""
    rows = [ROW | {"log": f"t-{number}", "bytes": number} for number in range(count)]
    page = html(rows, [saved("clean", 10**9, 10**8), saved("purge", 10**9, 0, days_ago=3)])
    tags = _Tags()
    tags.feed(page)
    assert not tags.tags & {"script", "link", "iframe", "object", "embed", "img", "image"}
    assert all(one.startswith("#") for one in tags.loaded), tags.loaded
    assert not re.search(r"url\((?!#)|@import", page)
    assert 4 == page.count("<svg")
    assert ("of 2,000 logs" in page) == (count > SHOWN_LOGS)


def test_everything_is_escaped() -> None:
    """Texts of rows, directories and errors, in the table and in the plots."""
    evil = ROW | {"log": f"t{EVIL}-0", "why": EVIL, "paused": EVIL, "policy": EVIL}
    spaces = [
        DirectorySpace(name="d", log_dir=Path(f"/{EVIL}"), problem=EVIL),
        DirectorySpace(name="e", log_dir=Path(f"/{EVIL}"), total_bytes=1),
    ]
    directories = {name: NEXT | {"start_why": EVIL, "rescue": EVIL} for name in "de"}
    page = fleet_html(
        [evil], spaces, [], limits=DiskLimits(), now_ms=NOW_MS, directories=directories
    )
    tags = _Tags()
    tags.feed(page)
    assert not tags.tags & {"script", "img"}
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("row", "shown", "bad"),
    [
        (NEXT, ["starts, and loses records", NEXT["start_why"], "2.0 KiB at most: reten"], True),
        (NEXT | {"start": "not known"}, ["not known"], True),
        (NEXT, [human_time(NOW_MS - 7_200_000)], True),
        ({"name": "logs"}, ["not judged"], False),
        (NEXT | {"start": "starts", "start_why": ""}, [">starts<"], False),
        (
            NEXT | {"start": "not judged", "start_why": RUNS, "rescue_bytes": -1, "rescue": RUNS},
            ["not judged", f'<td class="why">{RUNS}</td><td>{RUNS}</td>'],
            False,
        ),
        (None, ["not judged"], False),
    ],
)
def test_next_starts(row: dict[str, Any] | None, shown: list[str], bad: bool) -> None:
    """Of each log directory, and what a rescue would free; without an inventory nothing is said."""
    space = replace(SPACE, free_bytes=900)
    directories = {} if row is None else {"logs": row}
    page = fleet_html([], [space], [], limits=DiskLimits(), now_ms=NOW_MS, directories=directories)
    part = page[page.index("Next starts") : page.index("Fleet</h2>")]
    assert [] == [text for text in shown if text not in part]
    assert bad == ('tr class="bad"' in part)


def test_plots_refer_to_their_own_parts() -> None:
    """What a plot refers to is in it, and no other plot has a part of that id."""
    svgs = re.findall(r"<svg.*?</svg>", html([ROW], [saved("clean", 5, 1)]), re.DOTALL)
    referred = [set(re.findall(r"(?:url\(|href=\")#([\w-]+)", svg)) for svg in svgs]
    defined = [set(re.findall(r' id="([^"]+)"', svg)) for svg in svgs]
    assert all(referred)
    for number, names in enumerate(referred):
        assert [number] * len(names) == [
            place for name in names for place, ids in enumerate(defined) if name in ids
        ]


def test_order_of_the_logs() -> None:
    """Overdue, refused or held, due, dirtiest, largest."""
    rows = [
        ROW | {"log": "small"},
        ROW | {"log": "deleted", "policy": "delete", "dirty_ratio": 1.0, "bytes": 1500},
        ROW | {"log": "large", "bytes": 2000},
        ROW | {"log": "dirty", "dirty_ratio": 0.4},
        ROW | {"log": "due", "state": "due"},
        ROW | {"log": "refused", "state": "refused"},
        ROW | {"log": "overdue", "compaction_delay_ms": 5},
    ]
    assert ["overdue", "refused", "due", "dirty", "large", "small", "deleted"] == [
        row["log"] for row in shown_rows(rows)
    ]


def test_deadlines_and_ratios() -> None:
    """Each log is in one class."""
    rows = [
        ROW | {"due_at_ms": NOW_MS + left_ms, "dirty_ratio": ratio}
        for left_ms, ratio in ((-5, 0.0), (HOUR_MS, 0.19), (HOUR_MS + 1, 0.2), (10**12, 1.0))
    ]
    counts = deadline_counts([*rows, ROW | {"policy": "delete"}], NOW_MS)
    assert {"passed": 1, "in 1 h": 1, "in 6 h": 1, "later": 1, "no deadline": 1} == {
        name: count for name, count in counts.items() if count
    }
    assert [1, 1, 1, 0, 0, 0, 0, 0, 0, 1] == ratio_counts([*rows, ROW | {"policy": "delete"}])


def test_days() -> None:
    """The last days, also those without maintenance; older rows and unknown sizes do not count."""
    history = [
        saved("clean", 100, 40),
        saved("retain", 10, 3),
        saved("purge", 50, 1, days_ago=1),
        saved("recover", None, None),
        saved("clean", 1000, 0, days_ago=DAYS),
    ]
    days = days_of(history, date(2026, 1, 1))
    assert DAYS == len(days)
    assert [(0, 0, 49), (60, 7, 0)] == [
        (day.reclaimed, day.retained, day.freed) for day in days[-2:]
    ]
    assert not any(day.reclaimed for day in days[:-1])


def test_tiles() -> None:
    """What needs attention is marked."""
    rows = [ROW | {"compaction_delay_ms": 3 * HOUR_MS, "paused": "by ann", "due_at_ms": NOW_MS + 5}]
    shown = {title: (value, bad) for title, value, bad in tiles(rows, [SPACE], [], [], NOW_MS)}
    assert ("1, up to 3 h", True) == shown["over compaction lag"]
    assert ("1", True) == shown["paused"]
    assert ("0", False) == shown["refused"]
    assert ("100 B", False) == shown["wait for a purge"]
    assert "low on space" in html(rows)


def test_logs_past_their_delete_horizon() -> None:
    """By each log's newest cleaning; a purge after it says nothing, nor a log that is gone."""

    def cleaned(log: str, days_ago: int, horizon_ms: int | None) -> dict[str, Any]:
        at = None if horizon_ms is None else datetime.fromtimestamp(horizon_ms / 1000, tz=UTC)
        return saved("clean", 2, 1, days_ago) | {"log": log, "delete_horizon": at}

    history = [
        cleaned("logs:a-0", 3, NOW_MS - 5 * HOUR_MS),
        cleaned("logs:a-0", 2, NOW_MS - 3 * HOUR_MS),
        cleaned("logs:b-0", 4, NOW_MS - 9 * HOUR_MS),
        cleaned("logs:b-0", 2, None),
        cleaned("logs:c-0", 2, NOW_MS + HOUR_MS),
        cleaned("logs:d-0", 2, NOW_MS),
        cleaned("logs:gone-0", 2, NOW_MS - 9 * HOUR_MS),
        saved("purge", 2, 1, 0) | {"log": "logs:a-0"},
    ]
    rows = [ROW | {"log": f"logs:{name}-0"} for name in "abcd"]
    assert (2, 3 * HOUR_MS) == passed_horizons(rows, history, NOW_MS)
    assert (0, 0) == passed_horizons(rows, [], NOW_MS)
    assert "2, up to 3 h" in html(rows, history)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (2**50, "1.0 PiB")]
)
def test_sizes(count: int, text: str) -> None:
    """Binary units."""
    assert text == human_bytes(count)
    unit, size = unit_of(count)
    assert text.endswith(unit)
    assert count / size < 1024


def test_times() -> None:
    """To the minute."""
    assert ["2026-01-01 12:00Z", "", "after the year 9999"] == [
        human_time(time) for time in (NOW_MS, -1, 2**62)
    ]


@pytest.mark.browser
def test_a_browser_shows_it(tmp_path: Path) -> None:
    """From a file: the texts are visible, plots have a size, and nothing is wider than the page."""
    rows = [
        ROW | {"log": f"<b>topic-of-some-length</b>.{number}-0", "bytes": 10**number}
        for number in range(9)
    ]
    path = tmp_path / "index.html"
    path.write_text(html(rows, [saved("clean", 10**9, 10**8)]))
    with chromium() as browser:
        browser.get(path.as_uri())
        text = browser.find_element(By.TAG_NAME, "body").text
        assert "Kafka logs at rest" in text
        assert "<b>topic-of-some-length</b>.8-0" in text
        assert "low on space" in text
        sizes = [svg.size for svg in browser.find_elements(By.TAG_NAME, "svg")]
        assert 4 == len(sizes)
        assert all(size["width"] > 300 and size["height"] > 150 for size in sizes)
        script = "return document.documentElement.scrollWidth - window.innerWidth"
        assert 0 >= browser.execute_script(script)
        assert [] == [one for one in browser.get_log("browser") if one["level"] == "SEVERE"]
