"""`find`: every file that holds a requested key is named, none else, and no key is shown."""

from __future__ import annotations

import base64
import hmac
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logwright.errors import CorruptLogError, UnsupportedFormatError
from logwright.format.names import marked_directory_name
from logwright.ingest.schema import SCHEMA
from tests import metadata_builder as records
from tests.found import plain_bytes
from tests.log_builder import START_MS, LogBuilder
from tests.metadata_builder import MetadataBuilder
from tests.unit.cli.conftest import Answer, Call

SECRET_KEYS = [b"planted-alice", b"planted-bob", b"planted-carol", b"planted-dave"]
PLANTED_VALUE = b"planted-value"
DAY = 86_400_000
FOREIGN = "it is neither records nor what Kafka or logwright writes into a file of this name"
NOW = START_MS + DAY
COMPACT = ("--config", "cleanup.policy=compact", "--now", str(NOW))


def pairs(*keys: bytes, value: bytes | None = PLANTED_VALUE) -> list[tuple[bytes, bytes | None]]:
    return [(key, value) for key in keys]


def build(log_dir: Path, partition: str, codec: int) -> LogBuilder:
    """Requested and other keys in two closed segments and the active one, with transactions."""
    alice, bob, carol, dave = SECRET_KEYS
    builder = LogBuilder(log_dir, partition)
    first = builder.segment(0)
    first.batch(0, pairs(alice, b"x", bob, b"y"), codec=codec)
    first.batch(4, pairs(carol, dave), codec=codec, producer_id=1, transactional=True)
    first.marker(6, 1, "abort")
    second = builder.segment(7)
    second.batch(7, [(alice, None), (b"x", b"2")], codec=codec)
    second.batch(9, pairs(bob, dave), codec=codec, producer_id=2, transactional=True)
    second.marker(11, 2, "commit")
    builder.segment(12).batch(12, pairs(b"z", carol), codec=codec)
    return builder.write(producers=True)


def keys_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.txt"
    path.write_bytes(b"\n".join(SECRET_KEYS) + b"\n")
    return path


def search(call: Call, log_dir: Path, *words: str | Path) -> Answer:
    keys = (
        () if "--keys" in words or "--requests" in words else ("--keys", keys_file(log_dir.parent))
    )
    return call("find", log_dir, *keys, *words, *COMPACT, "--output", "json")


def findings(answer: Answer) -> list[dict[str, Any]]:
    return [line for line in answer.lines if "kind" in line]


def holders(root: Path) -> set[str]:
    """The files in which plain code sees one of the keys, decompressed where that is possible."""
    paths = set()
    for path in root.rglob("*"):
        if not path.is_file():
            continue
        content = path.read_bytes()
        with suppress(CorruptLogError, UnsupportedFormatError, ValueError):
            content = plain_bytes(content) if ".log" in path.name else content
        if any(key in content for key in SECRET_KEYS):
            paths.add(str(path.relative_to(root)))
    return paths


@pytest.mark.parametrize("codec", range(5))
def test_live_segments_of_all_codecs(call: Call, tmp_path: Path, codec: int) -> None:
    """Offset, kind and file of each record; nothing else is found."""
    build(tmp_path / "logs", "t-0", codec)
    answer = search(call, tmp_path / "logs")
    assert answer.status == 8
    got = [(one["offset"], one["kind"], one["request"]) for one in findings(answer)]
    expected = [
        (0, "superseded", "line 1"),
        (2, "superseded", "line 2"),
        (4, "aborted", "line 3"),
        (5, "aborted", "line 4"),
        (7, "tombstone", "line 1"),
        (9, "live", "line 2"),
        (10, "live", "line 4"),
        (13, "live", "line 3"),
    ]
    assert expected == got
    assert holders(tmp_path / "logs") == {one["path"] for one in findings(answer)}
    summary = answer.lines[-1]
    assert (4, 4, 8, 0) == tuple(
        summary[name] for name in ("keys", "keysFound", "records", "unsearched")
    )


