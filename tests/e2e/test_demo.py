"""`logwright demo --no-ui` as a newcomer runs it. With the page: tests/browser."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest

from logwright.assets.ingest import ingested
from logwright.demo.home import SETTINGS, DemoHome
from logwright.demo.landing import TOPIC
from logwright.demo.survey import survey, total
from logwright.pipelines.ingest import landing
from logwright.spark.session import TASKS_PER_CORE
from tests.e2e.harness import MARKS, NO_TELEMETRY, Platform
from tests.oracle_runner import KAFKAS, run_oracle, using
from tests.spark_events import read_event_log
from tests.table_rows import expected_rows, table_rows
from tests.tidy.trees import ROOT

pytestmark = [*MARKS, pytest.mark.oracle]

LOGWRIGHT = Path(sys.executable).with_name("logwright")
README = (ROOT / "README.md").read_text()
RUN_SECONDS = 500
DUE_LOGS = 7
CUSTOMERS = 3
STEPS = [
    "plan_sweep",
    "roll",
    "dedupe",
    "quality",
    "swap_sweep",
    "retain_logs",
    "kafka_logs__fleet_inventory",
    "kafka_logs__maintenance_history",
    "latest_state__customers",
    "kafka_logs__fleet_page",
    "latest_state__customers_rows_equal_live_keys",
    "latest_state__customers_keys_in_one_partition",
]
AT_ANY_TIME = {"kafka_logs__fleet_inventory", "kafka_logs__maintenance_history"}
"""Of the steps that run next to the table's."""


