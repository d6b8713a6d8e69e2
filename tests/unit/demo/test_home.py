"""The demo's directory: a log that Kafka wrote, and settings that fit it."""

from __future__ import annotations

import json
import re
import shutil
import socket
from io import StringIO
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from rich.console import Console

from logwright.cli.main import main
from logwright.config.policies import Policies, load_policies
from logwright.config.resolved import Sources, effective_pairs, resolve
from logwright.config.sources import read_sources
from logwright.demo import landing
from logwright.demo.home import (
    CONTRACT,
    SETTINGS,
    TABLE,
    TABLE_TOPIC,
    DemoHome,
    NoDemoArchive,
    NotADemoHome,
    opened,
    prepare,
)
from logwright.demo.pages import HOST, PortTaken, check_port
from logwright.demo.run import _conclude
from logwright.demo.survey import Account, Size, causes, comparison, survey, total
from logwright.errors import LogDirLocked
from logwright.fleet.starts import STARTS, judge_starts
from tests.differential.oracle_server import OracleServer
from tests.oracle_runner import run_oracle

PARTITIONS = [
    "clicks-0",
    "consents-0",
    "countries-0",
    "customers-0",
    "customers-1",
    "customers-2",
    "orders-changelog-0",
    "orders-changelog-1",
    "sessions-0",
]
IDLE = ["clicks-0", "countries-0"]
MB = 1_000_000


def quiet(done: int, total_bytes: int) -> None:
    """No progress bar."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared home."""
    root = tmp_path_factory.mktemp("demo") / "home"
    with opened(root) as home:
        prepare(home, quiet)
    return root


def test_an_installed_package_says_that_it_has_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel is small; before anything is written, the demo names where its log is."""
    monkeypatch.setattr("logwright.demo.home.ARCHIVE", tmp_path / "kafka-logs.tar.xz")
    with (
        pytest.raises(NoDemoArchive, match="Run 'make demo' in a checkout"),
        opened(tmp_path / "a"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_log_is_as_large_as_we_say(root: Path) -> None:
    """The README promises more than 60 MB in several segments for each large log."""
    sizes = survey(root / "kafka-logs")
    assert list(sizes) == PARTITIONS
    assert total(sizes).log_bytes > 60 * MB
    assert min(sizes[name].segments for name in PARTITIONS[3:]) >= 5


@pytest.mark.oracle
def test_kafka_starts_on_the_demos_logs(root: Path, tmp_path: Path) -> None:
    """As the check `will_start` says of them, so that a demo is not red."""
    log_dir = shutil.copytree(root / "kafka-logs", tmp_path / "logs", copy_function=shutil.copy2)
    now_ms = json.loads(SETTINGS.read_text())["now"]
    (start,) = judge_starts({"demo": log_dir}, now_ms=now_ms)
    assert (STARTS, ()) == (start.outcome, start.findings)
    with OracleServer() as server:
        assert "bootFailed" not in server.boot(log_dir, now_ms)


@pytest.mark.oracle
def test_kafka_plans_what_the_demo_wants_to_show(root: Path) -> None:
    """Kafka's own cleaner manager: six logs are dirty, one is overdue, one is not due, and one is
    not compacted.
    """
    settings = json.loads(SETTINGS.read_text())
    configs = [
        f"{topic}:{key}={value}"
        for topic, pairs in settings["topics"].items()
        for key, value in pairs.items()
    ]
    words = [word for config in configs for word in ("--topic-config", config)]
    log_dir = root / "kafka-logs"
    plans = run_oracle("plan", "--log-dir", log_dir, "--now", str(settings["now"]), *words)[0]
    by_name = {one["topicPartition"]: one for one in plans["partitions"]}
    assert [name for name in PARTITIONS if not by_name[name]["eligible"]] == IDLE
    overdue = by_name["consents-0"]
    assert overdue["needCompactionNow"]
    assert overdue["cleanableRatio"] < overdue["minCleanableRatio"]


@pytest.mark.rotates(3)
@pytest.mark.oracle
@pytest.mark.parametrize("partition", PARTITIONS)
def test_kafka_finds_nothing_wrong(root: Path, partition: str) -> None:
    """Every batch and index entry of the packed log is as Kafka's own recovery would make it."""
    now = str(json.loads(SETTINGS.read_text())["now"])
    log_dir = root / "kafka-logs"
    verified = run_oracle(
        "verify", "--log-dir", log_dir, "--topic-partition", partition, "--now", now
    )
    assert [one["problems"] for one in verified if one.get("problems")] == []


def test_the_policies_are_the_topics_settings(root: Path) -> None:
    """What Kafka wrote the logs with is what they are maintained with; one has more."""
    policies = load_policies(root / "policies")
    wanted = json.loads(SETTINGS.read_text())["topics"]
    written = yaml.safe_load((root / "policies" / "topics.yml").read_text())["topics"]
    tables = {one["name"]: one.pop("table") for one in written if "table" in one}
    assert {TABLE_TOPIC: {**TABLE, "path": str(root / "tables" / TABLE_TOPIC)}} == tables
    tests = {one["name"]: one.pop("tests") for one in written if "tests" in one}
    assert {TABLE_TOPIC: [CONTRACT]} == tests
    labels = {one["name"]: (one.pop("owner"), one.pop("tags")) for one in written if "owner" in one}
    assert {TABLE_TOPIC: ("crm", ["pii"])} == labels
    assert {one.pop("name"): one for one in written} == {**wanted, landing.TOPIC: landing.POLICY}
    (source,) = policies.ingest.sources
    assert (landing.TOPIC, root / "landing" / landing.TOPIC) == (source.topic, Path(source.path))
    assert [root / "kafka-logs"] == [Path(path) for path in policies.log_dirs]


