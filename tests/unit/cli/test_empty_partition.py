"""Every command on a log directory that has a partition directory without segments."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logwright.config.topic import parse_settings
from logwright.errors import UncleanLogDir
from logwright.format.names import CLEAN_SHUTDOWN_MARKER, TopicPartition
from logwright.ingest.commit import (
    commit_append,
    plan_append,
    prepare_log_dir,
    stage_append,
)
from logwright.ingest.model import AppendOptions, AppendPlan
from logwright.ingest.staging import staging
from logwright.units import TimestampMs
from tests.ingested import arrow
from tests.log_builder import START_MS, LogBuilder
from tests.unit.cli.conftest import Call

NOW = START_MS + 1_000_000
COMPACT = ("--config", "cleanup.policy=compact")
EMPTY_SEGMENT = {f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")}


@pytest.fixture(params=[True, False], ids=["clean", "unclean"])
def log_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """One log, and one directory without segments."""
    return made(tmp_path, clean=request.param)


def made(tmp_path: Path, *, clean: bool) -> Path:
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("b", "1")])
    log.segment(2).batch(2, [("a", "2")])
    log.segment(3).batch(3, [("c", "1")])
    log.write(producers=True)
    (log.log_dir / "u-0").mkdir()
    if not clean:
        (log.log_dir / CLEAN_SHUTDOWN_MARKER).unlink()
    return log.log_dir


def names(log_dir: Path, partition: str = "u-0") -> set[str]:
    return {path.name for path in (log_dir / partition).iterdir()}


@pytest.mark.parametrize(
    "words",
    [
        ("clean", *COMPACT, "--force"),
        ("roll", "--force"),
        ("retain", "--config", "cleanup.policy=delete"),
        ("recover",),
    ],
    ids=lambda words: str(words[0]),
)
def test_what_changes_logs_recovers_it(call: Call, log_dir: Path, words: tuple[str, ...]) -> None:
    """It gets an empty segment, as from Kafka's loader, and the other log is worked on."""
    name, *options = words
    answer = call(name, log_dir, *options, "--yes", "--now", NOW)
    assert 0 == answer.status, answer.err
    assert EMPTY_SEGMENT <= names(log_dir)
    assert "u-0: created" in answer.out + answer.err
    assert "t-0" in answer.out or name == "recover"
    assert (log_dir / CLEAN_SHUTDOWN_MARKER).exists()
    again = call("verify", log_dir)
    assert 0 == again.status, again.out
    assert "2 partitions checked" in again.out


@pytest.mark.parametrize(
    "words",
    [
        ("plan", *COMPACT),
        ("clean", *COMPACT, "--dry-run"),
        ("roll", "--dry-run"),
        ("retain", "--config", "cleanup.policy=delete", "--dry-run"),
        ("recover", "--dry-run"),
    ],
    ids=lambda words: str(words[0]),
)
def test_what_only_looks_says_so(call: Call, log_dir: Path, words: tuple[str, ...]) -> None:
    """It names the partition and the segment that would be made, and changes nothing."""
    name, *options = words
    answer = call(name, log_dir, *options, "--now", NOW)
    assert 0 == answer.status, answer.err
    assert f"u-0: created {0:020d}.log" in answer.out
    assert set() == names(log_dir)


def test_inspect_and_dump_show_both(call: Call, log_dir: Path) -> None:
    """The one without segments by its problem, the other by its segments and records."""
    answer = call("inspect", log_dir, "--verbose")
    assert 0 == answer.status, answer.err
    assert "u-0: " in answer.out
    assert "there is no segment" in answer.out
    (row,) = [line for line in call("inspect", log_dir).out.splitlines() if line.startswith("u-0 ")]
    assert "there is no segment" in row
    assert "t-0" in answer.out
    dumped = call("dump", log_dir, "--output", "json").lines
    assert {0, 2, 3} <= {line.get("baseOffset") for line in dumped}


def test_verify_names_it_and_checks_the_others(call: Call, log_dir: Path) -> None:
    """Exit status 3; damage of the log next to it is found too."""
    path = log_dir / "t-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    answer = call("verify", log_dir, "--output", "json")
    assert 3 == answer.status
    faults = [line for line in answer.lines if "problem" in line]
    problems = {line["topicPartition"]: line["problem"] for line in faults}
    assert "there is no segment" in problems["u-0"]
    assert "t-0" in problems


def test_purge_goes_on(call: Call, log_dir: Path) -> None:
    """What waits in the other log is removed."""
    waiting = log_dir / "t-0" / f"{9:020d}.log.deleted"
    waiting.touch()
    answer = call("purge", log_dir, "--yes", "--now", 2**42)
    assert 0 == answer.status, answer.err
    assert not waiting.exists()


