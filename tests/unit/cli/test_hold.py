"""``pause``, ``resume`` and ``quarantine``, and what ``plan`` and ``clean`` make of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.state.file import STATE_FILE
from tests.fixtures import copy_before
from tests.unit.cli.conftest import Answer, Call

NOW = 1_760_003_686_229
COMPACT = ("--config", "cleanup.policy=compact", "--now", NOW)
PAUSE = ("--reason", "a disk is replaced", "--owner", "ops", "--yes")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return copy_before("basic-none", tmp_path)


def logs(log_dir: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (log_dir / "t-0").glob("*.log")}


def corrupt(log_dir: Path) -> Path:
    """Break a batch of a sealed segment."""
    path = sorted((log_dir / "t-0").glob("*.log"))[1]
    content = bytearray(path.read_bytes())
    content[80] ^= 1
    path.write_bytes(bytes(content))
    return path


def skipped(answer: Answer, kind: str) -> str:
    (line,) = [one for one in answer.lines if "skipped" in one]
    assert ("t-0", kind) == (line["topicPartition"], line["skipped"])
    assert line["why"] in answer.err
    assert answer.status == 0
    return str(line["why"])


@pytest.mark.parametrize("command", ["clean", "plan"])
@pytest.mark.parametrize("force", [False, True])
def test_paused_is_left_alone_and_said_so(
    call: Call, log_dir: Path, command: str, force: bool
) -> None:
    """With owner, reason and expiry; --force does not override it."""
    before = logs(log_dir)
    assert call("pause", log_dir, "t-0", *PAUSE, "--for", "2h", "--now", NOW).status == 0
    changing = ("--yes", *(("--force",) if force else ())) if command == "clean" else ()
    answer = call(command, log_dir, *COMPACT, *changing, "--output", "json")
    why = skipped(answer, "paused")
    assert "paused by ops until 2025-10-09 11:54:46Z: a disk is replaced" == why
    assert before == logs(log_dir)


def test_recovery_goes_past_a_pause(call: Call, log_dir: Path) -> None:
    """A broker that starts would do it too, and the directory is clean only when all of it is: so
    other logs can be cleaned, and the paused one is recovered and no more.
    """
    (log_dir / ".kafka_cleanshutdown").unlink()
    before = logs(log_dir)
    assert call("pause", log_dir, "t-0", *PAUSE, "--now", NOW).status == 0
    answer = call("clean", log_dir, *COMPACT, "--yes", "--output", "json")
    skipped(answer, "paused")
    assert "Recovered 1 partitions first." in answer.err
    assert (log_dir / ".kafka_cleanshutdown").exists()
    assert before == logs(log_dir)


def test_pause_that_is_over_does_not_count(call: Call, log_dir: Path) -> None:
    """At its expiry the partition is maintained again."""
    call("pause", log_dir, "t-0", *PAUSE, "--until", NOW, "--now", NOW - 1)
    answer = call("clean", log_dir, *COMPACT, "--yes", "--output", "json")
    assert answer.lines[0]["cleaned"]


def test_resume_lifts(call: Call, log_dir: Path) -> None:
    """Of one owner, or of all; nothing is left then."""
    for owner in ("a", "b", "c"):
        call("pause", log_dir, "t-0", "--reason", "x", "--owner", owner, "--yes")
    call("resume", log_dir, "t-0", "--owner", "b", "--yes")
    (shown,) = call("pause", log_dir, "--output", "json").lines
    assert ["a", "c"] == [one["owner"] for one in shown["pauses"]]
    assert shown["paused"]
    answer = call("resume", log_dir, "--yes")
    assert ["2 pauses removed."] == answer.out.splitlines()
    assert not (log_dir / STATE_FILE).exists()
    assert "Nothing is paused." in call("pause", log_dir).out
    assert call("clean", log_dir, *COMPACT, "--yes", "--output", "json").lines[0]["cleaned"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "name the partitions"),
        (("t-0", "--for", "2h", "--until", "5"), "not both"),
        (("t-0", "--for", "soon"), "is not a duration"),
    ],
)
def test_wrong_pause(call: Call, log_dir: Path, words: tuple[str, ...], problem: str) -> None:
    """Usage errors exit 2 and leave nothing."""
    answer = call("pause", log_dir, *words, "--reason", "x", "--yes")
    assert (2, True) == (answer.status, problem in answer.err)
    assert not (log_dir / STATE_FILE).exists()


def test_pause_asks_and_dry_runs(call: Call, log_dir: Path) -> None:
    """Without --yes and a terminal it is refused; a dry run changes nothing; so is a name that is
    none.
    """
    assert call("pause", log_dir, "t-0", "--reason", "x").status == 2
    answer = call("pause", log_dir, "t-0", "--reason", "x", "--dry-run")
    assert (0, True) == (answer.status, "would be paused by" in answer.out)
    assert call("pause", log_dir, "t-7", "--reason", "x", "--yes").status == 5
    assert not (log_dir / STATE_FILE).exists()


def test_cleaning_that_fails_for_good_quarantines(call: Call, log_dir: Path) -> None:
    """With cause, file and position; the others continue, and so does this one after the retry
    time.
    """
    whole = copy_before("basic-none", log_dir.parent / "whole")
    path = corrupt(log_dir)
    (whole / "t-0").rename(log_dir / "u-0")
    first = call("clean", log_dir, *COMPACT, "--yes", "--output", "json")
    assert first.status == 3
    assert [True] == [one["cleaned"] for one in first.lines if one["topicPartition"] == "u-0"][:1]
    (listed,) = call("quarantine", log_dir, "--output", "json", "--now", NOW).lines
    entry = listed["quarantine"]
    assert ("CorruptBatch", path.name, 1) == (entry["cause"], entry["file"], entry["failures"])
    assert listed["uncleanableBytes"] > 0
    assert NOW + 15 * 60_000 == entry["retryAtMs"]
    again = call("clean", log_dir, "t-0", *COMPACT, "--yes", "--output", "json")
    assert "CorruptBatch" in skipped(again, "quarantined")
    later = ("--config", "cleanup.policy=compact", "--now", entry["retryAtMs"])
    assert call("clean", log_dir, "t-0", *later, "--yes").status == 3
    (listed,) = call("quarantine", log_dir, "--output", "json", "--now", NOW).lines
    assert 2 == listed["quarantine"]["failures"]
    assert NOW == listed["quarantine"]["sinceMs"]


def test_mended_log_leaves_quarantine(call: Call, log_dir: Path) -> None:
    """`quarantine --clear` has it tried at once; a cleaning that succeeds ends it by itself."""
    path = corrupt(log_dir)
    assert call("clean", log_dir, *COMPACT, "--yes").status == 3
    content = bytearray(path.read_bytes())
    content[80] ^= 1
    path.write_bytes(bytes(content))
    assert call("quarantine", log_dir, "--clear", "--yes").status == 0
    assert call("clean", log_dir, *COMPACT, "--yes", "--output", "json").lines[0]["cleaned"]
    assert not (log_dir / STATE_FILE).exists()


def test_forced_cleaning_that_succeeds_ends_the_quarantine(call: Call, log_dir: Path) -> None:
    """--force tries what is in quarantine."""
    call("quarantine", log_dir, "t-0", "--set", "looks odd", "--yes", "--now", NOW)
    assert "operator: looks odd" in call("quarantine", log_dir).out
    skipped(call("clean", log_dir, *COMPACT, "--yes", "--output", "json"), "quarantined")
    forced = call("clean", log_dir, *COMPACT, "--yes", "--force", "--output", "json")
    assert forced.lines[0]["cleaned"]
    assert not (log_dir / STATE_FILE).exists()


def test_dry_run_does_not_quarantine(call: Call, log_dir: Path) -> None:
    """It only looks."""
    corrupt(log_dir)
    call("clean", log_dir, *COMPACT, "--dry-run")
    call("plan", log_dir, *COMPACT, "--forecast")
    assert not (log_dir / STATE_FILE).exists()


def test_state_file_that_is_none_stops_everything(call: Call, log_dir: Path) -> None:
    """What is paused is not known then."""
    before = logs(log_dir)
    (log_dir / STATE_FILE).write_text("{")
    for command in ("clean", "plan", "quarantine", "pause"):
        words = ("--yes",) if command == "clean" else ()
        answer = call(command, log_dir, *COMPACT, *words, "--output", "json")
        assert answer.status == 5
        assert "UnreadableFile" == answer.lines[-1]["error"]
        assert str(log_dir / STATE_FILE) == answer.lines[-1]["path"]
    assert before == logs(log_dir)