def everywhere(call: Call, log_dir: Path) -> None:
    """Put the keys into every kind of file, where possible by the commands that leave them."""
    build(log_dir, "t-0", 3)
    assert call("clean", log_dir, "--force", "--yes", *COMPACT).status == 0  # leaves .deleted
    part = log_dir / "t-0"
    source = min(part.glob("*.log"))
    for place in ("staging/1-0123abcd-0123abcd", f"failed/{NOW + 5}.1-0123abcd-0123abcd", "cut/1"):
        directory = part / ".logwright" / place
        directory.mkdir(parents=True)
        shutil.copy2(source, directory / source.name)
    shutil.copy2(source, part / f"{7:020d}.log.cleaned")
    for number, mark in enumerate(("stray", "future", "delete"), 1):
        other = LogBuilder(log_dir.parent / f"more-{number}", f"u-{number}")
        other.segment(0).batch(0, pairs(*SECRET_KEYS, b"other"), codec=4)
        other.write()
        name = marked_directory_name(other.partition, f"{number:032x}", f"-{mark}")
        shutil.move(other.directory, log_dir / name)
        shutil.rmtree(other.log_dir)
    rows: list[tuple[object, ...]] = [(SECRET_KEYS[0], PLANTED_VALUE, [], 1), (b"no", None, [], 2)]
    columns = [[row[at] for row in rows] for at in range(4)]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(one, type=field.type) for one, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )
    with (log_dir / ".logwright-write-0").open("wb") as sink, pa.ipc.new_file(sink, SCHEMA) as file:
        file.write_batch(batch)


def test_threads_do_not_change_what_is_shown(call: Call, tmp_path: Path) -> None:
    """The same lines in the same order, of every kind of file."""
    log_dir = tmp_path / "logs"
    everywhere(call, log_dir)
    secret = tmp_path / "secret"
    secret.write_bytes(b"s" * 32)
    secret.chmod(0o600)
    first, *others = (
        search(call, log_dir, "--secret", secret, "--pattern", keys_file(tmp_path), *words)
        for words in ((), ("--threads", "1"), ("--threads", "3"))
    )
    assert findings(first)
    assert [(first.status, first.lines)] * 2 == [(other.status, other.lines) for other in others]
    assert 2 == search(call, log_dir, "--threads", "0").status


def test_every_kind_of_file(call: Call, tmp_path: Path) -> None:
    """The files that are named are those in which plain code sees a key: none more, none less."""
    log_dir = tmp_path / "logs"
    everywhere(call, log_dir)
    answer = search(call, log_dir)
    assert holders(log_dir) == {one["path"] for one in findings(answer)}
    assert {
        "segment",
        "deleted",
        "deleted log",
        "stray",
        "future",
        "staging",
        "cut",
        "failed output",
    } == {one["place"] for one in findings(answer)}
    rules = {(one["place"], one["rule"], one["goneByMs"]) for one in findings(answer)}
    assert ("deleted", "file.delete.delay.ms", NOW + 60_000) in rules
    assert ("failed output", "sweep.keep_failed_output_ms", NOW + 5) in rules
    assert {("cut", "", None), ("stray", "", None), ("future", "", None)} <= rules
    assert ("staging", "purge", NOW) in rules
    assert 0 == answer.lines[-1]["unsearched"]


def test_the_purge_removes_what_was_said(call: Call, tmp_path: Path) -> None:
    """At the time that was named, and not one millisecond earlier."""
    log_dir = tmp_path / "logs"
    build(log_dir, "t-0", 2)
    call("clean", log_dir, "--force", "--yes", *COMPACT)
    gone = {one["path"]: one["goneByMs"] for one in findings(search(call, log_dir))}
    deleted = {path: at for path, at in gone.items() if path.endswith(".deleted")}
    assert {NOW + 60_000} == set(deleted.values())
    call("purge", log_dir, "--yes", "--now", NOW + 59_999)
    assert all((log_dir / path).exists() for path in deleted)
    call("purge", log_dir, "--yes", "--now", NOW + 60_000)
    assert not any((log_dir / path).exists() for path in deleted)


