"""`maintain`: what `clean`, `retain` and `purge` do, each whatever the one before ended with."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from logwright.cli.request import Request
from logwright.locks import try_lock
from tests.e2e.command import tree
from tests.log_builder import START_MS, LogBuilder
from tests.unit.cli.conftest import Answer, Call
from tests.unit.cli.test_answers import LOGWRIGHT

POLICY = """\
version: 1
defaults: {cleanup.policy: compact, min.cleanable.dirty.ratio: 0, file.delete.delay.ms: 60000}
topics: [{name: old, cleanup.policy: delete, retention.ms: 1}]
"""
STEPS = ["clean", "retain", "purge"]
DAY_MS = 86_400_000
NIGHT = START_MS + 10 * DAY_MS
WAIT_SECONDS = 300


def write_logs(log_dir: Path, *names: str) -> Path:
    for name in names:
        log = LogBuilder(log_dir, name)
        log.segment(0).batch(0, [("a", "1"), ("a", "2")])
        log.segment(2).batch(2, [("a", "3")])
        log.segment(3)
        log.write()
    return log_dir


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/policies.yml").write_text(POLICY)
    return tmp_path / "policies"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two compacted logs, and one with expired segments."""
    return write_logs(tmp_path / "logs", "bad-0", "good-0", "old-0")


def damage(log_dir: Path) -> bytes:
    """Flip a byte of a record of `bad-0`; return what its segment is then."""
    segment = log_dir / f"bad-0/{0:020d}.log"
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    return bytes(content)


def segments(log_dir: Path, name: str, suffix: str = ".log") -> list[str]:
    return sorted(path.name for path in (log_dir / name).glob(f"*{suffix}"))


def steps_of(answer: Answer) -> list[dict[str, int]]:
    """The exit status of each step, by log directory."""
    return [
        {step["command"]: step["exitStatus"] for step in line["steps"]}
        for line in answer.lines
        if "steps" in line
    ]


def untimed(line: dict[str, Any]) -> dict[str, Any]:
    """Without what depends on how long it took."""
    passes = line.get("passes", [])
    return line | {
        "passes": [{**entry, "elapsedSeconds": 0, "elapsedIndexSeconds": 0} for entry in passes]
    }


def contents(log_dir: Path) -> dict[str, bytes]:
    """Every file but the ledgers, which have the inodes of files."""
    return {
        str(path.relative_to(log_dir)): path.read_bytes()
        for path in log_dir.rglob("*")
        if path.is_file() and ".logwright" not in path.parts
    }


def test_it_does_what_the_three_do(call: Call, tmp_path: Path, policies: Path) -> None:
    """The same files, the same objects of JSON, in their order; each object says whose it is."""
    log_dir = write_logs(tmp_path / "logs", "good-0", "old-0")
    shutil.copytree(log_dir, tmp_path / "twin")
    words = ("--policies", policies, "--yes", "--output", "json")
    for now in (NIGHT, NIGHT + DAY_MS):
        at = (*words, "--now", now)
        whole = call("maintain", log_dir, *at)
        single = [call(name, tmp_path / "twin", *at) for name in STEPS]
        assert 0 == whole.status
        assert [dict.fromkeys(STEPS, 0)] == steps_of(whole)
        *objects, end = whole.lines
        assert [
            {"command": name, "logDirectory": str(log_dir), **untimed(line)}
            for name, answer in zip(STEPS, single, strict=True)
            for line in answer.lines
        ] == list(map(untimed, objects))
        assert (str(log_dir), now, 0) == (end["logDirectory"], end["now"], end["exitStatus"])
        assert not end["dryRun"]
        assert contents(log_dir) == contents(tmp_path / "twin")
    assert [f"{0:020d}.log", f"{3:020d}.log"] == segments(log_dir, "good-0")
    assert [] == segments(log_dir, "good-0", ".deleted") + segments(log_dir, "old-0", ".deleted")


def test_the_text_has_a_line_for_each_step(call: Call, log_dir: Path, policies: Path) -> None:
    """Which command works on which directory, as a message; in the end the exit statuses."""
    answer = call("maintain", log_dir, "--policies", policies, "--yes", "--now", NIGHT)
    messages = answer.err.splitlines()
    assert [f"{name} of {log_dir}" for name in STEPS] == [
        line for line in messages if " of /" in line
    ]
    assert f"{log_dir}: exit status 0 (clean 0, retain 0, purge 0)" == answer.out.splitlines()[-1]
    assert "Reclaimed" in answer.out
    assert "old-0: deleted segment 0 by time" in answer.out


