"""Metrics for Prometheus: names, values, text, file, HTTP, the page and the dashboard."""

from __future__ import annotations

import json
import re
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from logwright.config.policies import Policies
from logwright.config.sources import DirectorySettings
from logwright.errors import CorruptBatch
from logwright.fleet.model import Fleet
from logwright.fleet.observe import observe_fleet
from logwright.format.names import TopicPartition
from logwright.metrics.export import serve_metrics, text_of, write_metrics
from logwright.metrics.names import LEFT_OUT, METRICS
from logwright.metrics.values import LastSweep, last_sweep, metric_values
from logwright.state.hold import quarantine_failure
from logwright.units import TimestampMs
from tests.fixtures import copy_before, description, settings
from tests.unit.cli.conftest import Call, call
from tests.unit.history.test_store import DAY_MS, NOON_MS, ROW, write_history

__all__ = ["call"]
DOCS = Path(__file__).parents[3] / "docs"
CASE = "lag-max-2-breached"
T0 = TopicPartition("t", 0)
LAST = LastSweep(
    ended_at_ms=1_000,
    bytes_read=200,
    bytes_written=50,
    max_clean_seconds=1.5,
    overdue=2,
    max_delay_ms=70,
)


def jmx_name(mbean: str) -> str:
    """The name that the JMX exporter gives an MBean, of its type and name."""
    matched = re.fullmatch(r"kafka\.(\w+):type=(\w+),name=([\w-]+)", mbean)
    assert matched is not None, mbean
    return "_".join(["kafka", *matched.groups()]).replace("-", "_").lower()


def observed(log_dir: Path, defaults: dict[str, str], now_ms: int) -> Fleet:
    """The fleet of one directory."""
    policies = Policies(defaults=defaults, high_watermark="end")
    return observe_fleet({"d": log_dir}, DirectorySettings(policies), now_ms=TimestampMs(now_ms))


def configs(name: str) -> dict[str, str]:
    """The settings of a case, by name."""
    pairs = [one for one in settings(name) if "=" in str(one)]
    return dict(str(one).split("=", 1) for one in pairs)


