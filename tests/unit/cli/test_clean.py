"""`clean` and `purge`: Kafka's outcome, prompts, dry runs, passes, errors of single partitions."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import (
    case_dir,
    clean_arguments,
    compare_after,
    copy_before,
    description,
    partition_of,
    settings,
)
from tests.ingested import read_batches
from tests.log_builder import START_MS, LogBuilder
from tests.unit.cli.conftest import Call
from tests.unit.cli.test_look import snapshot

NOW = 1760003686229
COMPACT = ["--config", "cleanup.policy=compact", "--now", NOW]
CASES = ["basic-none", "small-buffer", "tombstones-1-first", "lag-min", "grouping-index"]


OWN = {
    "elapsedSeconds",
    "elapsedIndexSeconds",
    "bufferUtilization",
    "mapBytesRead",
    "mapMessages",  # where the map fills up, Kafka counts records of the batch that it gives up too
    "invalid",
}
"""Kafka's figures of a pass that are about its own implementation."""


def kafkas_passes(name: str) -> list[dict[str, Any]]:
    (result,) = partition_of(name).results
    passes: list[dict[str, Any]] = result["passes"]
    return passes


@pytest.mark.parametrize(("here", "log_dir"), [(".", "."), ("t-0", "..")])
def test_the_log_directory_may_be_relative(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str, log_dir: str
) -> None:
    """It may be where the operator is; the outcome is the same, files that are retired included."""
    monkeypatch.chdir(copy_before("basic-none", tmp_path) / here)
    words = clean_arguments("basic-none")
    assert call("clean", log_dir, "t-0", *words, "--yes").status == 0
    later = description("basic-none")["now"] + 60_000
    assert call("purge", log_dir, "t-0", "--now", later, "--yes").status == 0
    assert compare_after("basic-none", Path(log_dir)) == []


@pytest.mark.parametrize("name", CASES)
def test_outcome_and_figures_are_kafkas(call: Call, tmp_path: Path, name: str) -> None:
    """After a clean and a purge the directory is as Kafka's; so are the figures of each pass."""
    log_dir = copy_before(name, tmp_path)
    words = clean_arguments(name)
    answer = call("clean", log_dir, "t-0", *words, "--yes", "--output", "json")
    assert answer.status == 0
    (report,) = answer.lines
    for ours, theirs in zip(report["passes"], kafkas_passes(name), strict=True):
        same = {key: value for key, value in theirs.items() if key not in OWN}
        assert {key: ours[key] for key in same} == same
    later = description(name)["now"] + 60_000
    assert call("purge", log_dir, "--now", later, "--yes").status == 0
    assert compare_after(name, log_dir) == []


def test_passes_end_when_nothing_is_cleanable(call: Call, tmp_path: Path) -> None:
    """--passes is a limit; without it one cleaning is made. Only the first pass asks the ratio."""
    log_dir = copy_before("small-buffer", tmp_path)
    words = ["--like-kafka", "--dedupe-buffer", 2400, *settings("small-buffer")]
    words += ["--now", description("small-buffer")["now"], "--yes", "--output", "json"]
    report = call("clean", log_dir, *words).lines[0]
    assert [each["cleaned"] for each in report["passes"]] == [True]
    more = call("clean", log_dir, *words, "--passes", 100, "--force").lines[0]
    cleaned = [each["cleaned"] for each in more["passes"]]
    assert 1 < len(cleaned) < 100
    assert cleaned == [True] * (len(cleaned) - 1) + [False]
    assert more["passes"][-1]["cleanableBytes"] == 0


def test_force_with_nothing_cleanable(call: Call, tmp_path: Path) -> None:
    """Nothing cleanable: status 0, and no byte is touched."""
    log_dir = copy_before("basic-none", tmp_path)
    assert call("clean", log_dir, *COMPACT, "--yes").status == 0
    before = snapshot(log_dir)
    answer = call("clean", log_dir, *COMPACT, "--yes", "--force", "--passes", 3)
    assert answer.status == 0
    assert "Nothing was cleaned" in answer.out
    assert before == snapshot(log_dir)


def test_not_due_is_left_alone(call: Call, tmp_path: Path) -> None:
    """Without --force the ratio decides; the table says why nothing was done."""
    log_dir = copy_before("basic-none", tmp_path)
    words = [*COMPACT, "--config", "min.cleanable.dirty.ratio=1", "--yes"]
    answer = call("clean", log_dir, *words)
    assert answer.status == 0
    assert "min.cleanable.dirty.ratio" in answer.out
    assert not (log_dir / "cleaner-offset-checkpoint").exists()
    assert call("clean", log_dir, *words, "--force").status == 0
    assert (log_dir / "cleaner-offset-checkpoint").read_text().count("t 0 482")


