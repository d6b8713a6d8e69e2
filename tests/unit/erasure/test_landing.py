"""Requests as files: what is read, what is refused and how, and the store without keys."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logwright.erasure.form_of import form_of
from logwright.erasure.key_text import QUOTES, WHITE_SPACE
from logwright.erasure.landing import Landed, read_landing
from logwright.erasure.request import Request
from logwright.erasure.secret import Secret
from logwright.erasure.store import STORE, merge, read_store, write_store
from logwright.errors import PolicyError

SECRET = Secret.of(b"s" * 32)
RECEIVED = "2026-01-02T03:04:05+01:00"
RECEIVED_MS = 1_767_319_445_000
MISSING = (
    "deadline is missing; has a column that is not known; id is missing; received_at is missing;"
    " topics is missing"
)
PLANTED = "planted.person@example.com"


def row(**changes: object) -> dict[str, Any]:
    given = {
        "id": "r-1",
        "topics": "customers",
        "key": PLANTED,
        "received_at": RECEIVED,
        "deadline": RECEIVED_MS + 1000,
    }
    return {name: value for name, value in {**given, **changes}.items() if value is not None}


def request(key: bytes = PLANTED.encode(), **changes: object) -> Request:
    form = form_of(key, SECRET)
    given: dict[str, Any] = {
        "id": "r-1",
        "topics": "customers",
        "hmac": SECRET.hmac(key),
        "filter": SECRET.filter(key),
        "received_at_ms": RECEIVED_MS,
        "deadline_ms": RECEIVED_MS + 1000,
        "forms": form.hmacs,
        "form_filters": form.filters,
    }
    return Request(**{**given, **changes})


def read_json(tmp_path: Path, *rows: object) -> Landed:
    lines = [one if isinstance(one, str) else json.dumps(one) for one in rows]
    (tmp_path / "requests.jsonl").write_text("\n".join(lines) + "\n")
    return read_landing(tmp_path, SECRET)


def test_one_request_in_each_format(tmp_path: Path) -> None:
    """CSV, JSON lines and Parquet give the same request; other names are ignored or refused."""
    (tmp_path / "a.csv").write_text(
        "id,topic,key,received_at,deadline,hmac\n"
        f'r-1,customers,"{PLANTED}",{RECEIVED},{RECEIVED_MS + 1000},\n'
    )
    (tmp_path / "b.jsonl").write_text(json.dumps(row()) + "\n\n")
    moment = datetime.fromtimestamp(RECEIVED_MS / 1000, tz=UTC)
    columns = {**row(), "key": PLANTED.encode(), "received_at": moment}
    pq.write_table(pa.Table.from_pylist([columns]), tmp_path / "c.parquet")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "notes.txt").write_text("x")
    landed = read_landing(tmp_path, SECRET)
    assert (request(), request(), request()) == landed.requests
    assert ["notes.txt: is neither .csv, .jsonl nor .parquet"] == [*map(str, landed.refused)]


def test_a_key_in_base64_and_an_hmac(tmp_path: Path) -> None:
    """Binary keys are base64; of an HMAC no filter is known."""
    binary = bytes(range(256))
    landed = read_json(
        tmp_path,
        row(key=None, key_base64=base64.b64encode(binary).decode()),
        row(key=None, hmac=SECRET.hmac(binary).hex().upper(), topics="regex:cust.*"),
    )
    assert request(binary) == landed.requests[0]
    expected = request(binary, filter=None, topics="regex:cust.*", forms=(), form_filters=())
    assert expected == landed.requests[1]
    assert () == landed.refused
    assert landed.requests == landed.require_all(tmp_path)


def test_a_decoded_key(tmp_path: Path) -> None:
    """JSON is the same however it is written, and a text is itself."""
    landed = read_json(
        tmp_path,
        row(key=None, key_decoded='{"b": 1, "a": "x"}'),
        row(key=None, key_decoded='{"a":"x","b":1}'),
        row(key=None, key_decoded=PLANTED),
    )
    first, second, third = landed.require_all(tmp_path)
    assert first == second
    assert request(decoded=True) == third


def test_a_deadline_may_be_the_moment_of_receipt(tmp_path: Path) -> None:
    """Such a request is due at once."""
    landed = read_json(tmp_path, row(deadline=RECEIVED_MS))
    assert (request(deadline_ms=RECEIVED_MS),) == landed.require_all(tmp_path)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (row(id=None), "id is missing"),
        (row(id=7), "id is not valid (string_type)"),
        (row(id=PLANTED), "the row has the key in its id"),
        (row(topics=None), "topics is missing"),
        (row(topics=PLANTED + "!"), "topics is neither a topic nor has the prefix regex:"),
        (row(topics="regex:("), "topics is not a regular expression"),
        (row(key=None), "the row has not exactly one of key, key_base64, key_decoded and hmac"),
        (row(hmac="00" * 32), "the row has not exactly one of key, key_base64, key_decoded and"),
        (row(key_decoded="x"), "the row has not exactly one of key, key_base64, key_decoded and"),
        (row(key=None, key_decoded=PLANTED, id=PLANTED), "the row has the key in its id"),
        (row(key=None, key_decoded=""), "key_decoded is empty"),
        (row(key=None, key_base64=PLANTED), "key_base64 is not base64"),
        (row(key=None, hmac=PLANTED), "hmac does not have 64 hexadecimal digits"),
        (row(key="\ud800" + PLANTED), "key is not text that UTF-8 has"),
        (row(key=""), "key is empty"),
        (row(key=None, key_base64=""), "key_base64 is empty"),
        (row(key="\ufeff" + PLANTED), "key begins with a byte order mark; such a key is given as"),
        (row(key=PLANTED + "\0"), "key has a NUL byte"),
        (row(key=" "), "key has only white space"),
        (row(topics=""), "topics is neither a topic nor has the prefix regex:"),
        (row(topics=".."), "topics is neither a topic nor has the prefix regex:"),
        (row(topics="regex:"), "topics has an empty pattern"),
        (row(topics="regex:(a)\\1"), "topics is not a regular expression of RE2"),
        (f'{{"key": "{PLANTED}", {json.dumps(row(key="b"))[1:]}', "has a name twice"),
        (f'{{"id": {{"{PLANTED}": 1, "{PLANTED}": 1}}}}', "has a name twice"),
        (row(received_at=PLANTED), "received_at is not a time"),
        (row(received_at="2026-01-02T03:04:05"), "received_at is not a time"),
        (row(deadline=-1), "deadline is not a time"),
        (row(deadline=True), "deadline is not"),
        (row(deadline=RECEIVED_MS - 1), "the row has a deadline before it was received"),
        ({**row(), PLANTED: 1}, "has a column that is not known"),
        (PLANTED, "is not JSON in UTF-8"),
        (json.dumps([PLANTED]), "is not a JSON object"),
        ('{"a":' * 100_000, "is not JSON in UTF-8"),
    ],
)
def test_a_bad_row_is_refused_without_its_content(
    tmp_path: Path, bad: object, problem: str
) -> None:
    """By file and line, and the rows around it are read."""
    landed = read_json(tmp_path, row(id="good-1"), bad, row(id="good-2"))
    assert ["good-1", "good-2"] == [one.id for one in landed.requests]
    (refused,) = landed.refused
    assert str(refused).startswith(f"requests.jsonl:2: {problem}")
    assert PLANTED not in repr(landed)
    with pytest.raises(PolicyError) as raised:
        landed.require_all(tmp_path)
    assert PLANTED not in str(raised.value)
    assert "requests.jsonl:2" in str(raised.value)


def test_a_key_that_may_not_be_meant(tmp_path: Path) -> None:
    """It is searched for as it is written, and named by file and line."""
    landed = read_json(tmp_path, row(), row(id="r-2", key=f'"{PLANTED}" '))
    assert SECRET.hmac(f'"{PLANTED}" '.encode()) == landed.requests[1].hmac
    assert [f"requests.jsonl:2: key {one}" for one in (WHITE_SPACE, QUOTES)] == [
        *map(str, landed.doubts)
    ]
    assert PLANTED not in repr(landed)


@pytest.mark.parametrize(
    ("content", "refusals"),
    [
        (b"id,id\n", ["x.csv:1: names a column twice"]),
        (b"id,topics\nr,t,planted\n", ["x.csv:2: has 3 fields, not 2 as the header"]),
        (b"id,topics\n\nr,\xffplanted\n", ["x.csv:3: is not UTF-8"]),
        (b'id,topics\n"r,planted\n', ["x.csv:2: is not CSV (RFC 4180); what follows was not read"]),
        (b"planted\nplanted\n", [f"x.csv:2: {MISSING}"]),
        (b"", []),
    ],
)
def test_damaged_csv(tmp_path: Path, content: bytes, refusals: list[str]) -> None:
    """A damaged file is refused from the line on that cannot be read."""
    (tmp_path / "x.csv").write_bytes(content)
    landed = read_landing(tmp_path, SECRET)
    assert refusals == [*map(str, landed.refused)]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A damaged Parquet file, a link and a missing directory are named."""
    (tmp_path / "x.parquet").write_bytes(b"PAR1 planted PAR1")
    (tmp_path / "y.csv").symlink_to(tmp_path / "x.parquet")
    refusals = [*map(str, read_landing(tmp_path, SECRET).refused)]
    assert [
        "x.parquet: is not a Parquet file that can be read",
        "y.csv: is not a regular file",
    ] == refusals
    with pytest.raises(PolicyError, match="missing"):
        read_landing(tmp_path / "missing", SECRET)