@pytest.fixture(scope="module")
def output(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What it writes to stdout; it must end by itself, with status 0."""
    done = subprocess.run(
        [LOGWRIGHT, "demo", "--no-ui", "--home", demo_home],
        cwd=tmp_path_factory.mktemp("elsewhere"),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_demo_compacts_what_kafka_then_takes(output: str, demo_home: Path) -> None:
    """Most of the log is reclaimed, and no Kafka finds anything wrong with what is left."""
    log_dir = demo_home / "kafka-logs"
    assert total(survey(log_dir)).log_bytes < 15_000_000
    of = ("--log-dir", log_dir, "--topic-partition", "customers-0", "--now", "1760000000000")
    retired = {f"left over: {path.name}" for path in (log_dir / "customers-0").glob("*.deleted")}
    for version in KAFKAS:
        with using(version):
            verified = run_oracle("verify", *of, check=False)[0]
        assert retired == set(verified["problems"])


def test_demo_says_what_it_does_what_it_reclaimed_and_why(output: str) -> None:
    """A line for each step, a row for each log, and one for each cause.

    Steps are printed in order, except some whose end Dagster's own log lost: in theirs, at last, or
    when the next one is read; and those that need nothing of each other, which run at the same
    time.
    """
    took = re.findall(r"^  (\w+) +\d+\.\d s$", output, re.MULTILINE)
    assert sorted(STEPS) == sorted(took)
    ordered = [step for step in took if step not in AT_ANY_TIME]
    places = [STEPS.index(step) for step in ordered]
    assert sum(later < earlier for earlier, later in pairwise(places)) <= 2
    assert re.search(r"customers-0 +10 → 2 +20\.80 → 0\.\d\d +95% +dirty ratio 1\.00", output)
    assert re.search(r"countries-0 .* not due +dirty ratio 0\.00", output)
    assert re.search(r"consents-0 .* compaction lag", output)
    assert re.search(r"clicks-0 +\d+ → \d .* retention", output)
    by_cause = {
        cause: int(number.replace(",", ""))
        for cause, number in re.findall(r"^  (\S.*\S) +([\d,]+) +[\d.]+% *$", output, re.MULTILINE)
    }
    assert by_cause.pop("left") > 0
    assert {
        "a later record has the same key",
        "a tombstone past its horizon",
        "no key",
        "data of an aborted transaction",
        "a transaction marker past its horizon",
    } == by_cause.keys()
    assert by_cause["a later record has the same key"] > 100_000
    assert by_cause["a tombstone past its horizon"] == 5


def test_page_of_all_logs(output: str, demo_home: Path) -> None:
    """The last lines have its path, and it has every log."""
    (page,) = re.findall(r"^All logs: +(.+)$", output, re.MULTILINE)
    text = Path(page).read_text()
    assert all(log in text for log in survey(demo_home / "kafka-logs"))


def test_sparks_event_log_shows_the_tasks_that_did_the_work(output: str) -> None:
    """Building, examining and the contract of the customers' values are a job each, with a task for
    each log until the cores are full.
    """
    (path,) = re.findall(r"^Spark's tasks: (.+)$", output, re.MULTILINE)
    log = read_event_log(Path(path))
    assert log.failed_jobs == frozenset()
    assert all(task.succeeded for task in log.tasks)
    sweeps = [job for job, line in log.jobs.items() if "logwright/spark/sweep.py" in line]
    most = TASKS_PER_CORE * (os.cpu_count() or 1)
    expected = [min(logs, most) for logs in (DUE_LOGS, DUE_LOGS, CUSTOMERS)]
    assert expected == [len(log.tasks_of(job)) for job in sweeps]
    assert all(sum(task.run_ms for task in log.tasks_of(job)) > 0 for job in sweeps)


@pytest.mark.usefixtures("output")
def test_retention_leaves_what_the_topic_may_hold(demo_home: Path) -> None:
    """The oldest segments of the log that is not compacted go, until one less would be below
    retention.bytes.
    """
    most = int(json.loads(SETTINGS.read_text())["topics"]["clicks"]["retention.bytes"])
    log_dir = demo_home / "kafka-logs"
    left = sorted((log_dir / "clicks-0").glob("*.log"))
    size = sum(path.stat().st_size for path in left)
    assert most <= size < most + left[0].stat().st_size
    assert list((log_dir / "clicks-0").glob("*.log.deleted"))


@pytest.mark.usefixtures("output")
def test_plan_and_inspect_know_the_demos_topics(demo_home: Path) -> None:
    """On its directory, without more: no policy is unknown, and nothing that was swept is due."""
    text = {
        command: subprocess.run(
            [LOGWRIGHT, command, demo_home / "kafka-logs"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for command in ("plan", "inspect")
    }
    for command, expected in (
        ("plan", r"^clicks-0 +delete .* not due: segment [0-9]+ stays: "),
        ("plan", r"^countries-0 +compact .* not due: dirty ratio 0.00 of 0.50$"),
        ("inspect", r"^customers-0 +compact .* 39 files, [0-9.]+ MiB, purge(?:d from| due since) "),
    ):
        assert re.search(expected, text[command], re.MULTILINE), text[command]
    assert "unknown" not in text["plan"] + text["inspect"]
    assert "purge removes" not in text["plan"], "the demo's policies keep retired files for an hour"


@pytest.mark.rotates(4)
@pytest.mark.usefixtures("output")
def test_files_that_have_landed_are_taken_in(demo_home: Path) -> None:
    """The sensor asks for them, the asset appends them to a topic of the demo's policies, and then
    there is nothing new.
    """
    home = DemoHome(root=demo_home)
    platform = Platform(
        log_dir=home.log_dir,
        policies=home.policies,
        home=home.instance,
        instance=dg.DagsterInstance.local_temp(str(home.instance), overrides=NO_TELEMETRY),
        now_ms=json.loads(SETTINGS.read_text())["now"],
    )
    with platform.instance:
        assert ["3"] == [tags["logwright/files"] for tags in asked(platform)]
        done = dg.materialize(
            [ingested], instance=platform.instance, resources=platform.resources()
        )
        assert done.success
        (event,) = done.asset_materializations_for_node("kafka_logs__ingested")
        assert (600, 3) == (event.metadata["records"].value, event.metadata["files"].value)
        assert [] == asked(platform)
    sizes = survey(home.log_dir)
    assert {f"{TOPIC}-0", f"{TOPIC}-1"} < sizes.keys()
    assert sizes[f"{TOPIC}-0"].log_bytes > 0


def asked(platform: Platform) -> list[dict[str, str]]:
    """The tags of the runs that the sensor `landing` asks for."""
    with dg.build_sensor_context(
        instance=platform.instance, resources=platform.resources()
    ) as context:
        return [dict(run.tags) for run in landing.evaluate_tick(context).run_requests or ()]


def test_customers_are_a_table(output: str, demo_home: Path) -> None:
    """The line has its path; the README's command reads it, one row for each live key; the asset's
    page has a preview and passed checks.
    """
    (path,) = re.findall(r"^Latest state of customers: (.+)$", output, re.MULTILINE)
    assert demo_home / "tables/customers" == Path(path)
    expected = expected_rows(demo_home / "kafka-logs", "customers")
    assert [row[:3] for row in expected] == [
        (partition, offset, key)
        for partition, offset, key in table_rows("parquet", Path(path), ["_key"])
    ]
    (line,) = re.findall(r"^\.venv/bin/python (-c .+)$", README, re.MULTILINE)
    shown = subprocess.run(
        [sys.executable, *shlex.split(line.replace("logwright-demo", str(demo_home)))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.search(rf"\b{len(expected)} rows\b", shown.replace(",", ""))
    with dg.DagsterInstance.from_config(str(demo_home / "dagster")) as instance:
        event = instance.get_latest_materialization_event(
            dg.AssetKey(["latest_state", "customers"])
        )
    assert event is not None
    assert event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    assert len(expected) == metadata["dagster/row_count"].value
    assert "Customer " in str(metadata["preview"].value)
