"""What the command line answers to a wrong call and to Ctrl-C, and how it says what it did."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from logwright.cli.main import main
from tests.fixtures import case_dir, copy_before
from tests.log_builder import START_MS, LogBuilder
from tests.unit.cli.conftest import Call

ONLY_READ = (
    "inspect",
    "dump",
    "plan",
    "config",
    "verify",
    "audit",
    "metrics",
    "verify-certificate",
)
OLD = ("--config", "cleanup.policy=delete", "--config", "retention.ms=1")
LOGWRIGHT = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from logwright.cli.main import main; main()"
)
"""A shell that starts the tests in the background lets them, and what they start, ignore Ctrl-C."""
WAIT_SECONDS = 300


def options_of(name: str) -> set[str]:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return {option for each in command.params for option in each.opts}


def write_logs(log_dir: Path, count: int) -> Path:
    """Logs with a sealed segment each, whose records are old."""
    for number in range(count):
        log = LogBuilder(log_dir, f"t-{number}")
        log.segment(0).batch(0, [("a", "1"), ("a", "2")])
        log.segment(2)
        log.write()
    return log_dir


@pytest.mark.parametrize("name", ONLY_READ)
def test_what_only_reads_asks_nothing(name: str) -> None:
    """A command that changes nothing has neither --yes nor --dry-run; `clean` has both."""
    assert set() == options_of(name) & {"--yes", "--dry-run"}
    assert {"--yes", "--dry-run"} < options_of("clean")


@pytest.mark.parametrize("name", ["find", "latest", "certificate"])
def test_what_changes_no_log_does_not_ask(name: str) -> None:
    """A long search, or one that writes elsewhere, has a plan to show and nothing to confirm."""
    assert {"--dry-run"} == options_of(name) & {"--yes", "--dry-run"}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("verfy", "No such command 'verfy'. Did you mean verify?"),
        ("retian", "No such command 'retian'. Did you mean retain?"),
        ("xyzzy", "No such command 'xyzzy'."),
    ],
)
def test_an_unknown_command_is_suggested(call: Call, typed: str, expected: str) -> None:
    """Those that are spelled like it, and none if none is."""
    answer = call(typed, ".")
    assert (2, f"Error: {expected}") == (answer.status, answer.err.splitlines()[-1])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("foo.bar", "unknown config 'foo.bar'"),
        ("retention.mss", "unknown config 'retention.mss': did you mean 'retention.ms'?"),
    ],
)
def test_only_close_names_are_suggested(call: Call, name: str, expected: str) -> None:
    """A config name that is like none has no suggestion."""
    answer = call("plan", case_dir("basic-none") / "before", "--config", f"{name}=1")
    assert (2, f"Error: {expected}") == (answer.status, answer.err.strip())


@pytest.mark.crash
def test_ctrl_c_says_what_was_done(tmp_path: Path) -> None:
    """Status 130, and the logs whose change is complete, all of which are changed."""
    for number in range(20):
        log_dir = write_logs(tmp_path / str(number), 200)
        process = subprocess.Popen(
            [sys.executable, "-c", LOGWRIGHT, "retain", str(log_dir), "--yes", *OLD],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        end = time.monotonic() + WAIT_SECONDS
        while process.poll() is None and not list(log_dir.glob("t-1/*.deleted")):
            assert time.monotonic() < end
            time.sleep(0.001)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=WAIT_SECONDS)
        if process.returncode != 0:
            break
    assert 130 == process.returncode
    (line,) = [line for line in err.splitlines() if line.startswith("Error: interrupted.")]
    assert line.endswith("Run it again for the rest.")
    count = int(line.partition("Complete: ")[2].partition(" logs")[0])
    changed = len(list(log_dir.glob("t-*/*.log.deleted")))
    assert 0 < count <= changed <= count + 1 < 200


def test_retain_says_what_it_did(call: Call, tmp_path: Path) -> None:
    """A dry run says what it would do, the run itself what it has done."""
    log_dir = write_logs(tmp_path, 1)
    dry = call("retain", log_dir, *OLD, "--dry-run", "--now", START_MS + 10_000).out
    done = call("retain", log_dir, *OLD, "--yes", "--now", START_MS + 10_000).out
    assert "t-0: delete segment 0 by time" in dry
    assert {"to", "delete", "free"} < set(dry.splitlines()[-2].split())
    assert "t-0: deleted segment 0 by time" in done
    assert "t-0: kept segment 2" in done
    assert {"deleted", "freed"} < set(done.splitlines()[-2].split())
    assert "delete segment" not in done


def test_resume_does_not_contradict_itself(call: Call, tmp_path: Path) -> None:
    """What was removed, or that there was nothing to remove, never both."""
    log_dir = write_logs(tmp_path, 1)
    call("pause", log_dir, "t-0", "--reason", "x", "--yes")
    assert ["1 pause removed."] == call("resume", log_dir, "--yes").out.splitlines()
    assert ["Nothing was paused."] == call("resume", log_dir, "--yes").out.splitlines()


def test_verify_has_a_result_for_each_log(call: Call, tmp_path: Path) -> None:
    """In text and as JSON, also if nothing is wrong."""
    log_dir = copy_before("basic-none", tmp_path)
    assert "t-0: no problems found" in call("verify", log_dir).out.splitlines()
    (line,) = call("verify", log_dir, "--output", "json").lines
    assert {"topicPartition": "t-0", "problems": 0} == line


@pytest.mark.parametrize("name", ["verify", "config", "find", "purge", "plan", "inspect"])
def test_a_missing_directory_is_said_once(call: Call, tmp_path: Path, name: str) -> None:
    """With what to do about it, and nothing about what it would contain."""
    keys = tmp_path / "keys"
    keys.write_text("a\n")
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef" * 4)
    secret.chmod(0o600)
    words = {"find": ("--keys", keys, "--secret", secret), "purge": ("--yes",)}.get(name, ())
    missing = tmp_path / "dta"
    answer = call(name, missing, *words)
    expected = f"Error: {missing}: the log directory does not exist. Give a directory of log.dirs."
    assert (5, expected) == (answer.status, answer.err.strip())


@pytest.mark.parametrize("option", ["--metadata", "--server-properties"])
def test_what_is_wrong_for_all_logs_is_said_once(call: Call, tmp_path: Path, option: str) -> None:
    """And not for each of them."""
    log_dir = write_logs(tmp_path / "logs", 3)
    answer = call("plan", log_dir, option, tmp_path / "missing")
    assert answer.status in {2, 5}
    assert 1 == answer.err.count("Error:")
    assert f"Error: {tmp_path / 'missing'}: " in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ("find", "--keys", "MISSING"),
        ("find", "--keys", "KEYS", "--pattern", "MISSING"),
        ("certificate", "--keys", "KEYS", "--signing-key", "MISSING", "--out", "OUT"),
    ],
)
def test_a_named_file_that_is_missing(call: Call, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Nobody took it away: there is none of that name."""
    log_dir = write_logs(tmp_path / "logs", 1)
    missing = tmp_path / "kyes"
    (tmp_path / "keys").write_text("a\n")
    named = {"MISSING": missing, "KEYS": tmp_path / "keys", "OUT": tmp_path / "out"}
    name, *rest = (named.get(word, word) for word in words)
    answer = call(name, log_dir, *rest)
    assert 5 == answer.status
    assert f"Error: {missing}: there is no such file." == answer.err.splitlines()[-1]


