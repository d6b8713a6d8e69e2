"""Data Docs in a real browser that reaches no other machine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from logwright.assets.segments.expectations import Suite, profile_verdicts, with_limits
from logwright.assets.segments.profile import log_profiles
from logwright.checks.model import OutputFacts, SegmentFacts
from logwright.config.policy_models import Expectations
from tests.browser.accessible import LOOKS, Look, open_page
from tests.browser.site import chromium

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore:::great_expectations.*"),
]

SEGMENT = SegmentFacts(
    topic_partition="",
    base_offset=100,
    log_bytes=1_000,
    batches=2,
    records=4,
    tombstones=1,
    null_key_records=0,
    first_null_key_offset=-1,
    first_offset=100,
    last_offset=110,
    max_codec=4,
    min_timestamp_ms=5,
    max_timestamp_ms=6,
    largest_batch_bytes=600,
    index_entries=1,
    timeindex_entries=1,
    misplaced_index_entries=0,
)
SHOWN = """return [...document.querySelectorAll("td i.fas, td span.fas")].map(
    icon => getComputedStyle(icon, "::before").content)"""

CONTRASTS = """const light = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map(part =>
    part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
const below = each => { const own = getComputedStyle(each).backgroundColor;
    return own !== "rgba(0, 0, 0, 0)" ? own : each.parentElement ? below(each.parentElement)
        : "rgb(255, 255, 255)"; };
return [...document.querySelectorAll("td i.fas, td span.fas, td, th, h4, .alert")].map(each => {
    const icon = each.classList.contains("fas") ? "::before" : null;
    const both = [light(getComputedStyle(each, icon).color), light(below(each))];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05); })"""
"""The contrast of each word with the colour that it stands on, by WCAG; axe leaves these out."""
READABLE = 4.5


def page(storage: Path) -> Path:
    """The page of a run whose only log has fewer records than were written."""
    output = OutputFacts(
        topic_partition="",
        plan_id="",
        checks=(),
        segments=(SEGMENT,),
        source_records=10,
        source_bytes=2_000,
        expected_records=5,
        expected_bytes=1_000,
    )
    policy = Expectations()
    sizes = {"orders-0": 1_000_000}
    profiles = with_limits(
        log_profiles({"orders-0": output}), policy=policy, max_message_bytes=sizes
    )
    suite = Suite(policy=policy, entries=(), severities={"orders-0": "ERROR"})
    return profile_verdicts(profiles, suite=suite, storage=storage, run_name="run").page


def test_a_page_shows_without_the_internet_what_failed(tmp_path: Path) -> None:
    """Each expectation has a word where Great Expectations has an icon of another machine's."""
    with chromium() as browser:
        browser.execute_cdp_cmd("Network.enable", {})
        browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["http://*", "https://*"]})
        browser.get(page(tmp_path).as_uri())
        words = Counter(word.strip('"') for word in browser.execute_script(SHOWN))
    assert {"passed": 7, "failed": 1} == words


@pytest.mark.parametrize("look", LOOKS[:2], ids=lambda look: look.colours)
def test_a_page_has_contrast_without_the_internet(tmp_path: Path, look: Look) -> None:
    """Great Expectations' own tables are dark for who prefers that; so is the page around them."""
    with chromium() as browser:
        browser.execute_cdp_cmd("Network.enable", {})
        browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["http://*", "https://*"]})
        open_page(browser, page(tmp_path).as_uri(), look)
        contrasts = browser.execute_script(CONTRASTS)
    assert len(contrasts) > 20
    assert min(contrasts) >= READABLE
