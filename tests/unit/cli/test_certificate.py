"""``logwright certificate``: what is signed of real logs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logwright.erasure.certificate.keys import load_public
from logwright.erasure.certificate.model import Certificate
from logwright.erasure.certificate.signed import read_certificate
from tests.e2e.command import Answer, call, tree
from tests.log_builder import START_MS, LogBuilder

NOW_MS = START_MS + 86_400_000
SECRET = "0123456789abcdef" * 4


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    """A log with a superseded record and its tombstone, a live one, another person's in whose value
    it is named; keys, secret and signing key.
    """
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("ann", "1"), ("bob", "2"), ("eve", "knows ann")])
    log.segment(3).batch(3, [("ann", None)])
    log.segment(4)
    log.write()
    (tmp_path / "keys").write_text("ann\nbob\nnobody\n")
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    assert call("certificate", "--new-key", tmp_path / "key").status == 0
    return tmp_path


def certify(place: Path, *more: str | Path | int) -> Answer:
    return call(
        "certificate",
        place / "logs",
        *("--keys", place / "keys", "--secret", place / "secret"),
        *("--signing-key", place / "key", "--out", place / "c.json"),
        *("--now", NOW_MS, "--config", "cleanup.policy=compact"),
        *more,
    )


def signed(place: Path) -> Certificate:
    return read_certificate(place / "c.json", load_public(place / "key.pub"))


def found(certificate: Certificate) -> list[tuple[int, int, str, int, str, str]]:
    return [
        (hit.request, hit.directory, hit.path.text, hit.offset, hit.kind, hit.place)
        for hit in certificate.remains
    ]


LOG = "t-0/00000000000000000000.log"


def test_what_is_signed(place: Path) -> None:
    """Every record of the keys and every file; the directory stays as it was."""
    before = tree(place / "logs")
    answer = certify(place)
    assert 6 == answer.status, answer.err
    assert before == tree(place / "logs")
    made = signed(place)
    assert [
        (0, 0, LOG, 0, "superseded", "segment"),
        (1, 0, LOG, 1, "live", "segment"),
        (0, 0, "t-0/00000000000000000003.log", 3, "tombstone", "segment"),
    ] == found(made)
    assert ["remains", "remains", "not found"] == [one.state for one in made.requests]
    assert {"searched", "no records"} == {one.looked for one in made.manifest}
    assert ("t",) == made.topics
    files = {str(p.relative_to(place / "logs")) for p in (place / "logs").rglob("*") if p.is_file()}
    assert files == set(made.files_of(0))
    assert NOW_MS == made.issued_at_ms
    assert str(place / "logs") == made.directories[0].path


def test_deadline(place: Path) -> None:
    """One that passes is missed from its ms on, and the exit status says it."""
    assert 6 == certify(place, "--deadline", NOW_MS + 1).status
    assert "will be late" == signed(place).requests[0].state
    answer = certify(place, "--deadline", NOW_MS, "--output", "json")
    assert 6 == answer.status
    assert {"missed": 2, "not found": 1} == answer.lines[-1]["requests"]
    assert 2 == certify(place, "--deadline", "tomorrow").status


def test_an_unreadable_file(place: Path) -> None:
    """What is not a log's file is named, and nothing is called gone, or late."""
    (place / "logs/t-0/letter.txt").write_text("ann")
    answer = certify(place)
    assert 6 == answer.status
    made = signed(place)
    assert ["t-0/letter.txt"] == [one.path.text for one in made.not_read]
    assert ["not proved"] * 3 == [one.state for one in made.requests]
    assert ["t"] == [one.topic for one in made.not_read]
    assert 6 == certify(place, "--deadline", NOW_MS + 1).status
    assert ["not proved"] * 3 == [one.state for one in signed(place).requests]
    assert "not searched: t-0/letter.txt" in answer.err


def test_archives_tables_and_patterns(place: Path) -> None:
    """Each is a directory of the certificate, with its files; a person in another one's value is
    named without a request.
    """
    shutil.copytree(place / "logs", place / "copy")
    (place / "table").mkdir()
    pq.write_table(pa.table({"key": [b"bob", b"zed"]}), place / "table/part.parquet")
    (place / "patterns").write_text("ann\n")
    answer = certify(
        place,
        *("--archive", place / "copy", "--table", place / "table"),
        *("--pattern", place / "patterns"),
    )
    assert 6 == answer.status, answer.err
    made = signed(place)
    assert ["logs", "copy", "table"] == [Path(one.path).name for one in made.directories]
    rows = found(made)
    assert (1, 2, "part.parquet", -1, "live", "table") in rows
    assert (1, 1, LOG, 1, "live", "archive") in rows
    assert (-1, 0, LOG, 2, "value", "segment") in rows
    answer = call(
        *("verify-certificate", place / "c.json", "--public-key", place / "key.pub"),
        *(place / "logs", place / "copy", place / "table"),
    )
    assert 0 == answer.status, answer.out


def test_several_log_directories(place: Path) -> None:
    """Each has a number, and its own files."""
    shutil.copytree(place / "logs", place / "replica")
    assert 6 == certify(place, place / "replica").status
    made = signed(place)
    assert {0, 1} == {one.directory for one in made.remains}
    assert set(made.files_of(0)) == set(made.files_of(1))