@pytest.mark.parametrize("command", ["clean", "purge"])
def test_no_terminal_and_no_yes(call: Call, tmp_path: Path, command: str) -> None:
    """A changing command without --yes and without a terminal exits 2 and changes nothing."""
    log_dir = copy_before("basic-none", tmp_path)
    before = snapshot(log_dir)
    answer = call(command, log_dir, *COMPACT, typed="y\n")
    assert answer.status == 2
    assert "--yes" in answer.err
    assert before == snapshot(log_dir)


@pytest.mark.parametrize("form", ["text", "json"])
def test_dry_run(call: Call, tmp_path: Path, form: str) -> None:
    """--dry-run shows the plan, needs no terminal, and changes nothing."""
    log_dir = copy_before("basic-none", tmp_path)
    before = snapshot(log_dir)
    answer = call("clean", log_dir, *COMPACT, "--dry-run", "--output", form)
    assert answer.status == 0
    if form == "json":
        assert answer.lines[0]["clean"]
    else:
        assert "t-0: clean:" in answer.out
    assert call("purge", log_dir, *COMPACT, "--dry-run", "--output", form).status == 0
    assert before == snapshot(log_dir)


def at_a_terminal(words: list[str], typed: bytes) -> tuple[int, str]:
    """`logwright` in a process of its own, with a terminal as its stdin.

    Returns:
        exit status, stderr.
    """
    ours, theirs = pty.openpty()
    os.write(ours, typed)
    script = "from logwright.cli.main import main; main(prog_name='logwright')"
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(theirs)
    os.close(ours)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("typed", "status"), [(b"n\n", 130), (b"\n", 130), (b"y\n", 0)])
def test_it_asks(tmp_path: Path, typed: bytes, status: int) -> None:
    """At a terminal the plan is shown and asked for; anything but yes changes nothing."""
    log_dir = copy_before("basic-none", tmp_path)
    before = (log_dir / "t-0" / f"{0:020d}.log").read_bytes()
    words = ["clean", str(log_dir), *map(str, COMPACT)]
    code, err = at_a_terminal(words, typed)
    assert code == status
    assert "t-0: clean:" in err
    assert "Change 1 of 1 partitions" in err
    changed = before != (log_dir / "t-0" / f"{0:020d}.log").read_bytes()
    assert changed == (status == 0)


def test_one_bad_log_does_not_stop_the_others(call: Call, tmp_path: Path) -> None:
    """The others are cleaned; the exit status is that of the first error, and all are reported."""
    log_dir = copy_before("basic-none", tmp_path)
    for name in ("a-0", "u-0"):
        shutil.copytree(log_dir / "t-0", log_dir / name, copy_function=shutil.copy2)
    log = log_dir / "a-0" / f"{77:020d}.log"
    log.chmod(0o600)
    content = bytearray(log.read_bytes())
    content[200] ^= 1
    log.write_bytes(content)
    (log_dir / "u-0" / "5.log").touch()
    corrupt = snapshot(log_dir / "a-0")
    answer = call("clean", log_dir, *COMPACT, "--yes", "--output", "json")
    assert answer.status == 5
    unclean, bad, good = answer.lines
    assert (unclean["topicPartition"], unclean["error"]) == ("u-0", "UncleanLogDir")
    assert (bad["topicPartition"], bad["error"], bad["exitStatus"]) == ("a-0", "CorruptBatch", 3)
    assert (good["topicPartition"], good["newFirstDirtyOffset"]) == ("t-0", 482)
    assert {
        path: seen for path, seen in snapshot(log_dir / "a-0").items() if ".logwright" not in path
    } == corrupt
    assert call("clean", log_dir, "a-0", *COMPACT, "--yes", "--force").status == 3


def test_unclean_directory_is_recovered_first(call: Call, tmp_path: Path) -> None:
    """Without the clean-shutdown marker `clean` recovers the directory, says so, and cleans."""
    log_dir = copy_before("crash-cleaned", tmp_path)
    answer = call("clean", log_dir, *COMPACT, "--force", "--yes")
    assert answer.status == 0
    assert "Recovered 1 partitions first." in answer.err
    assert f"removed {0:020d}.index.cleaned" in answer.err
    assert (log_dir / ".kafka_cleanshutdown").exists()