def test_archives_tables_and_several_directories(call: Call, tmp_path: Path) -> None:
    """Nothing maintains an archive; a table's rows are found by their keys."""
    build(tmp_path / "logs", "t-0", 0)
    build(tmp_path / "others", "u-0", 1)
    shutil.copytree(tmp_path / "logs", tmp_path / "archive")
    table = tmp_path / "table"
    assert 0 == call("latest", tmp_path / "logs", "t", "--to", table, "--key", "string").status
    (table / "notes.txt").write_text("x")
    answer = call(
        "find",
        tmp_path / "logs",
        tmp_path / "others",
        "--archive",
        tmp_path / "archive",
        "--table",
        table,
        "--keys",
        keys_file(tmp_path),
        *COMPACT,
        "--output",
        "json",
    )
    by_directory = {
        name: [one for one in findings(answer) if one["directory"] == str(tmp_path / name)]
        for name in ("logs", "others", "archive", "table")
    }
    assert [8, 8, 8, 3] == [len(found) for found in by_directory.values()]
    assert {("archive", "", None)} == {
        (finding["place"], finding["rule"], finding["goneByMs"])
        for finding in by_directory["archive"]
    }
    assert {"line 2", "line 3", "line 4"} == {one["request"] for one in by_directory["table"]}
    (unsearched,) = [one for one in answer.lines if one.get("place") == "unreadable"]
    assert "notes.txt" == unsearched["path"]


def test_what_cannot_be_searched_is_named(call: Call, tmp_path: Path) -> None:
    """A link, a damaged batch, an unknown file and a log that must be recovered."""
    log_dir = tmp_path / "logs"
    builder = LogBuilder(log_dir)
    builder.segment(0).batch(0, [("other", "x")])
    builder.write()
    (log_dir / "t-0" / "core").write_text("x")
    (log_dir / "dump.bin").write_text("x")
    (log_dir / "t-0" / f"{9:020d}.log.deleted").symlink_to(keys_file(tmp_path))
    damaged = bytearray((log_dir / "t-0" / f"{0:020d}.log").read_bytes())
    damaged[-1] ^= 1
    (log_dir / "t-0" / f"{0:020d}.log").write_bytes(damaged)
    answer = search(call, log_dir)
    assert answer.status == 9
    named = {one["path"]: one["problem"] for one in answer.lines if "problem" in one}
    assert {
        "dump.bin": FOREIGN,
        "t-0/00000000000000000000.log": "the record batch's CRC is wrong",
        "t-0/00000000000000000009.log.deleted": "a symbolic link, which is not followed",
        "t-0/core": FOREIGN,
    } == named


def test_a_paused_log_is_not_maintained(call: Call, tmp_path: Path) -> None:
    """Until it is resumed nothing removes its records, and who paused it is said."""
    log_dir = tmp_path / "logs"
    build(log_dir, "t-0", 0)
    rules = ("--config", "min.cleanable.dirty.ratio=0")
    before = {one["rule"] for one in findings(search(call, log_dir, *rules))}
    assert "min.cleanable.dirty.ratio" in before
    pause = ("--owner", "ann", "--reason", "why", "--yes", "--now", str(NOW))
    assert 0 == call("pause", log_dir, "t-0", *pause).status
    assert {""} == {one["rule"] for one in findings(search(call, log_dir, *rules))}
    keys = ("--keys", keys_file(tmp_path))
    assert "paused by ann" in call("find", log_dir, *keys, *rules, *COMPACT).out


