"""`logwright demo` with its page, in a real browser: what a newcomer sees, what an operator does.

One demo for all tests. Pictures for the README are kept in SCREENSHOTS if that is set.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.by import By

from logwright.demo.survey import survey
from tests.browser.server import REPOSITORY, demo, processes_of, until
from tests.browser.site import (
    ADD_PARTITION,
    BACKFILL,
    BACKFILL_STATUS,
    HEIGHT,
    LOW,
    Site,
    chromium,
    set_height,
)
from tests.e2e.harness import tree
from tests.fixtures import copy_before

pytestmark = [
    pytest.mark.browser,
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:::dagster.*"),
    # `make pictures` wants them all.
    *(() if "SCREENSHOTS" in os.environ else (pytest.mark.rotates(6, by="file"),)),
]

RUN_SECONDS, CLICK_SECONDS = 240, 30
ENDED = {"SUCCESS", "FAILURE", "CANCELED"}
"""A schedule may ask for a run while the pages are looked at."""
ASSET = "/assets/kafka_logs/segment_set"
LARGEST_PICTURE = 150_000

NEW_LOGS = {
    "payments-0": "basic-none",
    "payments-1": "basic-zstd",
    "payments-2": "basic-lz4",
    "users-0": "tombstones-1-first",
}
THEIR_POLICY = """\
version: 1
high_watermark: end
topics:
  - {name: payments, cleanup.policy: compact}
  - name: users
    cleanup.policy: compact
    tests:
      - expect_column_values_to_be_between: {column: tombstone_share, max_value: 0}
      - expect_column_values_to_be_between: {column: records, min_value: 1}
"""
THEIR_TEST = "expect_column_values_to_be_between(column=tombstone_share, max_value=0)"


@pytest.fixture(scope="module")
def site(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A demo that has run and serves its page, and a browser."""
    scratch = tmp_path_factory.mktemp("site")
    pictures = Path(os.environ.get("SCREENSHOTS", scratch))
    pictures.mkdir(parents=True, exist_ok=True)
    with demo(demo_home, scratch, {}) as server, chromium() as browser:
        yield Site(server, browser, pictures)


def test_a_newcomer_sees_what_the_demo_did(site: Site) -> None:
    """Lineage, every log with its figures, the checks; and nothing swept but what the demo did."""
    logs = survey(site.server.home / "kafka-logs").keys()
    # At a lower height the page draws the assets without their details.
    set_height(site.browser, HEIGHT)
    site.see(
        "/locations/logwright/asset-groups/kafka_logs/lineage",
        *("segment_set", "8 / 8 Passed", "9 partitions", "fleet_inventory", "Materialized"),
        name="lineage",
    )
    shown = site.see(
        f"{ASSET}?view=partitions&partition=customers-0",
        *("Materialized (9)", "records before", "40,000", "38,200"),
        *("data of an aborted transaction", "a transaction marker past its horizon"),
        name="partitions",
    )
    assert all(log in shown for log in logs)
    site.see(
        f"{ASSET}?view=checks&checkDetail=latest_value_per_key",
        *("Checks (8)", "blocking", "Passed", "records read back"),
        name="checks",
    )
    until("the runs to end", RUN_SECONDS, lambda: ENDED >= {run["status"] for run in site.runs()})
    assert {"SUCCESS"} == {run["status"] for run in site.runs()}
    assert 1 == len(site.runs(pipelineName="sweep"))


def test_sensors_say_why_they_do_nothing(site: Site) -> None:
    """The demo has left them on; each log's reason is on the page of the tick."""
    logs = survey(site.server.home / "kafka-logs").keys()
    for name, reason in (
        ("discovery", "9 logs, no changes"),
        ("due_logs", "countries-0: dirty ratio"),
        ("purge_due", "customers-0: 39 files, the first is due at"),
    ):
        until(f"a tick of {name}", 60, partial(site.ticks, name))
        assert "RUNNING" == site.sensor(name)["status"]
        assert reason in site.ticks(name)[-1]["skipReason"]
    set_height(site.browser, LOW)
    shown = until("the page of a tick", RUN_SECONDS, partial(tick_shown, site))
    set_height(site.browser, HEIGHT)
    assert all(f"{log}: " in shown for log in logs)


def tick_shown(site: Site) -> str | None:
    """The page of the oldest tick of `due_logs`; None if the click opened nothing.

    The table is drawn again at each tick: a click just then is lost.
    """
    site.see("/locations/logwright/sensors/due_logs", "Running", "0 runs requested")
    site.click("(//table//*[text()='0 runs requested'])[last()]")
    try:
        return site.shows("countries-0: dirty ratio", name="sensor", seconds=CLICK_SECONDS)
    except TimeoutException:
        return None


def test_fleet_page_has_all_logs(site: Site) -> None:
    """The demo has written it; it is a file, not a page of Dagster."""
    page = site.server.home / "dagster/storage/fleet_page/index.html"
    site.browser.get(page.as_uri())
    text = site.browser.find_element(By.TAG_NAME, "body").text
    assert all(log in text for log in survey(site.server.home / "kafka-logs"))
    assert "reclaimed in 30 d" in text
    row = site.browser.find_element(By.XPATH, "//tr[td/span[text()='starts']]").text
    assert str(site.server.home / "kafka-logs") in row
    assert "does not start" not in text
    site.picture("fleet")