@pytest.mark.parametrize(
    ("words", "status", "problem"),
    [
        (("--out", "c.html"), 2, "that is the name of the page"),
        (("--out", "logs/x.json"), 2, "that is inside of"),
        (("--out", "logs/t-0/x.json"), 2, "that is inside of"),
        (("--out", "link/x.json"), 2, "that is inside of"),
        (("--signing-key", "secret"), 5, "no private Ed25519 key"),
        (("--secret", "nothing"), 2, "secret cannot be read"),
        (("--keys", "empty"), 2, "line 1 is empty"),
        (("--requests", "store"), 2, "landing directory cannot be read"),
    ],
)
def test_what_is_refused(place: Path, words: tuple[str, str], status: int, problem: str) -> None:
    """With the reason; nothing is written."""
    (place / "link").symlink_to(place / "logs")
    (place / "empty").write_text("")
    answer = certify(place, words[0], place / words[1])
    assert status == answer.status, answer.out
    assert problem in answer.err
    assert not (place / "c.json").exists()


@pytest.mark.parametrize("issuer", [" ", "x" * 201, "a\nb"])
def test_an_issuer_that_is_not_a_name(place: Path, issuer: str) -> None:
    """It would be signed: it is refused."""
    answer = certify(place, "--issuer", issuer)
    assert 2 == answer.status
    assert "--issuer" in answer.err
    assert not (place / "c.json").exists()


def test_dry_run(place: Path) -> None:
    """It searches and writes nothing."""
    answer = certify(place, "--dry-run", "--output", "json")
    assert 0 == answer.status
    assert {"remains": 2, "not found": 1} == answer.lines[-1]["requests"]
    assert not (place / "c.json").exists()


def test_stored_requests(place: Path) -> None:
    """The landing directory, or the store that the platform makes: HMAC, topics and times."""
    (place / "in").mkdir()
    rows: list[dict[str, Any]] = [
        {"id": "a", "topics": "t", "key": "ann", "received_at": 1, "deadline": NOW_MS + 5},
        {"id": "b", "topics": "other", "key": "bob", "received_at": 2, "deadline": NOW_MS},
    ]
    (place / "in/r.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    answer = call(
        "certificate",
        place / "logs",
        *("--requests", place / "in", "--secret", place / "secret"),
        *("--signing-key", place / "key", "--out", place / "c.json", "--now", NOW_MS),
    )
    assert 6 == answer.status, answer.err
    assert "1 requests: no log of its topics was found" in answer.err
    first, second = signed(place).requests
    assert ("t", 1, NOW_MS + 5, "will be late", 2) == (
        first.topics,
        first.received_at_ms,
        first.deadline_ms,
        first.state,
        first.found,
    )
    assert ("other", "not proved") == (second.topics, second.state)


@pytest.mark.parametrize(("secret", "state"), [(("--secret",), "gone"), ((), "not found")])
def test_after_an_erasure(place: Path, secret: tuple[str, ...], state: str) -> None:
    """Nothing is found and all is read; an earlier certificate sees that the files are others. By
    another secret nobody knows whose records were erased.
    """
    log_dir = place / "logs"
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    assert 6 == certify(place, "--out", place / "before.json").status
    erased = call(
        *("erase", log_dir, "--keys", place / "keys", "--now-and-for-good", "--yes"),
        *("--now", NOW_MS, "--config", "cleanup.policy=compact"),
        *(word for one in secret for word in (one, place / "secret")),
    )
    assert 0 == erased.status, erased.err
    answer = certify(place, "--deadline", NOW_MS)
    assert 0 == answer.status, answer.err
    made = signed(place)
    assert [state, state, "not found"] == [one.state for one in made.requests]
    assert () == made.remains
    assert [] == [path for path in log_dir.rglob("*.log") if b"bob" in path.read_bytes()]
    earlier = certify(place, "--earlier", place / "before.json")
    assert 0 == earlier.status, earlier.err
    words = ("--public-key", place / "key.pub", log_dir)
    assert 6 == call("verify-certificate", place / "before.json", *words).status
    assert 0 == call("verify-certificate", place / "c.json", *words).status


def test_an_earlier_certificate(place: Path) -> None:
    """Keys whose records it lists are gone if nothing is left; it must be of the same key."""
    assert 6 == certify(place, "--out", place / "before.json").status
    shutil.rmtree(place / "logs")
    log = LogBuilder(place / "logs")
    log.segment(0).batch(0, [("eve", "1")])
    log.write()
    assert 0 == certify(place).status
    assert ["not found"] * 3 == [one.state for one in signed(place).requests]
    assert 0 == certify(place, "--earlier", place / "before.json").status
    assert ["gone", "gone", "not found"] == [one.state for one in signed(place).requests]
    assert call("certificate", "--new-key", place / "other").status == 0
    assert (
        3
        == certify(
            place, "--earlier", place / "before.json", "--signing-key", place / "other"
        ).status
    )


def test_a_directory_that_is_not_utf8(place: Path) -> None:
    """Its path is signed in hex."""
    odd = place / os.fsdecode(b"caf\xe9")
    (place / "logs").rename(odd)
    answer = call(
        *("certificate", odd, "--keys", place / "keys", "--secret", place / "secret"),
        *("--signing-key", place / "key", "--out", place / "c.json", "--now", NOW_MS),
    )
    assert 6 == answer.status, answer.err
    (directory,) = signed(place).directories
    assert str(odd) == directory.name.path
    words = ("--public-key", place / "key.pub", odd)
    assert 0 == call("verify-certificate", place / "c.json", *words).status
    assert 0 == call("verify-certificate", place / "c.json", *words, "--output", "json").status