def test_nothing_is_found(call: Call, tmp_path: Path) -> None:
    """Then the exit status is 0, and the directory is as it was."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("other", "x")])
    builder.write()
    before = sorted(path.stat().st_mtime_ns for path in (tmp_path / "logs").rglob("*"))
    answer = call("find", tmp_path / "logs", "--keys", keys_file(tmp_path))
    assert answer.status == 0
    files = sum(path.is_file() for path in (tmp_path / "logs").rglob("*"))
    never = "never found: nothing that was searched shows that this key was ever here."
    lines = answer.out.splitlines()
    assert [f"line {number}: {never}" for number in range(1, 5)] == lines[:4]
    assert lines[4].startswith(f"0 records of 0 of 4 keys in {files} files")
    assert before == sorted(path.stat().st_mtime_ns for path in (tmp_path / "logs").rglob("*"))


def absent(answer: Answer) -> list[tuple[str, str, str]]:
    """What is said of the keys without a record."""
    return [(line["request"], line["state"], line["why"]) for line in answer.lines if "why" in line]


@pytest.mark.parametrize("how", ["at once", "by tombstones"])
def test_what_was_erased_is_not_what_was_never_there(call: Call, tmp_path: Path, how: str) -> None:
    """The one has the time of its erasure; of the other nothing shows that it was there. Neither is
    claimed with another secret, or a file that was not searched.
    """
    alice, bob, carol, _ = SECRET_KEYS
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [(alice, b"x"), (bob, b"x"), (b"other", b"x")])
    builder.segment(3)
    builder.write()
    keys, secret = tmp_path / "keys", tmp_path / "secret"
    secret.write_bytes(b"s" * 40)
    secret.chmod(0o600)
    keys.write_bytes(alice)
    more = ("--keys", keys, "--config", "file.delete.delay.ms=0")
    at_once = ["--now-and-for-good"] if how == "at once" else []
    words = (*more, *at_once, *COMPACT[:2], "--config", "delete.retention.ms=1000", "--yes")
    for now_ms in (NOW, NOW + 2_000)[: 2 - len(at_once)]:
        call("erase", tmp_path / "logs", *words, "--secret", secret, "--now", str(now_ms))
    keys.write_bytes(b"\n".join((alice, bob, carol)))
    never = "never found: nothing that was searched shows that this key was ever here"
    other = f"{never}; erasures under another secret are on record, which cannot be compared"
    assert [
        ("line 1", "gone", f"erased {how} on 2025-10-10 08:53:20Z, topic t"),
        ("line 3", "not found", never),
    ] == absent(search(call, tmp_path / "logs", *more, "--secret", secret))
    assert [("line 1", "not found", other), ("line 3", "not found", other)] == absent(
        search(call, tmp_path / "logs", *more)
    )
    (tmp_path / "logs/t-0/letter.txt").write_text("x")
    left = "1 place that could hold its records not searched"
    assert [("line 1", "not proved", left), ("line 3", "not proved", left)] == absent(
        search(call, tmp_path / "logs", *more, "--secret", secret)
    )


def test_no_key_is_shown(call: Call, tmp_path: Path) -> None:
    """Neither in text nor as JSON, in messages, nor with errors; the HMAC is openssl's."""
    log_dir = tmp_path / "logs"
    everywhere(call, log_dir)
    secret = tmp_path / "secret"
    secret.write_bytes(b"s" * 40)
    secret.chmod(0o600)
    patterns = tmp_path / "patterns"
    patterns.write_bytes(base64.b64encode(PLANTED_VALUE) + b"\n")
    keys = tmp_path / "base64"
    keys.write_bytes(b"".join(base64.b64encode(key) + b"\n" for key in SECRET_KEYS))
    more = ("--secret", secret, "--pattern", patterns, "--keys-format", "base64", "--keys", keys)
    answers = [search(call, log_dir, *more)]
    answers.append(call("find", log_dir, *more, "--verbose", "--forecast", *COMPACT))
    answers.append(call("find", log_dir, "--keys", keys, "--keys-format", "base64", *COMPACT))
    keys.write_bytes(b"planted-broken!\n")
    answers.append(search(call, log_dir, *more))
    assert [8, 8, 8, 2] == [answer.status for answer in answers]
    for answer in answers:
        assert "planted" not in answer.out + answer.err
        assert base64.b64encode(SECRET_KEYS[0]).decode() not in answer.out + answer.err
    digest = hmac.digest(b"s" * 40, SECRET_KEYS[0], "sha256").hex()
    assert digest in {one["hmac"] for one in findings(answers[0])}
    assert "value" in {one["kind"] for one in findings(answers[0])}