def test_the_latest_state_of_a_topic_is_a_table(site: Site) -> None:
    """Its page has the number of rows, the columns and three passed checks."""
    site.see(
        "/assets/latest_state/customers",
        *("5,248", "one row for each key, without tombstones", "_source_time", "after_changes"),
        name="table",
    )


def test_an_archived_topic_shows_its_lag(site: Site) -> None:
    """The demo has written the logs into a bucket: where they are, what is missing, the check."""
    site.see(
        "/assets/archived/customers",
        *("lag offsets", "lag seconds", "bytes sent", "/bucket", "customers-2", "part: archives"),
        name="archived",
    )
    site.see("/assets/archived/customers?view=checks", "Checks (2)", "current", "objects_whole")
    assert "SUCCESS" in {run["status"] for run in site.runs(pipelineName="archived")}


def test_pictures_are_small_enough_for_the_repository(site: Site) -> None:
    """Those of the README, however often they are made."""
    sizes = {path.name: path.stat().st_size for path in site.pictures.glob("*.png")}
    assert {
        "lineage.png",
        "partitions.png",
        "checks.png",
        "sensor.png",
        "fleet.png",
        "table.png",
    } <= sizes.keys()
    assert max(sizes.values()) <= LARGEST_PICTURE, sizes


def test_an_operator_finds_new_logs_backfills_them_and_reads_why(
    site: Site, tmp_path: Path
) -> None:
    """Four logs are added; one breaks its policy: it was rolled, and is as it was. The others are
    swapped, in the same run.
    """
    site.stop("due_logs")
    add_logs(site, tmp_path)
    (change,) = site.tried("discovery")["dynamicPartitionsRequests"]
    assert list(NEW_LOGS) == change["partitionKeys"]
    (request,) = site.tried("due_logs")["runRequests"]
    assert list(NEW_LOGS) == sorted(site.swept_by(request))
    before = tree(site.server.home / "kafka-logs" / "users-0")
    run_id = backfill(site)
    after = tree(site.server.home / "kafka-logs" / "users-0")
    assert before == {name: after[name] for name in before}
    rolled = {path.split(".")[1]: content for path, content in after.items() if path not in before}
    assert dict.fromkeys(("index", "log", "timeindex"), sha256().hexdigest()) == rolled
    site.see(f"{ASSET}?view=partitions", "Failed (1)", "Materialized (12)")
    failed = site.see(
        f"{ASSET}?view=checks&checkDetail=log_profile",
        *("Failed", THEIR_TEST, "failed: observed 0.", "passed: observed ", run_id),
        name="test_of_an_entry",
    )
    assert "users-0" in failed
    (page,) = site.server.home.rglob(f"{run_id}/*/staged-profile.html")
    site.browser.get(page.as_uri())
    site.shows(their_test := f"{THEIR_TEST}, asked of name users", "users-0")
    element = site.browser.find_element(By.XPATH, f"//*[contains(text(), '{their_test}')]")
    site.browser.execute_script("arguments[0].scrollIntoView()", element)
    site.picture("data_docs")
    site.see(f"/runs/{run_id}", "quality", "swap", "QualityError")


def add_logs(site: Site, tmp_path: Path) -> None:
    """Four logs that Kafka wrote, and a policy that forbids tombstones."""
    (site.server.home / "policies" / "more.yml").write_text(THEIR_POLICY)
    for name, case in NEW_LOGS.items():
        there = site.server.home / "kafka-logs" / name
        shutil.copytree(
            copy_before(case, tmp_path / name) / "t-0", there, copy_function=shutil.copy2
        )


def backfill(site: Site) -> str:
    """A contiguous range is one run."""
    for key in NEW_LOGS:
        site.server.ask(ADD_PARTITION, repository=REPOSITORY, key=key)
    launched = site.server.ask(BACKFILL, names=list(NEW_LOGS))["launchPartitionBackfill"]
    backfill_id = launched["backfillId"]
    until(
        "the backfill",
        RUN_SECONDS,
        lambda: site.server.ask(BACKFILL_STATUS, id=backfill_id)["partitionBackfillOrError"][
            "status"
        ].startswith("COMPLETED"),
    )
    (run,) = site.runs(tags=[{"key": "dagster/backfill", "value": backfill_id}])
    assert run["status"] == "FAILURE"
    # On a busy machine Dagster has counted fewer than the run had made, right after its end.
    until("the new partitions", RUN_SECONDS, lambda: (13, 12, 1) == site.states())
    return run["runId"]


def test_ctrl_c_ends_the_page_and_leaves_nothing_running(site: Site) -> None:
    """One SIGINT ends web server, daemon and code server, with exit status 0."""
    assert len(processes_of(site.server.home)) > 1
    assert 0 == site.server.interrupt(), site.server.said.read_text()
    assert [] == processes_of(site.server.home)