def test_the_directory_explains_itself(root: Path) -> None:
    """`logwright plan` on it, without policies, knows each topic's own settings."""
    settings = json.loads(SETTINGS.read_text())
    sources = read_sources(root / "kafka-logs", policies=Policies(), command_line={})
    for name, configs in settings["topics"].items():
        settings_of = resolve(sources, name)
        assert configs == {one: settings_of[one].value for one in configs}
        assert {"topic"} == {settings_of[one].origin for one in configs}
    words = ("plan", root / "kafka-logs", "--no-forecast", "--output", "json")
    result = CliRunner().invoke(main, [*map(str, words), "--now", str(settings["now"])])
    assert 0 == result.exit_code, result.output
    plans = [json.loads(line) for line in result.stdout.splitlines()]
    due = {one["topicPartition"]: one["eligible"] for one in plans if "eligible" in one}
    assert {name: name not in IDLE for name in PARTITIONS} == due


def test_a_second_demo_starts_afresh(tmp_path: Path) -> None:
    """What the first one changed is restored."""
    root = tmp_path / "home"
    for _ in range(2):
        with opened(root) as home:
            prepare(home, quiet)
            (home.log_dir / "stray").write_text("from the first")
            assert not (home.instance / "history").exists()
            (home.instance / "history").mkdir()


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """`--home` at the wrong place must not cost anyone a file."""
    precious = tmp_path / "kafka-logs"
    precious.mkdir()
    with pytest.raises(NotADemoHome, match="--home"), opened(tmp_path):
        pass
    assert [precious] == list(tmp_path.iterdir())


def test_two_demos_do_not_share_a_directory(tmp_path: Path) -> None:
    """The second one gets an error."""
    root = tmp_path / "home"
    with opened(root), pytest.raises(LogDirLocked), opened(root):
        pass


def test_a_taken_port_is_said_at_once() -> None:
    """Before anything is unpacked."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        with pytest.raises(PortTaken, match="--port"):
            check_port(taken.getsockname()[1])


def test_the_table_says_what_was_not_due() -> None:
    """A row for each log, and their sum."""
    before = {"a-0": Size(segments=5, log_bytes=4 * MB), "b-0": Size(segments=1, log_bytes=MB)}
    after = {"a-0": Size(segments=2, log_bytes=MB), "b-0": Size(segments=1, log_bytes=MB)}
    accounts = {"a-0": Account(why="dirty ratio 0.90", records=10, removed={})}
    table = comparison(before, after, accounts)
    columns = [list(column.cells) for column in table.columns]
    assert columns[0] == ["a-0", "b-0", "all"]
    assert columns[1] == ["5 → 2", "1 → 1", "6 → 3"]
    assert columns[3] == ["75%", "not due", "60%"]
    assert columns[4] == ["dirty ratio 0.90", "", ""]


def test_the_table_says_why_records_went() -> None:
    """Summed over the logs, with what is left; a cause without removed records is listed too."""
    accounts = {
        "a-0": Account(why="dirty ratio 0.90", records=90, removed={"old": 50, "late": 0}),
        "b-0": Account(why="compaction lag", records=10, removed={"old": 10, "late": 0}),
        "c-0": Account(why="dirty ratio 0.00", records=0, removed={"old": 0, "late": 0}),
    }
    columns = [list(column.cells) for column in causes(accounts).columns]
    assert columns[0] == ["old", "late", "left"]
    assert columns[1] == ["60", "0", "40"]
    assert columns[2] == ["60.0%", "0.0%", "40.0%"]


def test_retired_segments_wait_long_enough_to_be_looked_at(root: Path) -> None:
    """The demo's sensors are on, and the purge must not come before the newcomer has looked."""
    policies = load_policies(root / "policies")
    for topic in json.loads(SETTINGS.read_text())["topics"]:
        assert (
            "3600000" == effective_pairs(Sources(policies=policies), topic)["file.delete.delay.ms"]
        )


def test_the_commands_that_it_prints_know_its_policies(root: Path) -> None:
    """Each works as it is printed, and takes the settings that its sensors take."""
    written = StringIO()
    report = {"page": "page", "tables": {}, "spark_events": []}
    _conclude(Console(file=written), DemoHome(root=root), report, seconds=1)
    commands = re.findall(r"/logwright (.+)", written.getvalue())
    assert ["inspect", "plan"] == [words.split()[0] for words in commands]
    for words in commands:
        assert words.endswith(f" {root}/kafka-logs --policies {root}/policies")
        shown = CliRunner().invoke(main, words.split())
        assert 0 == shown.exit_code, shown.output
