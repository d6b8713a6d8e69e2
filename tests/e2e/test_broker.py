"""A Kafka 4.3 broker opens what we leave; consumers read what they read of Kafka's own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import fixtures
from tests.e2e.command import call, free_port
from tests.oracle_runner import run_oracle

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

CASES = ("basic-mixed", "tombstones-4-late", "small-buffer", "leader-epochs", "recleaned-3")
UNCLEAN = "leader-epochs"
"""The broker recovers this one: it rebuilds indexes and the leader epochs from the log."""
ROLLED = "basic-mixed"
MOVED = "leader-epochs"
LEVELS = ("read_uncommitted", "read_committed")
DAY_MS = 86_400_000
FIELDS = ("offset", "timestamp", "key", "value")
NEVER_DELETE = ("cleanup.policy=compact", "segment.ms=9000000000000000")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A log directory that a broker opened, and what it said of it.

    Attributes:
        log_dir: as we left it.
        said: the line of the oracle's ``broker-check``.
        out: prefix of the files with what was read.
    """

    log_dir: Path
    said: dict[str, Any]
    out: Path

    def read(self, isolation: str) -> list[tuple[object, ...]]:
        """What a consumer read: offset, timestamp, key, value, headers of each record."""
        lines = Path(f"{self.out}.{isolation}.jsonl").read_text().splitlines()
        return [facts(json.loads(line)) for line in lines]


def facts(record: dict[str, Any]) -> tuple[object, ...]:
    headers = [(header["key"], header["value"]) for header in record.get("headers", [])]
    return (*(record[field] for field in FIELDS), headers)


def live(lines: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    """The records of a dump that a consumer gets."""
    batches = [line for line in lines if line["type"] == "batch" and not line["control"]]
    return [facts(record) for batch in batches for record in batch["records"]]


def ours(log_dir: Path) -> list[tuple[object, ...]]:
    """What our own dump says is live."""
    answer = call("dump", log_dir, "t-0")
    assert 0 == answer.status, answer.err
    return live(answer.lines)


def cleaned(name: str, directory: Path) -> Path:
    """A case, cleaned as Kafka did."""
    log_dir = fixtures.copy_before(name, directory)
    answer = call("clean", log_dir, "t-0", *fixtures.clean_arguments(name))
    assert 0 == answer.status, answer.err
    return log_dir


def moved(name: str, directory: Path) -> Path:
    """A case, cleaned and then moved to a log directory that was empty."""
    log_dir = cleaned(name, directory)
    destination = directory / "moved"
    destination.mkdir()
    for file in ("meta.properties", ".kafka_cleanshutdown"):
        (destination / file).write_text("version=1\n")
    answer = call("move", log_dir, "t-0", "--to", destination, "--yes")
    assert 0 == answer.status, answer.err
    return destination


def rolled(name: str, directory: Path) -> tuple[Path, int]:
    """A case at a clock at which its idle active segment is due; the base offset of the new one."""
    log_dir = fixtures.copy_before(name, directory)
    now = fixtures.description(name)["now"] + 30 * DAY_MS
    due = ("--config", "cleanup.policy=compact", "--config", f"segment.ms={DAY_MS}")
    words = (*fixtures.settings(name), *due, "--now", now, "--yes", "--force", "--output", "json")
    answer = call("clean", log_dir, "t-0", *words)
    assert 0 == answer.status, answer.err
    (line,) = answer.lines
    assert line["rolled"]
    return log_dir, line["logEndOffset"]


def broker_check(work: Path, log_dirs: dict[str, Path], *options: str) -> dict[str, Check]:
    """One broker over all of these, each under a topic of its own."""
    names = {f"check{number}-0": name for number, name in enumerate(log_dirs)}
    outs = {name: work / name for name in log_dirs}
    jobs = [
        {
            "logDir": str(log_dirs[name]),
            "topicPartition": "t-0",
            "as": topic,
            "out": str(outs[name]),
        }
        for topic, name in names.items()
    ]
    (work / "jobs.jsonl").write_text("".join(f"{json.dumps(job)}\n" for job in jobs))
    lines = run_oracle(
        *("broker-check", "--jobs", work / "jobs.jsonl", "--port", str(free_port())),
        *("--config", *NEVER_DELETE, *options),
    )
    answers = {names[line["as"]]: line for line in lines}
    return {
        name: Check(log_dir=log_dir, said=answers[name], out=outs[name])
        for name, log_dir in log_dirs.items()
    }


@pytest.fixture(scope="module")
def after_clean_stop(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """A broker that finds all of them cleanly shut down, and appends to each."""
    work = tmp_path_factory.mktemp("clean")
    log_dirs = {name: cleaned(name, work / "logs") for name in CASES}
    log_dirs["rolled"], _ = rolled(ROLLED, work / "rolled")
    log_dirs["moved"] = moved(MOVED, work / "moves")
    return broker_check(work, log_dirs, "--append")


@pytest.fixture(scope="module")
def after_unclean_stop(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """A broker that recovers the log first."""
    work = tmp_path_factory.mktemp("unclean")
    return broker_check(work, {UNCLEAN: cleaned(UNCLEAN, work / "logs")}, "--unclean")


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("name", CASES)
def test_consumers_read_what_they_read_of_kafkas(
    name: str, isolation: str, after_clean_stop: dict[str, Check]
) -> None:
    """The records of Kafka's own outcome, which are those that our dump shows."""
    check = after_clean_stop[name]
    read = check.read(isolation)
    assert live(fixtures.dump_lines(name, "after")) == read
    assert ours(check.log_dir) == read
    assert read
    assert check.said[isolation]["complete"]


@pytest.mark.rotates(4)
@pytest.mark.parametrize("isolation", LEVELS)
def test_a_recovering_broker_reads_the_same(
    isolation: str, after_unclean_stop: dict[str, Check]
) -> None:
    """Recovery finds every batch and every leader epoch in order."""
    check = after_unclean_stop[UNCLEAN]
    assert check.said["unclean"]
    assert live(fixtures.dump_lines(UNCLEAN, "after")) == check.read(isolation)


def test_a_rolled_log_is_read_and_appended_to(after_clean_stop: dict[str, Check]) -> None:
    """The broker takes the segment that we made for the active one, and continues in it."""
    check = after_clean_stop["rolled"]
    for isolation in LEVELS:
        assert ours(check.log_dir) == check.read(isolation)
    bases = sorted(int(path.stem) for path in (check.log_dir / "t-0").glob("*.log"))
    end = check.said["read_committed"]["endOffset"]
    assert bases[-1] == end
    assert check.said["appended"]["sentOffset"] == end


@pytest.mark.parametrize("isolation", LEVELS)
def test_a_moved_log_is_read_as_before(isolation: str, after_clean_stop: dict[str, Check]) -> None:
    """What a broker finds in the other log directory is what was in the first."""
    check = after_clean_stop["moved"]
    assert live(fixtures.dump_lines(MOVED, "after")) == check.read(isolation)
    assert ours(check.log_dir) == check.read(isolation)


@pytest.mark.parametrize("name", [*CASES, "rolled", "moved"])
def test_appends_go_on(name: str, after_clean_stop: dict[str, Check]) -> None:
    """A record that is produced afterwards gets the next offset and is consumed."""
    answer = after_clean_stop[name].said
    before, after = answer["read_committed"], answer["appended"]
    assert before["endOffset"] == after["sentOffset"] == after["lastRecordOffset"]
    assert before["records"] + 1 == after["records"]
    assert before["beginningOffset"] == after["beginningOffset"]