def test_the_store_keeps_no_key(tmp_path: Path) -> None:
    """What is written is read again; the file has mode 0600 and not the key."""
    requests = (request(decoded=True), request(id="r-2", filter=None, forms=()))
    assert () == read_store(tmp_path / "store", SECRET)
    path = write_store(tmp_path / "store", requests, SECRET)
    assert requests == read_store(tmp_path / "store", SECRET)
    assert PLANTED.encode() not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [STORE] == [one.name for one in (tmp_path / "store").iterdir()]


def test_another_secret_or_a_damaged_store(tmp_path: Path) -> None:
    """HMACs of two secrets cannot be compared, and a damaged line is never skipped."""
    path = write_store(tmp_path, [request()], SECRET)
    with pytest.raises(PolicyError, match="another secret"):
        read_store(tmp_path, Secret.of(b"t" * 32))
    content = path.read_text()
    for damaged in (content.replace('"hmac"', '"hmacs"'), content + "x", content[:-20], ""):
        path.write_text(damaged)
        with pytest.raises(PolicyError, match="damaged"):
            read_store(tmp_path, SECRET)


def test_stored_topics_that_cannot_be_matched(tmp_path: Path) -> None:
    """An earlier version stored patterns of another syntax: they are named, never left out."""
    kept = request(id="r-9")
    write_store(tmp_path, [request(topics="regex:(a)\\1"), request(id="r-2", topics=".")], SECRET)
    with pytest.raises(PolicyError, match="2 stored requests cannot be matched: r-1 is not a"):
        read_store(tmp_path, SECRET)
    write_store(tmp_path, [kept], SECRET)
    assert (kept,) == read_store(tmp_path, SECRET)


def test_a_request_may_get_another_deadline_but_not_another_key() -> None:
    """An id stands for one key in the same topics."""
    later = request(deadline_ms=RECEIVED_MS + 2000)
    other = request(id="r-0")
    assert (other, later) == merge([request()], [later, other])
    for changed in (request(topics="t"), request(hmac=bytes(32))):
        with pytest.raises(PolicyError, match="r-1"):
            merge([request()], [changed])
