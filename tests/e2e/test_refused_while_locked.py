"""A log directory in somebody else's hands is refused by every changing command, and skipped."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logwright.errors import LogDirLocked, Unsettled
from logwright.locks import lock_log_dir
from logwright.reading import reading
from tests.e2e.command import Answer, call, free_port, tree
from tests.fixtures import copy_before
from tests.oracle_runner import java, oracle_jvm
from tests.running_dirs import record

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

TRY_LOCK = Path(__file__).parents[1] / "unit" / "locks" / "TryLock.java"
WORDS = ("--config", "cleanup.policy=compact", "--now", 1760003686229, "--output", "json")
TOPIC = "t"


@contextmanager
def jvm(*command: str | Path) -> Iterator[tuple[int, str]]:
    """A Java program that says one line and continues; its process id and the line."""
    with subprocess.Popen(
        [java(), *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.pid, process.stdout.readline()
        finally:
            process.terminate()
            process.communicate(timeout=60)


def refused(answer: Answer, log_dir: Path, pid: int) -> None:
    """Exit status 5; who holds which file, and what to do."""
    assert 5 == answer.status, answer.err
    assert answer.errors
    for error in answer.errors:
        assert (LogDirLocked.__name__, 5) == (error["error"], error["exitStatus"])
        assert str(log_dir / ".lock") == error["path"]
        assert f"(process {pid})" in error["problem"]
        assert "Stop the broker" in error["remedy"]
    assert str(log_dir / ".lock") in answer.err


def test_a_jvm_holds_the_lock(tmp_path: Path) -> None:
    """Nothing is changed or made while it does; afterwards all is as always."""
    log_dir = copy_before("basic-none", tmp_path)
    other = copy_before("basic-none", tmp_path / "other")
    (other / "t-0").rename(other / "u-0")
    others = tree(other)
    with jvm(TRY_LOCK, log_dir / ".lock") as (pid, output):
        assert f"locked {pid}\n" == output
        record(log_dir, {"t-0": 1})
        before = tree(log_dir)
        for command in ("clean", "purge", "retain", "roll", "delete", "undo"):
            refused(call(command, log_dir, "t-0", *WORDS, "--yes"), log_dir, pid)
        options = ("--yes", "--output", "json")
        refused(call("move", log_dir, "t-0", "--to", other, *options), log_dir, pid)
        refused(call("move", other, "u-0", "--to", log_dir, *options), log_dir, pid)
        assert others == tree(other)
        shown = call("inspect", log_dir, "--output", "json")
        assert 0 == shown.status
        assert f"(process {pid})" in shown.lines[0]["lockedBy"]
        assert before == tree(log_dir)
        assert not (log_dir / "t-0" / ".logwright").exists()
    assert 0 == call("clean", log_dir, *WORDS, "--yes").status


@pytest.mark.rotates(4)
def test_a_broker_runs(tmp_path: Path) -> None:
    """Kafka 4.3 itself, with a partition of its own."""
    options = [*oracle_jvm()[1:], "oracle.Main"]
    where = ("--dir", tmp_path, "--port", str(free_port()), "--create", TOPIC)
    with jvm(*options, "broker", *where) as (pid, output):
        log_dir = Path(json.loads(output)["logDir"])
        assert (log_dir / f"{TOPIC}-0").is_dir()
        before = partition(log_dir)
        for command in ("clean", "purge", "retain", "roll", "delete", "undo"):
            refused(call(command, log_dir, f"{TOPIC}-0", *WORDS, "--yes"), log_dir, pid)
        planned = call("plan", log_dir, f"{TOPIC}-0", *WORDS)
        assert (0, pid) == (planned.status, planned.lines[-1]["broker"]["process"])
        refused_more(log_dir, tmp_path, pid)
        assert before == partition(log_dir)
    answer = call("plan", log_dir, f"{TOPIC}-0", *WORDS)
    assert 0 == answer.status, answer.err
    before = tree(log_dir)
    with lock_log_dir(log_dir):
        done = subprocess.run(
            [java(), *options, "broker", *map(str, where[:4])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert 0 != done.returncode
    assert "Failed to acquire lock on file .lock" in done.stdout + done.stderr
    assert before == tree(log_dir)

    def start_while_it_is_read() -> None:
        with reading(log_dir), jvm(*options, "broker", *where[:4]) as (_, started):
            assert str(log_dir) == json.loads(started)["logDir"]

    with pytest.raises(Unsettled, match="a broker worked on it"):
        start_while_it_is_read()


def refused_more(log_dir: Path, tmp_path: Path, pid: int) -> None:
    """The commands with words of their own; a running broker's directory has no marker either."""
    other = copy_before("basic-none", tmp_path / "elsewhere")
    (other / "t-0").rename(other / "u-0")
    others = tree(other)
    rows = tmp_path / "rows.json"
    rows.write_text('{"key":"k","value":"v"}\n')
    options = ("--yes", "--output", "json")
    refused(call("recover", log_dir, *options), log_dir, pid)
    ingested = call("ingest", log_dir, "--topic", TOPIC, "--from", rows, "--yes")
    assert 5 == ingested.status
    assert f"(process {pid})" in ingested.err
    assert "Spark" not in ingested.err
    refused(call("move", log_dir, f"{TOPIC}-0", "--to", other, *options), log_dir, pid)
    refused(call("move", other, "u-0", "--to", log_dir, *options), log_dir, pid)
    assert others == tree(other)


def partition(log_dir: Path) -> dict[str, tuple[object, ...]]:
    """The broker itself continues writing its checkpoints, but not to an idle partition."""
    return tree(log_dir / f"{TOPIC}-0")
