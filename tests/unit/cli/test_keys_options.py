"""The options that say which keys: every command that has them refuses and warns alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.command import Answer, call
from tests.log_builder import START_MS, LogBuilder

ME: Final = "the-planted-key"
COMMANDS: Final = ("find", "erase", "certificate")


def made(tmp_path: Path) -> Path:
    """A log directory with one log, and a secret next to it."""
    log = LogBuilder(tmp_path / "logs", "customers-0")
    log.segment(0).batch(0, [(ME, "1"), ("a", "2")])
    log.write()
    secret = tmp_path / "secret"
    secret.write_text("s" * 64)
    secret.chmod(0o600)
    call("certificate", "--new-key", tmp_path / "sign.pem")
    return log.log_dir


def asked(tmp_path: Path, command: str, *words: str | Path) -> Answer:
    """Call a command; nobody sees the key."""
    more = {
        "find": (),
        "erase": ("--now-and-for-good", "--yes", "--dry-run"),
        "certificate": ("--signing-key", tmp_path / "sign.pem", "--out", tmp_path / "c.json"),
    }[command]
    done = call(
        *(command, tmp_path / "logs", "--secret", tmp_path / "secret", "--now", START_MS + 1000),
        *("--config", "cleanup.policy=compact", *words, *more),
    )
    assert ME not in done.out + done.err
    return done


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (f"\ufeff{ME}\n".encode(), "line 1 begins with a byte order mark"),
        (f"a\n{ME}\n".encode("utf-16"), "line 1 begins with a byte order mark of UTF-16"),
        (f"a\n{ME}\0\n".encode(), "line 2 has a NUL byte"),
        (f"{ME}\n\n".encode(), "line 2 is empty"),
    ],
)
def test_a_file_of_keys_is_refused_by_line(
    tmp_path: Path, command: str, content: bytes, problem: str
) -> None:
    """Nothing is searched, and the status is that of wrong options."""
    made(tmp_path)
    (tmp_path / "keys").write_bytes(content)
    done = asked(tmp_path, command, "--keys", tmp_path / "keys")
    assert 2 == done.status
    assert problem in done.err
    assert not (tmp_path / "c.json").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_doubtful_key_is_warned_of(tmp_path: Path, command: str) -> None:
    """By line, and the command continues: the key without quotes is there, another form of it."""
    made(tmp_path)
    (tmp_path / "keys").write_text(f'a\n"{ME}"\n')
    done = asked(tmp_path, command, "--keys", tmp_path / "keys")
    assert "has quotes around it, which are taken for part of the key: line 2" in done.err
    assert {"find": 9, "erase": 0, "certificate": 6}[command] == done.status


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "topic", ["customers.*", "customers ", "", "regex:", "regex:[", "regex:(a)\\1", "regex:(?=a)"]
)
def test_a_topic_that_cannot_be_one(tmp_path: Path, command: str, topic: str) -> None:
    """Refused, before anything is read."""
    made(tmp_path)
    (tmp_path / "keys").write_text(f"{ME}\n")
    done = asked(tmp_path, command, "--keys", tmp_path / "keys", "--topic", topic)
    assert 2 == done.status
    assert "--topic" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_to_search_for(tmp_path: Path, command: str) -> None:
    """An empty landing directory is not a search that found nothing."""
    made(tmp_path)
    (tmp_path / "landing").mkdir()
    done = asked(tmp_path, command, "--requests", tmp_path / "landing")
    assert 2 == done.status
    assert "there are no requests" in done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_landing_row_that_may_not_be_meant(tmp_path: Path, command: str) -> None:
    """It is named by file and line, without the key."""
    made(tmp_path)
    row = {"id": "r", "topics": "customers", "key": f"{ME} ", "received_at": 1, "deadline": 2}
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.jsonl").write_text(json.dumps(row) + "\n")
    done = asked(tmp_path, command, "--requests", tmp_path / "landing")
    assert "a.jsonl:1: key has white space at its start or end" in done.err


def test_patterns_are_refused_alike(tmp_path: Path) -> None:
    """A file of byte patterns is read like one of keys; hex gives any bytes."""
    made(tmp_path)
    (tmp_path / "patterns").write_text(f"\ufeff{ME}\n")
    refused = asked(tmp_path, "find", "--pattern", tmp_path / "patterns")
    assert (2, True) == (refused.status, "line 1 begins with a byte order mark" in refused.err)
    (tmp_path / "patterns").write_text(ME.encode().hex() + "\n")
    answer = asked(tmp_path, "find", "--pattern", tmp_path / "patterns", "--keys-format", "hex")
    assert 8 == answer.status
