"""Commands on a place that is not on this machine: those that read give the same, others refuse."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from logwright.erasure.certificate.signed import SIGNED_FROM, SIGNED_TO
from logwright.place.named import ELSEWHERE
from tests import metadata_builder as records
from tests.log_builder import START_MS, LogBuilder
from tests.metadata_builder import MetadataBuilder
from tests.other_place import SCHEME, elsewhere, in_memory, text_of
from tests.unit.audit.histories import Pair, diverged
from tests.unit.cli.conftest import Answer, Call

NOW = ("--now", START_MS + 86_400_000)
COMPACT = ("--config", "cleanup.policy=compact")


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line that a new place adds."""
    monkeypatch.setitem(ELSEWHERE, SCHEME, in_memory)


@pytest.fixture(name="log_dir")
def _log_dir(tmp_path: Path) -> Path:
    """Two logs with a transaction, tombstones, a retired file and another one in the root; keys, a
    secret and a signing key next to the directory.
    """
    log_dir = tmp_path / "logs"
    for partition in ("t-0", "u-1"):
        log = LogBuilder(log_dir, partition)
        log.segment(0).batch(0, [("ann", "1"), ("bob", "2"), ("eve", "knows ann")], codec=4)
        log.segment(3).batch(3, [("ann", None)], producer_id=7, transactional=True)
        log.segment(4).marker(4, 7, "commit")
        log.write(producers=True)
    retired = log_dir / "t-0" / f"{0:020d}.log.deleted"
    shutil.copyfile(log_dir / "t-0" / f"{0:020d}.log", retired)
    log_dir.joinpath(".kafka_cleanshutdown").touch()
    log_dir.joinpath("notes").write_bytes(b"of ann")
    tmp_path.joinpath("keys").write_text("ann\nbob\nnobody\n")
    tmp_path.joinpath("secret").write_text("0123456789abcdef" * 4)
    tmp_path.joinpath("secret").chmod(0o600)
    return log_dir


def away(log_dir: Path) -> str:
    """The directory's name in the other place; nothing of it is left in this one."""
    place = elsewhere(log_dir)
    shutil.rmtree(log_dir)
    return text_of(place)


READERS: dict[str, tuple[str | int, ...]] = {
    "config": ("t", *NOW, "--config", "retention.ms=1"),
    "dump": ("t-0", *NOW),
    "dump all": ("--decode={key: string, value: string}",),
    "verify": (),
}


@pytest.mark.parametrize("name", READERS)
def test_a_command_that_reads_gives_the_same(call: Call, log_dir: Path, name: str) -> None:
    """Wherever the bytes are: exit status, output, messages."""
    command, *options = [word for word in name.split() if word != "all"]
    words = (*READERS[name], *options)
    expected = call(command, log_dir, *words)
    assert 2 != expected.status, expected.err
    assert expected.out
    answer = call(command, away(log_dir), *words)
    assert (expected.status, expected.out, expected.err) == (answer.status, answer.out, answer.err)


def test_damage(call: Call, log_dir: Path) -> None:
    """`verify` of a damaged log, `verify` and `inspect` of what stops a broker in the root."""
    (log_dir / "t-0" / f"{0:020d}.index").write_bytes(b"x" * 8)
    (log_dir / "cleaner-offset-checkpoint").write_bytes(b"x")
    (log_dir / "meta.properties").write_bytes(b"version=7\n")
    (log_dir / "foreign").mkdir()
    expected = call("verify", log_dir)
    assert 3 == expected.status
    assert "foreign" in expected.out
    assert "meta.properties" in expected.out
    place = away(log_dir)
    answer = call("verify", place)
    assert (3, expected.out) == (answer.status, answer.out)
    seen = call("inspect", place, "--no-metadata", *NOW)
    for name in ("foreign", "meta.properties", "cleaner-offset-checkpoint"):
        assert f"a broker would not start: {log_dir / name}: " in seen.out