@pytest.mark.parametrize("words", [("resume",), ("quarantine", "--clear")])
def test_a_log_that_is_not_there_is_refused(
    call: Call, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """To say of it that nothing is paused would hide a mistyped name; one that is deleted and
    paused can be resumed.
    """
    log_dir = write_logs(tmp_path, 1)
    name, *options = words
    answer = call(name, log_dir, "t-9", *options, "--yes")
    assert (5, f"Error: {log_dir}: has no partition t-9.") == (
        answer.status,
        answer.err.strip().partition(" `")[0],
    )
    assert 0 == call(name, log_dir, "t-0", *options, "--yes").status
    call("pause", log_dir, "t-0", "--reason", "x", "--yes")
    shutil.rmtree(log_dir / "t-0")
    assert "1 pause removed." in call("resume", log_dir, "t-0", "--yes").out


def test_verify_against_a_missing_directory(call: Call, tmp_path: Path) -> None:
    """Is refused, also where each log has a problem of its own, so that nothing is compared."""
    log_dir = write_logs(tmp_path / "logs", 1)
    (log_dir / f"t-0/{0:020}.index").write_bytes(b"x")
    assert 3 == call("verify", log_dir).status
    answer = call("verify", log_dir, "--against", tmp_path / "missing")
    assert 5 == answer.status
    assert f"{tmp_path / 'missing'}: the log directory does not exist." in answer.err


def test_quarantine_counts_in_words(call: Call, tmp_path: Path) -> None:
    """Not by the name of a metric."""
    log_dir = write_logs(tmp_path, 1)
    call("quarantine", log_dir, "t-0", "--set", "bad disk", "--yes")
    last = call("quarantine", log_dir).out.splitlines()[-1]
    assert last.startswith("1 log in quarantine, ")
    assert last.endswith(" not cleaned.")