def test_clean_drops_nothing_to_recover(call: Call, tmp_path: Path) -> None:
    """What only a loss would recover is left as it is, with the way out in the message."""
    log_dir = copy_before("bad-crc-sealed", tmp_path)
    before = snapshot(log_dir / "t-0")
    answer = call("clean", log_dir, *COMPACT, "--yes")
    assert answer.status == 5
    assert "--accept-loss" in answer.err
    assert before == snapshot(log_dir / "t-0")
    assert not (log_dir / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("size", ["24", "0", "-1", "x"])
def test_dedupe_buffer_needs_more_than_a_slot(call: Call, size: str) -> None:
    """--dedupe-buffer takes any size over one slot of the map."""
    answer = call("clean", case_dir("basic-none") / "before", "--dedupe-buffer", size, "--yes")
    assert answer.status == 2


def test_table_at_the_end(call: Call, tmp_path: Path) -> None:
    """As text the result is a table: bytes before and after, records removed by cause."""
    log_dir = copy_before("basic-none", tmp_path)
    header, row, *_ = call("clean", log_dir, *COMPACT, "--like-kafka", "--yes").out.splitlines()
    assert header.split()[:2] == ["partition", "passes"]
    assert row.split() == ["t-0", "1", "48908", "11410", "392", "0", "0", "0", "482"]


def test_purge_waits_for_the_delay(call: Call, tmp_path: Path) -> None:
    """What was retired goes at file.delete.delay.ms after the command's clock, not before."""
    log_dir = copy_before("basic-none", tmp_path)
    assert call("clean", log_dir, *COMPACT, "--yes").status == 0
    words = ["purge", log_dir, "--yes", "--output", "json", "--config", "file.delete.delay.ms=1000"]
    early = call(*words, "--now", NOW + 999).lines[0]
    assert early["removed"] == []
    assert {file["dueAtMs"] for file in early["pending"]} == {NOW + 1000}
    due = call(*words, "--now", NOW + 1000).lines[0]
    assert {file["name"] for file in early["pending"]} == set(due["removed"])
    assert not list((log_dir / "t-0").glob("*.deleted"))


@pytest.mark.spark
def test_spark_makes_the_same_bytes(call: Call, tmp_path: Path) -> None:
    """--engine spark leaves the same directory."""
    here, there = (
        copy_before("basic-none", tmp_path / "a"),
        copy_before("basic-none", tmp_path / "b"),
    )
    words = [*clean_arguments("basic-none"), "--yes"]
    assert call("clean", here, *words).status == 0
    assert call("clean", there, *words, "--engine", "spark").status == 0
    logs = sorted(path.name for path in (here / "t-0").glob("[0-9]*"))
    assert logs == sorted(path.name for path in (there / "t-0").glob("[0-9]*"))
    for name in logs:
        assert (here / "t-0" / name).read_bytes() == (there / "t-0" / name).read_bytes(), name


def test_several_topics_are_compacted_up_to_one_checkpoint(call: Call, tmp_path: Path) -> None:
    """KIP-58: with one clock and one `min.compaction.lag.ms`, the logs of a command keep every
    record that is newer than the checkpoint, whichever their own settings and sizes are, and
    superseded ones up to it go.
    """
    checkpoint_ms = START_MS + 1_000
    log_dir = tmp_path / "logs"
    for topic, old in (("a", 3), ("b", 40)):
        builder = LogBuilder(log_dir, f"{topic}-0")
        pairs = [("key", str(number)) for number in range(old)]
        builder.segment(0).batch(0, pairs, timestamps=[START_MS] * old)
        builder.segment(old).batch(old, [("key", "at it")], timestamps=[checkpoint_ms])
        newer = [("key", "1"), ("key", "2")]
        times = [checkpoint_ms + 1, checkpoint_ms + 2]
        builder.segment(old + 1).batch(old + 1, newer, timestamps=times)
        builder.segment(old + 3).batch(old + 3, [("key", "last")], timestamps=[checkpoint_ms + 9])
        builder.write()
    now_ms = checkpoint_ms + 60_000
    words = ["--config", "cleanup.policy=compact", "--config", "min.compaction.lag.ms=60000"]
    answer = call("clean", log_dir, *words, "--now", now_ms, "--force", "--yes")
    assert answer.status == 0, answer.err
    for topic in ("a", "b"):
        batches = read_batches(log_dir, partition=f"{topic}-0")
        kept = [record.value for batch in batches for record in batch.records]
        assert [b"at it", b"1", b"2", b"last"] == kept