def test_inspect(call: Call, log_dir: Path) -> None:
    """It says what it does not know: the lock, and when a retired file is purged; the rest is the
    same.
    """
    words = (*NOW, *COMPACT, "--output", "json")
    _, *expected = call("inspect", log_dir, *words).lines
    place = away(log_dir)
    answer = call("inspect", place, *NOW, *COMPACT)
    assert 0 == answer.status, answer.err
    assert "clean shutdown: yes; lock: not known of another place" in answer.out
    assert "1 retired file" in answer.out
    first, *logs = call("inspect", place, *words).lines
    assert (True, "not known of another place") == (first["cleanShutdown"], first["lockedBy"])
    assert expected == logs


def test_latest(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """The same rows; a point in the past; nothing is written into the place."""
    here, there = tmp_path / "here", tmp_path / "there"
    expected = call("latest", log_dir, "t", "--to", here, *NOW)
    assert 0 == expected.status, expected.err
    place = away(log_dir)
    answer = call("latest", place, "t", "--to", there, *NOW)
    assert (0, expected.out) == (answer.status, answer.out)
    rows, moved = (pq.read_table(path).to_pylist() for path in (here, there))
    assert rows
    assert rows == moved
    again = call("latest", place, "t", "--to", there, *NOW)
    assert "Nothing was new." in again.out
    past = call("latest", place, "t", "--to", tmp_path / "past", "--as-of-offset", 2, *NOW)
    assert 0 == past.status, past.err
    assert 2 == len(pq.read_table(tmp_path / "past"))


def findings(answer: Answer) -> list[dict[str, Any]]:
    """What was found, but not what removes it: that is not known of another place."""
    lines = [line for line in answer.lines if "directory" in line]
    return [{k: v for k, v in line.items() if k not in {"rule", "goneByMs"}} for line in lines]


def test_find(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """The same records and the same that was not searched; as an archive all of it is the same."""
    keys = ("--keys", tmp_path / "keys", "--secret", tmp_path / "secret")
    shutil.copytree(log_dir, tmp_path / "other")
    words = (*keys, *NOW, *COMPACT, "--output", "json")
    expected = call("find", log_dir, *words)
    archive = call("find", tmp_path / "other", *words, "--archive", log_dir)
    assert 9 == expected.status, expected.err
    assert findings(expected)
    place = away(log_dir)
    answer = call("find", place, *words)
    assert (9, findings(expected)) == (answer.status, findings(answer))
    assert {None} == {line["goneByMs"] for line in answer.lines if "goneByMs" in line}
    again = call("find", tmp_path / "other", *words, "--archive", place)
    assert (archive.status, archive.out) == (again.status, again.out)
    text = call("find", place, *keys, *NOW)
    assert "of t-0 is not known: what removes its records is not known of another place" in text.out
    dry = call("find", place, *words, "--dry-run")
    assert [str(log_dir)] == [line["directory"] for line in dry.lines]


def test_audit(call: Call, tmp_path: Path) -> None:
    """A fault between two replicas of which one is away, and the same directory twice."""
    pair = Pair.new(tmp_path, "logwright")
    diverged(pair)
    expected = call("audit", pair.leader.log_dir, pair.follower.log_dir)
    assert 3 == expected.status, expected.err
    place = away(pair.follower.log_dir)
    answer = call("audit", pair.leader.log_dir, place)
    assert (3, expected.out) == (answer.status, answer.out)
    assert 2 == call("audit", place, place).status


def test_a_certificate(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """It has the same files and records, and is verified in either place."""
    assert 0 == call("certificate", "--new-key", tmp_path / "key").status
    words = (
        *("--keys", tmp_path / "keys", "--secret", tmp_path / "secret"),
        *("--signing-key", tmp_path / "key", *NOW, *COMPACT),
    )
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    expected = call("certificate", log_dir, *words, "--out", here)
    assert 6 == expected.status, expected.err
    check = ("--public-key", tmp_path / "key.pub", "--output", "json")
    same = call("verify-certificate", here, log_dir, *check)
    place = away(log_dir)
    answer = call("certificate", place, *words, "--out", there)
    assert 6 == answer.status, answer.err
    before, after = (json.loads(path.read_bytes()[SIGNED_FROM:SIGNED_TO]) for path in (here, there))
    for name in ("manifest", "directories", "not_read"):
        assert before[name] == after[name]
    assert len(before["remains"]) == len(after["remains"])
    assert 0 == same.status
    for path in (here, there):
        checked = call("verify-certificate", path, place, *check)
        assert (0, same.lines[-1]) == (checked.status, checked.lines[-1])
    (tmp_path / "logs" / "t-0").mkdir(parents=True)
    assert 6 == call("verify-certificate", there, tmp_path / "logs", *check).status


def test_settings_come_from_the_place(call: Call, log_dir: Path) -> None:
    """The cluster's metadata in the directory is read there, and what `archive` has kept; a place
    that has nothing above the directory has no metadata there.
    """
    kept = {"version": 1, "topics": {"u": {"id": None, "configs": {"cleanup.policy": "delete"}}}}
    (log_dir / ".logwright-topics.json").write_text(json.dumps(kept))
    ids = "version=1\ncluster.id=c\nnode.id=1\n"
    (log_dir / "meta.properties").write_text(ids)
    place = elsewhere(log_dir)
    for path in place.pure.parents:
        del place.store.entries[path]
    expected = call("config", log_dir, "u", *NOW)
    answer = call("config", text_of(place), "u", *NOW)
    assert 0 == answer.status, answer.err
    assert "delete" in answer.out
    assert expected.out == answer.out
    topic = [records.topic("t", 1), records.config(2, "t", "cleanup.policy", "compact")]
    MetadataBuilder(log_dir).segment(0, topic)
    words = ("t", "--output", "json", *NOW)
    expected = call("config", log_dir, *words)
    answer = call("config", away(log_dir), *words)
    assert 0 == answer.status, answer.err
    assert expected.out == answer.out
    setting = answer.lines[0]["configs"]["cleanup.policy"]
    where = f"{log_dir / '__cluster_metadata-0'} at offset 1"
    assert {"value": "compact", "origin": "topic", "where": where} == setting


CHANGES: dict[str, tuple[str, ...]] = {
    "archive": ("--bootstrap", "localhost:1", "--topic", "t"),
    "clean": (),
    "delete": ("t-0",),
    "erase": ("--keys", "{}/keys"),
    "ingest": ("--topic", "t", "--from", "{}/keys", "--format", "csv"),
    "maintain": (),
    "metrics": (),
    "move": ("t-0", "--to", "{}"),
    "pause": ("t-0", "--reason", "x"),
    "plan": (),
    "purge": (),
    "quarantine": ("t-0", "--set", "x"),
    "recover": (),
    "resume": (),
    "retain": (),
    "roll": (),
    "undo": ("t-0",),
    "verify": ("--against", "{}"),
}


@pytest.mark.parametrize("command", CHANGES)
def test_a_command_that_needs_a_directory_refuses(
    call: Call, log_dir: Path, tmp_path: Path, command: str
) -> None:
    """By name, as an error of usage, before it asks or reads any log."""
    place = elsewhere(log_dir)
    words = [word.format(tmp_path) for word in CHANGES[command]]
    answer = call(command, text_of(place), *words)
    assert 2 == answer.status, answer.err
    assert f"{log_dir} can only be read: this command works on a directory" in answer.err
    assert [] == [path for path in place.store.opened if path.endswith(".log")]


def test_a_malformed_name(call: Call) -> None:
    """What the place refuses is an error, and not a path of this machine."""
    answer = call("dump", f"{SCHEME}:99999/x")
    assert 2 == answer.status
    assert "memory has no place" in answer.err
