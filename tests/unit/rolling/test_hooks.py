"""Hooks end in time, whatever they do, and show no secret."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from logwright.locks import wait_for
from logwright.rolling import hooks
from logwright.rolling.hooks import log_output, masked, run_command, secrets_of


def test_status_and_output(tmp_path: Path) -> None:
    """It runs in the given directory, with no input; both streams are kept."""
    words = ["sh", "-c", "pwd; cat; echo problem >&2; exit 3"]
    ended = run_command(words, limit_ms=10_000, directory=tmp_path)
    assert (3, f"{tmp_path}\nproblem\n") == (ended.status, ended.output)
    assert "ended with status 3" == ended.in_words


def running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def test_a_signal_is_said(tmp_path: Path) -> None:
    """It is not an exit status."""
    ended = run_command(["sh", "-c", "kill -9 $$"], limit_ms=10_000, directory=tmp_path)
    assert "was ended by signal 9" == ended.in_words


def test_a_hanging_hook_is_stopped_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that ignores SIGTERM."""
    monkeypatch.setattr(hooks, "_GRACE_SECONDS", 3)
    words = ["sh", "-c", "trap '' TERM; sleep 100 & echo $! > child; wait"]
    began = time.monotonic()
    ended = run_command(words, limit_ms=500, directory=tmp_path)
    assert ended.status is None
    assert ended.in_words.startswith("did not end within ")
    assert time.monotonic() - began < 20
    child = int((tmp_path / "child").read_text())
    assert wait_for(lambda: True if not running(child) else None, 20)


def test_what_watches_a_command_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked again and again; its reason is said."""
    monkeypatch.setattr(hooks, "_WATCH_SECONDS", 0.1)
    answers = iter([None, None, "t-0 is below min.insync.replicas"])
    ended = run_command(
        ["sleep", "100"], limit_ms=60_000, directory=tmp_path, watch=lambda: next(answers)
    )
    assert (None, True) == (ended.status, ended.seconds < 60)
    assert ended.in_words.endswith(" s: t-0 is below min.insync.replicas")
    assert [] == list(answers)


def test_what_a_hook_leaves_running_stays(tmp_path: Path) -> None:
    """A start hook that leaves a broker with its output open neither waits for it nor ends it."""
    words = ["sh", "-c", "sleep 30 & echo $!"]
    ended = run_command(words, limit_ms=10_000, directory=tmp_path)
    child = int(ended.output)
    assert (0, True) == (ended.status, ended.seconds < 10)
    os.kill(child, 9)  # an error if it does not run


def test_an_interruption_ends_the_command(tmp_path: Path) -> None:
    """Ctrl-C in the middle leaves no command that continues."""

    def interrupt() -> None:
        wait_for(lambda: (tmp_path / "pid").exists() or None, 20)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_command(
                ["sh", "-c", "echo $$ > new; mv new pid; exec sleep 100"],
                limit_ms=60_000,
                directory=tmp_path,
            )
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert not running(int((tmp_path / "pid").read_text()))


def test_no_secret_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Values of settings and variables whose names say so are masked, the longer ones first."""
    pairs = {
        "sasl.password": "hunter22",
        "ADMIN_TOKEN": "hunter22-and-more",
        "user": "karl",
        "t": "",
    }
    secrets = secrets_of(pairs)
    assert ("hunter22", "hunter22-and-more") == secrets
    assert "*** and *** of karl" == masked("hunter22-and-more and hunter22 of karl", secrets)
    ended = run_command(["echo", "with hunter22"], limit_ms=10_000, directory=tmp_path)
    with caplog.at_level(logging.INFO):
        log_output("stop", ended, secrets)
    assert ["stop: with ***"] == caplog.messages