def test_undo_of_both_names_the_empty_one(call: Call, log_dir: Path) -> None:
    """The other one's change is undone."""
    assert 0 == call("clean", log_dir, "t-0", *COMPACT, "--force", "--yes", "--now", NOW).status
    shutil.rmtree(log_dir / "u-0")
    (log_dir / "u-0").mkdir()
    answer = call("undo", log_dir, "t-0", "u-0", "--yes", "--now", NOW + 1)
    assert 0 != answer.status
    assert "u-0" in answer.err
    assert "Error: t-0" not in answer.err
    assert "t-0" in answer.out


def test_delete_and_purge_remove_it(call: Call, log_dir: Path) -> None:
    """As any other log."""
    answer = call("delete", log_dir, "u-0", "--yes", "--now", NOW)
    assert 0 == answer.status, answer.err
    assert not (log_dir / "u-0").exists()
    assert 0 == call("purge", log_dir, "--yes", "--now", NOW + 60_001).status
    assert [] == list(log_dir.glob("u-0*"))


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_move_takes_the_other(call: Call, tmp_path: Path, *, clean: bool) -> None:
    """Until it is recovered it is refused by name; then it is moved as well."""
    log_dir = made(tmp_path, clean=clean)
    other = LogBuilder(tmp_path / "other", "z-0")
    other.segment(0).batch(0, [("a", "1")])
    other.write()
    words = ("move", log_dir, "t-0", "u-0", "--to", other.log_dir, "--yes", "--now", NOW)
    answer = call(*words)
    assert 5 == answer.status
    assert "Error: u-0: " in answer.err
    assert "logwright recover" in answer.err
    assert clean == (other.log_dir / "t-0").exists()
    assert 0 == call("recover", log_dir, "--yes", "--now", NOW).status
    rest = ("u-0",) if clean else ("t-0", "u-0")
    words = ("move", log_dir, *rest, "--to", other.log_dir, "--yes", "--now", NOW)
    assert 0 == call(*words).status
    assert EMPTY_SEGMENT <= names(other.log_dir)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("into", ["t-0", "u-0"])
def test_ingest_appends_to_either(call: Call, tmp_path: Path, into: str, *, clean: bool) -> None:
    """A clean directory as it is, another one after its recovery."""
    log_dir = made(tmp_path, clean=clean)
    if not clean:
        with pytest.raises(UncleanLogDir, match="not shut down cleanly"):
            appended(log_dir, into)
        assert 0 == call("recover", log_dir, "--yes", "--now", NOW).status
    assert (5 if into == "t-0" else 1) == appended(log_dir, into)
    assert 0 == call("recover", log_dir, "--yes", "--now", NOW).status
    answer = call("verify", log_dir)
    assert 0 == answer.status, answer.out


def appended(log_dir: Path, into: str) -> int:
    """The log's end after one record more."""
    prepare_log_dir(log_dir)
    partition = TopicPartition.parse(into)
    assert partition is not None
    plan = plan_append(
        log_dir,
        partition,
        parse_settings({})[0],
        ingest_id="one",
        now_ms=TimestampMs(NOW),
        options=AppendOptions(),
    )
    assert isinstance(plan, AppendPlan)
    with staging([plan]):
        return commit_append(plan, stage_append(plan, [arrow([(b"k", b"v", [], NOW)])])).end_offset


def test_partition_that_cannot_be_read_stops_no_other(call: Call, tmp_path: Path) -> None:
    """It is named; the other log is rolled."""
    log_dir = made(tmp_path, clean=True)
    (log_dir / "u-0" / f"{0:020d}.log").mkdir()
    answer = call("roll", log_dir, "--force", "--yes", "--now", NOW)
    assert 0 != answer.status
    assert "Error: u-0: " in answer.err
    assert f"{4:020d}.log" in names(log_dir, "t-0")


def test_ingest_into_one_that_begins_later(call: Call, tmp_path: Path) -> None:
    """What is below the log start offset a broker would drop: the recovery makes its segment first,
    and the records follow from there.
    """
    log_dir = made(tmp_path, clean=True)
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nu 0 70\n")
    with pytest.raises(UncleanLogDir, match="log start offset is 70"):
        appended(log_dir, "u-0")
    assert 0 == call("recover", log_dir, "--yes", "--now", NOW).status
    assert 71 == appended(log_dir, "u-0")
    assert 0 == call("verify", log_dir).status