def test_requests_of_a_landing_directory(call: Call, tmp_path: Path) -> None:
    """Each in its topics; a row that is refused stops the search, and is named."""
    build(tmp_path / "logs", "t-0", 0)
    build(tmp_path / "logs2", "u-0", 0)
    secret = tmp_path / "secret"
    secret.write_bytes(b"s" * 40)
    secret.chmod(0o600)
    landing = tmp_path / "landing"
    landing.mkdir()
    rows = [
        {"id": "a", "topics": "t", "key": "planted-alice", "received_at": 1, "deadline": 2},
        {"id": "b", "topics": "regex:[uv]", "key": "planted-bob", "received_at": 1, "deadline": 2},
    ]
    (landing / "r.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ("--requests", landing, "--secret", secret)
    hits = findings(search(call, tmp_path / "logs", *words))
    other = findings(search(call, tmp_path / "logs2", *words))
    assert [("a", 0), ("a", 7)] == [(each["request"], each["offset"]) for each in hits]
    assert [("b", 2), ("b", 9)] == [(each["request"], each["offset"]) for each in other]
    (landing / "x.csv").write_text("id\nplanted\n")
    answer = search(call, tmp_path / "logs", *words)
    assert answer.status == 2
    assert "x.csv:2" in answer.err
    assert "planted" not in answer.err + answer.out


def test_a_pattern_is_in_all_topics(call: Call, tmp_path: Path) -> None:
    """A replica elsewhere of a topic that no request is about may hold it, and no key."""
    log_dir = build(tmp_path / "a", "t-0", 0).log_dir
    build(log_dir, "u-0", 0)
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    topics = [records.topic("t", 1), records.topic("u", 2)]
    partitions = [records.partition(1, 0, [1]), records.partition(2, 0, [1, 2])]
    MetadataBuilder(log_dir).segment(0, topics + partitions)
    (tmp_path / "patterns").write_bytes(b"nowhere\n")
    assert 8 == search(call, log_dir, "--topic", "t").status
    answer = search(call, log_dir, "--topic", "t", "--pattern", tmp_path / "patterns")
    elsewhere = [one for one in answer.lines if "replicasNotSearched" in one]
    assert 9 == answer.status
    assert [{"topic": "u", "replicasNotSearched": [2]}] == elsewhere
    alone = call("find", log_dir, "--pattern", tmp_path / "patterns", *COMPACT)
    assert 9 == alone.status


def test_usage(call: Call, tmp_path: Path) -> None:
    """Something must be asked for, and a deadline must be a time."""
    build(tmp_path / "logs", "t-0", 0)
    assert "give --keys" in call("find", tmp_path / "logs").err
    answer = search(call, tmp_path / "logs", "--deadline", "soon")
    assert (2, True) == (answer.status, "'--deadline': 'soon'" in answer.err)
    dry = search(call, tmp_path / "logs", "--dry-run")
    files = sum(path.is_file() for path in (tmp_path / "logs").rglob("*"))
    assert [files] == [line["files"] for line in dry.lines]


def test_the_keys_of_what_has_a_pattern(call: Call, tmp_path: Path) -> None:
    """Each key once, in any topic and codec, in a file of its own that requests are made of; those
    that are requested anyway, and keys of other records, are not in it.
    """
    log_dir, keys, patterns = tmp_path / "logs", tmp_path / "keys", tmp_path / "patterns"
    for codec, topic in enumerate(("t", "u")):
        log = LogBuilder(log_dir, f"{topic}-0")
        log.segment(0).batch(0, [(b"a\xff", b"of ann"), (b"b", b"of bob")], codec=2 * codec)
        log.segment(2).batch(2, [(b"a\xff", b"ann"), (topic.encode(), b"ann")], codec=codec)
        log.segment(4).batch(4, [(None, b"ann"), (b"ann", None), (b"known", b"ann")])
        log.segment(7).batch(7, [(b"by hmac", b"ann")])
        log.write()
    patterns.write_bytes(b"ann\n")
    (tmp_path / "secret").write_bytes(b"s" * 40)
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "landing").mkdir()
    digest = hmac.digest(b"s" * 40, b"by hmac", "sha256").hex()
    common = {"topics": "regex:.*", "received_at": 1, "deadline": 2}
    rows = [{"id": "a", "key": "known", **common}, {"id": "b", "hmac": digest, **common}]
    (tmp_path / "landing/r.jsonl").write_text("\n".join(map(json.dumps, rows)))
    requests = ("--requests", tmp_path / "landing", "--secret", tmp_path / "secret")
    words = ("--pattern", patterns, *requests, "--keys-to", keys)
    answer = search(call, log_dir, *words)
    assert 8 == answer.status
    expected = [base64.b64encode(key) for key in (b"ann", b"a\xff", b"t", b"u")]
    assert expected == keys.read_bytes().splitlines()
    assert 0o600 == keys.stat().st_mode & 0o777
    (line,) = [line for line in answer.lines if "keysFile" in line]
    assert (4, {"t": 3, "u": 3}, True) == (
        line["keysWritten"],
        line["keysOfTopics"],
        line["withoutKey"],
    )
    assert "ann" not in json.dumps([{**line, "keysFile": ""} for line in answer.lines])
    assert 5 == search(call, log_dir, *words).status
    assert expected == keys.read_bytes().splitlines()
    listed = search(call, log_dir, "--keys", keys, "--keys-format", "base64")
    assert (8, 8) == (listed.status, len(findings(listed)))
    refused = call("find", log_dir, "--keys", keys, "--keys-to", tmp_path / "new")
    assert (2, False) == (refused.status, (tmp_path / "new").exists())