def parsed(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Name → values of the labels → value, as Prometheus reads the text."""
    return {
        family.name: {tuple(one.labels.values()): one.value for one in family.samples}
        for family in text_string_to_metric_families(text)
    }


def with_brokers(fleet: Fleet) -> Fleet:
    """The fleet, if a broker ran on each directory: only then there is each metric."""
    spaces = (replace(one, running=True, high_watermark_ms=1) for one in fleet.spaces)
    return replace(fleet, spaces=tuple(spaces))


@pytest.fixture
def breached(tmp_path: Path) -> tuple[Fleet, dict[str, Any]]:
    """A log whose max.compaction.lag.ms is exceeded, and Kafka's plan of it."""
    case = description(CASE)
    return observed(copy_before(CASE, tmp_path), configs(CASE), case["now"]), case["plan"]


def test_names_are_the_jmx_exporters() -> None:
    """By its usual rule; metrics of logwright have its own prefix."""
    for metric in METRICS:
        expected = jmx_name(metric.mbean) if metric.mbean else metric.name
        assert expected == metric.name
        assert metric.name.startswith("kafka_log_" if metric.mbean else "logwright_")
    assert not LEFT_OUT.keys() & {metric.mbean for metric in METRICS}


def test_values_are_those_of_kafkas_plan(breached: tuple[Fleet, dict[str, Any]]) -> None:
    """The largest ratio and delay, and the log's size and offsets."""
    fleet, kafkas = breached
    samples = parsed(text_of(metric_values(fleet)))
    (partition,) = kafkas["partitions"]
    ratio = samples["kafka_log_logcleanermanager_max_dirty_percent"][()]
    assert int(100 * partition["cleanableRatio"]) == ratio
    delay = samples["kafka_log_logcleaner_max_compaction_delay_secs"][()]
    assert kafkas["maxCompactionDelayMs"] // 1000 == delay
    (space,) = fleet.spaces
    label = (str(space.log_dir), "0", "t")
    sizes = [path.stat().st_size for path in (space.log_dir / "t-0").glob("*.log")]
    assert {label: sum(sizes)} == samples["kafka_log_log_size"]
    assert {label: len(sizes)} == samples["kafka_log_log_numlogsegments"]
    assert {(str(space.log_dir),): 1.0} == samples["logwright_due_logs"]
    assert 0 < samples["logwright_log_directory_free_bytes"][(str(space.log_dir),)]


def test_every_metric_can_be_exported(breached: tuple[Fleet, dict[str, Any]]) -> None:
    """With the labels that the table has, and no other metric; some only of a running broker."""
    values = metric_values(with_brokers(breached[0]), LAST)
    names = {
        family.name: {tuple(one.labels) for one in family.samples}
        for family in text_string_to_metric_families(text_of(values))
    }
    assert {metric.name: {metric.labels} for metric in METRICS} == names


def test_last_sweep(breached: tuple[Fleet, dict[str, Any]]) -> None:
    """Shares and times of the newest run of the history that cleaned; without one, none."""
    fleet = breached[0]
    samples = parsed(text_of(metric_values(fleet, LAST)))
    assert fleet.now_ms - 1_000 == samples["kafka_log_logcleanermanager_time_since_last_run_ms"][()]
    assert 25 == samples["kafka_log_logcleaner_cleaner_recopy_percent"][()]
    assert 1.5 == samples["kafka_log_logcleaner_max_clean_time_secs"][()]
    without = metric_values(with_brokers(fleet)).keys()
    assert {one.name for one in METRICS if not one.from_history} == without
    assert last_sweep([]) is None


def test_newest_run_counts() -> None:
    """Not the rows of older runs, nor of other operations."""
    base = {"bytes_read": 10, "bytes_written": 5, "wall_seconds": 2.0, "compaction_delay_ms": 0}
    at = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    rows = [
        base | {"run_id": "old", "operation": "clean", "ended_at": at[0], "wall_seconds": 9.0},
        base | {"run_id": "new", "operation": "clean", "ended_at": at[1]},
        base | {"run_id": "new", "operation": "clean", "ended_at": at[1], "compaction_delay_ms": 7},
        base | {"run_id": "purge", "operation": "purge", "ended_at": at[2]},
    ]
    expected = LastSweep(
        ended_at_ms=round(at[1].timestamp() * 1000),
        bytes_read=20,
        bytes_written=10,
        max_clean_seconds=2.0,
        overdue=1,
        max_delay_ms=7,
    )
    assert expected == last_sweep(rows)


def test_quarantine_and_offline_directory(tmp_path: Path) -> None:
    """A quarantined log is uncleanable and its ratio does not count; a missing directory is
    offline.
    """
    case = description(CASE)
    log_dir = copy_before(CASE, tmp_path)
    quarantine_failure(log_dir, T0, CorruptBatch("its CRC is wrong."), TimestampMs(case["now"]))
    fleet = observe_fleet(
        {"d": log_dir, "gone": tmp_path / "gone"},
        DirectorySettings(Policies(defaults=configs(CASE), high_watermark="end")),
        now_ms=TimestampMs(case["now"]),
    )
    samples = parsed(text_of(metric_values(fleet)))
    count = samples["kafka_log_logcleanermanager_uncleanable_partitions_count"]
    assert {(str(log_dir),): 1.0} == count
    assert 0 < samples["kafka_log_logcleanermanager_uncleanable_bytes"][(str(log_dir),)]
    assert {(): 0.0} == samples["kafka_log_logcleanermanager_max_dirty_percent"]
    assert {(): 1.0} == samples["kafka_log_logmanager_offlinelogdirectorycount"]
    offline = samples["kafka_log_logmanager_logdirectoryoffline"]
    assert {(str(log_dir),): 0.0, (str(tmp_path / "gone"),): 1.0} == offline


def test_unknown_is_not_zero(tmp_path: Path) -> None:
    """Logs that cannot be planned, such as after a crash or while a broker runs, have no metrics of
    their own; the directory has.
    """
    log_dir = copy_before(CASE, tmp_path)
    (log_dir / ".kafka_cleanshutdown").unlink()
    samples = parsed(text_of(metric_values(observed(log_dir, configs(CASE), NOON_MS))))
    assert not {name for name in samples if name.startswith("kafka_log_log_")}
    assert not {name for name in samples if "dirty" in name or "delay" in name}
    label = (str(log_dir),)
    assert (1.0, 1.0) == (
        samples["logwright_logs"][label],
        samples["logwright_refused_logs"][label],
    )
    assert 0 < samples["logwright_log_directory_free_bytes"][label]


def test_retired_bytes(tmp_path: Path, call: Call) -> None:
    """After a cleaning the old files wait; after their delay they are due."""
    case = description("basic-none")
    log_dir = copy_before("basic-none", tmp_path)
    words = ("--yes", "--now", case["now"], *settings("basic-none"))
    assert 0 == call("clean", log_dir, *words).status
    waiting = sum(path.stat().st_size for path in (log_dir / "t-0").glob("*.deleted"))
    for passed_ms, due in ((0, 0), (DAY_MS, waiting)):
        samples = parsed(
            text_of(
                metric_values(observed(log_dir, configs("basic-none"), case["now"] + passed_ms))
            )
        )
        label = (str(log_dir),)
        assert waiting == samples["logwright_retired_bytes"][label] > 0
        assert due == samples["logwright_retired_due_bytes"][label]


def test_file(tmp_path: Path, breached: tuple[Fleet, dict[str, Any]]) -> None:
    """The same text as the one that is printed; no other file is left."""
    values = metric_values(breached[0])
    (tmp_path / "out").mkdir()
    write_metrics(values, tmp_path / "out/logwright.prom")
    assert [tmp_path / "out/logwright.prom"] == list((tmp_path / "out").iterdir())
    assert text_of(values) == (tmp_path / "out/logwright.prom").read_text()


def test_each_request_reads_again() -> None:
    """Over HTTP, on a free port; starting reads nothing."""
    reads: list[int] = []

    def read() -> dict[str, list[tuple[tuple[str, ...], float]]]:
        reads.append(1)
        return {"logwright_logs": [(("/logs",), len(reads))]}

    server, thread = serve_metrics(read, address="127.0.0.1", port=0)
    try:
        assert [] == reads
        for expected in (1.0, 2.0):
            url = f"http://127.0.0.1:{server.server_port}/metrics"
            with urllib.request.urlopen(url, timeout=30) as answer:
                samples = parsed(answer.read().decode())
            assert {"logwright_logs": {("/logs",): expected}} == samples
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_command(tmp_path: Path, call: Call) -> None:
    """To stdout and to a file; with the history the last sweep too; nothing is changed."""
    log_dir = copy_before(CASE, tmp_path)
    write_history(
        tmp_path / "history",
        [ROW.__class__(**{**_fields(), "started_at_ms": NOON_MS, "ended_at_ms": NOON_MS})],
        name="run",
    )
    words = ("metrics", log_dir, "--now", NOON_MS + 5)
    printed = call(*words)
    assert 0 == printed.status
    assert "kafka_log_log_size" in parsed(printed.out)
    written = call(*words, "--textfile", tmp_path / "a.prom", "--history", tmp_path / "history")
    assert (0, "") == (written.status, written.out)
    samples = parsed((tmp_path / "a.prom").read_text())
    assert {(): 5.0} == samples["kafka_log_logcleanermanager_time_since_last_run_ms"]
    assert 2 == call(*words, "--textfile", tmp_path / "no/a.prom").status
    assert 2 == call(*words, "--textfile", tmp_path / "a.prom", "--port", 0).status
    assert 2 == call("metrics").status


def _fields() -> dict[str, Any]:
    return {name: getattr(ROW, name) for name in ROW.__slots__}


def test_page_has_this_table() -> None:
    """docs/metrics.md lists what is exported and what is not, in this order."""
    page = (DOCS / "metrics.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (?:`([^`]+)`)? ?\| (.+) \| (.*)\|$", page, re.MULTILINE)
    exported = [
        (
            metric.name,
            metric.mbean,
            metric.help + ("; of the history" if metric.from_history else ""),
            ", ".join(f"`{label}`" for label in metric.labels),
        )
        for metric in METRICS
    ]
    assert exported == [(*row[:3], row[3].strip()) for row in rows]
    left_out = re.findall(r"^\| `(kafka\.[^`]+)` \| (.+) \|$", page, re.MULTILINE)
    assert list(LEFT_OUT.items()) == left_out


def test_dashboard_uses_exported_metrics() -> None:
    """Every name in every query of docs/grafana.json, and every query has one."""
    dashboard = json.loads((DOCS / "grafana.json").read_text())
    names = {metric.name for metric in METRICS}
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert 12 <= len(queries)
    for query in queries:
        used = set(re.findall(r"\b(?:kafka|logwright)_\w+", query))
        assert used, query
        assert used <= names, query
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