def test_one_corrupt_log_does_not_stop_the_others(
    call: Call, log_dir: Path, policies: Path
) -> None:
    """Night after night: the status is that of the corrupt log, and all others are cleaned, their
    expired segments go, and what is retired is purged a night later. Of the corrupt log nothing
    goes: its retired files may have good copies.
    """
    words = ("--policies", policies, "--yes", "--output", "json")
    assert 0 == call("maintain", log_dir, *words, "--now", NIGHT).status
    copies = segments(log_dir, "bad-0", ".deleted")
    assert copies
    corrupt = damage(log_dir)
    for name in ("good-0", "old-0"):
        shutil.rmtree(log_dir / name)
    write_logs(log_dir, "good-0", "old-0")
    for night in range(1, 4):
        answer = call("maintain", log_dir, *words, "--now", NIGHT + night * DAY_MS)
        assert 3 == answer.status
        assert [{"clean": 3, "retain": 0, "purge": 0}] == steps_of(answer)
        (problem,) = [line for line in answer.lines if "error" in line]
        assert ("clean", "bad-0") == (problem["command"], problem["topicPartition"])
        assert [f"{3:020d}.log"] == segments(log_dir, "old-0")
        assert corrupt == (log_dir / f"bad-0/{0:020d}.log").read_bytes()
        assert copies == segments(log_dir, "bad-0", ".deleted")
        for name in ("good-0", "old-0"):
            assert (night == 1) == bool(segments(log_dir, name, ".deleted"))
    skipped = [line for line in answer.lines if line.get("skipped")]
    assert [("purge", "bad-0")] == [
        (line["command"], line["topicPartition"]) for line in skipped if line["command"] == "purge"
    ]


def test_each_log_directory_is_for_itself(call: Call, log_dir: Path, policies: Path) -> None:
    """One that is locked is refused by each step, by name, and the next one is maintained."""
    other = write_logs(log_dir.with_name("other"), "old-0")
    words = ("--policies", policies, "--yes", "--now", NIGHT)
    with (log_dir / ".lock").open("wb") as lock:
        assert try_lock(lock.fileno(), "exclusive")  # as a broker does
        before = tree(log_dir)
        answer = call("maintain", log_dir, other, *words, "--output", "json")
        assert before == tree(log_dir)
    assert 5 == answer.status
    first, second = steps_of(answer)
    assert 5 == first["clean"]
    assert {"clean": 0, "retain": 0, "purge": 0} == second
    assert [f"{3:020d}.log"] == segments(other, "old-0")
    missing = call("maintain", log_dir.with_name("none"), other, *words)
    assert 5 == missing.status
    assert "Error: purge: " in missing.err
    assert f"{other}: exit status 0 (clean 0, retain 0, purge 0)" in missing.out


def test_a_dry_run_changes_nothing(call: Call, log_dir: Path, policies: Path) -> None:
    """It needs no terminal, and shows the three plans for the logs as they are."""
    before = tree(log_dir)
    words = ("--policies", policies, "--dry-run", "--now", NIGHT, "--output", "json")
    answer = call("maintain", log_dir, *words)
    assert 0 == answer.status
    assert before == tree(log_dir)
    assert STEPS == list(dict.fromkeys(line["command"] for line in answer.lines[:-1]))
    assert answer.lines[-1]["dryRun"]
    (plan,) = [line for line in answer.lines if line.get("deletedSegments")]
    assert ("retain", "old-0", 2) == (
        plan["command"],
        plan["topicPartition"],
        plan["deletedSegments"],
    )


def test_without_yes_and_without_a_terminal(call: Call, log_dir: Path, policies: Path) -> None:
    """A wrong call is refused before the first step, whichever directory it is about."""
    before = tree(log_dir)
    answer = call("maintain", log_dir, "--policies", policies)
    assert (2, True) == (answer.status, "--yes" in answer.err)
    wrong = call("maintain", log_dir, "--policies", policies, "--yes", "--spark-master", "local")
    assert (2, True) == (wrong.status, "--engine spark" in wrong.err)
    assert before == tree(log_dir)


def test_a_no_is_for_its_step(
    call: Call, log_dir: Path, policies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next question is asked, and the status says that one was answered with no."""
    monkeypatch.setattr(Request, "require_terminal", lambda _, **__: None)
    words = ("--policies", policies, "--now", NIGHT)
    answer = call("maintain", log_dir, *words, typed="n\ny\n")
    assert 130 == answer.status
    assert f"{log_dir}: exit status 130 (clean 130, retain 0, purge 0)" in answer.out
    assert [] == segments(log_dir, "good-0", ".deleted")
    assert [f"{3:020d}.log"] == segments(log_dir, "old-0")
    stopped = call("maintain", log_dir, *words, typed="")
    assert 130 == stopped.status
    assert f"interrupted. It was in `clean` of {log_dir}." in stopped.err
    assert "retain of" not in stopped.err


@pytest.mark.crash
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_a_signal_ends_the_whole_command(
    tmp_path: Path, policies: Path, number: signal.Signals
) -> None:
    """In the retention: what it has done is said, the status is 130, and nothing is purged."""
    for attempt in range(20):
        log_dir = write_logs(tmp_path / str(attempt), *(f"old-{each}" for each in range(200)))
        words = ("maintain", log_dir, "--policies", policies, "--yes")
        process = subprocess.Popen(
            [sys.executable, "-c", LOGWRIGHT, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        end = time.monotonic() + WAIT_SECONDS
        while process.poll() is None and not list(log_dir.glob("old-1/*.deleted")):
            assert time.monotonic() < end
            time.sleep(0.001)
        if process.poll() is None:
            os.kill(process.pid, number)
        out, err = process.communicate(timeout=WAIT_SECONDS)
        if process.returncode != 0:
            break
    assert 130 == process.returncode
    (line,) = [line for line in err.splitlines() if line.startswith("Error: interrupted.")]
    assert f"It was in `retain` of {log_dir}. Complete: " in line
    assert line.endswith("Run it again for the rest.")
    assert "purge of" not in err
    assert "exit status" not in out
